"""Finds the parts of an export: files, folders, globs, archives, standard input; reports what is left out."""

from __future__ import annotations

import glob
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pipeline.errors import UnreadableExport, UsageError
from pipeline.extractors import archives
from pipeline.extractors.beside import beside
from pipeline.extractors.containers import BUFFER_BYTES, broken
from pipeline.extractors.fetched import MANIFEST, NEW, describe_fetched
from pipeline.extractors.file_rules import HEADER, NO_RULES, FileRules
from pipeline.extractors.formats import excel, format_of
from pipeline.extractors.header import NO_HEADER
from pipeline.extractors.manifests import LEFT_OUT
from pipeline.extractors.patterns import matches
from pipeline.extractors.plan_detection import is_plan
from pipeline.extractors.sniffing import Content, NoRows, sniff
from pipeline.extractors.stream import digest_of
from pipeline.models import Dialect, Notice, Part, Source, Step

_MARKERS = re.compile(r"_SUCCESS|_(committed|started)_.*|_(common_)?metadata|__MACOSX|Thumbs\.db")
"""Files and folders that exporting programs write beside the rows."""
SAME_FILE = "same_file"
"""The code of the notice about a file with the bytes of another."""
_POSSIBLE_MARKERS = re.compile(r".*_complete|.*\.crc")
_MARKER_BYTES = 64 * 1024
"""Names that an export could also have: they are markers up to this size."""
_File = tuple[str, bool]
"""(absolute path, whether the command line names it and not its folder)."""


@dataclass(slots=True)
class _Search:
    """The results so far: parts, their sizes, notices. `rules` are declarations about the files."""

    rules: FileRules = NO_RULES
    parts: list[Part] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    notes: list[Notice] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    copies: list[tuple[Part, int, str]] = field(default_factory=list)

    def wants(self, path: str) -> bool:
        """Whether the rules include a path; a Notice reports a file that they exclude."""
        if not matches(path, self.rules.skip):
            return True
        self.note(LEFT_OUT, path, "the mapping leaves such files out (`files: skip`)")
        return False

    def note(self, code: str, where: str, detail: str) -> None:
        self.notes.append(Notice(code, where, detail))


def open_source(
    paths: Sequence[str],
    *,
    spool: Path | None = None,
    rules: FileRules = NO_RULES,
    step: Step = lambda name, done, total: None,
) -> Source:
    """The parts of an export, from files, folders, globs, archives, and `-` for standard input.

    Each file is recognised by its content. Folders are read in natural order (`2024-1-1_9` before
    `2024-1-1_10`); members of an archive are parts of their own. A file that is left out has a Notice
    (`ignored_file`, `empty_file`, `same_file`), and so has a guess that a person may want to check
    (`dialect`, `encoding`, `duplicate_column`, `outside_name`). Standard input is saved as `spool`/stdin, because a
    plan must be able to read its source again.

    `rules` are declarations about the files. Where they do not say whether delimited files start with their columns'
    names, a first row of values is reported by a Notice (`no_header`) and read as a row, its columns `column_1`,
    `column_2` and so on. `step` is called with the MB that are read of files of one size, which may be copies.

    Raises UsageError where no path is named or nothing is there, UnreadableExport for a missing, damaged or foreign
    file.
    """
    if not paths:
        raise UsageError("no export was named", hint="name files, folders or globs, or - for standard input")
    search = _Search(rules)
    files: list[_File] = []
    roots: list[str] = []
    for path in paths:
        root, expanded = _expand(path, spool, search)
        roots.append(root)
        files.extend(expanded)
    if not files and not search.notes:
        raise UsageError(f"nothing was found in {', '.join(paths)}", hint="name the export's own folder")
    root = os.path.commonpath(roots)
    for file, named in sorted(files, key=lambda entry: natural(_shown(entry[0], root))):
        _add_file(file, _shown(file, root), search, named=named)
    if not search.parts and not any(note.code == "empty_file" for note in search.notes):
        reasons = "; ".join(f"{note.where}: {note.detail}" for note in search.notes[:5])
        raise UsageError(f"nothing to read was found in {', '.join(paths)} ({reasons})", hint="name the export itself")
    distinct = _without_copies(search, step)
    parts = tuple(replace(part, index=index) for index, (part, _) in enumerate(distinct))
    return Source(parts, tuple(search.notes), tuple(size for _, size in distinct), tuple(search.copies))


def natural(path: str) -> tuple[tuple[int, int, str], ...]:
    """A sorting key in which numbers count as numbers: `2024-1-1_9` comes before `2024-1-1_10`."""
    pieces = re.split(r"([0-9]+)", path)
    keys = ((1, int(piece), "") if number % 2 else (0, 0, piece) for number, piece in enumerate(pieces))
    return (*keys, (2, 0, path))


# -- from what was named to files --------------------------------------------------------------------------


def _expand(path: str, spool: Path | None, search: _Search) -> tuple[str, list[_File]]:
    """(the folder that shown paths are relative to, the files) of one argument."""
    if path == "-":
        file = _spooled(spool)
        return os.path.dirname(file), [(file, True)]
    if os.path.isdir(path):
        if is_plan(Path(path)):
            raise UsageError(f"{_printable(path)} is a plan of backcast, not an export", hint="name the export itself")
        return os.path.abspath(path), list(_walk(path, search))
    if os.path.lexists(path):
        return os.path.dirname(os.path.abspath(path)), [(os.path.abspath(path), True)]
    if path.startswith("duckdb:"):
        hint = "write its rows with backcast fetch duckdb DATABASE --query SQL -o rows.parquet, and name that file"
        raise UsageError(f"{path} is a query, and a plan reads files only", hint=hint)
    if "://" in path:
        raise UsageError(f"{path} is an address, not a path", hint="fetch it into a folder, and name that")
    if glob.has_magic(path):
        matches = sorted(glob.glob(path, recursive=True), key=natural)
        if not matches:
            raise UsageError(f"nothing matches {path}", hint="check the pattern and the folder")
        folders = [os.path.dirname(os.path.abspath(match)) for match in matches]
        files: list[_File] = []
        for match in matches:
            if os.path.isdir(match):
                files.extend(_walk(match, search))
            elif not _is_marker(match, search):
                files.append((os.path.abspath(match), False))
        return os.path.commonpath(folders), files
    raise UnreadableExport(f"{path} does not exist", path=path, hint="check the path, or fetch it first")


def _spooled(spool: Path | None) -> str:
    """Standard input as a file, because a plan reads its source again when it is applied."""
    if spool is None:
        raise UsageError("there is no folder to save standard input in", hint="name a file, or a folder with -o")
    if sys.stdin.isatty():
        raise UsageError("standard input is a terminal", hint="pipe the export in: cat FILE | backcast … -")
    spool.mkdir(parents=True, exist_ok=True)
    target, partial = spool / "stdin", spool / "stdin.partial"
    with partial.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(target)
    return str(target.absolute())


def _walk(folder: str, search: _Search) -> Iterator[_File]:
    """The files under a folder, links followed, no folder twice."""
    visited: set[str] = set()

    def fail(error: OSError) -> None:
        raise broken(error, error.filename or folder)

    for parent, folders, files in os.walk(os.path.abspath(folder), followlinks=True, onerror=fail):
        real = os.path.realpath(parent)
        if real in visited:
            folders.clear()
            continue
        visited.add(real)
        folders[:] = [name for name in folders if not _is_marker(os.path.join(parent, name), search)]
        for name in files:
            file = os.path.join(parent, name)
            if not _is_marker(file, search):
                yield file, False


def _is_marker(file: str, search: _Search) -> bool:
    """Whether a file or folder inside a named folder is ignored for its name, which a Notice reports."""
    name = os.path.basename(file)
    if name == "_delta_log" and os.path.isdir(file):
        raise UnreadableExport(
            f"{os.path.dirname(file)} is a Delta table, whose files also contain deleted rows",
            path=file,
            hint="write the table as plain Parquet first, and name that",
        )
    if os.path.isdir(file) and is_plan(Path(file)):
        search.note("ignored_file", _printable(file), "a plan of backcast, not an export")
        return True
    if name in (MANIFEST, NEW):
        search.note("ignored_file", _printable(file), describe_fetched(Path(file).parent))
        return True
    if name.startswith("."):
        search.note("ignored_file", _printable(file), "its name begins with a dot")
        return True
    if _is_marker_name(name, os.path.getsize(file) if os.path.isfile(file) else 0):
        search.note("ignored_file", _printable(file), "a marker that writers leave beside an export")
        return True
    return False


def _is_marker_name(name: str, size: int) -> bool:
    return bool(_MARKERS.fullmatch(name) or (_POSSIBLE_MARKERS.fullmatch(name) and size <= _MARKER_BYTES))


def _shown(file: str, root: str) -> str:
    return _printable(os.path.relpath(file, root).replace(os.sep, "/"))


def _printable(path: str) -> str:
    """A path as text for any report: bytes of a name that are not UTF-8 appear as escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


# -- from a file to parts ----------------------------------------------------------------------------------


def _add_file(file: str, shown: str, search: _Search, *, named: bool) -> None:
    real = os.path.realpath(file)
    if real in search.files:
        search.note("same_file", shown, "given twice; read once")
        return
    search.files.add(real)
    if not search.wants(shown):
        return
    try:
        status = os.stat(file)
        if not os.path.isfile(file):
            if not named:
                search.note("ignored_file", shown, "neither a file nor a folder")
                return
            raise UsageError(f"{shown} is neither a file nor a folder", hint="pipe it in, and name it -")
        with open(file, "rb") as stream:
            content = sniff(stream, shown, rules=search.rules, beside=partial(beside, file, shown, ()))
    except OSError as error:
        raise broken(error, shown) from error
    template = Part(0, shown, file, "", (), "", Dialect(), status.st_size, status.st_mtime_ns)
    if isinstance(content, Content) and content.archive:
        if content.archive == "zip" and (book := excel.workbook(file, shown, search.rules)):
            found = Content((), excel.NAME, book) if book.dialect.header else NoRows("an empty sheet", empty=True)
            _add(found, template, status.st_size, search, named=named)
            return
        _add_members(template, (*content.codecs, content.archive), search)
    else:
        _add(content, template, status.st_size, search, named=named)


def _add_members(template: Part, codecs: tuple[str, ...], search: _Search) -> None:
    """The members of an archive as parts: in natural order, those of a compressed tar in the tar's own order."""
    inside = _Search(search.rules)
    empty = True
    for member in archives.members(template.file, template.path, codecs):
        empty = False
        if member.name == "[Content_Types].xml":
            raise UnreadableExport(
                f"{template.path} is an Office document, and no Excel workbook (.xlsx)",
                path=template.path,
                hint="save the sheet as .xlsx or CSV first",
            )
        shown = f"{template.path}!{_printable(member.name)}"
        steps = member.name.split("/")
        if any(_is_hidden(name, member.size) for name in steps if name not in ("", ".", "..")):
            inside.note("ignored_file", shown, "a hidden file or a marker that writers leave beside an export")
            continue
        if not inside.wants(shown):
            continue
        if member.stream is None:
            inside.note("ignored_file", shown, "a link, not a file")
            continue
        if ".." in steps:
            inside.note("outside_name", shown, "its name leads out of the archive; it is read, and unpacked nowhere")
        content = sniff(
            member.stream,
            shown,
            inside=codecs[-1],
            rules=search.rules,
            beside=partial(beside, template.file, shown, codecs),
        )
        part = replace(template, path=shown, member=member.name, codecs=codecs)
        _add(content, part, member.size, inside, named=False)
    if empty:
        search.note("empty_file", template.path, f"a {codecs[-1]} archive without a file")
    sized = list(zip(inside.parts, inside.sizes, strict=True))
    if len(codecs) == 1:
        sized.sort(key=lambda entry: natural(entry[0].path))
    search.parts += [part for part, _ in sized]
    search.sizes += [size for _, size in sized]
    search.notes += inside.notes


def _is_hidden(name: str, size: int) -> bool:
    return name.startswith(".") or _is_marker_name(name, size)


def _add(content: Content | NoRows, part: Part, size: int, search: _Search, *, named: bool) -> None:
    """Adds one stream as a part, or a Notice why it has no rows."""
    if isinstance(content, NoRows):
        if content.empty or content.why == "nothing but blank lines":
            search.note("empty_file", part.path, content.why or "not a single byte")
        elif named:
            raise UnreadableExport(f"{part.path} is {content.why}", path=part.path, hint="name the export itself")
        else:
            search.note("ignored_file", part.path, content.why)
        return
    recognized = content.recognized
    part = replace(part, codecs=(*part.codecs, *content.codecs), format=content.format, dialect=recognized.dialect)
    for code, detail in format_of(part).notices(part, recognized):
        search.note(code, part.path, detail)
    search.parts.append(part)
    search.sizes.append(size)


def refuse_unnamed(source: Source) -> None:
    """Raises UnreadableExport where a file seems to have no header and the operator has not declared it: columns that
    a mapping names would be missing, or a row would be lost because it was taken for names."""
    unnamed = [note for note in source.notes if note.code == NO_HEADER]
    if unnamed:
        first = unnamed[0]
        more = f" (and {len(unnamed) - 1:,} more files)" if len(unnamed) > 1 else ""
        raise UnreadableExport(
            f"{first.where} seems to have no header{more}: {first.detail.partition(', so ')[0]}",
            path=first.where,
            hint=f"--set {HEADER}=no reads that row as a row and calls the columns column_1, column_2 and so on;"
            f" --set {HEADER}=yes takes it for their names",
        )


def _without_copies(search: _Search, step: Step) -> list[tuple[Part, int]]:
    """The parts and their sizes, without those whose stored bytes equal an earlier part's: only equal sizes are
    compared."""
    parts_of_size = Counter(search.sizes)
    distinct: list[tuple[Part, int]] = []
    paths: dict[str, str] = {}
    total, done = sum(size for size in search.sizes if parts_of_size[size] > 1), 0

    def read() -> bool:
        nonlocal done
        done += BUFFER_BYTES
        step("MB of files of one size", min(done, total) // 1_000_000, total // 1_000_000)
        return False

    for part, size in zip(search.parts, search.sizes, strict=True):
        if parts_of_size[size] > 1:
            part = replace(part, digest=digest_of(part, read))
            if part.digest in paths:
                search.copies.append((part, size, paths[part.digest]))
                search.note(SAME_FILE, part.path, f"the same bytes as {paths[part.digest]}; read once")
                continue
            paths[part.digest] = part.path
        distinct.append((part, size))
    return distinct
