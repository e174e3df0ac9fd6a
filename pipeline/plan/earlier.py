"""The merges of earlier plans for the same target, so that no merge is repeated or contradicted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import UnsafePlan, UsageError
from pipeline.ledger import read_batches, read_totals, was_ever_applied
from pipeline.plan.requests.query import line_states
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.discarded import discarded_of
from pipeline.plan.sealed.manifest import FORMAT, read_head, read_plan
from pipeline.plan.sealed.phases import sealed_links
from pipeline.text import are, pluralize

if TYPE_CHECKING:
    from pipeline.identity.observed_pairs import EarlierLink

PHASE = "identities"


def plans_beside(directory: Directory, target: str) -> list[Directory]:
    """The applied plans next to a new plan that name the same target; none if the new plan names no target."""
    if not target:
        return []
    own = directory.path.resolve()
    directories = (Directory(path.parent) for path in sorted(own.parent.glob("*/plan.json")) if path.parent != own)
    return [one for one in directories if was_ever_applied(one.ledger) and read_head(one).target == target]


def left_out(plans: Sequence[Directory]) -> list[tuple[str, str, str]]:
    """A notice for each of these plans that sent merges: (code, plan, sentence). Raises UsageError for a directory
    without a plan, UnsafePlan for a plan of another version, BrokenLedger."""
    for directory in plans:
        found = read_head(directory).format
        if not found.startswith("backcast.plan/"):
            raise UsageError(f"{directory.name} contains no plan", hint="give --earlier the directory of a plan")
        if found != FORMAT:
            raise UnsafePlan(
                f"cannot read the merges that {directory.name} sent to the same target: it has format {found}, and"
                f" this version reads {FORMAT}",
                hint="plan with the version of backcast that made it; or move that plan elsewhere, but then merges"
                " may be repeated",
            )
    merges = {Path(one.name).name: read_totals(one.ledger).of(PHASE).settled for one in plans}
    return [
        ("settled_link", name, f"{pluralize(count, 'merge')} that it sent {are(count)} not planned again")
        for name, count in merges.items()
        if count
    ]


def earlier_links(plans: Sequence[Directory]) -> Iterator[EarlierLink]:
    """The links of these plans with the state of each. Raises UsageError if merges were discarded, BrokenLedger."""
    return chain.from_iterable(map(_links, plans))


def _links(directory: Directory) -> Iterator[EarlierLink]:
    if directory.discarded.exists():
        plan = read_plan(directory)
        found = discarded_of(plan, directory)
        if found is not None and not found.merges_kept and plan.events.phases.get(PHASE):
            raise UsageError(
                f"the merges of {directory.name} were discarded at {found.at}, so a new plan could contradict them",
                hint="if that plan has no device of this export, plan into a folder that is not next to it. Next time"
                " keep the merges: backcast discard PLAN --keep-merges",
            )
    if not directory.identities.exists() or not directory.identities.stat().st_size:
        return
    from pipeline.identity.observed_pairs import EarlierLink

    names = (("settled", "settled"), ("begun", "in_doubt"))
    batches = ((key, name) for state, name in names for key in read_batches(directory.ledger, state))
    states = line_states(directory, PHASE, batches)
    for link, state in zip(sealed_links(directory), states, strict=True):
        yield EarlierLink(link.distinct_id, link.other, link.kind, link.time, state or "unsent")
