"""The result of a survey: one frozen value for the terminal and for programs."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pipeline.text import pluralize, printable

EVENT = "event"
DISTINCT_ID = "distinct_id"
TIMESTAMP = "timestamp"
UUID = "uuid"


class FieldSurvey(msgspec.Struct, frozen=True):
    """One field: a column, a member of the row, or (`properties.plan`) a member of an object in the row.

    `types` counts the values of each kind, including `null` and `blank` (`pipeline.survey.fields.KINDS`). `rows` have a
    value; `null_rate` is the share of all rows read that have none: absent, null or blank. `examples` are a few
    different values as strings of at most 40 characters. `role_guess` is event, distinct_id, timestamp, uuid or "".
    """

    path: str
    types: Mapping[str, int]
    rows: int
    null_rate: float
    examples: list[str]
    role_guess: str = ""


class PartSurvey(msgspec.Struct, frozen=True):
    """One part. `storage` describes how it is stored; `whole`: every row was read. `bytes` is the size of the part
    itself; for a member of an archive, the size that the archive states. `problem` is why reading ended early, else "".
    `tools` are the shipped mappings that recognise its rows.
    """

    path: str
    format: str
    storage: str
    codecs: tuple[str, ...]
    bytes: int
    rows: int
    whole: bool
    problem: str = ""
    tools: tuple[str, ...] = ()


class BrokenSurvey(msgspec.Struct, frozen=True):
    """The number of rows that cannot be read, and the place of the first. `row` counts from 1."""

    count: int
    part: str
    row: int
    detail: str


class FarRows(msgspec.Struct, frozen=True):
    """The rows with times far from nearly all others, before the month `month` or after it, whichever `time` is; `time`
    is the farthest of theirs, in row `row` of `part`. Charts over time leave them out."""

    rows: int
    month: str
    time: str
    part: str
    row: int

    @property
    def sentence(self) -> str:
        side, end = ("after", "last") if self.time > self.month else ("before", "first")
        place = f"{printable(self.part, 200)}, row {self.row:,}"
        rows = f"{pluralize(self.rows, 'row')} {'is' if self.rows == 1 else 'are'} {side} {self.month}"
        return f"{rows}, far from the others, the {end} at {self.time} ({place}). Charts over time leave them out."


class MonthZone(msgspec.Struct, frozen=True):
    """The clock in one month (`2021-03`): in `rows` of `of` rows it is `offset` seconds east of UTC."""

    month: str
    offset: int
    rows: int
    of: int


class ZoneSurvey(msgspec.Struct, frozen=True):
    """The clock compared with the receive time, the field `received`. `names` are zones that had these offsets in these
    months: candidates, not proof. If the zone changed, the only one is `ZONE ZONE@DATE`."""

    received: str
    months: list[MonthZone]
    names: list[str]
    sentence: str


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """What an export looks like before a mapping exists.

    `tool` is the only shipped mapping that recognises it, "" if none or several do; `candidates` counts, for each
    mapping, the parts that it recognises. `sampled`: some parts were not read to their end, and counts cover the rows
    read. `first`, `last`, `hours` (24 counts by hour of day), `months`, `days` and `zone` describe the field
    `time_field`, as its clock reads: `first` and `last` end in Z only if every time has its own offset. `unread_times`
    counts values that are not times, and `far` rows whose times are likely wrong. `event_months` counts rows by month
    for the most frequent event names. `fields_left_out` and `events_left_out` count values and rows beyond the first
    5,000 fields and 10,000 event names.
    """

    format: str = "backcast.survey/1"
    tool: str
    candidates: Mapping[str, int]
    rows: int
    sampled: bool
    parts: list[PartSurvey]
    fields: list[FieldSurvey]
    fields_left_out: int
    events: Mapping[str, int]
    events_left_out: int
    event_months: Mapping[str, Mapping[str, int]] = {}
    time_field: str
    time_unit: str
    first: str | None
    last: str | None
    hours: tuple[int, ...]
    months: Mapping[str, int]
    days: Mapping[str, int] = {}
    far: list[FarRows] = []
    unread_times: int
    zone: ZoneSurvey
    broken: Mapping[str, BrokenSurvey]
    warnings: Mapping[str, int]
    notices: list[tuple[str, str, str]]

    def is_usual(self, day: str) -> bool:
        """Whether charts show a day or a month (`2021-03`), since it is not one of far rows."""
        return all((day[:7] <= far.month) if far.time > far.month else (day[:7] >= far.month) for far in self.far)

    @property
    def sentence(self) -> str:
        """The survey in one line with counts."""
        broken = sum(rows.count for rows in self.broken.values())
        parts = pluralize(len(self.parts), "file")
        read = "the first rows of each file" if self.sampled else "every row"
        tool = f"looks like {self.tool}" if self.tool else "the tool is unknown"
        return (
            f"Survey: {pluralize(self.rows, 'row')} in {parts} ({read}), {broken:,} broken,"
            f" {pluralize(len(self.fields), 'field')}; {tool}."
        )
