"""The files that a person names: in folders, by patterns, below prefixes of a store, from standard input.

A file that is left out because of its name has a Notice.
"""

from __future__ import annotations

import difflib
import glob
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from pipeline import storage
from pipeline.errors import UnreadableExport, UsageError
from pipeline.extractors.containers import broken
from pipeline.extractors.fetched import KEPT, MANIFEST, NEW, describe_fetched
from pipeline.extractors.plan_detection import has_plan, is_plan
from pipeline.models import Step
from pipeline.text import quoted

Note = Callable[[str, str, str], None]
"""Called with the code, the place and the detail of a Notice."""
_MARKERS = re.compile(r"_SUCCESS|_(committed|started)_.*|_(common_)?metadata|__MACOSX|Thumbs\.db")
"""Files and folders that exporting programs write next to the rows."""
_POSSIBLE_MARKERS = re.compile(r".*_complete|.*\.crc")
_MARKER_BYTES = 64 * 1024
"""Markers that share their names with possible files of an export: files up to this size are markers."""
_MOST_COMPARED = 1_000
"""At most this many names of a folder are compared with a name that does not exist."""


class File(NamedTuple):
    """A file by its absolute path or URL, and whether the command line names the file itself rather than its folder.

    The listing of a store already has its `status`.
    """

    path: str
    named: bool
    status: storage.FileStatus | None = None


def files_of(
    paths: Sequence[str], spool: Path | None, note: Note, step: Step = lambda name, done, total: None
) -> tuple[list[File], str]:
    """The files that were named, in natural order (`2024-1-1_9` before `2024-1-1_10`), and the folder or prefix that
    all of them are in.

    Standard input is saved as `spool`/stdin. `step` is called with the number of objects listed so far. Raises
    UsageError if nothing is there, UnreadableExport for what does not exist or cannot be listed completely.
    """
    files: list[File] = []
    roots: list[str] = []
    for path in paths:
        root, expanded = _expand(path, spool, note, step)
        roots.append(root)
        files.extend(expanded)
    root = _common(roots)
    return sorted(files, key=lambda file: natural(shown(file.path, root))), root


def shown(file: str, root: str) -> str:
    """The path of a file for any report, relative to the root of the export."""
    if storage.is_remote(file) or not root:
        return printable(file[len(root) + 1 :] if root else file)
    return printable(os.path.relpath(file, root).replace(os.sep, "/"))


def printable(path: str) -> str:
    """A path as text for any report: bytes of a name that are not UTF-8 appear as escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


HIDDEN = "its name begins with a dot"
MARKER = "a marker that writers leave next to an export"


def why_ignored(name: str, size: int) -> str:
    """Why a name shows that a file has no rows: writers use it for other files; "" if it does not."""
    if _MARKERS.fullmatch(name) or (_POSSIBLE_MARKERS.fullmatch(name) and size <= _MARKER_BYTES):
        return MARKER
    return HIDDEN if name.startswith(".") else ""


def natural(path: str) -> str:
    """A sorting key in which numbers count as numbers: `2024-1-1_9` comes before `2024-1-1_10`.

    A number follows the number of its digits and a character that sorts before any other, as does the end. The key is a
    string, since there is one for each file of an export.
    """
    name = _LOWEST.sub(lambda match: f"\x03{match[0]}", path) if _LOWEST.search(path) else path
    return _NUMBER.sub(lambda match: f"\0\x01{chr(len(match[1]))}{match[1]}", name) + f"\0\x02{path}"


_NUMBER = re.compile(r"0*([0-9]*)(?<=[0-9])")
_LOWEST = re.compile(r"[\0-\x03]")


def without_numbers(path: str) -> str:
    """A path with the same placeholder for all numbers, all hashes and all values of folders `key=value`."""
    return _NUMBERS.sub("0", path)


_NUMBERS = re.compile(r"(?<==)[^/!]+(?=[/!])|(?<![0-9A-Za-z])[0-9A-Fa-f]{8,}(?:-[0-9A-Fa-f]+)*(?![0-9A-Za-z])|[0-9]+")


def _expand(path: str, spool: Path | None, note: Note, step: Step) -> tuple[str, list[File]]:
    """(the folder that shown paths are relative to, the files) of one argument."""
    if path == "-":
        file = _spooled(spool)
        return os.path.dirname(file), [File(file, True)]
    storage.refuse_foreign(path)
    if storage.is_remote(path):
        return _expand_url(path, note, step)
    if os.path.isdir(path):
        if is_plan(Path(path)):
            hint = f"name the files of the export; to see the plan: backcast status {quoted(path)}"
            raise UsageError(f"{printable(path)} is a plan of backcast, not an export", hint=hint)
        return os.path.abspath(path), list(_walk(path, note))
    if os.path.lexists(path):
        return os.path.dirname(os.path.abspath(path)), [File(os.path.abspath(path), True)]
    if path.startswith("duckdb:"):
        hint = "write its rows with backcast fetch duckdb DATABASE --query SQL -o rows.parquet, and name that file"
        raise UsageError(f"{path} is a query, but a plan reads only files", hint=hint)
    if glob.has_magic(path):
        matches = sorted(glob.glob(path, recursive=True), key=natural)
        if not matches:
            raise UsageError(f"no file matches {path}", hint="check the pattern and the folder")
        folders = [os.path.dirname(os.path.abspath(match)) for match in matches]
        files: list[File] = []
        for match in matches:
            if os.path.isdir(match):
                files.extend(_walk(match, note))
            elif not _is_ignored_here(match, note):
                files.append(File(os.path.abspath(match), False))
        return os.path.commonpath(folders), files
    folder, name = os.path.split(path.rstrip(os.sep))
    names = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
    near = difflib.get_close_matches(name, names[:_MOST_COMPARED], 1)
    hint = f"did you mean {os.path.join(folder, near[0])}?" if near else "check the path, or fetch it first"
    raise UnreadableExport(f"{path} does not exist", path=path, hint=hint)


def _common(roots: Sequence[str]) -> str:
    """The folder or prefix that all of these are in; "" if some are in a store and others on this machine."""
    if not any(map(storage.is_remote, roots)):
        return os.path.commonpath(roots)
    steps = zip(*(root.split("/") for root in roots), strict=False)
    return "/".join(step[0] for step in takewhile(lambda step: len(set(step)) == 1, steps))


# -- on this machine ---------------------------------------------------------------------------------------


def _spooled(spool: Path | None) -> str:
    """Standard input as a file, because planning may read its source more than once."""
    if spool is None:
        raise UsageError("there is no folder to save standard input in", hint="add -o DIR, or name a file instead of -")
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


def _walk(folder: str, note: Note) -> Iterator[File]:
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
        folders[:] = [name for name in folders if not _is_ignored_here(os.path.join(parent, name), note)]
        for name in files:
            file = os.path.join(parent, name)
            if not _is_ignored_here(file, note):
                yield File(file, False)


def _is_ignored_here(file: str, note: Note) -> bool:
    """Whether a file or folder inside a named folder is ignored because of its name; a Notice reports it."""
    if not os.path.isdir(file):
        return _is_ignored(file, os.path.getsize(file) if os.path.isfile(file) else 0, note)
    if is_plan(Path(file)):
        note("ignored_file", printable(file), _PLAN)
        return True
    return _is_ignored_folder(file, note)


# -- in a store --------------------------------------------------------------------------------------------


def _expand_url(url: str, note: Note, step: Step) -> tuple[str, list[File]]:
    """The same for a URL in a store: an object, all objects below a prefix, or those that a pattern matches."""
    is_pattern = glob.has_magic(url)
    root = os.path.dirname(re.split(r"[*?[]", url, maxsplit=1)[0]) if is_pattern else url.rstrip("/")
    listing = _Listing(root, note)
    try:
        for number, (name, status) in enumerate(storage.listed(url), 1):
            if name == url:
                if storage.is_prefix(url):
                    hint = f"name {url}/ for the objects below it, or {url}* for every name that begins so"
                    raise UsageError(f"{url} is an object and also a prefix of others", hint=hint)
                return os.path.dirname(url), [File(url, True, status)]
            listing.add(name, status)
            if not number % 1_000:
                step("objects listed", number, 0)
    except OSError as error:
        raise broken(error, url) from error
    if listing.empty and is_pattern:
        raise UsageError(f"no object matches {url}", hint="check the pattern and the prefix")
    if listing.empty:
        hint = "check the bucket and the prefix; add * to match names that begin like this"
        raise UnreadableExport(f"{url} does not exist, and nothing is below it", path=url, hint=hint)
    files = listing.files()
    if root in listing.plans and not is_pattern:
        raise UsageError(f"{url} is a plan of backcast, not an export", hint="name the files of the export")
    return root, files


class _Listing:
    """The objects below `root`, except those ignored because of their names, each of which has a Notice.

    Nothing is kept about ignored objects: there may be millions.
    """

    def __init__(self, root: str, note: Note) -> None:
        self.empty = True
        self.plans: set[str] = set()
        self._root = root
        self._note = note
        self._files: list[File] = []
        self._ignored: set[str] = set()
        self._folder, self._is_folder_ignored = root, False

    def add(self, url: str, status: storage.FileStatus) -> None:
        self.empty = False
        folder, _, name = url.rpartition("/")
        if folder != self._folder:  # the objects of one prefix follow each other
            self._folder, self._is_folder_ignored = folder, self._is_ignored(folder)
        if self._is_folder_ignored:
            return
        if name == "plan.json":
            self.plans.add(folder)
        if not name:
            self._note("ignored_file", printable(url), "its name ends in a slash, like a folder's")
        elif not _is_ignored(url, status.size, self._note):
            self._files.append(File(url, False, status))

    def files(self) -> list[File]:
        """The remaining files, without plans of backcast."""
        self.plans = {folder for folder in self.plans if has_plan(folder)}
        inner = self.plans - {self._root}
        for folder in sorted(inner):
            if inner.isdisjoint(_folders(os.path.dirname(folder), self._root)):
                self._note("ignored_file", printable(folder), _PLAN)
        if not inner:
            return self._files
        return [file for file in self._files if inner.isdisjoint(_folders(os.path.dirname(file.path), self._root))]

    def _is_ignored(self, folder: str) -> bool:
        for one in reversed([*_folders(folder, self._root)]):
            if one in self._ignored:
                return True
            if _is_ignored_folder(one, self._note):
                self._ignored.add(one)
                return True
        return False


def _folders(folder: str, root: str) -> Iterator[str]:
    """A folder and its parents below the root."""
    while len(folder) > len(root):
        yield folder
        folder = folder.rpartition("/")[0]


# -- what a name says --------------------------------------------------------------------------------------

_PLAN = "a plan of backcast, not an export"


def _is_ignored_folder(folder: str, note: Note) -> bool:
    """Whether the name of a folder says that its files must not be read; a Notice reports it."""
    if os.path.basename(folder) == "_delta_log":
        raise UnreadableExport(
            f"{os.path.dirname(folder)} is a Delta table, whose files also contain deleted rows",
            path=folder,
            hint="write the table as plain Parquet first, then name that",
        )
    return _is_ignored(folder, 0, note)


def _is_ignored(file: str, size: int, note: Note) -> bool:
    """Whether the name of a file says that it has no rows; a Notice reports it."""
    name = os.path.basename(file)
    if name in (MANIFEST, NEW):
        note("ignored_file", printable(file), describe_fetched(os.path.dirname(file)))
    elif name.startswith(KEPT):
        note("ignored_file", printable(file), "kept by a fetch; it has neither events nor profiles to plan")
    elif why := why_ignored(name, size):
        note("ignored_file", printable(file), why)
    else:
        return False
    return True
