"""The columns that a loader added, which are left out."""

from __future__ import annotations

from pipeline.mapper.inspection.field_uses import LOADER
from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, finding_of
from pipeline.text import are, pluralize


@check("loader_columns", "notice")
def loader_columns(facts: PlanFacts) -> Finding | None:
    """Columns of a loader have values in rows that are sent."""
    fields = facts.coverage.fields if facts.coverage is not None else []
    found = [(one.field, one.by[LOADER]) for one in fields if LOADER in one.by]
    sentence = f"{pluralize(len(found), 'column')} of a loader {are(len(found))} left out"
    return finding_of(sentence, [f"{name} ({pluralize(rows, 'row')})" for name, rows in found], most=10)
