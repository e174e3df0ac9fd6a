"""The list of events with its filters, and one event with its duplicates.

The list continues from the position of its last row, not from a number of rows to skip: every page of it costs the
same, and stays where it is while events arrive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date
from typing import Any
from uuid import UUID

from pipeline.local_service.page.reader import PAGE, ProjectReader, literal
from pipeline.local_service.page.rendering import PlainText, ShownProperties

_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
FLAGS = {"historical": "historical_migration", "live": "NOT historical_migration"}


class BadFilter(ValueError):
    """A filter cannot be understood; the message says which and why."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Every field is text, empty for no such filter. `since` and `until` are days, both included."""

    event: str = ""
    id: str = ""
    person: str = ""
    since: str = ""
    until: str = ""
    flag: str = ""
    text: str = ""

    def params(self) -> dict[str, str]:
        """The filters that are set, as parameters of a query string."""
        return {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name)}

    def condition(self, project: int) -> str:
        """The condition of SQL over `accepted` or a view of it."""
        found = [f"project = {project}"]
        if self.event:
            found.append(f"event = {literal(self.event)}")
        if self.id:
            found.append(f"distinct_id = {literal(self.id)}")
        if self.person:
            found.append(
                f"distinct_id IN (SELECT distinct_id FROM people_ids WHERE project = {project} "
                f"AND person = CAST({literal(self.person)} AS UUID))"
            )
        if self.since:
            found.append(f"\"timestamp\" >= DATE '{self.since}'")
        if self.until:
            found.append(f"\"timestamp\" < DATE '{self.until}' + INTERVAL 1 DAY")
        if self.flag:
            found.append(FLAGS[self.flag])
        if self.text:
            columns = ["event", "distinct_id", "properties"]
            either = [containing(column, self.text) for column in columns]
            if is_uuid(self.text):
                either.append(f"uuid = CAST({literal(self.text)} AS UUID)")
            found.append(f"({' OR '.join(either)})")
        return " AND ".join(found)


def read_filter(params: Mapping[str, str]) -> EventFilter:
    """The filters of a query string. Raises BadFilter."""
    found = EventFilter(**{one.name: params.get(one.name, "") for one in fields(EventFilter)})
    for name, day in (("from", found.since), ("to", found.until)):
        if day and not _is_day(day):
            raise BadFilter(f"“{name}” is no day: write it as 2023-01-31")
    if found.flag and found.flag not in FLAGS:
        raise BadFilter(f"“flag” is {' or '.join(FLAGS)}")
    if found.person and not is_uuid(found.person):
        raise BadFilter("“person” is no UUID")
    return found


def containing(column: str, text: str) -> str:
    """The condition that a column contains the text, as it is or as JSON spells it, in any case."""
    spellings = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    if column != "properties":
        spellings = {text}
    either = [f"contains(lower({column}), lower({literal(one)}))" for one in sorted(spellings)]
    return f"({' OR '.join(either)})"


def is_uuid(text: str) -> bool:
    """Whether a text is a UUID in its usual spelling."""
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def _is_day(text: str) -> bool:
    try:
        return bool(_DAY.fullmatch(text)) and date.fromisoformat(text) is not None
    except ValueError:
        return False


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
    properties: ShownProperties | None
    copies: int = 1


@dataclass(frozen=True, slots=True)
class EventPage:
    """A page of events; `before` and `after` are the places where it goes on, None at an end."""

    rows: list[EventRow]
    total: int
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class EventCopy:
    """One accepted copy of a uuid: `counts` is False where a later copy replaced it, or it was dropped."""

    row: EventRow
    counts: bool
    warnings: list[tuple[str, ShownProperties, bool]]


def listed(
    reader: ProjectReader,
    wanted: EventFilter,
    plain: PlainText,
    *,
    oldest: bool = False,
    after: str = "",
    before: str = "",
) -> EventPage:
    """One page of the events that count: the newest first unless `oldest`, behind the place `after` or up to
    `before`."""
    matching = f'SELECT receipt, "timestamp" FROM {reader.events_table()} WHERE {wanted.condition(reader.project)}'
    place = _PLACE.fullmatch(before or after)
    backwards = bool(before) and place is not None
    ascending = oldest != backwards
    start = ""
    if place is not None:
        start = f'WHERE ("timestamp", receipt) {">" if ascending else "<"} (make_timestamp({place[1]}), {place[2]})'
    order = f'"timestamp" {"ASC" if ascending else "DESC"}, receipt {"ASC" if ascending else "DESC"}'
    receipts = reader.rows(
        f"WITH matching AS MATERIALIZED ({matching}) SELECT receipt, (SELECT count(*) FROM matching) "
        f"FROM matching {start} ORDER BY {order} LIMIT {PAGE + 1}"
    )
    total = receipts[0][1] if receipts else reader.number(f"SELECT count(*) FROM ({matching})") if place else 0
    found = _rows(reader, [receipt for receipt, _ in receipts], order)
    further, found = len(found) > PAGE, found[:PAGE]
    if backwards:
        found.reverse()
    copies = _copies(reader, found)
    rows = [
        _row(one, plain, copies.get((one[2], one[3], one[4], one[5][:10]), 1), _LISTED_PROPERTIES, _LISTED_VALUE)
        for one in found
    ]
    earlier, later = (further, True) if backwards else (place is not None, further)
    return EventPage(
        rows, total, rows[0].place if rows and earlier else None, rows[-1].place if rows and later else None
    )


def copies_of(reader: ProjectReader, uuid: str, plain: PlainText) -> tuple[list[EventCopy], int]:
    """The last accepted copies with a uuid, in the order of acceptance, and how many there are in all."""
    condition = f"project = {reader.project} AND uuid = CAST({literal(uuid)} AS UUID)"
    total = reader.number(f"SELECT count(*) FROM accepted WHERE {condition}")
    receipts = f"SELECT receipt FROM accepted WHERE {condition} ORDER BY receipt DESC LIMIT {MOST_COPIES}"
    found = reader.rows(f"SELECT {_ROW} properties FROM accepted WHERE receipt IN ({receipts}) ORDER BY receipt")
    events_table = {
        receipt for (receipt,) in reader.rows(f"SELECT receipt FROM {reader.events_table()} WHERE {condition}")
    }
    warnings: dict[int, list[tuple[str, ShownProperties, bool]]] = {}
    for receipt, kind, details, dropped in reader.rows(
        f"SELECT receipt, type, details, dropped FROM noticed WHERE receipt IN ({receipts}) ORDER BY type, details"
    ):
        shown = plain.properties(details, most=_LISTED_PROPERTIES, limit=_LISTED_VALUE)
        warnings.setdefault(receipt, []).append((kind, shown, dropped))
    rows = [_row(one, plain, 1, _ALL_PROPERTIES, _WHOLE_VALUE) for one in found]
    return [EventCopy(one, one.receipt in events_table, warnings.get(one.receipt, [])) for one in rows], total


def _rows(reader: ProjectReader, receipts: list[int], order: str) -> list[tuple[Any, ...]]:
    if not receipts:
        return []
    return reader.rows(
        f"SELECT {_ROW} CASE WHEN strlen(properties) <= {LARGE} THEN properties END FROM accepted "
        f"WHERE receipt IN ({', '.join(map(str, receipts))}) ORDER BY {order}"
    )


def _copies(reader: ProjectReader, found: list[tuple[Any, ...]]) -> dict[tuple[str, str, str, str], int]:
    """How many copies were accepted of each event of a page, by uuid, event, distinct_id and UTC day."""
    if not found:
        return {}
    uuids = ", ".join(sorted({f"CAST('{row[2]}' AS UUID)" for row in found}))
    grouped = reader.rows(
        f'SELECT uuid, event, distinct_id, max("timestamp"), count(*) FROM accepted WHERE project = {reader.project} '
        f'AND uuid IN ({uuids}) GROUP BY uuid, event, distinct_id, CAST("timestamp" AS DATE)'
    )
    return {(uuid, event, id, time[:10]): count for uuid, event, id, time, count in grouped}


def _row(found: tuple[Any, ...], plain: PlainText, copies: int, most: int, limit: int) -> EventRow:
    receipt, micros, uuid, event, distinct_id, time, historical, received, size, properties = found
    shown = None if properties is None else plain.properties(properties, most=most, limit=limit)
    place = f"{micros}.{receipt}"
    return EventRow(receipt, place, uuid, event, distinct_id, time, historical, received, size, shown, copies)
