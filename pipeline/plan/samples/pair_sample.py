"""Chooses rows that stand for an export, and reads them again with the events that they become.

Of each event name and UTC year the first event that is sent is taken, and of each entry of `events` in the mapping that
these do not show the first row, so the choice depends neither on workers nor on memory. Of a file that cannot be
entered in the middle, such as a compressed one, the blocks before a row have to be read once more, so rows far inside
of those are left out when they would cost more than a tenth of the export.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.encoder.encoded import without_profiles
from pipeline.encoder.event import RESERVED
from pipeline.encoder.identified_ids import IdentifiedIds
from pipeline.extractors import rows as read_rows
from pipeline.mapper.codegen.runtime import members_of
from pipeline.mapper.inspection.field_uses import PROPERTIES, FieldUses
from pipeline.mapper.inspection.origins import Origins
from pipeline.mapper.language.sections import Mapping as MappingFile
from pipeline.mapper.program.required_fields import Level
from pipeline.mask import IDS
from pipeline.models import Block, BrokenRow, ItemOutcomes, UnvalidatedEvent
from pipeline.plan.samples.events import DecodedEvent, Place, decode_event, event_at, wanted_blocks
from pipeline.plan.samples.source_pairs import (
    MOST_FIELDS,
    NAME_CHARACTERS,
    SentProperty,
    Shown,
    SourceField,
    SourcePair,
    characters,
)
from pipeline.plan.sealed.directory import Directory, read_lines
from pipeline.plan.sealed.manifest import SealedBlock
from pipeline.text import printable
from pipeline.timestamps import DAY
from pipeline.transform.block import BlockTransformer
from pipeline.transform.event_keys import NAME
from pipeline.transform.field_counts import OPENED, ROW
from pipeline.transform.tasks import TransformConfig

MOST_PAIRS = 24
MOST_RULES = 8
"""Pairs that are added for entries of `events` that no other pair shows."""
MOST_NAMES = 4_096
"""Event names of which events are counted: the first of the source."""
_FIRST_YEAR, _YEARS = 1970, 128
_FIRST_DAYS = np.array([f"{_FIRST_YEAR + year}-01-01" for year in range(_YEARS)], "datetime64[D]").astype(np.int64)
_NEVER = np.uint64(2**64 - 1)
_ID_PLACES = frozenset(("(distinct_id)", "(merge)", "(person)"))
_NO_ID_PLACES = frozenset(("(event)", "(time)", "(receive time)"))
_SHORTEST_ID = 4
"""Characters of an id that is looked for in other values; a shorter one would mask half of the numbers."""
_ID_PROPERTIES = IDS | {"$anon_distinct_id", "alias", "$alias"}
_OWN = RESERVED | {"$ip", "$process_person_profile"}
_TIME_LIKE = frozenset("0123456789-:.+/TZUC ")
_MEMBERS = {"event": "(event)", "distinct_id": "(distinct_id)", "timestamp": "(time)", "uuid": "(uuid)"}


class Kinds(NamedTuple):
    """Kinds of events, which are pairs of name and year: how many events there are of each, and the place of the
    first."""

    kinds: NDArray[np.int64]
    counts: NDArray[np.int64]
    first: NDArray[np.uint64]


def kinds_of(sent: NDArray[np.void], ordinals: NDArray[np.uint32]) -> Kinds:
    """The kinds of key records. Of identical rows the first stands for all, whose uuid the row alone gives."""
    names = sent["name"] & NAME
    some = np.flatnonzero((ordinals == 0) & (names < MOST_NAMES))
    years = np.searchsorted(_FIRST_DAYS, sent["time"][some] // DAY, side="right") - 1
    kinds = names[some].astype(np.int64) * _YEARS + np.clip(years, 0, _YEARS - 1)
    found, counts = np.unique(kinds, return_counts=True)
    block, row = sent["block"][some].astype(np.uint64), sent["row"][some].astype(np.uint64)
    position = sent["position"][some].astype(np.uint64)
    place = (block << np.uint64(40)) | (row << np.uint64(16)) | position
    first = np.full(len(found), _NEVER)
    np.minimum.at(first, np.searchsorted(found, kinds), place)
    return Kinds(found, counts, first)


class PairSample:
    """Counts the events that are sent by name and year, and keeps the first of each."""

    def __init__(self) -> None:
        self._counts = np.zeros(MOST_NAMES * _YEARS, np.int64)
        self._first = np.full(MOST_NAMES * _YEARS, _NEVER)

    def add(self, some: Kinds) -> None:
        """Add the kinds of some events."""
        self._counts[some.kinds] += some.counts
        self._first[some.kinds] = np.minimum(self._first[some.kinds], some.first)

    @property
    def kinds(self) -> int:
        """How many pairs of name and year there are."""
        return int(np.count_nonzero(self._counts))

    def choose(self, names: Sequence[str]) -> list[tuple[str, int, Place]]:
        """(event name, year, place): one of each of the most frequent names, then their further years, evenly from the
        first to the last, most frequent names first."""
        counts = self._counts.reshape(MOST_NAMES, _YEARS)
        of_name = counts.sum(axis=1)
        most = sorted(np.flatnonzero(of_name).tolist(), key=lambda name: (-of_name[name], names[name]))[:MOST_PAIRS]
        turns = {name: list(_spread(np.flatnonzero(counts[name]).tolist())) for name in most}
        chosen = [(name, turns[name][turn]) for turn in range(_YEARS) for name in most if turn < len(turns[name])][
            :MOST_PAIRS
        ]
        order = {name: number for number, name in enumerate(most)}
        return [
            (names[name], _FIRST_YEAR + year, _place(int(self._first[name * _YEARS + year])))
            for name, year in sorted(chosen, key=lambda one: (order[one[0]], one[1]))
        ]


def _spread(years: list[int]) -> Iterator[int]:
    """The years, first the first, then the last, then those between."""
    while years:
        yield years.pop(0)
        if years:
            yield years.pop()


def _place(number: int) -> Place:
    return Place(number >> 40, number >> 16 & 0xFFFFFF, number & 0xFFFF)


_decode_text = msgspec.json.Decoder(str).decode


class _Scan:
    """The fields of one row as it came, and of each plain row that a decoder makes of it."""

    def __init__(self, nested: Sequence[Level]) -> None:
        self.items: list[dict[tuple[Level, str], Any]] = []
        self.events: list[str | None] = []
        self._nested = nested
        self._event: str | None = None

    @property
    def event(self) -> str | None:
        return self._event

    @event.setter
    def event(self, name: str | None) -> None:
        if self.events:
            self.events[-1] = name

    def row(self, row: Any) -> None:
        self.items.append({})
        self.events.append(None)
        self._add(ROW, row, False)

    def opened(self, properties: Any) -> None:
        self._add(OPENED, properties, True)

    def members(self, row: Any, opened: Any = None) -> None:
        self.row(row)
        if opened is not None:
            self.opened(opened)

    def begin_items(self) -> None:
        pass

    def _add(self, root: Level, record: Any, opened: bool) -> None:
        item = self.items[-1]
        for name, value in record.items():
            if value is not None:
                item[root, name] = dict(value) if isinstance(value, dict) else value
        for level in self._nested:
            if level.opened != opened:
                continue
            value = record
            for step in level.steps:
                value = value.get(step)
                if value is None:
                    break
                if not isinstance(value, dict):
                    value = members_of(value)
            for name, inner in (value or {}).items():
                item[level, name] = dict(inner) if isinstance(inner, dict) else inner


def read_pairs(
    sample: PairSample,
    names: Sequence[str],
    rules: Mapping[str, int],
    directory: Directory,
    config: TransformConfig,
    mapping: MappingFile,
    uses: FieldUses,
    shown: Shown,
) -> list[SourcePair]:
    """The pairs of a sample, for which some blocks of the source are read again as far as their rows.

    `rules` are the entries of `events` in the mapping of which some row is an event, with the first block that has one.
    """
    chosen = sample.choose(names)
    reader = _PairReader(directory, config, mapping, uses, shown)
    pairs: dict[Place, SourcePair] = {}
    for sealed, block in wanted_blocks(directory, config, {place.block for _, _, place in chosen}):
        for _, _, place in chosen:
            if place.block == sealed.number:
                pairs[place] = reader.pair(sealed, block, place)
    found = [pairs[place] for _, _, place in chosen if place in pairs]
    seen = {pair.event_rule for pair in found}
    missing = {name: block for name, block in rules.items() if printable(name, NAME_CHARACTERS) not in seen}
    blocks = sorted(set(missing.values()))[:MOST_RULES]
    dropped = _dropped(directory, frozenset(blocks)) if blocks else set()
    for sealed, block in wanted_blocks(directory, config, set(blocks)):
        wanted = {name for name, number in missing.items() if number == sealed.number}
        places = reader.first_of(sealed, block, wanted, dropped)
        for place in islice(places, MOST_PAIRS + MOST_RULES - len(found)):
            found.append(reader.pair(sealed, block, place))
    return found


def _dropped(directory: Directory, blocks: frozenset[int]) -> set[Place]:
    """The events of some blocks that are copies of others and are not sent."""
    return {
        Place(block, row, position)
        for block, row, position, _, code in read_lines(directory.copies, tuple[int, int, int, int, str])
        if code and block in blocks
    }


class _PairReader:
    def __init__(
        self, directory: Directory, config: TransformConfig, mapping: MappingFile, uses: FieldUses, shown: Shown
    ) -> None:
        self._transformer = BlockTransformer(config)
        self._paths = [part.path for part in config.parts]
        self._parts = config.parts
        self._mapping = mapping
        self._rules = dict(enumerate(mapping.events, 1))
        self._nested = config.counted.nested if config.counted is not None else ()
        self._uses = uses
        self._origins = Origins(mapping, _OWN)
        self._shown = shown
        some_without = config.options.persons == "identified" and directory.identified.exists()
        self._identified = IdentifiedIds(directory.identified) if some_without else None

    def first_of(self, sealed: SealedBlock, block: Block, names: set[str], dropped: set[Place]) -> Iterator[Place]:
        """The first event of a block that is sent by each of these entries of `events`."""
        part = self._parts[block.part]
        mapper = self._transformer.mapper_of(part)
        rows = read_rows(part, block, observe=False, opens=mapper.opens, blanks=mapper.blanks, unread=mapper.unread)
        wanted = {number for number, name in self._rules.items() if name in names}
        for number, record in enumerate(rows):
            if not wanted:
                break
            if isinstance(record, BrokenRow):
                continue
            result: Any = mapper.map_row(record, False, _Scan(self._nested))
            for position, outcome in enumerate(result if isinstance(result, list) else [result]):
                place = Place(sealed.number, number, position)
                if not isinstance(outcome, UnvalidatedEvent) or outcome.rule not in wanted or place in dropped:
                    continue
                if self._event(block, place) is not None:
                    yield place
                    wanted.discard(outcome.rule)

    def pair(self, sealed: SealedBlock, block: Block, place: Place) -> SourcePair:
        """The row at a place and its event."""
        event = self._event(block, place)
        if event is None:
            raise AssertionError(f"no event at {place}")
        scan = _Scan(self._nested)
        rule, item = self._map(block, place, scan)
        fields = scan.items[item] if item < len(scan.items) else {}
        read_as = scan.events[item] if item < len(scan.events) else None
        targets = {key: self._uses.fate(*key, rule, None) for key in fields}
        sources: dict[str, list[str]] = {}
        for key, fate in targets.items():
            for to in fate.to:
                sources.setdefault(to.removesuffix(" (hashed)"), []).append(self._uses.reference(*key))
        distinct_id = _decode_text(event.properties.pop("distinct_id"))
        found_ids = (characters(value) for key, value in fields.items() if self._is_id(key[1], targets[key].to))
        hidden = frozenset(one for one in (distinct_id, *found_ids) if len(one) >= _SHORTEST_ID)
        listed = [
            SourceField(
                printable(self._uses.reference(*key), NAME_CHARACTERS),
                self._shown.text(
                    value, hidden, is_id=self._is_id(key[1], fate.to), clear=_is_clear(fate.to, value, read_as)
                ),
                [printable(to, NAME_CHARACTERS) for to in fate.to],
                printable(fate.by, NAME_CHARACTERS),
            )
            for (key, value), fate in zip(fields.items(), targets.values(), strict=True)
            if fate.to != (PROPERTIES,)  # its members are fields themselves
        ]
        given = {"event": event.event, "distinct_id": distinct_id, "timestamp": event.timestamp, "uuid": event.uuid}
        members = [
            SentProperty(
                name,
                self._shown.text(value, hidden, is_id=name == "distinct_id", clear=name != "distinct_id"),
                _printable(sources.get(_MEMBERS[name], [])),
                *self._origin(self._origins.member(name, rule)),
            )
            for name, value in given.items()
        ]
        ids = _ID_PROPERTIES.union(*(fate.to for key, fate in targets.items() if self._is_id(key[1], fate.to)))
        properties = []
        for name, raw in event.properties.items():
            found = sources.get(name, [])
            properties.append(
                SentProperty(
                    printable(name, NAME_CHARACTERS),
                    self._shown.text(raw, hidden, is_id=name in ids),
                    _printable(found),
                    *self._origin(self._origins.property(name, rule, found)),
                )
            )
        return SourcePair(
            event.event,
            int(event.timestamp[:4]),
            self._paths[sealed.part],
            sealed.first_row + place.row,
            printable(self._rules.get(rule, ""), NAME_CHARACTERS),
            listed[:MOST_FIELDS],
            max(0, len(listed) - MOST_FIELDS),
            members,
            properties[:MOST_FIELDS],
            max(0, len(properties) - MOST_FIELDS),
        )

    def _event(self, block: Block, place: Place) -> DecodedEvent | None:
        """The event at a place; None where the row is rejected."""
        encoded = event_at(self._transformer, block, place)
        if encoded is not None and self._identified is not None:
            (encoded,) = without_profiles([encoded], self._identified)
        return None if encoded is None else decode_event(encoded)

    def _map(self, block: Block, place: Place, scan: _Scan) -> tuple[int, int]:
        """Show a row to the scan. Returns the number of its event's rule, and of the plain row that is the event."""
        part = self._parts[block.part]
        mapper = self._transformer.mapper_of(part)
        rows = read_rows(part, block, observe=False, opens=mapper.opens, blanks=mapper.blanks, unread=mapper.unread)
        record: Any = next(islice(iter(rows), place.row, None))
        result = mapper.map_row(record, False, scan)
        outcomes = result if isinstance(result, list) else [result]
        outcome = outcomes[place.position] if place.position < len(outcomes) else None
        item = 0
        if isinstance(result, ItemOutcomes):
            item = next((number for number, end in enumerate(result.ends) if end > place.position), 0)
        return (outcome.rule if isinstance(outcome, UnvalidatedEvent) else 0), item

    @staticmethod
    def _is_id(name: str, to: Sequence[str]) -> bool:
        if name in _ID_PROPERTIES:
            return True
        if not _NO_ID_PLACES.isdisjoint(to):
            return False
        return not _ID_PLACES.isdisjoint(to) or ("(uuid)" in to and name.lower().endswith("id"))

    @staticmethod
    def _origin(origin: tuple[str, int]) -> tuple[str, int]:
        return printable(origin[0], NAME_CHARACTERS), origin[1]


def _printable(names: Sequence[str]) -> list[str]:
    return [printable(name, NAME_CHARACTERS) for name in names]


def _is_clear(to: Sequence[str], value: Mapping[str, Any] | Any, event: str | None) -> bool:
    """Whether a field is what the event shows as well: its name, or its time."""
    if "(event)" in to and event is not None and characters(value) == event:
        return True
    return ("(time)" in to or "(receive time)" in to) and _TIME_LIKE.issuperset(characters(value))
