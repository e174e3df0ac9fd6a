"""What may have landed without being settled: it is told as it is known, and is never a difference."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from pipeline import api
from pipeline.batcher import Envelope, seal_batch
from pipeline.delivery.apply import SendLimits
from pipeline.delivery.retry import RetryPolicy
from pipeline.local_service import LocalService
from pipeline.options import VerifyOptions
from tests.support.deliveries import Reply, identities, in_ledger, landed, passed_on, planned, run, serving
from tests.support.scripted_server import Asked

pytestmark = pytest.mark.slow

ONCE = RetryPolicy(tries=0, first=0)
DETAILS = "select state, detail from batches order by first"


def test_what_is_known_of_a_doubt_outlives_a_run_that_did_not_get_to_it(tmp_path: Path) -> None:
    """Two batches lose their answers; the next run is turned away with the first, and says nothing of the second."""
    directory = planned(tmp_path, 20, files=1)
    turned_away = False
    both = threading.Barrier(2)  # once one has lost its answer, another would not be sent any more

    def answer(asked: Asked) -> Reply:
        if turned_away:
            return Reply(401, b"no such key")
        both.wait(30)
        return Reply(0)

    with serving(answer) as server:
        assert run(directory, server.url, send_limits=SendLimits(2, ONCE)).counts.in_doubt == 20
        before = in_ledger(directory, DETAILS)
        turned_away = True
        assert run(directory, server.url, send_limits=SendLimits(1, ONCE)).counts.in_doubt == 20
        assert len(server.asked) == 3
    assert [state for state, _ in before] == ["begun", "begun"]
    assert all(detail.startswith("no answer") for _, detail in before)
    assert in_ledger(directory, DETAILS) == [("begun", "no such key"), before[1]]


@pytest.mark.parametrize("stopped", [True, False])
def test_what_a_413_kept_is_no_difference(tmp_path: Path, stopped: bool) -> None:
    """The service keeps the beginning of a request that it then finds too large; verify knows that it may.

    (docs/know/service.md#answers)
    """
    directory = planned(tmp_path, 20, files=1, batch=20)
    with LocalService() as service:
        seen: list[int] = []

        def answer(asked: Asked) -> Reply:
            events = asked.events
            seen.append(len(events))
            if len(events) == 20:
                kept = [json.dumps(one).encode() for one in events[:7]]
                passed_on(service.url, seal_batch(kept, 0, Envelope(service.capture_key)).body)
                return Reply(413, b"too large")
            return Reply(401, b"no") if stopped else passed_on(service.url, asked.body)

        with serving(answer) as server:
            outcome = run(directory, server.url, key=service.capture_key, send_limits=SendLimits(1, ONCE))
        options = VerifyOptions(workers=0, api=service.url)
        found = api.verify_plan(directory, server.url, options, personal_key=service.personal_key)
        there = landed(service)
    assert seen[:2] == [20, 10]
    assert (found.proved, found.differences) == (True, [])
    assert (outcome.balanced, len(there)) == ((False, 7) if stopped else (True, 20))
    assert there <= identities(20)
