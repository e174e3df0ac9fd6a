"""The list of events, and one event with its copies.

The list goes on by the place of its last row, not by a number of rows to pass over: every page of it costs the same,
and stays where it is while events land.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .event_filter import EventFilter
from .plain_text import PlainText, Properties
from .reading import PAGE, Reading, literal

LARGE = 20_000
"""Bytes of properties over which a list leaves them to the event's own page."""
MOST_COPIES = 50
_LISTED_PROPERTIES, _LISTED_VALUE = 40, 200
_ALL_PROPERTIES, _WHOLE_VALUE = 1_000, 10_000
_PLACE = re.compile(r"(-?\d{1,18})\.(\d{1,18})", re.ASCII)

_ROW = (
    'receipt, epoch_us("timestamp"), uuid, event, distinct_id, "timestamp", historical_migration, created_at, '
    "strlen(properties), "
)


@dataclass(frozen=True, slots=True)
class EventRow:
    """One copy of an event. `place` is where a list goes on, `properties` None where they are too large for a list,
    `copies` how many were accepted that collapse into this one."""

    receipt: int
    place: str
    uuid: str
    event: str
    distinct_id: str
    time: str
    historical: bool
    received: str
    size: int
    properties: Properties | None
    copies: int = 1


@dataclass(frozen=True, slots=True)
class EventPage:
    """A page of events; `before` and `after` are the places where it goes on, None at an end."""

    rows: list[EventRow]
    total: int
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Copy:
    """One accepted copy of a uuid: `counts` is False where a later copy replaced it, or it was dropped."""

    row: EventRow
    counts: bool
    warnings: list[tuple[str, Properties, bool]]


def listed(
    reading: Reading, wanted: EventFilter, plain: PlainText, *, oldest: bool = False, after: str = "", before: str = ""
) -> EventPage:
    """One page of the events that count: the newest first unless `oldest`, behind the place `after` or up to
    `before`."""
    matching = f'SELECT receipt, "timestamp" FROM {reading.counting()} WHERE {wanted.condition(reading.project)}'
    place = _PLACE.fullmatch(before or after)
    backwards = bool(before) and place is not None
    ascending = oldest != backwards
    start = ""
    if place is not None:
        start = f'WHERE ("timestamp", receipt) {">" if ascending else "<"} (make_timestamp({place[1]}), {place[2]})'
    order = f'"timestamp" {"ASC" if ascending else "DESC"}, receipt {"ASC" if ascending else "DESC"}'
    receipts = reading.rows(
        f"WITH matching AS MATERIALIZED ({matching}) SELECT receipt, (SELECT count(*) FROM matching) "
        f"FROM matching {start} ORDER BY {order} LIMIT {PAGE + 1}"
    )
    total = receipts[0][1] if receipts else reading.number(f"SELECT count(*) FROM ({matching})") if place else 0
    found = _rows(reading, [receipt for receipt, _ in receipts], order)
    further, found = len(found) > PAGE, found[:PAGE]
    if backwards:
        found.reverse()
    copies = _copies(reading, found)
    rows = [
        _row(one, plain, copies.get((one[2], one[3], one[4], one[5][:10]), 1), _LISTED_PROPERTIES, _LISTED_VALUE)
        for one in found
    ]
    earlier, later = (further, True) if backwards else (place is not None, further)
    return EventPage(
        rows, total, rows[0].place if rows and earlier else None, rows[-1].place if rows and later else None
    )


def copies_of(reading: Reading, uuid: str, plain: PlainText) -> tuple[list[Copy], int]:
    """The last accepted copies with a uuid, in the order of acceptance, and how many there are in all."""
    condition = f"project = {reading.project} AND uuid = CAST({literal(uuid)} AS UUID)"
    total = reading.number(f"SELECT count(*) FROM accepted WHERE {condition}")
    receipts = f"SELECT receipt FROM accepted WHERE {condition} ORDER BY receipt DESC LIMIT {MOST_COPIES}"
    found = reading.rows(f"SELECT {_ROW} properties FROM accepted WHERE receipt IN ({receipts}) ORDER BY receipt")
    counting = {receipt for (receipt,) in reading.rows(f"SELECT receipt FROM {reading.counting()} WHERE {condition}")}
    told: dict[int, list[tuple[str, Properties, bool]]] = {}
    for receipt, kind, details, dropped in reading.rows(
        f"SELECT receipt, type, details, dropped FROM noticed WHERE receipt IN ({receipts}) ORDER BY type, details"
    ):
        shown = plain.properties(details, most=_LISTED_PROPERTIES, limit=_LISTED_VALUE)
        told.setdefault(receipt, []).append((kind, shown, dropped))
    rows = [_row(one, plain, 1, _ALL_PROPERTIES, _WHOLE_VALUE) for one in found]
    return [Copy(one, one.receipt in counting, told.get(one.receipt, [])) for one in rows], total


def _rows(reading: Reading, receipts: list[int], order: str) -> list[tuple[Any, ...]]:
    if not receipts:
        return []
    return reading.rows(
        f"SELECT {_ROW} CASE WHEN strlen(properties) <= {LARGE} THEN properties END FROM accepted "
        f"WHERE receipt IN ({', '.join(map(str, receipts))}) ORDER BY {order}"
    )


def _copies(reading: Reading, found: list[tuple[Any, ...]]) -> dict[tuple[str, str, str, str], int]:
    """How many copies were accepted of each event of a page, by uuid, event, distinct_id and UTC day."""
    if not found:
        return {}
    uuids = ", ".join(sorted({f"CAST('{row[2]}' AS UUID)" for row in found}))
    grouped = reading.rows(
        f'SELECT uuid, event, distinct_id, max("timestamp"), count(*) FROM accepted WHERE project = {reading.project} '
        f'AND uuid IN ({uuids}) GROUP BY uuid, event, distinct_id, CAST("timestamp" AS DATE)'
    )
    return {(uuid, event, id, time[:10]): count for uuid, event, id, time, count in grouped}


def _row(found: tuple[Any, ...], plain: PlainText, copies: int, most: int, limit: int) -> EventRow:
    receipt, micros, uuid, event, distinct_id, time, historical, received, size, properties = found
    shown = None if properties is None else plain.properties(properties, most=most, limit=limit)
    place = f"{micros}.{receipt}"
    return EventRow(receipt, place, uuid, event, distinct_id, time, historical, received, size, shown, copies)
