"""Manifests: files of an export that say which of its other files count. Each kind of manifest has one function.

The function gets the listing of the source and returns the parts that do not count, each with a reason, and notes. A
mapping names it (`files: manifest: heap`). If a manifest lists a file that is missing, the plan stops.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from pipeline import storage
from pipeline.errors import UnfitExport, UnreadableExport
from pipeline.extractors import adobe_feed
from pipeline.extractors.containers import FETCH_AGAIN
from pipeline.extractors.patterns import matches
from pipeline.extractors.stream import opened
from pipeline.models import Part, Source
from pipeline.text import pluralize, some_of

LEFT_OUT = "left_out_file"
"""The code of the notice about a file that does not count."""
_MOST_BYTES = 64 * 1024 * 1024
_MOST_NAMED = 5


class Choice(msgspec.Struct, frozen=True):
    """Parts that do not count, by path, each with a reason; and notes about files: (where, sentence).

    `order` numbers the lookup files that must be read in another order than that of their names.
    """

    left_out: dict[str, str] = msgspec.field(default_factory=dict)
    notes: list[tuple[str, str]] = msgspec.field(default_factory=list)
    order: dict[str, int] = msgspec.field(default_factory=dict)


class Listing:
    """The parts of a source, and the paths of files that are not parts: copies of others, and files without rows.

    `lookups` are the patterns of lookup files, which an operator may have added to the export. `given` are the files at
    all of these paths.
    """

    def __init__(self, source: Source, lookups: tuple[str, ...] = ()) -> None:
        self.parts = source.parts
        self.lookups = lookups
        self._copies = [(copy.path, other) for copy, _, other in source.copies]
        by_path = {part.path: [part] for part in source.parts}
        by_path |= {path: by_path[other] for path, other in self._copies}
        rowless = ("empty_file", "ignored_file", LEFT_OUT)
        by_path = {note.where: [] for note in source.notes if note.code in rowless} | by_path
        root = next((part.file.removesuffix(part.path.partition("!")[0]) for part in source.parts), "")
        self.given = {root + path.partition("!")[0] for path in by_path}
        self._by_name: dict[str, list[tuple[tuple[str, ...], list[Part]]]] = {}
        for path, parts in by_path.items():
            steps = tuple((root + path).replace("!", "/").split("/"))
            self._by_name.setdefault(steps[-1], []).append((steps, parts))

    def matching(self, *patterns: str) -> list[Part]:
        return [part for part in self.parts if matches(part.path, patterns)]

    def named(self, name: str) -> list[tuple[str, Part]]:
        """Every file with this name, in any folder, as (path, part); identical files share a part."""
        parts = {part.path: part for part in self.parts}
        found = [(part.path, part) for part in self.parts] + [(path, parts[other]) for path, other in self._copies]
        return [(path, part) for path, part in found if matches(path, [name])]

    def files(self, addresses: Iterable[str], *, least: int = 1) -> dict[str, list[Part] | None]:
        """The parts that a manifest means by each address: empty for a file without rows, None if there is no file.

        An export is usually copied from a bucket into a folder, so its paths begin differently from the addresses. All
        lack the same number of leading folders: the smallest number with which any file is found. At least `least`
        steps are compared, to distinguish files with the same name in several folders.
        """
        steps = {address: tuple(address.rpartition("://")[2].strip("/").split("/")) for address in addresses}
        for dropped in range(max(map(len, steps.values()), default=0) - least + 1):
            found = {address: self._ending(end[dropped:]) for address, end in steps.items()}
            if any(parts is not None for parts in found.values()):
                return found
        return dict.fromkeys(steps)

    def _ending(self, end: tuple[str, ...]) -> list[Part] | None:
        files = [parts for steps, parts in self._by_name.get(end[-1], ()) if steps[-len(end) :] == end] if end else []
        return [part for parts in files for part in parts] if files else None

    def read(self, part: Part) -> bytes:
        """The content of a manifest. Raises UnreadableExport for one that is too long to be one."""
        with opened(part) as stream:
            content = stream.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise UnreadableExport(f"{part.path} is too long to be a manifest", path=part.path, hint=FETCH_AGAIN)
        return content.removeprefix(codecs.BOM_UTF8)

    def json(self, part: Part) -> Any:
        """The content of a manifest in JSON. Raises UnreadableExport."""
        try:
            return msgspec.json.decode(self.read(part))
        except msgspec.MsgspecError as error:
            raise UnreadableExport(
                f"{part.path} is not a readable manifest: {error}", path=part.path, hint=FETCH_AGAIN
            ) from None


MANIFESTS: dict[str, Callable[[Listing], Choice]] = {}


def manifest(name: str) -> Callable[[Callable[[Listing], Choice]], Callable[[Listing], Choice]]:
    """Declares a function as one for this kind of manifest."""

    def declare(function: Callable[[Listing], Choice]) -> Callable[[Listing], Choice]:
        MANIFESTS[name] = function
        return function

    return declare


def _refuse_missing(manifest_path: str, missing: Iterable[str]) -> None:
    """Raises UnfitExport if a manifest lists files that are missing."""
    names = list(missing)
    if names:
        raise UnfitExport(
            f"{manifest_path} lists {some_of(names, _MOST_NAMED)}, which the export does not have",
            hint="fetch the missing files, or fetch the manifest and its files again",
        )


class _Table(msgspec.Struct):
    """A table in a sync of Heap; `incremental: false` means the whole table."""

    name: str
    files: list[str]
    incremental: bool = True


class _Sync(msgspec.Struct):
    """A manifest of Heap."""

    dump_id: int
    tables: list[_Table]


@manifest("heap")
def heap(listing: Listing) -> Choice:
    """Heap Connect: one manifest per sync, in `manifests/`, with the files of each table.

    A table with `incremental: false` is complete in that sync, so its files of earlier syncs do not count and may be
    missing (docs/know/exports.md#heap). Syncs are ordered by `dump_id`.
    """
    choice = Choice()
    syncs: list[tuple[Part, _Sync]] = []
    for part in listing.matching("manifests/*.json", "manifests/*", "*manifest*.json", "sync_*.json"):
        choice.left_out[part.path] = "a manifest"
        try:
            syncs.append((part, msgspec.convert(listing.json(part), _Sync, strict=False)))
        except msgspec.ValidationError as error:
            raise UnreadableExport(
                f"{part.path} is not a manifest of Heap: {error}", path=part.path, hint=FETCH_AGAIN
            ) from None
    syncs.sort(key=lambda sync: sync[1].dump_id)
    files = listing.files(file for _, sync in syncs for table in sync.tables for file in table.files)
    counting: dict[str, list[tuple[Part, _Table]]] = {}
    for part, sync in syncs:
        for table in sync.tables:
            earlier = counting.setdefault(table.name, [])
            if not table.incremental:
                reason = f"{part.path} has all of table {table.name} (sync {sync.dump_id})"
                for replaced in (one for _, old in earlier for file in old.files for one in files[file] or ()):
                    choice.left_out[replaced.path] = reason
                earlier.clear()
            earlier.append((part, table))
    listed = set()
    for name, tables in counting.items():
        for part, table in tables:
            _refuse_missing(part.path, (file for file in table.files if files[file] is None))
            listed |= {one.path for file in table.files for one in files[file] or ()}
        first, table = tables[0]
        if table.incremental:
            choice.notes.append((first.path, f"no manifest has all of table {name}, so its older rows are missing"))
    for path in listed:
        choice.left_out.pop(path, None)
    if syncs:
        for part in listing.parts:
            if part.path not in listed and not matches(part.path, listing.lookups):
                choice.left_out.setdefault(part.path, "no manifest lists it")
        choice.notes.append((syncs[0][0].path, f"{len(syncs)} manifests list {len(listed)} files that count"))
    return choice


class _PendoExport(msgspec.Struct):
    """One export of Data Sync: the list of its files, and where that list is."""

    listed_in: str
    group: str
    counter: int | None
    content: dict[str, Any]

    def addresses(self, files: Any) -> list[str]:
        """The addresses of files, given relative to the export's own folder."""
        root = str(self.content["rootUrl"])
        return [file if "://" in file else f"{root.rstrip('/')}/{file.lstrip('/')}" for file in map(str, files or ())]


@manifest("pendo")
def pendo(listing: Listing) -> Choice:
    """Pendo Data Sync: an export with a period replaces all events of that period in earlier exports.

    `exportmanifest.json`, one per application, lists the exports of 30 days in the order of `counter`; older exports
    have `billofmaterials.json` in their folders. An export without `allEvents` for a period (Pendo makes one if rules
    of pages and features changed) has matched events only, and replaces nothing. Matched events repeat all events, so
    they do not count (docs/know/exports.md#pendo).
    """
    choice = Choice()
    exports, events = _pendo_exports(listing, choice), listing.matching(_PENDO_EVENTS)
    if exports or events:
        choice.left_out.update((part.path, _MATCHED) for part in listing.matching("matchedEvents"))
    if not exports:
        if len(events) > 1:
            sentence = "without a manifest, the events of all exports of a day are sent, each event once"
            choice.notes.append((events[0].path, sentence))
        return choice
    addresses = [address for export in exports for address in _pendo_addresses(export)]
    here = listing.files((address for address in addresses if "://" not in address), least=2)
    files = here | listing.files((address for address in addresses if "://" in address), least=2)
    last: dict[tuple[str, str], tuple[_PendoExport, list[str]]] = {}
    for number, export in enumerate(exports):
        for kind in _PENDO_DEFINITIONS:
            for address in export.addresses(export.content.get(kind)):
                choice.order.update((one.path, number) for one in files[address] or ())
        for period in export.content.get("timeDependent") or ():
            for matched in period.get("matchedEvents") or ():
                for address in export.addresses(matched.get("files")):
                    choice.left_out.update((one.path, _MATCHED) for one in files[address] or ())
            if period.get("allEvents") is None:
                continue
            name = str(period.get("periodId"))
            before, replaced = last.get((export.group, name), (export, []))
            if before is not export and before.counter is None and export.counter is None:
                raise UnfitExport(
                    f"{before.listed_in} and {export.listed_in} both have the period {name}, and no counter shows"
                    " which is newer",
                    hint="leave out the older export's folder, or fetch exportmanifest.json, which has the counters",
                )
            for one in (one for address in replaced for one in files[address] or ()):
                choice.left_out[one.path] = f"{_named(export)} has the period {name} again"
            last[export.group, name] = export, export.addresses(period["allEvents"].get("files"))
    current = {one.path for _, addresses in last.values() for address in addresses for one in files[address] or ()}
    for export, addresses in last.values():
        _refuse_missing(export.listed_in, [address for address in addresses if files[address] is None])
    for path in current:
        choice.left_out.pop(path, None)
    for part in events:
        if part.path not in current and part.path not in choice.left_out:
            raise UnfitExport(
                f"no manifest lists {part.path}, so it is unknown whether a later export replaces its events",
                hint="fetch billofmaterials.json from the folder of that file, or leave the file out",
            )
    for group in dict.fromkeys(export.group for export in exports):
        of_group = [export for export in exports if export.group == group]
        periods = sum(1 for other, _ in last if other == group)
        choice.notes.append(
            (of_group[-1].listed_in, f"{pluralize(len(of_group), 'export')}, {pluralize(periods, 'period')}")
        )
    return choice


_MATCHED = "matched events repeat all events"
_PENDO_EVENTS = "allevents*"
_PENDO_DEFINITIONS = (
    "pageDefinitionsFile", "featureDefinitionsFile", "trackTypeDefinitionsFile", "guideDefinitionsFile",
)  # fmt: skip
_PENDO_LISTS = ("timeDependent", "visitors", "accounts", *_PENDO_DEFINITIONS)


def _named(export: _PendoExport) -> str:
    return export.listed_in if export.counter is None else f"export {export.counter}"


def _pendo_exports(listing: Listing, choice: Choice) -> list[_PendoExport]:
    """All exports, older ones first: exports with only a bill of materials come before those of a manifest."""
    bills: dict[str, _PendoExport] = {}
    for path, part in listing.named("billofmaterials.json"):
        choice.left_out[part.path] = "a manifest"
        content = listing.json(part)
        if not isinstance(content, dict) or not any(name in content for name in _PENDO_LISTS):
            raise UnreadableExport(
                f"{path} is not a bill of materials of Pendo: it has no list of files", path=path, hint=FETCH_AGAIN
            )
        folder = _folder(path)
        bills[folder] = _PendoExport(
            path, _folder(folder), _counter(content), {**content, "rootUrl": folder.replace("!", "/")}
        )
    counted: list[_PendoExport] = []
    for path, part in listing.named("exportmanifest.json"):
        choice.left_out[part.path] = "a manifest"
        content = listing.json(part)
        exports = content.get("exports") if isinstance(content, dict) else None
        if not isinstance(exports, list):
            raise UnreadableExport(
                f"{path} is not a manifest of Pendo: it has no list `exports`", path=path, hint=FETCH_AGAIN
            )
        group = _folder(path)
        for entry in exports:
            root = str(entry.get("rootUrl", "")).rstrip("/")
            name = root.rpartition("/")[2]
            bill = bills.pop(f"{group}/{name}".lstrip("/"), None)
            content = {**(bill.content if bill is not None else {}), **entry, "rootUrl": root}
            counted.append(_PendoExport(path, group, _counter(entry), content))
    counted.sort(key=lambda export: export.counter or 0)
    older = sorted(bills.values(), key=lambda export: -1 if export.counter is None else export.counter)
    return [*older, *counted]


def _folder(path: str) -> str:
    """The folder of a path as it is shown; for an archive's top level, the archive."""
    cut = max(path.rfind("/"), path.rfind("!"))
    return path[:cut] if cut >= 0 else ""


def _counter(content: dict[str, Any]) -> int | None:
    counter = content.get("counter")
    return int(counter) if counter is not None else None


def _pendo_addresses(export: _PendoExport) -> Iterator[str]:
    for kind in _PENDO_DEFINITIONS:
        yield from export.addresses(export.content.get(kind))
    for period in export.content.get("timeDependent") or ():
        for files in (period.get("allEvents") or {}, *(period.get("matchedEvents") or ())):
            yield from export.addresses(files.get("files"))


@manifest("adobe")
def adobe(listing: Listing) -> Choice:
    """Adobe data feeds: each delivery has a text file, written last, that lists its files with their MD5.

    Its lines are `Data-File: NAME` or `Lookup-File: NAME`, then `MD5-Digest: …` and `Record-Count: …`
    (docs/know/exports.md#adobe). The MD5 of a file proves its rows; if a file was unpacked, its rows are counted. A
    manifest counts if files that it lists were given, or are missing.
    """
    choice = Choice()
    for manifest_file in adobe_feed.manifests_beside(listing.parts):
        files = adobe_feed.listed_files(manifest_file)
        found = listing.files(file.name for file in files)
        name = os.path.basename(manifest_file)
        places = {file: adobe_feed.beside(manifest_file, file.name) for file in files}
        given = [file for file in files if places[file] in listing.given]
        unpacked = {
            file: adobe_feed.unpacked(listing.parts, places[file])
            for file in files
            if not storage.is_file(places[file])
        }
        absent = [
            file
            for file, parts in unpacked.items()
            if not parts
            and found[file.name] is None
            and (file.has_hits or not storage.is_file(adobe_feed.beside(manifest_file, adobe_feed.HEADERS)))
        ]
        if not any(file.has_hits for file in (*given, *unpacked)):
            continue
        _refuse_missing(name, (file.name for file in absent))
        for file in given:
            adobe_feed.refuse_changed(places[file], file, name)
        for file, parts in unpacked.items():
            if file.has_hits and parts and file.records is not None:
                adobe_feed.refuse_other_count(parts, file, name)
        choice.notes.append((name, f"a manifest of {len(files)} files"))
    return choice
