"""What became of a row of the export, of an event, or of a person: by what a plan and its ledger hold, nothing else.

    result   the object that says it
    names    which row FILE:ROW is, and what is near an unknown name
    known    what the plan and its ledger have of events, requests, merges, groups, profiles and people
    rows     rows, their events and copies

A plan has a row of facts for each event, so rows are looked up there. It has the text of a row only if the row is in
the sample of `plan --pairs`, or was rejected; what it does not have is stated, never computed again.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.errors import UsageError
from pipeline.ledger import read_summary
from pipeline.options import ExplainOptions
from pipeline.plan.requests.query import opened
from pipeline.plan.samples.source_pairs import Shown
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.explain.known import SENT_FIRST, Known
from pipeline.report.explain.names import RowPlace, place_named, unknown, uuid_named
from pipeline.report.explain.result import Explanation, Person, Update
from pipeline.report.explain.rows import Rows, Sampled, sampled_rows
from pipeline.report.state import read_status
from pipeline.text import quoted


def explain(plan: Plan, directory: Directory, asked: str | None, options: ExplainOptions) -> Explanation:
    """What became of `FILE:ROW`, of the event with a uuid, or of a distinct_id; with None, of the rows of the sample.
    Raises UsageError for what the plan does not have, BrokenLedger, UnsafePlan."""
    asked = asked and asked.encode("utf-8", "replace").decode()  # bytes of a command line that are not UTF-8
    with opened(directory) as database:
        known, shown = Known(plan, directory, database), Shown(options.show_values, options.show_ids)
        sampled = sampled_rows(known)
        kind, places, updates, persons = _named(known, sampled, asked)
        rows = Rows(known, shown, sampled, places)
        explained = [*rows]
        if kind in ("row", "uuid") and places:
            persons = [*rows.persons()]
    summary = read_summary(known.of.ledger, most=0)
    to = summary.history.to if summary.history else ""
    return Explanation(
        directory.name, plan.digest, read_status(plan, directory).state, asked or "", kind, known.stage, to,
        summary.totals.refused, *shown, explained, updates, persons,
    )  # fmt: skip


def _named(
    known: Known, sampled: Sampled, asked: str | None
) -> tuple[str, Sequence[RowPlace], Sequence[Update], Sequence[Person]]:
    """What was asked for: its kind, and its rows, or its updates and people. An event that several rows have is that of
    the row that is sent."""
    if asked is None:
        if sampled:
            return "sample", [*sampled], [], []
        name = known.directory.name
        raise UsageError(f"{name} has no sample of rows", hint=f"name a row: backcast explain {quoted(name)} FILE:ROW")
    if halves := uuid_named(asked):
        hi, lo = halves
        if facts := known.facts([hi], [lo], "hi, lo", SENT_FIRST, 1):
            return "uuid", [RowPlace(facts[0].part, facts[0].row)], [], []
        uuid = asked.lower()  # an id may be a uuid, too
        if updates := [one for one in known.updates([uuid]) if one.uuid == uuid]:
            return "uuid", [], updates, [known.person(one.distinct_id) for one in updates]
    if place := place_named(known.plan, asked):
        return "row", [place], [], []
    if person := known.person_with_events(asked):
        return "id", [], [], [person]
    raise unknown(known.plan, known.directory, known.database, asked)
