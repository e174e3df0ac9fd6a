"""Times: read exactly, placed in a zone, written one way."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import resources
from itertools import pairwise
from zoneinfo import ZoneInfo
from zoneinfo._common import load_data

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import UsageError
from pipeline.timestamps import (
    DAY,
    SECOND,
    BadTime,
    Reading,
    RoundedTime,
    format_utc,
    moment_of,
    read_epoch,
    read_iso,
    wall_of,
)
from pipeline.zone_clock import QUARTER, ZoneClock, zone, zone_names
from pipeline.zone_hints import CITIES

NOON = 1_609_329_600 * SECOND  # 2020-12-30T12:00:00Z
NEW_YORK = (("America/New_York", ""),)
CHANGED = (("America/New_York", ""), ("Europe/Berlin", "2021-03-01"))


# --- ISO 8601


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("2020-12-30T12:00:00Z", NOON),
        ("2020-12-30T12:00Z", NOON),
        ("2020-12-30T12:00:00.5Z", NOON + 500_000),
        ("2020-12-30T12:00:00.000001Z", NOON + 1),
        ("2020-12-30T12:00:00.1234560Z", NOON + 123_456),
        ("2020-12-30T17:30:00+05:30", NOON),
        ("2020-12-30T08:00:00-04", NOON),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("0001-01-01T00:00:00Z", -62_135_596_800 * SECOND),
    ],
)
def test_iso_strings_with_an_offset(text: str, us: int) -> None:
    """A string with an offset is an instant; zeros below a microsecond are not lost digits."""
    assert read_iso(text) == Reading(us, True, False)


NO_TIMES = """
2020-12-30|2020-12-30T12|2020-12-30 12:00:00Z|2020-12-30T12:00:00z|2020-12-30T12:00:00.Z|2020-12-30T12:00:00 Z|
2020-12-30T12:00:60Z|2020-12-30T24:00:00Z|2020-02-30T12:00:00Z|2020-12-30T12:00:00+24:00|2020-12-30T12:00:00+0530|
20-12-30T12:00:00Z|2020-12-30T12:00:00Zjunk|٢٠٢٠-12-30T12:00:00Z|now|"""


@pytest.mark.parametrize("text", NO_TIMES.replace("\n", "").split("|"))
def test_only_strict_iso_is_a_time(text: str) -> None:
    """A lenient reading would turn a broken time into a plausible wrong one."""
    with pytest.raises(BadTime):
        read_iso(text)


@pytest.mark.parametrize("offset", ["Z", " Z", "UTC", " UTC", "+00", " +00", "+0000", " +0000", "+00:00", " -0000"])
def test_behind_a_space_an_offset_may_be_as_warehouses_write_it(offset: str) -> None:
    """BigQuery writes ` UTC` and Snowflake ` +0000`."""
    for fraction in ("", ".000", ".000000000"):
        assert read_iso(f"2020-12-30 12:00:00{fraction}{offset}", space=True) == Reading(NOON, True, False)
    assert read_iso(f"2020-12-30 17:30:00{offset.replace('00:00', '05:30').replace('0000', '0530')}", space=True).utc


@pytest.mark.parametrize("ending", ["  UTC", " utc", " GMT", " +1", " 0000", " +00000", "T", " Europe/Berlin"])
def test_no_other_ending_is_read_behind_a_space(ending: str) -> None:
    """A zone that is not understood makes it invalid, and is never read as another one."""
    with pytest.raises(BadTime):
        read_iso(f"2020-12-30 12:00:00{ending}", space=True)


def test_a_wall_time_and_digits_below_a_microsecond_are_reported() -> None:
    """No zone is ever assumed."""
    assert read_iso("2020-12-30T12:00:00.1234567Z") == Reading(NOON + 123_456, True, True)
    assert read_iso("2020-12-30T12:00:00") == Reading(NOON, False, False)


# --- since 1970


@pytest.mark.parametrize(
    ("number", "unit", "us"),
    [
        ("1721228056.002", "s", 1_721_228_056_002_000),
        (1721228056.002, "s", 1_721_228_056_002_000),
        ("1721228056", "s", 1_721_228_056_000_000),
        ("1721228056002.5", "ms", 1_721_228_056_002_500),
        (1721228056002, "ms", 1_721_228_056_002_000),
        ("1721228056002001", "us", 1_721_228_056_002_001),
        ("1721228056002001999", "ns", 1_721_228_056_002_001),
        ("1.721228056e9", "s", 1_721_228_056_000_000),
        ("-1", "s", -1_000_000),
        ("10000000000", "auto", 10_000_000_000_000_000),
        ("10000000001", "auto", 10_000_000_001_000),
        ("100000000000000", "auto", 100_000_000_000_000_000),
        ("100000000000001", "auto", 100_000_000_000_001),
        ("1721228056.25", "auto", 1_721_228_056_250_000),
        ("0", "s", 0),
    ],
)
def test_counts_since_1970(number: str | int | float, unit: str, us: int) -> None:
    """A count becomes exactly the microseconds it says."""
    assert read_epoch(number, unit).us == us


@pytest.mark.parametrize("text", ["", "1_000", "٣", "0x10", "1e", "nan", "inf", "12:00", "1,5", "--1", "1e999"])
def test_only_a_number_is_a_count(text: str) -> None:
    """Only a plain number is a count, and no float except a finite one."""
    for number in (text, float("nan"), float("inf")):
        with pytest.raises(BadTime):
            read_epoch(number)


@given(st.decimals(min_value=0, max_value=9_999_999_999, places=6))
def test_six_decimals_are_never_rounded(seconds: Decimal) -> None:
    """Every decimal of seconds with six places is exact to the microsecond."""
    assert read_epoch(str(seconds)).us == int(seconds * SECOND)


@given(
    st.integers(100_000_000, 4_000_000_000), st.sampled_from(["s", "ms", "us", "ns"]), st.integers(0, 18), st.booleans()
)
@settings(max_examples=400)
def test_a_count_that_lost_the_digit_of_its_seconds_is_not_a_time(
    seconds: int, unit: str, places: int, small: bool
) -> None:
    """A spreadsheet writes a long number with a plus after the E. Whether the second is still there depends on how many
    digits it kept; a number of JSON, and the exact form of other programs, means what it says."""
    count = seconds * 1_000 ** ("s", "ms", "us", "ns").index(unit)
    text = f"{Decimal(count):.{places}E}"
    text = text if int(text.partition("+")[2]) > 9 else text.replace("+", "+0")
    text = text.lower() if small else text
    if places >= len(str(seconds)) - 1:
        assert read_epoch(text, unit).us == seconds * SECOND
    else:
        with pytest.raises(RoundedTime, match="lost its last digits"):
            read_epoch(text, unit)
    assert read_epoch(text.replace("+", ""), unit).us == read_epoch(float(text), unit).us


# --- writing


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (NOON, "2020-12-30T12:00:00Z"),
        (NOON + 2_000, "2020-12-30T12:00:00.002Z"),
        (NOON + 2_001, "2020-12-30T12:00:00.002001Z"),
        (NOON + 500_000, "2020-12-30T12:00:00.500Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
    ],
)
def test_one_way_of_writing(us: int, text: str) -> None:
    """A fraction has no, three or six digits: as few as possible."""
    assert format_utc(us) == text


@given(st.integers(-62_135_596_800 * SECOND, 253_402_300_799 * SECOND))
def test_what_is_written_is_read_again(us: int) -> None:
    """Writing and reading an instant gives the same instant."""
    assert read_iso(format_utc(us)).us == us


def test_years_beyond_9999_cannot_be_written_nor_placed_in_a_zone() -> None:
    """A year of five digits is not an ISO time, and a count beyond the calendar is a bad time, not a crash."""
    with pytest.raises(BadTime):
        format_utc(253_402_300_800 * SECOND)
    with pytest.raises(BadTime):
        ZoneClock(NEW_YORK).to_utc(10**19)


# --- zones


def at(*reading: int) -> int:
    """A wall time."""
    return wall_of(datetime(*reading))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("received", "expected"),
    [
        (at(2023, 11, 5, 5, 30, 5), (at(2023, 11, 5, 5, 30), "")),
        (at(2023, 11, 5, 5, 29, 5), (at(2023, 11, 5, 5, 30), "")),
        (at(2023, 11, 5, 6, 30, 5), (at(2023, 11, 5, 6, 30), "")),
        (at(2023, 11, 5, 6, 29, 1), (at(2023, 11, 5, 6, 30), "")),
        (at(2023, 11, 5, 6, 28, 59), (at(2023, 11, 5, 5, 30), "")),
        (at(2023, 11, 5, 9), (at(2023, 11, 5, 6, 30), "ambiguous_time")),
        (at(2023, 11, 5, 1), (at(2023, 11, 5, 5, 30), "ambiguous_time")),
        (None, (at(2023, 11, 5, 5, 30), "ambiguous_time")),
    ],
)
def test_the_receive_time_decides_in_the_repeated_hour(received: int | None, expected: tuple[int, str]) -> None:
    """It is the latest instant that the receive time allows; if that cannot decide, a warning says so."""
    assert ZoneClock(NEW_YORK).to_utc(at(2023, 11, 5, 1, 30), received) == expected


@pytest.mark.parametrize(
    ("zones", "wall", "utc", "warning"),
    [
        (NEW_YORK, at(2023, 3, 12, 2, 30), at(2023, 3, 12, 7, 30), "nonexistent_time"),
        (NEW_YORK, at(2023, 3, 12, 1, 59, 59), at(2023, 3, 12, 6, 59, 59), ""),
        (NEW_YORK, at(2023, 3, 12, 3, 0), at(2023, 3, 12, 7, 0), ""),
        (NEW_YORK, at(2023, 11, 5, 0, 59, 59), at(2023, 11, 5, 4, 59, 59), ""),
        (NEW_YORK, at(2023, 11, 5, 2, 0), at(2023, 11, 5, 7, 0), ""),
        (CHANGED, at(2021, 2, 28, 23, 59), at(2021, 3, 1, 4, 59), ""),
        (CHANGED, at(2021, 3, 1, 0, 0), at(2021, 2, 28, 23, 0), ""),
        ((), NOON, NOON, ""),
    ],
)
def test_a_wall_time_is_placed_in_its_zone(
    zones: tuple[tuple[str, str], ...], wall: int, utc: int, warning: str
) -> None:
    """A time that no clock showed is read with the offset from before, with a warning; the minutes next to a change are
    unambiguous. The wall date decides which zone a time is in; without zones it is the instant."""
    assert ZoneClock(zones).to_utc(wall) == (utc, warning)


@given(
    st.sampled_from(["America/New_York", "Asia/Kolkata", "Africa/Monrovia", "Australia/Lord_Howe", "Pacific/Apia"]),
    st.integers(0, 2 * 10**15),
)
def test_every_instant_comes_back_from_its_wall_time(name: str, us: int) -> None:
    """The wall time of any instant, received then, gives that instant again, whatever was asked before."""
    us -= us % SECOND
    wall = wall_of((moment_of(us).replace(tzinfo=UTC)).astimezone(zone(name)).replace(tzinfo=None))
    assert ZoneClock(((name, ""),)).to_utc(wall, us)[0] == us


def changes_of(name: str) -> list[tuple[int, int]]:
    """(Unix second, offset from then on) of each change of a zone's clocks, by the interpreter's own reader."""
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as rules:
        kinds, moments, offsets, *_ = load_data(rules)
    found: list[tuple[int, int]] = []
    for moment, kind in zip(moments, kinds, strict=True):
        if not found or found[-1][1] != offsets[kind]:
            found.append((moment, offsets[kind]))
    return found


def test_no_zone_changes_twice_within_three_days() -> None:
    """A day that ends as it began is taken to have one offset, without checking each of its hours; that depends on
    this. Each listed name has rules."""
    assert len(zone_names()) > 400
    for name in zone_names():
        assert isinstance(zone(name), ZoneInfo)
        assert all(later - earlier > 3 * 86_400 for (earlier, _), (later, _) in pairwise(changes_of(name))), name


@given(st.data(), st.sampled_from([name for name in sorted(zone_names()) if changes_of(name)]))
def test_a_cached_offset_is_right_in_each_quarter(data: st.DataObject, name: str) -> None:
    """A cached offset is the zone's at both ends of its quarter, on either side of a repeated hour."""
    moment, offset = data.draw(st.sampled_from(changes_of(name)))
    clock = ZoneClock(((name, ""),))
    clock.to_utc((moment + offset + data.draw(st.integers(-86_400, 86_400))) * SECOND)
    assert len(clock.offsets) in (1, DAY // QUARTER)
    for quarter, known in clock.offsets.items():
        ends = [moment_of(one) for one in (quarter * QUARTER, (quarter + 1) * QUARTER - 1)]
        really = {end.replace(tzinfo=zone(name), fold=fold).utcoffset() for end in ends for fold in (0, 1)}
        assert (really == {timedelta(microseconds=known)}) if known is not None else len(really) > 1


def test_zones_out_of_order_are_refused() -> None:
    """A zone cannot begin before the one it follows."""
    with pytest.raises(UsageError, match="order"):
        ZoneClock((("Europe/Berlin", "2021-03-01"), ("America/New_York", "")))
    with pytest.raises(UsageError, match="is not a date"):
        ZoneClock((("Europe/Berlin", "2021-13-01"),))


def test_the_rules_are_the_packaged_ones(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the host's zone nor its zone files change a result."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    monkeypatch.setenv("PYTHONTZPATH", str(tmp_path))
    time.tzset()
    try:
        assert ZoneClock(NEW_YORK).to_utc(at(2020, 12, 30, 7)) == (NOON, "")
        assert read_iso("2020-12-30T12:00:00Z").us == NOON
        assert format_utc(NOON) == "2020-12-30T12:00:00Z"
    finally:
        monkeypatch.undo()
        time.tzset()
    assert "TZ" not in os.environ or os.environ["TZ"] != "Asia/Kolkata"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("PST", "'America/Los_Angeles'"),
        ("pdt", "'America/Los_Angeles'"),
        ("CEST", "'Europe/Berlin'"),
        ("JST", "'Asia/Tokyo'"),
        ("UTC+8", "'Etc/GMT-8'; its sign is the other way round"),
        ("GMT-03:00", "'Etc/GMT+3'"),
        ("+0800", "'Etc/GMT-8'"),
        ("UTC+5:30", "an offset, not a zone"),
        ("UTC+0", "'Etc/UTC'"),
        ("UTC+25", "an offset, not a zone"),
        ("europe/berlin", "did you mean 'Europe/Berlin'?"),
        ("Berlin", "did you mean 'Europe/Berlin'?"),
        ("New York", "did you mean 'America/New_York'?"),
        ("Europe/Berln", "did you mean 'Europe/Berlin'?"),
        ("XST", "such as Europe/Berlin"),
        ("", "such as Europe/Berlin"),
    ],
)
def test_an_unknown_zone_is_answered_with_one_of_the_same_offset(name: str, hint: str) -> None:
    """Or with none: a zone that only looks similar would shift years of history."""
    with pytest.raises(UsageError) as caught:
        zone(name)
    assert hint in caught.value.hint


def test_every_zone_that_an_abbreviation_leads_to_is_one() -> None:
    """And keeps its time: the zone uses the abbreviation, if its rules show it."""
    for short, city in CITIES.items():
        names = {datetime(2023, month, 1, tzinfo=zone(city)).tzname() for month in (1, 7)}
        assert short in names or len(short) == 2 or all(name is not None and name[0] in "+-" for name in names), short
