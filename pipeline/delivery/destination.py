"""Where batches go: one class with `send`. A dry run is another destination, never an `if`."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

from pipeline.batcher import Batch


class ResponseKind(StrEnum):
    """What a response means for its batch (docs/know/service.md#what-backcast-does).

    `unreachable`: there was no connection (no such host, no route, refused, no TLS), so nothing was sent. `unsent`: the
    run was stopping, and no request was sent.
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
    what a person can do, where there is more to advise than the status implies.
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
    """Accepts everything and sends nothing: the destination of `--dry-run`."""

    address = "nowhere"

    def send(self, batch: Batch) -> Response:
        return Response(ResponseKind.SETTLED, 200)

    def close(self) -> None:
        return
