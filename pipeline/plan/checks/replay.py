"""A replay must not resend what the service already has."""

from __future__ import annotations

from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, finding_of
from pipeline.text import are, pluralize


@check("replayed_rows", "stop")
def settled_events_have_other_uuids(facts: PlanFacts) -> Finding | None:
    """Events that the earlier plan settled did not turn up again, so their rows may be sent a second time."""
    replay = facts.replay
    if replay is None:
        return None
    return finding_of(
        f"{pluralize(replay.unmet, 'event')} that the service has from the earlier plan ({replay.settled:,} in all)"
        f" {are(replay.unmet)} not found again under the same uuid, so their rows could be sent twice",
        replay.examples,
        replay.unmet,
    )
