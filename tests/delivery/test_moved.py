"""A redirect that holds for good is followed once a run, not once a request."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.config import Secret
from pipeline.delivery.apply import SendLimits
from pipeline.delivery.capture import CaptureDestination
from pipeline.delivery.destination import ResponseKind
from pipeline.delivery.retry import RetryPolicy
from pipeline.plan.sealed.freshness import open_plan
from tests.support.deliveries import KEY, Reply, identities, planned, request_of, run, serving

pytestmark = pytest.mark.slow

ONE = SendLimits(1, RetryPolicy(seconds=60, first=0))
REQUESTS = 3


def moved(address: str, status: int) -> Reply:
    return Reply(status, b"", {"Location": address})


@pytest.mark.parametrize(("status", "asked"), [(301, 1), (308, 1), (302, REQUESTS), (307, REQUESTS)])
def test_a_permanent_redirect_is_asked_for_once_a_run(tmp_path: Path, status: int, asked: int) -> None:
    """Three batches: of 301 and 308 the first tells the others where to go; every other redirect is asked for anew."""
    directory = planned(tmp_path, 10 * REQUESTS, files=1)
    with serving(lambda _: Reply()) as there, serving(lambda _: moved(f"{there.url}/new", status)) as here:
        outcome = run(directory, here.url, send_limits=ONE)
        assert (len(here.asked), len(there.asked)) == (asked, REQUESTS)
        sent = {event["uuid"] for one in there.asked for event in one.events}
    assert outcome.balanced
    assert sent == {one[0] for one in identities(10 * REQUESTS)}


def test_the_next_run_asks_the_first_address_again(tmp_path: Path) -> None:
    """Nothing of it is kept: the ledger is of the address that was given."""
    with serving(lambda _: Reply()) as there, serving(lambda _: moved(f"{there.url}/new", 308)) as here:
        for name in ("one", "two"):
            assert run(planned(tmp_path / name, 20, files=1), here.url, send_limits=ONE).balanced
        assert (len(here.asked), len(there.asked)) == (2, 4)
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and there.url.encode() in path.read_bytes()]
    assert kept == []


def test_a_chain_is_remembered_hop_by_hop() -> None:
    """Its permanent hops are skipped, the passing one in the middle is asked every time."""
    with (
        serving(lambda _: Reply()) as last,
        serving(lambda _: moved(f"{last.url}/c", 301)) as third,
        serving(lambda _: moved(f"{third.url}/b", 307)) as second,
        serving(lambda _: moved(f"{second.url}/a", 308)) as first,
    ):
        destination = CaptureDestination(first.url, key=Secret(KEY))
        assert [destination.send(request_of(b"{}")).kind for _ in range(3)] == [ResponseKind.SETTLED] * 3
        destination.close()
        assert [len(one.asked) for one in (first, second, third, last)] == [1, 3, 1, 3]


def test_a_permanent_loop_ends_every_time() -> None:
    """Two addresses that name each other for good: more than five redirects, also for the second request."""
    urls: list[str] = []
    with (
        serving(lambda _: moved(f"{urls[1]}/batch/", 301)) as first,
        serving(lambda _: moved(f"{urls[0]}/batch/", 301)) as second,
    ):
        urls += [first.url, second.url]
        destination = CaptureDestination(first.url, key=Secret(KEY))
        for _ in range(2):
            response = destination.send(request_of(b"{}"))
            assert (response.kind, response.taken) == (ResponseKind.STOP, False)
            assert "more than 5 redirects" in response.detail
        destination.close()


def test_where_nobody_answers_any_more_the_first_address_is_asked_again(tmp_path: Path) -> None:
    """The new address goes away: the old one is asked where to go now, and nothing is lost."""
    directory = planned(tmp_path, 30, files=1)
    with serving(lambda _: Reply()) as there, serving(lambda asked: Reply(0 if asked.number else 200)) as gone:
        with serving(lambda asked: moved(f"{(there if asked.number else gone).url}/batch/", 301)) as here:
            outcome = run(directory, here.url, send_limits=ONE)
        assert (len(here.asked), len(gone.asked), len(there.asked)) == (2, 2, 2)
    plan, _ = open_plan(directory)
    assert (outcome.balanced, outcome.counts.accepted) == (True, plan.events.made)


def test_a_refused_host_is_refused_though_the_redirect_is_permanent() -> None:
    """What may not be followed is not remembered: no request ever goes there."""
    with serving(lambda _: Reply()) as there:
        elsewhere = there.url.replace("127.0.0.1", "localhost")
        with serving(lambda _: moved(elsewhere, 308)) as here:
            destination = CaptureDestination(here.url, key=Secret(KEY))
            for _ in range(2):
                assert destination.send(request_of(b"{}")).kind is ResponseKind.STOP
            destination.close()
            assert (len(here.asked), there.asked) == (2, [])
