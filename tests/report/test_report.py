"""Reports say what the plan says: on a terminal, to programs, and on a page that stays inert."""

from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from pipeline.errors import UnsafePlan
from pipeline.ledger import LedgerSummary, RunHistory
from pipeline.mask import masked
from pipeline.models import Dialect, Finding, Reject, SealedOptions
from pipeline.plan.sealed.manifest import Example, MappingSeal, Plan, RowCounts
from pipeline.report.contents import Report, Results, build_report
from pipeline.report.machine import plan_object, write_report
from pipeline.report.page.html import render
from pipeline.report.registry import PAGE, TERMINAL, Values, on_page, on_terminal
from pipeline.report.rejects import RefusedEvent
from pipeline.report.results import BatchCounts, CellCounts, FoundCounts, SentCounts, StatusResult, VerifyResult
from pipeline.report.sections.events import years
from pipeline.report.state import PlanStatus, State
from pipeline.report.terminal import steps
from pipeline.report.terminal.rejects_view import show_each, show_groups
from pipeline.report.terminal.survey_view import histogram, show_survey
from pipeline.survey import BrokenSurvey, FieldSurvey, PartSurvey, Survey, ZoneSurvey
from pipeline.verify.findings import Difference
from tests.golden.report.small_plan import (
    GOLDEN,
    REHEARSAL,
    VERIFICATION,
    golden_report,
    part,
    plan_directory,
    small_plan,
)
from tests.support.deliveries import uuid

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\x1b[31m\u202e[red]{{ 7*7 }}"


class Page(HTMLParser):
    """The tags of a page, with the names of their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[tuple[str, tuple[str, ...]]] = set()
        self.links: set[str] = set()
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add((tag, tuple(name for name, _ in attrs)))
        places = (value or "" for name, value in attrs if name in ("href", "src"))
        self.links.update(place for place in places if not place.startswith("#"))
        if tag != "bdi":
            self.words.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag != "bdi":
            self.words.append(" ")

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))


def page_of(path: Path, plan: Plan, **given: object) -> str:
    return render(build_report(plan_directory(path, **given), plan))  # type: ignore[arg-type]


def printed(show: object, *given: object, width: int = 100, terminal: bool = False, **named: object) -> str:
    """What a render function prints on a plain terminal of some width, or into a pipe."""
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False, force_terminal=terminal)
    show(console, *given, **named)  # type: ignore[operator]
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def plan_text(plan: Plan, width: int = 100) -> str:
    """What the terminal shows of a plan whose directory has none of its files."""
    status = PlanStatus(State.READY if plan.ready else State.NOT_READY, plan.events.made, LedgerSummary())
    return printed(steps.show_plan, plan, status, "plan", width=width)


# -- for programs ------------------------------------------------------------------------------------------


def test_the_plan_object_is_the_documented_one() -> None:
    """`plan --json` has exactly the documented members, and nothing of this machine."""
    plan = small_plan()
    assert json.loads(json.dumps(plan_object(plan, "work/plan"))) == {
        "format": "backcast.plan/1",
        "plan": "work/plan",
        "digest": plan.digest,
        "verdict": "not-ready",
        "tool": "mixpanel",
        "zone": "America/New_York",
        "first": "2021-11-07T05:39:33Z",
        "last": "2022-01-02T23:00:00Z",
        "rows": {"read": 14, "mapped": 10, "skipped": 2, "rejected": 2},
        "events": {"made": 12, "phases": {"identities": 2, "groups": 0, "events": 10, "persons": 0}},
        "parts": [
            {"path": "a.jsonl", "bytes": 1200, "digest": "a" * 64, "rows": 12},
            {"path": "b.csv", "bytes": 200, "digest": "b" * 64, "rows": 2},
        ],
        "skips": {"duplicate_event": 1, "campaign_event": 1},
        "rejects": {"bad_json": 1, "missing_timestamp": 1},
        "warnings": {"unsafe_integer": 3},
        "gates": [{"name": "max_rejects", "level": "stop", "detail": "2 of 14 rows (14.29%) rejected (limit 0)"}],
    }


def test_the_golden_report_is_what_the_small_plan_gives() -> None:
    """report.json of the small plan is the committed one; `make golden` writes it again."""
    assert golden_report() == GOLDEN.read_bytes()


def test_a_report_keeps_what_an_earlier_one_of_the_plan_says(tmp_path: Path) -> None:
    """Verifying after a rehearsal leaves the rehearsal in the report; another plan starts afresh."""
    directory = plan_directory(tmp_path)
    write_report(directory, small_plan(), Results(rehearsal=REHEARSAL))
    write_report(directory, small_plan(), Results(verification=VERIFICATION))
    kept = json.loads(directory.report_json.read_bytes())
    assert (kept["rehearsal"]["events"]["accepted"], kept["verification"]["proved"]) == (12, True)
    assert (kept["rehearsed"], kept["applied"]) == (None, None)
    write_report(directory, small_plan(blocks=3))
    fresh = json.loads(directory.report_json.read_bytes())
    assert (fresh["rehearsal"], fresh["verification"]) == (None, None)


def test_damaged_cells_are_told_as_an_unsafe_plan(tmp_path: Path) -> None:
    """A cells.jsonl that cannot be read stops the report with exit code 4."""
    directory = plan_directory(tmp_path)
    directory.cells.write_bytes(b'{"event": 1}\n')
    with pytest.raises(UnsafePlan, match=r"cells\.jsonl of the plan cannot be read"):
        build_report(directory, small_plan())


def test_months_beyond_the_top_events_are_one_line(tmp_path: Path) -> None:
    """Of 130 event names, the 100 most frequent have their own months and the others are added up."""
    names = {f"event {number:03d}": 200 - number for number in range(130)}
    cells = [(name, "2021-05-01", "mapped", count) for name, count in sorted(names.items())]
    report = build_report(plan_directory(tmp_path, cells), small_plan(names=names))
    assert len(report.months) == 101
    assert (report.months[0].event, report.months[-1].event) == ("event 000", "")
    assert (report.months[-1].count, sum(one.count for one in report.months)) == (
        sum(range(71, 101)),
        sum(names.values()),
    )


def test_a_year_has_its_months_in_their_places(tmp_path: Path) -> None:
    """RunCounts stand under their own month, and the last line adds each month up."""
    first, second = years(build_report(plan_directory(tmp_path), small_plan()))
    assert first.events == [("Order Placed", [0] * 10 + [4, 2], 6), ("Signup", [0] * 10 + [1, 0], 1)]
    assert (first.sums, first.total) == ([0] * 10 + [5, 2], 7)
    assert (second.year, second.events) == ("2022", [("Signup", [3] + [0] * 11, 3)])


# -- masking -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        ('{"event":"A","distinct_id":7,"age":41}', '{"event":"A","distinct_id":7,"age":•••}'),
        ('{"p":{"$insert_id":"k","tags":["a",1,null]}}', '{"p":{"$insert_id":"k","tags":["•••",•••,null]}}'),
        ('{"a": "said \\"x\\"", "b": NaN}', '{"a": "•••", "b": NaN}'),
        ('{"event":"A","mail":"cut off', '{"event":"A","mail":"•••"'),
        ("plain words here", "••• ••• •••"),
        ('{"a":"' + "x" * 9_000, '{"a":"•••"'),
    ],
)  # fmt: skip
def test_a_rejected_json_row_keeps_its_names_and_ids(record: str, shown: str) -> None:
    """Names, ids and times stay; every other value is masked, also where the row is broken."""
    assert masked(record) == shown


def test_a_rejected_csv_row_is_masked_by_its_header() -> None:
    """Cells under the names of ids and times stay; a row of another length is masked whole."""
    dialect = Dialect(delimiter=";", header=("event", "distinct_id", "mail"))
    assert masked('A;"u;1";ada@example.com', dialect) == "A;u;1;•••"
    assert masked("A;u;1;ada@example.com", dialect) == "•••;•••;•••;•••"


@given(
    st.text("abc{}[]:,\"\\ \n'", max_size=20), st.sampled_from(['{{"p": {}}}', '{{"p": [{}], "q": 1}}', '{{"p": {}'])
)
def test_no_value_of_a_property_shows(around: str, frame: str) -> None:
    """A secret inside any text value of a property never shows, whatever stands around it."""
    assert "SECRET" not in masked(frame.format(json.dumps(f"{around}SECRET{around}")))


def test_a_long_row_is_cut() -> None:
    """No more than 400 characters of a row are shown, and control characters only as escapes."""
    shown = masked('{"event": "' + "\x1b" + "n" * 1_000 + '"}')
    assert (len(shown), shown[:15], shown[-1]) == (400, '{"event": "\\x1b', "…")


# -- for people --------------------------------------------------------------------------------------------


def hostile_plan() -> Plan:
    return small_plan(
        tool=HOSTILE,
        parts=[part("a.jsonl", (12, 9, 2, 1)), part(HOSTILE, (2, 1, 0, 1))],
        skips={HOSTILE: 2},
        names={HOSTILE: 10},
        examples={"unsafe_integer": Example(HOSTILE, 5, 512, HOSTILE)},
        gates=[Finding(HOSTILE, "stop", HOSTILE), Finding("zone", "stop", HOSTILE)],
        mapping=MappingSeal(HOSTILE, "d" * 64, HOSTILE),
        options=SealedOptions(as_of=0, name=HOSTILE, settings={HOSTILE: HOSTILE}),
        notices=[(HOSTILE, HOSTILE, HOSTILE)],
        target=HOSTILE,
    )


def test_hostile_text_stays_text_on_the_page(tmp_path: Path) -> None:
    """Markup in names, rows, codes, options and the mapping adds no tag and no attribute to the page."""
    rejects = [
        Reject(HOSTILE, 3, 9, "read", "bad_json", HOSTILE, json.dumps({"event": HOSTILE, HOSTILE: 1})),
        Reject(HOSTILE, 4, 9, "validate", "missing_timestamp", HOSTILE, HOSTILE),
    ]
    hostile = Page(
        page_of(tmp_path / "h", hostile_plan(), cells=[(HOSTILE, "2021-01-01", "mapped", 10)], rejects=rejects)
    )
    benign = Page(page_of(tmp_path / "b", small_plan()))
    assert hostile.tags <= benign.tags | {("strong", ()), ("span", ("class",))}
    assert ("script" in {tag for tag, _ in hostile.tags}, hostile.links) == (False, {"cells.jsonl", "rejects.jsonl"})
    assert "<script>alert(1)</script>" in hostile.text
    assert not {"\x1b", "\u202e"} & set(hostile.text)
    assert "{{ 7*7 }}" in hostile.text


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    """The page names no other host, loads nothing, and links only to files beside it."""
    page = page_of(tmp_path, small_plan())
    assert re.findall(r"https?:|src=|url\(|@import|<script|<link", page) == []
    assert Page(page).links == {"cells.jsonl", "rejects.jsonl"}
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


@pytest.mark.parametrize(
    "said",
    [
        "Import plan: mixpanel → PostHog (US)",
        "source times in America/New_York, confirmed by 1 of 1 month · plan ",
        "Not ready Apply refuses this plan until what failed is fixed.",
        "Plan: 10 events and 2 merges to send, from 10 of 14 rows in 2 files; 2 skipped, 2 rejected.",
        "Failed: 2 of 14 rows (14.29%) rejected (limit 0) (max_rejects) List them with backcast rejects",
        "10 events to send 0 profile updates 2 merged identities irreversible 1 duplicate removed 2 rejected rows",
        "2 skipped, 2 rejected. 12 to send in all.",
        "From 2021-11-07 to 2022-01-02. The median day has 2 events; the highest, 2021-11-30, has 4.",
        "4 2 no events from 2021-11-08 to 2021-11-29 (22 days)",
        "Order Placed 2021-11-30 to 2021-12-01, by month 6 60.0% 2021-11-30 – 2021-12-01",
        "the row is not JSON 1",
        "requests at least 2: at most 5,000 events in each",
        "4.2 KiB of events, before compression",
        "identities merges of two ids into one person; they cannot be undone 2",
        "a.jsonl JSON lines, in gzip 1,200 12 9 2 1",
        "b.csv CSV, 4 columns 200 2 1 0 1",
        "2021 event Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec 2021",
        "Order Placed 4 2 6",
        "all 5 2 7",
        "campaign_event 1",
        'missing_timestamp 1 no timestamp b.csv, row 2:',
        "Signup,u9,,•••",
        "unsafe_integer 3 an integer beyond 2^53",
        "a.jsonl, row 5: 9007199254740993 is beyond 2^53",
        "ignored_file _SUCCESS: a marker",
        "2021-11 UTC-05:00 5 6 UTC-05:00 or UTC-04:00 agrees",
        "but eventually, and without a guarantee",
        "as_of 2023-11-14T22:13:20Z",
        "settings source=web",
        "batch_events 5,000",
        "cells.jsonl " + "c" * 64,
        "tool: mixpanel",
    ],
)  # fmt: skip
def test_the_page_says(tmp_path: Path, said: str) -> None:
    """The page holds what the person who signs the plan off asks for."""
    assert said in Page(page_of(tmp_path, small_plan())).text


def test_the_page_shows_what_became_of_the_plan(tmp_path: Path) -> None:
    """Rehearsal, sending and verification are on the page once they were made, each with its place and its time."""
    there, first, last = "https://eu.example", "2024-05-01T10:00:00Z", "2024-05-02T11:30:00Z"
    results = Results(
        msgspec.structs.replace(REHEARSAL, ended="2024-04-30T09:00:00Z"),
        msgspec.structs.replace(VERIFICATION, at="2024-04-30T09:00:01Z"),
        StatusResult(
            digest="d", state="sent-with-refusals", batches=BatchCounts(4, 4, 0, 0), events=SentCounts(12, 11, 1),
            course=RunHistory(there, 2, first, last),
        ),
        VerifyResult(
            cells=CellCounts(match=4), events=FoundCounts(11, 11, others=5, copies=3), proved=True, to=there,
            at="2024-05-03T08:00:00Z",
        ),
    )  # fmt: skip
    text = Page(render(build_report(plan_directory(tmp_path), small_plan(), results, "sent-with-refusals"))).text
    contents = text.index("Everything else")
    text = text[:contents] + text[text.index("What will be sent phase", contents) :]
    rehearsal, _, rest = text.partition(" Sending ")
    sending, _, verification = rest.partition(" Verification ")
    assert "Rehearsed against the embedded local service at 2024-04-30 09:00:00" in rehearsal
    assert "12 events sent, 0 refused, 0 in doubt" in rehearsal
    assert "Proved: every event was found once." in rehearsal
    began, ended = (instant[:19].replace("T", " ") for instant in (first, last))
    assert f"Applied to {there} in 2 runs, the first started at {began} , the last one ended at {ended} ." in sending
    assert "Sent, 1 refused The target refused some events" in rehearsal
    assert "11 verified 1 refused; the others were found once" in rehearsal
    assert "--code refused_event" in rehearsal
    assert "Every refused event with its row: backcast rejects" in sending
    assert "11 events accepted, 1 refused" in sending
    assert f"What landed at {there} was compared with the ledger at 2024-05-03 08:00:00 ." in verification
    assert "3 more copies were accepted, equal to another in uuid" in verification
    assert "5 events are there that this plan did not send." in verification


def test_a_verification_tells_copies_from_duplicates() -> None:
    """A copy that collapses is in no row of differences, but in a sentence; a duplicate is in a row."""
    result = VerifyResult(cells=CellCounts(match=3), events=FoundCounts(9, 9, copies=7), proved=True)
    lines = printed(steps.show_verification, result).splitlines()
    assert not any(line.startswith("duplicated") for line in lines)
    assert any(line.startswith("7 more copies were accepted, equal to another in uuid") for line in lines)
    wrong = FoundCounts(9, 9, extra=2, duplicated=2)
    result = VerifyResult(cells=CellCounts(match=2, duplicated=1), events=wrong, proved=False)
    lines = printed(steps.show_verification, result).splitlines()
    assert [line.split() for line in lines if line.startswith(("extra", "duplicated"))] == [["duplicated", "1", "2"]]
    assert not any("copies" in line for line in lines)


def test_a_dry_run_says_what_it_would_do() -> None:
    """Packed, left to send and settled before; nothing is called sent, accepted or balanced."""
    result = msgspec.structs.replace(
        REHEARSAL, dry_run=True, events=SentCounts(12, already_settled=5, would_send=7), batches=BatchCounts(made=3)
    )
    assert printed(steps.show_apply, result) == (
        "Dry run: nothing was sent. Without --dry-run: 7 events in 3 requests.\n"
    )
    parts = {"identities": SentCounts(2, already_settled=2, would_send=0), "events": SentCounts(10, 3, would_send=7)}
    shown = printed(steps.show_apply, msgspec.structs.replace(result, phases=parts)).splitlines()
    assert [line.split() for line in shown[2:]] == [["identities", "0", "2", "0"], ["events", "7", "0", "0"]]
    result = msgspec.structs.replace(result, events=SentCounts(12, already_settled=12, would_send=0))
    assert printed(steps.show_apply, result) == "Dry run: nothing is left to send.\n"


def test_values_of_rows_are_masked_on_the_page(tmp_path: Path) -> None:
    """An address that a rejected row holds is nowhere on the page or in report.json."""
    directory = plan_directory(tmp_path)
    write_report(directory, small_plan())
    assert "ada@example.com" in directory.rejects.read_text()
    assert "ada@example.com" not in directory.report_html.read_text() + directory.report_json.read_text()


def test_the_same_report_gives_the_same_page(tmp_path: Path) -> None:
    """Rendering twice, from two folders of one name, gives one page."""
    first, second = (page_of(tmp_path / name / "plan", small_plan()) for name in ("a", "b"))
    assert first == second


def test_an_empty_plan_has_a_page(tmp_path: Path) -> None:
    """A plan of nothing renders, and says so."""
    plan = small_plan(
        parts=[], skips={}, rejects={}, warnings={}, examples={}, names={}, gates=[], zone_evidence=[], first=None,
        last=None, events=msgspec.structs.replace(small_plan().events, made=0, phases={}), notices=[],
        verdict="ready", options=SealedOptions(as_of=0),
    )  # fmt: skip
    text = Page(page_of(tmp_path, plan, cells=[], rejects=[])).text
    assert "No events." in text
    assert "no receive times" in text


# -- on a terminal -----------------------------------------------------------------------------------------


def test_a_plan_has_its_state_first_and_the_next_command_last() -> None:
    """State and counted sentence, then what was found, the report, and a command that can be pasted."""
    plan = small_plan()
    lines = plan_text(plan).splitlines()
    assert lines[:2] == ["State: not ready", plan.sentence]
    assert lines[-3:] == [
        "Report: plan/report.html",
        "Next: Fix the failed checks and plan again. Until then it can only be rehearsed:",
        "  backcast rehearse plan",
    ]


def test_checks_say_what_to_do() -> None:
    """A check is on the terminal with its level and what to do; what stops the plan comes before all others."""
    gates = [Finding("keyless", "warning", "no key"), *small_plan().gates]
    shown = plan_text(small_plan(gates=gates), width=200)
    assert "STOP max_rejects: 2 of 14 rows (14.29%) rejected (limit 0)\n  What to do: list them" in shown
    assert shown.index("STOP max_rejects") < shown.index("Rejected") < shown.index("WARNING keyless")


@pytest.mark.parametrize("width", [40, 80, 160])
def test_a_plan_has_at_most_forty_lines(width: int) -> None:
    """However much was found: the least important is left to the report, the command is whole."""
    gates = [Finding(f"check_{number}", "warning", "word " * 80) for number in range(50)]
    codes = {f"code_{number}": 1 for number in range(50)}
    shown = plan_text(small_plan(gates=gates, warnings=codes, skips=codes, verdict="warnings"), width=width)
    rows = sum(-(-len(line) // width) for line in shown.splitlines())
    assert rows <= steps.MOST_LINES
    assert shown.endswith("\n  backcast rehearse plan\n")
    assert "more lines: see the report" in shown


def test_warnings_have_a_count_and_a_place() -> None:
    """A warning stands with its count, one example and where it is."""
    line = next(one for one in plan_text(small_plan(), width=220).splitlines() if "unsafe_" in one)
    assert re.split(r"\s{2,}", line.strip()) == [
        "3",
        "unsafe_integer",
        "an integer beyond 2^53 is sent exactly; readers that use doubles round it"
        " (a.jsonl, row 5: 9007199254740993 is beyond 2^53)",
    ]


@pytest.mark.parametrize("width", [30, 60, 200])
def test_markup_and_escapes_in_an_export_stay_text(width: int) -> None:
    """Markup of names is printed as it stands, and escape sequences as escapes, on any width."""
    shown = plan_text(hostile_plan(), width=width)
    assert ("\x1b" in shown, "\u202e" in shown) == (False, False)
    assert "[red]" in re.sub(r"\s", "", shown)


def test_a_verification_says_whether_it_is_proved() -> None:
    """Missing events are counted and listed; a proof is one sentence."""
    difference = Difference("missing", "the-uuid", 1, [(HOSTILE, "u1", "2021-01-01T00:00:00Z")])
    result = VerifyResult(
        cells=CellCounts(match=3, missing=1), events=FoundCounts(9, 7, 2, 0), proved=False, differences=[difference]
    )
    shown = printed(steps.show_verification, result)
    assert ("the-uuid" in shown, "\x1b" in shown) == (True, False)
    assert shown.splitlines()[:2] == ["Not proved: 2 events are missing.", "7 of 9 events found."]
    assert ["missing", "1", "2"] in [line.split() for line in shown.splitlines()]
    assert "Proved: every event" in printed(steps.show_verification, VERIFICATION)


def test_a_status_says_what_is_in_doubt() -> None:
    """The state comes first, and events in doubt are told with what becomes of them."""
    result = StatusResult(
        digest="d",
        state="stopped",
        batches=BatchCounts(3, 2, 0, 0),
        events=SentCounts(made=6, accepted=4, in_doubt=2, unsent=3),
    )
    plan = small_plan()
    status = PlanStatus(State.STOPPED, plan.events.made, LedgerSummary())
    lines = printed(steps.show_status, plan, status, result, "plan").splitlines()
    assert lines[0] == "State: stopped (resumable)"
    assert "2 events are in doubt: apply sends them again with the same uuids." in lines
    assert lines[-1] == "  backcast apply plan --to us --approve-merges 2"


def test_a_run_says_whether_it_is_complete() -> None:
    """A run with events in doubt is not finished, and says so with numbers."""
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
    """A state of success is green only for a plan without rejected rows and findings; `sent` was not verified yet."""
    clean: dict[str, Any] = {"rejects": {}, "gates": [], "rows": RowCounts(10, 10, 0, 0), "verdict": "ready"}
    plan = small_plan(**(clean | found))
    line = steps.state_line(plan, PlanStatus(state, 12, LedgerSummary()))
    assert str(line.style).split()[1:] == ([color] if color else [])


def test_rejects_are_grouped_by_code() -> None:
    """Each code has its count, its meaning and one row with its place; refused events are grouped by their cause."""
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


def test_what_is_cut_of_a_rejected_row_is_counted() -> None:
    """On a terminal an example is short; into a pipe it is one line, and --all has every character of it."""
    row = Reject("a.jsonl", 1, 0, "read", "bad_json", "why, " * 200, "x" * 20_000)
    screen = printed(show_each, [row], width=80, terminal=True)
    assert "… (+19,800 characters)" in screen
    grouped = printed(show_groups, [row], "backcast rejects plan", width=80).splitlines()
    assert grouped[1] == f"  for example a.jsonl, row 1, byte 0: {'why, ' * 200}"
    assert grouped[2] == f"  {'x' * 10_000}… (+10,000 characters)"
    assert printed(show_each, [row], width=80).splitlines()[2] == f"  {'x' * 20_000}"


def test_duplicates_with_other_values_are_listed_with_what_differs() -> None:
    """Also where no row was rejected."""
    example = Example("a.jsonl", 1_200, 0, "they differ in plan")
    lines = printed(show_groups, [], "backcast rejects plan", (1_200, example)).splitlines()
    assert lines[0] == "No row was rejected, and no event was refused."
    assert lines[1].startswith("1,200 duplicates, superseded: ")
    assert lines[2:] == ["  for example a.jsonl, row 1,200: they differ in plan"]


# -- a survey ----------------------------------------------------------------------------------------------


def test_the_histogram_has_a_line_an_hour() -> None:
    """24 lines; the fullest hour is 40 characters long, an hour with one row is still seen, an empty one is not."""
    lines = histogram([0, 1, *[0] * 21, 4_000])
    assert len(lines) == 24
    assert (lines[0], lines[1], lines[23]) == ("00     0", "01     1 ▏", "23 4,000 " + "█" * 40)


def test_a_survey_shows_hostile_text_as_text() -> None:
    """A survey with hostile names and values prints them inert, and begins with its counted line."""
    found = Survey(
        tool="", candidates={"mixpanel": 1, "segment": 1}, rows=3, sampled=True,
        parts=[PartSurvey(HOSTILE, "jsonl", "JSON lines", (), 9, 3, False)],
        fields=[FieldSurvey(HOSTILE, {"text": 3}, 3, 0.0, [HOSTILE], "event")], fields_left_out=0,
        events={HOSTILE: 3}, events_left_out=0, time_field=HOSTILE, time_unit="s", first="2021-01-01T00:00:00",
        last="2021-01-01T00:00:00", hours=(3, *[0] * 23), months={"2021-01": 3}, unread_times=0,
        zone=ZoneSurvey("r", [], [], "Too few rows."), broken={"bad_json": BrokenSurvey(1, HOSTILE, 2, HOSTILE)},
        warnings={}, notices=[(HOSTILE, HOSTILE, HOSTILE)],
    )  # fmt: skip
    shown = printed(show_survey, found, [HOSTILE])
    assert ("\x1b" in shown, "[red]" in re.sub(r"\s", "", shown)) == (False, True)
    assert "mixpanel or segment" in shown
    assert shown.splitlines()[0] == found.sentence


def test_a_survey_folds_examples_before_names() -> None:
    """On 80 columns a field's name stays whole, and the hours say what they are."""
    name = "properties.$initial_referrer_dom"
    found = Survey(
        tool="mixpanel", candidates={"mixpanel": 1}, rows=3, sampled=True,
        parts=[PartSurvey("a.jsonl", "jsonl", "JSON lines", (), 9, 3, False)],
        fields=[FieldSurvey(name, {"text": 3, "integer in text": 12}, 3, 0.0, ["x" * 40] * 3, "")],
        fields_left_out=0, events={"a": 3}, events_left_out=0, time_field="at", time_unit="s",
        first="2021-01-01T00:00:00", last="2021-01-01T00:00:00", hours=(3, *[0] * 23), months={"2021-01": 3},
        unread_times=0, zone=ZoneSurvey("r", [], [], "Too few rows."), broken={}, warnings={}, notices=[],
    )  # fmt: skip
    shown = printed(show_survey, found, ["a.jsonl"], width=80)
    assert name in shown
    lines = [line.strip() for line in shown.splitlines()]
    assert lines[lines.index("00 3 " + "█" * 40) - 1] == "hour of day (source local time), rows"
    assert sum(map(len, re.findall("x{3,}", shown))) == 120  # no example is cropped


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
