"""Whatever a row's time is, the row becomes an event or a reject with a code: no time stops a plan."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.api import plan_export
from pipeline.errors import UsageError
from pipeline.models import RejectReason, UnvalidatedEvent
from pipeline.options import PlanOptions
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.wording import headline
from pipeline.timestamps import format_utc
from tests.support.commands import in_process
from tests.support.small_mappings import mapper, record
from tests.support.tiny_tool import AS_OF

HUGE = 99_999_999_999_999_999
ZONES = ((), (("America/Los_Angeles", ""),), (("Asia/Tokyo", ""),), (("Pacific/Kiritimati", ""),))
HEAD = """format: backcast.mapping/1
tool: shop
title: Shop
event: /name
distinct_id: /user
"""
NUMBERS = st.one_of(
    st.integers(-(10**29), 10**29),
    st.sampled_from([HUGE, -HUGE, 2**63, -(2**63), 253_402_300_800, 253_402_300_799, -62_135_596_800, 0]),
    st.floats(allow_nan=False, allow_infinity=False),
)
TEXTS = st.builds(
    "{:04d}-{:02d}-{:02d}T{:02d}:00:00{}".format,
    st.sampled_from([0, 1, 2020, 9998, 9999]), st.integers(1, 12), st.integers(1, 31), st.integers(0, 24),
    st.sampled_from(["", "Z", "+14:00", "-14:00", "-23:59", "+23:59"]),
)  # fmt: skip


@given(
    st.sampled_from(["s", "ms", "us", "ns", "auto", "iso"]),
    st.sampled_from(["utc", "project"]),
    st.sampled_from(ZONES),
    st.one_of(NUMBERS, NUMBERS.map(str), TEXTS),
)
def test_every_time_is_one_that_can_be_written_or_a_fault(unit: str, clock: str, zones: Any, value: Any) -> None:
    """In every unit and zone, from numbers and from strings."""
    shop = mapper(f"time: {{from: /at, unit: {unit}, zone: {clock}}}\n", HEAD, zones=zones)
    made = shop.map_row(record(json.dumps({"name": "Seen", "user": "u", "at": value})))
    assert isinstance(made, UnvalidatedEvent)
    if isinstance(made.time, RejectReason):
        assert made.time.code == "bad_timestamp" or (made.time.code == "rounded_number" and isinstance(value, str))
    else:
        assert made.time is not None
        format_utc(made.time)


ROWS: dict[str, dict[str, Any]] = {
    "mixpanel": {"event": "Far", "properties": {"time": HUGE, "distinct_id": "x"}},
    "generic": {"event": "Far", "who": "x", "at": HUGE},
    "amplitude": {"event_type": "Far", "user_id": "x", "event_time": "9999-12-31 23:59:59", "client_event_time": HUGE},
}


@pytest.mark.parametrize(
    ("tool", "zone", "window"),
    [
        ("mixpanel", None, None), ("mixpanel", "Asia/Tokyo", AS_OF - 10**12), ("generic", None, AS_OF - 10**12),
        ("generic", "America/Los_Angeles", None), ("amplitude", "Asia/Tokyo", None),
        ("amplitude", "America/Los_Angeles", AS_OF - 10**12),
    ],
)  # fmt: skip
def test_a_row_of_the_far_future_is_a_reject(tool: str, zone: str | None, window: int | None, tmp_path: Path) -> None:
    """It does not stop the plan, whatever the tool, the clock and the window are."""
    (tmp_path / "a.jsonl").write_text(json.dumps(ROWS[tool]) + "\n")
    settings = {"event": "event", "distinct_id": "who", "timestamp": "at", "timestamp_unit": "auto"}
    options = PlanOptions(
        mapping=tool, since=window, as_of=AS_OF, workers=0, timezone=zone or (),
        settings=settings if tool == "generic" else {},
    )  # fmt: skip
    plan = plan_export(tmp_path / "a.jsonl", tmp_path / "plan", options)
    assert (plan.rows.read, plan.rows.rejected) == (1, 1)
    assert set(plan.rejects) <= {"bad_timestamp", "future_timestamp"}


def test_what_a_spreadsheet_rounded_is_neither_a_person_nor_a_time(tmp_path: Path) -> None:
    """Each such row is a reject with one code, and such an id is never merged."""
    (tmp_path / "a.csv").write_text(
        "name,who,anon,at\n"
        "Seen,9.91214E+15,,1609459200123\n"  # an id
        'Seen,"9,91214E+15",,1609459200124\n'  # an id, with a decimal comma
        "Seen,u-1,,1.60946E+12\n"  # a time
        "Seen,u-2,,1.609459200E+12\n"  # only its milliseconds are gone
        "Seen,u-3,,1.609459200125E12\n"  # exact, as Java writes it
        "Seen,u-4,8.8123E+15,1609459200126\n"  # two people that share a rounded device
        "Seen,u-5,8.8123E+15,1609459200127\n"
    )
    settings = {
        "event": "name",
        "distinct_id": "who",
        "anonymous_id": "anon",
        "timestamp": "at",
        "timestamp_unit": "ms",
    }
    options = PlanOptions(mapping="generic", as_of=AS_OF, workers=0, settings=settings)
    plan = plan_export(tmp_path / "a.csv", tmp_path / "plan", options)
    assert (plan.rows.read, plan.rejects) == (7, {"rounded_number": 3})
    (stop,) = (gate for gate in plan.gates if gate.name == "max_rejects")
    assert headline(stop.detail).endswith("3 of them, the first in row 1 of a.csv, cannot be sent")
    found = pq.read_table(tmp_path / "plan" / "identities.parquet").to_pylist()
    assert [(one["anonymous_id"], one["decision"], one["reason"]) for one in found] == [
        ("8.8123E+15", "refused", "junk_id")
    ] * 2
    made = in_process("mapping", "new", tmp_path / "a.csv", "-o", tmp_path / "draft.yaml")
    assert "rounded: a spreadsheet rounded numbers in " in made.stderr


def planned_at(folder: Path, written: str, **asked: Any) -> Plan:
    """The plan of one row of the mapping `generic` with this time."""
    folder.mkdir()
    (folder / "a.csv").write_text(f'name,who,at\nSeen,u-1,"{written}"\n')
    settings = {"event": "name", "distinct_id": "who", "timestamp": "at"} | asked.pop("settings", {})
    options = PlanOptions(mapping="generic", as_of=AS_OF, workers=0, settings=settings, **asked)
    return plan_export(folder / "a.csv", folder / "plan", options)


def test_a_date_is_midnight_in_the_named_zone(tmp_path: Path) -> None:
    """Midnight needs a zone."""
    (stop, *_) = planned_at(tmp_path / "none", "2021-03-27").gates
    assert "name the zone of that clock with --timezone" in stop.detail
    assert planned_at(tmp_path / "zone", "2021-03-27", timezone="Europe/Berlin").first == "2021-03-26T23:00:00Z"


@pytest.mark.parametrize(
    ("written", "forms"),
    [
        ("27/03/2021 10:05", ["%d/%m/%Y %H:%M"]),
        ("03/27/2021 9:05:00 PM", ["%m/%d/%Y %I:%M:%S %p"]),
        ("03.04.2021", ["%d.%m.%Y", "%m.%d.%Y"]),
        ("2021/03/27 10:05:06.5", ["%Y/%m/%d %H:%M:%S.%f"]),
        ("Mar 27, 2021", ["%b %d, %Y"]),
        ("some day", []),
    ],
)
def test_a_time_in_another_form_names_the_setting(tmp_path: Path, written: str, forms: list[str]) -> None:
    """It can be pasted: with it, the plan has the event."""
    (stop, *_) = planned_at(tmp_path / "iso", written).gates
    assert re.findall(r"--set timestamp_format='([^']*)'", stop.detail) == forms
    for number, form in enumerate(forms):
        asked = {"settings": {"timestamp_format": form}, "timezone": "UTC"}
        assert planned_at(tmp_path / str(number), written, **asked).events.made == 1


@pytest.mark.parametrize("mark", [".", "/", "-"])
@pytest.mark.parametrize(("day", "form"), [("28{0}03{0}2024", "%d{0}%m{0}%Y"), ("03{0}28{0}2024", "%m{0}%d{0}%Y")])
def test_a_time_that_is_read_in_one_way_decides_for_the_others(tmp_path: Path, mark: str, day: str, form: str) -> None:
    """Although there are fewer such rows, and for all rows."""
    times = [day.format(mark), *[f"03{mark}04{mark}2024"] * 5]
    (stop, *_) = planned_at(tmp_path / "a", '"\nSeen,u-1,"'.join(times)).gates
    assert re.findall(r"timestamp_format='([^']*)'", stop.detail) == [form.format(mark)]
    assert "6 of them can be sent" in stop.detail


def test_rows_with_nan_name_the_setting_that_reads_them(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"e": "Seen", "u": "u-1", "t": 1609459200, "x": [NaN, -Infinity]}\n', "utf-8")
    asked = {"event": "e", "distinct_id": "u", "timestamp": "t", "timestamp_unit": "s"}
    (stop, *_) = plan_export(tmp_path / "a.jsonl", tmp_path / "p", PlanOptions(mapping="generic", settings=asked)).gates
    assert "1 of them can be sent: plan with --set nan=null" in stop.detail
    asked["nan"] = "null"
    assert plan_export(tmp_path / "a.jsonl", tmp_path / "q", PlanOptions(mapping="generic", settings=asked)).ready


def test_a_doubtful_hour_is_shown_as_on_the_clock() -> None:
    """The message has a date and a time, not a count of microseconds."""
    shop = mapper("time: {from: /at, unit: s, zone: project}\n", HEAD, zones=(("Europe/Berlin", ""),))
    made = shop.map_row(record('{"name": "Seen", "user": "u", "at": 1635647400}'))
    assert isinstance(made, UnvalidatedEvent)
    assert made.warnings == (("ambiguous_time", "2021-10-31T02:30:00 on the wall clock"),)


def test_an_unknown_setting_is_answered_with_each_known_one_once() -> None:
    """No name appears twice."""
    with pytest.raises(UsageError) as caught:
        mapper("time: {from: /at, unit: s, zone: utc}\nsettings: {source: an id}\n", HEAD, settings={"foo": "1"})
    names = caught.value.hint.removeprefix("it knows: ").split(", ")
    assert len(names) == len(set(names))


def test_a_count_of_another_unit_is_rejected_with_its_unit(tmp_path: Path) -> None:
    """The plan names the setting that would read it; a number that is not a plausible time gets no such hint."""
    for number, (written, unit, settings) in enumerate((
        ("1672628645", "s", {}), ("1672628645123", "ms", {}), ("1672628645123456", "us", {"timestamp_unit": "ms"}),
        ("1672628645.5", "s", {"timestamp_format": "%Y-%m-%d"}), ("20230102030405", "", {}),
    )):  # fmt: skip
        plan = planned_at(tmp_path / str(number), written, settings=settings)
        (reject,) = (tmp_path / str(number) / "plan" / "rejects.jsonl").read_text().splitlines()
        hint = f"since 1970 it is 2023-01-02: plan with --set timestamp_unit={unit}, or write `unit: {unit}`"
        assert (unit != "", unit != "") == (hint in reject, hint.partition(": ")[2] in plan.gates[0].detail), written
