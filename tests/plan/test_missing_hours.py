"""Hours and parts that are missing: by the names of the files, and by the events. Every planted hole is found, and
nothing in a clean rhythm."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.api import survey_export
from pipeline.models import Finding, SealedOptions
from pipeline.plan.checks import run_checks
from pipeline.plan.statistics.history import History, Series
from pipeline.plan.statistics.hours import HourHistory
from pipeline.survey.file_dates import hours_named
from tests.support.plan_facts import facts

START = datetime(2023, 1, 30, tzinfo=UTC)
FIRST = int(START.timestamp()) // 3600
WEEKS = 12
HOURS = 24 * 7 * WEEKS
RHYTHMS: dict[str, Callable[[Any, Any], Any]] = {
    "the whole world": lambda day, hour: 40 + 0 * hour,
    "people who sleep": lambda day, hour: 120 * np.exp(-(((hour - 14) / 4.5) ** 2)) + 0.3,
    "an office": lambda day, hour: np.where((day < 5) & (hour >= 8) & (hour < 18), 90, 0),
    "a market on two days": lambda day, hour: np.where((day >= 5) & (hour >= 6) & (hour < 12), 200, 0.1),
    "few": lambda day, hour: 0.7 + 0 * hour,
}
SPELLINGS = {
    "Amplitude": "7/7_{0:%Y-%m-%d}_{0.hour}#0.json.gz",
    "PostHog": "team/{0:%Y-%m-%dT%H:00:00+00:00}-{1:%Y-%m-%dT%H:00:00+00:00}.jsonl.gz",
    "Braze": "dataexport/event_type=open/date={0:%Y-%m-%d-%H}/4/part.avro",
    "Firehose": "raw/{0:%Y/%m/%d/%H}/stream-1-{0:%Y-%m-%d-%H}-05-11-6a9e01d2.gz",
    "Hive": "t/dt={0:%Y-%m-%d}/hour={0:%H}/a.parquet",
    "compact": "events-{0:%Y%m%d%H}.csv",
    "Adobe": "rsid_{0:%Y%m%d-%H0000}.tar.gz",
    "archive": "2023-02.zip!7/7_{0:%Y-%m-%d}_{0.hour}#0.json.gz",
}


def named(hour: int, spelling: str = "Amplitude") -> str:
    at = datetime.fromtimestamp(hour * 3600, UTC)
    return SPELLINGS[spelling].format(at, at + timedelta(hours=1))


def events_of(rhythm: str, seed: int, holes: Any = (), weeks: int = WEEKS) -> Any:
    """Events of each hour in a rhythm, with none in the `holes`; each day has its own level."""
    random = np.random.default_rng(seed)
    hours = np.arange(24 * 7 * weeks)
    rates = RHYTHMS[rhythm](hours // 24 % 7, hours % 24) * random.gamma(30, 1 / 30, 7 * weeks).repeat(24)
    counts = random.poisson(rates)
    for hole in holes:
        counts[hole] = 0
    return counts


def found(counts: Any = (), paths: Any = (), zones: Any = (), **changed: Any) -> dict[str, Finding]:
    """The findings about these events of each hour and these files, by check."""
    counts = np.array(counts, np.int64)
    some = np.flatnonzero(counts)
    hours = HourHistory(zones, (some + FIRST) * 4, counts[some])
    days = np.add.reduceat(counts, np.arange(0, len(counts), 24)) if len(counts) else counts
    history = History(Series(FIRST // 24, days)) if len(days) else History()
    options = SealedOptions(as_of=0, zones=zones)
    return {
        one.name: one
        for one in run_checks(facts(hours=hours, history=history, paths=list(paths), options=options, **changed))
        if one.name.startswith(("missing", "empty"))
    }


@pytest.mark.parametrize("rhythm", RHYTHMS)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=15)
def test_a_clean_rhythm_has_no_empty_hours(rhythm: str, seed: int) -> None:
    """Neither nights, weekends and holidays nor low traffic are gaps, nor hours moved by daylight saving time."""
    counts = events_of(rhythm, seed)
    assert found(counts) == {}
    if rhythm in ("an office", "people who sleep"):
        moved = np.concatenate([counts[: HOURS // 2], counts[HOURS // 2 + 1 :]])
        assert "empty_hours" not in found(moved)
    if rhythm == "an office":
        counts[24 * 35 : 24 * 36] = 0
        counts[24 * 45 + 13 : 24 * 46] = 0
        assert "empty_hours" not in found(counts)


@pytest.mark.parametrize("rhythm", ["the whole world", "people who sleep", "an office"])
@given(
    day=st.integers(2 * 7 + 1, (WEEKS - 2) * 7 - 2),
    hour=st.integers(10, 13),
    length=st.integers(1, 3),
    seed=st.integers(0, 999),
)
@settings(max_examples=25)
def test_a_planted_hole_in_the_events_is_found(rhythm: str, day: int, hour: int, length: int, seed: int) -> None:
    """And it alone, by its hours."""
    day -= max(0, day % 7 - 4)
    first = 24 * day + hour
    finding = found(events_of(rhythm, seed, [slice(first, first + length)]))["empty_hours"]
    assert (finding.level, finding.count) == ("warning", 1)
    assert f": {hours_named(FIRST + first, FIRST + first + length - 1)} (at least " in finding.detail


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_hours_without_a_file_are_found_from_the_third_file_on(spelling: str) -> None:
    """In each tool's spelling, between few files and among many; complete hours lack nothing."""
    morning = FIRST + 24 * 20
    files = [named(morning + hour, spelling) for hour in (4, 5, 8)]
    assert "lacks 2 hours: 2023-02-19 06:00 to 07:00 (2 hours) before " in found(paths=files)["missing_hours"].detail
    assert found(paths=files[:2]) == {}
    whole = [named(FIRST + hour, spelling) for hour in range(24 * 9)]
    assert found(paths=whole) == {}
    lacking = [path for hour, path in enumerate(whole) if hour != 53 and not 70 <= hour < 74]
    detail = found(paths=lacking)["missing_hours"].detail
    assert "lacks 5 hours:" in detail
    assert "2023-02-01 05:00 before" in detail
    assert "2023-02-01 22:00 to 2023-02-02 01:00 (4 hours) before" in detail
    assert found(paths=lacking, in_series=True) == {}


def test_a_busy_hour_without_a_file_weighs_more_than_a_quiet_night() -> None:
    """The first is a warning, the second only a notice, for some tools write no file for an hour without events."""
    paths = [named(FIRST + hour) for hour in range(24 * 28)]
    night, noon = 24 * 15 + 2, 24 * 15 + 13

    def lacking(*hours: int) -> Finding:
        counts = events_of("people who sleep", 1, hours, weeks=4)
        some = found(counts, [path for hour, path in enumerate(paths) if hour not in hours])
        assert list(some) == ["missing_hours"]
        return some["missing_hours"]

    quiet = lacking(night)
    assert (quiet.level, "2023-02-14 02:00 before" in quiet.detail) == ("notice", True)
    assert "(few events are usual then)" in quiet.detail
    busy = lacking(night, noon, noon + 1)
    assert busy.level == "warning"
    assert (
        "lacks 3 hours: 2023-02-14 13:00 to 14:00 (2 hours) before 7/7_2023-02-14_15#0.json.gz (about 2" in busy.detail
    )


@given(seed=st.integers(0, 10_000))
@settings(max_examples=5)
def test_a_tool_without_files_for_empty_hours_lacks_nothing_that_matters(seed: int) -> None:
    """Quiet nights and weekends without files are no warning, in an office not even a notice."""
    for rhythm in ("people who sleep", "an office", "few"):
        counts = events_of(rhythm, seed)
        finding = found(counts, [named(FIRST + int(hour)) for hour in np.flatnonzero(counts)]).get("missing_hours")
        assert finding is None or (finding.level == "notice" and rhythm != "an office")


def test_other_numbers_and_the_hour_that_spring_skips_are_not_missing() -> None:
    """Numbered parts of days are not hours, files of whole days have none, and no clock shows 02:00 on that Sunday."""
    days = [START + timedelta(days) for days in range(40)]
    for paths in (
        [f"events_{day:%Y-%m-%d}_{part}.json" for day in days for part in range(1, 7)],
        [f"events_{day:%Y-%m-%d}_{part}.json" for day in days for part in range(30) if day.day + part != 9],
        [f"{day:%Y-%m-%dT00:00:00Z}.json" for day in days],
        [f"{day:%Y-%m-%d}_{day + timedelta(1):%Y-%m-%d}.csv" for day in days],
    ):
        assert found(paths=paths) == {}, paths[0]
    spring = int(datetime(2023, 3, 12, tzinfo=UTC).timestamp()) // 3600
    local = [named(spring + hour) for hour in range(-24, 24) if hour != 2]
    assert found(paths=local, zones=(("America/New_York", ""),)) == {}
    assert "2023-03-12 02:00" in found(paths=local)["missing_hours"].detail


def test_a_few_daily_files_lack_a_day_between_them() -> None:
    """From the third file on; exports made now and then are not daily."""
    paths = [f"2023-02-{day:02}.json" for day in (6, 7, 9)]
    assert "lacks 1 day: 2023-02-08 before 2023-02-09.json" in found(paths=paths)["missing_files"].detail
    assert found(paths=paths[:2]) == {}
    assert found(paths=["2023-02-01.json", "2023-02-02.json", "2023-02-20.json"]) == {}


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        ([f"x/part-{n:05}-3f2a99c1-c000.parquet" for n in (0, 1, 2, 4, 5)], "part 3 before x/part-00004-3f2a99c1-c"),
        ([f"7_2023-02-01_5#{n}.json.gz" for n in (0, 2, 3)], "part 1 before 7_2023-02-01_5#2.json.gz"),
        ([f"events-{n:012}.json.gz" for n in (0, 1, 3)], "part 2 before events-000000000003.json.gz"),
    ],
)  # fmt: skip
def test_a_part_that_is_missing_between_others_is_found(paths: list[str], words: str) -> None:
    """Numbers with many holes, and a program that leaves parts out in many folders, are not numberings."""
    assert words in found(paths=paths)["missing_parts"].detail
    assert found(paths=paths, in_series=True) == {}
    assert found(paths=[f"part-{n}.json" for n in (1, 4, 9, 11)]) == {}
    assert found(paths=[f"{folder}/part-{n}.json" for folder in range(20) for n in (0, 1, 3)]) == {}


def test_a_survey_names_what_is_missing_before_there_is_a_plan(tmp_path: Path) -> None:
    """Days, hours and parts, each in one notice, with the file after the first."""
    for name in (
        *(f"web/2023-02-{day:02}.json" for day in (6, 7, 9)),
        *(f"hourly/{named(FIRST + hour)}" for hour in range(30) if hour not in (1, *range(10, 22, 2))),
        *(f"parts/part-{number}.json" for number in (0, 1, 3)),
    ):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        row = b'{"event": "%b"}\n' % name.encode()
        file.write_bytes(gzip.compress(row) if name.endswith(".gz") else row)
    notices = {code: (where, detail) for code, where, detail in survey_export([str(tmp_path)]).notices}
    said = "by the names of the files, there is no file for"
    assert notices["missing_files"] == ("web/2023-02-09.json", f"{said} 2023-02-08")
    assert notices["missing_parts"] == ("parts/part-3.json", f"{said} part 2")
    hours = ", ".join(f"2023-01-30 {hour:02}:00" for hour in (1, 10, 12, 14, 16))
    assert notices["missing_hours"] == ("hourly/7/7_2023-01-30_2#0.json.gz", f"{said} {hours} and 2 more")
