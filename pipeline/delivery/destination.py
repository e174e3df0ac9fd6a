"""Where batches go. A destination is one class with `send`; a dry run is another destination, never an `if`."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

from pipeline.batcher import Batch


class ResponseKind(StrEnum):
    """What a response asks us to do; the table of docs/know/service.md#what-backcast-does.

    `unreachable`: no connection stood (no such host, no route, refused, no TLS), so nothing left. `unsent`: the run was
    stopping, and nothing was asked.
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
    """What the endpoint said to one request.

    `status` is the HTTP status, 0 when there was no answer. `taken` tells, of an answer that does not settle, whether
    the events may have been taken all the same. `retry_after` is a floor for the next try, in seconds. `hint` is what
    a person can do, where that is known better than from the status.
    """

    answer: ResponseKind
    status: int
    detail: str = ""
    retry_after: float = 0.0
    taken: bool = True
    hint: str = ""


class Destination(Protocol):
    """A destination. `send` may be called from several threads at once, and never raises for an answer."""

    @property
    def address(self) -> str:
        """What people call it."""
        ...

    def send(self, batch: Batch) -> Response:
        """Send one batch as one request."""
        ...

    def close(self) -> None:
        """Let go of connections."""
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
