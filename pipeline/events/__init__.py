"""From the rows of one block to encoded events: the pure middle of everything.

`make_events` depends on the rows, the mapper and the rules alone: no clock, randomness, network, locale or host
time zone (law 2). Plan and apply both walk it; a block's digest, taken before the plan's tables are applied,
proves that both made the same (law 5).
"""

from __future__ import annotations

from pipeline.events.encoder import Encoder
from pipeline.events.made import Events, Mapper
from pipeline.events.walk import make_events

__all__ = ["Encoder", "Events", "Mapper", "make_events"]
