"""Find the parts of an export: files, folders, globs, archives, standard input. Tell what is left out."""

from __future__ import annotations

import glob
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipeline.errors import UnreadableExport, UsageError
from pipeline.extractors import archives
from pipeline.extractors.containers import broken
from pipeline.extractors.formats import format_of
from pipeline.extractors.header import NO_HEADER, SETTING
from pipeline.extractors.plan_detection import is_plan
from pipeline.extractors.sniffing import Found, NoRows, sniff
from pipeline.extractors.stream import digest_of
from pipeline.models import Dialect, Notice, Part, Source

MARKERS = re.compile(r"_SUCCESS|_(committed|started)_.*|_(common_)?metadata|__MACOSX|Thumbs\.db")
"""Names of what writers leave beside an export: never rows of their own."""
SMALL_MARKERS = re.compile(r".*_complete|.*\.crc")
SMALL_BYTES = 64 * 1024
"""Names that an export could also have: a marker when no larger than this, else looked at like any file."""


@dataclass(slots=True)
class _Search:
    """What was found so far. `header` is what people say of the headers of delimited files: yes, no or nothing."""

    header: str = ""
    parts: list[Part] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    notes: list[Notice] = field(default_factory=list)
    files: set[str] = field(default_factory=set)

    def note(self, code: str, where: str, detail: str) -> None:
        self.notes.append(Notice(code, where, detail))


@dataclass(frozen=True, slots=True)
class _File:
    file: str
    named: bool


def open_source(paths: Sequence[str], *, spool: Path | None = None, header: str = "") -> Source:
    """See `pipeline.extractors.open_source`."""
    if not paths:
        raise UsageError("no export was named", hint="name files, folders or globs, or - for standard input")
    search = _Search(header)
    found: list[_File] = []
    roots: list[str] = []
    for path in paths:
        root, files = _expand(path, spool, search)
        roots.append(root)
        found.extend(files)
    if not found and not search.notes:
        raise UsageError(f"nothing was found in {', '.join(paths)}", hint="name the export's own folder")
    root = os.path.commonpath(roots)
    for item in sorted(found, key=lambda item: natural(_shown(item.file, root))):
        _look(item, _shown(item.file, root), search)
    if not search.parts and not any(note.code == "empty_file" for note in search.notes):
        seen = "; ".join(f"{note.where}: {note.detail}" for note in search.notes[:5])
        what = f"nothing to read was found in {', '.join(paths)} ({seen})"
        raise UsageError(what, hint="name the export itself")
    kept = _without_copies(search)
    parts = tuple(replace(part, index=index) for index, (part, _) in enumerate(kept))
    return Source(parts, tuple(search.notes), tuple(size for _, size in kept))


def natural(path: str) -> tuple[tuple[int, int, str], ...]:
    """A sorting key in which numbers count as numbers: `2024-1-1_9` stands before `2024-1-1_10`."""
    pieces = re.split(r"([0-9]+)", path)
    keys = ((1, int(piece), "") if at % 2 else (0, 0, piece) for at, piece in enumerate(pieces))
    return (*keys, (2, 0, path))


# -- from what was named to files --------------------------------------------------------------------------


def _expand(path: str, spool: Path | None, search: _Search) -> tuple[str, list[_File]]:
    """(the folder that shown paths are relative to, the files) of one argument."""
    if path == "-":
        file = _spooled(spool)
        return os.path.dirname(file), [_File(file, named=True)]
    if os.path.isdir(path):
        if is_plan(Path(path)):
            raise UsageError(f"{_printable(path)} is a plan of backcast, not an export", hint="name the export itself")
        return os.path.abspath(path), list(_walk(path, search))
    if os.path.lexists(path):
        return os.path.dirname(os.path.abspath(path)), [_File(os.path.abspath(path), named=True)]
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
                files.append(_File(os.path.abspath(match), named=False))
        return os.path.commonpath(folders), files
    raise UnreadableExport(f"{path} does not exist", path=path, hint="check the path, or fetch it first")


def _spooled(spool: Path | None) -> str:
    """Standard input as a file, because a plan reads its source again when it is applied."""
    if spool is None:
        raise UsageError("standard input has no place to be kept", hint="name a file, or a folder with -o")
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
    seen: set[str] = set()

    def fail(error: OSError) -> None:
        raise broken(error, error.filename or folder, 0)

    for here, folders, files in os.walk(os.path.abspath(folder), followlinks=True, onerror=fail):
        real = os.path.realpath(here)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not _is_marker(os.path.join(here, name), search)]
        for name in files:
            file = os.path.join(here, name)
            if not _is_marker(file, search):
                yield _File(file, named=False)


def _is_marker(file: str, search: _Search) -> bool:
    """Whether a file (or folder) met while looking around is left out by its name; told by a Notice."""
    name = os.path.basename(file)
    if name == "_delta_log" and os.path.isdir(file):
        raise UnreadableExport(
            f"{os.path.dirname(file)} is a Delta table, whose files also hold rows that were deleted",
            path=file,
            hint="write the table as plain Parquet first, and name that",
        )
    if os.path.isdir(file) and is_plan(Path(file)):
        search.note("ignored_file", _printable(file), "a plan of backcast, not an export")
        return True
    if name.startswith("."):
        search.note("ignored_file", _printable(file), "its name begins with a dot")
        return True
    if _is_marker_name(name, os.path.getsize(file) if os.path.isfile(file) else 0):
        search.note("ignored_file", _printable(file), "a marker that writers leave beside an export")
        return True
    return False


def _is_marker_name(name: str, size: int) -> bool:
    return bool(MARKERS.fullmatch(name) or (SMALL_MARKERS.fullmatch(name) and size <= SMALL_BYTES))


def _shown(file: str, root: str) -> str:
    return _printable(os.path.relpath(file, root).replace(os.sep, "/"))


def _printable(path: str) -> str:
    """A path as text that any report can hold: bytes of a name that are no UTF-8 appear as escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


# -- from a file to parts ----------------------------------------------------------------------------------


def _look(item: _File, shown: str, search: _Search) -> None:
    real = os.path.realpath(item.file)
    if real in search.files:
        search.note("same_file", shown, "given twice; read once")
        return
    search.files.add(real)
    try:
        status = os.stat(item.file)
        if not os.path.isfile(item.file):
            if not item.named:
                search.note("ignored_file", shown, "neither a file nor a folder")
                return
            raise UsageError(f"{shown} is neither a file nor a folder", hint="pipe it in, and name it -")
        with open(item.file, "rb") as stream:
            found = sniff(stream, shown, header=search.header)
    except OSError as error:
        raise broken(error, shown, 0) from error
    template = Part(0, shown, item.file, "", (), "", Dialect(), status.st_size, status.st_mtime_ns)
    if isinstance(found, Found) and found.archive:
        _look_inside(template, (*found.codecs, found.archive), search)
    else:
        _take(found, template, status.st_size, search, named=item.named)


def _look_inside(template: Part, codecs: tuple[str, ...], search: _Search) -> None:
    """The members of an archive as parts; in natural order, but a compressed tar's in the tar's own."""
    taken = _Search(search.header)
    office = False
    count = 0
    for member in archives.members(template.file, template.path, codecs):
        count += 1
        office = office or member.name == "[Content_Types].xml"
        shown = f"{template.path}!{_printable(member.name)}"
        steps = member.name.split("/")
        if any(_hidden(name, member.size) for name in steps if name not in ("", ".", "..")):
            taken.note("ignored_file", shown, "a hidden file or a marker that writers leave beside an export")
            continue
        if office:
            break
        if member.stream is None:
            taken.note("ignored_file", shown, "a link, not a file")
            continue
        if ".." in steps:
            taken.note("outside_name", shown, "its name leads out of the archive; it is read, and unpacked nowhere")
        found = sniff(member.stream, shown, inside=codecs[-1], header=search.header)
        part = replace(template, path=shown, member=member.name, codecs=codecs)
        _take(found, part, member.size, taken, named=False)
    if office:
        raise UnreadableExport(
            f"{template.path} is an Excel or other Office document",
            path=template.path,
            hint="save the sheet as CSV first",
        )
    if not count:
        search.note("empty_file", template.path, f"a {codecs[-1]} archive without a file")
    order = list(range(len(taken.parts)))
    if len(codecs) == 1:
        order.sort(key=lambda place: natural(taken.parts[place].path))
    search.parts.extend(taken.parts[place] for place in order)
    search.sizes.extend(taken.sizes[place] for place in order)
    search.notes.extend(taken.notes)


def _hidden(name: str, size: int) -> bool:
    return name.startswith(".") or _is_marker_name(name, size)


def _take(found: Found | NoRows, part: Part, size: int, search: _Search, *, named: bool) -> None:
    """One stream that was looked at: a part, or a Notice why it is none."""
    if isinstance(found, NoRows):
        if found.empty or found.why == "nothing but blank lines":
            search.note("empty_file", part.path, found.why or "not a single byte")
        elif named:
            raise UnreadableExport(f"{part.path} is {found.why}", path=part.path, hint="name the export itself")
        else:
            search.note("ignored_file", part.path, found.why)
        return
    part = replace(part, codecs=(*part.codecs, *found.codecs), format=found.format, dialect=found.recognized.dialect)
    for code, detail in format_of(part).notices(part, found.recognized):
        search.note(code, part.path, detail)
    search.parts.append(part)
    search.sizes.append(size)


def refuse_unnamed(source: Source) -> None:
    """See `pipeline.extractors.refuse_unnamed`."""
    unnamed = [note for note in source.notes if note.code == NO_HEADER]
    if unnamed:
        first = unnamed[0]
        more = f" (and {len(unnamed) - 1:,} more files)" if len(unnamed) > 1 else ""
        raise UnreadableExport(
            f"{first.where} seems to have no header{more}: {first.detail.partition(', so ')[0]}",
            path=first.where,
            hint=f"--set {SETTING}=no reads that row as a row and calls the columns column_1, column_2 and so on;"
            f" --set {SETTING}=yes takes it for their names",
        )


def _without_copies(search: _Search) -> list[tuple[Part, int]]:
    """The parts and their sizes, without those whose stored bytes equal an earlier part's: only equal sizes are
    compared."""
    by_size: dict[int, int] = {}
    for size in search.sizes:
        by_size[size] = by_size.get(size, 0) + 1
    kept: list[tuple[Part, int]] = []
    first: dict[str, str] = {}
    for part, size in zip(search.parts, search.sizes, strict=True):
        if by_size[size] > 1:
            part = replace(part, digest=digest_of(part))
            if part.digest in first:
                search.note("same_file", part.path, f"the same bytes as {first[part.digest]}; read once")
                continue
            first[part.digest] = part.path
        kept.append((part, size))
    return kept
