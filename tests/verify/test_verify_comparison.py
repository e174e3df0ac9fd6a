"""The queries of a comparison agree with a small model of the same definitions."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import duckdb
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.identity.database import Database
from pipeline.verify.comparison import Comparison
from pipeline.verify.findings import FoundCounts

DAY = 86_400_000_000


class Event(NamedTuple):
    uuid: int
    name: str
    person: int
    time: int


EVENTS = st.builds(Event, st.integers(0, 3), st.sampled_from("ab"), st.integers(1, 2), st.sampled_from([0, DAY]))


def model(want: Sequence[tuple[Event, bool]], have: Sequence[Event], *, alone: bool) -> tuple[FoundCounts, set[str]]:
    """The counts and the kinds of differences; for each planned event, `want` says whether it is settled."""
    there, planned = set(have), {event for event, _ in want}
    uuids = {event.uuid for event in planned}
    right = {event.uuid for event in planned & there}
    lost = [event for event, settled in want if settled and event not in there]
    strange = [event for event in sorted(there - planned) if alone or event.uuid in uuids]
    of_uuid = {event.uuid: event for event in reversed(strange)}
    counts = Counter[str](copies=len(have) - len(there), others=len(there - planned) - len(strange))
    counts["found"] = len(there) - counts["others"]
    counts["expected"] = sum(settled or event in there for event, settled in want)
    seen = set(right)
    for event in lost:
        other = of_uuid.get(event.uuid)
        counts["missing" if other is None else "different"] += 1
        if other is not None:
            counts["renamed"] += other.name != event.name
            counts["retimed"] += other.time != event.time
            counts["other_person"] += other.person != event.person
    missed, doubtful = {event.uuid for event in lost}, {event.uuid for event, _ in want if event not in there}
    for event in strange:
        if event.uuid in seen:
            counts["duplicated"] += 1
            counts["extra"] += 1
        elif event.uuid in missed | doubtful:
            counts["different"] += event.uuid not in missed
            seen.add(event.uuid)
        else:
            counts["extra"] += 1
    kinds = {kind for kind in ("missing", "different", "duplicated") if counts[kind]}
    return FoundCounts(**counts), kinds | {"extra"} if counts["extra"] > counts["duplicated"] else kinds


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(EVENTS, st.booleans()), max_size=8), st.lists(EVENTS, max_size=8), st.booleans())
def test_the_queries_agree_with_the_model(want: list[tuple[Event, bool]], have: list[Event], alone: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        expected, landed = Path(folder) / "expected.parquet", Path(folder) / "landed.parquet"
        with duckdb.connect() as made:
            columns = "hi UBIGINT, lo UBIGINT, name VARCHAR, person UBIGINT, time BIGINT, digest UBIGINT"
            made.execute(f"CREATE TABLE landed ({columns})")
            made.execute(f"CREATE TABLE want (phase VARCHAR, number BIGINT, place BIGINT, {columns}, state VARCHAR)")
            for event in have:
                made.execute("INSERT INTO landed VALUES (7, ?, ?, ?, ?, 0)", event)
            for place, (event, settled) in enumerate(want):
                state = "settled" if settled else "begun"
                made.execute("INSERT INTO want VALUES ('events', 0, ?, 7, ?, ?, ?, ?, 0, ?)", (place, *event, state))
            made.execute(f"COPY want TO '{expected}'; COPY landed TO '{landed}'")
        with Database(Path(folder), threads=1) as database:
            comparison = Comparison(database, expected)
            comparison.compare(f"read_parquet('{landed}')", alone=alone, among_others=False, days=None)
            comparison.conclude()
            found = FoundCounts(**comparison.counts)
            kinds = {kind for (kind,) in database.rows("SELECT DISTINCT kind FROM differences")}
            cells = comparison.cells()
            lost = sum(run.events for run in comparison.lost())
            extras = sum(one.count for one in comparison.extras())
    assert (found, kinds) == model(want, have, alone=alone)
    assert lost == found.missing
    assert extras == found.others + found.extra - found.duplicated
    assert (kinds != set()) == any((cells.missing, cells.different, cells.duplicated, cells.extra))
