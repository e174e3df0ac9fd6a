"""Find the fields with the event's name, its time, its person and the row's id in some rows of an unknown export.

Only this package knows the names of fields, for `survey`, `mapping new` and recognition. Known names come first, in the
order in which the tools trust their own fields (docs/know/exports.md#mixpanel-rows, #amplitude-rows,
#segment-messages, #ga4-rows, #posthog-export); a name counts only if its values fit. If no name is known, the values
decide. The result is shown to a person and starts a mapping; it never decides what is sent.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pipeline.survey.clock import Clock
from pipeline.survey.columns import Column, columns_of
from pipeline.survey.roles.events import events_in
from pipeline.survey.roles.ids import key_in, keys_in, people_in
from pipeline.survey.roles.times import clocks_in, received_in
from pipeline.survey.shape import DISTINCT_ID, EVENT, TIMESTAMP, UUID
from pipeline.values import Record, Value, canonical, text

PROBE_ROWS = 500
"""How many rows of a part are read to guess the roles of its fields."""


class Roles(msgspec.Struct, frozen=True):
    """The fields of one part by role; "" and None if no field has the role."""

    event: str = ""
    distinct_id: str = ""
    uuid: str = ""
    time: Clock | None = None
    received: Clock | None = None

    def by_path(self) -> dict[str, str]:
        """Role by path, for the roles that are shown."""
        time = self.time.path if self.time else ""
        pairs = ((self.event, EVENT), (self.distinct_id, DISTINCT_ID), (time, TIMESTAMP), (self.uuid, UUID))
        return {path: role for path, role in pairs if path}


def look_up(record: Record, path: str, opened: dict[str, Record]) -> Value:
    """The value at a path of one or two steps; a column with exactly that name wins. `opened` are the row's objects."""
    if path in record:
        return record[path]
    outer, dot, inner = path.partition(".")
    return opened[outer].get(inner) if dot and outer in opened else None


def guess(records: Sequence[Record], *, recognised: bool = False) -> Roles:
    """The roles of a part's fields, from some of its rows. If a mapping recognises them, it knows their key, which rows
    may share; otherwise the key is that of a draft."""
    columns = [column for column in columns_of(records).values() if column.values]
    contents = [] if recognised else [canonical(record) for record in records]

    def is_unique(column: Column) -> bool:
        """Whether all rows with one value are copies of one row."""
        of: dict[str | None, bytes] = {}
        pairs = zip(map(text, column.values), (contents[row] for row in column.rows), strict=True)
        return all(of.setdefault(value, content) == content for value, content in pairs)

    times = clocks_in(columns)
    time = times[0] if times else None
    others = [column for column in columns if time is None or column is not time.column]
    received = received_in(others)
    events = [column for column in events_in(others) if received is None or column is not received.column]
    people = [one.column for one in people_in(others) if one.known]
    key = None if recognised else key_in([one for one in others if one not in people], is_unique, len(records))
    keys = keys_in(columns, likely=False) if recognised else [key] if key else []
    return Roles(
        _path(events), _path(people), _path(keys),
        time.clock if time else None, received.clock if received else None,
    )  # fmt: skip


def _path(columns: Sequence[Column]) -> str:
    return columns[0].path if columns else ""
