"""Who reaches what in the management API of the local service: paths, methods, keys, projects, secrets."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.support.management_service import (
    ALL,
    LIST,
    RECORDING,
    SCOPES,
    SECRET,
    Asking,
    asking,
    key_with,
    problem,
    query,
)

pytestmark = pytest.mark.slow


def test_a_path_that_is_not_there(ask: Asking) -> None:
    """404: no slash too many is forgiven, nothing is redirected."""
    for path in ("//api/projects/1/hog_functions/", "/api/projects//hog_functions/", LIST + "/", "/api/x", "/api"):
        assert ask("GET", ask.service.url + path).status_code == 404, path


def test_methods_of_a_path(ask: Asking) -> None:
    """HEAD answers as GET without a body, OPTIONS says what there is, any other is 405 with the same list."""
    id = ask.made(name="n")["id"]
    head, get = ask("HEAD", f"{LIST}{id}/"), ask("GET", f"{LIST}{id}/")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == get.headers["content-length"]
    assert ask("HEAD", LIST, key=None).status_code == 401
    assert ask("OPTIONS", LIST, key=None).headers["allow"] == "GET, HEAD, OPTIONS, POST"
    for method, path in (("PUT", f"{LIST}{id}/"), ("DELETE", LIST), ("POST", f"{LIST}icon/"), ("BREW", LIST)):
        answer = ask(method, path)
        assert problem(answer, 405) == ("method_not_allowed", None)
        assert "GET" in answer.headers["allow"]
    assert ask("GET", f"{LIST}rearrange/").headers["allow"] == "OPTIONS, PATCH"


def test_a_key_is_a_bearer(ask: Asking) -> None:
    """Any other scheme is no credentials."""
    for header in (ALL, f"Basic {ALL}", "Bearer", f"Bearer,{ALL}", f"Token {ALL}"):
        answer = ask("GET", LIST, key=None, headers={"authorization": header})
        assert problem(answer, 401) == ("not_authenticated", None), header


def test_secrets_of_inputs_are_never_given_back(tmp_path: Path) -> None:
    """A secret input is written, kept when it comes back as it was read, and in no answer, no file, no error."""
    with asking(store=tmp_path / "service.duckdb") as ask:
        for value in (SECRET, {"keys": [SECRET], SECRET: None}, [[SECRET]]):
            answers = asked_about_a_secret(ask, value)
            assert [answer.text for answer in answers if SECRET in answer.text] == []
    for written in tmp_path.iterdir():
        assert SECRET.encode() not in written.read_bytes()


def asked_about_a_secret(ask: Asking, value: object) -> list[httpx.Response]:
    """The answers to what can be asked of a function with that secret."""
    schema = [{"key": "token", "type": "string", "secret": True}, {"key": "url", "type": "string"}]
    held = {"token": {"value": value}, "url": {"value": "x"}}
    parts = {"inputs_schema": schema, "inputs": held}
    made = ask.made(name="n", mappings=[parts], **parts)
    path = f"{LIST}{made['id']}/"
    assert made["inputs"] == {"token": {"secret": True}, "url": {"value": "x"}}
    assert made["mappings"][0]["inputs"] == made["inputs"]
    again = ask("PATCH", path, {"inputs": made["inputs"], "mappings": made["mappings"]})
    assert (again.status_code, again.json()["inputs"]) == (200, made["inputs"])
    wrong = ask("PATCH", path, {"inputs": {"token": {"value": value, "order": "x"}}, "hog": "h"})
    lost = ask("POST", LIST, {"inputs_schema": schema, "inputs": {"token": {"secret": True}}})
    assert problem(lost, 400) == ("invalid_input", "inputs__token")
    opened = ask("PATCH", path, {"inputs_schema": [{"key": "token", "secret": False}]})
    return [again, wrong, lost, opened, *(ask("GET", place) for place in (path, LIST, "/_stats"))]


def test_an_access_token_shows_with_its_scope_alone(fresh: Asking, capfd: pytest.CaptureFixture[str]) -> None:
    """It stays the same, is in no recording, and nothing is logged."""
    path = f"/api/projects/1/session_recordings/{RECORDING}/sharing/"
    token = fresh("GET", path, key=key_with("sharing_configuration:read")).json()["access_token"]
    assert len(token) > 20
    assert fresh("GET", path).json()["access_token"] == token
    for scope in SCOPES:
        for way in ("", f"{RECORDING}/", f"{RECORDING}/sharing/"):
            answer = fresh("GET", f"/api/projects/1/session_recordings/{way}", key=key_with(scope))
            assert (token in answer.text) == (scope == "sharing_configuration:read" and way.endswith("sharing/"))
    shared = fresh("GET", "/api/projects/1/session_recordings/rec-3/sharing/").json()
    assert (shared["enabled"], shared["access_token"]) == (True, "tok-test")
    assert "tok-test" not in fresh("GET", "/api/projects/1/session_recordings/").text
    told = capfd.readouterr()
    assert token not in told.out + told.err


def test_documents_are_no_table_of_the_query_endpoint(queried: Asking) -> None:
    """What the management API keeps is not reached by SQL."""
    assert [query(queried, f"select * from {table}").status_code for table in ("events", "documents")] == [200, 400]


def test_another_project_has_its_own(fresh: Asking) -> None:
    """A function of one project is not found in another."""
    id = fresh.made(name="n")["id"]
    assert fresh("GET", f"/api/projects/2/hog_functions/{id}/").status_code == 404
    assert fresh("PATCH", f"/api/projects/2/hog_functions/{id}/", {"name": "x"}).status_code == 404
    assert fresh("GET", "/api/projects/2/hog_functions/").json()["count"] == 0
    assert fresh("GET", f"/api/projects/@current/hog_functions/{id}/").status_code == 200
