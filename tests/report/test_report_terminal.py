"""Reports, surveys and answers of the management API on a terminal: what matters first, and markup as text."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from pipeline.config import Secret
from pipeline.ledger import LedgerSummary
from pipeline.local_service.settings import preset
from pipeline.management import ManagementClient
from pipeline.models import Finding, Reject
from pipeline.options import SurveyOptions
from pipeline.plan.sealed.manifest import EventCounts, Example, RowCounts
from pipeline.report.rejects import RefusedEvent
from pipeline.report.results import BatchCounts, SentCounts, StatusResult
from pipeline.report.state import PlanStatus, State
from pipeline.report.survey_view import histogram, show_survey
from pipeline.report.terminal import steps
from pipeline.report.terminal.plan_views import show_each, show_groups
from pipeline.report.terminal.resources import show_answer
from pipeline.survey import BrokenSurvey, FieldSurvey, PartSurvey, Survey, ZoneSurvey
from pipeline.verify.findings import CellCounts, Difference, FoundCounts, Verification
from tests.golden.report.small_plan import REHEARSAL, VERIFICATION, small_plan
from tests.support.deliveries import uuid
from tests.support.management_service import ALL, asking
from tests.support.rendered import HOSTILE, hostile_plan, plan_text, printed


def test_a_plan_has_its_state_first_its_findings_and_the_next_command_last() -> None:
    """Checks with their level and what to do, those that stop the plan first; warnings with a count and a place; a
    command to paste."""
    plan = small_plan()
    lines = plan_text(plan).splitlines()
    assert lines[:2] == ["State: not ready", plan.sentence]
    assert lines[-3:] == [
        "Report: plan/report.html",
        "Next: Fix the failed checks and plan again. Until then it can only be rehearsed:",
        "  backcast rehearse plan",
    ]
    gates = [Finding("keyless", "warning", "no key"), *small_plan().gates]
    shown = plan_text(small_plan(gates=gates), width=200)
    assert "STOP max_rejects: 2 of 14 rows (14.29%) rejected (limit 0)\n  What to do: list them" in shown
    assert shown.index("STOP max_rejects") < shown.index("Rejected") < shown.index("WARNING keyless")
    line = next(one for one in plan_text(small_plan(), width=220).splitlines() if "unsafe_" in one)
    meaning = "an integer beyond 2^53; readers that use doubles round it, unless it is sent as text"
    place = "(a.jsonl, row 5: 9007199254740993 is beyond 2^53)"
    assert re.split(r"\s{2,}", line.strip()) == ["3", "unsafe_integer", f"{meaning} {place}"]


@pytest.mark.parametrize("width", [40, 80, 160])
def test_a_plan_has_at_most_forty_lines(width: int) -> None:
    """However much was found: the least important is only in the report, the command is whole."""
    gates = [Finding(f"check_{number}", "warning", "word " * 80) for number in range(50)]
    codes = {f"code_{number}": 1 for number in range(50)}
    shown = plan_text(small_plan(gates=gates, warnings=codes, skips=codes, verdict="warnings"), width=width)
    rows = sum(-(-len(line) // width) for line in shown.splitlines())
    assert rows <= steps.MOST_LINES
    assert shown.endswith("\n  backcast rehearse plan\n")
    assert "more lines: see the report" in shown


def test_skipped_rows_are_counted_by_code_where_their_table_has_no_room() -> None:
    """The heading of the table never appears without rows: if the table does not fit, its codes come in one line."""
    skips, found = {"superseded": 3, "outside_window": 2}, []
    for width in range(40, 90):
        gates = [Finding(f"check_{number}", "warning", "word " * 40) for number in range(4)]
        shown = plan_text(small_plan(gates=gates, skips=skips), width=width)
        found.append("Skipped: 3 superseded, 2 outside_window\n" in shown)
        assert ("Skipped  " in shown) == ("  superseded" in shown)
    assert True in found


@pytest.mark.parametrize("width", [30, 60, 200])
def test_markup_and_escapes_in_an_export_stay_text(width: int) -> None:
    shown = plan_text(hostile_plan(), width=width)
    assert ("\x1b" in shown, "\u202e" in shown) == (False, False)
    assert "[red]" in re.sub(r"\s", "", shown)


def test_results_say_what_is_missing_in_doubt_or_not_finished() -> None:
    """Missing events are counted and listed, a proof is one sentence; for events in doubt it says what happens next."""
    difference = Difference("missing", "the-uuid", 1, [(HOSTILE, "u1", "2021-01-01T00:00:00Z")])
    result = Verification(
        cells=CellCounts(match=3, missing=1), events=FoundCounts(9, 7, 2, 0), proved=False, differences=[difference]
    )
    shown = printed(steps.show_verification, result, "plan")
    assert ("the-uuid" in shown, "\x1b" in shown) == (True, False)
    assert shown.splitlines()[:2] == ["Not proved: 2 events are missing.", "7 of 9 events found."]
    assert ["missing", "1", "2"] in [line.split() for line in shown.splitlines()]
    assert "Proved: every event" in printed(steps.show_verification, VERIFICATION, "plan")
    events = SentCounts(made=6, accepted=4, in_doubt=2, unsent=3)
    result = StatusResult(digest="d", state="stopped", batches=BatchCounts(3, 2, 0, 0), events=events)
    plan = small_plan()
    status = PlanStatus(State.STOPPED, plan.events.made, LedgerSummary())
    lines = printed(steps.show_status, plan, status, result, "plan").splitlines()
    assert lines[0] == "State: stopped (resumable)"
    assert "2 events are in doubt: apply sends them again with the same uuids." in lines
    assert lines[-1] == "  backcast apply plan --to us --approve-merges 2"
    events = SentCounts(made=11, accepted=10, in_doubt=1, unsent=1)
    shown = printed(steps.show_apply, msgspec.structs.replace(REHEARSAL, balanced=False, events=events))
    assert "10 sent, 0 refused, 1 in doubt, 1 not sent." in shown
    assert "Not finished: 1 event in doubt, 1 not sent." in shown
    assert "Not finished" not in printed(steps.show_apply, REHEARSAL)


STATES = [
    (State.VERIFIED, {}, "green"), (State.READY, {}, "green"), (State.SENT, {}, ""),
    (State.SENT_WITH_REFUSALS, {}, "yellow"), (State.STOPPED, {}, "yellow"), (State.DIFFERS, {}, "red"),
    (State.NOT_READY, {}, "red"), (State.VERIFIED, {"rejects": {"bad_json": 1}}, "yellow"),
    (State.REHEARSED, {"gates": [Finding("spike", "warning", "a day")]}, "yellow"),
]  # fmt: skip


@pytest.mark.parametrize(("state", "found", "color"), STATES)
def test_green_means_that_nothing_is_lost_refused_or_open(state: State, found: dict[str, Any], color: str) -> None:
    """A state of success is green only for a plan without rejected rows and findings; `sent` is not verified yet."""
    clean: dict[str, Any] = {
        "rejects": {}, "gates": [], "rows": RowCounts(10, 10, 0, 0), "verdict": "ready", "warnings": {},
        "events": EventCounts(12, {"events": 12}),
    }  # fmt: skip
    plan = small_plan(**(clean | found))
    line = steps.state_line(plan, PlanStatus(state, 12, LedgerSummary()))
    assert str(line.style).split()[1:] == ([color] if color else [])


def test_rejects_are_grouped_by_code_and_what_is_cut_is_counted() -> None:
    """Each code has its count, its meaning and one row with its place; refused events are grouped by cause; --all cuts
    nothing."""
    rejects = [Reject("a.jsonl", row, row * 10, "read", "bad_json", "why", "{oops") for row in range(1, 8)]
    refused = [
        RefusedEvent("b.jsonl", row, 5, "send", "refused_event", f"400 bad event {row}", "{}", uuid=uuid(row))
        for row in range(1, 4)
    ]
    other = RefusedEvent("b.jsonl", 9, 5, "send", "refused_event", "413 too large", "{}", uuid=uuid(9))
    lines = printed(show_groups, [*refused, other, *rejects], "backcast rejects plan", width=120).splitlines()
    assert lines == [
        "7 rejected rows, bad_json: the row is not JSON",
        "  for example a.jsonl, row 1, byte 10: why",
        "  {oops",
        "3 refused events, refused_event",
        "  for example b.jsonl, row 1, byte 5: 400 bad event 1",
        "  {}",
        "1 refused event, refused_event",
        "  for example b.jsonl, row 9, byte 5: 413 too large",
        "  {}",
        "List all rejected rows and refused events (or --format jsonl, csv):",
        "  backcast rejects plan --all",
    ]
    every = printed(show_each, rejects, width=120)
    assert (every.count("bad_json"), "a.jsonl, row 7, byte 70: why" in every) == (7, True)
    for show in (lambda console: show_each(console, []), lambda console: show_groups(console, [], "")):
        assert printed(show) == "No row was rejected, and no event was refused.\n"
    row = Reject("a.jsonl", 1, 0, "read", "bad_json", "why, " * 200, "x" * 20_000)
    screen = printed(show_each, [row], width=80, terminal=True)
    assert "… (+19,800 characters)" in screen
    grouped = printed(show_groups, [row], "backcast rejects plan", width=80).splitlines()
    assert grouped[1] == f"  for example a.jsonl, row 1: {'why, ' * 200}"
    assert grouped[2] == f"  {'x' * 10_000}… (+10,000 characters)"
    assert printed(show_each, [row], width=80).splitlines()[2] == f"  {'x' * 20_000}"
    example = Example("a.jsonl", 1_200, 0, "they differ in plan")
    lines = printed(show_groups, [], "backcast rejects plan", (1_200, example)).splitlines()
    assert lines[0] == "No row was rejected, and no event was refused."
    assert lines[1].startswith("1,200 duplicates, superseded: ")
    assert lines[2:] == ["  for example a.jsonl, row 1,200: they differ in plan"]


def test_the_histogram_has_a_line_an_hour() -> None:
    """24 lines; the fullest hour is 40 characters long, an hour with one row is still visible, an empty one is not."""
    lines = histogram([0, 1, *[0] * 21, 4_000])
    assert len(lines) == 24
    assert (lines[0], lines[1], lines[23]) == ("00     0", "01     1 ▏", "23 4,000 " + "█" * 40)


def test_a_survey_shows_hostile_text_as_text_and_folds_examples_before_names() -> None:
    """It begins with its line of counts; on 80 columns a field's name stays whole, and the hours say what they are."""
    hostile = Survey(
        tool="", candidates={"mixpanel": 1, "segment": 1}, rows=3, sampled=True,
        parts=[PartSurvey(HOSTILE, "jsonl", "JSON lines", (), 9, 3, False)],
        fields=[FieldSurvey(HOSTILE, {"text": 3}, 3, 0.0, [HOSTILE], "event")], fields_left_out=0,
        events={HOSTILE: 3}, events_left_out=0, time_field=HOSTILE, time_unit="s", first="2021-01-01T00:00:00",
        last="2021-01-01T00:00:00", hours=(3, *[0] * 23), months={"2021-01": 3}, unread_times=0,
        zone=ZoneSurvey("r", [], [], "Too few rows."), broken={"bad_json": BrokenSurvey(1, HOSTILE, 2, HOSTILE)},
        warnings={}, notices=[(HOSTILE, HOSTILE, HOSTILE)],
    )  # fmt: skip
    shown = printed(show_survey, hostile, [HOSTILE], SurveyOptions())
    assert ("\x1b" in shown, "[red]" in re.sub(r"\s", "", shown)) == (False, True)
    assert "mixpanel or segment" in shown
    assert shown.splitlines()[0] == hostile.sentence
    name = "properties.$initial_referrer_dom"
    field = FieldSurvey(name, {"text": 3, "integer in text": 12}, 3, 0.0, ["x" * 40] * 3, "")
    found = msgspec.structs.replace(hostile, tool="mixpanel", fields=[field], broken={}, notices=[])
    shown = printed(show_survey, found, ["a.jsonl"], SurveyOptions(), width=80)
    assert name in shown
    lines = [line.strip() for line in shown.splitlines()]
    assert lines[lines.index("00 3 " + "█" * 40) - 1] == "hour of day (no zone named), rows"
    assert sum(map(len, re.findall("x{3,}", shown))) == 120  # no example is cropped


def answered(answer: Any) -> str:
    return printed(show_answer, "Metrics of x", answer)


def test_answers_are_shown_and_empty_ones_say_so() -> None:
    """There is no table without a number in it; a run shows its log line by line after its other fields, a log of
    another form is a field: nothing is left out."""
    for answer in ({"labels": ["2023-01-01"], "series": []}, {"labels": [], "series": []}, {"totals": {}}, []):
        assert answered(answer) == "Metrics of x: none.\n"
    logs = [{"level": "INFO", "message": "one"}, {"level": "WARN", "message": "[two]", "more": {"access_token": "t"}}]
    lines = [line.split() for line in answered({"status": "success", "logs": logs}).splitlines()]
    for line in (["status", "success"], ["INFO", "one"], ["WARN", "[two]", '{"access_token":', '"***"}']):
        assert line in lines
    for odd in ([], ["text"], "text", None):
        assert "logs" in answered({"status": "success", "logs": odd})


def test_the_local_service_says_that_nothing_ran() -> None:
    """Through the client, as the commands show it."""
    with asking(preset("observed")) as ask, ManagementClient(ask.service.url, Secret(ALL), "1") as client:
        functions, id = client.hog_functions, ask.made(hog="h")["id"]
        assert "runs no hog function" in answered(functions.invoke(id, {"configuration": {}}))
        for answer in (functions.logs(id), functions.metrics(id), functions.metrics_totals(id)):
            assert answered(answer) == "Metrics of x: none.\n"
