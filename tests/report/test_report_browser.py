"""The report in a real browser: an axe check, hostile names in every place, keyboard, widths and paper."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from pipeline.api import survey_export
from pipeline.identity.summary import Cluster, DecisionCount, MergeSummary, Partners
from pipeline.ledger import FailureCount, RunHistory, SendingRate
from pipeline.models import Finding, Reject
from pipeline.options import SurveyOptions
from pipeline.plan.diff import result as diff
from pipeline.plan.samples.source_pairs import SentProperty, SourceField, SourcePair, SourcePairs
from pipeline.plan.sealed.manifest import (
    Example,
    GroupsSeal,
    GroupTypeSeal,
    MappingSeal,
    PeopleSeal,
    PersonsSeal,
    ProfilesSeal,
)
from pipeline.plan.sealed.phases import PHASES
from pipeline.plan.statistics.coverage import Coverage, EventCoverage, FieldCoverage, Totals
from pipeline.plan.statistics.drift import Drift, LeftOut, Period, PropertySummary
from pipeline.plan.statistics.hours import HoursSeal
from pipeline.report.contents import FileCopies, MeasuredRate, Project, Report, Results, build_report
from pipeline.report.diff_view import render_diff
from pipeline.report.page.html import render
from pipeline.report.pairs import PairRow
from pipeline.report.rejects import RefusalCause
from pipeline.report.results import ApplyResult, BatchCounts, SentCounts, StatusResult
from pipeline.report.survey_view import write_survey
from pipeline.verify.findings import CellCounts, Difference, ExtraEvents, FoundCounts, Verification
from tests.golden.report.small_plan import part, plan_directory, small_plan
from tests.support.browser import Tab
from tests.support.pages import HOSTILE, TAGS, opened, too_wide, violations, without_direction

PICTURES = os.environ.get("BACKCAST_TEST_PICTURES")
"""A folder for pictures of the pages, for anyone who wants to look at them."""

COUNTS = SentCounts(made=12, accepted=9, refused=2, in_doubt=1)


def full_report(folder: Path, name: str) -> Report:
    """A report with every chapter, and `name` in every place that a string of an export can reach."""
    cells = [(f"{name} {number}", f"2021-11-{number + 1:02}", "mapped", number + 1) for number in range(20)]
    rejects = [Reject(name, 3, 9, "read", "bad_json", name, name), Reject(name, 4, 9, "map", name, name, name)]
    directory = plan_directory(folder, cells, rejects)
    people = PeopleSeal(
        MergeSummary(2, 3, 1, [DecisionCount("merge", "stated", 2), DecisionCount("refused", name, 1)],
                     [Cluster(name, 3, [name, name])], [Partners(name, 2, 5)], [Partners(name, 2, 5)]),
        GroupsSeal(1, 1, [GroupTypeSeal(name, 3, True), GroupTypeSeal(name, 1, False)], {name: 1}),
        PersonsSeal("final", "fill-only", 2, 2, {name: 2}, {name: 1}),
        ProfilesSeal(3, 1, 9, 1, 10, {name: 4}),
    )  # fmt: skip
    fates = Totals(3, 1, 1)
    coverage = Coverage(
        rows=10, unit="rows", fields_total=fates, events_total=fates, skipped_items={name: 2},
        fields=[FieldCoverage(name, 9, 0.9, 3, 3, 3, [name, name], {name: 3}, True, [name])],
        events=[EventCoverage(name, 9, name + "!", 8, 0, {name: 1}, True)], never_met=[name], never_met_events=[name],
    )  # fmt: skip
    periods = [Period(name, name, [name], 0.5, 9)]
    changing = PropertySummary(name, name, 9, 1, 1, 1, {name: 6}, 3, True, name, name, periods)
    plan = small_plan(
        tool=name,
        target=name,
        zone=name,
        parts=[part("export-2021-11-01.jsonl", (12, 9, 2, 1)), part(f"b{name}-2021-11-03", (2, 1, 0, 1))],
        skips={name: 2, "duplicate_event": 1},
        rejects={"bad_json": 1, name: 1},
        warnings={name: 1},
        examples={name: Example(name, 5, 512, name)},
        gates=[Finding(name, "stop", f"{name}: {name}"), Finding("spike", "warning", f"{name}: {name}", 2, [name])],
        names={event: count for event, _, _, count in cells},
        mapping=MappingSeal(name, "d" * 64, f"tool: {json.dumps(name, ensure_ascii=False)}"),
        notices=[(name, name, name)],
        people=people,
        coverage=coverage,
        hours=HoursSeal([200 + hour for hour in range(24)], [100 + hour for hour in range(24)], [9] * 7, name),
        source_pairs=SourcePairs(1, False, False, 1),
        drift=Drift(9, 3, [changing], LeftOut(2, 3, [name])),
    )
    applied = StatusResult(
        digest="d", state="sent-with-refusals", batches=BatchCounts(3, 3, 1, 1), events=COUNTS,
        phases={"events": COUNTS}, course=RunHistory(name, 2, "2024-05-01T10:00:00.000Z", None),
        failures=[FailureCount(None, 3, "2024-05-01T10:00:00.000Z", name)],
    )  # fmt: skip
    found = Verification(
        cells=CellCounts(4, 1, 1, 1, 1), events=FoundCounts(12, 9, 3, 1, 1, 1, 1, 1), proved=False,
        differences=[Difference("different", "u", 1, [(name, name, name)])], to=name, at="2024-05-01T10:00:00Z",
        extras=[ExtraEvents(name, "2021-11-01", 3)],
    )  # fmt: skip
    rehearsal = ApplyResult(
        digest="d", dry_run=False, balanced=True, seconds=2.0, batches=BatchCounts(3, 3, 1, 1), events=COUNTS
    )
    report = build_report(directory, plan, Results(rehearsal, found, verification=found), "differs")
    fields = [SourceField(name, name, [name], name)]
    sent = [[SentProperty(field, name, [name], name, at)] for field, at in (("event", 3), (name, 0))]
    return msgspec.structs.replace(
        report,
        name=name,
        results=Results(rehearsal, found, applied, found, Project(name, name)),
        pairs=[PairRow("merge", name, name, name, 2, name, "2021-11-01T10:00:00Z", None)],
        copies=[FileCopies(name, {"duplicate_event": 1})],
        refusals=[RefusalCause(name, 2, name), RefusalCause(name, 1)],
        earlier=MeasuredRate(9.0, "sent", name),
        source_pairs=[SourcePair(name, 2021, name, 3, name, fields, 2, *sent, 2)],
        rate=SendingRate({1_700_000_000: 5, 1_700_000_003: 4}, {1_700_000_003: 3}),
    )


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page for each kind of name, and one with a plain name."""
    folder = tmp_path_factory.mktemp("pages")
    return written(folder, lambda name: render(full_report(folder / uuid4().hex, name)))


def written(folder: Path, page_of: Callable[[str], str]) -> dict[str, Path]:
    """The files of such a page with a plain name, and with each kind of hostile name."""
    found = {}
    for number, (kind, name) in enumerate({"plain": "Signed Up", **HOSTILE}.items()):
        found[kind] = folder / f"{number}.html"
        found[kind].write_text(page_of(name), encoding="utf-8")
    return found


def full_diff(name: str) -> diff.Diff:
    """Two plans with differences of every kind, and `name` in every place that a string of an export can reach."""
    side = diff.Side(name, "d" * 64, name, name, name, "2021-11-01", "2021-11-30", {"read": 9}, {"events": 9})
    return diff.Diff(
        equal=False, compared=True, a=side, b=side,
        settings=[diff.Setting(name, name, name)], skips=[diff.CodeChange(name, 1, 2)],
        rejects=[diff.CodeChange("bad_json", 1, 2)],
        phases={name: diff.PhaseChange(9, 9, 1, 6, 2, 2) for name in PHASES}, changed={"timestamp": 6},
        properties=[diff.PropertyChange("events", name, 1, 1, 1, [(name, name)])],
        names=[diff.NameChange(name, 6, 2, 2)], days=[diff.DayChange("2021-11-02", 6, 2, 2, 9, 9)],
        renamed=[diff.Renamed(name, name, 3)], shifts=[diff.Shift(3_600.0, 3)],
        persons=diff.Persons(2, [diff.PersonChange(name, 6)]),
        examples=[diff.EventExample("changed", "u", (name, "2021-11-02T00:00:00Z"), (name, "2021-11-02T01:00:00Z"))],
        consequences=diff.Consequences(1, 1, 1, 1, 1, 1), totals={"names": 3, "properties": 3, "examples": 3},
    )  # fmt: skip


@pytest.fixture(scope="module")
def diff_pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of two plans for each kind of name, and one with a plain name."""
    return written(tmp_path_factory.mktemp("diffs"), lambda name: render_diff(full_diff(name)))


@pytest.fixture(scope="module")
def survey_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a survey of an export with hostile event names."""
    folder = tmp_path_factory.mktemp("survey")
    rows = [
        {"event": name, "distinct_id": f"u{day}", "timestamp": f"2021-11-{day:02}T{day % 24:02}:00:00Z"}
        for name in HOSTILE.values() for day in range(1, 29) if day not in (11, 12)
    ]  # fmt: skip
    export = folder / "export.jsonl"
    export.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    page = folder / "survey.html"
    write_survey(page, survey_export(export), [str(export)], SurveyOptions())
    return page


LOOKS = pytest.mark.parametrize(("scheme", "width"), [("light", 320), ("dark", 1280)])


@LOOKS
def test_axe_finds_nothing(pages: dict[str, Path], tab: Tab, scheme: str, width: int) -> None:
    """The accessibility rules of axe, with all chapters open."""
    tab.colours(scheme)
    tab.width(width)
    assert violations(opened(tab, pages["plain"])) == []


@LOOKS
def test_a_survey_has_the_same_pictures(survey_page: Path, tab: Tab, width: int, scheme: str) -> None:
    """Rows per day with the empty days, names, hours of day; nothing runs or is too wide, and axe finds nothing."""
    tab.width(width)
    tab.colours(scheme)
    opened(tab, survey_page)
    assert tab.run("document.title").startswith("backcast survey: ")
    assert "no rows from 2021-11-11 to 2021-11-12 (2 days)" in tab.run("document.body.innerText")
    for kind in HOSTILE:
        count, others = without_direction(tab, kind)
        assert (others, count > 0) == ([], True)
    assert tab.run("document.querySelectorAll('svg:is(.timeline, .hours)').length") == 2
    assert (too_wide(tab), violations(tab)) == ([], [])


@LOOKS
def test_two_plans_compared_are_a_page_for_everybody(
    diff_pages: dict[str, Path], tab: Tab, width: int, scheme: str
) -> None:
    """With every section: axe finds nothing, nothing is too wide, and hostile names add no element."""
    tab.width(width)
    tab.colours(scheme)
    plain = opened(tab, diff_pages["plain"]).run(TAGS)
    assert (too_wide(tab), violations(tab)) == ([], [])
    for kind in HOSTILE:
        opened(tab, diff_pages[kind])
        assert (tab.run("document.title"), tab.run(TAGS)) == ("backcast diff", plain)
        count, others = without_direction(tab, kind)
        assert (others, count > 15, too_wide(tab)) == ([], True, [])


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_names_stay_text_in_every_place(pages: dict[str, Path], tab: Tab, kind: str) -> None:
    """They add no element and run nothing; each is in an element of its own direction; emoji stay whole. No page is
    wider than the window, on a telephone too, with every fold open; wide tables scroll inside of themselves."""
    plain = opened(tab, pages["plain"]).run(TAGS)
    opened(tab, pages[kind])
    assert tab.run(TAGS) == plain
    assert tab.run("document.title").startswith("backcast plan ")
    count, others = without_direction(tab, kind)
    assert (others, count > 60) == ([], True)
    for width in (320, 390, 900, 1600):
        tab.width(width)
        assert too_wide(tab) == [], width
        if PICTURES:
            tab.picture(Path(PICTURES) / f"report-{kind}-{width}.png")


def test_the_keyboard_reads_the_days_and_the_hours(pages: dict[str, Path], tab: Tab) -> None:
    """Tab reaches the picture, arrow keys move from day to day, and the count of the day is shown; the same works for
    hours, on each of the two clocks."""
    tab.open(pages["plain"].as_uri())
    shown = "getComputedStyle(document.activeElement, '::after').content"
    tab.tab_to("focus.name === 'timeline-2021q4'")
    assert tab.run(shown) == '"2021-11-01: 1"'
    tab.press("ArrowRight")
    tab.press("ArrowRight")
    assert tab.run(shown) == '"2021-11-03: 3"'
    assert tab.run("document.activeElement.getBoundingClientRect().width") > 10
    for clock, count in (("hours-1", 103), ("hours-2", 203)):
        tab.tab_to(f"focus.name === '{clock}'")
        for _ in range(3):
            tab.press("ArrowRight")
        assert tab.run(shown) == f'"03:00: {count}"'


def test_paper_has_all_folds_open(pages: dict[str, Path], tab: Tab) -> None:
    """Printed without a click, every chapter is there; a picture has no table behind it, and commands to paste and
    links are left out."""
    tab.width(1280)
    tab.open(pages["plain"].as_uri())
    assert tab.run("document.querySelectorAll('.chapter[open]').length") == 0
    tab.ask("Emulation.setEmulatedMedia", media="print")
    hidden = (
        "[...document.querySelectorAll('details:not(figure *, figure + *) > :not(summary, .banner pre, .screen)')]"
        ".filter(one => !one.getBoundingClientRect().height).map(one => one.outerHTML.slice(0, 200))"
    )
    assert tab.run(hidden) == []
    paper = base64.b64decode(tab.ask("Page.printToPDF", printBackground=True)["data"])
    assert paper.count(b"/Type /Page\n") > 3
