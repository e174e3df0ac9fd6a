"""What the typed client raises: an error for each status, with the service's words and without secrets."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest

from pipeline.errors import Refused, Unfinished, UsageError
from pipeline.management import problems
from pipeline.management.problems import ServiceProblem
from tests.support.operations import FUNCTIONS, ID, OPERATIONS, PAGE, ROWS, envelope
from tests.support.scripted_api import KEY, answering
from tests.support.scripted_server import Asked, Said, scripted

pytestmark = pytest.mark.slow


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
    """type, code, detail and attr are its facts; its exit code says what to do next; it crosses process borders."""
    said = Said(status, envelope("That is wrong.", "bad", "validation_error", "inputs__url"))
    name = ("create hog function", "list hog functions", "delete recording")[status % 3]
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
    with answering(scripted(*(Said(400, body) for body, _, _ in shapes))) as service, service.client() as client:
        for _, detail, attr in shapes:
            with pytest.raises(problems.BadRequest) as caught:
                client.hog_functions.invoke(ID, {"globals": {}})
            assert (caught.value.detail, caught.value.attr) == (detail, attr)


SCOPES = {name: row.scope for name, row in ROWS.items() if "PUT" not in name and name != "refresh sharing"} | {
    "list projects": "project:read"
}


@pytest.mark.parametrize("name", SCOPES)
def test_a_missing_scope_is_named(name: str) -> None:
    """As the answer says it, or by the contract's table where the answer does not."""
    said = scripted(Said(403), Said(403, envelope("API key missing required scope 'other_thing:write'")))
    with answering(said) as service, service.client() as client:
        for scope in (SCOPES[name], "other_thing:write"):
            with pytest.raises(problems.Forbidden) as caught:
                OPERATIONS[name][0](client)
            assert caught.value.scope == scope
            assert scope in caught.value.hint


def test_another_project_than_the_keys_is_not_called_a_missing_scope() -> None:
    """The key has the scope and does not reach there."""
    detail = "API key does not have access to the requested project: ID 7."
    with (
        answering(lambda call: Said(403, envelope(detail))) as service,
        service.client() as client,
        pytest.raises(problems.Forbidden) as caught,
    ):
        client.hog_functions.retrieve(ID)
    assert "project" in caught.value.hint
    assert "scope" not in caught.value.hint


def test_hard_deletion_is_explained_and_not_sent() -> None:
    """Unless it is asked for: then the service's own 405 is the error, its body empty."""
    with answering(lambda call: Said(405)) as service, service.client() as client:
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
    """Not in errors, which show the words of the service; not in a `repr`; not in a log."""
    caplog.set_level(logging.DEBUG)
    sent = {
        "inputs": {
            "token": {"value": "swordfish"},
            "pin": {"value": 8675309},
            "headers": {"value": {"X": 'say "friend"'}},
        },
        "mappings": [{"inputs": {"a": {"value": ["open-sesame"]}}}],
    }
    secrets = (KEY, "swordfish", 'say "friend"', "friend", "open-sesame", "8675309")

    def echo(call: Asked) -> Said:
        heard = f"{call.headers['authorization']} {call.body.decode()} {call.json['inputs']}"
        return Said(400, envelope(heard)) if call.number else Said(400, heard.encode())

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
    with answering(lambda call: Said(200, {})) as service, service.client() as client:
        for body in ({"a": float("nan")}, {"a": object()}, {1: {2}}):
            with pytest.raises(UsageError, match="JSON"):
                client.hog_functions.create(body)  # type: ignore[arg-type]
        assert service.asked == []


def test_a_success_that_is_no_object_is_an_error() -> None:
    """A page of somebody in between is not taken for a function; nothing of it is shown."""
    bodies = (b"", b"<html>", b"[1]", b'"x"', b"[" * 100_000)
    with answering(scripted(*(Said(200, body) for body in bodies))) as service, service.client() as client:
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
