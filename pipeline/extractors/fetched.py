"""Folders that `backcast fetch` filled: their manifest, and whether all their files are there.

`pipeline.fetch` writes the manifest; reading it here keeps an unfinished fetch from being planned as if it were the
whole export.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import msgspec

from pipeline import storage
from pipeline.errors import UnreadableExport
from pipeline.extractors.containers import broken
from pipeline.text import pluralize

MANIFEST = "backcast-fetch.json"
NEW = MANIFEST + ".new"
"""The manifest while it is being written (`pipeline.files.write_atomically`)."""
FORMAT = "backcast.fetch/1"
KEPT = "backcast-kept-"
"""How the names of fetched files begin that have neither events nor profiles; a plan leaves them out, and says so."""
_AGAIN = "run the same backcast fetch again; it continues where it stopped"


class FetchedWindow(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What one window of a fetch has, from `since` until before `until`, in the tool's own time.

    `file` is "" if the tool has no events there; then `bytes` and `digest` (sha256) are left out. `counted` is the
    tool's own count, None if it has no count or was not asked; `fewer` are the event names (at most 20; "" for all
    together) of which the tool counts more than the file has.
    """

    since: str
    until: str
    rows: int
    file: str = ""
    bytes: int = 0
    digest: str = ""
    counted: int | None = None
    fewer: tuple[str, ...] = ()


class FetchedPage(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One page of something other than events, `of` which the fetch has one or more pages, in their order.

    A page without `rows` has no `file`. `key` is the same for pages with the same rows. `counted` is the tool's own
    count of all rows, None if it gave none. The last page has `fewer` if that is more than the pages have.
    """

    of: str
    rows: int
    key: str = ""
    file: str = ""
    bytes: int = 0
    digest: str = ""
    counted: int | None = None
    fewer: bool = False


class FetchManifest(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The manifest. `left` are the windows that are not fetched yet, and `waiting` what else is not, such as people: a
    complete fetch has none. `cursor` is how the tool is asked for the next page of the first one that waits.

    `extras` are what was asked for besides events, and `uuids` is the sha256 of the events that were, "" for all. The
    windows are `by` the times of events or of their `ingestion`.
    It records no time of day and no retries, so an interrupted fetch ends with the same bytes as an uninterrupted one.
    """

    format: str
    tool: str
    host: str
    project: str
    since: str
    until: str
    count: bool
    window: int
    windows: tuple[FetchedWindow, ...]
    left: tuple[tuple[str, str], ...]
    extras: tuple[str, ...] = msgspec.field(default=(), name="with")
    uuids: str = ""
    by: str = "event"
    pages: tuple[FetchedPage, ...] = ()
    waiting: tuple[str, ...] = ()
    cursor: str = ""

    @property
    def files(self) -> tuple[FetchedWindow, ...]:
        return tuple(one for one in self.windows if one.file)

    @property
    def all_files(self) -> tuple[FetchedWindow | FetchedPage, ...]:
        return (*self.files, *(one for one in self.pages if one.file))


def read_manifest(folder: str) -> FetchManifest | None:
    """The manifest of a folder or prefix, or None. Raises UnreadableExport if it cannot be read."""
    path = os.path.join(folder, MANIFEST)
    try:
        return msgspec.json.decode(storage.read(path), type=FetchManifest)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise broken(error, path) from error
    except msgspec.MsgspecError as error:
        raise UnreadableExport(
            f"{path} cannot be read as the manifest of a fetch: {error}", path=path, hint=_AGAIN
        ) from None


def describe_fetched(folder: str) -> str:
    """The manifest of a complete fetch in a few words. Raises UnreadableExport unless all its files are there."""
    manifest = read_manifest(folder)
    if manifest is None or manifest.left or manifest.waiting:
        windows = [pluralize(len(manifest.left), "window")] if manifest and manifest.left else []
        missing = f": {' and '.join([*windows, *manifest.waiting])} of {manifest.tool} to go" if manifest else ""
        raise UnreadableExport(f"the fetch into {folder} is not finished{missing}", path=folder, hint=_AGAIN)
    refuse_changed(folder, manifest)
    files = pluralize(len(manifest.all_files), "file")
    words = f"the manifest of a fetch from {manifest.tool}, with all of its {files}"
    fewer = [one.since for one in manifest.windows if one.fewer]
    if fewer:
        words += f"; {manifest.tool} counts more events than it gave in {pluralize(len(fewer), 'window')}"
        words += f", the first starting {fewer[0]}; the same backcast fetch asks for them again"
    if short := [one.of for one in manifest.pages if one.fewer]:
        words += f"; {manifest.tool} counts more than it gave of {', '.join(short)}"
    return words


def days_without_events(noted: Iterable[str], paths: Sequence[str]) -> list[str]:
    """The names that files of days without events would have among the files `paths` of an export, by the manifests of
    fetches among the `noted` paths."""
    names: list[str] = []
    for where in noted:
        manifest = read_manifest(os.path.dirname(where)) if os.path.basename(where) == MANIFEST else None
        if manifest is not None and manifest.files:
            first = manifest.files[0]
            like = [path for path in paths if path.endswith(first.file)][:1]
            names += [path.replace(first.since, one.since) for path in like for one in manifest.windows if not one.file]
    return names


def refuse_changed(folder: str, manifest: FetchManifest) -> None:
    """Raise UnreadableExport if a file of a manifest is missing, has another size or cannot be looked up."""
    paths = [os.path.join(folder, one.file) for one in manifest.all_files]
    for one, path, status in zip(manifest.all_files, paths, storage.statuses(paths), strict=True):
        if isinstance(status, OSError) and not isinstance(status, FileNotFoundError):
            raise broken(status, path) from status
        size = -1 if isinstance(status, OSError) else status.size
        if size != one.bytes:
            found = f"has {size:,} bytes instead of {one.bytes:,}" if size >= 0 else "is missing"
            raise UnreadableExport(
                f"{path}, which was fetched from {manifest.tool}, {found}",
                path=path,
                hint=f"restore {one.file} from a copy, or fetch into another folder",
            )
