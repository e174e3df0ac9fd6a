"""The management API of the local service in its awkward cases: bodies, filters, pages, secrets, restarts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from management_service import ALL, KEYS, RECORDING, SCOPES, Asking, asking, key_with

from pipeline.service import LocalService, Settings
from pipeline.service.management.seeds import BadSeed
from pipeline.service.management.seeds import load as load_seed

pytestmark = pytest.mark.slow

LIST = "/api/projects/1/hog_functions/"
SECRET = "s3cr3t-sw0rdf1sh"


@pytest.fixture(scope="module")
def ask() -> Iterator[Asking]:
    with asking() as found:
        yield found


@pytest.fixture
def fresh() -> Iterator[Asking]:
    with asking() as found:
        yield found


def problem(answer: Any, status: int) -> tuple[str, str | None]:
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"type", "code", "detail", "attr"}
    return answer.json()["code"], answer.json()["attr"]


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
        ({"inputs": {"url": {"value": 1}}}, "invalid_input", "inputs__url__value"),
        ({"inputs": {"url": {"order": "1"}}}, "invalid_input", "inputs__url__order"),
        ({"filters": []}, "invalid_input", "filters"),
        ({"filters": {"events": {}}}, "not_a_list", "filters__events"),
        ({"filters": {"events": ["$pageview"]}}, "not_a_dict", "filters__events__0"),
        ({"filters": {"filter_test_accounts": 1}}, "invalid_input", "filters__filter_test_accounts"),
        ({"masking": {"ttl": "60"}}, "invalid_input", "masking__ttl"),
        ({"masking": {"hash": 1}}, "invalid_input", "masking__hash"),
        ({"mappings": [{"filters": None}]}, "null", "mappings__0__filters"),
        ({"mappings": [{"inputs": {"a": {"value": {}}}}]}, "invalid_input", "mappings__0__inputs__a__value"),
        ({"template_id": "template-nowhere"}, "invalid_input", "template_id"),
        ({"name": "a\u0000b"}, "invalid_input", "name"),
        ({"filters": {"events": [{"id": "\u0000"}]}}, "invalid_input", "filters"),
    ],
)
def test_a_wrong_field_is_named(ask: Asking, body: dict[str, Any], code: str, attr: str) -> None:
    """400 with the field, on create and on update; an update changes nothing then."""
    assert problem(ask("POST", LIST, body), 400) == (code, attr)
    made = ask.made(name="before")
    assert problem(ask("PATCH", f"{LIST}{made['id']}/", {"description": "after"} | body), 400) == (code, attr)
    assert ask("GET", f"{LIST}{made['id']}/").json() == made


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
    ],
    ids=range(12),
)
def test_a_body_that_cannot_be_kept_is_refused(ask: Asking, content: bytes, code: str) -> None:
    """No JSON, no object, or a value that could not be given back."""
    answer = ask("POST", LIST, content=content, headers={"content-type": "application/json"})
    assert problem(answer, 400)[0] == code


def test_another_content_type_is_refused_and_a_charset_is_not(ask: Asking) -> None:
    """415 for a form and for none; `application/json; charset=utf-8` is JSON; an empty body is an empty object."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = ask("POST", LIST, content=b'{"name": "x"}', headers={"content-type": kind})
        assert problem(answer, 415) == ("unsupported_media_type", None)
    for kind in ("application/json; charset=utf-8", "Application/JSON"):
        assert ask("POST", LIST, content=b"{}", headers={"content-type": kind}).status_code == 201
    assert ask("POST", LIST).status_code == 201


def test_a_body_over_the_limit_is_refused_whole() -> None:
    """413, and the sender hears it."""
    with asking(Settings(management_body_limit=1000)) as ask:
        assert problem(ask("POST", LIST, {"hog": "x" * 1001}), 413) == ("payload_too_large", None)
        assert ask("POST", LIST, {"hog": "x" * 900}).status_code == 201
        assert ask("GET", LIST).json()["count"] == 1


def test_unknown_and_read_only_fields_are_ignored(ask: Asking) -> None:
    """A record that was read can be sent back: what is not writable changes nothing, what is unknown is not kept."""
    made = ask.made(name="n", hog="return 1", template_id="template-webhook")
    body = made | {
        "id": "0190c0de-0000-7000-8000-000000000000",
        "created_at": "2000-01-01T00:00:00Z",
        "created_by": None,
        "bytecode": ["_H"],
        "status": {"state": 3},
        "template": 5,
        "brand_new": SECRET,
    }
    answer = ask("PATCH", f"{LIST}{made['id']}/", body)
    assert answer.status_code == 200
    assert answer.json() == made | {"updated_at": answer.json()["updated_at"]}
    assert answer.json()["updated_at"] > made["updated_at"]


def test_an_update_sets_only_what_it_has(ask: Asking) -> None:
    """Each writable field alone, the others left as they were."""
    made = ask.made(name="n")
    values: dict[str, Any] = {
        "type": "transformation",
        "kind": "k",
        "name": "",
        "description": "d\nü",
        "enabled": True,
        "hog": "return event",
        "inputs_schema": [{"key": "url", "type": "string", "default": None, "odd": 1}],
        "inputs": {"url": {"value": "x", "bytecode": [1, None], "order": 0, "transpiled": None}},
        "filters": {"events": [{"id": "$pageview"}], "filter_test_accounts": True, "source": "events"},
        "masking": {"ttl": 60, "threshold": 2, "hash": "{person.id}", "bytecode": None},
        "mappings": [{"name": "m", "filters": {}, "inputs": {"url": {"value": "y"}}}],
        "icon_url": "/x.png",
        "template_id": "template-slack",
        "execution_order": 12345678901234567890,
        "_create_in_folder": "a/b",
    }
    expected = made
    for name, value in values.items():
        found = ask("PATCH", f"{LIST}{made['id']}/", {name: value}).json()
        expected = expected | {name: value, "updated_at": found["updated_at"], "template": found["template"]}
        assert found == expected
        assert ask("GET", f"{LIST}{made['id']}/").json() == expected
    cleared = ask("PATCH", f"{LIST}{made['id']}/", {"filters": None, "masking": None, "type": None}).json()
    assert (cleared["filters"], cleared["masking"], cleared["type"]) == ({}, {}, "transformation")


def test_updates_at_once_lose_none(ask: Asking) -> None:
    """Sixteen updates of two fields of one function: each field has a value that somebody sent, whole."""
    id = ask.made(name="n")["id"]

    def change(n: int) -> int:
        field = "name" if n % 2 else "description"
        return ask("PATCH", f"{LIST}{id}/", {field: f"v{n}"}).status_code

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(change, range(16))) == {200}
    found = ask("GET", f"{LIST}{id}/").json()
    assert found["name"] in {f"v{n}" for n in range(1, 16, 2)}
    assert found["description"] in {f"v{n}" for n in range(0, 16, 2)}


@pytest.mark.parametrize(
    ("query", "size"),
    [
        ("", 100),
        ("limit=0", 100),
        ("limit=-1", 100),
        ("limit=" + "9" * 3000, 101),
        ("offset=100", 1),
        ("offset=101", 0),
        ("offset=" + "9" * 3000, 0),
        ("offset=-5", 100),
        ("limit=&offset=", 100),
        ("limit=1&limit=2", 2),
    ],
)
def test_limits_and_offsets_out_of_the_way(hundred: Asking, query: str, size: int) -> None:
    """A limit under 1 is the usual one, there is no greatest; an offset past the end gives an empty page."""
    found = hundred("GET", f"{LIST}?{query}").json()
    assert (found["count"], len(found["results"])) == (101, size)


@pytest.fixture(scope="module")
def hundred() -> Iterator[Asking]:
    """A service with 101 functions, from a seed."""
    with asking(seed={"hog_functions": [{"name": f"f{n}"} for n in range(101)]}) as found:
        yield found


@pytest.mark.parametrize("query", ["limit=x", "limit=1.5", "offset=٣", "limit=%2B1", "offset=1e3"])
def test_a_limit_that_is_no_integer_is_refused(ask: Asking, query: str) -> None:
    """The contract states integers."""
    assert problem(ask("GET", f"{LIST}?{query}"), 400) == ("invalid_input", query.partition("=")[0])


def test_the_url_of_a_page_keeps_the_request_as_it_was(hundred: Asking) -> None:
    """Scheme, host, path and slash of the request; other parameters, encoded; nothing of a crooked Host header."""
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


@pytest.mark.parametrize(
    "query", ["created_at=x", "updated_at=yesterday", "created_by=x", "created_by=1.0", "enabled=maybe", "id=1"]
)
def test_a_filter_that_cannot_be_read_is_refused(ask: Asking, query: str) -> None:
    """400, and the parameter is named."""
    assert problem(ask("GET", f"{LIST}?{query}"), 400) == ("invalid_input", query.partition("=")[0])


@pytest.mark.parametrize(
    "path",
    [
        "//api/projects/1/hog_functions/",
        "/api/projects//hog_functions/",
        "/api/projects/1/hog_functions//",
        "/api/x",
        "/api",
    ],
)
def test_a_path_that_is_not_there(ask: Asking, path: str) -> None:
    """404: no slash too many is forgiven, nothing is redirected."""
    assert ask("GET", ask.service.url + path).status_code == 404


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


@pytest.mark.parametrize("header", [ALL, f"Basic {ALL}", "Bearer", f"Bearer,{ALL}", f"Token {ALL}"])
def test_a_key_is_a_bearer(ask: Asking, header: str) -> None:
    """Any other scheme is no credentials."""
    assert problem(ask("GET", LIST, key=None, headers={"authorization": header}), 401) == ("not_authenticated", None)


def test_secrets_of_inputs_are_never_given_back(tmp_path: Path) -> None:
    """A secret input is written, kept when it comes back as it was read, and in no answer, no file, no error."""
    schema = [{"key": "token", "type": "string", "secret": True}, {"key": "url", "type": "string"}]
    held = {"token": {"value": SECRET}, "url": {"value": "x"}}
    file = tmp_path / "service.duckdb"
    with asking(store=file) as ask:
        made = ask.made(
            name="n",
            inputs_schema=schema,
            inputs=held,
            mappings=[{"inputs_schema": schema, "inputs": held}],
        )
        path = f"{LIST}{made['id']}/"
        assert made["inputs"] == {"token": {"secret": True}, "url": {"value": "x"}}
        assert made["mappings"][0]["inputs"] == made["inputs"]
        again = ask("PATCH", path, {"inputs": made["inputs"], "mappings": made["mappings"]})
        assert (again.status_code, again.json()["inputs"]) == (200, made["inputs"])
        wrong = ask("PATCH", path, {"inputs": {"token": {"value": SECRET, "order": "x"}}, "hog": "h"})
        lost = ask("POST", LIST, {"inputs_schema": schema, "inputs": {"token": {"secret": True}}})
        assert problem(lost, 400) == ("invalid_input", "inputs__token")
        opened = ask("PATCH", path, {"inputs_schema": [{"key": "token", "secret": False}]})
        for answer in (again, wrong, lost, opened, ask("GET", path), ask("GET", LIST), ask("GET", "/_stats")):
            assert SECRET not in answer.text
    for written in tmp_path.iterdir():
        assert SECRET.encode() not in written.read_bytes()


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


def test_documents_are_no_table_of_the_query_endpoint(ask: Asking) -> None:
    """What the management API keeps is not reached by SQL."""
    answer = ask(
        "POST", "/api/projects/1/query/", {"query": {"kind": "HogQLQuery", "query": "select * from documents"}}
    )
    assert answer.status_code == 400


def test_a_person_of_a_recording_is_merged(fresh: Asking) -> None:
    """PATCH sets what `person` has and leaves the rest; no object is a 400; nothing else of a recording changes."""
    path = f"/api/projects/1/session_recordings/{RECORDING}/"
    before = fresh("GET", path).json()
    after = fresh("PATCH", path, {"person": {"name": "Eve", "odd": [1]}, "viewed": True, "id": "x"})
    assert after.json() == before | {"person": before["person"] | {"name": "Eve", "odd": [1]}}
    assert fresh("GET", path).json() == after.json()
    for wrong in (None, "x", [], 1):
        assert problem(fresh("PATCH", path, {"person": wrong}), 400)[1] == "person"
    assert problem(fresh("PATCH", path, {"person": {"id": "7"}}), 400) == ("invalid_input", "person__id")
    assert fresh("PATCH", path, {}).json() == after.json()


def test_recordings_are_listed_latest_first(ask: Asking) -> None:
    """With limit, offset and the URLs of neighbours, as every list."""
    found = ask("GET", "/api/projects/1/session_recordings?limit=1&offset=1").json()
    assert [one["id"] for one in found["results"]] == [RECORDING]
    assert found["next"].endswith("session_recordings?limit=1&offset=2")
    assert found["previous"].endswith("session_recordings?limit=1")
    assert ask("GET", "/api/projects/2/session_recordings/").json()["count"] == 0


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


def test_another_project_has_its_own(fresh: Asking) -> None:
    """A function of one project is not found in another."""
    id = fresh.made(name="n")["id"]
    assert fresh("GET", f"/api/projects/2/hog_functions/{id}/").status_code == 404
    assert fresh("PATCH", f"/api/projects/2/hog_functions/{id}/", {"name": "x"}).status_code == 404
    assert fresh("GET", "/api/projects/2/hog_functions/").json()["count"] == 0
    assert fresh("GET", f"/api/projects/@current/hog_functions/{id}/").status_code == 200


def test_a_file_keeps_everything(tmp_path: Path) -> None:
    """Functions, deleted ones, recordings, deleted ones and tokens are there again; the seed comes once."""
    file, path = tmp_path / "s.duckdb", f"/api/projects/1/session_recordings/{RECORDING}/"
    with asking(store=file) as ask:
        kept, gone = ask.made(name="kept"), ask.made(name="gone")
        ask("PATCH", f"{LIST}{gone['id']}/", {"deleted": True})
        token = ask("GET", "/api/projects/1/session_recordings/rec-2/sharing/").json()["access_token"]
        ask("DELETE", path)
        ask("PATCH", "/api/projects/1/session_recordings/rec-2/", {"person": {"name": "Eve"}})
    with asking(store=file) as ask:
        assert [one["id"] for one in ask("GET", LIST).json()["results"]] == [kept["id"]]
        assert ask("GET", f"{LIST}{kept['id']}/").json() == kept
        assert ask("PATCH", f"{LIST}{gone['id']}/", {"deleted": False}).json()["name"] == "gone"
        assert ask("GET", path).status_code == 404
        assert ask("GET", "/api/projects/1/session_recordings/rec-2/").json()["person"] == {"name": "Eve"}
        assert ask("GET", "/api/projects/1/session_recordings/rec-2/sharing/").json()["access_token"] == token
        assert ask("GET", "/api/projects/1/session_recordings/").json()["count"] == 2


@pytest.mark.parametrize(
    ("seed", "where"),
    [
        ({"functions": []}, "functions"),
        ({"hog_functions": {}}, '"hog_functions"'),
        ({"hog_functions": [1]}, "hog_functions[0]"),
        ({"hog_functions": [{}, {"name": {"v": SECRET}}]}, "hog_functions[1] of the seed, field name"),
        ({"hog_functions": [{"id": "x"}]}, "field id"),
        ({"hog_functions": [{"created_at": SECRET}]}, "field created_at"),
        ({"hog_functions": [{"template_id": 5}]}, "field template_id"),
        ({"session_recordings": [{"viewed": SECRET}]}, "session_recordings[0] of the seed, field viewed"),
        ({"session_recordings": [{"sharing": {"access_token": [SECRET]}}]}, "field sharing__access_token"),
        ({"session_recordings": [{"id": "a"}, {"id": "a"}]}, "one id"),
    ],
)
def test_a_bad_seed_says_where(seed: dict[str, Any], where: str) -> None:
    """And repeats no value."""
    with pytest.raises(BadSeed) as raised:
        LocalService(keys=KEYS, seed=seed)
    assert where in str(raised.value)
    assert SECRET not in str(raised.value)


def test_a_seed_is_a_json_file(tmp_path: Path) -> None:
    """What is no JSON object is refused, and so is a file that is not there."""
    file = tmp_path / "seed.json"
    file.write_text(json.dumps({"hog_functions": [{"name": "x"}]}))
    assert load_seed(file) == {"hog_functions": [{"name": "x"}]}
    file.write_text("[1")
    with pytest.raises(BadSeed, match="no JSON"):
        load_seed(file)
    with pytest.raises(BadSeed, match="cannot be read"):
        load_seed(tmp_path / "nowhere.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(event=st.dictionaries(st.text(), JSON, max_size=4))
def test_free_form_objects_come_back_as_they_went(ask: Asking, event: dict[str, Any]) -> None:
    """A value is either refused with 400 or given back exactly."""
    content = json.dumps({"filters": {"events": [event]}}).encode()
    answer = ask("POST", LIST, content=content, headers={"content-type": "application/json"})
    assert answer.status_code in (201, 400)
    if answer.status_code == 201:
        assert answer.json()["filters"]["events"] == [event]
        ask("PATCH", f"{LIST}{answer.json()['id']}/", {"deleted": True})
    else:
        assert "\\u0000" in content.decode() or "\\ud" in content.decode()


def test_a_whole_number_may_be_written_with_a_fraction_of_nothing(ask: Asking) -> None:
    """JSON knows one kind of number: 3.0 is the integer that the document asks for."""
    function = ask.made()
    answer = ask("PATCH", f"{LIST}{function['id']}/", {"execution_order": 3.0})
    assert (answer.status_code, answer.json()["execution_order"]) == (200, 3)
