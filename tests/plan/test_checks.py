"""Checks that fail stop a plan with numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import UsageError
from pipeline.models import Finding
from pipeline.plan.checks import CHECKS, PlanFacts, check, parse_limit, run_checks
from pipeline.report.wording import ADVICE
from tests.support.commands import generic
from tests.support.plan_facts import facts, found
from tests.support.tiny_tool import DAY, HOUR, THEN, make_plan, planned, row, write

ROOT = Path(__file__).parent.parent.parent


def test_rejects_are_allowed_up_to_the_limit() -> None:
    """A number, or a percentage of all rows that is exact at its border; the check says how many, what share and the
    limit. Anything else is a usage error with an example."""
    for text, rejected, read, stops in (
        ("0", 0, 0, False), ("0", 1, 1000, True), ("3", 3, 10, False), ("3", 4, 10, True), ("29%", 29, 100, False),
        ("29%", 30, 100, True), ("0.1%", 3, 3000, False), ("0.1%", 4, 3000, True), ("0.07%", 7, 10_000, False),
        ("100%", 5, 5, False), ("0%", 1, 5, True),
    ):  # fmt: skip
        findings = run_checks(facts(rejected=rejected, read=read, limit=text))
        assert ("max_rejects" in {one.name for one in findings if one.level == "stop"}) == stops, (text, rejected)
        assert (findings == []) == (rejected == 0), (text, rejected)
    (finding,) = run_checks(facts(rejected=2, read=400, limit="0.25%"))
    assert (finding.level, finding.detail) == ("stop", "2 of 400 rows (0.50%) rejected (limit 0.25%)")
    (finding,) = run_checks(facts(rejected=1, read=100, limit="10%", rejected_bytes=500, bytes_read=1000))
    assert finding.detail == (
        "1 of 100 rows (1.00%) rejected with 50.00% of the bytes (limit 10% of rows and of bytes)"
    )
    for text in ("", "-1", "1.5", "%", "1e3", "101%", "5 rows", "١٢", "1,5%"):
        with pytest.raises(UsageError) as caught:
            parse_limit(text)
        assert "--max-rejects" in caught.value.hint, text


def test_a_plan_with_too_many_rejects_is_not_ready(tmp_path: Path) -> None:
    """Each code is counted with its first row, the most frequent first."""
    file = write(tmp_path / "a.jsonl", [row(key="a"), row(id=""), row(id=""), "{"])
    strict = make_plan(tmp_path / "strict", [file], allowed=parse_limit("2")).plan
    (stop,) = found(strict.gates)
    assert (stop.name, stop.level, stop.count) == ("max_rejects", "stop", 3)
    assert stop.examples == [
        "missing_distinct_id (2), the first in row 2 of a.jsonl", "bad_json (1), the first in row 4 of a.jsonl",
    ]  # fmt: skip
    assert (strict.verdict, strict.ready) == ("not-ready", False)
    lax = make_plan(tmp_path / "lax", [file], allowed=parse_limit("3")).plan
    assert (lax.verdict, lax.rejects) == ("warnings", {"bad_json": 1, "missing_distinct_id": 2})
    assert [(gate.name, gate.level, gate.detail) for gate in found(lax.gates)] == [
        ("rejects", "warning", "3 of 4 rows (75.00%) rejected (limit 3)")
    ]


def test_a_gate_names_what_would_help_many_of_the_rows(call: Any, tmp_path: Path) -> None:
    """Times without an offset need their zone, and the refusal of the plan says so."""
    times = ["2021-01-01 10:00:00", "2021-01-01 11:00:00", "yesterday"]
    rows = [{"event": "a", "distinct_id": "u", "timestamp": time, "uuid": None} for time in times]
    for more, told in ([], True), ([{**rows[0], "distinct_id": "", "timestamp": "2021-01-01T00:00:00Z"}] * 5, False):
        source = write(tmp_path / "a.jsonl", [*rows, *more])
        gates = call("plan", source, *generic(), "-o", tmp_path / "plan", "--json").json["gates"]
        (stop,) = (gate for gate in gates if gate["name"] == "max_rejects")
        assert ("--timezone Area/City" in stop["detail"], "--timezone" in stop["detail"]) == (told, told)


def test_identical_rows_without_a_key_are_reported(tmp_path: Path) -> None:
    """Each is an event of its own, and the check asks whether that is right."""
    seen = {"event": "Seen", "id": "u", "at": THEN}
    first = write(tmp_path / "a.jsonl", [seen, {**seen, "id": "v"}, seen])
    second = write(tmp_path / "b.jsonl", [row(key="k"), row(key="k"), seen])
    made = make_plan(tmp_path / "plan", [first, second])
    assert (made.plan.verdict, made.plan.warnings) == ("warnings", {"identical_rows": 2})
    example = made.plan.examples["identical_rows"]
    assert (example.part, example.row) == ("a.jsonl", 3)
    assert example.detail == "equal to another row"
    collapsed = make_plan(tmp_path / "collapsed", [first, second], collapse_identical=True)
    assert collapsed.plan.warnings == {}


def test_events_from_before_there_were_tools_are_reported(tmp_path: Path) -> None:
    """A time of 0, or seconds read as milliseconds, is found here and not at the service."""
    old = [row(key="a", at=0), row(key="b", at=253_402_300_799_000), row(key="c", at=1_104_537_599_999_999)]
    made = planned(tmp_path, [row(key="k"), *old])
    assert (made.plan.verdict, made.plan.warnings) == ("warnings", {"old_timestamp": 3})
    example = made.plan.examples["old_timestamp"]
    assert (example.part, example.row) == ("0.jsonl", 2)
    assert "1970-01-01T00:00:00Z" in example.detail
    assert planned(tmp_path / "exact", [row(key="k", at=1_104_537_600_000_000)]).plan.warnings == {}


def test_a_plan_that_would_send_nothing_is_not_ready(tmp_path: Path) -> None:
    """The files, the window or the mapping are wrong; one event is enough. The numbers in the sentence add up."""
    rows = [row(key="a"), row(key="b"), row(key="b"), {"skip": "not_wanted"}, row(id="")]
    source = write(tmp_path / "a.jsonl", rows)
    made = make_plan(tmp_path / "plan", [source]).plan
    assert made.sentence == "Plan: 2 events to send, from 2 of 5 rows in 1 file; 2 skipped, 1 rejected."
    made = make_plan(tmp_path / "none", [source], until=0).plan
    assert [gate.name for gate in made.gates if gate.level == "stop"] == ["zero_events"]
    assert made.sentence == "Plan: nothing to send, from 0 of 5 rows in 1 file; 5 skipped, 0 rejected."
    assert run_checks(facts(events=1)) == []
    assert [finding.name for finding in run_checks(facts(events=0))] == ["zero_events"]


def test_a_check_is_one_function(tmp_path: Path) -> None:
    """A function with the decorator is run with the others, and stops a plan by its level."""
    try:

        @check("too_quiet", "stop")
        def too_quiet(facts: PlanFacts) -> str | None:
            """A plan of one event is worth a look."""
            return "one event is not much" if facts.phases["events"] == 1 else None

        made = make_plan(tmp_path / "plan", [write(tmp_path / "a.jsonl", [row(key="k")])])
    finally:
        CHECKS.pop()
    assert found(made.plan.gates) == [Finding("too_quiet", "stop", "one event is not much")]
    assert made.plan.verdict == "not-ready"


def test_a_plan_without_findings_is_ready(tmp_path: Path) -> None:
    """No failed check, no warning. Duplicates are a count: every export has some, and there is nothing to do about
    them."""
    plan = make_plan(tmp_path / "plan", [write(tmp_path / "a.jsonl", [row(key="k"), row(key="k")])]).plan
    assert (plan.verdict, plan.ready, found(plan.gates), plan.warnings) == ("ready", True, [], {})
    assert plan.skips == {"duplicate_event": 1}


def test_rows_of_one_key_that_are_different_events_stop_the_plan(tmp_path: Path) -> None:
    """Another event name, UTC day or person: the first pairs are named, and a person may accept them."""
    rows = [
        row("Signup", key="o-1"), row("Paid", key="o-1", at=THEN + 5), row("Paid", key="o-2"),
        row("Paid", key="o-2", at=THEN + DAY), row("Paid", key="o-2", at=THEN + DAY, id="u-2"), row("Paid", key="o-3"),
    ]  # fmt: skip
    file = write(tmp_path / "a.jsonl", rows)
    made = make_plan(tmp_path / "plan", [file])
    accepted = make_plan(tmp_path / "accepted", [file], key_conflicts=True)
    gate, allowed = (next(gate for gate in one.plan.gates if gate.name == "key_not_unique") for one in (made, accepted))
    assert (gate.level, made.plan.ready, made.plan.skips) == ("stop", False, {"superseded": 3})
    assert gate.detail == (
        "3 rows are left out because a different event has the same key: row 1 of a.jsonl (Signup,"
        " 2023-09-23) and row 2 of a.jsonl (Paid, 2023-09-23); row 3 of a.jsonl (Paid, 2023-09-23) and row 4 of"
        " a.jsonl (Paid, 2023-09-24); row 5 of a.jsonl (Paid, 2023-09-24) and row 4 of a.jsonl (Paid, 2023-09-24) of"
        " another person"
    )
    assert (allowed.level, accepted.plan.verdict, accepted.plan.events) == ("warning", "warnings", made.plan.events)


def test_another_version_of_one_event_is_not_a_conflict(tmp_path: Path) -> None:
    """A later receive time, other properties, a time that changed within its day, the id that a merge left: copies.
    Rows without a key of their own are not compared either."""
    again = row(key="k", got=THEN + 2, at=THEN + HOUR, id="merged", plan="pro")
    merge = row(id="merged", link="u-1", kind="alias")
    rows = [row(key="k", got=THEN + 1), again, merge, row("Signup"), row("Paid"), row("Paid")]
    made = planned(tmp_path, rows, collapse_identical=True)
    assert "key_not_unique" not in {gate.name for gate in made.plan.gates}


def test_every_check_has_advice_and_is_in_the_docs() -> None:
    """What to do, and a row in the tables that says what it finds and what changes it."""
    docs = ROOT / "docs" / "use"
    pages = "".join(page.read_text("utf-8") for page in (docs / "reading-a-plan.md", docs / "jobs.md"))
    for name in sorted({one.name for one in CHECKS}):
        assert len(ADVICE[name]) > 20, name
        assert f"`{name}`" in pages
