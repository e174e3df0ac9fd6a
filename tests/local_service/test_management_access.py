"""Who reaches what in the management API of the local service, and its lists: limits, pages, filters, order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.management_service import ALL, LIST, RECORDING, SCOPES, SECRET, Asking, asking, key_with, problem


def test_a_path_that_is_not_there(ask: Asking) -> None:
    """404: an additional slash is not ignored, and nothing is redirected."""
    for path in ("//api/projects/1/hog_functions/", "/api/projects//hog_functions/", LIST + "/", "/api/x", "/api"):
        assert ask("GET", ask.service.url + path).status_code == 404, path


def test_methods_of_a_path(ask: Asking) -> None:
    """HEAD answers as GET without a body, OPTIONS lists the methods, any other is 405 with the same list."""
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
    """Any other scheme counts as no credentials."""
    for header in (ALL, f"Basic {ALL}", "Bearer", f"Bearer,{ALL}", f"Token {ALL}"):
        answer = ask("GET", LIST, key=None, headers={"authorization": header})
        assert problem(answer, 401) == ("not_authenticated", None), header


def test_secrets_of_inputs_are_never_given_back(tmp_path: Path) -> None:
    """A secret input is written, kept if it is sent back as it was read, and is in no answer, no file, no error."""
    with asking(store=tmp_path / "service.duckdb") as ask:
        for value in (SECRET, {"keys": [SECRET], SECRET: None}, [[SECRET]]):
            answers = asked_about_a_secret(ask, value)
            assert [answer.text for answer in answers if SECRET in answer.text] == []
    for written in tmp_path.iterdir():
        assert SECRET.encode() not in written.read_bytes()


def asked_about_a_secret(ask: Asking, value: object) -> list[httpx.Response]:
    """The answers to all requests about a function with that secret."""
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
    return [again, wrong, lost, opened, *(ask("GET", place) for place in (path, LIST))]


def test_an_access_token_shows_with_its_scope_alone(fresh: Asking, capfd: pytest.CaptureFixture[str]) -> None:
    """The token stays the same, is in no recording, and nothing is logged."""
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


def test_another_project_has_its_own(fresh: Asking) -> None:
    id = fresh.made(name="n")["id"]
    assert fresh("GET", f"/api/projects/2/hog_functions/{id}/").status_code == 404
    assert fresh("PATCH", f"/api/projects/2/hog_functions/{id}/", {"name": "x"}).status_code == 404
    assert fresh("GET", "/api/projects/2/hog_functions/").json()["count"] == 0
    assert fresh("GET", f"/api/projects/@current/hog_functions/{id}/").status_code == 200


def test_limits_and_offsets_out_of_the_way(hundred: Asking) -> None:
    """A limit under 1 becomes the default, there is no maximum; an offset past the end gives an empty page."""
    most = "9" * 3000
    sizes = {
        "": 100, "limit=0": 100, "limit=-1": 100, f"limit={most}": 101, "offset=100": 1, "offset=101": 0,
        f"offset={most}": 0, "offset=-5": 100, "limit=&offset=": 100, "limit=1&limit=2": 2,
    }  # fmt: skip
    found = {query: hundred("GET", f"{LIST}?{query}").json() for query in sizes}
    assert {query: len(page["results"]) for query, page in found.items()} == sizes
    assert {page["count"] for page in found.values()} == {101}


@pytest.fixture(scope="module")
def hundred() -> Iterator[Asking]:
    """A service with 101 functions, from a seed."""
    with asking(seed={"hog_functions": [{"name": f"f{n}"} for n in range(101)]}) as found:
        yield found


def test_what_cannot_be_read_is_refused(ask: Asking) -> None:
    """400, and the parameter is named: a limit that is not an integer, as the contract states them, or a filter."""
    for asked in (
        *("limit=x", "limit=1.5", "offset=٣", "limit=%2B1", "offset=1e3", "created_at=x", "updated_at=yesterday"),
        *("created_by=x", "created_by=1.0", "enabled=maybe", "id=1"),
    ):
        assert problem(ask("GET", f"{LIST}?{asked}"), 400) == ("invalid_input", asked.partition("=")[0])


def test_the_url_of_a_page_keeps_the_request_as_it_was(hundred: Asking) -> None:
    """Scheme, host, path and slash of the request; other parameters, encoded; nothing from a malformed Host header."""
    found = hundred("GET", "/api/environments/1/hog_functions?limit=1&enabled=false&id=&x=%C3%BC%26").json()
    assert found["next"] == (
        f"{hundred.service.url}/api/environments/1/hog_functions?enabled=false&id=&x=%C3%BC%26&limit=1&offset=1"
    )
    other = hundred("GET", LIST + "?limit=1", headers={"host": "local.test:99"}).json()["next"]
    assert other.startswith("http://local.test:99/api/")
    crooked = hundred("GET", LIST + "?limit=1", headers={"host": "a b/[<x>"}).json()["next"]
    assert crooked.startswith(hundred.service.url)


FUNCTIONS = [
    {"id": f"0190c0de-0000-7000-8000-00000000000{n}", "name": f"f{n}", **more}
    for n, more in enumerate(
        [
            {"kind": "a", "enabled": True, "execution_order": 5, "created_at": "2023-01-01T00:00:00Z"},
            {"kind": "b", "enabled": False, "execution_order": 4, "type": "transformation"},
            {"kind": "c", "enabled": True, "execution_order": 3, "updated_at": "2023-05-05T05:05:05.000001Z"},
            {"enabled": True, "execution_order": 2, "created_by": {"id": 42}},
            {"kind": "a", "deleted": True, "execution_order": 1},
            {"kind": "b", "execution_order": 6, "type": "site_app"},
        ]
    )
]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", "f3 f2 f1 f0 f5"),
        ("created_at=2023-01-01T00:00:00Z", "f0"),
        ("created_at=2023-01-01T01:00:00%2B01:00", "f0"),
        ("created_at=2023-01-01T00:00:01Z", ""),
        ("updated_at=2023-05-05T05:05:05.000001Z", "f2"),
        ("updated_at=2023-05-05T05:05:05Z", ""),
        ("created_by=42", "f3"),
        ("created_by=1", "f2 f1 f0 f5"),
        ("created_by=99", ""),
        ("enabled=true", "f3 f2 f0"),
        ("enabled=False", "f1 f5"),
        ("enabled=1&kind=a", "f0"),
        ("id=0190C0DE-0000-7000-8000-000000000002", "f2"),
        ("id=0190c0de-0000-7000-8000-000000000004", ""),
        ("kind=a", "f0"),
        ("kind=a,b", "f1 f0 f5"),
        ("kind=a&kind=c", "f2 f0"),
        ("kind=a,%20c,", "f2 f0"),
        ("kind=nowhere", ""),
        ("exclude_kind=a", "f3 f2 f1 f5"),
        ("exclude_kind=a,b,c", "f3"),
        ("exclude_kind=b&kind=a,b", "f0"),
        ("type=transformation,site_app", "f1 f5"),
        ("type=destination", "f3 f2 f0"),
        ("limit=2&offset=1", "f2 f1"),
        ("type=destination&limit=1&offset=1", "f2"),
        ("unknown=1", "f3 f2 f1 f0 f5"),
    ],
)
def test_each_filter_of_the_list(filtered: Asking, query: str, names: str) -> None:
    """All ten query parameters, alone and together, by execution order."""
    found = filtered("GET", f"{LIST}?{query}").json()["results"]
    assert " ".join(one["name"] for one in found) == names


@pytest.fixture(scope="module")
def filtered() -> Iterator[Asking]:
    with asking(seed={"hog_functions": FUNCTIONS}) as found:
        yield found


def test_recordings_are_listed_latest_first(ask: Asking) -> None:
    """With limit, offset and the URLs of neighbours, like every list."""
    found = ask("GET", "/api/projects/1/session_recordings?limit=1&offset=1").json()
    assert [one["id"] for one in found["results"]] == [RECORDING]
    assert found["next"].endswith("session_recordings?limit=1&offset=2")
    assert found["previous"].endswith("session_recordings?limit=1")
    assert ask("GET", "/api/projects/2/session_recordings/").json()["count"] == 0
