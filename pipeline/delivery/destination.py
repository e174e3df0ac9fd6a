"""Where batches go: one class with `send`. A dry run is another destination, never an `if`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol, runtime_checkable

from pipeline.batcher import Batch


class ResponseKind(StrEnum):
    """What a response means for its batch (docs/know/service.md#what-backcast-does).

    `partly`: the service has a verdict for each event, and accepted only some of them or none (`Verdicts`).
    `unreachable`: there was no connection (no such host, no route, refused, no TLS), so nothing was sent. `unsent`: the
    run was stopping, and no request was sent.
    """

    SETTLED = "settled"
    PARTLY = "partly"
    RETRY = "retry"
    UNREACHABLE = "unreachable"
    DOUBT = "doubt"
    POISON = "poison"
    TOO_LARGE = "too_large"
    STOP = "stop"
    UNSENT = "unsent"


class Verdict(NamedTuple):
    """What the service says about one event, given by its position in the request, and why."""

    position: int
    reason: str


class Verdicts(NamedTuple):
    """The events of a request that were not simply accepted.

    `again` were not stored and can be sent again, `refused` are dropped for good, `warned` are accepted with a warning.
    """

    again: Sequence[Verdict] = ()
    refused: Sequence[Verdict] = ()
    warned: Sequence[Verdict] = ()


class Response(NamedTuple):
    """The response to one batch.

    `status` is the HTTP status, 0 if no response came. `taken` (if the response does not settle the batch): whether the
    service may have accepted the events all the same. `retry_after` is the least wait before the next try, in seconds.
    `hint` is what a person can do, if the status does not already imply it. `verdicts` are set if the response settles
    the batch completely or partly.
    """

    kind: ResponseKind
    status: int
    detail: str = ""
    retry_after: float = 0.0
    taken: bool = True
    hint: str = ""
    verdicts: Verdicts = Verdicts()

    @property
    def asks_again(self) -> bool:
        """Whether the service asks for some of the events again, and has a final verdict for the others."""
        return self.kind is ResponseKind.PARTLY and bool(self.verdicts.again)


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


@runtime_checkable
class SeparatesPhases(Protocol):
    """A destination that keeps the phases of a plan apart."""

    def begin_phase(self, phase: str) -> None:
        """From here on, batches belong to this phase; nothing is in flight."""
        ...


class DryRunDestination:
    """Accepts everything and sends nothing: the destination of `--dry-run`."""

    address = "nowhere"

    def send(self, batch: Batch) -> Response:
        return Response(ResponseKind.SETTLED, 200)

    def close(self) -> None:
        return
