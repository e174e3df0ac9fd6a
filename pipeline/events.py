"""From the rows of one block to encoded events: the pure middle of everything.

`make_events` depends on the rows, the mapper and the rules alone: no clock, randomness, network, locale or host
time zone (law 2). Plan and apply both walk it; a block's digest, taken before the plan's tables are applied,
proves that both made the same (law 5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
import numpy as np
import xxhash
from msgspec import Raw
from numpy.typing import NDArray

from pipeline.extract.rows import Rows
from pipeline.identity import SEPARATOR, Hasher, content_key, uuid5_bytes, uuid_texts
from pipeline.instants import format_utc
from pipeline.schema import BrokenRow, Draft, Fault, Link, Options, Reject, Skip
from pipeline.validate import MAX_ID, Rules, check, check_size, skip_code
from pipeline.values import NULL, Record

DAY = 86_400_000_000
_encode = msgspec.json.Encoder().encode
_NOTHING: list[str] = []
_UUID_ROOM = b'00000000-0000-0000-0000-000000000000"}'
SURELY_SMALL = 300_000
"""An event shorter than this keeps every rule of size, however it is encoded."""


class Mapper(Protocol):
    """What a mapping compiles to, or a mapper written by hand."""

    tool: str
    hasher: Hasher
    opens: tuple[str, ...]

    map_row: Callable[[Record], Any]


@dataclass(slots=True)
class Events:
    """What one block becomes, before the plan's tables.

    The lists of the second group run in parallel, one entry an event; `nth` numbers the events of one row. Those of
    the third group do too, and like the notes they are filled only when observing.
    `cells` counts (event name, days since 1970, outcome); outcome is `mapped` or a skip's or reject's code.
    `examples` holds one (row from 0, byte offset, detail) for each warning code; `rejects` are complete.
    `walls` holds (wall clock, receive time) pairs, µs, for the proof of the zone.
    """

    rows: int = 0
    mapped: int = 0
    skips: Counter[str] = field(default_factory=Counter)
    rejects: list[Reject] = field(default_factory=list)
    links: list[tuple[int, Link]] = field(default_factory=list)
    digest: str = ""

    events: list[bytes] = field(default_factory=list)
    row_of: list[int] = field(default_factory=list)
    nth: list[int] = field(default_factory=list)
    uuids: NDArray[np.uint8] = field(default_factory=lambda: np.empty((0, 16), np.uint8))
    keyless: frozenset[int] = frozenset()

    names: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)
    warnings: Counter[str] = field(default_factory=Counter)
    examples: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    cells: Counter[tuple[str, int, str]] = field(default_factory=Counter)
    walls: list[tuple[int, int]] = field(default_factory=list)


class Encoder:
    """Writes drafts as the service reads them, adding what every imported event carries.

    `$geoip_disable` unless the row says otherwise; `$ip` of the row, else the loopback address, because the service
    would stamp the sender's on all of history (service-behaviour 1.7); the provenance that makes a bad import
    findable later.
    """

    def __init__(self, tool: str, options: Options) -> None:
        constants: dict[str, Raw] = {}
        if options.provenance:
            constants["historical_migration"] = Raw(b"true")
            constants["analytics_source"] = Raw(_encode(tool))
            if options.name:
                constants["import_name"] = Raw(_encode(options.name))
        self._provenance = constants
        self._all = {"$geoip_disable": Raw(b"true"), "$ip": Raw(b'"127.0.0.1"'), **constants}
        self._reserved = frozenset({*self._all, "distinct_id"})
        self._tail = b"," + _encode(self._all)[1:] + b',"timestamp":"'
        self._heads: dict[str, bytes] = {}

    def encode(self, draft: Draft) -> tuple[bytes, list[str]]:
        """The event up to its uuid (`{…,"uuid":"`), and the names of properties that had to give way."""
        name: str = draft.event  # type: ignore[assignment]
        head = self._heads.get(name)
        if head is None:
            head = b'{"event":' + _encode(name) + b',"properties":{"distinct_id":'
            if len(self._heads) < 10_000:
                self._heads[name] = head
        properties = draft.properties
        gave_way = _NOTHING
        tail = self._tail
        if not properties.keys().isdisjoint(self._reserved):
            tail = b'},"timestamp":"'
            gave_way = self._merge(draft)
        body = _encode(properties)
        return b"".join(
            (
                head,
                _encode(draft.distinct_id),
                b"," if len(body) > 2 else b"",
                body[1:-1],
                tail,
                format_utc(draft.time).encode(),  # type: ignore[arg-type]
                b'","uuid":"',
            )
        ), gave_way

    def _merge(self, draft: Draft) -> list[str]:
        properties = draft.properties
        gave_way = []
        own_id = properties.pop("distinct_id", None)
        if own_id is not None and own_id != draft.distinct_id:
            gave_way.append("distinct_id")
        for name, constant in self._provenance.items():
            before = properties.pop(name, None)
            if before is not None and bytes(_encode(before)) != bytes(constant):
                gave_way.append(name)
            properties[name] = constant
        properties.setdefault("$geoip_disable", self._all["$geoip_disable"])
        if _falsy(properties.get("$ip")):
            properties["$ip"] = self._all["$ip"]
        return gave_way


def _falsy(value: Any) -> bool:
    """What the service takes for "no address"."""
    return value in (None, "", 0, False) or (
        isinstance(value, Raw) and bytes(value) in (bytes(NULL), b'""', b"0", b"false")
    )


class _Fallen(Exception):
    """One event of a row cannot be sent, so the row is not."""

    def __init__(self, fault: Fault, draft: Draft | None) -> None:
        self.fault = fault
        self.draft = draft


class _Maker:
    """One walk over one block. `run` is the hottest loop there is: what could be a call in it is written out."""

    def __init__(
        self,
        rows: Rows,
        part: str,
        first_row: int,
        mapper: Mapper,
        encoder: Encoder,
        rules: Rules,
        observe: bool,
    ) -> None:
        self.rows = rows
        self.part = part
        self.first_row = first_row
        self.mapper = mapper
        self.encoder = encoder
        self.rules = rules
        self.observe = observe
        self.made = Events()
        self.bodies: list[bytes] = []
        self.keys: list[str] = []
        self.own_uuids: dict[int, str] = {}
        self.keyless: set[int] = set()

    def run(self, limit: int | None) -> Events:
        made, rules, observe = self.made, self.rules, self.observe
        map_row, encode = self.mapper.map_row, self.encoder.encode
        bodies, keys, row_of = self.bodies, self.keys, made.row_of
        names, ids, times, received, walls = made.names, made.ids, made.times, made.received, made.walls
        plain = rules.since is None and rules.until is None and not rules.excluded
        newest = rules.newest
        good_names: set[str] = set()
        mapped = 0
        row = -1
        for record in self.rows:
            row += 1
            if row == limit:
                row -= 1
                break
            if type(record) is BrokenRow:
                self.reject(row, "read", record.code, record.detail)
                continue
            draft = map_row(record)  # type: ignore[arg-type]
            if type(draft) is Draft and plain and draft.event in good_names and not draft.warnings:
                # Plainly good in every respect, or else the slow way below decides.
                time, distinct_id, key = draft.time, draft.distinct_id, draft.key
                if (
                    key is not None
                    and type(time) is int
                    and 0 <= time <= newest
                    and distinct_id
                    and len(distinct_id) <= MAX_ID
                    and distinct_id[0] > " "
                    and distinct_id.isprintable()
                    and draft.uuid is None
                ):
                    body, gave_way = encode(draft)
                    if not gave_way and len(body) < SURELY_SMALL:
                        bodies.append(body)
                        keys.append(key)
                        row_of.append(row)
                        mapped += 1
                        if observe:
                            names.append(draft.event)
                            ids.append(distinct_id)
                            times.append(time)
                            received.append(draft.received or 0)
                            if draft.wall is not None and draft.received:
                                walls.append((draft.wall, draft.received))
                        continue
            try:
                if type(draft) is Draft:
                    code = self.add(row, 0, draft)
                    if code:
                        made.skips[code] += 1
                    else:
                        mapped += 1
                        if len(good_names) < 10_000:
                            good_names.add(draft.event)  # type: ignore[arg-type]
                elif type(draft) is Skip:
                    made.skips[draft.code] += 1
                else:
                    mapped += self.several(row, draft if isinstance(draft, list) else [draft])
            except _Fallen as fallen:
                self.fell(row, fallen)
        made.rows = row + 1
        made.mapped = mapped
        self.finish()
        return made

    def add(self, row: int, nth: int, draft: Draft) -> str:
        """Encode one event; a skip's code if it stays out, "" if it is kept."""
        made, rules = self.made, self.rules
        code = skip_code(draft, rules)
        if code:
            if type(draft.time) is int and draft.event:
                made.cells[draft.event, draft.time // DAY, code] += 1
            return code
        fault = check(draft, rules)
        if fault is not None:
            raise _Fallen(fault, draft)
        key = draft.key
        index = len(self.bodies)
        content = self.rows.canonical(row) if key is None and draft.uuid is None else b""
        body, gave_way = self.encoder.encode(draft)
        fault = check_size(body + _UUID_ROOM, rules)
        if fault is not None:
            raise _Fallen(fault, draft)
        if draft.uuid is not None:
            self.own_uuids[index] = draft.uuid
            self.keys.append("")
        elif key is not None:
            self.keys.append(key if nth == 0 else f"{key}{SEPARATOR}{nth}")
        else:
            self.keyless.add(index)
            self.keys.append(content_key(content, 0, nth))
        for code, detail in draft.warnings:
            self.warn(row, code, detail)
        for name in gave_way:
            self.warn(row, "replaced_property", f"{name!r} of the row gave way to the import's own")
        if nth and not made.nth:
            made.nth.extend([0] * index)
        if made.nth or nth:
            made.nth.append(nth)
        self.bodies.append(body)
        made.row_of.append(row)
        if self.observe:
            made.names.append(draft.event)  # type: ignore[arg-type]
            made.ids.append(draft.distinct_id)  # type: ignore[arg-type]
            made.times.append(draft.time)  # type: ignore[arg-type]
            made.received.append(draft.received or 0)
            if draft.wall is not None and draft.received:
                made.walls.append((draft.wall, draft.received))
        return ""

    def several(self, row: int, outcomes: list[Any]) -> int:
        """A row of many events, links and skips: all of it or nothing. 1 if the row counts as mapped."""
        made = self.made
        events, links, walls = len(self.bodies), len(made.links), len(made.walls)
        kept = 0
        first_skip = ""
        try:
            for nth, outcome in enumerate(outcomes):
                if type(outcome) is Draft:
                    code = self.add(row, nth, outcome)
                    first_skip = first_skip or code
                    kept += not code
                elif type(outcome) is Link:
                    made.links.append((row, outcome))
                    kept += 1
                elif type(outcome) is Skip:
                    first_skip = first_skip or outcome.code
                else:
                    raise _Fallen(outcome, None)
        except _Fallen:
            for index in range(events, len(self.bodies)):
                self.own_uuids.pop(index, None)
                self.keyless.discard(index)
            series: list[list[Any]] = [self.bodies, self.keys, made.row_of, made.nth]
            for one in [*series, made.names, made.ids, made.times, made.received]:
                del one[events:]
            del made.links[links:]
            del made.walls[walls:]
            raise
        if kept:
            return 1
        made.skips[first_skip or "empty_row"] += 1
        return 0

    def fell(self, row: int, fallen: _Fallen) -> None:
        draft = fallen.draft
        if draft is not None and draft.event and type(draft.time) is int:
            self.made.cells[draft.event, draft.time // DAY, fallen.fault.code] += 1
        stage = "map" if draft is None else "validate"
        self.reject(row, stage, fallen.fault.code, fallen.fault.detail)

    def reject(self, row: int, stage: str, code: str, detail: str) -> None:
        rows = self.rows
        self.made.rejects.append(
            Reject(self.part, self.first_row + row, rows.offset(row), stage, code, detail, rows.text(row))
        )

    def warn(self, row: int, code: str, detail: str) -> None:
        self.made.warnings[code] += 1
        if code not in self.made.examples:
            self.made.examples[code] = (row, self.rows.offset(row), detail)

    def finish(self) -> None:
        made = self.made
        if not made.nth:
            made.nth = [0] * len(self.bodies)
        raw = uuid5_bytes(self.mapper.hasher.digests(self.keys))
        for index, text in self.own_uuids.items():
            raw[index] = np.frombuffer(bytes.fromhex(text.replace("-", "")), np.uint8)
        made.uuids = raw
        made.keyless = frozenset(self.keyless)
        made.events = [b'%b%b"}' % (body, uuid) for body, uuid in zip(self.bodies, uuid_texts(raw), strict=True)]
        self.bodies.clear()
        made.digest = digest_of_events(made.events)
        if not self.observe:
            return
        for row, code, detail in self.rows.warnings:
            if row < made.rows:
                self.warn(row, code, detail)
        days = (np.asarray(made.times, np.int64) // DAY).tolist()
        for (name, day), count in Counter(zip(made.names, days, strict=True)).items():
            made.cells[name, day, "mapped"] += count


def digest_of_events(events: list[bytes]) -> str:
    """A block's seal: xxh3-128 of its events, each ended by a newline.

    It finds what changed by accident (a file, a mapping, a library), not forgery; the plan's own digest over all
    seals is sha256.
    """
    return xxhash.xxh3_128_hexdigest(b"\n".join(events) + b"\n" if events else b"")


def make_events(
    rows: Rows,
    mapper: Mapper,
    encoder: Encoder,
    rules: Rules,
    *,
    part: str = "",
    first_row: int = 1,
    limit: int | None = None,
    observe: bool = True,
) -> Events:
    """Map, check and encode the rows of one block.

    `first_row` is the number of the block's first row in its part, from 1. `limit` reads only so many rows.
    `observe` also takes the notes that a plan needs and a sender does not; the events are the same.
    Every row ends in exactly one of mapped, skipped and rejected (law 1).
    """
    return _Maker(rows, part, first_row, mapper, encoder, rules, observe).run(limit)
