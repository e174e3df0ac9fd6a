"""Finds duplicates exactly, however many rows there are, by queries over the facts of all blocks.

The decisions (docs/change/architecture.md#uuids):

* Rows with the same source key are one event: the row with the latest receive time stays (the earliest, if the mapping
  says so), then the one with the latest time, then the one whose content has the greatest digest, however it is
  written. The others are skipped: as `duplicate_event` if their content equals the winner's, else as `superseded`.
  Rows whose event name or UTC day differs from the winner's are different events, whatever their key: each counts
  as a *clash*, and a check of the plan stops on any. The same holds for rows of another person. The distinct_id may
  differ, because an export made after a merge shows the merged id: identity resolution decides whose it is
  (`strangers`).
* Identical rows without a source key stay separate events, distinguished by an ordinal, unless `collapse` makes them
  one event (then the others are duplicates, even if they write the same record differently). It does not matter
  which row gets which ordinal: the rows are interchangeable and the set of uuids is the same.
* A plan that is one of a series, or that replays another one, leaves out the events that an earlier plan settled:
  `already_settled`. They keep the number of their copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.plan.settled import ALREADY_SETTLED, Settled
from pipeline.timestamps import DAY

if TYPE_CHECKING:
    from pipeline.plan.fact_tables import FactTables

CHANGED = 1
"""The ordinal of an event with a key that an earlier plan of the series settled with other content."""


class Clash(NamedTuple):
    """Two rows with one source key that are different events: by name and day, or only by person. Rows are (block,
    row); a name is None if its row has no event. The winner is EARLIER if an earlier plan of the series sent it. Its
    time then shows only the day, and is None if no event of this plan has its name."""

    row: tuple[int, int]
    winner: tuple[int, int]
    name: str | None
    winner_name: str | None
    time: int
    winner_time: int | None


EARLIER = (-1, -1)
MAX_CLASHES = 3
"""The first clashes of the source, this many, serve as examples."""


class Replaced(NamedTuple):
    """A superseded event and the one that is sent instead, both as (block, row, position), and the reason."""

    event: tuple[int, int, int]
    winner: tuple[int, int, int]
    reason: str


Canonical: TypeAlias = Callable[
    [Iterator[tuple[int, int, int]]], Iterator[tuple[NDArray[np.uint64], NDArray[np.uint64]]]
]
"""Takes places (block, row, position), some at a time (`facts`); gives, in the same order, the halves of the digest of
what the fact at each place says in one canonical spelling, in the shape (n, 2)."""

_TWICE = "CREATE TABLE twice AS SELECT xor(hi, lo) AS folded FROM facts GROUP BY folded HAVING count(*) > 1"
_COPIES = """
CREATE TABLE copies AS SELECT facts.* EXCLUDE (same, distinct_id) FROM facts SEMI JOIN twice ON xor(hi, lo) = folded
"""
_CANONICAL = "CREATE TABLE canonical (place UBIGINT, said_hi UBIGINT, said_lo UBIGINT)"
_TIED = """
CREATE TABLE tied AS
SELECT hi, lo FROM (
    SELECT hi, lo, content_hi, content_lo,
        rank() OVER (PARTITION BY hi, lo ORDER BY received DESC, time DESC) AS rank
    FROM copies WHERE NOT keyless
)
WHERE rank = 1 GROUP BY hi, lo HAVING min(content_hi) < max(content_hi) OR min(content_lo) < max(content_lo)
"""
"""The keys for which several rows with the same times differ: only their content, however written, decides."""
_PLACES_TIED = """
SELECT block, row, position FROM copies SEMI JOIN tied USING (hi, lo) WHERE NOT keyless ORDER BY place
"""
_JUDGED = """
CREATE TABLE judged AS
SELECT *, CASE
        WHEN apart OR place = winner_place THEN NULL
        WHEN keyless OR (said_hi = winner_hi AND said_lo = winner_lo) THEN 'duplicate_event' ELSE 'superseded'
    END AS code
FROM (
    SELECT *,
        CASE WHEN apart THEN row_number() OVER winners - 1 ELSE 0 END AS ordinal,
        first_value(place) OVER winners AS winner_place, first_value(block) OVER winners AS winner_block,
        first_value(row) OVER winners AS winner_row, first_value(position) OVER winners AS winner_position,
        first_value(name) OVER winners AS winner_name, first_value(time) OVER winners AS winner_time,
        first_value(received) OVER winners AS winner_received, first_value(person) OVER winners AS winner_person,
        first_value(said_hi) OVER winners AS winner_hi, first_value(said_lo) OVER winners AS winner_lo
    FROM (
        SELECT * REPLACE (coalesce(said_hi, content_hi) AS said_hi, coalesce(said_lo, content_lo) AS said_lo),
            keyless AND NOT {collapse} AS apart, CASE WHEN apart THEN 0 ELSE 1 END AS ranked
        FROM copies LEFT JOIN canonical USING (place)
    )
    WINDOW winners AS (
        PARTITION BY hi, lo, apart
        ORDER BY ranked * received DESC, ranked * time DESC, CASE WHEN apart THEN 0 ELSE said_hi END DESC,
            CASE WHEN apart THEN 0 ELSE said_lo END DESC, place
    )
)
"""
"""Each copy with the row that stays for its key. Among equal events the first in the source stays. Rows that are
`apart` are events of their own, numbered in the order of the source."""
_DECIDE = """
INSERT INTO decided
SELECT place, block, row, position, row_events, event, name, time, code, ordinal FROM judged
WHERE code IS NOT NULL OR ordinal > 0
"""
_LOST = f"""
CREATE TABLE lost AS
SELECT block, row, position, event, name, time, person, winner_block, winner_row, winner_position, winner_name,
    winner_time, winner_person, received = winner_received AS same_receipt, code = 'duplicate_event' AS alike,
    name IS DISTINCT FROM winner_name OR time // {DAY} != winner_time // {DAY} AS clashes
FROM judged WHERE code IS NOT NULL AND NOT keyless
"""
"""The rows with a key that are left out for another one."""
_APART = """
CREATE TABLE {table} AS
SELECT block, row, name, time, winner_block::BIGINT AS winner_block, winner_row::BIGINT AS winner_row, winner_name,
    winner_time, person, winner_person, 0::UBIGINT AS cell
FROM lost WHERE {those}
"""
"""`cell` is that of a winner that an earlier plan sent (`cells_of`), 0 if the name and day are known."""
_SETTLED = "place UBIGINT, ordinal UINTEGER, changed UTINYINT, clashes UTINYINT, winner_person UBIGINT, cell UBIGINT"
_ASK_SETTLED = """
SELECT place, person, time, hi, lo, content_hi, keyless::UTINYINT AS keyless, ordinal::UINTEGER AS ordinal {hash}
FROM sent {names} ORDER BY hi, lo, ordinal
"""
_ODD = 0x9E3779B97F4A7C15
_INVERSE = pow(_ODD, -1, 1 << 64)
_MOST_DAYS = 1 << 22
"""More than the days of all years that a time can have, counted from 1970."""


class Copies(NamedTuple):
    """Rows with a key that are left out for another one: the first superseded event, and how many rows may state
    something else than the row that stays."""

    replaced: Replaced | None
    other: int


def decide_copies(tables: FactTables, *, collapse: bool, canonical: Canonical) -> Copies:
    """Decide on the rows of the source that share a uuid: fill `decided`, and make `clashing` and `strangers`."""
    for sql in (_TWICE, _COPIES, _TIED, _CANONICAL):
        tables.run(sql)
    tables.drop("twice")
    if tables.number("SELECT count(*) FROM tied"):
        for places, halves in canonical(tables.tuples(_PLACES_TIED)):
            tables.add("canonical", places, *halves.T)
    tables.run(_JUDGED.format(collapse=collapse))
    for name in ("copies", "tied", "canonical"):
        tables.drop(name)
    tables.run(_DECIDE)
    tables.run(_LOST)
    tables.drop("judged")
    tables.run(_APART.format(table="clashing", those="clashes"))
    tables.run(_APART.format(table="strangers", those="NOT clashes AND person != winner_person"))
    other = tables.number("SELECT count(*) FROM lost WHERE NOT (same_receipt AND time = winner_time AND alike)")
    copies = Copies(_first_replaced(tables), other)
    tables.drop("lost")
    tables.apply_decisions()
    return copies


def first_clashes(tables: FactTables, rows: str) -> list[Clash]:
    """The first of these rows in `clashing` or `strangers`."""
    found = tables.rows(
        "SELECT block, row, winner_block, winner_row, name, winner_name, time, winner_time, cell"
        f" FROM {rows} ORDER BY ALL LIMIT {MAX_CLASHES}"
    )
    clashes = [
        (Clash((block, row), (other, other_row), *rest), cell) for block, row, other, other_row, *rest, cell in found
    ]
    return [clash._replace(**_name_and_day(tables, cell)) if cell else clash for clash, cell in clashes]


def _name_and_day(tables: FactTables, cell: int) -> dict[str, Any]:
    """The name and time of the winner with this cell. Its name is one of this plan's if that gives a possible day."""
    for batch in tables.stream("SELECT name, hash FROM name_hashes"):
        hashes = batch.column("hash").to_numpy()
        days = ((hashes ^ np.uint64(cell)) * np.uint64(_INVERSE)).view(np.int64)
        for at in np.flatnonzero(np.abs(days) < _MOST_DAYS):
            return {"winner_name": batch.column("name")[at].as_py(), "winner_time": int(days[at]) * DAY}
    return {"winner_name": None, "winner_time": None}


def _first_replaced(tables: FactTables) -> Replaced | None:
    """The first superseded event in the source, and the event that stays."""
    found = tables.rows(
        "SELECT block, row, position, winner_block, winner_row, winner_position, same_receipt, time = winner_time"
        " FROM lost WHERE event AND NOT alike ORDER BY block, row, position LIMIT 1"
    )
    if not found:
        return None
    *places, same_receipt, same_time = found[0]
    reason = "both have the same times, so the greater digest of the values decides"
    if not same_receipt:
        reason = "its receive time decides"
    elif not same_time:
        reason = "its time is later"
    return Replaced(tuple(places[:3]), tuple(places[3:]), reason)


def decide_settled(tables: FactTables, settled: Settled, *, in_series: bool) -> int:
    """Leave out the events that were settled before. Returns how many of them have other content now.

    In a series, events with a key and other content get the ordinal CHANGED, and clashes and strangers among them are
    added; this needs the table `name_hashes`.
    """
    tables.run(f"CREATE TABLE settled ({_SETTLED})")
    names = ("JOIN name_hashes USING (name)", ", hash") if in_series else ("", "")
    for some in tables.arrays(_ASK_SETTLED.format(names=names[0], hash=names[1])):
        ordinals = some["ordinal"].copy()
        found = settled.find(some["hi"], some["lo"], ordinals)
        at = np.flatnonzero(found.settled)
        changed = some["content_hi"][at] != found.content
        keyed = some["keyless"][at] == 0
        clashes, cell = np.zeros(len(at), bool), np.zeros(len(at), np.uint64)
        person = some["person"][at]
        if found.cell is not None and found.person is not None and in_series:
            ordinals[at] |= np.where(changed & keyed, CHANGED, 0).astype(np.uint32)
            cells = cells_of(some["hash"][at], some["time"][at])
            clashes = changed & keyed & (cells != found.cell)
            cell = np.where(clashes, found.cell, cell)
            person = np.where(changed & keyed & ~clashes, found.person, person)
        flags = (one.astype(np.uint8) for one in (changed, clashes))
        tables.add("settled", some["place"][at], ordinals[at], *flags, person, cell)
    tables.run("DELETE FROM decided WHERE place IN (SELECT place FROM settled)")
    tables.run(
        "INSERT INTO decided SELECT place, block, row, position, row_events, event, name, time,"
        f" '{ALREADY_SETTLED}', settled.ordinal FROM facts JOIN settled USING (place)"
    )
    for table, those in (("clashing", "settled.clashes = 1"), ("strangers", "settled.winner_person != person")):
        tables.run(
            f"INSERT INTO {table} SELECT block, row, name, time, -1, -1, name, time, person,"
            f" settled.winner_person, cell FROM facts JOIN settled USING (place) WHERE {those}"
        )
    tables.apply_decisions()
    changed = tables.number("SELECT sum(changed) FROM settled")
    tables.drop("settled")
    return changed


def cells_of(hashes: NDArray[np.uint64], times: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A hash of each event name and UTC day; `hashes` are the `hash_id` of the names."""
    days = (times // DAY).astype(np.int64).view(np.uint64)
    cells: NDArray[np.uint64] = hashes ^ (days * np.uint64(_ODD))
    return cells
