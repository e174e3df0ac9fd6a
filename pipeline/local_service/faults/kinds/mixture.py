"""The fault that acts as one of several others, at random."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipeline.local_service.faults.base import Fault, FaultCounts, option, read_fault, read_share, value
from pipeline.local_service.faults.request import CaptureRequest, Ending, Forward

_DEFAULT = "before:503+after:500+lost+reset+truncated"


def read_several(text: str) -> tuple[Fault, ...]:
    """Faults joined by `+`, without options."""
    names = text.split("+")
    if any("," in name or name.startswith("mix") for name in names):
        raise ValueError("faults joined by +, such as lost+before:503")
    return tuple(read_fault(name) for name in names)


@dataclass(kw_only=True)
class Mix(Fault, example="mix:10%"):
    """does one of several things to this share of the requests: before:503, after:500, lost, reset and truncated, or
    the faults that of=NAME+NAME lists"""

    share: float = value(read_share)
    of: tuple[Fault, ...] = option(read_several, ())

    def __post_init__(self) -> None:
        self.of = tuple(
            replace(fault, seed=self.seed, position=f"{self.position}.{number}")
            for number, fault in enumerate(self.of or read_several(_DEFAULT))
        )

    def is_due(self) -> bool:
        return super().is_due() and self.draw(f"{self.reached} mixed") < self.share

    async def act(self, request: CaptureRequest, forward: Forward) -> Ending:
        if not self.claim():
            return await forward()
        chosen = self.of[int(self.draw(f"{self.reached} of") * len(self.of))]
        return await chosen.handle(request, forward)

    def counts(self) -> list[FaultCounts]:
        return super().counts() + [count for fault in self.of for count in fault.counts()]
