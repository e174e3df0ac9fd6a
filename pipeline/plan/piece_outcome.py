"""The decisions on one piece of the keys, made in any process of the engine, so the planner is not loaded here."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.plan.duplicates import Decided, decide
from pipeline.plan.key_records import KeyRange
from pipeline.plan.samples.pair_sample import Kinds, kinds_of
from pipeline.plan.statistics.activity import acts_of
from pipeline.plan.statistics.hours import Quarters, count_quarters
from pipeline.transform.block import BlockTransformer
from pipeline.transform.event_keys import KEY


class Outcome(NamedTuple):
    """The decisions on a piece, and what the plan counts of the events that are sent."""

    decided: Decided
    quarters: Quarters
    acts: NDArray[np.void]
    kinds: Kinds


def decide_piece(_: BlockTransformer, piece: KeyRange, *, collapse: bool, canonical: bool) -> Outcome:
    """Decide on a piece of KEY records; the events that are sent are only counted."""
    outcome = outcome_of(decide(piece.sorted_as(KEY), collapse=collapse, canonical=canonical))
    nothing = outcome.decided._replace(sent=outcome.decided.sent[:0].copy(), ordinals=np.zeros(0, np.uint32))
    return outcome._replace(decided=nothing)


def outcome_of(decided: Decided) -> Outcome:
    sent, ordinals = decided.sent, decided.ordinals
    return Outcome(decided, count_quarters(sent["time"]), acts_of(sent, ordinals), kinds_of(sent, ordinals))
