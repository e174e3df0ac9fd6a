"""The properties by which events of an import differ from a project's own
(docs/know/service.md#what-backcast-does)."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.encoder.event import provenance
from pipeline.option_types import MARKS
from pipeline.plan.sealed.manifest import Plan
from pipeline.verify.findings import PlanCounts
from pipeline.verify.landed import Asker

IMPORT_PLAN, IMPORT_ROW = MARKS.values()
_MOST_PLANS = 50_000


def provenance_of(plan: Plan) -> dict[str, str]:
    """The strings that every event of a plan carries as properties; empty if it was planned without provenance."""
    marks = provenance(plan.tool, plan.options)
    return {name: value for name, value in marks.items() if isinstance(value, str)}


def marks_of(plan: Plan) -> dict[str, str]:
    """The strings by which the events of this plan alone are found: its provenance, with its `import_plan` if it has
    one.

    Not for comparing events: one that another plan sent, too, may have the mark of that plan.
    """
    return provenance_of(plan) | ({IMPORT_PLAN: plan.import_plan} if plan.import_plan else {})


def count_plans(client: Asker, plan: Plan, where: str) -> PlanCounts | None:
    """The events at the target that meet a condition, by their `import_plan`; None if the plan has none."""
    own = plan.import_plan
    if not own:
        return None
    mark = f"JSONExtractString(properties, '{IMPORT_PLAN}')"
    rows = client.query(
        f"select {mark} as plan, count(*) as events from events{where and f' where {where}'}"
        f" group by plan order by events desc, plan limit {_MOST_PLANS}"
    ).results
    counts = {str(name): int(events) for name, events in rows}
    return PlanCounts(own, counts.pop(own, 0), counts)


def having(marks: Mapping[str, str]) -> str:
    """The condition of a query for events with these properties, or "".

    A string with a backslash is left out: the two services read it differently.
    """
    return " and ".join(
        "JSONExtractString(properties, '{}') = '{}'".format(name, text.replace("'", "''"))
        for name, text in marks.items()
        if "\\" not in text
    )
