"""What the typed client raises, with the service's words and without secrets, and what it tries again before that."""

from __future__ import annotations

import logging
import pickle
import time
from typing import Any

import pytest

from pipeline.delivery.retry import RetryPolicy
from pipeline.errors import Refused, Unfinished, UsageError
from pipeline.management import problems
from pipeline.management.problems import ServiceProblem
from tests.support.operations import FUNCTIONS, ID, OPERATIONS, PAGE, ROWS, envelope
from tests.support.scripted_api import KEY, answering
from tests.support.scripted_server import Asked, Canned, scripted


@pytest.mark.parametrize(
    ("status", "kind", "base", "exit_code"),
    [
        (400, problems.BadRequest, UsageError, 2),
        (401, problems.Unauthenticated, Refused, 5),
        (403, problems.Forbidden, Refused, 5),
        (404, problems.NotFound, UsageError, 2),
        (405, problems.NotAllowed, UsageError, 2),
        (409, problems.Conflict, Refused, 5),
        (418, problems.UnexpectedAnswer, Refused, 5),
        (429, problems.Throttled, Unfinished, 6),
        (500, problems.ServiceDown, Unfinished, 6),
        (503, problems.ServiceDown, Unfinished, 6),
    ],
)
def test_each_status_is_an_error_of_its_own_with_the_words_of_the_service(
    status: int, kind: type[ServiceProblem], base: type[Exception], exit_code: int
) -> None:
    """It has the fields type, code, detail and attr; its exit code says what to do next; it can be pickled. A refusal
    is not tried again; a passing failure is, three more times."""
    said = Canned(status, envelope("That is wrong.", "bad", "validation_error", "inputs__url"))
    name = ("retrieve hog function", "list hog functions", "delete recording")[status % 3]
    with answering(lambda call: said) as service, service.client() as client, pytest.raises(ServiceProblem) as caught:
        OPERATIONS[name][0](client)
    error = caught.value
    assert type(error) is kind
    assert isinstance(error, base)
    assert (error.status, error.type, error.code, error.detail, error.attr) == (
        status, "validation_error", "bad", "That is wrong.", "inputs__url",
    )  # fmt: skip
    assert error.exit_code == exit_code
    assert str(status) in error.message
    assert "That is wrong." in error.message
    assert error.hint
    assert pickle.loads(pickle.dumps(error)).__dict__ == error.__dict__
    assert len(service.asked) == (4 if base is Unfinished else 1)


def test_error_bodies_of_every_shape_are_read() -> None:
    """The envelope, bare fields, `error`, text, nothing (docs/know/service.md#management-api)."""
    shapes: list[tuple[Any, str, str]] = [
        (b"", "", ""),
        (b"plain text\n", "plain text", ""),
        (b"<html>no</html>", "<html>no</html>", ""),
        ({"configuration": ["Required."]}, '{"configuration": ["Required."]}', "configuration"),
        ({"error": "It broke."}, "It broke.", ""),
        ({"detail": {"a": 1}}, '{"a": 1}', ""),
        (envelope("x" * 5000), "x" * 300, ""),
        ([1, 2], "[1, 2]", ""),
        (b'"text"', '"text"', ""),
        (b"\xff\xfe", "��", ""),
    ]
    with answering(scripted(*(Canned(400, body) for body, _, _ in shapes))) as service, service.client() as client:
        for _, detail, attr in shapes:
            with pytest.raises(problems.BadRequest) as caught:
                client.hog_functions.invoke(ID, {"globals": {}})
            assert (caught.value.detail, caught.value.attr) == (detail, attr)


SCOPES = {name: row.scope for name, row in ROWS.items() if "PUT" not in name and name != "refresh sharing"} | {
    "list projects": "project:read"
}


@pytest.mark.parametrize("name", SCOPES)
def test_a_missing_scope_is_named(name: str) -> None:
    """As the answer names it, or by the contract's table if the answer does not."""
    said = scripted(Canned(403), Canned(403, envelope("API key missing required scope 'other_thing:write'")))
    with answering(said) as service, service.client() as client:
        for scope in (SCOPES[name], "other_thing:write"):
            with pytest.raises(problems.Forbidden) as caught:
                OPERATIONS[name][0](client)
            assert caught.value.scope == scope
            assert scope in caught.value.hint


def test_another_project_than_the_keys_is_not_called_a_missing_scope() -> None:
    """The key has the scope but does not reach that project."""
    detail = "API key does not have access to the requested project: ID 7."
    with (
        answering(lambda call: Canned(403, envelope(detail))) as service,
        service.client() as client,
        pytest.raises(problems.Forbidden) as caught,
    ):
        client.hog_functions.retrieve(ID)
    assert "project" in caught.value.hint
    assert "scope" not in caught.value.hint


def test_hard_deletion_is_explained_and_not_sent() -> None:
    """Unless it is asked for: then the service's own 405 is the error, its body empty."""
    with answering(lambda call: Canned(405)) as service, service.client() as client:
        with pytest.raises(problems.NotAllowed) as caught:
            client.hog_functions.hard_delete(ID)
        assert (caught.value.status, service.asked) == (405, [])
        assert "deleted true" in caught.value.hint
        with pytest.raises(problems.NotAllowed) as caught:
            client.hog_functions.hard_delete(ID, send=True)
        assert [(call.method, call.path) for call in service.asked] == [("DELETE", f"{FUNCTIONS}{ID}/")]
        assert (caught.value.status, caught.value.detail) == (405, "")
        assert "deleted true" in caught.value.hint


def test_neither_the_key_nor_an_input_is_repeated(caplog: pytest.LogCaptureFixture) -> None:
    """Not in errors, which quote the service; not in a `repr`; not in a log."""
    caplog.set_level(logging.DEBUG)
    values = {"token": "swordfish", "pin": 8675309, "headers": {"X": 'say "friend"'}}
    sent: dict[str, Any] = {
        "inputs": {name: {"value": value} for name, value in values.items()},
        "mappings": [{"inputs": {"a": {"value": ["open-sesame"]}}}],
    }
    secrets = (KEY, "swordfish", 'say "friend"', "friend", "open-sesame", "8675309")

    def echo(call: Asked) -> Canned:
        heard = f"{call.headers['authorization']} {call.body.decode()} {call.json['inputs']}"
        return Canned(400, envelope(heard)) if call.number else Canned(400, heard.encode())

    with answering(echo) as service, service.client() as client:
        for _ in range(2):
            with pytest.raises(problems.BadRequest) as caught:
                client.hog_functions.create(sent)
            error = caught.value
            told = f"{error} {error!r} {error.hint} {error.__dict__} {client!r}"
            assert [secret for secret in secrets if secret in told] == []
            assert "***" in error.detail
    assert KEY in service.asked[0].headers["authorization"]
    assert [secret for secret in secrets if secret in caplog.text] == []


def test_what_json_cannot_say_is_a_usage_error() -> None:
    """Before anything is sent."""
    with answering(lambda call: Canned(200, {})) as service, service.client() as client:
        for body in ({"a": float("nan")}, {"a": object()}, {1: {2}}):
            with pytest.raises(UsageError, match="JSON"):
                client.hog_functions.create(body)  # type: ignore[arg-type]
        assert service.asked == []


def test_a_success_that_is_not_an_object_is_an_error() -> None:
    """A page from something in between is not read as a function; nothing of it is shown."""
    bodies = (b"", b"<html>", b"[1]", b'"x"', b"[" * 100_000)
    with answering(scripted(*(Canned(200, body) for body in bodies))) as service, service.client() as client:
        for _ in bodies:
            with pytest.raises(problems.UnexpectedAnswer) as caught:
                client.hog_functions.retrieve(ID)
            assert caught.value.status == 200
            assert "html" not in caught.value.message


def test_no_connection_is_an_error_of_its_own() -> None:
    """Two lines, the address in the first."""
    with answering(lambda call: PAGE) as service:
        client = service.client()
    with client, pytest.raises(problems.ServiceDown, match=str(service.port)) as caught:
        client.hog_functions.retrieve(ID)
    assert (caught.value.status, caught.value.code, caught.value.exit_code) == (0, "no_answer", 6)


POSTS = [name for name, (_, method, _, _) in OPERATIONS.items() if method == "POST"]
PASSING = [Canned(429), Canned(500), Canned(503), Canned(0)]


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in POSTS])
def test_what_may_be_repeated_is_asked_again(name: str) -> None:
    """GET, DELETE, and PATCH, whose bodies set values: the same request until there is an answer."""
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


def test_a_wait_longer_than_patience_is_an_error_at_once() -> None:
    """Retry-After is a field of the error."""
    said, retry = Canned(429, b"", {"Retry-After": "7"}), RetryPolicy(tries=1, first=0, most=6.9)
    with (
        answering(lambda call: said) as service,
        service.client(retry=retry) as client,
        pytest.raises(problems.Throttled, match="429") as caught,
    ):
        client.hog_functions.retrieve(ID)
    assert (len(service.asked), caught.value.retry_after) == (1, 7.0)
    assert "7 seconds" in caught.value.hint


def test_retry_after_is_the_least_that_is_waited() -> None:
    """Even if the back-off would be shorter."""
    retry = RetryPolicy(tries=1, first=0)
    said = scripted(Canned(429, b"", {"Retry-After": "0.1"}), PAGE)
    with answering(said) as service, service.client(retry=retry) as client:
        begun = time.monotonic()
        client.hog_functions.list().page()
        assert time.monotonic() - begun >= 0.1


def test_a_deletion_whose_answer_was_lost_is_done_when_nothing_is_there_any_more() -> None:
    """404 after a try that may have worked is a success; on the first try it is an error; after 429 too."""
    lost, gone, busy = Canned(0), Canned(404), Canned(429)
    for do, done in ((OPERATIONS["soft-delete hog function"][0], None), (OPERATIONS["delete recording"][0], None)):
        with answering(scripted(lost, gone)) as service, service.client() as client:
            assert do(client) is done
        for answers in ((gone,), (busy, gone)):
            with answering(scripted(*answers)) as service, service.client() as client, pytest.raises(problems.NotFound):
                do(client)


def test_a_change_with_a_precondition_is_sent_once() -> None:
    """`base_updated_at` holds only the first time (docs/know/service.md#hog-functions)."""
    with (
        answering(scripted(Canned(503), Canned(200, {}))) as service,
        service.client() as client,
        pytest.raises(problems.ServiceDown),
    ):
        client.hog_functions.update(ID, {"name": "a", "base_updated_at": "2024-01-01T00:00:00Z"})
    assert len(service.asked) == 1
