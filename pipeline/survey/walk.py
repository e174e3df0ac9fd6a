"""Read an export and count what is in it. Memory stays bounded whatever the export contains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from itertools import chain, islice

import msgspec

from pipeline import values
from pipeline.clock_offsets import most_frequent
from pipeline.errors import UnreadableExport
from pipeline.extractors import blocks, describe
from pipeline.extractors import rows as read_rows
from pipeline.extractors.fetched import days_without_events
from pipeline.extractors.stream import in_turn
from pipeline.mapper import load
from pipeline.models import BLOCK_BYTES, BrokenRow, Notice, Part, Source
from pipeline.survey.clock import Clock
from pipeline.survey.fields import Fields
from pipeline.survey.file_dates import days_named, hours_named, missing_days
from pipeline.survey.file_hours import missing_hours, missing_parts
from pipeline.survey.profile import MOST_DAYS, MOST_MONTHS, Profile
from pipeline.survey.recognition import recognised_by
from pipeline.survey.roles import PROBE_ROWS, Roles, guess, look_up
from pipeline.survey.shape import BrokenSurvey, PartSurvey, Survey
from pipeline.survey.tables import Table, list_of_rows
from pipeline.survey.zones import survey_zone
from pipeline.text import printable
from pipeline.values import Record, Value

SAMPLE_ROWS = 200_000
"""How many rows are read by default, shared fairly among the parts."""
RECOGNISED_ROWS = 50
"""How many rows of a part are read to recognise its tool."""
TOP_EVENTS = 100
DETAIL_CHARACTERS = 200
_NAMED = 5
_SAMPLE_BLOCK_BYTES = 256 * 1024


def survey(source: Source, *, rows: int | None = SAMPLE_ROWS) -> Survey:
    """Survey `rows` rows of an export, the first of each part; None reads all.

    Rows that a small part does not need go to the parts after it. If a part cannot be read to its end, its entry has a
    problem, the survey a notice, and the others are still read. Raises UnreadableExport if no part can be read at all.
    """
    walk = _Walk(source)
    unread = rows
    for number, part in enumerate(in_turn(source.parts)):
        share = None if unread is None else max(1, unread // (len(source.parts) - number))
        read = walk.add_part(part, share)
        unread = None if unread is None else max(0, unread - read)
    return walk.survey()


class _Walk:
    """Running counts over the parts of an export."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.parts: list[PartSurvey] = []
        self.fields = Fields()
        self.profile = Profile()
        self.tools: Counter[str] = Counter()
        self.roles: Counter[tuple[str, str]] = Counter()
        self.clocks: Counter[Clock] = Counter()
        self.received: Counter[str] = Counter()
        self.broken: dict[str, BrokenSurvey] = {}
        self.warnings: Counter[str] = Counter()
        self.problems: list[UnreadableExport] = []
        self.notices: list[Notice] = []
        self.rows = 0
        self.records = 0
        self.unread_times = 0
        self.local_times = self.number_times = 0

    def add_part(self, part: Part, share: int | None) -> int:
        """Count a part, at most `share` of its rows if that is a number. Returns the number of rows read."""
        before, problems = self.rows, len(self.problems)
        every = self.rows_of(part, BLOCK_BYTES if share is None else _SAMPLE_BLOCK_BYTES)
        chosen = islice(every, share)
        probe = list(islice(chosen, PROBE_ROWS))
        records = [record for record in probe if not isinstance(record, BrokenRow)]
        tools = recognised_by(records[:RECOGNISED_ROWS])
        self.tools.update(tools)
        name = list_of_rows(Table("", (part,), tuple(records[:RECOGNISED_ROWS])))[0]
        if name and not tools:  # a mapping that knows the pages opens them
            detail = f"each row is a page that wraps its rows in {name!r}; to read them, add --set rows={name}"
            self.notices.append(Notice("rows_in_list", part.path, detail))
        roles = guess(records, recognised=bool(tools))
        for record in chain(probe, chosen):
            self.add_row(part, self.rows - before + 1, record, roles)
        whole = next(every, None) is None and len(self.problems) == problems
        every.close()
        read = self.rows - before
        self.count_roles(roles, read)
        form, storage = part.format, describe(part)
        problem = "".join(map(str, self.problems[problems:]))
        self.parts.append(
            PartSurvey(
                part.path, form, storage, part.codecs, self.source.sizes[part.index], read, whole, problem, tuple(tools)
            )
        )
        return read

    def rows_of(self, part: Part, block_bytes: int) -> Generator[Record | BrokenRow, None, None]:
        """The rows of a part as far as it can be read; warnings are counted for the rows that were read."""
        try:
            for block in blocks(part, block_bytes=block_bytes):
                reader = read_rows(part, block, blanks=True)
                read = 0
                try:
                    for record in reader:
                        yield record
                        read += 1
                finally:
                    self.warnings.update(code for row, code, _ in reader.warnings if row < read)
        except UnreadableExport as error:
            self.problems.append(error)
            self.notices.append(Notice("unreadable", part.path, f"{error.message} ({error.hint})"))

    def count_roles(self, roles: Roles, rows: int) -> None:
        for path, role in roles.by_path().items():
            self.roles[role, path] += rows
        if roles.time:
            self.clocks[roles.time] += rows
        if roles.received:
            self.received[roles.received.path] += rows

    def add_row(self, part: Part, row: int, record: Record | BrokenRow, roles: Roles) -> None:
        self.rows += 1
        if isinstance(record, BrokenRow):
            first = self.broken.get(record.code) or BrokenSurvey(
                0, part.path, row, printable(record.detail, DETAIL_CHARACTERS)
            )
            self.broken[record.code] = msgspec.structs.replace(first, count=first.count + 1)
            return
        self.records += 1
        opened = self.fields.add(record)
        name = values.text(look_up(record, roles.event, opened)) if roles.event else None
        time = self.time_of(look_up(record, roles.time.path, opened), roles.time) if roles.time else None
        received = roles.received.read(look_up(record, roles.received.path, opened)) if roles.received else None
        self.profile.add(name, time, received.us if received else None, part.path, row)

    def time_of(self, value: Value, clock: Clock) -> int | None:
        reading = clock.read(value)
        if reading is None:
            self.unread_times += bool((values.text(value) or "").strip())
            return None
        numbers = clock.unit not in ("iso", "format")
        self.number_times += numbers
        self.local_times += not (numbers or reading.utc)
        return reading.us

    def survey(self) -> Survey:
        if self.problems and not self.rows:
            raise self.problems[0]
        self.profile.flush()
        roles: dict[str, str] = {}
        for (role, path), _ in self.roles.most_common():
            if role not in roles.values():
                roles[path] = role
        clock = self.clocks.most_common(1)[0][0] if self.clocks else None
        received = self.received.most_common(1)[0][0] if self.received else ""
        best = self.tools.most_common(2)
        tool = best[0][0] if best and (len(best) == 1 or best[0][1] > best[1][1]) else ""
        # Numbers count from 1970 in UTC, unless the tool writes its local clock so, or the receive times differ.
        own_clock = bool(tool) and any(one.zone != "utc" for one in load(tool).time)
        read_as_utc = bool(tool) and not own_clock
        moved = any(offset.offset for offset in most_frequent(self.profile.offsets))
        instants = self.local_times == 0 and not (self.number_times and (own_clock or moved))
        first, last = self.profile.range(utc=instants)
        months = self.profile.counts("M", MOST_MONTHS)
        events = self.profile.events.most_common(TOP_EVENTS)
        shown = sum(count for _, count in events)
        return Survey(
            tool=tool,
            candidates=dict(self.tools.most_common()),
            rows=self.rows,
            sampled=any(not part.whole and not part.problem for part in self.parts),
            parts=self.parts,
            fields=self.fields.surveyed(self.records, roles),
            fields_left_out=self.fields.left_out,
            events=dict(events),
            events_left_out=self.profile.events_left_out + self.profile.events.total() - shown,
            event_months=self.profile.event_months(),
            time_field=clock.path if clock else "",
            time_unit=clock.unit if clock else "",
            first=first,
            last=last,
            hours=self.profile.hours(),
            months=months,
            days=self.profile.counts("D", MOST_DAYS),
            far=self.profile.far(months, utc=instants),
            unread_times=self.unread_times,
            zone=survey_zone(
                self.profile.offsets, received, instants=instants and first is not None, read_as_utc=read_as_utc
            ),
            broken=self.broken,
            warnings=dict(self.warnings.most_common()),
            notices=[
                (note.code, note.where, note.detail)
                for note in (
                    *self.source.notes,
                    *self.notices,
                    *_missing(self.source, self.parts),
                )
            ],
        )


def _missing(source: Source, parts: Sequence[PartSurvey]) -> Generator[Notice]:
    """Days, hours and parts that the names of files leave out."""
    paths = [part.path for part in parts]
    days = missing_days([*paths, *days_without_events((note.where for note in source.notes), paths)])
    found = {
        "missing_files": [(days_named(first, last), path) for first, last, path in days],
        "missing_hours": [(hours_named(first, last), path) for first, last, path in missing_hours(paths)],
        "missing_parts": [(f"part {numbers}", path) for numbers, path in missing_parts(paths)],
    }
    for code, some in found.items():
        if some:
            named = ", ".join(words for words, _ in some[:_NAMED])
            more = f" and {len(some) - _NAMED:,} more" if len(some) > _NAMED else ""
            yield Notice(code, some[0][1], f"by the names of the files, there is no file for {named}{more}")
