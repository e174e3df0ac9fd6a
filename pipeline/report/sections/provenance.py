"""What the report cannot prove, and what the plan was built from."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pipeline.mapper.language.what_decides import what_decides
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.contents import Report
from pipeline.report.registry import Values, on_page
from pipeline.report.sections.rows import MOST_ON_PAGE
from pipeline.timestamps import format_utc


@on_page(60, "unproved")
def unproved(report: Report) -> Values:
    """What needs other evidence than this report."""
    return {"sentences": report.unproved}


@on_page(120, "provenance")
def provenance(report: Report) -> Values:
    """Digests, options, versions, and what decides in the mapping."""
    plan = report.plan
    return {
        "options": options_shown(plan), "parts": plan.parts[:MOST_ON_PAGE], "mapping": what_decides(plan.mapping.text),
    }  # fmt: skip


def options_shown(plan: Plan) -> list[tuple[str, str]]:
    """Each option that was given and each limit, by name; times as ISO 8601."""
    options = msgspec.to_builtins(plan.options).items()
    shown = [(name, _option(name, value)) for name, value in options if value not in (None, "", (), [], {})]
    return shown + [(name, f"{value:,}") for name, value in msgspec.to_builtins(plan.limits).items()]


def _option(name: str, value: object) -> str:
    if name in ("as_of", "since", "until") and isinstance(value, int):
        return format_utc(value)
    if name == "zones" and isinstance(value, list | tuple):
        return ", ".join(f"{zone} from {since}" if since else str(zone) for zone, since in value)
    if name in ("group_types", "provenance") and isinstance(value, list | tuple):
        return ", ".join(value)
    if name == "scope" and isinstance(value, Mapping):
        out = [str(event) for event, keep in value.items() if not keep]
        return f"{len(value) - len(out):,} of {len(value):,} event names; out of scope: {', '.join(out[:MOST_ON_PAGE])}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={setting}" for key, setting in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
