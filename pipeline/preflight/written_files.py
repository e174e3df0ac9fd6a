"""What to know before importing a plan's files: what their format cannot carry, and what the importer changes.

Each fact comes from docs/know/service.md#own-importer. No service is asked.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.delivery.written_files import PHASE_FOLDERS
from pipeline.plan.sealed.manifest import Plan
from pipeline.preflight.run import Preflight
from pipeline.report.records import Check
from pipeline.text import pluralize

JOB_RATE = 1_000
"""Events a second that one job of the importer sends."""


def check_files(plan: Plan | None) -> Preflight:
    """The checks for a target `file:DIR` or a bucket, with those that concern a plan."""
    return Preflight(tuple(_checks(plan)))


def _checks(plan: Plan | None) -> Iterator[Check]:
    yield Check("format", "ok", "JSON lines, uncompressed, of the importer's content type posthog")
    yield Check("historical", "ok", "the lines cannot carry the flag historical_migration; the importer sets it itself")
    phases = {name: count for name, count in plan.events.phases.items() if count} if plan is not None else {}
    if len(phases) > 1:
        folders = ", ".join(PHASE_FOLDERS[name] for name in PHASE_FOLDERS if name in phases)
        yield Check(
            "order",
            "warning",
            "lines cannot carry an order between ids: an import of everything at once may number group types, merge"
            " people and set profiles in another order than planned",
            f"import one folder after the other, each by its own migration, after the one before is done: {folders}",
        )
    if phases.get("identities"):
        merges = pluralize(phases["identities"], "merge")
        yield Check(
            "merges",
            "warning",
            f"{merges} will be imported, which cannot be undone",
            "review them in the plan's report",
        )
    yield Check(
        "again",
        "warning",
        "do not import these files twice: the copies have the same uuids, but the service removes them only later,"
        " and the importer sends a file again if a second migration is made of it",
        "make one migration for each folder, and let support resume a paused one",
    )
    unsafe = plan.warnings.get("unsafe_integer", 0) if plan is not None else 0
    yield Check(
        "values",
        "warning" if unsafe else "ok",
        "the importer reads every value and writes it again: 1.10 becomes 1.1, a number that 64 bits do not hold is"
        " rounded, and a property organization_id of digits becomes a number"
        + (f"; the plan has {pluralize(unsafe, 'such integer')} beyond 2^53" if unsafe else ""),
        "send with `backcast apply --to us|eu` if such values matter" if unsafe else "",
    )
    yield Check("added", "ok", "the importer adds $import_job_id and $geoip_disable to the properties of each event")
    if plan is not None:
        hours = plan.events.made / JOB_RATE / 3_600
        yield Check(
            "duration", "ok", f"one migration sends {JOB_RATE:,} events a second: {hours:,.1f} hours for this plan"
        )
