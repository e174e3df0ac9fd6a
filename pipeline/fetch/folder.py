"""The folder of a fetch: one file per window, and the manifest that says which of them are complete.

A window's file is downloaded under a temporary name that begins with a dot, made durable and renamed; only then is the
manifest replaced, atomically. So a file counts once the manifest names it. A kill at any point leaves a folder that the
same command continues with, and that `plan` refuses until no window is left (`pipeline.extractors.fetched`).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from pipeline.errors import Busy, UnreadableExport, UsageError
from pipeline.extractors.fetched import (
    KEPT,
    MANIFEST,
    NEW,
    FetchedPage,
    FetchedWindow,
    FetchManifest,
    read_manifest,
    refuse_changed,
)
from pipeline.fetch.tool import DAY, MORE, Fetched, Page, Window, seconds_of, stamp
from pipeline.files import sync_folder, write_json

_SETTINGS = {
    "tool": "tool", "host": "--from", "project": "--project", "since": "--since", "until": "--until",
    "window": "--window", "count": "--no-count", "extras": "--with", "uuids": "the list of --uuids",
    "by": "--by",
}  # fmt: skip
_PARTIAL = ".part"
_OURS = (NEW, _PARTIAL, _PARTIAL + MORE)
_LABEL = r"(\d{4}-\d\d-\d\d|\d{8}T\d{6}_\d{8}T\d{6})"
"""What `_label` returns."""


Entry = TypeVar("Entry", FetchedWindow, FetchedPage)


class Folder:
    """The folder of one fetch while it is open. `left` are the windows still to fetch, in order of time."""

    def __init__(self, path: Path, manifest: FetchManifest) -> None:
        self.path = path
        self.manifest = manifest
        self.left = [Window(seconds_of(since), seconds_of(until)) for since, until in manifest.left]

    def partial(self) -> Path:
        return self.path / _PARTIAL

    def reopen(self) -> None:
        """If nothing is left, that of which the tool counts more than it gave is: it may be whole now."""
        self.left = self.left or [
            Window(seconds_of(one.since), seconds_of(one.until)) for one in self.manifest.windows if one.fewer
        ]
        pages = self.manifest.pages
        if short := tuple(one.of for one in pages if one.fewer and not self.manifest.waiting):
            self._write(pages=tuple(one for one in pages if one.of not in short), waiting=short)
            _remove_unnamed(self)

    def divide(self, pieces: Sequence[Window]) -> None:
        """Replace the first remaining window with these, durably."""
        self._forget()
        self.left[:1] = pieces
        self._write()

    def _forget(self) -> None:
        """Forget, durably, what an earlier run fetched for the first remaining window."""
        for one in self.manifest.windows:
            if one.since == stamp(self.left[0].since):
                self._write(windows=tuple(other for other in self.manifest.windows if other is not one))
                if one.file:
                    (self.path / one.file).unlink(missing_ok=True)

    def commit(self, fetched: Fetched) -> None:
        """Keep what the first remaining window gave, durably; the window then counts as fetched. If an earlier run got
        as much of a window that the tool still does not give whole, that stays."""
        window = self.left[0]
        before = next((one.rows for one in self.manifest.windows if one.since == stamp(window.since)), -1)
        if fetched.fewer and fetched.rows <= before:
            self.left.pop(0)
            self.partial().unlink(missing_ok=True)
            self._write()
            return
        self._forget()
        self.left.pop(0)
        counted = None if fetched.counted is None else sum(fetched.counted.values())
        entry = FetchedWindow(
            since=stamp(window.since), until=stamp(window.until), rows=fetched.rows, counted=counted,
            fewer=tuple(fetched.fewer[:20]),
        )  # fmt: skip
        if fetched.rows:
            entry = self._named(entry, f"{self.manifest.tool}-{_label(window)}{fetched.suffix}")
        else:
            self.partial().unlink(missing_ok=True)
        self._write(windows=tuple(sorted((*self.manifest.windows, entry), key=lambda one: one.since)))

    def commit_page(self, page: Page, *, fewer: bool) -> None:
        """Keep the next page of the first that waits, durably. Without a cursor it is the last one."""
        before = self.manifest
        of, waiting = before.waiting[0], before.waiting
        entry = FetchedPage(of=of, rows=page.rows, key=page.key, counted=page.counted, fewer=fewer)
        if page.rows:
            self.partial().write_bytes(page.content)
            number = sum(one.of == of for one in before.pages)
            label = re.sub(r"[^A-Za-z0-9]+", "-", of)
            kept = "" if page.planned else KEPT
            entry = self._named(entry, f"{kept}{before.tool}-{label}-p{number:05}{page.suffix}")
        if not page.cursor:
            waiting = (*page.more, *waiting[1:])
        self._write(pages=(*before.pages, entry), waiting=waiting, cursor=page.cursor)

    def begin_again(self) -> None:
        """Give up all pages of the first that waits, durably."""
        of = self.manifest.waiting[0]
        self._write(pages=tuple(one for one in self.manifest.pages if one.of != of), cursor="")
        _remove_unnamed(self)

    def _named(self, entry: Entry, name: str) -> Entry:
        """The partial file under its name, durably; and its entry with its name, length and digest."""
        partial = self.partial()
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        digest, size = digest_of(partial), partial.stat().st_size
        partial.replace(self.path / name)
        sync_folder(self.path)
        return msgspec.structs.replace(entry, file=name, bytes=size, digest=digest)

    def _write(self, **changes: object) -> None:
        left = tuple((stamp(window.since), stamp(window.until)) for window in self.left)
        self.manifest = msgspec.structs.replace(self.manifest, left=left, **changes)
        write_json(self.path / MANIFEST, self.manifest)


@contextmanager
def opened(path: Path, fresh: FetchManifest) -> Iterator[Folder]:
    """The folder of a fetch, created or continued; no other process may use it meanwhile.

    `fresh` is the manifest of a fetch that has not begun. Raises UsageError if the folder has other files, Busy if
    another process fetches into it, UnreadableExport if a fetched file is gone or changed.
    """
    path.mkdir(parents=True, exist_ok=True)
    lock = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Busy(
                f"another process is fetching into {path}", hint="wait for it, or choose another folder with --out"
            ) from None
        manifest = read_manifest(str(path))
        if manifest is None:
            others = sorted({entry.name for entry in path.iterdir()} - {*_OURS})
            if others:
                raise UsageError(
                    f"{path} contains other files, such as {others[0]}", hint="choose a new folder with --out"
                )
            folder = Folder(path, fresh)
            folder._write()
        else:
            _refuse_other(path, manifest, fresh)
            refuse_changed(str(path), manifest)
            folder = Folder(path, manifest)
            _remove_unnamed(folder)
        yield folder
    finally:
        os.close(lock)


def _refuse_other(path: Path, manifest: FetchManifest, fresh: FetchManifest) -> None:
    for name, option in _SETTINGS.items():
        before, now = getattr(manifest, name), getattr(fresh, name)
        if before != now:
            was, new = ((",".join(one) if isinstance(one, tuple) else one) or "none" for one in (before, now))
            raise UsageError(
                f"{path} contains a fetch with other options: {option} was {was} and is now {new}",
                hint="give the same options to continue it, or choose another folder with --out",
            )


def _remove_unnamed(folder: Folder) -> None:
    """Remove what a killed fetch left behind: files of windows that the manifest does not have."""
    named = {one.file for one in folder.manifest.all_files}
    tool = folder.manifest.tool
    ours = re.compile(rf"{tool}-{_LABEL}\.(jsonl|jsonl\.gz|zip)|({KEPT})?{tool}-[A-Za-z0-9-]+-p[0-9]{{5,}}\.jsonl?")
    for path in folder.path.iterdir():
        if ours.fullmatch(path.name) and path.name not in named:
            path.unlink()
    for name in _OURS:
        with contextlib.suppress(FileNotFoundError):
            (folder.path / name).unlink()


def check_digests(path: Path, manifest: FetchManifest) -> None:
    """Raise UnreadableExport if a file's digest is not the one in the manifest."""
    for one in manifest.all_files:
        if digest_of(path / one.file) != one.digest:
            raise UnreadableExport(
                f"{path / one.file} has changed since it was fetched",
                path=str(path / one.file),
                hint=f"restore it, or delete the folder {path} and fetch again",
            )


def digest_of(path: Path) -> str:
    """The sha256 of a file as lower-case hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _label(window: Window) -> str:
    """A window as part of a file name, which sorts by time: `2024-01-31`, or `20240131T050000_20240131T060000`."""
    if window.since % DAY == 0 and window.until - window.since == DAY:
        return stamp(window.since)
    return "_".join(datetime.fromtimestamp(edge, UTC).strftime("%Y%m%dT%H%M%S") for edge in window)
