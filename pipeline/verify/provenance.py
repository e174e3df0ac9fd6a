"""The properties by which events of an import differ from a project's own
(docs/know/service.md#what-backcast-does)."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.encoder.event import provenance
from pipeline.plan.sealed.manifest import Plan


def provenance_of(plan: Plan) -> dict[str, str]:
    """The strings that every event of a plan carries as properties; empty if it was planned without provenance."""
    marks = provenance(plan.tool, plan.options)
    return {name: value for name, value in marks.items() if isinstance(value, str)}


def having(marks: Mapping[str, str]) -> str:
    """The condition of a query for events with these properties, or "".

    A string with a backslash is left out: the two services read it differently.
    """
    return " and ".join(
        "JSONExtractString(properties, '{}') = '{}'".format(name, text.replace("'", "''"))
        for name, text in marks.items()
        if "\\" not in text
    )
