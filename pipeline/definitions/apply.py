"""Changes definitions at the target as planned, and undoes it.

Before a definition is changed, its id is written to the journal, a file next to the plan, durably. So a stopped run can
be repeated, and `undo_plan` restores a field only if this plan may have changed it and it has the plan's value.
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
from pipeline.text import pluralize

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


class Journal:
    """The ids of definitions whose change was begun and not undone, in a file of lines."""

    def __init__(self, plan: Path) -> None:
        self.path = journal_of(plan)
        self.begun: dict[str, None] = {}
        for line in self.path.read_text("utf-8").splitlines() if self.path.exists() else ():
            word, _, id = line.partition(" ")  # the last line may be cut: then nothing was sent for it
            if word == "begin":
                self.begun[id] = None
            elif word == "undone":
                self.begun.pop(id, None)

    def write(self, word: str, id: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"\n{word} {id}\n")  # the line before may be cut
            file.flush()
            os.fsync(file.fileno())


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


def apply_plan(file: Path, client: ManagementClient, *, dry_run: bool = False) -> Result:
    """Make every change of a plan that was not made yet. A field that the target refuses is reported, and the others
    are set. Raises StalePlan, before anything is changed, if a definition is not as it was planned."""
    plan, journal = load_plan(file, client), Journal(file)
    target = read_target(client)
    todo: list[tuple[Change, Fields]] = []
    stale = []
    for change in plan.changes:
        now = target[change.id].fields if change.id in target else None
        if now is None:
            stale.append(f"{change.kind} {change.name}: the target no longer has it")
            continue
        before, after = change.before, change.after
        mine = [after, before] if change.id in journal.begun else [before]
        other = [name for name in after if not any(same(now[name], one[name]) for one in mine)]
        if other and not all(same(now[name], value) for name, value in after.items()):
            stale += [f"{change.kind} {change.name}: {name} is now {now[name]!r}" for name in other]
        elif left := {name: value for name, value in change.set.items() if not same(now[name], value)}:
            todo.append((change, left))
    if stale:
        raise StalePlan(
            f"the target changed since the plan: {'; '.join(stale[:5])}{'; …' if len(stale) > 5 else ''}",
            differences=stale,
            hint="plan again into a new file; this run changed nothing",
        )
    refused: list[LeftOut] = []
    changed = 0
    for change, left in () if dry_run else todo:
        journal.write("begin", change.id)
        found = list(_set(client, change, left))
        refused += found
        changed += len(found) < len(left)
    return Result(APPLIED, dry_run, len(todo) if dry_run else changed, len(plan.changes) - len(todo), refused)


def undo_plan(file: Path, client: ManagementClient, *, dry_run: bool = False) -> Result:
    """Restore what was there before the plan was applied, the latest change first. A field that has neither its value
    of before nor that of the plan was changed by somebody: it is left as it is, and reported."""
    plan, journal = load_plan(file, client), Journal(file)
    target = read_target(client)
    refused: list[LeftOut] = []
    changed = already = 0
    for change in reversed([one for one in plan.changes if one.id in journal.begun]):
        now = target[change.id].fields if change.id in target else None
        before, after = change.before, change.after
        if now is None:
            refused.append(LeftOut("gone", change.kind, change.name))
            continue
        theirs = [name for name in after if not (same(now[name], before[name]) or same(now[name], after[name]))]
        refused += [LeftOut("theirs", change.kind, change.name, name, now[name]) for name in theirs]
        left = {name: before[name] for name in after if same(now[name], after[name]) and now[name] != before[name]}
        found = list(_set(client, change, left)) if left and not dry_run else []
        refused += found
        changed, already = changed + bool(left), already + (not left and not theirs)
        if not dry_run and not found:
            journal.write("undone", change.id)
    return Result(UNDONE, dry_run, changed, already, refused)


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


def in_words(result: Result) -> str:
    """The numbers of a result as a sentence."""
    verb = "restore" if result.format == UNDONE else "change"
    verb = f"Would {verb}" if result.dry_run else f"{verb.capitalize()}d"
    others = f"{result.already:,} already so; {pluralize(len(result.refused), 'field')} not set"
    return f"{verb} {pluralize(result.changed, 'definition')}; {others}."
