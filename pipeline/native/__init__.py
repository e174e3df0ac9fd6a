"""The part of the hot loop that is written in C, where a compiler was at hand when backcast was installed.

It does nothing that Python does not: it holds the members of a row without an object for each, and hands every
unusual row back to Python (`Lines` says which). Where it is missing, or BACKCAST_NATIVE is 0, the same events are
made in Python, at half the speed. tests/native/test_native.py holds one against the other.

    Lines(data, opens, observe)     iterates over JSON lines: Members of a usual one, the bytes of any other
    Members                         like the dict[str, Raw] of a row; also `text` and `number` of a member
    Renames, Columns                what becomes of properties by their names alone
    Writer                          an event's text, from Members
    fill, uuids5                    the times and uuids of many events
    IdAccumulator, PairAccumulator, PropertyAccumulator
                                    the aggregates of pipeline.identity.accumulators
    Observer                        what a plan keeps of an event
    Tally                           how many rows have each name
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.native import _native as native
elif os.environ.get("BACKCAST_NATIVE") == "0":
    native = None
else:
    try:
        from pipeline.native import _native as native
    except ImportError:
        native = None

AVAILABLE: bool = native is not None
"""Whether this process has the C part and may use it."""
