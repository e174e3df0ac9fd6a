"""Windows divide a calendar without gap or overlap, whatever its clocks do, and each has its own path."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice, pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import UsageError
from pipeline.jobs.calendar import Calendar, Window
from pipeline.jobs.job import PathTemplate
from pipeline.timestamps import DAY, HOUR, format_utc

ZONES = (
    "UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo",
    "Pacific/Apia", "Africa/Casablanca", "Atlantic/Azores",
)  # fmt: skip


def some(kind: str, zone: str, first: str, count: int) -> list[Window]:
    calendar = Calendar(kind, zone)
    return list(islice(calendar.from_(calendar.window(first)), count))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["day", "hour"]),
    st.sampled_from(ZONES),
    st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1)),
)
def test_windows_neither_overlap_nor_leave_anything_out(kind: str, zone: str, first: datetime) -> None:
    """Each begins where the previous one ends, and no label, and so no path, appears twice."""
    found = some(kind, zone, first.strftime("%Y-%m-%d" if kind == "day" else "%Y-%m-%dT%H"), 60)
    assert all(before.end == after.start for before, after in pairwise(found))
    assert all(window.start < window.end for window in found)
    assert [window.label for window in found] == sorted({window.label for window in found})


@pytest.mark.parametrize(
    ("zone", "label", "hours"),
    [
        ("America/New_York", "2024-03-10", 23),
        ("America/New_York", "2024-11-03", 25),
        ("America/New_York", "2024-07-01", 24),
        ("Australia/Lord_Howe", "2024-04-07", 24.5),
        ("America/Sao_Paulo", "2018-11-04", 23),
    ],
)
def test_a_day_is_as_long_as_its_clocks_say(zone: str, label: str, hours: float) -> None:
    """Also if midnight itself is skipped."""
    (window,) = some("day", zone, label, 1)
    assert window.end - window.start == hours * HOUR


def test_days_and_hours_that_a_clock_skips_or_repeats() -> None:
    """A skipped day or hour has no path and no window; a repeated hour is one window of two hours; a day is a day of
    its zone."""
    assert [one.label for one in some("day", "Pacific/Apia", "2011-12-29", 2)] == ["2011-12-29", "2011-12-31"]
    hours = some("hour", "Pacific/Apia", "2011-12-29T22", 4)
    assert [one.label[-5:] for one in hours] == ["29T22", "29T23", "31T00", "31T01"]
    assert {one.end - one.start for one in hours} == {HOUR}
    found = some("hour", "America/New_York", "2024-03-10T00", 4)
    assert [window.label[-2:] for window in found] == ["00", "01", "03", "04"]
    assert {window.end - window.start for window in found} == {HOUR}
    found = some("hour", "America/New_York", "2024-11-03T00", 3)
    assert [(window.label[-2:], (window.end - window.start) // HOUR) for window in found] == [
        ("00", 1), ("01", 2), ("02", 1),
    ]  # fmt: skip
    assert format_utc(found[1].start) == "2024-11-03T05:00:00Z"
    (tokyo,) = some("day", "Asia/Tokyo", "2024-01-02", 1)
    (utc,) = some("day", "UTC", "2024-01-02", 1)
    assert (utc.start - tokyo.start, tokyo.end - tokyo.start) == (9 * HOUR, DAY)


def test_a_wrong_window_shows_how_one_is_written() -> None:
    days = [("day", text) for text in ("2024-02-30", "2024-01-01T05", "tomorrow", "0001-01-01")]
    for kind, text in [*days, ("hour", "2024-01-01T24")]:
        with pytest.raises(UsageError) as caught:
            Calendar(kind, "UTC").window(text)
        assert caught.value.hint.startswith("write 2024-01-31"), text


def test_a_template_spells_the_date_as_strftime_does_below_any_folder(tmp_path: Path) -> None:
    """Only digits, and no locale matters; a folder whose name contains the characters of a pattern is an ordinary
    folder."""
    wall = datetime(2024, 1, 5, 7)
    form = "%Y/%y/%m/%d/%j/%H/%M/%S/%%"
    assert PathTemplate(f"a/{{date:{form}}}/*.gz", "hour").at(wall) == f"a/{wall.strftime(form)}/*.gz"
    import glob

    folder = tmp_path / "[a]*?"
    folder.mkdir()
    (folder / "20240105.jsonl").touch()
    pattern = PathTemplate("{date:%Y%m%d}.*", "day").pattern(datetime(2024, 1, 5), folder)
    assert glob.glob(pattern) == [str(folder / "20240105.jsonl")]


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("exports/*.gz", "day", "several days would have the same path"),
        ("{date:%Y/%m}", "day", "several days would have the same path"),
        ("{date:%m/%d}", "day", "several days would have the same path"),
        ("{date:%Y/%d}", "day", "several days would have the same path"),
        ("{date:%Y/%m/%d}", "hour", "several hours would have the same path"),
        ("{date:%Y-%b-%d}", "day", "'%b' is not allowed in a date"),
        ("{date:%Y%m%d%}", "day", "'%' is not allowed in a date"),
        ("{day:%Y%m%d}", "day", "only {date:…} is allowed in braces"),
        ("{date:%Y%m%d", "day", "only {date:…} is allowed in braces"),
        ("ftp://host/{date:%Y%m%d}", "day", "backcast cannot read from"),
    ],
)
def test_a_template_that_would_mix_windows_up_is_refused(text: str, kind: str, says: str) -> None:
    with pytest.raises(UsageError, match=says.replace("(", r"\(")) as caught:
        PathTemplate(text, kind)
    assert caught.value.hint


@given(
    st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1)), st.sampled_from(["%Y%j%H", "%Y/%m/%d/%H", "%y%m%d-%H"])
)
def test_no_two_hours_have_one_path(first: datetime, form: str) -> None:
    """An accepted template never mixes up windows."""
    template = PathTemplate(f"{{date:{form}}}", "hour")
    whole = first.replace(minute=0, second=0, microsecond=0)
    walls = [whole + timedelta(hours=hours) for hours in (0, 1, 24, 24 * 31, 24 * 366)]
    assert len({template.at(wall) for wall in walls}) == len(walls)
