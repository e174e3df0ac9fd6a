"""The written contract, row by row of `contract_table` over HTTP (docs/know/service.md#management-api)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from pipeline.management.models import (
    HogFunction,
    HogFunctionListItem,
    ServiceObject,
    SessionRecording,
    Status,
    Template,
    User,
)
from tests.support.contract_table import MODELS, OPERATIONS, SPENDING, WRITABLE, Row, contains, opening
from tests.support.management_service import ALL, RECORDING, SCOPES, Asking, key_with, key_without

RECORDINGS = (RECORDING, "rec-2", "rec-3")
PLACES = ("projects/1/{}/", "projects/1/{}", "environments/1/{}/")


@pytest.fixture
def asked(name: str, request: pytest.FixtureRequest) -> Any:
    """A service for one row: the shared one, unless the row destroys a recording."""
    return request.getfixturevalue("fresh" if name == "delete recording" else "ask")


def call(
    ask: Asking, row: Row, id: str, *, rec: str = RECORDING, key: str | None = ALL, place: str = "projects/1/{}/"
) -> Any:
    path = place.format(row.path.replace(":id", id).replace(":rec", rec))
    return ask(row.method, f"/api/{path}", row.body, key=key)


def shaped(value: Any, kind: type[ServiceObject]) -> None:
    """All fields of the contract's object and no other, each of its type."""
    kind.model_validate(value)
    assert set(value) == {field.alias or name for name, field in kind.model_fields.items()}


def check(answer: Any, shape: str) -> None:
    if shape == "empty":
        assert answer.content == b""
        return
    value, kind = answer.json(), MODELS[shape]
    assert kind is not None
    shaped(value, kind)
    if shape == "full":
        shaped(value["created_by"], User)
        shaped(value["status"], Status)
        UUID(value["id"])
    elif shape.endswith("page"):
        assert value["count"] >= len(value["results"]) > 0
        item = HogFunctionListItem if shape == "item-page" else SessionRecording
        shaped(next(one for one in value["results"] if len(one) == len(item.model_fields)), item)


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_answers_as_its_row_says(asked: Asking, name: str) -> None:
    """Status, body and field names of each operation, with a final slash, without, and under the other name."""
    row = OPERATIONS[name]
    for place, recording in zip(PLACES, RECORDINGS, strict=True):
        rec = recording if name == "delete recording" else RECORDING
        answer = call(asked, row, asked.made(name="one")["id"], rec=rec, place=place)
        assert answer.status_code == row.status
        check(answer, row.answer)


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_needs_a_key_with_its_scope_and_a_project(asked: Asking, name: str) -> None:
    """A missing or wrong key is 401, an unknown project 404, a project that the key does not reach 403. The scope of
    docs/know/service.md#key-scopes opens it; every other, and all others together, are 403 with its name."""
    row, id = OPERATIONS[name], asked.made(name="one")["id"]
    wrong = [key_with(scope) for scope in SCOPES if scope not in opening(row.scope)]
    elsewhere = "API key does not have access to the requested project: ID 1."
    refusals = [(key, 403, "permission_denied", row.scope) for key in (key_without(row.scope), "phx_test_none", *wrong)]
    refusals += [(None, 401, "not_authenticated", ""), ("phx_test_b", 403, "permission_denied", elsewhere)]
    refusals += [(key, 401, "authentication_failed", "") for key in ("phx_test_wrong", "phc_test_a")]
    for key, status, code, said in refusals:
        answer = call(asked, row, id, key=key)
        assert (answer.status_code, answer.json()["code"]) == (status, code), key
        assert answer.json()["type"] == "authentication_error"
        assert said in answer.json()["detail"]
    for unknown in ("3", "01", "x", "9" * 5000):
        assert call(asked, row, id, place=f"projects/{unknown}/{{}}/").status_code == 404, unknown
    for scope in sorted(opening(row.scope) & set(SCOPES)):
        assert call(asked, row, id, key=key_with(scope)).status_code == row.status
        if name in SPENDING:  # and is done now
            break


@pytest.mark.parametrize("name", ["create hog function", "update hog function", "broadcast", "invoke", "rearrange"])
def test_the_whole_list_of_writable_fields_is_a_body(ask: Asking, name: str) -> None:
    """Wherever the contract lists it; if the operation makes or changes a function, each field is written and read
    back."""
    row = OPERATIONS[name]._replace(body=WRITABLE)
    answer = call(ask, row, ask.made(name="one")["id"])
    assert answer.status_code == row.status
    check(answer, row.answer)
    if row.answer == "full":
        read = ask("GET", f"/api/projects/1/hog_functions/{answer.json()['id']}/").json()
        for found in (answer.json(), read):
            assert [field for field, value in WRITABLE.items() if not contains(found[field], value)] == []


@pytest.mark.parametrize("name", [name for name, row in OPERATIONS.items() if ":" in row.path])
def test_an_unknown_id_is_not_found(asked: Asking, name: str) -> None:
    """404 with the envelope; but a hog function's DELETE is refused whatever the id."""
    row = OPERATIONS[name]
    for id in ("0190c0de-0000-7000-8000-000000000000", "no-uuid", "%00", "'"):
        answer = call(asked, row, id, rec=id)
        if name == "delete hog function":
            assert (answer.status_code, answer.content) == (405, b"")
        else:
            assert answer.status_code == 404
            said = {"type": "invalid_request", "code": "not_found", "detail": "Not found.", "attr": None}
            assert answer.json() == said


def test_hard_deletion_leaves_the_function(ask: Asking) -> None:
    """Section 7: 405, and nothing happened."""
    id = ask.made(name="stays")["id"]
    answer = ask("DELETE", f"/api/projects/1/hog_functions/{id}/")
    assert (answer.status_code, answer.content, answer.headers["allow"]) == (405, b"", "GET, HEAD, OPTIONS, PATCH")
    assert ask("GET", f"/api/projects/1/hog_functions/{id}/").json()["name"] == "stays"


def test_soft_deletion_hides_it_until_it_is_undone(fresh: Asking) -> None:
    """Section 3: PATCH with deleted true; reads and updates are 404 then, `deleted` false brings it back."""
    id = fresh.made(name="n")["id"]
    path = f"/api/projects/1/hog_functions/{id}/"
    deleted = fresh("PATCH", path, {"deleted": True})
    assert (deleted.status_code, deleted.json()["deleted"]) == (200, True)
    assert fresh("GET", path).status_code == 404
    for body in ({"name": "x"}, {"deleted": True}, {}):
        assert fresh("PATCH", path, body).status_code == 404
    for rest in ("logs", "metrics", "metrics/totals"):
        assert fresh("GET", path + rest).status_code == 404
    for rest in ("broadcast", "invocations"):
        assert fresh("POST", path + rest, {}).status_code == 404
    assert fresh("PATCH", "/api/projects/1/hog_functions/rearrange/", {"orders": {id: 1}}).status_code == 400
    assert fresh("GET", "/api/projects/1/hog_functions/").json()["count"] == 0
    back = fresh("PATCH", path, {"deleted": False, "name": "back"})
    assert (back.status_code, back.json()["deleted"], back.json()["name"]) == (200, False, "back")
    assert fresh("GET", "/api/projects/1/hog_functions/").json()["count"] == 1


def test_a_deleted_recording_is_gone(fresh: Asking) -> None:
    """204 with an empty body, once; then 404, its sharing too."""
    path = f"/api/projects/1/session_recordings/{RECORDING}/"
    assert fresh("DELETE", path).status_code == 204
    assert [fresh(method, path).status_code for method in ("GET", "DELETE")] == [404, 404]
    assert fresh("GET", path + "sharing/").status_code == 404
    assert fresh("GET", "/api/projects/1/session_recordings/").json()["count"] == 2


def test_a_list_has_pages_with_the_urls_of_their_neighbours(fresh: Asking) -> None:
    """Sections 2.5 and 8: following `next` from the first page gives everything once, and `previous` leads back."""
    ids = [fresh.made(name=f"f{n}", execution_order=n, kind="k")["id"] for n in range(5)]
    url: str | None = "/api/projects/1/hog_functions/?kind=k&limit=2"
    seen: list[str] = []
    last = ""
    while url:
        found = fresh("GET", url).json()
        assert found["count"] == 5
        seen += [one["id"] for one in found["results"]]
        last, url = url, found["next"]
        if url:
            assert url.startswith(f"{fresh.service.url}/api/projects/1/hog_functions/?kind=k&limit=2&offset=")
    assert seen == ids
    back = fresh("GET", fresh("GET", last).json()["previous"]).json()
    assert [one["id"] for one in back["results"]] == ids[2:4]
    assert fresh("GET", back["previous"]).json()["previous"] is None


def test_a_template_alone_makes_a_function(fresh: Asking) -> None:
    """The full record shows its template, a list item only names it."""
    for id in ("template-webhook", "template-slack", "template-geoip"):
        found = fresh.made(template_id=id)
        shaped(found, HogFunction)
        shaped(found["template"], Template)
        assert (found["template_id"], found["hog"]) == (id, found["template"]["hog"])
    items = fresh("GET", "/api/projects/1/hog_functions/").json()["results"]
    assert {item["template"] for item in items} == {"template-webhook", "template-slack", "template-geoip"}


def test_any_id_is_one_of_a_template(fresh: Asking) -> None:
    """The contract lists no ids: an unknown id makes a template with that id and name."""
    found = fresh.made(template_id="my-template", hog="return 1")
    shaped(found["template"], Template)
    assert (found["template_id"], found["hog"]) == ("my-template", "return 1")
    assert (found["template"]["id"], found["template"]["name"]) == ("my-template", "my-template")


def test_project_ids_come_from_the_list_of_projects(ask: Asking) -> None:
    """Section 4: any key gets the projects that it reaches; the capture key is shown only to those who may read it."""
    found = ask("GET", "/api/projects/").json()
    assert [(one["id"], one["name"]) for one in found["results"]] == [(1, "A"), (2, "B")]
    assert found["results"][0]["api_token"] == "phc_test_a"
    assert [one["id"] for one in ask("GET", "/api/projects", key="phx_test_b").json()["results"]] == [2]
    assert "phc_test" not in ask("GET", "/api/projects/", key=key_with("hog_function:read")).text
    assert ask("GET", "/api/projects/", key=None).status_code == 401
