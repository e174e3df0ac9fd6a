"""Simulated failures of the capture endpoint, to test a client before the real service fails it.

A script is a list of strings such as `rate:20/s,retry-after=1`; `catalogue()` lists them. A request passes through the
faults in the order of the script. Each may answer it, or forward it to the next fault and change what comes back. The
last one forwards to the service. Management, queries and the page never pass through faults.

The same seed, script and order of requests give the same faults: a decision depends on the seed, on the fault's
position in the script and on how many requests have reached it, never on a clock (except for faults about time).

    with LocalService(faults=["after:500,every=7", "mix:10%"], fault_seed=3) as service:
        ...
        service.faults  # how many requests reached each fault, and how many it acted on

To add a fault, write one class in a module of `kinds`; all are imported when the first fault is used. Its `example`
gives the name and spelling, its docstring is its line in the help, and its fields are its options:

    @dataclass(kw_only=True)
    class Teapot(Fault, example="teapot"):
        '''answers 418 and stores nothing'''

        async def act(self, request: CaptureRequest, forward: Forward) -> Ending:
            return HttpReply(418, b"short and stout") if self.claim() else await forward()
"""

from __future__ import annotations

from pipeline.local_service.faults.base import BadFault, Fault, FaultCounts, catalogue, read_script

__all__ = ["BadFault", "Fault", "FaultCounts", "catalogue", "read_script"]
