"""Queries over the events that are sent (`fact_tables`): people who show a stratum, and all events of some people.

Candidates are the people of the events with the smallest digests, so they depend neither on workers nor on the
order of files. People with few events come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from pipeline.identity.database import Database
from pipeline.plan.blocks import read_blocks
from pipeline.plan.canary.strata import EACH, Stratum
from pipeline.plan.samples.source_pairs import SourcePair
from pipeline.plan.sealed.directory import Directory, read_lines
from pipeline.transform.staged import events_file, unstage

Line = tuple[str, int]
"""A phase, and the number of a line in its sealed file, from 0."""
MOST_STRATA = 4_096
"""At most this many event names in a year, those with the smallest digests: a sample does not show more."""
_OF_FEW, _OF_MANY = 64, 16
"""In each stratum, the people of this many events are candidates: events of people with few events, and of people with
many."""


class Candidates(NamedTuple):
    """The number of events of each stratum, and ids that show it; `more`: there are strata that were not counted."""

    events: dict[Stratum, int]
    ids: dict[Stratum, list[str]]
    more: bool


class Person(msgspec.Struct):
    """Everything about one person: its number, one of its ids, its events, its lines, and what all of these show."""

    number: int
    name: str
    events: int = 0
    lines: list[Line] = msgspec.field(default_factory=list)
    strata: set[Stratum] = msgspec.field(default_factory=set)

    @property
    def size(self) -> int:
        """How much is sent for the person, without groups."""
        return self.events + len(self.lines)


def find_candidates(database: Database, most: int, large: int) -> Candidates:
    """The event names in a year, each with ids of people who have at most `most` events; people with more than `large`
    come last."""
    database.run(
        "CREATE VIEW events AS SELECT block, row, position, name, distinct_id, person, content_lo,"
        " year(make_timestamp(CAST(time AS BIGINT))) AS year FROM sent"
    )
    database.run("CREATE TABLE strata AS SELECT name, year, count(*) AS events FROM events GROUP BY name, year")
    database.run(f"CREATE TABLE kept AS SELECT * FROM strata ORDER BY md5(name || year), name LIMIT {MOST_STRATA}")
    database.run(
        f"CREATE TABLE busy AS SELECT person, count(*) AS many FROM events GROUP BY person HAVING count(*) > {large}"
    )
    rows = database.rows(
        "SELECT kept.name, kept.year, any_value(kept.events),"
        f" arg_min(distinct_id, content_lo, {_OF_FEW}) FILTER (WHERE many IS NULL),"
        f" arg_min(distinct_id, content_lo, {_OF_MANY}) FILTER (WHERE many <= {most})"
        " FROM events JOIN kept USING (name, year) LEFT JOIN busy USING (person) GROUP BY kept.name, kept.year"
    )
    found = Candidates({}, {}, database.number("SELECT count(*) FROM strata") > MOST_STRATA)
    for name, year, events, few, many in rows:
        stratum = Stratum("event", name, str(year))
        found.events[stratum] = int(events)
        found.ids[stratum] = list(dict.fromkeys([*(few or ()), *(many or ())]))[:EACH]
    return found


def add_rules(database: Database, directory: Directory, paths: Sequence[str], found: Candidates) -> None:
    """Add the rows that the plan shows for an entry of `events` in the mapping."""
    shown: dict[str, list[tuple[int, str]]] = {}
    for pair in read_lines(directory.source_pairs, SourcePair) if directory.source_pairs.exists() else ():
        if pair.event_rule:
            shown.setdefault(pair.file, []).append((pair.row, pair.event_rule))
    rows = [
        (block.number, row - block.first_row, rule)
        for block in (read_blocks(directory) if shown else ())
        for row, rule in shown.get(paths[block.part], ())
        if block.first_row <= row < block.first_row + block.rows
    ]
    if not rows:
        return
    database.run("CREATE TABLE rules (block BIGINT, row BIGINT, rule VARCHAR)")
    database.insert("rules", rows)
    query = "SELECT rule, distinct_id FROM events JOIN rules USING (block, row) ORDER BY rule, block, row, position"
    for rule, distinct_id in database.rows(query):
        stratum = Stratum("rule", rule)
        found.events[stratum] = 1
        found.ids.setdefault(stratum, []).append(distinct_id)


def add_events(database: Database, owners: Mapping[str, int], persons: Sequence[Person]) -> None:
    """Add the events of these ids to their people, who are given by number; the table `theirs` has their places. A
    person's name becomes the first of its ids that has events."""
    database.run("CREATE TABLE ids (distinct_id VARCHAR, owner BIGINT)")
    database.insert("ids", owners.items())
    database.run(
        "CREATE TABLE theirs AS SELECT owner, block, row, position, name, year, distinct_id"
        " FROM events JOIN ids USING (distinct_id)"
    )
    query = (
        "SELECT owner, name, year, count(*), min(distinct_id) FROM theirs GROUP BY owner, name, year"
        " ORDER BY owner, name, year"
    )
    for owner, name, year, events, distinct_id in database.rows(query):
        own = persons[owner]
        own.name = min(own.name, distinct_id) if own.events else distinct_id
        own.events += events
        own.strata.add(Stratum("event", name, str(year)))


class NamedEvents:
    """Reads people's events from the staged blocks."""

    def __init__(self, database: Database, directory: Directory) -> None:
        self._database = database
        self._staged = directory.staged

    def of(self, owner: int) -> Iterator[bytes]:
        """The events of a person."""
        rows = self._database.rows(f"SELECT block, row, position FROM theirs WHERE owner = {owner} ORDER BY ALL")
        wanted: dict[int, set[tuple[int, int]]] = {}
        for block, row, position in rows:
            wanted.setdefault(block, set()).add((row, position))
        for block, places in wanted.items():
            staged = unstage(events_file(self._staged, block).read_bytes())
            for event, row, position in zip(staged.events, staged.row_of, staged.positions, strict=True):
                if (row, position) in places:
                    yield event
