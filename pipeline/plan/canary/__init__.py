"""A sample of a plan that is sent and read back before the rest (`apply --canary N`).

    strata     what the sample has to show, and persons who show it
    persons    all ids of these persons, and all of their events, merges, profiles and groups
    sample     the persons that are chosen, and the ranges of events that are sent

The sample consists of whole persons. The service heeds the order of arrival in what it makes of a person (what is set
once, and what its events promote: docs/know/service.md#persons), so the first half of a person, sent by itself, could
come to something else than all of it.

It follows from the plan and the number N alone: chosen again, on any machine and however far the sending is, it is the
same, so nothing of it is kept. The export is read twice for it.
"""

from pipeline.plan.canary.sample import CanarySample, Ranges, choose_canary
from pipeline.plan.sealed.facts import LargePerson

__all__ = ["CanarySample", "LargePerson", "Ranges", "choose_canary"]
