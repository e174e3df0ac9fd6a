"""Gates stop a plan with numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import UsageError
from pipeline.plan.gates import parse_allowed, rejects_gate, zero_events_gate
from tests.tiny import make_plan, row, write


@pytest.mark.parametrize(
    ("text", "rejected", "read", "stops"),
    [
        ("0", 0, 0, False),
        ("0", 1, 1000, True),
        ("3", 3, 10, False),
        ("3", 4, 10, True),
        ("29%", 29, 100, False),
        ("29%", 30, 100, True),
        ("0.1%", 3, 3000, False),
        ("0.1%", 4, 3000, True),
        ("0.07%", 7, 10_000, False),
        ("100%", 5, 5, False),
        ("0%", 1, 5, True),
    ],
)
def test_so_many_rejects_are_allowed_and_no_more(text: str, rejected: int, read: int, stops: bool) -> None:
    """A number, or a percentage of all rows that is exact at its border."""
    assert (rejects_gate(rejected, read, parse_allowed(text)) is not None) == stops


@pytest.mark.parametrize("text", ["", "-1", "1.5", "%", "1e3", "101%", "5 rows", "١٢", "1,5%"])
def test_an_allowance_that_is_no_number_is_a_usage_error(text: str) -> None:
    """With an example of how to write it."""
    with pytest.raises(UsageError) as caught:
        parse_allowed(text)
    assert "--max-rejects" in caught.value.hint


def test_the_gate_says_how_many_how_much_and_what_may_be() -> None:
    """So that a person can decide without looking further."""
    gate = rejects_gate(2, 400, parse_allowed("0.25%"))
    assert gate is not None
    assert (gate.level, gate.detail) == ("stop", "2 of 400 rows (0.50%) cannot be sent; 0.25% may be")


def test_a_plan_with_too_many_rejects_is_not_ready(tmp_path: Path) -> None:
    """None are allowed unless somebody says so."""
    file = write(tmp_path / "a.jsonl", [row(key="k"), row(id=""), "{"])
    strict = make_plan(tmp_path / "strict", [file], allowed=parse_allowed("1"))
    assert [(gate.name, gate.level) for gate in strict.plan.gates] == [("max_rejects", "stop")]
    assert (strict.plan.verdict, strict.plan.ready) == ("not-ready", False)
    lax = make_plan(tmp_path / "lax", [file], allowed=parse_allowed("2"))
    assert (lax.plan.gates, lax.plan.ready, lax.plan.rejects) == ([], True, {"bad_json": 1, "missing_distinct_id": 1})


def test_a_plan_that_would_send_nothing_is_not_ready(tmp_path: Path) -> None:
    """Its files, its window or its mapping are the wrong ones."""
    made = make_plan(tmp_path / "plan", [write(tmp_path / "a.jsonl", [row()])], until=0)
    assert [gate.name for gate in made.plan.gates] == ["zero_events"]
    assert made.plan.sentence == "Plan: nothing to send; 1 row read, 1 skipped, 0 rejected."


def test_some_event_passes_the_gate() -> None:
    """One is enough."""
    assert zero_events_gate(1) is None


def test_copies_only_warn(tmp_path: Path) -> None:
    """Since every export holds some."""
    made = make_plan(tmp_path / "plan", [write(tmp_path / "a.jsonl", [row(key="k"), row(key="k")])])
    assert [(gate.name, gate.level) for gate in made.plan.gates] == [("duplicates", "warning")]
    assert (made.plan.verdict, made.plan.ready) == ("warnings", True)


def test_a_plan_without_a_word_of_doubt_is_ready(tmp_path: Path) -> None:
    """No gate, no warning."""
    made = make_plan(tmp_path / "plan", [write(tmp_path / "a.jsonl", [row(key="k")])])
    assert (made.plan.verdict, made.plan.gates, made.plan.warnings) == ("ready", [], {})
