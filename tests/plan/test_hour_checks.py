"""What hours of the day show: every wrong clock is found, and nothing if the clock is right or nothing can be known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest

from pipeline.models import Finding, SealedOptions
from pipeline.options import PlanOptions
from pipeline.plan.checks import run_checks
from pipeline.plan.checks.gaps import empty_days
from pipeline.plan.statistics.history import History, series_of
from pipeline.plan.statistics.hour_profile import clock_in_words
from pipeline.plan.statistics.hours import QUARTERS_A_DAY, HourHistory
from pipeline.plan.zone import MonthEvidence, ZoneVerdict
from pipeline.report.page.check_words import in_one_line
from pipeline.timestamps import DAY
from pipeline.zone_clock import QUARTER, ZoneClock
from tests.support.commands import generic
from tests.support.plan_facts import facts
from tests.support.tiny_tool import write

FIRST = (date(2022, 1, 1) - date(1970, 1, 1)).days
DAYS = 730
NEW_YORK, LOS_ANGELES, BERLIN = "America/New_York", "America/Los_Angeles", "Europe/Berlin"


def _bell(middle: float, width: float) -> Callable[[Any], Any]:
    return lambda hour: np.exp(-((((hour - middle + 12) % 24) - 12) ** 2) / (2 * width**2))


SHOP = [_bell(12.5, 2.5), _bell(20, 2)]
OFFICE = [_bell(13, 2.5)]


@cache
def zone_of(name: str) -> Any:
    """The offsets of a zone, in quarters, at each quarter of the history."""
    clock = ZoneClock([(name, "")])
    start = FIRST * QUARTERS_A_DAY
    hours = [clock.offset_at((start + quarter) * QUARTER) // QUARTER for quarter in range(0, DAYS * QUARTERS_A_DAY, 4)]
    return np.repeat(np.array(hours), 4)


def lived_in(*regions: str, level: float = 100, shape: Sequence[Any] = SHOP, seed: int = 1) -> Any:
    """Events of each quarter of an hour in UTC, `level` a day, of people who live in these zones."""
    quarters = np.arange(FIRST * QUARTERS_A_DAY, (FIRST + DAYS) * QUARTERS_A_DAY)
    rates = np.full(len(quarters), 0.02)
    for region in regions:
        local = (quarters + zone_of(region)) % QUARTERS_A_DAY / 4
        rates += sum(bell(local) for bell in shape)
    random = np.random.default_rng(seed)
    days = random.gamma(25, 1 / 25, DAYS).repeat(QUARTERS_A_DAY)
    return random.poisson(rates / rates.sum() * level * DAYS * days)


@cache
def instants(zones: tuple[tuple[str, str], ...], written: str) -> Any:
    """The quarter in UTC for each quarter of the history, if a clock in `written` shows it and it is read in
    `zones`."""
    clock = ZoneClock(zones)
    walls = np.arange(FIRST * QUARTERS_A_DAY, (FIRST + DAYS) * QUARTERS_A_DAY) + zone_of(written)
    return np.array([clock.to_utc(wall * QUARTER)[0] // QUARTER for wall in walls.tolist()])


def read(
    counts: Any, written: str, zones: Sequence[tuple[str, str]], history: HourHistory | None = None
) -> HourHistory:
    """Add readings of a clock in `written`, read in `zones`, to the history."""
    some = np.flatnonzero(counts)
    before = history or HourHistory(zones)
    found = np.concatenate((before.quarters, instants(tuple(zones), written)[some]))
    quarters, place = np.unique(found, return_inverse=True)
    events = np.concatenate((before.events, counts[some]))
    return HourHistory(zones, quarters, np.bincount(place, events).astype(np.int64))


def found_in(history: HourHistory, *, proved: bool = False, least: int = 1_000) -> dict[str, Finding]:
    """The findings for a history, by the name of their check."""
    months = (MonthEvidence("2022-01", 0, 9, 9, (0,), True),) if proved else ()
    options, thresholds = SealedOptions(as_of=0, zones=history.clock.zones), PlanOptions(hour_events=least)
    found = run_checks(facts(hours=history, options=options, zone=ZoneVerdict("UTC", months), thresholds=thresholds))
    return {one.name: one for one in found if one.name not in ("zone", "zone_not_confirmed")}


@pytest.mark.parametrize(
    ("zone", "shape"),
    [
        (NEW_YORK, SHOP), (BERLIN, OFFICE), ("Asia/Kolkata", SHOP), ("Australia/Sydney", OFFICE),
        ("Asia/Kathmandu", SHOP),
    ],
)  # fmt: skip
def test_a_right_zone_gives_no_finding(zone: str, shape: Any) -> None:
    """In spring, in autumn, with any volume; nor does UTC if the times are in UTC, wherever people live."""
    for level in (0.5, 20, 3_000):
        counts = lived_in(zone, level=level, shape=shape)
        assert found_in(read(counts, zone, [(zone, "")])) == {}, level
        assert found_in(read(counts, "UTC", ())) == {}, level


@pytest.mark.parametrize("level", [3, 300])
def test_worldwide_and_even_data_give_no_finding(level: float) -> None:
    """Nor do a server's jobs at one hour of the day, nor the events of one evening."""
    world = lived_in(NEW_YORK, BERLIN, "Asia/Tokyo", "Asia/Kolkata", LOS_ANGELES, level=level)
    even = lived_in(level=level)
    job = np.zeros_like(even)
    job[11 * 4 :: QUARTERS_A_DAY] = 50
    evening = np.zeros_like(even)
    evening[32:40] = 900
    for counts in (world, even, job, evening):
        for zones in ((), [(NEW_YORK, "")], [("Asia/Tokyo", "")]):
            assert found_in(read(counts, "UTC", zones)) == {}


@pytest.mark.parametrize("zone", [LOS_ANGELES, "Asia/Tokyo", "Asia/Kolkata", "Australia/Sydney"])
def test_a_night_by_day_is_found(zone: str) -> None:
    """UTC times were read in the zone where people live; the remedy names UTC."""
    found = found_in(read(lived_in(zone), "UTC", [(zone, "")]))
    assert "night_by_day" in found
    assert found["night_by_day"].level == "warning"
    assert "--timezone UTC" in found["night_by_day"].detail
    assert found_in(read(lived_in(zone, level=1), "UTC", [(zone, "")])) == {}, "too few events"


def test_receive_times_are_better_evidence() -> None:
    """The zone of a project in New York whose people live in Tokyo is the one that its receive times prove."""
    history = read(lived_in("Asia/Tokyo"), NEW_YORK, [(NEW_YORK, "")])
    assert list(found_in(history)) == ["night_by_day"]
    assert found_in(history, proved=True) == {}


@pytest.mark.parametrize(("zone", "days"), [(NEW_YORK, "2022-03-13"), (BERLIN, "2022-03-27")])
def test_a_clock_that_is_not_changed_is_found(zone: str, days: str) -> None:
    """Each change is a contradiction, with its day; with a right clock each is a proof."""
    counts = lived_in(zone, level=2_000)
    finding = found_in(read(counts, "UTC", [(zone, "")]))["clock_change"]
    assert finding.count == 4
    assert isinstance(finding.examples, list)
    assert finding.examples[0] == days
    assert "--timezone UTC" in finding.detail
    assert clock_in_words(read(counts, zone, [(zone, "")]), zone) == (
        "At 4 of 4 changes to and from daylight saving time the hours of day stay as they were: the clock of the source"
        f" changes as that of {zone} does."
    )


@pytest.mark.parametrize("zone", [NEW_YORK, BERLIN, "Europe/London", "Europe/Athens"])
def test_an_hour_that_the_clock_skips_is_found(zone: str) -> None:
    """Local times that were read as UTC have a missing hour on a Sunday in spring."""
    counts = lived_in(zone, level=20_000)
    finding = found_in(read(counts, zone, ()))["clock_change"]
    assert finding.count == 2
    assert "skips that hour" in finding.detail
    assert f"--timezone {zone.replace('Athens', 'Helsinki')}" in finding.detail


@pytest.mark.parametrize("zones", [(), [(NEW_YORK, "")]])
@pytest.mark.parametrize("day", [365, 380])
def test_a_jump_of_the_clock_is_found(zones: Any, day: int) -> None:
    """A project whose zone was changed; also in the middle of a month."""
    counts = lived_in(LOS_ANGELES, level=300)
    before, after = counts.copy(), counts.copy()
    before[day * QUARTERS_A_DAY :], after[: day * QUARTERS_A_DAY] = 0, 0
    old = zones[0][0] if zones else "UTC"
    finding = found_in(read(after, LOS_ANGELES, zones, read(before, old, zones)))["clock_jump"]
    assert finding.count == 1
    assert isinstance(finding.examples, list)
    assert finding.examples[0].startswith("From 2023-0")
    assert f"--timezone {old} --timezone {LOS_ANGELES}@2023-0" in finding.detail


def test_the_zones_that_a_jump_asks_for_settle_it() -> None:
    """Hours are compared after the declared zones: the right zone gives no finding, a wrong one is replaced, not
    doubled."""
    counts, day = lived_in(NEW_YORK, level=300), 365 * QUARTERS_A_DAY
    before, after = counts.copy(), counts.copy()
    before[day:], after[:day] = 0, 0

    def planned(*zones: tuple[str, str]) -> dict[str, Finding]:
        return found_in(read(after, "Asia/Dubai", zones, read(before, NEW_YORK, zones)))

    asked = planned((NEW_YORK, ""))["clock_jump"]
    assert isinstance(asked.examples, list)
    assert f"From 2023-01-01 on, times look 9 hours late: {after.sum():,} events" in asked.examples[0]
    assert f"--timezone {NEW_YORK} --timezone Asia/Dubai@2023-01-01)" in asked.detail
    assert "clock_jump" not in planned((NEW_YORK, ""), ("Asia/Dubai", "2023-01-01"))
    wrong = planned((NEW_YORK, ""), ("Europe/Moscow", "2023-01-01"), ("Asia/Dubai", "2023-09-01"))
    assert "clock_jump" not in wrong, "an hour more is no jump"
    worse = planned((NEW_YORK, ""), ("UTC", "2023-01-01"))["clock_jump"].detail
    assert worse.count("@2023-01-01") == 1
    assert "--timezone Asia/Dubai@2023-01-01)" in worse


def test_more_events_can_be_asked_for() -> None:
    """--hour-events."""
    history = read(lived_in(LOS_ANGELES), "UTC", [(LOS_ANGELES, "")])
    assert "night_by_day" in found_in(history, least=73_000 - 5_000)
    assert "night_by_day" not in found_in(history, least=80_000)


def test_a_plan_seals_the_hours(call: Any, tmp_path: Any) -> None:
    """In both clocks, with the days of the week; a duplicate counts once. Its checks use these hours."""
    times = [f"2023-01-0{1 + n % 3}T{n % 24:02d}:30:00" for n in range(72)]
    rows = [{"event": "A", "distinct_id": "x", "uuid": str(n), "timestamp": time} for n, time in enumerate(times)]
    source = write(tmp_path / "events.jsonl", [*rows, rows[0]])
    call("plan", source, *generic(), "--timezone", "Asia/Kolkata", "-o", tmp_path / "plan")
    sealed = msgspec.json.decode((tmp_path / "plan" / "plan.json").read_bytes())["hours"]
    assert sealed["source"] == [3] * 24
    assert sealed["utc"] == [3] * 24
    assert sealed["weekdays"] == [24, 24, 0, 0, 0, 0, 24]
    rows = [  # of people in Tokyo, from 8 to 22 o'clock, in UTC
        rows[0] | {"uuid": str(n), "timestamp": f"2023-01-{1 + n % 28:02d}T{(n % 14 + 23) % 24:02d}:{n % 60:02d}:00"}
        for n in range(1_400)
    ]
    words = [*generic(), "--timezone", "Asia/Tokyo", "--hour-events", "1000", "-o", tmp_path / "plan", "--json"]
    gates = call("plan", write(source, rows), *words).json["gates"]
    assert "night_by_day" in {gate["name"] for gate in gates}


def test_the_clock_is_right_to_the_minute_of_a_change() -> None:
    """Events around a clock change are at their hour of the source's clock."""
    start = (date(2023, 3, 12) - date(1970, 1, 1)).days * DAY
    quarters = np.array([start // QUARTER + hour * 4 for hour in (5, 6, 7, 8)])
    history = HourHistory([(NEW_YORK, "")], quarters, np.ones(4, np.int64))
    assert (history.walls // 4 % 24).tolist() == [0, 1, 3, 4]


@pytest.mark.parametrize(
    ("days", "named"),
    [
        (3, "2022-02-02 to 2022-02-03 (2 days), which is 2022-02-01 to 2022-02-03 (3 days) on the source's clock (at"),
        (1, "2022-02-01 on the source's clock, but no whole day in UTC (at least"),
    ],
)
def test_a_gap_has_the_days_of_both_clocks(days: int, named: str) -> None:
    """The chart shades the empty UTC days; the days to export again are those of the source's clock."""
    counts = lived_in(NEW_YORK, level=300).reshape(DAYS, QUARTERS_A_DAY)
    first = int(np.datetime64("2022-02-01", "D").astype(int)) - FIRST
    counts[first : first + days] = 0  # by the clock of the source
    history = read(counts.ravel(), "UTC", [(NEW_YORK, "")])
    days_in_utc, events = np.unique(np.repeat(history.quarters // QUARTERS_A_DAY, history.events), return_counts=True)
    total = series_of(zip(days_in_utc.tolist(), events.tolist(), strict=True))
    known = facts(hours=history, history=History(total), options=SealedOptions(as_of=0, zones=history.clock.zones))
    finding = empty_days(known)
    assert isinstance(finding, Finding)
    assert named in finding.detail
    line = in_one_line(msgspec.structs.replace(finding, name="empty_days"))
    assert line == f"No events at all {named[: named.index(' (at')]}. Is the export complete?"
