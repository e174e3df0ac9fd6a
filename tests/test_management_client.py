"""The typed client: each operation as the contract writes it, pages, retries, errors, and where the key goes."""

from __future__ import annotations

import json
import logging
import pickle
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from answers import AT_ONCE, KEY, Call, Said, answering, in_turn

from pipeline.config import Secret
from pipeline.errors import Refused, Unfinished, UsageError
from pipeline.management import ManagementClient, problems
from pipeline.management.client import management_address
from pipeline.management.models import HogFunctionWrite, SessionRecordingWrite
from pipeline.management.problems import ServiceProblem
from pipeline.management.retry import Patience

pytestmark = pytest.mark.slow

ID = "01900000-0000-0000-0000-00000000000a"
FUNCTIONS = "/api/projects/7/hog_functions/"
RECORDINGS = "/api/projects/7/session_recordings/"
PAGE = Said(body={"count": 0, "next": None, "previous": None, "results": []})
EMPTY = Said(200)
Do = Callable[[ManagementClient], Any]

OPERATIONS: dict[str, tuple[Do, str, str, Said]] = {
    "list hog functions": (lambda c: list(c.hog_functions.list()), "GET", FUNCTIONS, PAGE),
    "create": (lambda c: c.hog_functions.create({"name": "a"}), "POST", FUNCTIONS, Said(201, {"id": ID})),
    "retrieve": (lambda c: c.hog_functions.retrieve(ID), "GET", f"{FUNCTIONS}{ID}/", Said(200, {"id": ID})),
    "update": (lambda c: c.hog_functions.update(ID, {"name": "a"}), "PATCH", f"{FUNCTIONS}{ID}/", Said(200, {})),
    "delete": (lambda c: c.hog_functions.delete(ID), "PATCH", f"{FUNCTIONS}{ID}/", Said(200, {"deleted": True})),
    "broadcast": (lambda c: c.hog_functions.broadcast(ID), "POST", f"{FUNCTIONS}{ID}/broadcast/", EMPTY),
    "invoke": (lambda c: c.hog_functions.invoke(ID), "POST", f"{FUNCTIONS}{ID}/invocations/", EMPTY),
    "logs": (lambda c: c.hog_functions.logs(ID), "GET", f"{FUNCTIONS}{ID}/logs/", EMPTY),
    "metrics": (lambda c: c.hog_functions.metrics(ID), "GET", f"{FUNCTIONS}{ID}/metrics/", EMPTY),
    "metrics totals": (
        lambda c: c.hog_functions.metrics_totals(ID), "GET", f"{FUNCTIONS}{ID}/metrics/totals/", EMPTY
    ),
    "icon": (lambda c: c.hog_functions.icon(), "GET", f"{FUNCTIONS}icon/", EMPTY),
    "icons": (lambda c: c.hog_functions.icons(), "GET", f"{FUNCTIONS}icons/", EMPTY),
    "rearrange": (lambda c: c.hog_functions.rearrange({ID: 1}), "PATCH", f"{FUNCTIONS}rearrange/", EMPTY),
    "list recordings": (lambda c: list(c.session_recordings.list()), "GET", RECORDINGS, PAGE),
    "retrieve recording": (lambda c: c.session_recordings.retrieve("r"), "GET", f"{RECORDINGS}r/", Said(200, {})),
    "update recording": (
        lambda c: c.session_recordings.update("r", {"person": {}}), "PATCH", f"{RECORDINGS}r/", Said(200, {})
    ),
    "delete recording": (lambda c: c.session_recordings.delete("r"), "DELETE", f"{RECORDINGS}r/", Said(204)),
    "sharing": (lambda c: c.session_recordings.sharing("r"), "GET", f"{RECORDINGS}r/sharing/", Said(200, {})),
    "list projects": (lambda c: list(c.projects.list()), "GET", "/api/projects/", PAGE),
}  # fmt: skip
"""Each operation of service-api 4: how the client does it, its method and path, an answer of the contract."""
HARD_DELETE: Do = lambda c: c.hog_functions.hard_delete(ID, send=True)  # noqa: E731
READS = [name for name, (_, method, _, _) in OPERATIONS.items() if method == "GET"]
POSTS = [name for name, (_, method, _, _) in OPERATIONS.items() if method == "POST"]


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_asked_as_the_contract_writes_it(name: str) -> None:
    """Method, path with its final slash, and the key as a Bearer token; asked once."""
    do, method, path, said = OPERATIONS[name]
    with answering(lambda call: said) as service, service.client() as client:
        do(client)
    assert [(call.method, call.target) for call in service.calls] == [(method, path)]
    assert service.calls[0].headers["authorization"] == f"Bearer {KEY}"
    assert (service.calls[0].headers.get("content-type") == "application/json") is (method in ("POST", "PATCH"))


def test_all_ten_filters_of_the_list_are_sent() -> None:
    """Several types or kinds are a comma list; a bool is true or false; what is not given is not sent."""
    with answering(lambda call: PAGE) as service, service.client() as client:
        client.hog_functions.list(
            created_at="2024-01-01", created_by=3, enabled=False, exclude_kind=["a", "b"], id=ID, kind=("c", "d"),
            limit=5, offset=10, type="destination,site_app", updated_at="2024-01-02T03:04:05+00:00",
        ).page()  # fmt: skip
        client.hog_functions.list(type=[]).page()
    assert service.calls[0].query == {
        "created_at": "2024-01-01", "created_by": "3", "enabled": "false", "exclude_kind": "a,b", "id": ID,
        "kind": "c,d", "limit": "5", "offset": "10", "type": "destination,site_app",
        "updated_at": "2024-01-02T03:04:05+00:00",
    }  # fmt: skip
    assert service.calls[1].target == FUNCTIONS


@pytest.mark.parametrize(
    ("do", "sent"),
    [
        (lambda c: c.hog_functions.create(HogFunctionWrite(name="a", enabled=False)), {"name": "a", "enabled": False}),
        (lambda c: c.hog_functions.update(ID, {"filters": None}), {"filters": None}),
        (lambda c: c.hog_functions.update(ID, b'{"execution_order": 1.10}'), b'{"execution_order": 1.10}'),
        (lambda c: c.hog_functions.delete(ID), {"deleted": True}),
        (lambda c: c.hog_functions.broadcast(ID), {}),
        (lambda c: c.hog_functions.broadcast(ID, HogFunctionWrite(hog="return 1")), {"hog": "return 1"}),
        (lambda c: c.hog_functions.invoke(ID, {"configuration": {"hog": ""}}), {"configuration": {"hog": ""}}),
        (lambda c: c.hog_functions.invoke(ID, HogFunctionWrite(kind="k")), {"kind": "k"}),
        (lambda c: c.hog_functions.rearrange({ID: 2, "b": 1}), {"orders": {ID: 2, "b": 1}}),
        (lambda c: c.hog_functions.rearrange(body=HogFunctionWrite(execution_order=3)), {"execution_order": 3}),
        (lambda c: c.session_recordings.update("r", SessionRecordingWrite(person={"id": 1})), {"person": {"id": 1}}),
        (lambda c: c.session_recordings.update("r", {"viewed": True}), {"viewed": True}),
    ],
)
def test_a_body_holds_what_was_given_and_nothing_else(do: Do, sent: Any) -> None:
    """The writable fields wherever the contract lists them, the service's own shapes, and JSON as it stands."""
    with answering(lambda call: Said(200, {})) as service, service.client() as client:
        do(client)
    call = service.calls[0]
    assert (call.content if isinstance(sent, bytes) else call.json) == sent


def test_answers_become_the_objects_of_the_contract() -> None:
    """Typed, with what the contract does not know kept."""
    function = {"id": ID, "name": "a", "inputs": {"u": {"value": "x"}}, "newer": [1]}
    with answering(lambda call: Said(200, function)) as service, service.client() as client:
        found = client.hog_functions.retrieve(ID)
    assert found.inputs is not None
    assert (found.name, found.inputs["u"].value, found.plain()) == ("a", "x", function)


def test_a_rearrangement_gives_the_functions_that_are_shown() -> None:
    """A plain array as the service answers it, or nothing, as the contract leaves it open."""
    shown = in_turn(Said(200, [{"id": "a"}, {"id": "b"}]), Said(200), Said(204))
    with answering(shown) as service, service.client() as client:
        found = [[one.id for one in client.hog_functions.rearrange({"a": 1})] for _ in range(3)]
    assert found == [["a", "b"], [], []]


def test_parameters_that_only_the_service_shows_are_sent_too() -> None:
    """Logs, metrics, icons: their filters (service-behaviour 5.2)."""
    with answering(lambda call: Said(200, {"totals": {}})) as service, service.client() as client:
        client.hog_functions.logs(ID, limit=2, after="a", before="b", level="ERROR", search="s", instance_id="i")
        client.hog_functions.metrics(ID, after="-7d", interval="day", breakdown_by="kind", name=["x", "y"], kind="k")
        assert client.hog_functions.metrics_totals(ID, before="b") == {"totals": {}}
        client.hog_functions.icon("slack.com")
        client.hog_functions.icons("slack")
    assert [call.query for call in service.calls] == [
        {"limit": "2", "after": "a", "before": "b", "level": "ERROR", "search": "s", "instance_id": "i"},
        {"after": "-7d", "interval": "day", "breakdown_by": "kind", "name": "x,y", "kind": "k"},
        {"before": "b"},
        {"id": "slack.com"},
        {"query": "slack"},
    ]


def test_an_icon_is_its_bytes_and_their_type() -> None:
    """Never decoded."""
    said = Said(200, b"\x89PNG\xff", {"Content-Type": "image/png; x=1"})
    with answering(lambda call: said) as service, service.client() as client:
        assert client.hog_functions.icon() == (b"\x89PNG\xff", "image/png")


# -- ids and addresses --------------------------------------------------------------------------------------


def test_ids_and_projects_are_one_segment_of_a_path_whatever_they_hold() -> None:
    """They are strings, percent-encoded."""
    with answering(lambda call: Said(200, {})) as service, service.client("@current") as client:
        client.session_recordings.retrieve("a/b?c#d ü..")
    assert service.calls[0].target == "/api/projects/%40current/session_recordings/a%2Fb%3Fc%23d%20%C3%BC../"


@pytest.mark.parametrize("id", ["", ".", "..", " ", "a\nb", "icon", "rearrange"])
@pytest.mark.parametrize("do", ["retrieve", "delete"])
def test_an_id_that_would_lead_elsewhere_is_not_sent(do: str, id: str) -> None:
    """An empty id would be the list; two dots the level above; some words are other operations."""
    with answering(lambda call: Said(200, {})) as service, service.client() as client:
        with pytest.raises(UsageError):
            getattr(client.hog_functions, do)(id)
        assert service.calls == []


@pytest.mark.parametrize("project", ["", "..", "1\n"])
def test_a_project_that_would_lead_elsewhere_is_refused(project: str) -> None:
    """Before anything is sent."""
    with pytest.raises(UsageError):
        ManagementClient("eu", Secret(KEY), project)


@pytest.mark.parametrize(
    ("target", "api", "address"),
    [
        ("us", None, "https://us.posthog.com"),
        ("eu", None, "https://eu.posthog.com"),
        ("https://eu.i.posthog.com/", None, "https://eu.posthog.com"),
        ("https://us.posthog.com", None, "https://us.posthog.com"),
        ("http://127.0.0.1:8100/", None, "http://127.0.0.1:8100"),
        ("https://in.example.com", "https://api.example.com/", "https://api.example.com"),
        ("https://in.example.com", "eu", "https://eu.posthog.com"),
    ],
)
def test_the_management_api_has_hosts_of_its_own(target: str, api: str | None, address: str) -> None:
    """A capture host stands for its region; `api` names what a target does not tell (service-behaviour 1.1)."""
    assert management_address(target, api) == address


def test_a_path_before_the_api_is_kept() -> None:
    """A service may live below another path."""
    with (
        answering(lambda call: Said(200, {})) as service,
        ManagementClient(service.url + "/hog/", Secret(KEY), "7", patience=AT_ONCE) as client,
    ):
        client.hog_functions.retrieve(ID)
    assert service.calls[0].path == f"/hog{FUNCTIONS}{ID}/"


def test_without_a_project_the_only_one_is_chosen() -> None:
    """More than one is an error that names them, none is one too."""
    one, two = {"id": 7, "name": "Shop"}, {"id": 8, "name": "Test"}
    pages = [[one], [one, two], []]
    with answering(lambda call: Said(200, {"results": pages[call.number]})) as service, service.client(None) as client:
        with pytest.raises(UsageError, match="which project"):
            client.hog_functions.retrieve(ID)
        assert (client.choose_project(), client.project_id) == ("7", "7")
        with pytest.raises(UsageError, match=r"7 \(Shop\), 8 \(Test\)"):
            client.choose_project()
        with pytest.raises(UsageError, match="no project"):
            client.choose_project()


# -- pages --------------------------------------------------------------------------------------------------


def paged(sizes: list[int]) -> Callable[[Call], Said]:
    """A list in pages of these sizes, by offset, each with the URL of its next."""

    def answer(call: Call) -> Said:
        at = int(call.query.get("offset", 0))
        page = sizes.index(at) if at in sizes else sum(sum(sizes[:n]) <= at for n in range(len(sizes))) - 1
        items = [{"id": str(at + n)} for n in range(sizes[page])]
        host = call.headers["host"]
        more = f"http://{host}{call.path}?limit=2&offset={at + sizes[page]}" if page + 1 < len(sizes) else None
        return Said(200, {"count": sum(sizes), "next": more, "previous": None, "results": items})

    return answer


def test_iterating_follows_next_to_the_end() -> None:
    """Every item of every page once and in order; one page is asked for one page."""
    with answering(paged([2, 2, 1])) as service, service.client() as client:
        found = client.hog_functions.list(limit=2, type="destination")
        assert service.calls == []
        assert [one.id for one in found] == ["0", "1", "2", "3", "4"]
        assert len(service.calls) == 3
        assert [one.id for one in found.page().results or ()] == ["0", "1"]
        assert len(service.calls) == 4
    assert service.calls[0].query == {"limit": "2", "type": "destination"}
    assert {call.headers["authorization"] for call in service.calls} == {f"Bearer {KEY}"}


def test_where_the_service_has_no_next_the_offset_moves_on() -> None:
    """Recordings say `has_next` (service-behaviour 5.3)."""

    def answer(call: Call) -> Said:
        at = int(call.query.get("offset", 0))
        return Said(200, {"results": [{"id": str(at)}], "has_next": at < 2, "version": 4})

    with answering(answer) as service, service.client() as client:
        assert [one.id for one in client.session_recordings.list(limit=1)] == ["0", "1", "2"]


@pytest.mark.parametrize(
    "next",
    [
        "https://127.0.0.1:{port}/api/projects/7/hog_functions/?offset=1",
        "http://localhost:{port}/api/projects/7/hog_functions/?offset=1",
        "http://127.0.0.1:{other}/api/projects/7/hog_functions/?offset=1",
        "//evil.example/x",
        "http://127.0.0.1:{port}@evil.example/x",
        "http://user:word@127.0.0.1:{port}/x",
        "file:///etc/passwd",
        "http://[",
        "http://127.0.0.1:99999/",
    ],
)
def test_a_next_that_leads_away_is_an_error_and_not_followed(next: str) -> None:
    """The key goes to one scheme, host and port."""
    with answering(lambda call: PAGE) as other:
        target = next.replace("{other}", str(other.port))

        def answer(call: Call) -> Said:
            port = call.headers["host"].split(":")[1]
            return Said(200, {"count": 2, "next": target.replace("{port}", port), "results": [{"id": "a"}]})

        with answering(answer) as service, service.client() as client:
            with pytest.raises(problems.UnexpectedAnswer, match="another address"):
                list(client.hog_functions.list())
            assert len(service.calls) == 1
        assert other.calls == []


def test_pages_that_lead_in_a_circle_are_an_error() -> None:
    """Rather than a command that never ends."""

    def answer(call: Call) -> Said:
        onward = f"http://{call.headers['host']}{call.path}?offset={(call.number + 1) % 3}"
        return Said(200, {"count": 9, "next": onward, "results": [{"id": "a"}]})

    with answering(answer) as service, service.client() as client:
        with pytest.raises(problems.UnexpectedAnswer, match="circle"):
            list(islice(client.hog_functions.list(offset=0), 20))
        assert len(service.calls) <= 4


@pytest.mark.parametrize(
    "body", [b"", b"<html>", [], {"count": 1}, {"results": {}}, {"results": [1]}, {"results": [], "next": 5}]
)
def test_what_is_no_page_is_an_error(body: Any) -> None:
    """Somebody else answered."""
    with (
        answering(lambda call: Said(200, body)) as service,
        service.client() as client,
        pytest.raises(problems.UnexpectedAnswer),
    ):
        list(client.hog_functions.list())


# -- errors -------------------------------------------------------------------------------------------------


def envelope(detail: str, code: str = "c", kind: str = "t", attr: str | None = None) -> dict[str, Any]:
    return {"type": kind, "code": code, "detail": detail, "attr": attr}


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
@pytest.mark.parametrize("name", ["create", "list hog functions", "delete recording"])
def test_each_status_is_an_error_of_its_own_with_the_words_of_the_service(
    name: str, status: int, kind: type[ServiceProblem], base: type[Exception], exit_code: int
) -> None:
    """type, code, detail and attr are its facts; its exit code says what to do next; it crosses process borders."""
    said = Said(status, envelope("That is wrong.", "bad", "validation_error", "inputs__url"))
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


@pytest.mark.parametrize(
    ("body", "detail", "attr"),
    [
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
    ],
)  # fmt: skip
def test_error_bodies_of_every_shape_are_read(body: Any, detail: str, attr: str) -> None:
    """The envelope, bare fields, `error`, text, nothing (service-behaviour 5)."""
    with (
        answering(lambda call: Said(400, body)) as service,
        service.client() as client,
        pytest.raises(problems.BadRequest) as caught,
    ):
        client.hog_functions.invoke(ID, {"globals": {}})
    assert (caught.value.detail, caught.value.attr) == (detail, attr)


SCOPES = {
    "list hog functions": "hog_function:read", "retrieve": "hog_function:read", "create": "hog_function:write",
    "update": "hog_function:write", "delete": "hog_function:write", "list recordings": "session_recording:read",
    "retrieve recording": "session_recording:read", "update recording": "session_recording:write",
    "delete recording": "session_recording:write", "sharing": "sharing_configuration:read",
    "broadcast": "hog_function:write", "invoke": "hog_function:write", "rearrange": "hog_function:write",
    "logs": "hog_function:read", "metrics": "hog_function:read", "metrics totals": "hog_function:read",
    "icon": "hog_function:read", "icons": "hog_function:read", "list projects": "project:read",
}  # fmt: skip


@pytest.mark.parametrize("name", SCOPES)
def test_a_missing_scope_is_named(name: str) -> None:
    """As the answer says it, or by the contract's table where the answer does not."""
    said = in_turn(Said(403), Said(403, envelope("API key missing required scope 'other_thing:write'")))
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
        assert (caught.value.status, service.calls) == (405, [])
        assert "deleted true" in caught.value.hint
        with pytest.raises(problems.NotAllowed) as caught:
            client.hog_functions.hard_delete(ID, send=True)
        assert [(call.method, call.path) for call in service.calls] == [("DELETE", f"{FUNCTIONS}{ID}/")]
        assert (caught.value.status, caught.value.detail) == (405, "")
        assert "deleted true" in caught.value.hint


def test_neither_the_key_nor_an_input_is_repeated(caplog: pytest.LogCaptureFixture) -> None:
    """Not in errors, which show the words of the service; not in a `repr`; not in a log."""
    caplog.set_level(logging.DEBUG)
    sent = {
        "inputs": {"token": {"value": "swordfish"}, "headers": {"value": {"X": 'say "friend"'}}},
        "mappings": [{"inputs": {"a": {"value": ["open-sesame"]}}}],
    }
    secrets = (KEY, "swordfish", 'say "friend"', "friend", "open-sesame")

    def echo(call: Call) -> Said:
        heard = f"{call.headers['authorization']} {call.content.decode()} {call.json['inputs']}"
        return Said(400, envelope(heard)) if call.number else Said(400, heard.encode())

    with answering(echo) as service, service.client() as client:
        for _ in range(2):
            with pytest.raises(problems.BadRequest) as caught:
                client.hog_functions.create(sent)
            error = caught.value
            told = f"{error} {error!r} {error.hint} {error.__dict__} {client!r}"
            assert [secret for secret in secrets if secret in told] == []
            assert "***" in error.detail
    assert KEY in service.calls[0].headers["authorization"]
    assert [secret for secret in secrets if secret in caplog.text] == []


def test_what_json_cannot_say_is_a_usage_error() -> None:
    """Before anything is sent."""
    with answering(lambda call: Said(200, {})) as service, service.client() as client:
        for body in ({"a": float("nan")}, {"a": object()}, {1: {2}}):
            with pytest.raises(UsageError, match="JSON"):
                client.hog_functions.create(body)  # type: ignore[arg-type]
        assert service.calls == []


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'"x"', b"[" * 100_000])
def test_a_success_that_is_no_object_is_an_error(body: bytes) -> None:
    """A page of somebody in between is not taken for a function; nothing of it is shown."""
    with (
        answering(lambda call: Said(200, body)) as service,
        service.client() as client,
        pytest.raises(problems.UnexpectedAnswer) as caught,
    ):
        client.hog_functions.retrieve(ID)
    assert caught.value.status == 200
    assert "html" not in caught.value.message


def test_a_redirect_is_not_followed() -> None:
    """The key would go where the redirect says."""
    with answering(lambda call: PAGE) as other:
        onward = Said(307, b"", {"Location": f"{other.url}/api?k={KEY}"})
        with (
            answering(lambda call: onward) as service,
            service.client() as client,
            pytest.raises(problems.UnexpectedAnswer, match="redirect") as caught,
        ):
            client.hog_functions.list().page()
        assert other.calls == []
    assert KEY not in str(caught.value)
    assert other.url in str(caught.value)


# -- retries ------------------------------------------------------------------------------------------------

PASSING = [Said(429), Said(500), Said(503), Said(0)]


@pytest.mark.parametrize("first", PASSING, ids=lambda said: str(said.status))
@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in POSTS])
def test_what_may_be_repeated_is_asked_again(name: str, first: Said) -> None:
    """GET, DELETE, and PATCH, whose bodies set values: the same request until it is answered."""
    do, _, _, said = OPERATIONS[name]
    with answering(in_turn(first, first, said)) as service, service.client() as client:
        do(client)
    assert len(service.calls) == 3
    assert len({(call.method, call.target, call.content) for call in service.calls}) == 1


@pytest.mark.parametrize("first", PASSING, ids=lambda said: str(said.status))
@pytest.mark.parametrize("name", POSTS)
def test_a_post_is_sent_once(name: str, first: Said) -> None:
    """It may have been done; the error says so, unless the service says that it was not."""
    do, _, _, said = OPERATIONS[name]
    with answering(in_turn(first, said)) as service, service.client() as client, pytest.raises(Unfinished) as caught:
        do(client)
    assert len(service.calls) == 1
    assert ("may have been done" in str(caught.value.hint)) is (first.status != 429)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409])
def test_a_refusal_is_not_asked_again(status: int) -> None:
    """The answer would be the same."""
    with answering(lambda call: Said(status)) as service, service.client() as client, pytest.raises(ServiceProblem):
        client.hog_functions.retrieve(ID)
    assert len(service.calls) == 1


def test_patience_ends() -> None:
    """After the first try and three more, with the last answer."""
    with (
        answering(lambda call: Said(503, envelope("busy"))) as service,
        service.client() as client,
        pytest.raises(problems.ServiceDown, match="busy"),
    ):
        client.hog_functions.retrieve(ID)
    assert len(service.calls) == 4


def test_a_wait_longer_than_patience_is_told_instead_of_waited_for() -> None:
    """Retry-After is a fact of the error."""
    said, patience = Said(429, b"", {"Retry-After": "7"}), Patience(tries=1, first=0, most=6.9)
    with (
        answering(lambda call: said) as service,
        service.client(patience=patience) as client,
        pytest.raises(problems.Throttled, match="429") as caught,
    ):
        client.hog_functions.retrieve(ID)
    assert (len(service.calls), caught.value.retry_after) == (1, 7.0)
    assert "7 seconds" in caught.value.hint


def test_retry_after_is_the_least_that_is_waited() -> None:
    """Even where the back-off would be shorter."""
    import time

    patience = Patience(tries=1, first=0)
    said = in_turn(Said(429, b"", {"Retry-After": "0.3"}), PAGE)
    with answering(said) as service, service.client(patience=patience) as client:
        begun = time.monotonic()
        client.hog_functions.list().page()
        assert time.monotonic() - begun >= 0.3


def test_a_deletion_whose_answer_was_lost_is_done_when_nothing_is_there_any_more() -> None:
    """404 after a try that may have worked is a success; at once it is an error; after 429 too."""
    lost, gone, busy = Said(0), Said(404), Said(429)
    for do, done in ((OPERATIONS["delete"][0], None), (OPERATIONS["delete recording"][0], None)):
        with answering(in_turn(lost, gone)) as service, service.client() as client:
            assert do(client) is done
        for answers in ((gone,), (busy, gone)):
            with answering(in_turn(*answers)) as service, service.client() as client, pytest.raises(problems.NotFound):
                do(client)


def test_a_change_with_a_precondition_is_sent_once() -> None:
    """`base_updated_at` holds the first time only (service-behaviour 5.2)."""
    with (
        answering(in_turn(Said(503), Said(200, {}))) as service,
        service.client() as client,
        pytest.raises(problems.ServiceDown),
    ):
        client.hog_functions.update(ID, {"name": "a", "base_updated_at": "2024-01-01T00:00:00Z"})
    assert len(service.calls) == 1


def test_no_connection_is_an_error_of_its_own() -> None:
    """Two lines, the address in the first."""
    with answering(lambda call: PAGE) as service:
        client = service.client()
    with client, pytest.raises(problems.ServiceDown, match=str(service.port)) as caught:
        client.hog_functions.retrieve(ID)
    assert (caught.value.status, caught.value.code, caught.value.exit_code) == (0, "no_answer", 6)


# -- starting -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    ["import pipeline.management", "import pipeline.management.problems", "import pipeline.workflow.library"],
)
def test_what_does_not_need_the_models_does_not_load_them(statement: str) -> None:
    """Planning and applying pay nothing for the management API."""
    script = f"import sys; {statement}; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_bodies_of_any_size_of_number_are_sent() -> None:
    """Beyond 64 bits too."""
    with answering(lambda call: Said(200, {})) as service, service.client() as client:
        client.hog_functions.update(ID, {"execution_order": 10**30})
    assert service.calls[0].content == json.dumps({"execution_order": 10**30}).encode()
