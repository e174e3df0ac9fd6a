"""The pictures of sending and of the files' days show everything, also as text."""

from __future__ import annotations

import re
from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from pipeline.charts.calendar import calendar
from pipeline.charts.rate import MOST_BARS, rate
from pipeline.survey.file_dates import files_of_days

START = 1_700_000_000
COUNTS = st.dictionaries(st.integers(0, 200_000).map(lambda second: START + second), st.integers(1, 9_000), max_size=40)


@given(COUNTS, COUNTS)
def test_no_accepted_event_is_missing_in_its_picture(settled: dict[int, int], failed: dict[int, int]) -> None:
    """Every event and every failed request is in a reading; the bars are few, however long the run took."""
    found = rate(settled, failed)
    if found is None:
        assert (settled, failed) == ({}, {})
        return
    read = [re.fullmatch(r".*: ([\d,]+)(?:, ([\d,]+) failed requests?)?", reading.text) for reading in found.readings]
    sums = [sum(int((one[part] or "0").replace(",", "")) for one in read if one) for part in (1, 2)]
    assert sums == [sum(settled.values()), sum(failed.values())]
    assert sum(row.total for row in found.rows) == sum(settled.values())
    assert len(found.readings) <= MOST_BARS + 1
    assert found.top == max([1, *(row.total for row in found.rows)])


def test_a_bar_with_failed_requests_has_another_colour() -> None:
    """Two seconds of sending, one of which had a failure."""
    found = rate({START: 10, START + 5: 20}, {START + 5: 1})
    assert found is not None
    assert [found.svg.split(f'class="{name}" d="')[1].split('"')[0].count("M") for name in ("all", "cut")] == [1, 1]
    assert found.unit == "second"
    assert found.readings[-1].text == "2023-11-14 22:13:25: 20, 1 failed request"


def test_days_with_and_without_files_are_drawn() -> None:
    """A missing day at the turn of the year and a day with two files are seen; without dates, or over centuries,
    nothing is drawn."""
    days = [(date(2022, 12, 1) + timedelta(day)).isoformat() for day in range(62)]
    paths = [f"export-{day}.json" for day in days if day != "2023-01-01"] + ["more-2023-01-05.json"]
    found = calendar(files_of_days(paths))
    assert found is not None
    assert found.years == [2022, 2023]
    missing, twice = ("2023-01-01", "2023-01-01", 1, 0), ("2023-01-05", "2023-01-05", 1, 2)
    assert [run for run in found.runs if run.each != 1] == [missing, twice]
    assert found.svg.split('class="missing" d="')[1].startswith("M0 11h1")
    assert "61 days with a file, 1 without." in found.svg
    assert sum(run.days for run in found.runs) == 62
    assert calendar(files_of_days(["a.json", "b-3.json"])) is None
    assert calendar({1: 1, 700_000: 1}) is None
