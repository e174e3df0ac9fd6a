"""What daily counts and the names of files show: every planted fault is found, and nothing in a clean history."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from pipeline.identity.database import Database
from pipeline.models import Finding
from pipeline.options import PlanOptions
from pipeline.plan.checks import run_checks
from pipeline.plan.statistics.history import MOST_NAMES, History, read_history
from tests.support.plan_facts import facts

FIRST = 18_000
"""14 April 2019, a Sunday."""
YEARS = 730

Counts = dict[str, np.ndarray[Any, Any]]
SHARES = {"Page Viewed": 0.6, "Signup": 0.05, "Purchase": 0.1, "Search": 0.249, "Refund": 0.001}
WEEKS = {
    "the same every day": (1, 1, 1, 1, 1, 1, 1),
    "quiet weekends": (1, 1, 1.1, 1, 0.9, 0.3, 0.25),
    "no weekends": (1, 1, 1, 1, 1, 0, 0),
    "only weekends": (0, 0, 0, 0, 0, 1, 1),
}


def history_of(counts: Mapping[str, Any], *others: tuple[str, int, int]) -> History:
    """A history with these events a day, by name, and with others: a name, a day and how many."""
    by_day = ((name, FIRST + day, int(n)) for name, some in counts.items() for day, n in enumerate(some) if n > 0)
    return _read([*others, *by_day])


def _read(rows: Sequence[tuple[str, int, int]], most_names: int = MOST_NAMES) -> History:
    """The history of these names, days and numbers of events."""
    with TemporaryDirectory() as folder, Database(Path(folder)) as database:
        database.run("CREATE TABLE days (name VARCHAR, day BIGINT, events BIGINT)")
        database.insert("days", rows)
        return read_history(database, most_names)


def found_in(counts: Mapping[str, Any], **thresholds: Any) -> dict[str, Finding]:
    """The findings for this history, by the name of their check."""
    found = run_checks(facts(history=history_of(counts), thresholds=PlanOptions(**thresholds)))
    return {one.name: one for one in found}


def clean(seed: int, days: int = YEARS, level: float = 1000, week: str = "quiet weekends", growth: float = 1) -> Counts:
    """Random numbers of events around a level, which is `growth` times as high at the end, with a weekly rhythm."""
    random = np.random.default_rng(seed)
    rhythm = np.array(WEEKS[week])[(np.arange(days) + 6) % 7]
    rates = level * rhythm * growth ** (np.arange(days) / max(days, 1))
    noisy = rates * random.gamma(30, 1 / 30, days)
    return {name: random.poisson(noisy * share) for name, share in SHARES.items()}


@pytest.mark.parametrize(("week", "level"), [*zip(WEEKS, (0.3, 3, 300, 30_000), strict=True), ("quiet weekends", 30)])
def test_nothing_is_found_in_a_clean_history(week: str, level: float) -> None:
    """Whatever its rhythm, its volume and its length, and also if it grows or shrinks."""
    for seed, (days, growth) in enumerate([(1, 1), (10, 1), (40, 1), (100, 1), (YEARS, 0.1), (YEARS, 1), (YEARS, 20)]):
        assert found_in(clean(seed, days, level, week, growth)) == {}, f"{days} days, growth {growth}"


@pytest.mark.parametrize("seed", range(2))
def test_a_launch_the_first_and_last_day_and_a_holiday_are_nothing(seed: int) -> None:
    """A product with a small beginning, days that the export has in part, a new feature, Christmas at an office."""
    launch = clean(seed)
    for counts in launch.values():
        counts[:200] = counts[:200] // 150
    assert found_in(launch) == {}
    partial = clean(seed)
    for counts in partial.values():
        counts[0], counts[-1] = counts[0] // 20, counts[-1] // 20
    assert found_in(partial) == {}
    feature = clean(seed)
    feature["Video Played"] = np.where(np.arange(YEARS) < 400, 0, feature["Page Viewed"] * 3)
    assert found_in(feature) == {}
    office = clean(seed, week="no weekends")
    for counts in office.values():
        counts[255:257] = 0
        counts[350] = 0
    assert found_in(office) == {}
    monthly = clean(seed)
    monthly["Invoice Sent"] = np.where(np.arange(YEARS) % 30 == 0, 4000, 10)
    batches = np.random.default_rng(seed).random(YEARS) < 0.7
    monthly["Batch Imported"] = np.where(batches, 300, 0)
    assert found_in(monthly) == {}


Change = Callable[[Any], object]
"""Changes one series of days."""


def changed(change: Change, *names: str, seed: int = 1, **about: Any) -> Counts:
    """A clean history in which the series of some names, or of all, were changed."""
    counts = clean(seed, **about)
    for name in names or tuple(counts):
        change(counts[name])
    return counts


def put(days: slice, value: Any) -> Change:
    """Set some days to the result of a function of the series, or to a number."""

    def change(series: Any) -> None:
        series[days] = value(series) if callable(value) else value

    return change


@pytest.mark.parametrize(
    ("week", "days", "named"),
    [
        ("quiet weekends", 6, "to 2020-02-15 ("), ("quiet weekends", 1, "2020-02-10 (at"),
        ("no weekends", 6, "to 2020-02-14 ("),
    ],
)  # fmt: skip
def test_days_without_events_are_found(week: str, days: int, named: str) -> None:
    """The finding has the first and last day, and the usual number there."""
    found = found_in(changed(put(slice(302, 302 + days), 0), week=week))  # 302 is Monday, 10 February 2020
    assert [(name, one.level, one.count) for name, one in found.items()] == [("empty_days", "warning", 1)]
    assert "2020-02-10" in found["empty_days"].detail
    assert named in found["empty_days"].detail


def spike(series: Any) -> Any:
    """31 times the usual number."""
    return 31 * np.median(series[272:329])


def times(day: slice, factor: int) -> Change:
    """This many times as many."""
    return put(day, lambda series: series[day] * factor)


GAP, DAY, ON = slice(300, 305), slice(300, 301), slice(300, None)
FAULTS: list[tuple[Change, str, str, str, dict[str, Any]]] = [
    (put(GAP, 0), "Purchase", "empty_days_of_a_name", r"Purchase 2020-02-08 to 2020-02-12 \(5 days\)", {"gap": 6}),
    (put(DAY, spike), "", "spike", r"2020-02-08 \(.* 3[12] times the usual .* of them Page Viewed", {"spike": 40}),
    (times(DAY, 20), "Signup", "spike_of_a_name", "Signup 2020-02-08", {"spike": 40}),
    (times(ON, 3), "Signup", "level_of_a_name", "^1 event name whose number.*Signup from 2020-02-(0[6-9]|10) on", {}),
]
"""A change of one name, or of all, the check that finds it, its message, and an option that allows it."""


@pytest.mark.parametrize(("change", "name", "check", "text", "allowed"), FAULTS)
def test_a_change_is_found_on_its_day(
    change: Change, name: str, check: str, text: str, allowed: dict[str, Any]
) -> None:
    """The finding has its count and its name, also if the sum of all events does not show it."""
    counts = changed(change, *filter(None, [name]))
    found = found_in(counts)
    assert [(one.name, one.count) for one in found.values()] == [(check, 1)]
    assert re.search(text, found[check].detail), found[check].detail
    assert not allowed or found_in(counts, **allowed) == {}


def test_long_gaps_are_one_finding_and_no_level() -> None:
    """Forty days without events are neither a fall nor a rise."""
    counts = changed(put(slice(300, 340), 0))
    for series in counts.values():
        series[380:382] = 0
    found = found_in(counts)
    assert [(name, one.count) for name, one in found.items()] == [("empty_days", 2)]
    assert found["empty_days"].detail.startswith("2 gaps without any event inside the range")


@pytest.mark.parametrize(("times", "seed"), [(0.2, 0), (0.45, 1), (0.45, 2), (2.5, 0), (2.5, 2)])
def test_a_sudden_lasting_change_is_found_on_its_day(times: float, seed: int) -> None:
    """Half of the events lost from a day on, or all of them sent by two libraries; the change has to last four
    weeks."""
    found = found_in(changed(put(slice(300, None), lambda series: (series[300:] * times).astype(int)), seed=seed))
    assert [(name, one.count) for name, one in found.items()] == [("level", 1)]
    assert re.search(r"from 2020-02-(0[6-9]|10) on", found["level"].detail), found["level"].detail
    assert found_in(changed(put(slice(300, 314), lambda series: series[300:314] // 3), seed=seed)) == {}


@pytest.mark.parametrize(
    ("before", "after"),
    [("Purchase", "purchase"), ("Page Viewed", "page_viewed"), ("Video", "Videos"), ("Sign-up", "Signup")],
)
def test_a_name_that_goes_on_in_another_spelling_is_found(before: str, after: str) -> None:
    """With both names, their days and counts."""
    counts = clean(1)
    whole = counts.pop(before, counts["Signup"].copy())
    counts.pop(after, None)
    counts[before], counts[after] = whole.copy(), whole.copy()
    counts[before][400:] = 0
    counts[after][:398] = 0
    found = found_in(counts)
    assert list(found) == ["renamed_event"]
    assert f"{before} from 2019-04-14 until 2020-05-17" in found["renamed_event"].detail
    assert f"then {after} from 2020-05-16 until" in found["renamed_event"].detail


def test_names_that_differ_in_spelling_at_one_time_are_listed() -> None:
    """Each with its count; `Class` is not a plural of `Clas`, nor `News` of `New`."""
    counts = clean(1)
    found = found_in(counts | {"page viewed": counts["Page Viewed"] // 9})
    assert [(name, one.level, one.count) for name, one in found.items()] == [("similar_names", "notice", 1)]
    assert "Page Viewed (" in found["similar_names"].detail
    whole = counts.pop("Search")
    counts |= dict.fromkeys(("New", "News", "Clas", "Class", "Address", "Addres"), whole)
    assert found_in(counts) == {}
    assert list(found_in({**counts, "Order": whole, "orders": whole})) == ["similar_names"]


def test_clocks_that_are_years_off_hide_nothing() -> None:
    """An event of 1970 and one of 9999 do not change the range."""
    history = history_of(changed(put(slice(300, 306), 0)), ("$old", 0, 1), ("$old", 2_932_000, 1))
    (finding,) = run_checks(facts(history=history))
    assert finding.name == "empty_days"
    assert "6 days" in finding.detail


def test_series_of_few_names_are_kept_and_all_spans() -> None:
    """The most frequent names; so memory does not grow with names that occur once."""
    history = _read([("a", FIRST, 5), ("b", FIRST, 1), ("c", FIRST, 9), ("d", FIRST, 3)], most_names=2)
    assert list(history.names) == ["c", "a"]
    assert set(history.spans) == set("abcd")
    assert history.total.counts.tolist() == [18]


def files_found(paths: list[str], *, in_series: bool = False) -> dict[str, Finding]:
    found = run_checks(facts(paths=paths, in_series=in_series))
    return {one.name: one for one in found}


def month(pattern: str, days: Any = range(1, 31)) -> list[str]:
    return [pattern.format(day) for day in days]


@pytest.mark.parametrize(
    "pattern",
    [
        "2024-06-{:02}.jsonl.gz",
        "events_202406{:02}",
        "export.zip!123/123_2024-06-{:02}_7#1.json.gz",
        "year=2024/month=6/day={}/part-0.parquet",
        "2024/06/{:02}/3f2a99c1.json",
    ],
)
def test_a_day_without_a_file_is_found(pattern: str) -> None:
    """In any tool's spelling of dates; a job's windows have files of their own."""
    whole = month(pattern)
    assert files_found(whole) == {}
    lacking = [path for number, path in enumerate(whole, 1) if number not in (11, 12, 20)]
    found = files_found(lacking)
    assert list(found) == ["missing_files"]
    assert "lacks 3 days: 2024-06-11 to 2024-06-12 (2 days) before " in found["missing_files"].detail
    assert "2024-06-20 before" in found["missing_files"].detail
    assert files_found(lacking, in_series=True) == {}


def test_files_of_working_days_and_irregular_ones_lack_nothing() -> None:
    """Weekends without files, irregular files, numbers that are not dates, a date of the export that all have."""
    for paths in (
        month("2024-06-{:02}.csv", [d for d in range(1, 31) if d % 7 not in (1, 2)]),
        month("2024-06-{:02}.csv", [1, 2, 9, 20, 21, 22, 28]),
        [f"part-{number:08}.json" for number in range(20240601, 20240699)],
        [f"shard_{n}/2024-06-{d:02}_{h}.json" for n in (1, 2) for d in range(1, 31) for h in (0, 9)],
        month("2024-06-{:02}_exported_2024-09-01.csv"),
    ):
        assert files_found(paths) == {}, paths[0]


def test_ranges_that_leave_days_out_or_overlap_are_found() -> None:
    """The last day of one may be the first of the next."""
    whole = ["2024-01-01_2024-01-31.jsonl", "2024-02-01_2024-02-29.jsonl", "2024-03-01_2024-03-31.jsonl"]
    assert files_found(whole) == {}
    assert files_found(["a_20240101_20240201.csv", "a_20240201_20240301.csv"]) == {}
    found = files_found([whole[0], whole[2]])
    assert list(found) == ["missing_files"]
    assert "2024-02-01 to 2024-02-29 (29 days)" in found["missing_files"].detail
    found = files_found([whole[0], "2024-01-20_2024-02-29.jsonl", whole[2]])
    assert list(found) == ["overlapping_files"]
    assert "2024-01-20 to 2024-01-31 (12 days) in 2024-01-01_2024-01-31.jsonl" in found["overlapping_files"].detail


def test_a_copy_that_a_browser_made_is_found() -> None:
    """The finding names the file that it is a copy of."""
    found = files_found(["a/events.csv", "a/events (1).csv", "a/other (2).csv"])
    assert [(name, one.count) for name, one in found.items()] == [("overlapping_files", 1)]
    assert "a/events (1).csv next to a/events.csv" in found["overlapping_files"].detail
