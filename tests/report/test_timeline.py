"""The picture of events over time: bars, labels, gaps and its table."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.charts import PLACES, style
from pipeline.charts.bars import bar, sparkline
from pipeline.charts.timeline import Timeline, timeline

FIRST = date(2022, 1, 3)


def days(count: int, each: int = 200, **other: int) -> dict[str, int]:
    """This many days with `each` events; `other` has the counts of some, by `d` and their number."""
    numbered = {FIRST + timedelta(day): other.get(f"d{day}", each) for day in range(count)}
    return {day.isoformat(): events for day, events in numbered.items() if events}


def drawn(counts: dict[str, int]) -> Timeline:
    found = timeline(counts)
    assert found is not None
    return found


def place(name: str) -> float:
    """The place in percent that a class stands for."""
    assert f".{name}{{" in style()
    return int(name.removeprefix("at-")) / PLACES


@pytest.mark.parametrize(
    ("first", "last", "unit", "bars"),
    [
        ("2022-01-03", "2022-01-03", "day", 1),
        ("2022-01-03", "2025-01-04", "day", 1_098),
        ("2022-01-03", "2025-01-05", "week", 157),
        ("2022-01-03", "2046-08-25", "month", 296),
        ("0000-01-01", "0000-01-02", "day", 2),
        ("0000-01-01", "2023-01-01", "century", 21),
        ("1602-12-31", "2023-01-01", "year", 422),
        ("9999-12-01", "9999-12-31", "day", 31),
        ("0000-01-01", "9999-12-31", "century", 100),
    ],
)
def test_many_years_have_fewer_bars(first: str, last: str, unit: str, bars: int) -> None:
    """Three years have a bar per day, twenty a bar per week, more a bar per month. A wrong clock can write any year;
    the picture has both days."""
    counts = {first: 3, last: 4}
    found = drawn(counts)
    assert (found.unit, len(found.readings)) == (unit, bars)
    assert (found.readings[0].since <= first, found.readings[-1].until >= last) == (True, True)
    assert sum(row.total for row in found.rows) == sum(counts.values())


def test_a_picture_of_days_shows_what_stands_out() -> None:
    """A day of many medians is cut and counted; gaps are shaded and dated, weekends are not; half of three is not a
    gap; without events there is no picture."""
    found = drawn(days(60, d40=6_000))
    assert found.top == 800
    assert [label.text for label in found.labels] == ["2022-02-12: 6,000 (bar cut at 800)"]
    assert "M40 100V12h0.8V100zM40 6V0h0.8V6z" in found.svg
    assert "2022-02-12: 6,000" in [reading.text for reading in found.readings]
    found = drawn(days(60, **dict.fromkeys(("d10", "d20", "d21"), 0)))
    gaps = ["no events on 2022-01-13", "no events from 2022-01-23 to 2022-01-24 (2 days)"]
    assert [label.text for label in found.labels] == gaps
    weekends = {f"d{day}": 0 for day in range(700) if day % 7 in (5, 6) or 350 <= day < 357}
    found = drawn(days(700, **weekends))
    assert [label.text for label in found.labels] == ["no events from 2022-12-17 to 2022-12-25 (9 days)"]
    assert found.notes == ["97 short gaps not shaded"]
    assert timeline({}) is None
    assert '<path d=""/>' in sparkline({}, [], "events")
    assert 'width="0"' in bar(0, 0)
    page = jinja2.Environment(loader=jinja2.PackageLoader("pipeline.charts"))
    page.filters["n"] = str
    macro = page.get_template("timeline.html.j2").module.timeline  # type: ignore[attr-defined]
    for most, half in ((3, False), (4, True), (67, True)):
        assert ('class="scale half"' in macro(drawn({"2022-01-01": most}))) == half


@given(st.dictionaries(st.integers(0, 12_000), st.integers(1, 10_000), min_size=1, max_size=80))
def test_no_event_is_missing_in_a_picture_or_its_table(counts: dict[int, int]) -> None:
    """Readings and table add up to all events; everything is inside the picture, and no label covers another."""
    found = drawn({(FIRST + timedelta(day)).isoformat(): count for day, count in counts.items()})
    read = [int(reading.text.rpartition(": ")[2].replace(",", "")) for reading in found.readings]
    assert sum(read) == sum(counts.values())
    assert 0 < place(found.filled) <= 100
    assert sum(row.total for row in found.rows) == sum(counts.values())
    assert all(sum(row.counts) == row.total for row in found.rows if row.counts)
    assert all(one.until < next.since for one, next in pairwise(found.readings))
    assert all(0 <= place(tick.at) <= 100 for tick in found.ticks)
    assert all(0 <= label.lane < found.lanes and 0 <= place(label.at) <= 100 for label in found.labels)
