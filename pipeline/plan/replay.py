"""`plan --replay DIR`: only what an earlier plan did not deliver, after the mapping or the rows were corrected.

The service has no undo, so an event that it accepted must not be sent again. What it accepted is computed again from
the export of that plan by its sealed mapping, and compared with the plan's seal on the way. The new plan leaves those
uuids out, and a check (`pipeline.plan.checks.replay`) stops it where it did not meet all of them again: their rows have
other uuids now, and would be sent twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.encoder.updates import SealedGroup
from pipeline.engines.local import Workers
from pipeline.errors import StalePlan, UnsafePlan, UsageError
from pipeline.identity.groups import group_uuid
from pipeline.ledger import BatchKey, read_batches, read_summary, state_digest
from pipeline.models import SealedOptions, Step
from pipeline.options import PlanOptions
from pipeline.plan.decisions import ALREADY_SETTLED
from pipeline.plan.sealed.contents import PlannedBlock, task_of, tasks
from pipeline.plan.sealed.directory import EVENTS, PHASES, Directory, sealed_file
from pipeline.plan.sealed.freshness import (
    open_plan,
    replay_differences,
    transform_config_for,
    workers_for,
)
from pipeline.plan.sealed.manifest import Plan, ReplayedPlan
from pipeline.plan.sealed.phases import line_blocks
from pipeline.plan.settled_events import ENTRY, NO_BLOCK, SettledEvents, mixed
from pipeline.text import are, pluralize, quoted
from pipeline.transform.block import BlockTransformer
from pipeline.transform.tasks import Task
from pipeline.uuids import Hasher

EXAMPLES = 20
_STEP = "events of the earlier plan"


class ReplayFacts(NamedTuple):
    """What the check of a replay reads: the events that the earlier plan settled, how many of them the new plan does
    not meet, and the rows of the first of those in words."""

    settled: int
    unmet: int
    examples: Sequence[str]


class Replay(msgspec.Struct, frozen=True):
    """An earlier plan that was sent, opened for a new plan of what it did not deliver. `chain` are the plans that it
    replays itself, the last one first, and before them its own."""

    chain: Sequence[tuple[Plan, Directory]]
    seal: ReplayedPlan

    @property
    def plan(self) -> Plan:
        return self.chain[0][0]

    @property
    def directory(self) -> Directory:
        return self.chain[0][1]

    @property
    def notices(self) -> list[tuple[str, str, str]]:
        """What the new plan states of it: (code, file, sentence)."""
        left_out = f"its {pluralize(self.seal.settled, 'settled event')} {are(self.seal.settled)} left out"
        where = f"plan {self.seal.digest[:12]}"
        return [("replay", where, f"only what that plan did not deliver is sent; {left_out}")]

    def read(self, scratch: Path, workers: int | None, step: Step) -> SettledEvents:
        """Everything that the plans of the chain settled. Raises StalePlan, UnreadableExport, BrokenLedger."""
        plan, directory = self.plan, self.directory
        config = transform_config_for(plan, directory)
        settled = SettledEvents(scratch)
        ranges: dict[int, list[tuple[int, int]]] = {}
        for key in read_batches(directory.ledger, "settled"):
            if key.phase == EVENTS:
                ranges.setdefault(key.block, []).append((key.first, key.last))

        def choose(planned: PlannedBlock) -> Task | None:
            ended = ranges.get(planned.sealed.number, [])
            earlier = any(copy.code == ALREADY_SETTLED for copy in planned.copies)
            return task_of(plan, planned)._replace(ended=ended) if ended or earlier else None

        with Workers(workers_for(workers, config.parts)) as pool:
            pool.configure(config)
            for _, entries in pool.walk(_entries_of_block, tasks(directory, choose)):
                settled.add(np.frombuffer(bytearray(entries), ENTRY))
                step(_STEP, settled.events, plan.events.phases.get(EVENTS, 0))
        hasher = config.compile(config.options).hasher
        for _, place in self.chain:
            for phase in PHASES:
                if phase != EVENTS:
                    settled.add(_entries_of_lines(phase, place, hasher))
        settled.finish()
        return settled

    def facts(self, settled: SettledEvents) -> ReplayFacts:
        """What the new plan met of the settled events, once it decided on all of its own."""
        unmet, places = settled.not_found(EXAMPLES)
        return ReplayFacts(settled.events, unmet, list(_rows_of(self.plan, self.directory, places)))


def open_replay(options: PlanOptions) -> Replay | None:
    """The plan that --replay names, and those that it replays; None without the option.

    Raises UsageError for a plan of which nothing is left or that belongs to a job, UnsafePlan for one that is not
    wholly sent, StalePlan where a plan that it replays itself is gone or was sent on, BrokenLedger.
    """
    if options.replay is None:
        return None
    chain = [open_plan(options.replay)]
    while (before := chain[-1][0].replays) is not msgspec.UNSET:
        if stale := replay_differences(chain[-1][0]):
            raise StalePlan(
                f"{chain[-1][1].name} cannot be replayed: {stale[0]}", differences=stale, hint="bring that plan back"
            )
        chain.append(open_plan(before.directory))
    plan, directory = chain[0]
    name = quoted(directory.name)
    if "keys.bin" in plan.files:
        raise UsageError(
            f"{directory.name} is the plan of a job's window, and those are not replayed",
            hint="correct the mapping or the files of the window; the next run of the job sends what is new",
        )
    summary = read_summary(directory.ledger, most=0)
    totals = summary.totals
    unsent = plan.events.made - totals.settled - totals.refused
    if unsent:
        raise UnsafePlan(
            f"{pluralize(unsent, 'event')} of {directory.name} {are(unsent)} not sent yet, or in doubt; what the"
            " service has is known once all were sent",
            hint=f"send the rest first: backcast apply {name} --to {quoted(_target(plan, summary.history))}",
        )
    if not (totals.refused or sum(plan.rejects.values())):
        raise UsageError(
            f"every event of {directory.name} was accepted, and no row was rejected: nothing is left to replay",
            hint="plan without --replay; rows that are new have uuids of their own",
        )
    seal = ReplayedPlan(
        plan.digest, state_digest(directory.ledger), totals.settled, directory.url or str(directory.path.resolve())
    )
    return Replay(chain, seal)


def _target(plan: Plan, history: Any) -> str:
    return (history.to if history is not None else "") or plan.target or "URL"


def inherited(options: PlanOptions, plan: Plan, directory: Directory) -> PlanOptions:
    """The options, with those of the earlier plan where none was given: two plans of one export have the same uuids
    where their options are the same. Raises UsageError."""
    sealed = plan.options
    if sealed.identities and options.identities is None:
        raise UsageError(
            f"{directory.name} was planned with --identities, whose file is not part of a plan",
            hint="give the same file again: --identities FILE",
        )
    names = {one.name for one in fields(SealedOptions)} & {one.name for one in fields(PlanOptions)}
    given: dict[str, Any] = {name: getattr(sealed, name) for name in names - {"identities"}}
    given["promoted_properties"] = "final" if sealed.promoted_properties == "final" else None
    given["timezone"] = [f"{zone}@{since}" if since else zone for zone, since in sealed.zones]
    given["exclude_ids"] = directory.excluded if sealed.excluded_ids else None
    given["mapping"], given["target"] = plan.mapping.name, plan.target
    given["max_batch_events"], given["max_batch_bytes"] = plan.limits.batch_events, plan.limits.batch_bytes
    given["settings"] = {**sealed.settings, **options.settings}
    own = {one.name for one in fields(PlanOptions) if getattr(options, one.name) != _default(one)} - {"settings"}
    merged = replace(options, **{name: value for name, value in given.items() if name not in own})
    for name in ("collapse_identical", "limit"):
        if getattr(merged, name) != given[name]:
            raise UsageError(
                f"--{name.replace('_', '-')} is not as in {directory.name}, so the same rows would have other uuids",
                hint="leave the option out: those of the earlier plan apply",
            )
    return merged


def _default(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _entries_of_block(transformer: BlockTransformer, task: Task) -> bytes:
    """ENTRY records of the events of a block that were settled, in `task.ended` or by a plan before."""
    events = transformer.planned(task, observe=True)
    decisions = {(one.row, one.position): one for one in task.duplicates}
    settled = np.zeros(events.count, bool)
    for first, last in task.ended:
        settled[first : last + 1] = True
    chosen, ordinals, index = [], [], 0
    for number, place in enumerate(zip(events.row_of, events.positions, strict=True)):
        decision = decisions.get(place)
        if decision is not None and decision.code:
            if decision.code == ALREADY_SETTLED:
                chosen.append(number)
                ordinals.append(decision.ordinal)
            continue
        if settled[index]:
            chosen.append(number)
            ordinals.append(0 if decision is None else decision.ordinal)
        index += 1
    entries = np.zeros(len(chosen), ENTRY)
    if chosen:
        halves = events.uuids[chosen].copy().view(">u8").astype(np.uint64)
        entries["hi"] = halves[:, 0]
        entries["lo"] = mixed(halves[:, 1], np.array(ordinals, np.uint32))
        entries["content"] = events.hashes[chosen, 0]
        entries["block"] = task.number
        entries["row"] = np.array(events.row_of, np.uint32)[chosen]
    return entries.tobytes()


def _entries_of_lines(phase: str, directory: Directory, hasher: Hasher) -> NDArray[np.void]:
    """ENTRY records of the merges, groups or profiles of a plan that were settled.

    A group has a uuid of its content in a plan that follows another one, so it is settled under both.
    """
    batches: dict[int, list[BatchKey]] = {}
    for key in read_batches(directory.ledger, "settled"):
        if key.phase == phase:
            batches.setdefault(key.block, []).append(key)
    path = sealed_file(phase, directory)
    uuids: list[str] = []
    if batches and path.exists():
        for number, lines in enumerate(line_blocks(path)):
            for key in batches.get(number, ()):
                for line in lines[key.first : key.last + 1]:
                    uuids.extend(_uuids_of(line, hasher))
    entries = np.zeros(len(uuids), ENTRY)
    if uuids:
        halves = np.frombuffer(b"".join(UUID(one).bytes for one in uuids), ">u8").astype(np.uint64).reshape(-1, 2)
        entries["hi"], entries["lo"], entries["block"] = halves[:, 0], halves[:, 1], NO_BLOCK
    return entries


class _Line(msgspec.Struct):
    uuid: str
    type: str = ""


_decode_line = msgspec.json.Decoder(_Line).decode


def _uuids_of(line: bytes, hasher: Hasher) -> Iterator[str]:
    sealed = _decode_line(line)
    yield sealed.uuid
    if sealed.type:
        group = msgspec.json.decode(line, type=SealedGroup)
        yield group_uuid(hasher, group.type, group.key, bytes(group.set))


def _rows_of(plan: Plan, directory: Directory, places: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Places (block, row) of a plan as people see them."""
    from pipeline.plan.sealed.contents import planned_blocks

    ahead = iter(planned_blocks(directory))
    passed = 0
    for block, row in places:
        if block >= passed:
            planned = next(islice(ahead, block - passed, None))
            passed = block + 1
        yield f"row {planned.sealed.first_row + row:,} of {plan.parts[planned.sealed.part].path}"
