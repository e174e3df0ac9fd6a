"""The result of a verification is described by kind, with its depth, and the same in every place."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from pipeline.report.terminal.verification_view import show_verification
from pipeline.report.verification_words import depth, verdict
from pipeline.verify.findings import CellCounts, ExtraEvents, FoundCounts, PeopleCheck, ValueCheck, Verification


def result(*, values: ValueCheck | None = None, **counts: Any) -> Verification:
    people = PeopleCheck(wrong={"merge_undone": 1}) if counts.pop("people", 0) else PeopleCheck()
    proved = not people.wrong and not {"missing", "altered", "extra"} & counts.keys()
    values = values or ValueCheck("none")
    return Verification(cells=CellCounts(), events=FoundCounts(**counts), values=values, people=people, proved=proved)


def test_the_verdict_counts_every_kind() -> None:
    found = result(missing=2, altered=1, extra=3, duplicated=1, people=1)
    assert verdict(found) == ("Not proved: 2 missing, 1 altered, 1 duplicated, 2 extra, 1 merge not in effect.")
    assert verdict(result(missing=2)) == "Not proved: 2 events are missing."


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (ValueCheck("none"), "no values were compared"),
        (
            ValueCheck("sample", 225, 9),
            "every property of 225 events compared, a sample, up to 25 of each event name and year",
        ),
        (ValueCheck("sample", 3000, 9), "every property of 3,000 events compared, of all events"),
        (ValueCheck("all", 3000), "every property of 3,000 events compared, of all events"),
    ],
)
def test_the_depth_is_named(values: ValueCheck, words: str) -> None:
    assert depth(result(found=3000, expected=3000, values=values)) == words


def test_events_of_others_are_all_counted_and_their_mark_is_named() -> None:
    """The table has the first eight; a plan without a name has the mark of every import of its tool."""
    import msgspec

    extras = [ExtraEvents("A", f"2023-01-{day:02d}", 1) for day in range(1, 11)]
    found = msgspec.structs.replace(result(others=30), extras=extras, scope={"analytics_source": "shop"})
    shown = io.StringIO()
    show_verification(Console(file=shown, width=200), found, "plan")
    assert "22 more events of other names and days" in shown.getvalue()
    assert "the mark that every import of this tool has" in shown.getvalue()
