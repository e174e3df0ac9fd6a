"""Which endpoint the batches of a plan go to: chosen once, recorded in its ledger, and never changed.

The two endpoints store an event slightly differently (docs/know/service.md#per-event-endpoint), so a plan is sent to
only one of them. With `auto`, a plan in dialect `posthog` goes to the per-event endpoint if the target has it, which a
batch without events finds out; everything else goes to `/batch/`.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from pipeline.batcher import PerEventEnvelope, seal_batch
from pipeline.delivery.capture_v1 import PerEventDestination
from pipeline.delivery.destination import ResponseKind
from pipeline.delivery.retry import RetryPolicy, SendResult, send_with_retries
from pipeline.delivery.stopping import gave_up
from pipeline.delivery.throttle import RateController, Throttle
from pipeline.errors import BackcastError, UsageError
from pipeline.ledger import Ledger

BATCH, V1 = "batch", "v1"
_NEVER_CREATED = "1970-01-01T00:00:00Z"


class Choice(NamedTuple):
    """The transport, or the `problem` that leaves it open: the target was asked and did not answer."""

    transport: str
    problem: BackcastError | None = None


class EndpointQuestion(NamedTuple):
    """Asks the target whether it has the per-event endpoint, with the retries of a batch."""

    destination: PerEventDestination
    retry: RetryPolicy
    interrupted: threading.Event
    target_known: bool

    def answer(self) -> SendResult:
        """The final answer, or the last one if the retry policy gave up."""
        empty = seal_batch([], 0, PerEventEnvelope(_NEVER_CREATED))
        throttle = Throttle(RateController(1), target_known=self.target_known)
        return send_with_retries(self.destination.ask, empty, self.retry, throttle, self.interrupted)


def choose_transport(wanted: str, dialect: str, ledger: Ledger, question: EndpointQuestion | None) -> Choice:
    """The transport of a plan in this dialect, with its open ledger. `question` is None in a dry run.

    Raises UsageError if the wanted transport does not fit the plan's dialect, or differs from the one by which the
    plan was sent before.
    """
    if wanted == V1 and dialect != "posthog":
        raise UsageError(
            f"--transport v1 needs a plan in the dialect posthog, but this plan is in the dialect {dialect}",
            hint="leave --transport out, or plan again with --dialect posthog",
        )
    recorded = ledger.transport()
    if recorded and wanted in ("auto", recorded):
        return Choice(recorded)
    if recorded and ledger.was_answered():
        raise UsageError(
            f"this plan was begun with --transport {recorded}, and keeps it",
            hint=f"leave --transport out, or give --transport {recorded}",
        )
    if wanted != "auto" or dialect != "posthog":
        return _recorded(ledger, BATCH if wanted == "auto" else wanted)
    if question is None:
        return Choice(BATCH)
    asked = question.answer()
    match asked.response.kind:
        case ResponseKind.SETTLED:
            return _recorded(ledger, V1)
        case ResponseKind.POISON:
            return _recorded(ledger, BATCH)
        case ResponseKind.STOP | ResponseKind.UNSENT:
            return Choice(BATCH)  # if this is a reason to stop, the first batch stops for it too
    return Choice(BATCH, gave_up(question.destination.address, asked, question.retry))


def _recorded(ledger: Ledger, transport: str) -> Choice:
    ledger.choose_transport(transport)
    return Choice(transport)
