"""Sections of reports are found by themselves."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from pipeline.plan.sealed.manifest import Plan
from pipeline.report.contents import Report
from pipeline.report.registry import PAGE, TERMINAL, Values, on_page, on_terminal
from tests.golden.report.small_plan import (
    small_plan,
)
from tests.support.rendered import Page, page_of, plan_text


def test_a_new_section_is_one_function(tmp_path: Path) -> None:
    """A function of its own is shown on the terminal and on the page, at its place between the others."""

    @on_terminal(15)
    def show_owner(console: Console, plan: Plan, directory: str) -> None:
        console.print(f"Owner: {plan.target}")

    @on_page(15, "sentences")
    def owner(report: Report) -> Values:
        return {"title": "Owner", "sentences": [report.plan.target]}

    try:
        page = Page(page_of(tmp_path / "plan", small_plan())).text
        shown = plan_text(small_plan())
    finally:
        TERMINAL[:] = [one for one in TERMINAL if show_owner not in one]
        PAGE[:] = [one for one in PAGE if owner not in one]
    titles = ("What it takes", "Owner What will be sent", "Owner us", "What will be sent phase")
    assert [page.index(title) for title in titles] == sorted(page.index(title) for title in titles)
    assert shown.index("STOP") < shown.index("Owner: us") < shown.index("merged identities")
