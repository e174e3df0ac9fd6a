"""Where batches go: one class with `send`. A dry run is another destination, never an `if`."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

from pipeline.batcher import Batch


class ResponseKind(StrEnum):
    """What a response means for its batch (docs/know/service.md#what-backcast-does).

    `unreachable`: no connection was made (no such host, no route, refused, no TLS), so nothing left. `unsent`: the run
    was stopping, and no request was made.
    """

    SETTLED = "settled"
    RETRY = "retry"
    UNREACHABLE = "unreachable"
    DOUBT = "doubt"
    POISON = "poison"
    TOO_LARGE = "too_large"
    STOP = "stop"
    UNSENT = "unsent"


class Response(NamedTuple):
    """The response to one batch.

    `status` is the HTTP status, 0 where no response came. `taken`, of a response that does not settle: whether the
    service may have accepted the events all the same. `retry_after` is a floor for the next try, in seconds. `hint` is
    what a person can do, where more is known than the status tells.
    """

    kind: ResponseKind
    status: int
    detail: str = ""
    retry_after: float = 0.0
    taken: bool = True
    hint: str = ""


class Destination(Protocol):
    """A destination. `send` may be called from several threads at once, and never raises for an answer."""

    @property
    def address(self) -> str:
        """The name that people read."""
        ...

    def send(self, batch: Batch) -> Response:
        """Send one batch as one request."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


class DryRunDestination:
    """Takes everything and sends nothing: what `--dry-run` applies to. RunCounts what came."""

    address = "nowhere"

    def __init__(self) -> None:
        self.requests = 0
        self.bytes = 0

    def send(self, batch: Batch) -> Response:
        self.requests += 1
        self.bytes += len(batch.body)
        return Response(ResponseKind.SETTLED, 200)

    def close(self) -> None:
        return
