"""What became of a row of the export, of an event, or of a person: by what a plan and its ledger hold, nothing else.

    result   the object that says it
    names    which row FILE:ROW is, and what is near an unknown name
    rows     rows, their events, copies and requests
    people   the ids of a person, and the merges, groups and profiles that are sent

A plan has a row of facts for each event, so rows are looked up there. It has the text of a row only if the row is in
the sample of `plan --pairs`, or was rejected; what it does not have is stated, never computed again.
"""

from __future__ import annotations

from pipeline.errors import UsageError
from pipeline.options import ExplainOptions
from pipeline.plan.requests.query import opened
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.explain.names import place_named, unknown, uuid_named
from pipeline.report.explain.result import Explanation
from pipeline.report.explain.rows import Explainer
from pipeline.text import quoted


def explain(plan: Plan, directory: Directory, asked: str | None, options: ExplainOptions) -> Explanation:
    """What became of `FILE:ROW`, of the event with a uuid, or of a distinct_id; with None, of the rows of the sample.
    Raises UsageError for what the plan does not have, BrokenLedger, UnsafePlan."""
    with opened(directory) as database:
        explainer = Explainer(plan, directory, database, options)
        if asked is None:
            if not explainer.sampled:
                raise UsageError(
                    f"{directory.name} has no sample of rows",
                    hint=f"name a row: backcast explain {quoted(directory.name)} FILE:ROW",
                )
            return explainer.of_rows("", "sample", [*explainer.sampled], persons=False)
        asked = asked.encode("utf-8", "replace").decode()  # bytes of a command line that are not UTF-8
        if (halves := uuid_named(asked)) and (found := explainer.of_uuid(asked, *halves)):
            return found
        if place := place_named(plan, asked):
            return explainer.of_rows(asked, "row", [place])
        if person := explainer.people.of_id(asked):
            return explainer.result(asked, "id", persons=[person])
        raise unknown(plan, directory, database, asked)
