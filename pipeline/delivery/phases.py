"""Which phases of a plan a run may send, and whether its merges are approved: decided before any network use.

A phase waits for those that it depends on. Events wait for merges and groups: a merge that comes after the events it
joins leaves two people, and the first group types to arrive take the available places. Profile updates wait for merges
and events, because an event can overwrite their values (docs/know/service.md#persons). Properties that are set once for
persons before their events go with the groups; they wait for the merges, which would prefer the property of an absorbed
person. None of that can be undone, so a phase that is requested too early is refused, even if another phase was
omitted on purpose: to send a history without its merges, plan it without them.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from pipeline.errors import UnsafePlan, UsageError
from pipeline.ledger import read_totals
from pipeline.plan.sealed.directory import PHASES, Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.text import are, pluralize

NEEDS = {"events": ("identities", "groups"), "persons": ("identities", "events")}
"""For each phase, the phases that must be settled, or be sent before it in the same run."""


def choose_phases(names: Sequence[str] | None) -> tuple[str, ...]:
    """These phases in the fixed order of sending; None means all. Raises UsageError for an unknown name."""
    if names is None:
        return PHASES
    for name in names:
        if name not in PHASES:
            near = difflib.get_close_matches(name, PHASES, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise UsageError(f"{name!r} is not a phase{meant}", hint=f"the phases are {', '.join(PHASES)}")
    if not names:
        raise UsageError("--phases names no phase", hint=f"the phases are {', '.join(PHASES)}")
    return tuple(phase for phase in PHASES if phase in names)


def check_phases(plan: Plan, directory: Directory, phases: Sequence[str]) -> None:
    """Raise UnsafePlan if a phase would be sent before one that it depends on; BrokenLedger."""
    planned = plan.events.phases
    needs = NEEDS | ({"groups": ("identities",)} if plan.people.initials else {})
    for phase in phases:
        for needed in needs.get(phase, ()):
            if not planned.get(phase) or needed in phases or _is_over(plan, directory, needed):
                continue
            settled, refused, _ = read_totals(directory.ledger).of(needed)
            unsent = planned[needed] - settled - refused
            raise UnsafePlan(
                f"the phase {phase} needs the phase {needed} first, and {pluralize(unsent, 'event')} of {needed}"
                f" {are(unsent)} not settled; nothing was sent",
                hint=f"send {needed} first, or both together: --phases {','.join(choose_phases([needed, *phases]))}",
            )


def check_merges(
    plan: Plan, directory: Directory, phases: Sequence[str], approved: int | None, *, loopback: bool
) -> None:
    """Raise UnsafePlan unless a person approved the merges that would be sent, by their number; BrokenLedger.

    A target on this machine needs no approval, and neither do settled merges. Any number other than the plan's is
    refused everywhere: it was read in the report of another plan.
    """
    merges = plan.events.phases.get("identities", 0)
    if approved is None:
        if loopback or not merges or "identities" not in phases or _is_over(plan, directory, "identities"):
            return
        were = "was" if merges == 1 else "were"
        reason = f"the plan sends {pluralize(merges, 'merge')}, which cannot be undone and {were} not approved"
    elif approved == merges:
        return
    else:
        reason = f"--approve-merges is {approved:,}, but the plan sends {pluralize(merges, 'merge')}"
    hint = f"review {directory.report_html} and {directory.pairs.name} next to it; then give --approve-merges {merges}"
    raise UnsafePlan(f"{reason}; nothing was sent", hint=hint if merges else "leave --approve-merges out")


def _is_over(plan: Plan, directory: Directory, phase: str) -> bool:
    planned = plan.events.phases.get(phase, 0)
    return not planned or read_totals(directory.ledger).of(phase).is_all(planned)
