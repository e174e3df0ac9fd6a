"""`plan --replay DIR`: only what an earlier plan did not deliver, after the mapping or the rows were corrected.

The service has no undo, so an event that it accepted must not be sent again. The facts and the ledger of the earlier
plan say what it accepted. The new plan leaves those uuids out, and a check (`pipeline.plan.checks.replay`) stops it if
it did not find all of them again: their rows now have other uuids, and would be sent twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import numpy as np

from pipeline.encoder.updates import SealedGroup
from pipeline.errors import StalePlan, UnsafePlan, UsageError
from pipeline.identity.database import Database, numbers
from pipeline.identity.groups import group_uuid
from pipeline.ledger import read_batches, read_summary, state_digest
from pipeline.mapper import Compile
from pipeline.models import SealedOptions
from pipeline.options import PlanOptions
from pipeline.plan.lookups import load_lookups
from pipeline.plan.requests.query import SENT, add_ledger, opened
from pipeline.plan.sealed.directory import EVENTS, PHASES, Directory
from pipeline.plan.sealed.freshness import open_plan, replay_differences
from pipeline.plan.sealed.manifest import Plan, ReplayedPlan
from pipeline.plan.settled import ALREADY_SETTLED
from pipeline.plan.settled_events import ENTRIES, ENTRY, NO_PART, SettledEvents
from pipeline.plan.settled_facts import settled_lines
from pipeline.plan.window_index import SIGHTINGS
from pipeline.text import are, pluralize, quoted
from pipeline.uuids import Hasher

EXAMPLES = 20
_AT_ONCE = 50_000


class ReplayFacts(NamedTuple):
    """What the check of a replay reads: how many events the earlier plan settled, how many of them the new plan did
    not find again, and the rows of the first of those in words."""

    settled: int
    unmet: int
    examples: Sequence[str]


class Replay(msgspec.Struct, frozen=True):
    """An earlier plan that was sent, opened for a new plan of what it did not deliver. `chain` are the plans that it
    replays itself, the latest first."""

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
        """What the new plan says about it: (code, file, sentence)."""
        left_out = f"its {pluralize(self.seal.settled, 'settled event')} {are(self.seal.settled)} left out"
        where = f"plan {self.seal.digest[:12]}"
        return [("replay", where, f"only what that plan did not deliver is sent; {left_out}")]

    def read(self, scratch: Path) -> SettledEvents:
        """Everything that the plans of the chain settled. Raises BrokenLedger."""
        scratch.mkdir(parents=True)
        with opened(self.directory) as database:
            database.run(ENTRIES)
            add_ledger(database, ((key, "settled") for key in read_batches(self.directory.ledger, "settled")))
            database.run(f"INSERT INTO entries {SENT.format(columns=ENTRY)}")
            database.run(f"INSERT INTO entries SELECT {ENTRY} FROM facts WHERE code = '{ALREADY_SETTLED}'")
            for plan, directory in self.chain:
                phases = (phase for phase in PHASES if phase != EVENTS)
                uuids = chain.from_iterable(_uuids_of_lines(phase, plan, directory) for phase in phases)
                while some := list(islice(uuids, _AT_ONCE)):
                    _add(database, some)
            return SettledEvents(scratch, database)

    def facts(self, settled: SettledEvents) -> ReplayFacts:
        """Which of the settled events the new plan found again, once it has decided on all of its own."""
        unmet, places = settled.not_found(EXAMPLES)
        rows = [f"row {row:,} of {self.plan.parts[part].path}" for part, row in places]
        return ReplayFacts(settled.events, unmet, rows)


def open_replay(options: PlanOptions) -> Replay | None:
    """The plan that --replay names, and the plans that it replays itself; None without the option.

    Raises UsageError for a plan of which nothing is left or that belongs to a job, UnsafePlan for a plan that is not
    completely sent, StalePlan if a plan that it replays itself is gone or was sent further, BrokenLedger.
    """
    if options.replay is None:
        return None
    chain = [open_plan(options.replay)]
    while (before := chain[-1][0].replays) is not msgspec.UNSET:
        if stale := replay_differences(chain[-1][0]):
            raise StalePlan(
                f"{chain[-1][1].name} cannot be replayed: {stale[0]}",
                differences=stale,
                hint="restore the directory of that plan as it was",
            )
        chain.append(open_plan(before.directory))
    plan, directory = chain[0]
    name = quoted(directory.name)
    if SIGHTINGS in plan.files:
        raise UsageError(
            f"{directory.name} is the plan of a job's window, and such a plan cannot be replayed",
            hint="correct the mapping or the files of the window; the next run of the job sends what is new",
        )
    summary = read_summary(directory.ledger, most=0)
    totals = summary.totals
    unsent = plan.events.made - totals.settled - totals.refused
    if unsent:
        raise UnsafePlan(
            f"{pluralize(unsent, 'event')} of {directory.name} {are(unsent)} not sent yet, or in doubt; what the"
            " service has is only known once everything is sent",
            hint=f"send the rest first: backcast apply {name} --to {quoted(_target(plan, summary.history))}",
        )
    if not (totals.refused or sum(plan.rejects.values())):
        raise UsageError(
            f"every event of {directory.name} was accepted, and no row was rejected: nothing is left to replay",
            hint="plan without --replay; new rows have uuids of their own",
        )
    seal = ReplayedPlan(
        plan.digest, state_digest(directory.ledger), totals.settled, directory.url or str(directory.path.resolve())
    )
    return Replay(chain, seal)


def _target(plan: Plan, history: Any) -> str:
    return (history.to if history is not None else "") or plan.target or "URL"


def inherited(options: PlanOptions, plan: Plan, directory: Directory) -> PlanOptions:
    """The options, with those of the earlier plan for any that were not given: two plans of one export have the same
    uuids if their options are the same. Raises UsageError."""
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
    default = PlanOptions()
    own = {one.name for one in fields(PlanOptions) if getattr(options, one.name) != getattr(default, one.name)}
    own -= {"settings"}
    merged = replace(options, **{name: value for name, value in given.items() if name not in own})
    for name in ("collapse_identical", "limit"):
        if getattr(merged, name) != given[name]:
            raise UsageError(
                f"--{name.replace('_', '-')} differs from {directory.name}, so the same rows would get other uuids",
                hint=f"leave --{name.replace('_', '-')} out: the earlier plan's value applies",
            )
    return merged


def _uuids_of_lines(phase: str, plan: Plan, directory: Directory) -> Iterator[bytes]:
    """The uuids of the settled merges, groups or profiles of a plan.

    In a plan that follows another one, a group also has a uuid that depends on its content, so it is settled under
    both.
    """
    hasher = None
    for _, sealed in settled_lines(directory, phase):
        yield UUID(sealed.uuid).bytes
        if isinstance(sealed, SealedGroup):
            hasher = hasher or _hasher(plan, directory)
            yield UUID(group_uuid(hasher, sealed.type, sealed.key, bytes(sealed.set))).bytes


def _hasher(plan: Plan, directory: Directory) -> Hasher:
    mapping = plan.mapping
    compile_ = Compile(mapping.name, mapping.text, load_lookups(plan, directory), mapping.python or None)
    return compile_(plan.options).hasher


def _add(database: Database, uuids: list[bytes]) -> None:
    """Add entries for merges, groups and profile updates, which are not events."""
    halves = np.frombuffer(b"".join(uuids), ">u8").reshape(-1, 2).T
    columns = [*halves, np.zeros(len(uuids)), np.full(len(uuids), NO_PART), np.zeros(len(uuids))]
    kinds = np.uint64, np.uint64, np.uint64, np.int64, np.int64
    database.append("entries", {str(n): numbers(one, kinds[n]) for n, one in enumerate(columns)})
