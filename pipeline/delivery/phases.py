"""Which phases of a plan a run may send, and who approved its merges: decided before anything is asked of a network.

A phase waits for those that it leans on. Events wait for merges and groups: a merge that comes after the events it
joins leaves two people, and the first group types to arrive take the places there are; profiles wait for merges and
events, because an event can overwrite what they say (docs/know/service.md#persons). With the groups goes what is set
once for persons before their events; it waits for the merges, which would prefer it to what an absorbed person has.
None of that can be mended afterwards, so a phase asked for too early is refused, also when it was held on purpose: a
history that shall go without its merges is planned without them.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from pipeline.errors import UnsafePlan, UsageError
from pipeline.ledger import read_totals
from pipeline.plan.directory import Directory
from pipeline.plan.manifest import Plan
from pipeline.plan.phases import PHASES
from pipeline.text import are, pluralize

NEEDS = {"events": ("identities", "groups"), "persons": ("identities", "events")}
"""By phase: those that must be in, or be sent before it in the same run."""


def choose_phases(names: Sequence[str] | None) -> tuple[str, ...]:
    """These phases in the order in which they are always sent; None is all. Raises UsageError for an unknown name."""
    if names is None:
        return PHASES
    for name in names:
        if name not in PHASES:
            near = difflib.get_close_matches(name, PHASES, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise UsageError(f"not a phase: {name!r}{meant}", hint=f"the phases are {', '.join(PHASES)}")
    if not names:
        raise UsageError("no phase is named", hint=f"the phases are {', '.join(PHASES)}")
    return tuple(phase for phase in PHASES if phase in names)


def check_phases(plan: Plan, directory: Directory, phases: Sequence[str]) -> None:
    """Raise UnsafePlan where a phase would be sent before one that it leans on; BrokenLedger."""
    planned = plan.events.phases
    needs = NEEDS | ({"groups": ("identities",)} if plan.people.initials else {})
    for phase in phases:
        for needed in needs.get(phase, ()):
            if not planned.get(phase) or needed in phases or _is_over(plan, directory, needed):
                continue
            left = _left(plan, directory, needed)
            raise UnsafePlan(
                f"the phase {phase} needs the phase {needed}, of which {pluralize(left, 'event')} {are(left)} not"
                " settled; nothing was sent",
                hint=f"send it first, or with it: --phases {','.join(choose_phases([needed, *phases]))}",
            )


def check_merges(
    plan: Plan, directory: Directory, phases: Sequence[str], approved: int | None, *, loopback: bool
) -> None:
    """Raise UnsafePlan unless a person approved the merges that would be sent, by their number; BrokenLedger.

    A target on this machine needs no approval, nor do merges that are in already. A number that is not the plan's is
    refused everywhere: it was read off another plan.
    """
    merges = plan.events.phases.get("identities", 0)
    if approved is None:
        if loopback or not merges or "identities" not in phases or _is_over(plan, directory, "identities"):
            return
        them = "it" if merges == 1 else "them"
        told = f"the plan sends {pluralize(merges, 'merge')}, which cannot be undone, and nobody approved {them}"
    elif approved == merges:
        return
    else:
        told = f"--approve-merges says {approved:,}, and the plan sends {pluralize(merges, 'merge')}"
    hint = f"look at {directory.report_html} and {directory.pairs.name} beside it; then give --approve-merges {merges}"
    raise UnsafePlan(f"{told}; nothing was sent", hint=hint if merges else "leave --approve-merges out")


def _is_over(plan: Plan, directory: Directory, phase: str) -> bool:
    planned = plan.events.phases.get(phase, 0)
    return not planned or read_totals(directory.ledger).of(phase).is_all(planned)


def _left(plan: Plan, directory: Directory, phase: str) -> int:
    settled, refused, _ = read_totals(directory.ledger).of(phase)
    return plan.events.phases.get(phase, 0) - settled - refused
