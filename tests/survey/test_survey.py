"""A survey says what an export contains, for any input, in bounded memory."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from pipeline.clock_offsets import MonthOffset, count_offsets, most_frequent
from pipeline.errors import UnreadableExport
from pipeline.extractors import open_source
from pipeline.options import SurveyOptions
from pipeline.report.survey_view import render
from pipeline.survey import Survey, survey
from pipeline.survey.clock import Clock, clock_of
from pipeline.survey.fields import Fields, kind_of, kind_of_text
from pipeline.survey.profile import Profile
from pipeline.survey.recognition import recognised_by
from pipeline.survey.zones import survey_zone
from pipeline.text import printable

SAMPLES = Path(__file__).resolve().parent.parent.parent / "sample_data"
SECOND = 1_000_000


def written(path: Path, rows: Iterable[Any]) -> Path:
    """A file of JSON lines; a row given as bytes is written unchanged."""
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def surveyed(*paths: Path, **given: Any) -> Survey:
    return survey(open_source([str(path) for path in paths]), **given)


def field(found: Survey, path: str) -> Any:
    return next(one for one in found.fields if one.path == path)


def record(row: dict[str, Any]) -> dict[str, Raw]:
    return {name: Raw(json.dumps(value).encode()) for name, value in row.items()}


@pytest.mark.parametrize(
    ("sample", "roles"),
    [
        ("mixpanel", ("event", "properties.distinct_id", "properties.time", "properties.$insert_id")),
        ("amplitude", ("event_type", "user_id", "event_time", "uuid")),
        ("posthog", ("event", "distinct_id", "timestamp", "uuid")),
    ],
)
def test_a_sample_is_recognised_with_its_roles(sample: str, roles: tuple[str, ...]) -> None:
    """Each tool's sample looks like that tool, and its four main fields are found."""
    found = surveyed(SAMPLES / sample)
    paths = {field.role_guess: field.path for field in found.fields}
    assert (found.tool, tuple(map(paths.get, ("event", "distinct_id", "timestamp", "uuid")))) == (sample, roles)


def test_types_are_counted_by_what_each_value_is(tmp_path: Path) -> None:
    """A field of mixed values counts every kind, spelled numbers, times and objects separately from plain strings."""
    values = [
        1, -2, 1.5, 1e3, True, None, "", " ", "x", "12", "-1.50", "2023-01-02", "2023-01-02T03:04:05Z", [1], "[1]",
        {"a": 1}, '{"a": 2}', "{no", "[no", "5f2b8f0e-1111-4222-8333-444455556666",
    ]  # fmt: skip
    found = surveyed(written(tmp_path / "a.jsonl", ({"v": value} for value in values)))
    assert field(found, "v").types == {
        "text": 3, "blank": 2, "integer": 2, "number": 2, "boolean": 1, "date in text": 1, "integer in text": 1,
        "list": 1, "list in text": 1, "null": 1, "number in text": 1, "object": 1, "object in text": 1,
        "time in text": 1, "uuid in text": 1,
    }  # fmt: skip


def test_absent_null_and_blank_are_empty(tmp_path: Path) -> None:
    """The null rate is the share of rows whose field is missing, null or blank; zero and false are values, and those of
    a Parquet column are distinguished as their JSON would be."""
    rows = [{"v": 0}, {"v": False}, {"v": None}, {"v": " "}, {}]
    found = field(surveyed(written(tmp_path / "a.jsonl", [{"k": 1, **row} for row in rows])), "v")
    assert (found.rows, found.null_rate) == (2, 0.6)
    assert [kind_of(value) for value in (True, 1, 1.5, None, "x")] == ["boolean", "integer", "number", "null", "text"]


def test_objects_are_opened_one_level(tmp_path: Path) -> None:
    """Members of objects, and of objects written as strings, are fields; deeper ones are not. A column `a.b` next to an
    object `a` with `b` has another path."""
    path = tmp_path / "a.csv"
    path.write_text('event,properties\nA,"{""plan"":""gold"",""more"":{""deep"":1}}"\nB,\n')
    assert [one.path for one in surveyed(path).fields] == ["event", "properties", "properties.plan", "properties.more"]
    found = surveyed(written(tmp_path / "a.jsonl", [{"a": {"b": 1}, "a.b": 2}]))
    assert [one.path for one in found.fields] == ["a", "a.b", "a.b__2"]


def test_examples_are_few_short_and_printable(tmp_path: Path) -> None:
    """At most five different values are shown, of 40 characters at most, control characters as escapes."""
    rows = [{"v": "x" * 100}, {"v": "\x1b[31m"}, *({"v": f"value {n}"} for n in range(9))]
    found = field(surveyed(written(tmp_path / "a.jsonl", rows)), "v")
    assert found.examples == ["x" * 39 + "…", "\\x1b[31m", "value 0", "value 1", "value 2"]


def test_what_is_beyond_the_most_is_only_counted() -> None:
    """Fields, members of objects with ids for keys, and names of events: none is lost from the sum."""
    fields = Fields(most=2)
    for _ in range(3):
        fields.add(record({"a": 1, "b": 2, "c": 3, "d": 4}))
    assert ([one.path for one in fields.surveyed(3, {})], fields.left_out) == (["a", "b"], 6)
    fields = Fields(most=3)
    for number in range(10):
        fields.add(record({"properties": {f"id-{number}": 1}}))
    assert (len(fields.surveyed(10, {})), fields.left_out) == (3, 8)
    fields.add(record({"traits": {"a": 1, "b": 2}}))
    assert fields.left_out == 8 + 3
    profile = Profile(most_events=2)
    for name in ("a", "b", "c", "a", "c"):
        profile.add(name, None, None)
        profile.flush()
    assert (profile.events, profile.events_left_out) == (Counter(a=2, b=1), 2)


def test_the_zone_is_measured_month_by_month(tmp_path: Path) -> None:
    """Clocks of Los Angeles written as if UTC show both offsets, and the zone is among the candidates."""
    zone = ZoneInfo("America/Los_Angeles")
    rows = []
    for month, day in product((1, 7), range(1, 6)):
        instant = datetime(2021, month, day, 20, tzinfo=UTC)
        wall = int(instant.astimezone(zone).replace(tzinfo=UTC).timestamp())
        received = int(instant.timestamp() * 1000) + 9_000
        inside = {"time": wall, "$insert_id": "x", "distinct_id": "u", "mp_processing_time_ms": received}
        rows.append({"event": "A", "properties": inside})
    found = surveyed(written(tmp_path / "a.jsonl", rows)).zone
    assert [(one.month, one.offset, one.rows) for one in found.months] == [
        ("2021-01", -28_800, 5), ("2021-07", -25_200, 5),
    ]  # fmt: skip
    assert found.names[0] == "America/Los_Angeles"
    assert "America/Denver" not in found.names
    assert "UTC-08:00 and UTC-07:00" in found.sentence


def test_late_rows_are_only_a_tail() -> None:
    """Rows that arrive hours late do not move a month's offset, and too few rows say nothing; one that is 7:40 late
    shows the clock's own offset. A clock at UTC needs no candidates, since the zone is known already."""
    start = int(datetime(2021, 1, 5, tzinfo=UTC).timestamp()) * SECOND
    walls = [(start, start + 7 * SECOND)] * 5 + [(start, start + 3600 * SECOND * n) for n in range(1, 5)]
    lonely = int(datetime(2021, 2, 5, tzinfo=UTC).timestamp()) * SECOND
    walls += [(lonely, lonely)] * 2
    assert most_frequent(count_offsets(*np.array(walls).T)) == [MonthOffset(612, 0, 5, 9)]
    assert count_offsets(np.array([0, 0]), np.array([460 * SECOND, -460 * SECOND])) == Counter({(0, 0): 1, (0, 900): 1})
    found = survey_zone(Counter({(18_628, 0): 9}), "received_at")
    assert (found.names, found.sentence) == (
        [], "The clock is at UTC over 1 month, measured against received_at.",
    )  # fmt: skip


def test_hours_and_range_are_the_clock_s_own(tmp_path: Path) -> None:
    """Times without an offset are shown as they are, without a Z, and counted by their own hour."""
    rows = [{"event_time": f"2021-03-0{day} 0{hour}:59:59.5"} for day, hour in ((1, 4), (2, 4), (3, 9))]
    found = surveyed(written(tmp_path / "a.jsonl", rows))
    assert (found.first, found.last) == ("2021-03-01T04:59:59.500", "2021-03-03T09:59:59.500")
    assert {hour: count for hour, count in enumerate(found.hours) if count} == {4: 2, 9: 1}
    assert (found.months, found.time_unit) == ({"2021-03": 3}, "iso")


def test_times_with_offsets_are_shown_in_utc(tmp_path: Path) -> None:
    """If every time has its offset, the range is UTC and ends in Z; other strings are counted."""
    rows = [{"timestamp": "2021-03-01T02:00:00+03:00"}] * 11 + [{"timestamp": "yesterday"}, {"timestamp": None}]
    found = surveyed(written(tmp_path / "a.jsonl", rows))
    assert (found.first, found.last, found.unread_times) == ("2021-02-28T23:00:00Z", "2021-02-28T23:00:00Z", 1)


def test_the_unit_of_a_time_follows_from_its_values() -> None:
    """Numbers of the size of this century's times are times, in the unit that makes them so."""
    units: dict[str, list[Any]] = {
        "s": [1_600_000_000, 1_600_000_000.25, "1600000000"], "ms": [1_600_000_000_000], "us": [1_600_000_000_000_000],
        "ns": [1_600_000_000_000_000_000], "iso": ["2021-01-01T00:00:00Z", "2021-01-01 00:00:00"],
    }  # fmt: skip
    for unit, values in units.items():
        assert clock_of("t", values) == Clock("t", unit)
    none: list[list[Any]] = [[17, 42], ["2021-13-01T00:00:00Z"], []]
    assert [clock_of("t", values) for values in none] == [None] * 3


def test_a_sample_is_shared_between_parts(tmp_path: Path) -> None:
    """Rows that a small part does not need go to the parts after it; a part that is not read to its end says so, and
    one with exactly as many rows as its share is whole. Only rows that were read give warnings."""
    paths = [written(tmp_path / f"{n}.jsonl", ({"n": n, "i": i} for i in range(rows))) for n, rows in ((1, 2), (2, 50))]
    found = surveyed(*paths, rows=20)
    assert [(part.rows, part.whole) for part in found.parts] == [(2, True), (18, False)]
    assert (found.rows, found.sampled) == (20, True)
    path = written(tmp_path / "a.jsonl", ({"i": 2**60} for i in range(30)))
    assert [surveyed(path, rows=rows).sampled for rows in (29, 30, None)] == [True, False, False]
    assert surveyed(path, rows=4).warnings == {"unsafe_integer": 4}


def test_broken_rows_are_counted_by_code(tmp_path: Path) -> None:
    """Broken rows are counted with the place of the first, and the rows around them are still read."""
    rows = [{"a": 1}, b"{oops", b'{"a": "\xff"}', {"a": 2}, b"nothing"]
    found = surveyed(written(tmp_path / "a.jsonl", rows))
    assert {code: (one.count, one.part, one.row) for code, one in found.broken.items()} == {
        "bad_json": (2, "a.jsonl", 2), "bad_utf8": (1, "a.jsonl", 3),
    }  # fmt: skip
    assert (found.rows, field(found, "a").rows, field(found, "a").null_rate) == (5, 2, 0.0)


def test_a_damaged_part_does_not_hide_the_others(tmp_path: Path) -> None:
    """A truncated file is reported in its entry and by a notice; the other part is surveyed."""
    whole = b"".join(json.dumps({"event": f"{n}" * 50}).encode() + b"\n" for n in range(5_000))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(whole)[:-200])
    written(tmp_path / "b.jsonl", [{"event": "B"}])
    found = surveyed(tmp_path)
    assert [(part.path, part.whole, bool(part.problem)) for part in found.parts] == [
        ("a.jsonl.gz", False, True), ("b.jsonl", True, False),
    ]  # fmt: skip
    assert found.parts[1].rows == 1
    assert [(code, where) for code, where, _ in found.notices] == [("unreadable", "a.jsonl.gz")]


def test_a_part_that_went_away_does_not_hide_the_others(tmp_path: Path) -> None:
    """A file that is gone before its first row is reported, and the other part is surveyed; if no part gives a row, the
    damage is raised."""
    gone, kept = (written(tmp_path / name, [{"event": "A"}]) for name in ("a.jsonl", "b.jsonl"))
    kept.write_bytes(kept.read_bytes() * 2)
    source = open_source([str(tmp_path)])
    gone.unlink()
    assert [(part.path, part.rows, bool(part.problem)) for part in survey(source).parts] == [
        ("a.jsonl", 0, True), ("b.jsonl", 2, False),
    ]  # fmt: skip
    kept.unlink()
    with pytest.raises(UnreadableExport):
        survey(source)


def test_an_empty_export_is_surveyed(tmp_path: Path) -> None:
    """An empty file gives an empty survey and a notice."""
    (tmp_path / "a.jsonl").touch()
    found = surveyed(tmp_path / "a.jsonl")
    assert (found.rows, found.fields, found.tool, found.first, sum(found.hours)) == (0, [], "", None, 0)
    assert [code for code, _, _ in found.notices] == ["empty_file"]
    assert found.sentence == ("Survey: 0 rows in 0 files (every row), 0 broken, 0 fields; the tool is unknown.")


def test_a_tool_needs_more_than_half_of_the_rows() -> None:
    """One row of another form among three does not matter; a few names that many tables have belong to no tool."""
    rows = [record({"type": "track", "messageId": "m", "originalTimestamp": "t", "userId": "u"}), record({"x": 1})]
    assert recognised_by(rows) == []
    assert recognised_by([*rows, rows[0]]) == ["segment"]
    for names in (
        "id received_at loaded_at", "id received_at loaded_at user_id event timestamp", "distinct_id last_seen",
        "distinct_id last_seen email plan", "e ts uid c a", "_id n ts did cd", "event_name event_timestamp user",
        "user_id user_info plan",
    ):  # fmt: skip
        assert recognised_by([dict.fromkeys(names.split(), "1")]) == [], names


def test_the_json_of_a_survey_reads_back(tmp_path: Path) -> None:
    """A survey survives its JSON, which names its format."""
    found = surveyed(SAMPLES / "generic")
    encoded = msgspec.json.encode(found)
    assert json.loads(encoded)["format"] == "backcast.survey/1"
    assert msgspec.json.decode(encoded, type=Survey) == found


@given(st.text())
def test_a_string_has_one_kind_however_it_is_stored(text: str) -> None:
    """JSON and a plain string of one spelling are of one kind."""
    text = text.encode("utf-8", "ignore").decode()
    assert kind_of(Raw(json.dumps(text).encode())) == kind_of_text(text)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.sampled_from(["a", "b", "a.b"]), JSON_VALUES, max_size=3), max_size=5))
def test_every_value_is_counted_once(rows: list[dict[str, Any]]) -> None:
    """For any rows, the kinds of each top field add up to the rows that have it, and no path appears twice."""
    fields = Fields()
    for row in rows:
        fields.add(record(json.loads(json.dumps(row).encode("utf-8", "ignore"))))
    found = fields.surveyed(len(rows), {})
    top = [one for one in found if one.path in ("a", "b")]
    assert {one.path: sum(one.types.values()) for one in top} == Counter(
        name for row in rows for name in row if name != "a.b"
    )
    assert len({one.path for one in found}) == len(found)


@given(st.text(), st.integers(1, 60))
@example("\u202e\u2028\x9b\x1b", 60)
def test_printable_text_is_short_and_has_no_control_characters(text: str, limit: int) -> None:
    """Any string is cut to a limit of characters, each of them printable."""
    shown = printable(text, limit)
    assert len(shown) <= limit
    assert not any(one in shown for one in "\x00\x1b\n\r\u202e\u2028\x9b")


def test_a_field_that_is_named_for_times_may_have_other_values(tmp_path: Path) -> None:
    """Joined files repeat their header, and some times are cut; the others are still times."""
    times = ["2021-01-01T00:00:00Z"] * 10 + ["timestamp", "timestamp", "2021-01", "soon"]
    rows = [f"a,u-{number},{time}" for number, time in enumerate(times)]
    (tmp_path / "a.csv").write_text("\n".join(["event,distinct_id,timestamp", *rows]) + "\n")
    found = surveyed(tmp_path / "a.csv")
    assert (found.time_field, found.unread_times) == ("timestamp", 4)


def test_a_page_of_a_tool_on_one_line_is_opened_by_itself(call: Any, tmp_path: Path) -> None:
    """By `plan` with the mapping and without it, and by `survey`; not if the operator's settings read pages as rows, or
    if a mapping of one's own, which does not say that it is for the items, does so."""
    event = {"type": "event", "event_name": "Paid", "user_id": "u-1", "metadata": {}}
    events = [{**event, "created_at": 1_682_000_000 + row} for row in range(6)]
    path, mine = written(tmp_path / "page.json", [{"type": "event.list", "events": events}]), tmp_path / "mine.yaml"
    mine.write_text(
        "format: backcast.mapping/1\ntool: shop\ntitle: Shop\nevent: {const: Page}\ndistinct_id: [{const: u-1}]\n"
        "time: {from: /events/0/created_at, unit: s}\n"
    )
    assert "1 event to send, from 1 of 1 row" in call("plan", path, "-m", mine, "-o", tmp_path / "plan").out
    for name, words in (("plain", []), ("named", ["-m", "intercom"])):
        assert "6 events to send, from 6 of 6 rows" in call("plan", path, *words, "-o", tmp_path / name).out
    assert "looks like intercom" in call("survey", path).out
    assert "the tool is unknown" in call("survey", path, "--set", "rows=none").out


def test_rows_of_each_event_are_drawn_by_month_where_they_fit(call: Any, tmp_path: Path) -> None:
    """Three months or more; with many months, several share a character. The page has them as pictures."""
    rows = [{"event": "A" if n % 3 else "B", "user_id": "u", "time": f"20{20 + n // 12}-{n % 12 + 1:02d}-05T00:00:00Z"}
            for n in range(48) if n != 7]  # fmt: skip
    path = written(tmp_path / "log.jsonl", rows)
    shown = call("survey", path, "--report", tmp_path / "page.html")
    found = call("survey", path, "--json").json["event_months"]
    assert (found["A"]["2020-02"], "2020-08" in found["A"], len(found["B"])) == (1, False, 16)
    lines = [line.split() for line in shown.out.splitlines()]
    assert ["event", "rows", "2020-01", "to", "2023-12"] in lines
    (picture,) = [line[2] for line in lines if line[:2] == ["A", "31"]]
    assert len(picture) == 24
    assert (tmp_path / "page.html").read_text().count("<title>Rows by month</title>") == 2


def test_a_page_of_a_sample_calls_no_day_empty(tmp_path: Path) -> None:
    """The days without a row may be in what was not read."""
    rows = [{"event": "A", "user_id": "u", "time": f"2023-01-{day:02d}T00:00:00Z"} for day in (1, 2, 9, 10, 11)]
    path = written(tmp_path / "log.jsonl", rows)
    whole, sample = (surveyed(path, **more) for more in ({}, {"rows": 4}))
    assert "no rows from 2023-01-03 to 2023-01-08 (6 days)" in render(whole, [str(path)], SurveyOptions())
    assert "no rows from" not in render(sample, [str(path)], SurveyOptions())


def test_times_with_offsets_of_their_own_need_no_zone(tmp_path: Path) -> None:
    """A time without an offset leaves the question open."""
    times = ["2023-01-02T03:04:05Z", "2023-01-02 03:04:05 +0100"]
    for more, words in (([], "no time zone is needed"), (["2023-01-02T03:04:05"], "there is no receive time")):
        rows = [{"event": "A", "user_id": "u", "created_at": time} for time in [*times, *more]]
        assert words in surveyed(written(tmp_path / "log.jsonl", rows)).zone.sentence


@pytest.mark.parametrize("unit", [1, 1_000, 1_000_000])
def test_numbers_count_in_utc_unless_the_tool_writes_its_own_clock(tmp_path: Path, unit: int) -> None:
    """Seconds, milliseconds and microseconds; Mixpanel's numbers are those of the project's clock."""
    rows: Any = ({"kind": "a", "who": f"u{n}", "ts": (1_700_000_000 + n) * unit} for n in range(30))
    found = surveyed(written(tmp_path / "rows.jsonl", rows))
    assert (found.time_field, found.first) == ("ts", "2023-11-14T22:13:20Z")
    assert "no time zone is needed" in found.zone.sentence
    inside = ({"time": 1_700_000_000 + n, "distinct_id": "u", "$insert_id": str(n)} for n in range(30))
    rows = ({"event": "a", "properties": one} for one in inside)
    assert surveyed(written(tmp_path / "rows.jsonl", rows)).first == "2023-11-14T22:13:20"


def test_charts_leave_out_rows_at_times_far_from_all_others(call: Any, tmp_path: Path) -> None:
    """The terminal and the page say how many, and where the farthest is; an early month with few rows is not far."""
    days = ["2023-01-05", *(f"2023-{month:02d}-{day:02d}" for month in range(3, 9) for day in range(1, 29))]
    days[9:9] = ["1970-01-01", "2081-12-25"]
    rows = [{"event": "A", "user_id": "u", "time": f"{day}T00:00:00Z"} for day in days]
    path = written(tmp_path / "log.jsonl", rows)
    shown = " ".join(call("survey", path, "--report", tmp_path / "page.html").out.split())
    page = re.sub("<[^>]*>", "", (tmp_path / "page.html").read_text())
    for sentence in (
        "1 row is before 2023-01, far from the others, the first at 1970-01-01T00:00:00Z (log.jsonl, row 10). Charts",
        "1 row is after 2023-08, far from the others, the last at 2081-12-25T00:00:00Z (log.jsonl, row 11). Charts",
    ):
        assert sentence in shown
        assert sentence in page
    assert "2023-01 to 2023-08" in shown
    assert "Rows per day" in page
    assert surveyed(written(tmp_path / "few.jsonl", [*rows[9:24]])).far == []
