"""What a survey says: one frozen value that the terminal, a program and the scaffold of a mapping read."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pipeline.text import pluralize

FORMAT = "backcast.survey/1"

EVENT = "event"
DISTINCT_ID = "distinct_id"
TIMESTAMP = "timestamp"
UUID = "uuid"
ROLES = (EVENT, DISTINCT_ID, TIMESTAMP, UUID)
"""What a field may be guessed to be. A guess starts a mapping; it never sends anything."""


class FieldSurvey(msgspec.Struct, frozen=True):
    """One field: a column, a member of the row, or (`properties.plan`) a member of an object in the row.

    `types` counts the kinds of value seen, `null` and `blank` among them (`pipeline.survey.fields.KINDS`).
    `rows` hold a value; `null_rate` is the share of all rows surveyed that do not: absent, null or blank.
    `examples` are a few different values as text, 40 characters at most.
    """

    path: str
    types: Mapping[str, int]
    rows: int
    null_rate: float
    examples: list[str]
    role_guess: str = ""


class PartSurvey(msgspec.Struct, frozen=True):
    """One part: `storage` says in words how it is stored; `whole` whether every row was read. `bytes` are the part's
    own: of an archive's member, as the archive gives it.

    `problem` says why a part could not be read (on), "" otherwise.
    """

    path: str
    format: str
    storage: str
    codecs: tuple[str, ...]
    bytes: int
    rows: int
    whole: bool
    problem: str = ""


class BrokenSurvey(msgspec.Struct, frozen=True):
    """Rows that cannot be read, by code, and where the first of them stands. `row` counts from 1."""

    count: int
    part: str
    row: int
    detail: str


class MonthZone(msgspec.Struct, frozen=True):
    """What one month says about the clock: `rows` of `of` stand `offset` seconds east of UTC."""

    month: str
    offset: int
    rows: int
    of: int


class ZoneSurvey(msgspec.Struct, frozen=True):
    """Clock against receive time. `names` are zones that had these offsets in these months: candidates, no proof."""

    received: str
    months: list[MonthZone]
    names: list[str]
    sentence: str


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """What an export looks like before a mapping exists.

    `tool` is the one tool it looks like, "" when none or several fit; `candidates` counts the parts that look like
    each. `sampled`: parts were read only in part, so that counts are of the rows read.
    `time_field` is what `first`, `last`, `hours`, `months` and `zone` are of. They are as the clock reads: `first`
    and `last` end in Z only where every time carried its own offset. `unread_times` counts values that are no time.
    `hours` are 24 counts by hour of day. `fields_left_out` and `events_left_out` count values and rows beyond what
    is kept (5,000 fields, 10,000 event names).
    """

    format: str = FORMAT
    tool: str
    candidates: Mapping[str, int]
    rows: int
    sampled: bool
    parts: list[PartSurvey]
    fields: list[FieldSurvey]
    fields_left_out: int
    events: Mapping[str, int]
    events_left_out: int
    time_field: str
    time_unit: str
    first: str | None
    last: str | None
    hours: tuple[int, ...]
    months: Mapping[str, int]
    unread_times: int
    zone: ZoneSurvey
    broken: Mapping[str, BrokenSurvey]
    warnings: Mapping[str, int]
    notices: list[tuple[str, str, str]]

    @property
    def sentence(self) -> str:
        """What was seen, in one counted line."""
        broken = sum(one.count for one in self.broken.values())
        how = "the first rows of each part" if self.sampled else "every row"
        what = self.tool or "no tool that is known"
        return (
            f"Survey: {pluralize(self.rows, 'row')} in {pluralize(len(self.parts), 'part')} ({how}), {broken:,} broken,"
            f" {pluralize(len(self.fields), 'field')}; looks like {what}."
        )

    def field_of(self, role: str) -> str:
        """The path guessed to have a role, "" when none."""
        return next((field.path for field in self.fields if field.role_guess == role), "")
