"""Scripted misbehaviour of the capture endpoint, so that a client can be tried before the real service tries it.

A script is a list of texts such as `rate:20/s,retry-after=1`; `catalogue()` lists them. A request meets the faults
in the order of the script: each may answer itself, or let the request go on to the next and change what comes back.
The last one leads to the service as it is. Management, query and the looks at what landed never meet any.

The same seed, script and order of requests give the same faults: a decision hangs on the seed, on the fault's place
in the script and on how many requests have met it so far, never on a clock (except where a fault is about time).

    with LocalService(faults=["after:500,every=7", "mix:10%"], fault_seed=3) as service:
        ...
        service.faults  # how many requests each met, and to how many it did something
"""

from __future__ import annotations

from pipeline.local_service.faults.base import BadFault, Fault, Tally, catalogue, read_script
from pipeline.local_service.faults.connection import Garbage, Lost, Reset, SlowAnswer, SlowBody, SlowRead, Truncated
from pipeline.local_service.faults.mixture import Mix
from pipeline.local_service.faults.refusals import After, Before, Large, Maintenance, Poison, Quota, Rate, Redirect

__all__ = [
    "After",
    "BadFault",
    "Before",
    "Fault",
    "Garbage",
    "Large",
    "Lost",
    "Maintenance",
    "Mix",
    "Poison",
    "Quota",
    "Rate",
    "Redirect",
    "Reset",
    "SlowAnswer",
    "SlowBody",
    "SlowRead",
    "Tally",
    "Truncated",
    "catalogue",
    "read_script",
]
