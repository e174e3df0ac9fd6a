"""The first screen shows what a person has to see: days that stand out, gaps, open checks, the next step."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import msgspec
import pytest

from pipeline.ledger import RunHistory, SendingRate
from pipeline.models import Finding, SealedOptions
from pipeline.options import PlanOptions
from pipeline.plan.checks import run_checks, verdict_of
from pipeline.plan.checks.rows import REMEDIES
from pipeline.plan.samples.source_pairs import SentProperty, SourceField, SourcePair, SourcePairs
from pipeline.plan.sealed.freshness import check_applicable
from pipeline.plan.sealed.manifest import EventCounts, Example, MappingSeal, PeopleSeal, ProfilesSeal, RowCounts
from pipeline.plan.statistics.coverage import Coverage, EventCoverage, FieldCoverage, Totals
from pipeline.plan.statistics.drift import Drift, DriftFacts, LeftOut, Period, PropertySummary
from pipeline.report.contents import MeasuredRate, Project, Report, Results, build_report, project_of
from pipeline.report.page.check_words import in_one_line
from pipeline.report.page.first_screen import first_screen
from pipeline.report.page.html import render
from pipeline.report.results import ApplyResult, BatchCounts, SentCounts, StatusResult
from pipeline.report.sections.effort import lines_of
from pipeline.report.state import next_step
from pipeline.report.wording import advice_of, zone_proof
from pipeline.timestamps import WITHOUT_OFFSET
from pipeline.verify.findings import CellCounts, FoundCounts, Verification
from tests.golden.report.small_plan import part, plan_directory, small_plan
from tests.support.plan_facts import facts

FIRST = date(2022, 1, 3)
SAMPLED = "Values of properties are examined in a sample of 60 of 90 events, duplicates included"


def report_of(
    path: Path, state: str = "", results: Results | None = None, cells: object = (), **plan: object
) -> Report:
    directory = plan_directory(path / "my plan", cells=cells)
    return build_report(directory, small_plan(**plan), results or Results(), state)


def test_names_that_differ_in_case_or_spaces_are_neighbours(tmp_path: Path) -> None:
    """`Purchase` and `purchase` are neighbours and marked, whatever is between them by count."""
    names = {"Purchase": 30, "Search": 20, "log in": 12, "purchase": 5, "Log_In": 1}
    cells = [(name, "2022-01-01", "mapped", count) for name, count in names.items()]
    shown = first_screen(report_of(tmp_path, cells=cells, names=names)).names.shown
    assert [one.name for one in shown] == ["Purchase", "purchase", "Search", "log in", "Log_In"]
    assert [one.name for one in shown if not one.variant] == ["Search"]


def test_checks_stand_worst_first_and_the_weightiest_are_open(tmp_path: Path) -> None:
    """What stops comes first, with a remedy to paste; two are open, and of twelve the lines after the tenth are
    folded together."""
    gates = [Finding("max_rejects", "stop", "b"), Finding("other", "warning", "a")]
    banner = first_screen(report_of(tmp_path, gates=gates)).banner
    assert [problem.check.level for problem in banner.checks] == ["stop", "warning"]
    assert banner.checks[0].remedy[1] == "backcast rejects 'my plan'"
    ready = first_screen(report_of(tmp_path, state="ready", gates=gates, verdict="warnings")).banner
    assert (banner.title, ready.title) == ("Not ready", "Ready, 2 things to check")
    gates = [Finding(f"check {number}", "warning", f"{number} days: 2024-01-0{number}") for number in range(1, 13)]
    stop = Finding("zone", "stop", "the times are not UTC")
    two, most, twelve = (first_screen(report_of(tmp_path, gates=gates[:count])).banner for count in (2, 11, 12))
    assert [problem.open for problem in two.checks] == [True, True]
    assert (len(most.checks), most.more) == (11, [])
    assert [problem.line for problem in twelve.more] == ["11 days", "12 days"]
    assert {problem.open for problem in twelve.checks} == {False}
    stopped = first_screen(report_of(tmp_path, gates=[stop, *gates])).banner
    assert [problem.open for problem in stopped.checks] == [True, *[False] * 9]


def test_what_the_plan_leaves_open_is_to_check_on_the_first_screen(tmp_path: Path) -> None:
    """A zone that nothing confirms, ambiguous and skipped hours, merges, no target, a sample and other warnings: one
    line each, with the chapter that has more; what was approved by sending is no longer open."""
    known = facts(
        phases={"identities": 2, "events": 10},
        options=SealedOptions(as_of=0, zones=(("America/New_York", ""),), limit=12),
        warnings={"ambiguous_time": 3, "nonexistent_time": 1, "clock_skew": 2},
        drift=DriftFacts(in_sample=" (in a sample of 60 of 90 events; the share is accurate to 5 percentage points)"),
    )
    gates = run_checks(replace(known, thresholds=PlanOptions()))
    report = report_of(tmp_path, "ready", gates=gates, target="")
    banner = first_screen(report).banner
    assert [(problem.line, problem.chapter) for problem in banner.checks] == [
        ("3 times are ambiguous (repeated hour at the end of DST)", "Time zone"),
        ("1 time is nonexistent (skipped hour at the start of DST)", "Time zone"),
        ("No receive times confirm the time zone America/New_York", "Time zone"),
        ("2 merges to approve by number", "Merged identities"),
        ("No target chosen (--for us, eu or a URL)", ""),
        ("Only the first 12 rows are planned (--limit)", "Rows and files"),
        ("1 kind of warnings about events that are sent", "Warnings"),
        ("Values of properties are examined in a sample of 60 of 90 events", "Properties over time"),
    ]
    assert banner.title == "Ready, 8 things to check"
    assert verdict_of(gates[2:], Counter()) == "ready"
    page = render(report)
    number = page.partition(". Time zone <")[0].rpartition(">")[2]
    assert f"→ {number}. Time zone</span></summary>" in page
    assert f'<a href="#chapter-{number}">{number}. Time zone</a>' in page
    applied = StatusResult(digest="d", state="stopped", batches=BatchCounts(), events=SentCounts(12, 2, unsent=10))
    stopped = first_screen(report_of(tmp_path / "b", "stopped", Results(applied=applied), gates=gates)).banner
    assert len(stopped.checks) == 6


@pytest.mark.parametrize(
    ("name", "example", "count", "line"),
    [
        ("empty_days", "2022-03-08 to 2022-03-13 (6 days) (at least 9 events are usual)", 1,
         "No events at all 2022-03-08 to 2022-03-13 (6 days). Is the export complete?"),
        ("spike", "2022-07-20 (1,977 events, 9 times the usual 230), 1,169 of them {Viewed}", 3,
         "Unusually many events on 2022-07-20 (1,977 events, 9 times the usual 230) and 2 more. Expected?"),
        ("near_duplicate", "Viewed at 2022-01-01T10:15:01Z", 2,
         "2 events equal an earlier one of the same person and second but for the uuid. Twice?"),
        ("renamed_event", "{0} until 2022-11-01; then {x}", 1, "{0} until 2022-11-01; then {x}. Is it one event?"),
        ("renamed_event", "W" * 200, 1, "1 day"),
        ("of_a_plugin", "anything", 1, "1 day"),
    ],
)  # fmt: skip
def test_a_check_is_one_line_with_its_first_place(name: str, example: str, count: int, line: str) -> None:
    """It says where, and asks what a person has to answer; a check without special wording says what it found."""
    assert in_one_line(Finding(name, "warning", f"1 day: {example}", count, [example])) == line


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("rejects", "backcast rejects 'my plan'"),
        ("empty_days", "backcast survey /elsewhere"),
        ("max_unmapped", "backcast mapping check mixpanel --against /elsewhere"),
        ("spike", "backcast plan /elsewhere -m mixpanel -o 'my plan-2024-03-15' --timezone America/New_York"
         " --set source=web --for us --joined-users first --since 2024-03-15 --until 2024-03-16"),
        ("duplicates", ""),
    ],
)  # fmt: skip
def test_a_check_has_a_command_to_paste(tmp_path: Path, name: str, command: str) -> None:
    """It has the plan, the export, the mapping and the day of the check."""
    gates = [Finding(name, "warning", "1 day with more events than usual: 2024-03-15 (8,161 events), 2024-03-17")]
    (problem,) = first_screen(report_of(tmp_path, gates=gates)).banner.checks
    assert problem.command == command


@pytest.mark.parametrize(
    ("state", "command"),
    [
        ("not-ready", "backcast rehearse 'my plan'"),
        ("ready", "backcast rehearse 'my plan'"),
        ("rehearsed", "backcast apply 'my plan' --to eu --approve-merges 2"),
        ("sending", "backcast status 'my plan'"),
        ("stopped", "backcast apply 'my plan' --to https://eu.example"),
        ("sent", "backcast verify 'my plan' --to https://eu.example --project ID"),
        ("sent-with-refusals", "backcast rejects 'my plan' --code refused_event"),
        ("differs", "backcast verify 'my plan' --to https://eu.example --project ID"),
        ("verified", "backcast receipt write 'my plan'"),
    ],
)
def test_every_state_has_a_next_step(tmp_path: Path, state: str, command: str) -> None:
    """The command has the plan, the target that it was applied to, and the number of merges to approve that are not
    settled."""
    applied = StatusResult(
        digest="d", state=state, batches=BatchCounts(), events=SentCounts(1, 1),
        phases={"identities": SentCounts(2, 2)}, course=RunHistory("https://eu.example", 1, "2024-05-01T10:00:00Z", ""),
    )  # fmt: skip
    results = Results(applied=None if state in ("not-ready", "ready", "rehearsed") else applied)
    verdict = "not-ready" if state == "not-ready" else "ready"
    report = report_of(tmp_path, state, results, verdict=verdict, target="eu")
    assert next_step(report).command == command


def test_moods_and_folds_follow_the_state(tmp_path: Path) -> None:
    """Refused events are never green, nor is what was sent before it is verified; after sending the checks are
    folded."""
    found = Verification(cells=CellCounts(match=4), events=FoundCounts(expected=12, found=12), proved=True)
    for refused in (0, 1):
        run = ApplyResult(
            digest="", dry_run=False, balanced=True, seconds=1, batches=BatchCounts(made=3, sent=3),
            events=SentCounts(made=12 + refused, accepted=12, refused=refused),
        )  # fmt: skip
        plan = {"verdict": "ready", "gates": [], "rejects": {}, "rows": RowCounts(10, 10, 0, 0)}
        screen = first_screen(report_of(tmp_path, "ready", Results(rehearsal=run, rehearsed=found), **plan))
        tile = screen.tiles[-1][1][0]
        assert (tile.value, tile.mood, screen.banner.mood) == (
            ("12", "care", "care") if refused else ("✓ 12", "good", "good")
        )
        assert ("refused 1 event" in screen.banner.sentence, "1 refused" in tile.note) == (bool(refused),) * 2
    gates = [Finding("spike", "warning", "a")]
    banners = {
        state: first_screen(report_of(tmp_path, state, verdict="warnings", gates=gates)).banner
        for state in ("rehearsed", "stopped", "sent", "verified", "differs")
    }
    assert [state for state, banner in banners.items() if banner.checks] == ["rehearsed", "stopped"]
    assert {len(banner.checks) + len(banner.more) for banner in banners.values()} == {1}
    assert banners["sent"].mood == "plain"


def test_the_next_step_names_what_is_to_check(tmp_path: Path) -> None:
    """Before the rehearsal they are to be read, before sending to be decided; without any, nothing is said of them."""
    gates = [Finding("spike", "warning", "a"), Finding("level", "warning", "b")]
    found = [
        next_step(report_of(tmp_path, state, verdict="ready", gates=some)).sentence
        for state in ("ready", "rehearsed")
        for some in (gates, [])
    ]
    assert found[0].startswith("Read 2 things to check, then rehearse the whole import")
    assert found[2].startswith("Look at 2 things to check, then send")
    assert ["check" in sentence for sentence in found] == [True, False, True, False]


@pytest.mark.parametrize(
    ("target", "dialect", "command"),
    [
        ("", "contract", "backcast apply 'my plan' --to URL --approve-merges 2"),
        ("", "posthog", "backcast apply 'my plan' --to us --approve-merges 2"),
        ("https://own.example", "contract", "backcast apply 'my plan' --to https://own.example --approve-merges 2"),
        ("http://127.0.0.1:8100", "contract", "backcast apply 'my plan' --to http://127.0.0.1:8100"),
    ],
)
def test_the_next_step_names_no_target_that_refuses_the_plan(
    tmp_path: Path, target: str, dialect: str, command: str
) -> None:
    """A plan without a target has a dialect that the service's own regions refuse; this machine asks for no
    approval."""
    report = report_of(tmp_path, "rehearsed", verdict="ready", target=target)
    plan = msgspec.structs.replace(report.plan, options=replace(report.plan.options, dialect=dialect))
    step = next_step(msgspec.structs.replace(report, plan=plan))
    assert step.command == command
    assert ("plan again with --for us or --for eu" in step.sentence) == (" --to URL " in command)
    check_applicable(plan, shlex.split(step.command)[4].replace("URL", "https://own.example"))


MAPPING = "format: backcast.mapping/1\ntool: {}\ntitle: {}\n"


@pytest.mark.parametrize(
    ("mapping", "tool", "title", "files", "words"),
    [
        ("mixpanel", "mixpanel", "Mixpanel raw event export (JSON lines)", "a.csv", "Mixpanel"),
        ("ga4", "ga4", "Google Analytics 4 and Firebase, tables events_…", "a.csv", "Google Analytics 4"),
        ("matomo-database", "matomo", "Matomo's database, its tables", "a.csv", "Matomo (matomo-database)"),
        ("braze", "braze", "Braze Currents (Avro files of S3)", "a.csv", "Braze Currents"),
        ("shop", "shop", "our own table (CSV)", "a.csv", "Our own table"),
        ("till", "till", '"Shop # 2, orders" # both tables', "a.csv", "Shop # 2"),
        ("shop", "shop", "", "a.csv", "shop"),
        ("generic", "generic", "Any table of events", "a.csv", "a.csv"),
        ("generic", "generic", "Any table of events", "a.csv b.csv", "your own tables (2 files)"),
    ],
)
def test_the_title_has_the_name_of_the_tool(
    tmp_path: Path, mapping: str, tool: str, title: str, files: str, words: str
) -> None:
    """As its makers spell it, if the title of the mapping has it; otherwise that title, the name of the mapping, or the
    file of a table of one's own."""
    sealed = MappingSeal(mapping, "d" * 64, MAPPING.format(tool, title))
    parts = [part(file, (1, 1, 0, 0)) for file in files.split()]
    assert first_screen(report_of(tmp_path, tool=tool, mapping=sealed, parts=parts)).title == words


def test_banner_and_tiles_name_what_cannot_be_undone(tmp_path: Path) -> None:
    """Merges only if there are some, persons that are created in any case; events cannot be deleted."""
    counts = EventCounts(3, {"identities": 0, "groups": 0, "events": 3, "persons": 0})
    for state in ("ready", "rehearsed"):
        with_merges, without = (
            first_screen(report_of(tmp_path, state, verdict="ready", **more)).banner.sentence
            for more in ({}, {"events": counts})
        )
        assert "merged identities cannot be separated" in with_merges
        assert "merged" not in without
        assert "events cannot be deleted" in without
    people = PeopleSeal(profiles=ProfilesSeal(people=12, anonymous_ids=9))
    report = report_of(tmp_path, people=people, events=EventCounts(5, {"events": 5}))
    tiles = {tile.unit: tile for _, some in first_screen(report).tiles for tile in some}
    assert (tiles["events"].value, tiles["events"].note) == ("5", "12 persons created")
    assert tiles["merged identities"].note == ""


@pytest.mark.parametrize(
    ("target", "applied", "project", "words"),
    [
        ("", "", None, "no target chosen"),
        ("eu", "", None, "PostHog (EU)"),
        ("", "", project_of("Shop", "eu"), "PostHog (EU, project Shop)"),
        ("eu", "", project_of("Shop", "eu"), "PostHog (EU, project Shop)"),
        ("eu", "", project_of("Shop", "us"), "PostHog (EU)"),
        ("eu", "https://own.example", project_of("Shop", "https://own.example/"), "https://own.example (project Shop)"),
    ],
)
def test_the_title_names_the_project_of_the_target(
    tmp_path: Path, target: str, applied: str, project: Project | None, words: str
) -> None:
    """The one that a personal key found there; for another target it says nothing."""
    status = StatusResult(
        digest="d", state="sent", batches=BatchCounts(), events=SentCounts(1, 1),
        course=RunHistory(applied, 1, "2024-05-01T10:00:00Z", ""),
    )  # fmt: skip
    results = Results(applied=status if applied else None, project=project)
    found = first_screen(report_of(tmp_path, "ready", results, target=target)).target
    assert (found.text, found.mood) == (words, "" if target or project else "care")


def test_the_header_does_not_contradict_rows_without_an_offset(tmp_path: Path) -> None:
    """A plan without --timezone whose rows need one says so next to its zone."""
    detail = f"8 of 9 rows rejected. 8 of them can be sent: {REMEDIES[WITHOUT_OFFSET]}"
    plan = report_of(tmp_path, gates=[Finding("rejects", "warning", detail)]).plan
    plan = msgspec.structs.replace(plan, zone_evidence=[], options=replace(plan.options, zones=()))
    assert zone_proof(plan) == "where they have an offset; the others need --timezone"
    assert advice_of(plan.gates[0]).startswith("plan again with --timezone")


def test_the_duration_is_of_what_was_measured(tmp_path: Path) -> None:
    """The importer's rate, that of the rehearsal, of another plan's sending to the target, of this plan's sending."""
    report = report_of(tmp_path, target="eu", events=EventCounts(9_000, {"events": 9_000}))
    rehearsal = ApplyResult(
        digest="d", dry_run=False, balanced=True, seconds=3.0, batches=BatchCounts(2), events=SentCounts(9_000, 9_000)
    )
    half = StatusResult(
        digest="d", state="stopped", batches=BatchCounts(), events=SentCounts(4_500, 4_500, unsent=4_500)
    )
    assert dict(lines_of(report))["duration"] == "9 s at 1,000 events a second"
    rehearsed = msgspec.structs.replace(report, results=Results(rehearsal))
    assert dict(lines_of(rehearsed))["duration"] == ("9 s at 1,000 events a second; the rehearsal took 3 s")
    earlier = msgspec.structs.replace(rehearsed, earlier=MeasuredRate(100.0, "sent", "last month", 4))
    found = dict(lines_of(earlier))
    assert (found["duration"], found["limit"]) == (
        "2 min at 100 events a second", "the target: when last month was sent, 4 requests failed at first"
    )  # fmt: skip
    sent = msgspec.structs.replace(
        earlier, results=Results(rehearsal, applied=half), rate=SendingRate({100: 100, 109: 100, 5_000: 100}, {})
    )
    assert dict(lines_of(sent))["duration"] == "3 min for the rest at 27 events a second"
    hot = {"hot_distinct_id": Example("a", 1, 0, "8 of 9 events are of one id: at least 1,200 minutes")}
    slow = dict(lines_of(msgspec.structs.replace(earlier, plan=msgspec.structs.replace(report.plan, examples=hot))))
    assert (slow["duration"], "--per-id" in slow["limit"]) == ("at least 20.0 h, for the events of one id", True)


def test_the_report_of_ten_million_rows_is_small(tmp_path: Path) -> None:
    """3,650 files of a day each, 12,000 names of 200 characters, 40 checks, most fields, drift and pairs."""
    names = {f"{number:05d} {'name ' * 38}"[:200]: 20_000 - number for number in range(12_000)}
    days = [(date(2014, 1, 1) + timedelta(day)).isoformat() for day in range(3_650)]
    cells = [(name, days[(at * 37 + step * 29) % 3_650], "mapped", 123_456)
             for at, name in enumerate(list(names)[:150]) for step in range(120)]  # fmt: skip
    wide = "a.path.of.a.field.that.is.rather.long" * 3
    fields = [FieldCoverage(f"{wide}.{at}", 9, 0.9, 3, 3, 3, [wide], {"rule": 3}, True, [wide]) for at in range(1_000)]
    events = [EventCoverage(name, 9, name, 9, 0, {}, True) for name in list(names)[:1_000]]
    totals = Totals(5_000, 1_000, 900), Totals(12_000, 1_000, 0)
    coverage = Coverage("rows", 10_000_000, fields, totals[0], events, totals[1], [], [], {})
    periods = [Period(f"20{at:02d}-01", f"20{at:02d}-12", ["number as text", "text"], 0.5, 9) for at in range(14, 26)]
    changing = [PropertySummary(name, wide, 9, 1, 2, 0, {"text": 6}, 900_000, False, days[0], days[-1], periods)
                for name in list(names)[:300]]  # fmt: skip
    row = [SourceField(f"{wide}.{at}", "v" * 120, [wide] * 3) for at in range(60)]
    event = [SentProperty(f"{wide}.{at}", "v" * 120, [wide], "properties.rename", at) for at in range(60)]
    pairs = [SourcePair(name, 2014, f"{wide}.jsonl", 1, name, row, 9, event[:4], event, 9) for name in list(names)[:32]]
    report = report_of(
        tmp_path, cells=cells, names=names, coverage=coverage,
        drift=Drift(10_000_000, 90_000, changing, LeftOut(9, 9, [wide])),
        source_pairs=SourcePairs(9_000, True, True, 32),
        parts=[part(f"events-{day}.jsonl", (2_740, 2_740, 0, 0)) for day in days],
        rejects={f"reject_{at}": 9 for at in range(60)},
        gates=[Finding(f"check_{at}", "warning", "what it found, in a sentence. " * 20) for at in range(40)],
    )  # fmt: skip
    page = render(msgspec.structs.replace(report, source_pairs=pairs))
    assert ". Properties over time " in page
    assert ". Rows and their events " in page
    assert 300_000 < len(page.encode()) < 400_000
