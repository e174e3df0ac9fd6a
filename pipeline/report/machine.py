"""What programs read: the documented, versioned objects of DESIGN 9, and the files report.json and report.html."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from pipeline.errors import BackcastError
from pipeline.plan.directory import Directory, write_atomically
from pipeline.plan.sealed import Plan
from pipeline.report.contents import Report, Results, gather, phases_of
from pipeline.report.people import merges
from pipeline.report.results import ApplyResult, StatusResult, VerifyResult

FORMAT = "backcast.report/1"


def plan_object(plan: Plan, path: Path | str) -> dict[str, object]:
    """The object of `plan --json`: the plan at `path`, without what only sealing needs. Ready for msgspec or json.

    A part that a table of a warehouse was told of by its path has a `table`.
    """
    rows = plan.rows
    return {
        "format": plan.format,
        "plan": str(path),
        "digest": plan.digest,
        "verdict": plan.verdict,
        "tool": plan.tool,
        "zone": plan.zone,
        "first": plan.first,
        "last": plan.last,
        "rows": {"read": rows.read, "mapped": rows.mapped, "skipped": rows.skipped, "rejected": rows.rejected},
        "events": {"made": plan.events.made, "phases": dict(phases_of(plan))},
        "parts": [
            {"path": part.path, "bytes": part.bytes, "digest": part.digest, "rows": part.rows}
            | ({"table": part.table} if part.table else {})
            for part in plan.parts
        ],
        "skips": dict(plan.skips),
        "rejects": dict(plan.rejects),
        "warnings": dict(plan.warnings),
        "gates": [{"name": gate.name, "level": gate.level, "detail": gate.detail} for gate in plan.gates],
    }


def report_object(report: Report) -> dict[str, object]:
    """The object of report.json: the plan's, what stands behind its counts, and what became of it.

    `months` counts events to send by name and UTC month ("" for names beyond the 100 most frequent). Records of
    `rejects` are masked and cut. `people` has ids as they stand, and no value of any property: `approve_merges` is the
    number that `apply --approve-merges` asks for, `some_pairs` are rows of identities.parquet. `rehearsal` is the run
    against the embedded local service and `rehearsed` what was read back there; `applied` is where the plan stands, and
    `verification` what was read back from its target. Each is null until it was made.
    """
    plan = report.plan
    return {
        "format": FORMAT,
        "plan": plan_object(plan, report.name),
        "sentence": plan.sentence,
        "months": report.months,
        "skips": report.skips,
        "rejects": report.rejects,
        "warnings": report.warnings,
        "people": _people(report),
        "zone_evidence": plan.zone_evidence,
        "mapping": {"name": plan.mapping.name, "digest": plan.mapping.digest},
        "options": plan.options,
        "limits": plan.limits,
        "target": plan.target,
        "version": plan.version,
        "libraries": plan.libraries,
        "files": plan.files,
        "notices": plan.notices,
        "unproved": report.unproved,
        "rehearsal": report.results.rehearsal,
        "rehearsed": report.results.rehearsed,
        "applied": report.results.applied,
        "verification": report.results.verification,
    }


def _people(report: Report) -> dict[str, object]:
    found = report.plan.people
    return {
        "approve_merges": merges(report.plan),
        "identities": found.identities,
        "some_pairs": report.pairs,
        "groups": found.groups,
        "persons": found.persons,
        "profiles": found.profiles,
    }


def encode(value: object) -> bytes:
    """JSON for people and programs: indented, its last line ended."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


class _Earlier(Results, frozen=True):
    plan: Mapping[str, object] = {}


def write_report(
    directory: Directory,
    plan: Plan,
    *,
    rehearsal: ApplyResult | None = None,
    rehearsed: VerifyResult | None = None,
    applied: StatusResult | None = None,
    verification: VerifyResult | None = None,
) -> None:
    """Write report.json and report.html, each whole or not at all.

    Results that an earlier report of the same plan holds stay in it when none are given here. Of `applied` the single
    doubts and refusals are left out: they change, and `backcast status` shows them.
    """
    from pipeline.report.html import render

    if applied is not None:
        applied = msgspec.structs.replace(applied, verified=None, doubts=[], refusals=[])
    before = earlier_results(directory, plan)
    report = gather(
        directory,
        plan,
        Results(
            rehearsal or before.rehearsal,
            rehearsed or before.rehearsed,
            applied or before.applied,
            verification or before.verification,
        ),
    )
    write_atomically(directory.report_html, render(report).encode("utf-8", "backslashreplace"))
    write_atomically(directory.report_json, encode(report_object(report)))


def earlier_results(directory: Directory, plan: Plan) -> Results:
    """What the report beside the plan says already; nothing when it is of another plan, or none that we wrote."""
    try:
        earlier = msgspec.json.decode(directory.report_json.read_bytes(), type=_Earlier)
    except (OSError, msgspec.MsgspecError):
        return Results()
    return earlier if earlier.plan.get("digest") == plan.digest else Results()


def add_applied(directory: Directory, plan: Plan, applied: StatusResult) -> str:
    """Add where the plan stands to its report; why that could not be done, or "".

    What was sent is in the ledger, so a report that cannot be written is no failure of the run.
    """
    try:
        write_report(directory, plan, applied=applied)
    except (OSError, BackcastError) as error:
        return f"the report of the plan could not be written: {error}"
    return ""
