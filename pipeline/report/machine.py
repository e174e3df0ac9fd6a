"""The documented, versioned objects of `--json`, and the files report.json and report.html."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from pipeline.errors import BackcastError
from pipeline.files import private, write_atomically, write_json
from pipeline.models import Finding, OwnCode
from pipeline.plan.in_bucket import copy_results
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.facts import Coverage, Drift, HoursSeal
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.contents import NO_RESULTS, Report, Results, build_report, phases_of
from pipeline.report.page.check_words import command_of
from pipeline.report.results import status_result
from pipeline.report.sections.people import merges
from pipeline.report.state import read_status
from pipeline.report.wording import advice_of
from pipeline.text import printable

FORMAT = "backcast.report/1"
RESULTS = ("rehearsal", "rehearsed", "applied", "verification", "project")
MAX_WARNING = 1_000
"""Characters of a warning that are shown."""


def plan_object(plan: Plan, path: Path | str) -> dict[str, object]:
    """The object of `plan --json`: the plan at `path`, without the fields that only sealing needs.

    A part that belongs to a table of a warehouse has a `table`.
    """
    rows = plan.rows
    return {
        "format": plan.format,
        "plan": str(path),
        **{name: getattr(plan, name) for name in ("digest", "verdict", "tool", "zone", "first", "last")},
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
        "gates": [_check_object(gate, plan, str(path)) for gate in plan.gates],
        "notices": plan.notices,
        **code_object(plan),
        **({"import_plan": plan.import_plan} if plan.import_plan else {}),
        **({"plugins": plan.plugins} if plan.plugins else {}),
        **({"coverage": msgspec.to_builtins(plan.coverage)} if isinstance(plan.coverage, Coverage) else {}),
        **({"hours": msgspec.to_builtins(plan.hours)} if isinstance(plan.hours, HoursSeal) else {}),
        **({"drift": msgspec.to_builtins(plan.drift)} if isinstance(plan.drift, Drift) else {}),
        **({"tracking_plan": msgspec.to_builtins(plan.tracking_plan)} if plan.tracking_plan else {}),
    }


def _check_object(gate: Finding, plan: Plan, directory: str) -> dict[str, object]:
    """What a check found, with what to do about it and the command that shows more, if there are any."""
    about = {"advice": advice_of(gate), "command": command_of(gate, plan, directory)}
    return {**msgspec.to_builtins(gate), **{name: text for name, text in about.items() if text}}


def code_object(plan: Plan) -> dict[str, object]:
    """The mapping's own code, by file, function and digest; nothing for a mapping without any."""
    code = plan.mapping.python
    if not isinstance(code, OwnCode):
        return {}
    return {"python": {"file": code.file, "function": code.function, "digest": code.digest}}


def report_object(report: Report) -> dict[str, object]:
    """The object of report.json: the plan's, the details of its counts, and the results of later steps.

    `months` counts events to send by name and UTC month ("" for names beyond the 100 most frequent). Records of
    `rejects` are masked and cut. `people` has ids unmasked, and no value of any property: `approve_merges` is the
    number that `apply --approve-merges` asks for, `some_pairs` are rows of identities.parquet. `state` is the plan's
    (`report.state`). `rehearsal` is the run against the embedded local service and `rehearsed` what was read back
    there; `applied` is what the ledger has, and `verification` what was read back from its target. `project` is the
    target's, by name and address, if a personal key could read it. Each is null until it was done. `preflight` is there
    where the target was asked before.
    """
    plan = report.plan
    return {
        "format": FORMAT,
        "state": report.state,
        "plan": plan_object(plan, report.name),
        "sentence": plan.sentence,
        "months": report.months,
        "skips": report.skips,
        "rejects": report.rejects,
        "warnings": report.warnings,
        "people": {
            "approve_merges": merges(plan),
            "identities": plan.people.identities,
            "some_pairs": report.pairs,
            "groups": plan.people.groups,
            "persons": plan.people.persons,
            "profiles": plan.people.profiles,
        },
        "zone_evidence": plan.zone_evidence,
        "mapping": {"name": plan.mapping.name, "digest": plan.mapping.digest} | code_object(plan),
        "options": plan.options,
        "limits": plan.limits,
        **{name: getattr(plan, name) for name in ("target", "version", "libraries", "files", "notices")},
        "unproved": report.unproved,
        **{name: getattr(report.results, name) for name in RESULTS},
        **({"canary": report.results.canary} if report.results.canary is not None else {}),
        **({"preflight": report.preflight} if report.preflight is not None else {}),
    }


@private()
def write_report(directory: Directory, plan: Plan, new: Results = NO_RESULTS) -> None:
    """Write report.json and report.html, each whole or not at all. Raises BrokenLedger, UnsafePlan, OSError.

    Results in an earlier report of the same plan stay in it unless `new` replaces them; the state of the plan is read
    from the ledger each time. Batches in doubt and refused events are not listed: `backcast status` shows them.
    """
    from pipeline.report.page.html import render

    status = read_status(plan, directory, new)
    results = status.results
    if status.summary.history is not None:
        applied = status_result(plan, status)
        applied = msgspec.structs.replace(applied, verified=None, rehearsed=None, canary=None, doubts=[], refusals=[])
        results = msgspec.structs.replace(results, applied=applied)
    report = build_report(directory, plan, results, status.state)
    write_atomically(directory.report_html, render(report).encode("utf-8", "backslashreplace"))
    write_json(directory.report_json, report_object(report))


def update_report(directory: Directory, plan: Plan, warn: Callable[[str], None], new: Results = NO_RESULTS) -> None:
    """Write the report again after a run, and copy it to the bucket of a plan that is in one. Where that fails, `warn`
    gets a line: the run itself did not fail."""
    try:
        write_report(directory, plan, new)
    except (OSError, BackcastError) as error:
        warn(printable(f"the report of the plan could not be written: {error}", MAX_WARNING))
    copy_results(directory, lambda line: warn(printable(line, MAX_WARNING)))
