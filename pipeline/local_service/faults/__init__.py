"""Simulated failures of the capture endpoint, so that a client is tested before the real service fails it.

A script is a list of texts such as `rate:20/s,retry-after=1`; `catalogue()` lists them. A request passes through the
faults in the order of the script: each may answer by itself, or forward the request to the next one and change what
comes back. The last one forwards to the service. Management, queries and the page never pass through faults.

The same seed, script and order of requests give the same faults: a decision depends on the seed, on the fault's
position in the script and on how many requests have reached it, never on a clock (except where a fault is about time).

    with LocalService(faults=["after:500,every=7", "mix:10%"], fault_seed=3) as service:
        ...
        service.faults  # how many requests reached each fault, and on how many it acted

A new fault is one class in a module of `kinds`, all imported for the first fault. Its `example` gives the name and the
spelling, its docstring is its line in the help, and its fields are its options:

    @dataclass(kw_only=True)
    class Teapot(Fault, example="teapot"):
        '''answers 418 and stores nothing'''

        async def act(self, request: CaptureRequest, forward: Forward) -> Ending:
            return HttpReply(418, b"short and stout") if self.claim() else await forward()
"""

from __future__ import annotations

from pipeline.local_service.faults.base import BadFault, Fault, FaultCounts, catalogue, read_script

__all__ = ["BadFault", "Fault", "FaultCounts", "catalogue", "read_script"]
