"""Finds the parts of an export by the content of the files that a person names; reports what is left out."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import msgspec

from pipeline import storage
from pipeline.errors import UnreadableExport, UsageError
from pipeline.extractors import archives
from pipeline.extractors.beside import beside
from pipeline.extractors.containers import BUFFER_BYTES, broken
from pipeline.extractors.file_rules import COLUMNS, ESCAPE, HEADER, NO_RULES, FileRules
from pipeline.extractors.folder_values import Values, folder_values
from pipeline.extractors.formats import excel, format_of
from pipeline.extractors.header import NO_HEADER, UNSURE_ESCAPES
from pipeline.extractors.manifests import LEFT_OUT
from pipeline.extractors.named_files import (
    HIDDEN,
    MARKER,
    File,
    files_of,
    natural,
    printable,
    shown,
    why_ignored,
    without_numbers,
)
from pipeline.extractors.patterns import matches
from pipeline.extractors.sniffing import TEXT, Content, NoRows, sniff
from pipeline.extractors.stream import digest_of
from pipeline.models import Dialect, Notice, Part, Source, Step
from pipeline.text import are

SAME_FILE = "same_file"
"""The code of the notice about a file with the same bytes as another."""
_MOST_ALIKE = 1_000
"""At most this many notices are kept about files left out for the same reason; others are only counted."""
_COUNTED = ("ignored_file", "empty_file")
_UNIFORM = (HIDDEN, MARKER)
"""For these reasons, one notice with the number of files is enough."""
_DEFAULT = Dialect()


class _Search(msgspec.Struct):
    """The results so far: parts with their sizes, notices. `rules` are declarations about the files."""

    rules: FileRules = NO_RULES
    parts: list[tuple[Part, int]] = msgspec.field(default_factory=list)
    notes: list[Notice] = msgspec.field(default_factory=list)
    files: set[str] = msgspec.field(default_factory=set)
    copies: list[tuple[Part, int, str]] = msgspec.field(default_factory=list)
    counts: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    dialects: dict[Dialect, Dialect] = msgspec.field(default_factory=dict)
    without_rows: list[tuple[str, str]] = msgspec.field(default_factory=list)

    def wants(self, path: str) -> bool:
        """Whether the rules include a path; a Notice reports a file that they exclude."""
        if not matches(path, self.rules.skip):
            return True
        self.note(LEFT_OUT, path, "the mapping leaves such files out (`files: skip`)")
        return False

    def wants_file(self, file: File, path: str) -> bool:
        """The same for a file; each file is wanted only once."""
        real = file.path if storage.is_remote(file.path) else os.path.realpath(file.path)
        if real in self.files:
            self.note(SAME_FILE, path, "given twice; read once")
            return False
        self.files.add(real)
        return self.wants(path)

    def note(self, code: str, where: str, detail: str) -> None:
        if code in _COUNTED:
            self.counts[code, detail] += 1
            if self.counts[code, detail] > (1 if detail in _UNIFORM else _MOST_ALIKE):
                return
        self.notes.append(Notice(code, where, detail))

    def note_others(self, root: str) -> None:
        """Adds the number of files that have no Notice of their own."""
        for (code, detail), count in self.counts.items():
            if detail in _UNIFORM and count > 1:
                at = next(n for n, note in enumerate(self.notes) if (note.code, note.detail) == (code, detail))
                self.notes[at] = self.notes[at]._replace(detail=f"{detail}; so {are(count - 1)} {count - 1:,} more")
            elif count > _MOST_ALIKE:
                self.notes.append(Notice(code, printable(root), f"{count - _MOST_ALIKE:,} more files: {detail}"))


def open_source(
    paths: Sequence[str],
    *,
    spool: Path | None = None,
    rules: FileRules = NO_RULES,
    step: Step = lambda name, done, total: None,
) -> Source:
    """The parts of an export, from files, folders, globs, archives, URLs in a store, and `-` for standard input.

    Each file is recognised by its content. Folders are read in natural order (`2024-1-1_9` before `2024-1-1_10`);
    members of an archive are separate parts. A file that is left out has a Notice (`ignored_file`, `empty_file`,
    `same_file`), and so has a guess that a person may want to check (`dialect`, `encoding`, `duplicate_column`,
    `outside_name`). Standard input is saved as `spool`/stdin, because a plan must be able to read its source again.

    `rules` are declarations about the files. If they do not say whether delimited files start with the names of their
    columns, a first row of values is read as a row, its columns are called `column_1`, `column_2` and so on, and a
    Notice (`no_header`) says so. `step` is called with the MB read of files of equal size, which may be copies.

    Raises UsageError if no path is named or nothing is there, UnreadableExport for a missing, damaged or foreign file.
    """
    if not paths:
        raise UsageError("no export is named", hint="name files, folders or globs, or - for standard input")
    search = _Search(rules)
    files, root = files_of(paths, spool, search.note, step)
    if not files and not search.notes:
        raise UsageError(f"there are no files in {', '.join(paths)}", hint="check the path; is the download finished?")
    wanted = [file for file in files if search.wants_file(file, shown(file.path, root))]
    del files
    for number, (file, head) in enumerate(zip(wanted, _heads(wanted), strict=True), 1):
        _add_file(file, shown(file.path, root), head, search)
        if not number % 1_000:
            step("files recognised", number, len(wanted))
    del wanted
    unread = _settle_texts(search)
    search.note_others(root)
    if not search.parts and not any(note.code == "empty_file" for note in search.notes):
        reasons = "; ".join(f"{note.where}: {note.detail}" for note in search.notes[:5])
        raise UsageError(
            f"there is nothing to read in {', '.join(paths)} ({reasons})", hint="name the files of the export"
        )
    distinct = _without_copies(search, step)
    parts = tuple(replace(part, index=index) for index, (part, _) in enumerate(distinct))
    sizes = tuple(size for _, size in distinct)
    return Source(parts, tuple(search.notes), sizes, tuple(search.copies), unread=unread)


def _heads(files: Sequence[File]) -> Iterable[bytes | OSError | None]:
    """The beginning of each object, which is usually enough to recognise it."""
    if not any(storage.is_remote(file.path) for file in files):
        return repeat(None, len(files))
    sizes = ((file.path, file.status.size if file.status else 0) for file in files)
    return storage.heads(sizes, storage.SMALL_BYTES)


# -- from a file to parts ----------------------------------------------------------------------------------


def _add_file(found: File, shown: str, head: bytes | OSError | None, search: _Search) -> None:
    """The parts of a file. `head` is its first bytes if they were read before, or why they cannot be read."""
    file, named, status = found
    try:
        if isinstance(head, OSError):
            raise head
        status = status or storage.status(file)
        if not storage.is_remote(file) and not os.path.isfile(file):
            if not named:
                search.note("ignored_file", shown, "neither a file nor a folder")
                return
            raise UsageError(f"{shown} is neither a file nor a folder", hint="pipe it in: cat FILE | backcast … -")
        with storage.opened(file, status.size, head=head or b"") as stream:
            content = sniff(stream, shown, rules=search.rules, beside=partial(beside, file, shown, ()))
    except OSError as error:
        raise broken(error, shown) from error
    # All of a small object is in memory: it need not be requested again for its digest.
    digest = hashlib.sha256(head).hexdigest() if head and len(head) == status.size else ""
    template = Part(0, shown, file, "", (), "", _DEFAULT, status.size, status.mtime_ns, etag=status.etag)
    if isinstance(content, Content) and content.archive:
        if content.archive == "zip" and (book := excel.workbook(file, shown, search.rules)):
            sheet = Content((), excel.NAME, book) if book.dialect.header else NoRows("an empty sheet", empty=True)
            _add(sheet, replace(template, digest=digest), status.size, search, named=named)
            return
        _add_members(template, (*content.codecs, content.archive), search)
    else:
        _add(content, replace(template, digest=digest), status.size, search, named=named)


def _add_members(template: Part, codecs: tuple[str, ...], search: _Search) -> None:
    """The members of an archive as parts: in natural order, or for a compressed tar in the tar's own order."""
    first, empty = len(search.parts), True
    for member in archives.members(template.file, template.path, codecs):
        empty = False
        if member.name == "[Content_Types].xml":
            raise UnreadableExport(
                f"{template.path} is an Office document, but not an Excel workbook (.xlsx)",
                path=template.path,
                hint="save the sheet as .xlsx or CSV first",
            )
        shown = f"{template.path}!{printable(member.name)}"
        steps = member.name.split("/")
        reasons = [why_ignored(name, member.size) for name in reversed(steps) if name not in ("", ".", "..")]
        if why := next(filter(None, reasons), ""):
            search.note("ignored_file", shown, why)
            continue
        if not search.wants(shown):
            continue
        if member.stream is None:
            search.note("ignored_file", shown, "a link, not a file")
            continue
        if ".." in steps:
            search.note("outside_name", shown, "its name leads out of the archive; it is read but not unpacked")
        content = sniff(
            member.stream,
            shown,
            inside=codecs[-1],
            rules=search.rules,
            beside=partial(beside, template.file, shown, codecs),
        )
        part = replace(template, path=shown, member=member.name, codecs=codecs)
        _add(content, part, member.size, search, named=False)
    if empty:
        search.note("empty_file", template.path, f"a {codecs[-1]} archive without files")
    if len(codecs) == 1:
        search.parts[first:] = sorted(search.parts[first:], key=lambda entry: natural(entry[0].path))


def _add(content: Content | NoRows, part: Part, size: int, search: _Search, *, named: bool) -> None:
    """Adds one stream as a part, or a Notice that says why it has no rows."""
    if isinstance(content, NoRows):
        if content.empty or content.why == "nothing but blank lines":
            search.note("empty_file", part.path, content.why or "not a single byte")
        elif named:
            raise UnreadableExport(f"{part.path} is {content.why}", path=part.path, hint="name the files of the export")
        elif content.text:  # another file may show how to read it
            search.parts.append((replace(part, codecs=(*part.codecs, *content.codecs)), size))
        else:
            search.without_rows.append((part.path, content.why))
        return
    recognized = content.recognized
    part = replace(part, codecs=(*part.codecs, *content.codecs), format=content.format, dialect=recognized.dialect)
    part = as_declared(part, search.rules)
    # Most files of an export are alike.
    part = replace(part, dialect=search.dialects.setdefault(part.dialect, part.dialect))
    for code, detail in format_of(part).notices(part, recognized):
        search.note(code, part.path, detail)
    search.parts.append((part, size))


def as_declared(part: Part, rules: FileRules) -> Part:
    """The part with the columns that its folders name, and what rules say about its values."""
    declared = {
        "folders": folder_values(part) if rules.folders != "no" else (),
        "integers": rules.integers,
        "nan": rules.nan,
    }
    changes: dict[str, Any] = {
        name: value or msgspec.UNSET for name, value in declared.items()
        if (value or msgspec.UNSET) != getattr(part.dialect, name)
    }  # fmt: skip
    return replace(part, dialect=replace(part.dialect, **changes)) if changes else part


def _settle_texts(search: _Search) -> tuple[str, ...]:
    """Reads each text without a recognisable format like files whose names differ only in numbers, so that its rows
    count, if only as rejects. Files that remain without rows are left out, each with a Notice. Returns those of them
    that are named like files that are read."""
    if not search.without_rows and all(part.format for part, _ in search.parts):
        return ()
    examples: dict[str, Part] = {}
    kinds = {_kind(part.path) for part, _ in search.parts if part.format}
    for part, _ in search.parts:
        if part.format in ("csv", "jsonl") and not part.dialect.encoding.startswith(("utf-16", "utf-32")):
            examples.setdefault(without_numbers(part.path), part)
    found, search.parts = search.parts, []
    for part, size in found:
        if not part.format and (example := examples.get(without_numbers(part.path))):
            # Its first row may or may not be a header, which is recognised among rows.
            dialect = replace(example.dialect, bom=False, headless=bool(example.dialect.header))
            part = as_declared(replace(part, format=example.format, dialect=dialect), search.rules)
            search.note("dialect", part.path, f"its format is unclear; read like {example.path}, because of its name")
        if part.format:
            search.parts.append((part, size))
        else:
            search.without_rows.append((part.path, TEXT))
    named = {without_numbers(part.path) for part, _ in search.parts}
    for path, why in search.without_rows:
        search.note("ignored_file", path, why)
    return tuple(path for path, _ in search.without_rows if without_numbers(path) in named or _kind(path) in kinds)


def _kind(path: str) -> tuple[str, str]:
    """The folder of a file or its archive, with numbers masked, and the ending of its name, else its name."""
    cut = max(path.rfind("/"), path.rfind("!")) + 1
    ending = os.path.splitext(path[cut:])[1].lower()
    return without_numbers(path[:cut]), ending if ending.strip(".-_0123456789") else path[cut:]


def refuse_unnamed(source: Source) -> None:
    """Raises UnreadableExport if the operator has to say how a file is written: if it seems to have no header, so that
    columns would be missing or a row lost, or if its backslashes may be escapes."""
    if unsure := next((note for note in source.notes if note.code == UNSURE_ESCAPES), None):
        raise UnreadableExport(
            f"the backslashes in {unsure.where} may be database escapes or plain text; the cells do not show which",
            path=unsure.where,
            hint=f"--set {ESCAPE}='\\' decodes them as escapes (\\t is a tab, \\\\ a backslash);"
            f" --set {ESCAPE}=none keeps them as text",
        )
    unnamed = [note for note in source.notes if note.code == NO_HEADER]
    if unnamed:
        first = unnamed[0]
        more = f" (and {len(unnamed) - 1:,} more files)" if len(unnamed) > 1 else ""
        raise UnreadableExport(
            f"{first.where} seems to have no header{more}: {first.detail.partition(', so ')[0]}",
            path=first.where,
            hint=f"--set {HEADER}=no reads that row as data and calls the columns column_1, column_2 and so on;"
            f" --set {COLUMNS}=NAME,NAME,… names the columns; --set {HEADER}=yes reads that row as their names",
        )


def _without_copies(search: _Search, step: Step) -> list[tuple[Part, int]]:
    """The parts and their sizes, without those that have the same stored bytes and the same folder values as an earlier
    part. Only files of equal size are compared."""
    parts_of_size = Counter(size for _, size in search.parts)
    distinct: list[tuple[Part, int]] = []
    paths: dict[tuple[str, Values], str] = {}
    total = sum(size for part, size in search.parts if parts_of_size[size] > 1 and not part.digest)
    done = 0

    def read() -> bool:
        nonlocal done
        done += BUFFER_BYTES
        step("MB of files of one size", min(done, total) // 1_000_000, total // 1_000_000)
        return False

    for part, size in search.parts:
        if parts_of_size[size] > 1:
            part = part if part.digest else replace(part, digest=digest_of(part, read))
            content = part.digest, folder_values(part)
            if content in paths:
                search.copies.append((part, size, paths[content]))
                search.note(SAME_FILE, part.path, f"the same bytes as {paths[content]}; read once")
                continue
            paths[content] = part.path
        distinct.append((part, size))
    return distinct
