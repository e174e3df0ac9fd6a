"""What the management API of the local service does with a body: it keeps it unchanged, or refuses it by field."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.local_service import Settings
from tests.support.contract_table import WRITABLE, exact
from tests.support.management_service import LIST, RECORDING, SECRET, Asking, asking, problem


@pytest.mark.parametrize(
    ("body", "code", "attr"),
    [
        ({"enabled": "yes"}, "invalid_input", "enabled"),
        ({"enabled": 1}, "invalid_input", "enabled"),
        ({"deleted": None}, "null", "deleted"),
        ({"name": None}, "null", "name"),
        ({"name": ["x"]}, "invalid_input", "name"),
        ({"execution_order": "1"}, "invalid_input", "execution_order"),
        ({"execution_order": 1.5}, "invalid_input", "execution_order"),
        ({"execution_order": True}, "invalid_input", "execution_order"),
        ({"inputs_schema": {}}, "not_a_list", "inputs_schema"),
        ({"inputs_schema": ["x"]}, "invalid_input", "inputs_schema__0"),
        ({"inputs_schema": [{"key": "a", "required": "no"}]}, "invalid_input", "inputs_schema__0__required"),
        ({"inputs_schema": [{"choices": ["a"]}]}, "not_a_dict", "inputs_schema__0__choices__0"),
        ({"inputs": []}, "not_a_dict", "inputs"),
        ({"inputs": {"url": "x"}}, "invalid_input", "inputs__url"),
        ({"inputs": {"url": {"order": "1"}}}, "invalid_input", "inputs__url__order"),
        ({"filters": []}, "invalid_input", "filters"),
        ({"filters": {"events": {}}}, "not_a_list", "filters__events"),
        ({"filters": {"events": ["$pageview"]}}, "not_a_dict", "filters__events__0"),
        ({"filters": {"filter_test_accounts": 1}}, "invalid_input", "filters__filter_test_accounts"),
        ({"masking": {"ttl": "60"}}, "invalid_input", "masking__ttl"),
        ({"masking": {"hash": 1}}, "invalid_input", "masking__hash"),
        ({"mappings": [{"filters": None}]}, "null", "mappings__0__filters"),
        ({"mappings": [{"inputs": {"a": {"order": {}}}}]}, "invalid_input", "mappings__0__inputs__a__order"),
        ({"template_id": 5}, "invalid_input", "template_id"),
        ({"name": "a\u0000b"}, "invalid_input", "name"),
        ({"filters": {"events": [{"id": "\u0000"}]}}, "invalid_input", "filters"),
    ],
)
def test_a_wrong_field_is_named(ask: Asking, body: dict[str, Any], code: str, attr: str) -> None:
    """400 with the field, on create and on update; the update then changes nothing."""
    assert problem(ask("POST", LIST, body), 400) == (code, attr)
    made = ask.made(name="before")
    assert problem(ask("PATCH", f"{LIST}{made['id']}/", {"description": "after"} | body), 400) == (code, attr)
    assert ask("GET", f"{LIST}{made['id']}/").json() == made


def default(value: bytes) -> bytes:
    """A function with an input that has this default."""
    return b'{"inputs_schema": [{"key": "a", "default": ' + value + b"}]}"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"{", "parse_error"),
        (b'{"name": NaN}', "parse_error"),
        (b'{"name": "\xff"}', "parse_error"),
        (b'{"execution_order": ' + b"9" * 5000 + b"}", "parse_error"),
        (b"[" * 5000, "parse_error"),
        (b"[]", "invalid_input"),
        (b"null", "invalid_input"),
        (b'"text"', "invalid_input"),
        (b'{"filters": {"x": 1e999}}', "invalid_input"),
        (b'{"name": "\\ud800"}', "invalid_input"),
        (b'{"\\ud800": 1}', "invalid_input"),
        (b'{"inputs": ' + b'{"a":' * 150 + b"1" + b"}" * 151, "invalid_input"),
        (default(b"[" * 97 + b"0" + b"]" * 97), "taken"),
        (default(b"[" * 98 + b"0" + b"]" * 98), "invalid_input"),
        (default(b'[1, [2], {"a": [3, "\\ud800"]}]'), "invalid_input"),
        (default(b'[{"a\\u0000": 1}]'), "invalid_input"),
        (default(b"[[1e999]]"), "invalid_input"),
        (default(b"[[], {}, [{}]]"), "taken"),
    ],
    ids=range(18),
)
def test_a_body_that_cannot_be_kept_is_refused(ask: Asking, content: bytes, code: str) -> None:
    """Not JSON, not an object, or a value that could not be given back: the `default` of an input may be any value that
    can."""
    answer = ask("POST", LIST, content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 201 if code == "taken" else problem(answer, 400)[0] == code


def test_another_content_type_is_refused_and_a_charset_is_not(ask: Asking) -> None:
    """415 for a form and for a missing type; `application/json; charset=utf-8` is JSON; an empty body is an empty
    object."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = ask("POST", LIST, content=b'{"name": "x"}', headers={"content-type": kind})
        assert problem(answer, 415) == ("unsupported_media_type", None)
    for kind in ("application/json; charset=utf-8", "Application/JSON"):
        assert ask("POST", LIST, content=b"{}", headers={"content-type": kind}).status_code == 201
    assert ask("POST", LIST).status_code == 201


def test_a_body_over_the_limit_is_refused_whole() -> None:
    with asking(Settings(management_body_limit=1000)) as ask:
        assert problem(ask("POST", LIST, {"hog": "x" * 1001}), 413) == ("payload_too_large", None)
        assert ask("POST", LIST, {"hog": "x" * 900}).status_code == 201
        assert ask("GET", LIST).json()["count"] == 1


def test_unknown_and_read_only_fields_are_ignored(ask: Asking) -> None:
    """So a record that was read can be sent back."""
    made = ask.made(name="n", hog="return 1", template_id="template-webhook")
    body = made | {"id": "0190c0de-0000-7000-8000-000000000000", "created_at": "2000-01-01T00:00:00Z"}
    body |= {"created_by": None, "bytecode": ["_H"], "status": {"state": 3}, "template": 5, "brand_new": SECRET}
    answer = ask("PATCH", f"{LIST}{made['id']}/", body)
    assert answer.status_code == 200
    assert answer.json() == made | {"updated_at": answer.json()["updated_at"]}
    assert answer.json()["updated_at"] > made["updated_at"]


def test_an_update_sets_only_what_it_has(ask: Asking) -> None:
    """Each writable field alone, the others left as they were; a whole number may be written as 3.0."""
    found = made = ask.made(name="n")
    path = f"{LIST}{made['id']}/"
    more = {"name": "", "execution_order": 12345678901234567890, "template_id": "template-slack"}
    for name, value in [*WRITABLE.items(), *more.items()]:
        if name == "deleted":
            continue
        before, found = found, ask("PATCH", path, {name: value}).json()
        assert found == before | {name: value, "updated_at": found["updated_at"], "template": found["template"]}
        assert ask("GET", path).json() == found
    cleared = ask("PATCH", path, {"filters": None, "masking": None, "type": None, "execution_order": 3.0}).json()
    wanted = {"filters": {}, "masking": None, "type": "site_app", "execution_order": 3}
    assert {name: cleared[name] for name in wanted} == wanted


def test_simultaneous_updates_are_all_kept(ask: Asking) -> None:
    """Sixteen updates of two fields of one function: each field has a value that was sent, whole."""
    id = ask.made(name="n")["id"]

    def change(n: int) -> int:
        field = "name" if n % 2 else "description"
        return ask("PATCH", f"{LIST}{id}/", {field: f"v{n}"}).status_code

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(change, range(16))) == {200}
    found = ask("GET", f"{LIST}{id}/").json()
    assert found["name"] in {f"v{n}" for n in range(1, 16, 2)}
    assert found["description"] in {f"v{n}" for n in range(0, 16, 2)}


def test_a_person_of_a_recording_is_merged(fresh: Asking) -> None:
    """PATCH sets what `person` has and leaves the rest; without an object it is a 400; nothing else of a recording
    changes."""
    path = f"/api/projects/1/session_recordings/{RECORDING}/"
    before = fresh("GET", path).json()
    after = fresh("PATCH", path, {"person": {"name": "Eve", "odd": [1]}, "viewed": True, "id": "x"})
    assert after.json() == before | {"person": before["person"] | {"name": "Eve", "odd": [1]}}
    assert fresh("GET", path).json() == after.json()
    for wrong in (None, "x", [], 1):
        assert problem(fresh("PATCH", path, {"person": wrong}), 400)[1] == "person"
    assert problem(fresh("PATCH", path, {"person": {"id": "7"}}), 400) == ("invalid_input", "person__id")
    assert fresh("PATCH", path, {}).json() == after.json()


def test_rearranging_sets_the_orders(fresh: Asking) -> None:
    """`orders` maps ids to places, all or none; the contract's own body is checked and changes nothing."""
    ids = [fresh.made(name=f"f{n}", execution_order=n)["id"] for n in range(3)]
    path = LIST + "rearrange/"
    answer = fresh("PATCH", path, {"orders": {ids[0]: 9, ids[2]: 1}})
    assert (answer.status_code, answer.content) == (200, b"")
    names = [one["name"] for one in fresh("GET", LIST).json()["results"]]
    assert names in (["f2", "f1", "f0"], ["f1", "f2", "f0"])
    unknown = "0190c0de-0000-7000-8000-000000000000"
    for orders in ({ids[0]: 0, unknown: 1}, {ids[0]: 0, "x": 1}, {ids[0]: "0"}, {ids[0]: True}, {}, [], {ids[0]: None}):
        assert problem(fresh("PATCH", path, {"orders": orders}), 400) == ("invalid_input", "orders")
    assert fresh("GET", f"{LIST}{ids[0]}/").json()["execution_order"] == 9
    assert fresh("PATCH", path, {"enabled": "x"}).status_code == 400
    told = fresh("PATCH", path, {"orders": {"x\x1b": 1}}).json()["detail"]
    assert told == "HogFunction with the given id does not exist"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=15)
@given(value=JSON, default=JSON, event=st.dictionaries(st.text(), JSON, max_size=4))
def test_free_form_values_come_back_as_they_went(either: Asking, value: Any, default: Any, event: Any) -> None:
    """The value of an input of a function and of its mappings, the default of a schema, the events of its filters:
    every answer gives them back exactly, or the write is a 400."""
    schema = [{"key": "a", "type": "json", "default": default}]
    inputs, filters = {"a": {"value": value}}, {"events": [{"id": "e"} | event]}
    function = {"hog": "h", "inputs_schema": schema, "inputs": inputs, "filters": filters}
    content = json.dumps(function | {"mappings": [function | {"name": "m"}]}).encode()
    made = either("POST", LIST, content=content, headers={"content-type": "application/json"})
    if made.status_code == 400:
        assert "\\u0000" in content.decode()
        return
    path = f"{LIST}{made.json()['id']}/"
    again = either("PATCH", path, {"inputs": made.json()["inputs"], "mappings": made.json()["mappings"]})
    for answer in (made, again, either("GET", path)):
        for shown in (answer.json(), answer.json()["mappings"][0]):
            assert exact(shown["inputs"]["a"]["value"]) == exact(value)
            assert exact(shown["inputs_schema"][0]["default"]) == exact(default)
        assert exact(answer.json()["mappings"][0]["filters"]["events"]) == exact(filters["events"])
    either("PATCH", path, {"deleted": True})
