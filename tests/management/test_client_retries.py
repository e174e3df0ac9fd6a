"""What the typed client asks again, how long it waits, and what it sends once only."""

from __future__ import annotations

import time

import pytest

from pipeline.delivery.retry import RetryPolicy
from pipeline.errors import Unfinished
from pipeline.management import problems
from pipeline.management.problems import ServiceProblem
from tests.support.operations import ID, OPERATIONS, PAGE, envelope
from tests.support.scripted_api import answering
from tests.support.scripted_server import Said, scripted

pytestmark = pytest.mark.slow

POSTS = [name for name, (_, method, _, _) in OPERATIONS.items() if method == "POST"]
PASSING = [Said(429), Said(500), Said(503), Said(0)]


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in POSTS])
def test_what_may_be_repeated_is_asked_again(name: str) -> None:
    """GET, DELETE, and PATCH, whose bodies set values: the same request until it is answered."""
    do, _, _, said = OPERATIONS[name]
    with answering(scripted(*PASSING, said)) as service, service.client(retry=RetryPolicy(tries=4, first=0)) as client:
        do(client)
    assert len(service.asked) == 5
    assert len({(call.method, call.target, call.body) for call in service.asked}) == 1


@pytest.mark.parametrize("name", POSTS)
def test_a_post_is_sent_once(name: str) -> None:
    """It may have been done; the error says so, unless the service says that it was not."""
    do = OPERATIONS[name][0]
    with answering(scripted(*PASSING)) as service, service.client() as client:
        for sent, first in enumerate(PASSING, 1):
            with pytest.raises(Unfinished) as caught:
                do(client)
            assert len(service.asked) == sent
            assert ("may have been done" in str(caught.value.hint)) is (first.status != 429)


def test_a_refusal_is_not_asked_again() -> None:
    """The answer would be the same."""
    refusals = [400, 401, 403, 404, 405, 409]
    with answering(scripted(*map(Said, refusals))) as service, service.client() as client:
        for status in refusals:
            with pytest.raises(ServiceProblem) as caught:
                client.hog_functions.retrieve(ID)
            assert caught.value.status == status
    assert len(service.asked) == len(refusals)


def test_patience_ends() -> None:
    """After the first try and three more, with the last answer."""
    with (
        answering(lambda call: Said(503, envelope("busy"))) as service,
        service.client() as client,
        pytest.raises(problems.ServiceDown, match="busy"),
    ):
        client.hog_functions.retrieve(ID)
    assert len(service.asked) == 4


def test_a_wait_longer_than_patience_is_told_instead_of_waited_for() -> None:
    """Retry-After is a fact of the error."""
    said, retry = Said(429, b"", {"Retry-After": "7"}), RetryPolicy(tries=1, first=0, most=6.9)
    with (
        answering(lambda call: said) as service,
        service.client(retry=retry) as client,
        pytest.raises(problems.Throttled, match="429") as caught,
    ):
        client.hog_functions.retrieve(ID)
    assert (len(service.asked), caught.value.retry_after) == (1, 7.0)
    assert "7 seconds" in caught.value.hint


def test_retry_after_is_the_least_that_is_waited() -> None:
    """Even where the back-off would be shorter."""
    retry = RetryPolicy(tries=1, first=0)
    said = scripted(Said(429, b"", {"Retry-After": "0.1"}), PAGE)
    with answering(said) as service, service.client(retry=retry) as client:
        begun = time.monotonic()
        client.hog_functions.list().page()
        assert time.monotonic() - begun >= 0.1


def test_a_deletion_whose_answer_was_lost_is_done_when_nothing_is_there_any_more() -> None:
    """404 after a try that may have worked is a success; at once it is an error; after 429 too."""
    lost, gone, busy = Said(0), Said(404), Said(429)
    for do, done in ((OPERATIONS["soft-delete hog function"][0], None), (OPERATIONS["delete recording"][0], None)):
        with answering(scripted(lost, gone)) as service, service.client() as client:
            assert do(client) is done
        for answers in ((gone,), (busy, gone)):
            with answering(scripted(*answers)) as service, service.client() as client, pytest.raises(problems.NotFound):
                do(client)


def test_a_change_with_a_precondition_is_sent_once() -> None:
    """`base_updated_at` holds the first time only (docs/know/service.md#hog-functions)."""
    with (
        answering(scripted(Said(503), Said(200, {}))) as service,
        service.client() as client,
        pytest.raises(problems.ServiceDown),
    ):
        client.hog_functions.update(ID, {"name": "a", "base_updated_at": "2024-01-01T00:00:00Z"})
    assert len(service.asked) == 1
