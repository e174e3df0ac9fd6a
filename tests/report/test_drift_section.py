"""The report's section on drift: the most notable properties first, in few bytes, and what is not drawn is counted."""

from __future__ import annotations

import re
from pathlib import Path

from pipeline.plan.statistics.drift import MOST_LISTED, MOST_PERIODS, Drift, LeftOut, Period, PropertySummary
from pipeline.report.contents import build_report
from pipeline.report.machine import plan_object
from pipeline.report.page.html import render
from tests.golden.report.small_plan import plan_directory, small_plan

TYPES = ["text", "number as text", "number", "boolean", "object", "list"]


def summary(number: int, periods: int, name: str = "a property") -> PropertySummary:
    """A property with so many periods of ten years."""
    some = [Period(f"{2010 + at}-01", f"{2010 + at}-12", TYPES, 0.25, 10**6) for at in range(periods)]
    return PropertySummary(
        f"Event {name}",
        f"{name} {number}",
        10**7,
        5,
        6,
        7,
        {"text": 10**6},
        12_345,
        False,
        "2010-01-01",
        "2019-12-31",
        some,
    )


def page_of(folder: Path, drift: Drift | None) -> str:
    """The page of a small plan with this drift."""
    plan = small_plan(**({} if drift is None else {"drift": drift}))
    directory = plan_directory(folder, [("Viewed", "2021-11-01", "mapped", 1)], [])
    return render(build_report(directory, plan, state="ready"))


def test_ten_years_of_the_most_properties_take_few_bytes(tmp_path: Path) -> None:
    """As many as fit, with all their periods; the others are counted, and some of them named."""
    properties = [summary(number, MOST_PERIODS, "n" * 200) for number in range(MOST_LISTED)]
    left_out = LeftOut(7, 12, ["rare of Viewed"])
    page = page_of(tmp_path / "many", Drift(10**7, 12_000, properties, left_out))
    without = page_of(tmp_path / "none", None)
    assert len(page) - len(without) < 45_000
    shown = page.count('rowspan="12"') // 5
    assert shown > 5
    assert f"{12_000 - shown:,} more properties" in page
    assert "7 properties in 12 events, such as <bdi>rare of Viewed</bdi>" in page
    assert "Drift" not in without


def test_a_property_is_shown_with_its_months(tmp_path: Path) -> None:
    """Types and empty values by period; an estimate says so; hostile names are text; a program gets the same, and
    nothing of a plan from before there was drift."""
    one = PropertySummary(
        "<b>Bought", "pri\u202ece", 160, 0, 3, 1, {"decimal": 80}, 40, True, "2023-01-01", "2023-04-28",
        [Period("2023-01", "2023-02", ["number"], 0.0, 80), Period("2023-03", "2023-03", [], 1.0, 80)],
    )  # fmt: skip
    page = page_of(tmp_path, Drift(160, 2, [one, summary(1, 1)], LeftOut()))
    text = re.sub(
        r"\s+", " ", re.sub("<[^>]*>", " ", page.partition("different values</th>")[2].partition("</table>")[0])
    )
    assert "&lt;b&gt;Bought 2023-01 to 2023-02 number 0% 40 2023-01-01 2023-04-28 2023-03 no value 100%" in text
    assert "about 12,345" in text
    assert "\u202e" not in page
    assert "<b>Bought" not in page
    drift = Drift(160, 1, [summary(1, 2)], LeftOut())
    found = plan_object(small_plan(drift=drift), tmp_path)["drift"]
    assert found["properties"][0]["periods"][1]["month"] == "2011-01"  # type: ignore[index]
    assert "drift" not in plan_object(small_plan(), tmp_path)
