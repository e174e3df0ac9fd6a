"""The page of a report: what a person who signs it needs, its section on drift, and hostile strings that stay text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from pipeline.ledger import RunHistory
from pipeline.models import Reject, SealedOptions
from pipeline.plan.sealed.facts import SampleSize
from pipeline.plan.statistics.drift import MOST_LISTED, MOST_PERIODS, Drift, LeftOut, Period, PropertySummary
from pipeline.report.contents import Results, build_report
from pipeline.report.machine import plan_object, write_report
from pipeline.report.page.html import render
from pipeline.report.results import BatchCounts, SentCounts, StatusResult
from pipeline.report.terminal import steps
from pipeline.verify.findings import CellCounts, FoundCounts, Verification
from tests.golden.report.small_plan import REHEARSAL, VERIFICATION, plan_directory, small_plan
from tests.support.rendered import HOSTILE, Page, hostile_plan, page_of, printed


def test_hostile_text_stays_text_and_the_page_needs_nothing_else(tmp_path: Path) -> None:
    """Markup in names, rows, codes, options and the mapping adds no tag and no attribute; no other host is named,
    nothing is loaded, links lead to files next to it, and values of rows are masked."""
    rejects = [
        Reject(HOSTILE, 3, 9, "read", "bad_json", HOSTILE, json.dumps({"event": HOSTILE, HOSTILE: 1})),
        Reject(HOSTILE, 4, 9, "validate", "missing_timestamp", HOSTILE, HOSTILE),
    ]
    cells = [(HOSTILE, "2021-01-01", "mapped", 10)]
    hostile = Page(page_of(tmp_path / "h", hostile_plan(), cells=cells, rejects=rejects))
    benign = Page(page_of(tmp_path / "b", small_plan()))
    assert hostile.tags <= benign.tags | {("strong", ()), ("span", ("class",))}
    assert ("script" in {tag for tag, _ in hostile.tags}, hostile.links) == (False, {"cells.jsonl", "rejects.jsonl"})
    assert "<script>alert(1)</script>" in hostile.text
    assert not {"\x1b", "\u202e"} & set(hostile.text)
    assert "{{ 7*7 }}" in hostile.text
    page = page_of(tmp_path, small_plan())
    assert re.findall(r"https?:|src=|url\(|@import|<script|<link", page) == []
    assert Page(page).links == {"cells.jsonl", "rejects.jsonl"}
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    directory = plan_directory(tmp_path)
    write_report(directory, small_plan())
    assert "ada@example.com" in directory.rejects.read_text()
    assert "ada@example.com" not in directory.report_html.read_text() + directory.report_json.read_text()


SAID = (
    "Import plan: mixpanel → PostHog (US)",
    "source times in America/New_York, confirmed by 1 of 1 month · plan of 14 Nov 2023, ",
    "Not ready Apply refuses this plan until what failed is fixed.",
    "Failed: 2 of 14 rows (14.29%) rejected (limit 0) → 2. Rejected rows (max_rejects) List them with backcast rejects",
    "Will be sent 10 events 2 merged identities irreversible 0 profile updates",
    "Will not be sent 2 rejected rows 1 skipped row 1 duplicate 1 pair of ids not merged Result – not rehearsed",
    "12 to send in all, the number that apply asks for, from 10 of 14 rows in 2 files.",
    "From 2021-11-07 to 2022-01-02. The events of the median day: 2; of the highest, 2021-11-30: 4.",
    "4 2 no events from 2021-11-08 to 2021-11-29 (22 days)",
    "Order Placed Events by month Most in 2021-11: 4. 6 60.0% 2021-11-30 – 2021-12-01",
    "the row is not JSON 1",
    "requests at least 2: at most 5,000 events in each",
    "4.2 KiB of events, before compression",
    "a.jsonl JSON lines, in gzip 1,200 12 9 2 1",
    "b.csv CSV, 4 columns 200 2 1 0 1",
    "2021 event Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec 2021",
    "Order Placed 4 2 6",
    "all 5 2 7",
    "campaign_event 1",
    "missing_timestamp 1 no timestamp b.csv , row 2:",
    "Signup,•••,,•••",
    "unsafe_integer 3 an integer beyond 2^53",
    "a.jsonl , row 5: 9007199254740993 is beyond 2^53",
    "ignored_file _SUCCESS: a marker",
    "2021-11 UTC-05:00 5 6 UTC-05:00 or UTC-04:00 agrees",
    "but eventually, and without a guarantee",
    "as_of 2023-11-14T22:13:20Z",
    "settings source=web",
    "batch_events 5,000",
    "cells.jsonl " + "c" * 64,
    "tool: mixpanel",
)


def test_the_page_says_what_a_person_asks_for(tmp_path: Path) -> None:
    """A person who signs the plan off finds all of it, and nothing of this depends on the folder of the plan."""
    first, second = (page_of(tmp_path / name / "plan", small_plan()) for name in ("a", "b"))
    text = Page(first).text
    assert [said for said in SAID if said not in text] == []
    assert first == second


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
        Verification(
            cells=CellCounts(match=4), events=FoundCounts(11, 11, others=5, copies=3), proved=True, to=there,
            at="2024-05-03T08:00:00Z",
        ),
    )  # fmt: skip
    text = Page(render(build_report(plan_directory(tmp_path), small_plan(), results, "sent-with-refusals"))).text
    chapters = text[text.index(" Sign-off ") :]
    verification, sending, rehearsal = re.split(r" \d\. (?:Sending|Rehearsal) ", chapters)
    assert "Rehearsed against the embedded local service at 2024-04-30 09:00:00" in rehearsal
    assert "12 events sent, 0 refused, 0 in doubt" in rehearsal
    assert "Proved: every event was found once." in rehearsal
    began, ended = (instant[:19].replace("T", " ") for instant in (first, last))
    assert f"Applied to {there} in 2 runs, the first started at {began} , the last one ended at {ended} ." in sending
    assert "Sent, 1 refused The target refused some events" in text
    assert "11 verified 1 refused; the others were found once" in text
    assert "I have read what became of this plan." in text
    assert "Every refused event with its row: backcast rejects" in sending
    assert "11 events accepted, 1 refused" in sending
    assert f"What landed at {there} was compared with the ledger at 2024-05-03 08:00:00 ." in verification
    assert "3 more copies were accepted, equal to another in uuid" in verification
    assert "5 events are there that this plan did not send." in verification


def test_the_terminal_distinguishes_copies_from_duplicates_and_a_dry_run_from_a_run() -> None:
    """A copy that collapses is in a sentence, a duplicate in a row; a dry run has nothing called sent, accepted or
    balanced."""
    result = Verification(cells=CellCounts(match=3), events=FoundCounts(9, 9, copies=7), proved=True)
    lines = printed(steps.show_verification, result, "plan").splitlines()
    assert not any(line.startswith("duplicated") for line in lines)
    assert any(line.startswith("7 more copies were accepted, equal to another in uuid") for line in lines)
    wrong = FoundCounts(9, 9, extra=2, duplicated=2)
    result = Verification(cells=CellCounts(match=2, duplicated=1), events=wrong, proved=False)
    lines = printed(steps.show_verification, result, "plan").splitlines()
    assert [line.split() for line in lines if line.startswith(("extra", "duplicated"))] == [["duplicated", "1", "2"]]
    assert not any("copies" in line for line in lines)
    result = msgspec.structs.replace(
        REHEARSAL, dry_run=True, events=SentCounts(12, already_settled=5, would_send=7), batches=BatchCounts(made=3)
    )
    said = "Dry run: nothing was sent. Without --dry-run: 7 events in 3 requests.\n"
    assert printed(steps.show_apply, result) == said
    parts = {"identities": SentCounts(2, already_settled=2, would_send=0), "events": SentCounts(10, 3, would_send=7)}
    shown = printed(steps.show_apply, msgspec.structs.replace(result, phases=parts)).splitlines()
    assert [line.split() for line in shown[2:]] == [["identities", "0", "2", "0"], ["events", "7", "0", "0"]]
    result = msgspec.structs.replace(result, events=SentCounts(12, already_settled=12, would_send=0))
    assert printed(steps.show_apply, result) == "Dry run: nothing is left to send.\n"


@pytest.mark.parametrize(
    ("target", "verdict", "lines"),
    [
        ("us", "ready", ["to send in all 12 type this number", "merges 2 give apply --approve-merges 2"]),
        ("http://127.0.0.1:8100", "ready", ["to send in all 12 merges 2 will not be sent"]),
        ("us", "not-ready", ["There is nothing to approve yet"]),
    ],
)
def test_the_page_ends_with_what_is_approved(tmp_path: Path, target: str, verdict: str, lines: list[str]) -> None:
    """Digest, target and the numbers that apply asks for (on this machine it asks for none); then name and date."""
    plan = small_plan(verdict=verdict, target=target)
    signed = Page(page_of(tmp_path, plan)).text.rpartition(". Sign-off ")[2]
    assert [line for line in lines if line not in signed] == []
    approved = [plan.digest, "target ", "2 rejected rows, 1 skipped row, 1 duplicate, 1 pair", "name date signature"]
    assert [line in signed for line in approved] == [verdict == "ready"] * len(approved)


def test_chapters_are_in_order_of_importance(tmp_path: Path) -> None:
    """Each has a number and its size; what cannot be undone or is left out comes first."""
    page = page_of(tmp_path, small_plan())
    found = re.findall(r"<summary><h2>(\d+)\. (.*?) <span class=\"count\">(.*?)</span>", page)
    assert [(int(number), title, count) for number, title, count in found][:6] == [
        (1, "Merged identities", "2 merges, 1 pair not merged"), (2, "Rejected rows", "2 rows"),
        (3, "Warnings", "2 kinds"), (4, "Skipped rows", "1 row"), (5, "Duplicates", "1 row"),
        (6, "What this report cannot prove", "5 points"),
    ]  # fmt: skip
    assert found[-1][1:] == ("Profile updates", "none")


def test_an_empty_plan_has_a_page(tmp_path: Path) -> None:
    plan = small_plan(
        parts=[], skips={}, rejects={}, warnings={}, examples={}, names={}, gates=[], zone_evidence=[], first=None,
        last=None, events=msgspec.structs.replace(small_plan().events, made=0, phases={}), notices=[],
        verdict="ready", options=SealedOptions(as_of=0),
    )  # fmt: skip
    text = Page(page_of(tmp_path, plan, cells=[], rejects=[])).text
    assert "No events." in text
    assert "Too few rows have receive times" in text


def changing(number: int, periods: int, name: str = "a property") -> PropertySummary:
    """A property with this many periods of ten years."""
    types = ["text", "number as text", "number", "boolean", "object", "list"]
    some = [Period(f"{2010 + at}-01", f"{2010 + at}-12", types, 0.25, 10**6) for at in range(periods)]
    return PropertySummary(
        f"Event {name}", f"{name} {number}", 10**7, 5, 6, 7, {"text": 10**6}, 12_345, False, "2010-01-01", "2019-12-31",
        some,
    )  # fmt: skip


def test_ten_years_of_the_most_properties_take_few_bytes(tmp_path: Path) -> None:
    """As many as fit, with all their periods; the others are counted, and some of them named."""
    properties = [changing(number, MOST_PERIODS, "n" * 200) for number in range(MOST_LISTED)]
    left_out = LeftOut(7, 12, ["rare of Viewed"])
    page = page_of(tmp_path / "many", small_plan(drift=Drift(10**7, 12_000, properties, left_out)))
    without = page_of(tmp_path / "none", small_plan())
    assert len(page) - len(without) < 45_000
    shown = page.count('rowspan="12"') // 5
    assert shown > 5
    assert f"{12_000 - shown:,} more properties" in page
    assert "7 properties in 12 events, such as <bdi>rare of Viewed</bdi>" in page
    assert "Properties over time" not in without


def test_a_property_is_shown_with_its_months(tmp_path: Path) -> None:
    """Types and empty values by period; an estimate says so; hostile names stay text; a program gets the same, and
    nothing for a plan from before there was drift."""
    one = PropertySummary(
        "<b>Bought", "pri\u202ece", 160, 0, 3, 1, {"decimal": 80}, 40, True, "2023-01-01", "2023-04-28",
        [Period("2023-01", "2023-02", ["number"], 0.0, 80), Period("2023-03", "2023-03", [], 1.0, 80)],
    )  # fmt: skip
    page = page_of(tmp_path, small_plan(drift=Drift(160, 2, [one, changing(1, 1)], LeftOut())))
    text = Page(page).text
    assert "<b>Bought 2023-01 to 2023-02 number 0% 40 2023-01-01 2023-04-28 2023-03 no value 100%" in text
    assert "about 12,345" in text
    assert "Estimated from a sample" not in text
    sampled = Drift(900, 2, [one], LeftOut(), SampleSize(160, 40, 15.5))
    text = Page(page_of(tmp_path / "sampled", small_plan(drift=sampled))).text
    assert "a sample of 160 events, at most 40 of each event name and month" in text
    assert "within 15.5 percentage points" in text
    assert "\u202e" not in page
    assert "<b>Bought" not in page
    drift = Drift(160, 1, [changing(1, 2)], LeftOut())
    found = plan_object(small_plan(drift=drift), tmp_path)["drift"]
    assert found["properties"][0]["periods"][1]["month"] == "2011-01"  # type: ignore[index]
    assert "drift" not in plan_object(small_plan(), tmp_path)
