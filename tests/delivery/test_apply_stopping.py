"""Apply stops in order: interrupted, or by a defect in its destination; and the next run does the rest."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pipeline.delivery.apply import SendLimits
from pipeline.delivery.destination import Response, ResponseKind
from pipeline.delivery.retry import RetryPolicy
from pipeline.errors import Interrupted
from tests.support.deliveries import OK, ONE_AT_A_TIME, CallDestination, in_ledger, planned, run_to


def test_a_sink_that_fails_stops_the_run_and_the_rest_is_written_down(tmp_path: Path) -> None:
    """A defect in a sender thread is raised after what landed was settled, and nothing hangs."""
    directory = planned(tmp_path, 100)
    sent = []

    def send(body: bytes) -> Response:
        sent.append(body)
        if len(sent) == 3:
            raise ZeroDivisionError("a defect")
        return OK

    with pytest.raises(ZeroDivisionError):
        run_to(directory, CallDestination(send), send_limits=ONE_AT_A_TIME)
    assert in_ledger(directory, "select state, count(*) from batches where state != 'waiting' group by state") == [
        ("begun", 1),
        ("settled", 2),
    ]
    assert in_ledger(directory, "select outcome from runs") == [("failed",)]
    assert run_to(directory, CallDestination(lambda body: OK)).balanced


def test_an_interrupt_settles_what_is_in_flight_and_begins_nothing_new(tmp_path: Path) -> None:
    """Asked to stop during the third request, the run settles it and sends no fourth. A run that had nothing left when
    it was interrupted is done."""
    directory = planned(tmp_path, 100)
    interrupted = threading.Event()
    sent = []

    def send(body: bytes) -> Response:
        sent.append(body)
        if len(sent) in (3, 10):
            interrupted.set()
        return OK

    outcome = run_to(directory, CallDestination(send), send_limits=ONE_AT_A_TIME, interrupted=interrupted)
    assert isinstance(outcome.problem, Interrupted)
    assert len(sent) == 3
    assert (outcome.counts.accepted, outcome.counts.in_doubt, outcome.unsent) == (30, 0, 70)
    interrupted.clear()
    outcome = run_to(directory, CallDestination(send), send_limits=ONE_AT_A_TIME, interrupted=interrupted)
    assert (outcome.problem, outcome.balanced, interrupted.is_set()) == (None, True, True)


def test_an_interrupt_ends_a_batch_that_waits_for_its_next_try(tmp_path: Path) -> None:
    """A batch in a long back-off does not keep the run from ending; it is in doubt, since it was sent."""
    directory = planned(tmp_path, 10, files=1)
    interrupted = threading.Event()

    def send(body: bytes) -> Response:
        interrupted.set()
        return Response(ResponseKind.RETRY, 503, retry_after=3000.0)

    outcome = run_to(
        directory, CallDestination(send), send_limits=SendLimits(1, RetryPolicy(seconds=9000)), interrupted=interrupted
    )
    assert isinstance(outcome.problem, Interrupted)
    assert outcome.counts.in_doubt == 10
