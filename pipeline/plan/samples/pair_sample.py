"""Chooses rows that represent an export, and reads them again with the events that they become.

The sample has, for each event name and UTC year, the first event that is sent. For each entry of `events` in the
mapping that these do not show, it has the first row. If more than DEFAULT_PAIRS are wanted, first events of other UTC
days follow, chosen by a hash. So the choice depends neither on workers nor on memory. In a file that can only be read
from its beginning, such as a compressed one, all blocks before a row must be read again, so rows deep inside such files
are left out if they would cost more than a tenth of the export.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from pipeline.encoder.encoded import DecodedEvent, decode_event, without_profiles
from pipeline.encoder.event import RESERVED
from pipeline.encoder.identified_ids import IdentifiedIds
from pipeline.extractors import Rows
from pipeline.extractors import blocks as read_part
from pipeline.extractors import rows as read_rows
from pipeline.mapper.codegen.runtime import members_of
from pipeline.mapper.inspection.field_uses import PROPERTIES, FieldUses
from pipeline.mapper.inspection.origins import Origins
from pipeline.mapper.language.sections import Mapping as MappingFile
from pipeline.mapper.program.references import Level
from pipeline.models import Block, BrokenRow, ItemOutcomes, UnvalidatedEvent
from pipeline.options.planning import DEFAULT_PAIRS
from pipeline.plan.blocks import PlannedBlock, read_blocks, read_copies
from pipeline.plan.fact_tables import FactTables
from pipeline.plan.samples.examples import ID_PROPERTIES, Place, events_of
from pipeline.plan.samples.source_pairs import (
    MOST_FIELDS,
    NAME_CHARACTERS,
    SentProperty,
    Shown,
    SourceField,
    SourcePair,
    characters,
)
from pipeline.plan.sealed.directory import Directory
from pipeline.text import printable
from pipeline.transform.block import BlockTransformer
from pipeline.transform.field_counts import OPENED, ROW
from pipeline.transform.tasks import TransformConfig

_FOR_RULES = 8
"""At most this many pairs, and a quarter of all, are kept for entries of `events` that no other pair shows."""
_FREE_BLOCKS = 64
_YEARS = 128
_YEAR = f"greatest(least(year(epoch_ms(day * 86400000)), {1970 + _YEARS - 1}), 1970) AS year"
_KINDS = f"""
CREATE TABLE kinds AS
SELECT name, {_YEAR}, sum(different) AS events, min(place) AS place
FROM days WHERE different > 0 GROUP BY ALL
"""
_CHOSEN = f"""
WITH frequent AS (
    SELECT name, row_number() OVER (ORDER BY sum(events) DESC, name) AS nth
    FROM kinds GROUP BY name ORDER BY nth LIMIT {{most}}
), ranked AS (
    SELECT name, nth, year, place, row_number() OVER years - 1 AS rank, count(*) OVER (PARTITION BY name) AS count
    FROM kinds JOIN frequent USING (name) WINDOW years AS (PARTITION BY name ORDER BY year)
), further AS (
    SELECT name, nth, {_YEAR}, place,
        {2 * _YEARS} + row_number() OVER (PARTITION BY name ORDER BY md5(name || day::VARCHAR)) AS turn
    FROM days JOIN frequent USING (name) WHERE {{days}} AND different > 0 AND place NOT IN (SELECT place FROM kinds)
)
SELECT name, year, place FROM (
    SELECT name, nth, year, place, least(2 * rank, 2 * (count - rank) - 1) AS turn FROM ranked
    UNION ALL FROM further ORDER BY turn, nth, place LIMIT {{most}}
) ORDER BY nth, year, place
"""
"""One pair for each name, then their further years: the first, the last, then those between; then other days."""
_ID_PLACES = frozenset(("(distinct_id)", "(merge)", "(person)"))
_NO_ID_PLACES = frozenset(("(event)", "(time)", "(receive time)"))
_SHORTEST_ID = 4
"""An id with fewer characters is not looked for in other values: it would mask half of the numbers."""
_OWN = RESERVED | {"$ip", "$process_person_profile"}
_TIME_LIKE = frozenset("0123456789-:.+/TZUC ")
_MEMBERS = {"event": "(event)", "distinct_id": "(distinct_id)", "timestamp": "(time)", "uuid": "(uuid)"}


class ChosenPair(NamedTuple):
    """The place of the first event of a name that is sent in a UTC year, or on another day of it. The first of
    identical rows represents all of them: its uuid depends only on the row."""

    name: str
    year: int
    place: Place


class PairSample(NamedTuple):
    """The events that are shown, those of the most frequent names first, and how many pairs of name and year exist."""

    chosen: list[ChosenPair]
    kinds: int


def choose_pairs(tables: FactTables, most: int) -> PairSample:
    """Choose at most this many rows, some of which are left for the entries of `events`."""
    tables.run(_KINDS)
    chosen_by = _CHOSEN.format(most=most - min(_FOR_RULES, most // 4), days=most > DEFAULT_PAIRS)
    chosen = [
        ChosenPair(name, year, Place(place >> 40, place >> 16 & 0xFFFFFF, place & 0xFFFF))
        for name, year, place in tables.rows(chosen_by)
    ]
    kinds = tables.number("SELECT count(*) FROM kinds")
    tables.drop("kinds")
    return PairSample(chosen, kinds)


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
    rules: Mapping[str, int],
    directory: Directory,
    config: TransformConfig,
    mapping: MappingFile,
    uses: FieldUses,
    shown: Shown,
    most: int,
) -> list[SourcePair]:
    """At most this many pairs of a sample, for which some blocks of the source are read again up to the wanted rows.

    `rules` are the entries of `events` in the mapping that some row matches, each with the first block that has one.
    """
    places = [one.place for one in sample.chosen]
    reader = _PairReader(directory, config, mapping, uses, shown)
    pairs: dict[Place, SourcePair] = {}
    for one, block in _wanted_blocks(directory, config, {place.block for place in places}):
        for place in places:
            if place.block == one.number:
                pairs[place] = reader.pair(one, block, place)
    found = [pairs[place] for place in places if place in pairs]
    seen = {pair.event_rule for pair in found}
    missing = {name: block for name, block in rules.items() if printable(name, NAME_CHARACTERS) not in seen}
    blocks = sorted(set(missing.values()))[: max(_FOR_RULES, most // 4)]
    dropped = _dropped(directory, frozenset(blocks)) if blocks else set()
    for one, block in _wanted_blocks(directory, config, set(blocks)):
        wanted = {name for name, number in missing.items() if number == one.number}
        firsts = reader.first_of(one.number, block, wanted, dropped)
        for place in islice(firsts, most - len(found)):
            found.append(reader.pair(one, block, place))
    return found


def _wanted_blocks(
    directory: Directory, config: TransformConfig, wanted: set[int]
) -> Iterator[tuple[PlannedBlock, Block]]:
    """The wanted blocks with their content, unless reading up to them would take too long.

    A file that can only be read from its beginning is read from there, at most a tenth of the export in all.
    """
    some = []
    total = 0
    for one in read_blocks(directory):
        total += 1
        if one.number in wanted:
            some.append(one)
    budget = max(_FREE_BLOCKS, total // 10)
    for part, of_part in groupby(some, key=attrgetter("part")):
        fresh = read_part(config.parts[part])
        block, at = next(fresh, None), 0
        free = block is not None and block.content is None
        for one in of_part:
            if free:
                yield one, one.block
                continue
            steps = one.index - at
            if steps > budget:
                break
            budget -= steps
            if steps:
                block, at = next(islice(fresh, steps - 1, steps), None), one.index
            if block is not None:
                yield one, block


def _dropped(directory: Directory, blocks: frozenset[int]) -> set[Place]:
    """The events of some blocks that are copies of others and are not sent."""
    return {
        Place(block, copy.row, copy.position) for block, copy in read_copies(directory) if copy.code and block in blocks
    }


class _PairReader:
    def __init__(
        self, directory: Directory, config: TransformConfig, mapping: MappingFile, uses: FieldUses, shown: Shown
    ) -> None:
        self._directory = directory
        self._transformer = BlockTransformer(config)
        self._block = -1
        self._events: dict[Place, bytes] = {}
        self._parts = config.parts
        self._mapping = mapping
        self._rules = dict(enumerate(mapping.events, 1))
        self._nested = config.counted.nested if config.counted is not None else ()
        self._uses = uses
        self._origins = Origins(mapping, _OWN)
        self._shown = shown
        some_without = config.options.persons == "identified" and directory.identified.exists()
        self._identified = IdentifiedIds(directory.identified) if some_without else None

    def first_of(self, number: int, block: Block, names: set[str], dropped: set[Place]) -> Iterator[Place]:
        """For each of these entries of `events`, the first event of a block that it gives and that is sent."""
        wanted = {rule for rule, name in self._rules.items() if name in names}
        map_row = self._transformer.mapper_of(self._parts[block.part]).map_row
        for row, record in enumerate(self._rows(block)):
            if not wanted:
                break
            if isinstance(record, BrokenRow):
                continue
            result: Any = map_row(record, _Scan(self._nested))
            for position, outcome in enumerate(result if isinstance(result, list) else [result]):
                place = Place(number, row, position)
                if not isinstance(outcome, UnvalidatedEvent) or outcome.rule not in wanted or place in dropped:
                    continue
                if self._event(place) is not None:
                    yield place
                    wanted.discard(outcome.rule)

    def pair(self, planned: PlannedBlock, block: Block, place: Place) -> SourcePair:
        """The row at a place and its event."""
        event = self._event(place)
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
        ids = ID_PROPERTIES.union(*(fate.to for key, fate in targets.items() if self._is_id(key[1], fate.to)))
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
            self._parts[planned.part].path,
            planned.first_row + place.row,
            printable(self._rules.get(rule, ""), NAME_CHARACTERS),
            listed[:MOST_FIELDS],
            max(0, len(listed) - MOST_FIELDS),
            members,
            properties[:MOST_FIELDS],
            max(0, len(properties) - MOST_FIELDS),
        )

    def _event(self, place: Place) -> DecodedEvent | None:
        """The event at a place; None if the row is rejected."""
        if place.block != self._block:
            self._block, self._events = place.block, dict(events_of(self._directory, place.block))
        encoded = self._events.get(place)
        if encoded is not None and self._identified is not None:
            (encoded,) = without_profiles([encoded], self._identified)
        return None if encoded is None else decode_event(encoded)

    def _map(self, block: Block, place: Place, scan: _Scan) -> tuple[int, int]:
        """Show a row to the scan. Returns the number of its event's rule, and of the plain row that became the
        event."""
        record: Any = next(islice(iter(self._rows(block)), place.row, None))
        result: Any = self._transformer.mapper_of(self._parts[block.part]).map_row(record, scan)
        outcomes = result if isinstance(result, list) else [result]
        outcome = outcomes[place.position] if place.position < len(outcomes) else None
        item = 0
        if isinstance(result, ItemOutcomes):
            item = next((number for number, end in enumerate(result.ends) if end > place.position), 0)
        return (outcome.rule if isinstance(outcome, UnvalidatedEvent) else 0), item

    def _rows(self, block: Block) -> Rows:
        part = self._parts[block.part]
        mapper = self._transformer.mapper_of(part)
        return read_rows(part, block, observe=False, opens=mapper.opens, blanks=mapper.blanks, unread=mapper.unread)

    @staticmethod
    def _is_id(name: str, to: Sequence[str]) -> bool:
        if name in ID_PROPERTIES:
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
    """Whether a field only repeats what the event shows: its name, or its time."""
    if "(event)" in to and event is not None and characters(value) == event:
        return True
    return ("(time)" in to or "(receive time)" in to) and _TIME_LIKE.issuperset(characters(value))
