"""Changes definitions at the target as planned, and undoes it.

Before a definition is changed, its id is written to the journal, a file next to the plan, durably. So a stopped run can
be repeated, and an undo changes only definitions that this plan may have changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from pipeline.definitions.changes import FORMAT, Change, DefinitionPlan, Fields, LeftOut, fields_of, read_target, same
from pipeline.definitions.sources import EVENT
from pipeline.errors import StalePlan, UnsafePlan, UsageError
from pipeline.management import ManagementClient
from pipeline.management.models import ServiceObject
from pipeline.management.operations import UPDATE_EVENT, UPDATE_PROPERTY
from pipeline.management.problems import ServiceProblem
from pipeline.management.resources import read_as
from pipeline.text import some_of

APPLIED, UNDONE = "backcast.definitions-applied/1", "backcast.definitions-undone/1"


class Result(msgspec.Struct, frozen=True):
    """What a run did: `changed` definitions, `already` in that state, and the fields that are not as intended."""

    format: str
    dry_run: bool
    changed: int
    already: int
    refused: list[LeftOut]


def journal_of(plan: Path) -> Path:
    return plan.with_name(f"{plan.name}.journal")


def load_plan(file: Path, client: ManagementClient) -> DefinitionPlan:
    """The plan in a file. Raises UsageError if it has none, UnsafePlan if it is for another target or project."""
    try:
        plan = msgspec.json.decode(file.read_bytes(), type=DefinitionPlan)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {file}: {error}", hint="name the file of `definitions plan -o FILE`") from None
    known = all(one.after.keys() <= one.before.keys() == fields_of(one.kind, {}).keys() for one in plan.changes)
    if plan.format != FORMAT or not known:
        raise UsageError(f"{file} is not a plan of the format {FORMAT!r}", hint="plan again into a new file")
    if (plan.target, plan.project) != (client.base_url, client.project_id):
        raise UnsafePlan(
            f"the plan is for project {plan.project} of {plan.target}, not {client.project_id} of {client.base_url}",
            hint="give its own target and project, or plan again",
        )
    return plan


def run_plan(file: Path, client: ManagementClient, *, undo: bool = False, dry_run: bool = False) -> Result:
    """Make every change of a plan that was not made yet or, with `undo`, restore what was there before.

    A field that has neither its value of before nor, once the change is begun, that of the plan was changed by
    somebody: then nothing is changed, and StalePlan is raised; an undo reports the field and leaves it as it is. A
    field that the target refuses is reported, and the others are set.
    """
    plan, journal = load_plan(file, client), journal_of(file)
    target = read_target(client)
    begun = set(journal.read_text("utf-8").split()) if journal.exists() else set()
    todo: list[tuple[Change, Fields]] = []
    left_out: list[LeftOut] = []
    already = 0
    for change in plan.changes:
        if undo and change.id not in begun:
            continue
        if change.id not in target:
            left_out.append(LeftOut("gone", change.kind, change.name))
            continue
        now, before, after = target[change.id].fields, change.before, change.after
        # Before a change is begun, a value of the plan is somebody's own as well: an undo would remove it.
        planned = change.id in begun or all(same(now[name], value) for name, value in after.items())
        mine = (before, after) if planned else (before,)
        theirs = [name for name in after if not any(same(now[name], one[name]) for one in mine)]
        left_out += [LeftOut("theirs", change.kind, change.name, name, now[name]) for name in theirs]
        wanted = {name: before[name] for name in after} if undo else change.set
        if left := {name: wanted[name] for name in wanted if name not in theirs and now[name] != wanted[name]}:
            todo.append((change, left))
        elif not theirs:
            already += 1
    if left_out and not undo:
        differences = [
            f"{one.kind} {one.name}: " + (f"{one.field} is now {one.value!r}" if one.field else "it is gone")
            for one in left_out
        ]
        raise StalePlan(
            f"the target changed since the plan: {some_of(differences, 5, '; ')}",
            differences=differences,
            hint="plan again into a new file; this run changed nothing",
        )
    changed = len(todo) if dry_run else 0
    for change, left in () if dry_run else todo:
        if not undo:
            with journal.open("a", encoding="utf-8") as lines:
                lines.write(f"\n{change.id}\n")  # the line before may be cut
                lines.flush()
                os.fsync(lines.fileno())
        refused = list(_set(client, change, left))
        left_out += refused
        changed += len(refused) < len(left)
    return Result(UNDONE if undo else APPLIED, dry_run, changed, already, left_out)


def _set(client: ManagementClient, change: Change, fields: Fields) -> Iterator[LeftOut]:
    """Set fields of a definition: all at once or, if the target refuses that, each by itself, since some are not part
    of every organization's plan (docs/know/service.md#definitions). Yields what it refuses or ignores."""
    operation = UPDATE_EVENT if change.kind == EVENT else UPDATE_PROPERTY
    body = {"property_type" if name == "type" else name: value for name, value in fields.items()}
    try:
        served = read_as(ServiceObject, client.call(operation, change.id, body=body)).plain()
    except ServiceProblem as error:
        if error.status not in (400, 402):
            raise
        if len(fields) > 1:
            for name, value in fields.items():
                yield from _set(client, change, {name: value})
        else:
            ((name, value),) = fields.items()
            detail = f"{error.status}: {error.detail or error.code}"
            yield LeftOut("refused", change.kind, change.name, name, value, detail)
        return
    now = fields_of(change.kind, served)
    for name, value in fields.items():
        if not same(now[name], value):
            yield LeftOut("ignored", change.kind, change.name, name, value)
