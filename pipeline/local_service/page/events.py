"""The filters of events, and their list.

The list continues from the position of its last row, not from a number of rows to skip: every page of it costs the
same, and stays where it is while events arrive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import msgspec

from pipeline.local_service.management.requests import parse_instant, uuid_of
from pipeline.local_service.page.reader import PAGE, ProjectReader, literal

_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
UPDATE = (
    "(event IN ('$set', '$groupidentify', '$group_identify') OR "
    "event = '$identify' AND NOT contains(properties, '\"$anon_distinct_id\"'))"
)
"""The condition of updates of profiles and groups: their time is when they were written, and nothing happened then."""
FLAGS = {"historical": "historical_migration", "live": "NOT historical_migration"}


class BadFilter(ValueError):
    """A filter cannot be understood; the message names it and the reason."""


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
        return {field.name: getattr(self, field.name) for field in fields(self) if getattr(self, field.name)}

    def condition(self, project: int) -> str:
        conditions = [f"project = {project}"]
        if self.event:
            conditions.append(f"event = {literal(self.event)}")
        if self.id:
            conditions.append(f"distinct_id = {literal(self.id)}")
        if self.person:
            conditions.append(
                f"distinct_id IN (SELECT distinct_id FROM people_ids WHERE project = {project} "
                f"AND person = CAST({literal(self.person)} AS UUID))"
            )
        if self.since:
            conditions.append(f"\"timestamp\" >= DATE '{self.since}'")
        if self.until:
            conditions.append(f"\"timestamp\" < DATE '{self.until}' + INTERVAL 1 DAY")
        if self.flag:
            conditions.append(FLAGS[self.flag])
        if self.text:
            conditions.append(containing(self.text, "event", "distinct_id", "properties", uuid="uuid"))
        return " AND ".join(conditions)


def read_filter(params: Mapping[str, str]) -> EventFilter:
    """The filters of a query string. Raises BadFilter."""
    wanted = EventFilter(**{field.name: params.get(field.name, "") for field in fields(EventFilter)})
    for name, day in (("from", wanted.since), ("to", wanted.until)):
        if day and not (_DAY.fullmatch(day) and parse_instant(day)):
            raise BadFilter(f"“{name}” is no day: write it as 2023-01-31")
    if wanted.flag and wanted.flag not in FLAGS:
        raise BadFilter(f"“flag” is {' or '.join(FLAGS)}")
    if wanted.person and not is_uuid(wanted.person):
        raise BadFilter("“person” is no UUID")
    return wanted


def containing(text: str, *columns: str, uuid: str = "") -> str:
    """The condition that a column contains the text in any case, or that the column `uuid` equals it.

    In `properties` the text may also be spelled as JSON.
    """
    either = [f"{uuid} = CAST({literal(text)} AS UUID)"] if uuid and is_uuid(text) else []
    as_json = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    for column in columns:
        for spelling in sorted({text} | (as_json if column == "properties" else set())):
            either.append(f"contains(lower({column}), lower({literal(spelling)}))")
    return f"({' OR '.join(either)})"


def is_uuid(text: str) -> bool:
    return uuid_of(text) == text.lower()


LARGE = 20_000
BOUNDED = f"CASE WHEN strlen(properties) <= {LARGE} THEN properties END AS properties"
"""The properties of a row in a list; NULL over LARGE bytes, which leaves them to the page of the row itself."""
_POSITION = re.compile(r"(-?\d{1,18})\.(\d{1,18})", re.ASCII)
COLUMNS = (
    'receipt, uuid, event, distinct_id, "timestamp" AS "time", historical_migration AS historical, '
    "created_at AS received, strlen(properties) AS size"
)


class EventPage(msgspec.Struct, frozen=True):
    """A page of events. Each row has COLUMNS, `properties` (BOUNDED), and `copies`: how many accepted events collapse
    into it. `before` and `after` are the positions where the list continues, None at an end."""

    rows: list[Any]
    total: int
    before: str | None
    after: str | None


def list_page(
    reader: ProjectReader, wanted: EventFilter, *, oldest: bool = False, after: str = "", before: str = ""
) -> EventPage:
    """One page of the events after duplicates collapsed: the newest first unless `oldest`, behind the position `after`
    or up to `before`."""
    matching = f'SELECT receipt, "timestamp" FROM {reader.events_table()} WHERE {wanted.condition(reader.project)}'
    position = _POSITION.fullmatch(before or after)
    backwards = bool(before) and position is not None
    ascending = oldest != backwards
    start = ""
    if position is not None:
        start = (
            f'WHERE ("timestamp", receipt) {">" if ascending else "<"} (make_timestamp({position[1]}), {position[2]})'
        )
    order = f'"timestamp" {"ASC" if ascending else "DESC"}, receipt {"ASC" if ascending else "DESC"}'
    receipts = reader.rows(
        f"WITH matching AS MATERIALIZED ({matching}) SELECT receipt, (SELECT count(*) FROM matching) AS total "
        f"FROM matching {start} ORDER BY {order} LIMIT {PAGE + 1}"
    )
    if not receipts:
        total = reader.number(f"SELECT count(*) FROM ({matching})") if position else 0
        return EventPage([], total, None, None)
    listed = f"receipt IN ({', '.join(str(row.receipt) for row in receipts[:PAGE])})"
    rows = reader.rows(
        f"SELECT {COLUMNS}, {BOUNDED}, epoch_us(\"timestamp\") || '.' || receipt AS position, copies FROM accepted "
        f'JOIN (SELECT uuid, event, distinct_id, CAST("timestamp" AS DATE) AS day, count(*) AS copies FROM accepted '
        f"WHERE project = {reader.project} AND uuid IN (SELECT uuid FROM accepted WHERE {listed}) GROUP BY ALL) "
        f'USING (uuid, event, distinct_id) WHERE {listed} AND CAST("timestamp" AS DATE) = day ORDER BY {order}'
    )
    if backwards:
        rows.reverse()
    further = len(receipts) > PAGE
    earlier, later = (further, True) if backwards else (position is not None, further)
    return EventPage(
        rows, receipts[0].total, rows[0].position if earlier else None, rows[-1].position if later else None
    )
