"""Under `--behaviour observed` the management API answers as the real service's source does, not as its contract."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pipeline.local_service.settings import preset
from tests.support import management_service
from tests.support.management_service import LIST, RECORDING, Asking, asking, key_with
from tests.support.services import NOW


@pytest.fixture
def ask(observed: Asking) -> Asking:
    return observed


@pytest.fixture
def fresh() -> Iterator[Asking]:
    with asking(preset("observed")) as found:
        yield found


def refused(answer: Any, attr: str | None, *, detail: str = "") -> None:
    assert (answer.status_code, answer.json()["attr"]) == (400, attr), answer.text
    assert not detail or answer.json()["detail"] == detail


def test_records_have_the_fields_of_the_source(ask: Asking) -> None:
    """A list item has its template, a record has no write-only field, and what is not set is null."""
    made = ask.made(template_id="template-webhook", name=None, inputs={"url": {"value": "https://example.com"}})
    assert {"deleted", "template_id", "_create_in_folder", "kind"}.isdisjoint(made)
    assert (made["masking"], made["execution_order"], made["draft"], made["version"]) == (None, None, None, 1)
    assert made["status"] == {"state": 0, "tokens": 0}
    (item,) = ask("GET", f"{LIST}?id={made['id']}").json()["results"]
    assert item["template"]["id"] == "template-webhook"
    assert {"search_match_type", "draft_updated_at"} < set(item)
    assert {"inputs", "inputs_schema", "masking", "mappings", "bytecode", "transpiled"}.isdisjoint(item)
    (full,) = ask("GET", f"{LIST}?id={made['id']}&full=true").json()["results"]
    assert full == made


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "hog"),
    ({"hog": ""}, "hog"),
    ({"hog": "x" * 102401}, "hog"),
    ({"name": "x" * 401}, "name"),
    ({"type": "novel"}, "type"),
    ({"execution_order": 32768}, "execution_order"),
    ({"execution_order": -1}, "execution_order"),
    ({"masking": {}}, "masking__ttl"),
    ({"masking": {"ttl": 59, "hash": "x"}}, "masking__ttl"),
    ({"masking": {"ttl": 86401, "hash": "x"}}, "masking__ttl"),
    ({"masking": {"ttl": 60}}, "masking__hash"),
    ({"filters": {"source": "elsewhere"}}, "filters__source"),
    ({"template_id": "template-nowhere"}, "template_id"),
    ({"enabled": None}, "enabled"),
    ({"inputs_schema": [{"key": "templating"}], "inputs": {"templating": "x"}}, "inputs__templating"),
]
for templating in ("jinja", None, 1, []):
    wrong = {"inputs_schema": [{"key": "a"}], "inputs": {"a": {"value": "x", "templating": templating}}}
    REFUSED += [
        ({"inputs_schema": [{"key": "a", "templating": templating}]}, "inputs_schema__0__templating"),
        (wrong, "inputs__a__templating"),
        ({"mappings": [wrong]}, "mappings__0__inputs__a__templating"),
    ]


@pytest.mark.parametrize(("body", "attr"), REFUSED)
def test_what_the_source_refuses(ask: Asking, body: dict[str, Any], attr: str) -> None:
    """Required fields, bounds and choices that the contract does not show."""
    refused(ask("POST", LIST, body if attr in ("hog", "template_id") else {"hog": "h"} | body), attr)


def test_what_the_source_takes_and_changes(ask: Asking) -> None:
    """Input values of any type, null if it is allowed; keys outside the schema are removed; filters get a source."""
    inputs = {"headers": {"value": {"a": "b"}}, "stray": {"value": "x"}}
    schema = [{"key": "headers", "type": "dictionary"}]
    made = ask.made(hog="h", inputs_schema=schema, inputs=inputs, filters={"events": [{"id": "e"}]}, icon_url=None)
    assert (list(made["inputs"]), made["inputs"]["headers"]["value"]) == (["headers"], {"a": "b"})
    assert bare(made["filters"]) == {"source": "events", "events": [{"id": "e"}]}
    path = f"{LIST}{made['id']}/"
    masked = ask("PATCH", path, {"masking": {"ttl": 60, "hash": "x", "threshold": None, "odd": 1}}).json()["masking"]
    assert bare(masked) == {"ttl": 60, "threshold": None, "hash": "x"}
    cleared = ask("PATCH", path, {"masking": None, "filters": None}).json()
    assert (cleared["masking"], bare(cleared["filters"])) == (None, {"source": "events"})
    mapped = ask("PATCH", path, {"mappings": [{"name": "m"}], "filters": {"events": [], "properties": []}}).json()
    assert bare(mapped["filters"]) == {"source": "events", "properties": []}
    refused(ask("PATCH", path, {"type": "transformation"}), "type")


def bare(coded: dict[str, Any]) -> dict[str, Any]:
    """Without its code, which has to be there: an array that begins as Hog bytecode does."""
    assert coded["bytecode"][:2] == ["_H", 1]
    return {name: value for name, value in coded.items() if name not in ("bytecode", "transpiled")}


SCHEMA = [
    {"key": "b", "type": "json"},
    {"key": "token", "type": "string", "secret": True},
    {"key": "a", "type": "json"},
]


def coded(value: object, hog: str = "h", **more: Any) -> dict[str, Any]:
    """A function and a mapping with this input, filters and masking."""
    parts: dict[str, Any] = {
        "inputs_schema": SCHEMA,
        "inputs": {"a": {"value": value}, "b": {"value": "b"}, "token": {"value": "t"}},
        "filters": {"events": [{"id": "e"}]},
    }
    masking = {"ttl": 60, "hash": "{event}"}
    return parts | {"hog": hog, "masking": masking, "mappings": [parts | {"name": "m"}]} | more


def test_inputs_and_filters_carry_the_code_that_the_service_makes(ask: Asking) -> None:
    """Bytecode, order and `transpiled`, also in mappings and masking; equal for equal source, not taken from the
    request, and none for a secret."""
    first, again, other = (ask.made(**coded(value, hog)) for value, hog in (({}, "h"), ({}, "h"), ([], "i")))
    for found in (first, first["mappings"][0]):
        assert list(found["inputs"]) == ["b", "token", "a"]
        assert found["inputs"]["token"] == {"secret": True}
        for key, order in (("b", 0), ("a", 2)):
            one = found["inputs"][key]
            assert (one["order"], one["transpiled"], one["bytecode"][:2]) == (order, None, ["_H", 1])
        assert (found["filters"]["bytecode"][:2], found["filters"]["transpiled"]) == (["_H", 1], None)
        assert "source" in bare(found["filters"])
    assert bare(first["masking"]) == {"ttl": 60, "threshold": None, "hash": "{event}"}
    for name in ("inputs", "filters", "masking", "mappings", "bytecode", "transpiled"):
        assert first[name] == again[name]
    assert (first["bytecode"][:2], first["transpiled"]) == (["_H", 1], None)
    assert other["bytecode"] != first["bytecode"]
    assert other["inputs"]["a"]["bytecode"] != first["inputs"]["a"]["bytecode"]
    assert other["inputs"]["b"] == first["inputs"]["b"]
    path = f"{LIST}{first['id']}/"
    for name in ("inputs", "filters", "masking", "mappings"):
        assert ask("PATCH", path, {name: first[name]}).json()[name] == first[name]
    forged = first["inputs"]["b"] | {"bytecode": ["mine"], "order": 9, "transpiled": "mine"}
    sent = {"inputs": {"a": {"value": {}}, "b": forged}, "filters": first["filters"] | {"bytecode": ["mine"]}}
    assert ask("PATCH", path, sent).status_code == 200
    found = ask("GET", path).json()
    assert (found["inputs"], found["filters"]) == (first["inputs"], first["filters"])
    (item,) = ask("GET", f"{LIST}?id={first['id']}").json()["results"]
    assert item["filters"] == first["filters"]


def test_types_in_typescript_are_transpiled(ask: Asking) -> None:
    """`transpiled` and no bytecode, for the function and for its parts."""
    made = ask.made(**coded({"x": 1}, "export function onLoad() {}", type="site_destination"))
    assert (made["bytecode"], type(made["transpiled"])) == (None, str)
    for found in (made["inputs"]["a"], made["filters"], made["mappings"][0]["inputs"]["a"]):
        assert "bytecode" not in found
        assert set(found["transpiled"]) == {"lang", "code", "stl"}


def test_a_template_may_be_hog_or_liquid(ask: Asking) -> None:
    """In an input and in its schema, accepted and given back; a Liquid template is not compiled."""
    for templating in (True, False, "hog", "liquid"):
        schema = [{"key": "a", "type": "string", "templating": templating}]
        one = {"inputs_schema": schema, "inputs": {"a": {"value": "{{ event }}", "templating": templating}}}
        made = ask.made(hog="h", mappings=[one], **one)
        for found in (made, made["mappings"][0], ask("GET", f"{LIST}{made['id']}/").json()):
            assert found["inputs_schema"] == schema
            assert found["inputs"]["a"]["templating"] == templating
            assert ("bytecode" in found["inputs"]["a"]) is (templating in (True, "hog"))


def test_put_updates_as_patch_does(fresh: Asking) -> None:
    """Functions and recordings; under the contract there is no PUT."""
    made = fresh.made(**coded("x"))
    path, recording = f"{LIST}{made['id']}/", f"/api/projects/1/session_recordings/{RECORDING}/"
    found = fresh("PUT", path, {"name": "put", "description": ""})
    assert found.status_code == 200
    same = ("name", "updated_at", "version")
    assert found.json() == made | {name: found.json()[name] for name in same}
    assert fresh("PUT", recording, {"viewed": True}).json() == {"success": True}
    assert fresh("GET", recording).json()["viewed"] is True
    refused(fresh("PUT", recording, {}), None)
    refused(fresh("PUT", path, {"name": ["x"]}), "name")
    assert fresh("PUT", path, {}, key=key_with("hog_function:read")).status_code == 403
    assert "PUT" in fresh("DELETE", path).headers["allow"]
    assert management_service.shared()("PUT", recording, {"viewed": True}).status_code == 405


def test_an_access_token_is_refreshed(fresh: Asking) -> None:
    """Another token, for a configuration made now and enabled as before; it needs the write scope."""
    path = "/api/projects/1/session_recordings/rec-3/sharing/"
    before = fresh("GET", path).json()
    found = fresh("POST", path + "refresh/", {}).json()
    assert (found["enabled"], found["access_token"] != before["access_token"]) == (True, True)
    assert found["created_at"] > before["created_at"]
    assert fresh("GET", path).json() == found
    assert len(fresh("POST", path.replace("rec-3", RECORDING) + "refresh/").json()["access_token"]) > 20
    assert fresh("POST", path.replace("rec-3", "nowhere") + "refresh/").status_code == 404
    assert fresh("POST", path + "refresh/", key=key_with("sharing_configuration:read")).status_code == 403
    assert management_service.shared()("POST", path + "refresh/").status_code == 404


def test_a_recording_says_when_it_expires() -> None:
    """This many days after the day it began, 30 if its seed has no other number; the days left, null after that."""
    seed = {
        "session_recordings": [
            {"id": "a", "start_time": "2023-11-01T23:59:59Z"},
            {"id": "b", "start_time": "2023-11-01T00:00:00Z", "retention_period_days": 90},
            {"id": "c", "start_time": "2023-01-01T00:00:00Z"},
            {"id": "d"},
            {"id": "e", "start_time": "9999-12-31T00:00:00Z", "expiry_time": "2024-01-01T00:00:00Z"},
        ]
    }
    wanted = {
        "a": (30, "2023-12-01T00:00:00Z", 17),
        "b": (90, "2024-01-30T00:00:00Z", 77),
        "c": (30, "2023-01-31T00:00:00Z", 0),
        "d": (30, None, None),
        "e": (30, "2024-01-01T00:00:00Z", None),
    }
    root, names = "/api/projects/1/session_recordings/", ("retention_period_days", "expiry_time", "recording_ttl")
    with asking(preset("observed", clock=lambda: NOW), seed=seed) as ask:
        listed = {one["id"]: tuple(one[name] for name in names) for one in ask("GET", root).json()["results"]}
        single = {id: tuple(ask("GET", root + id).json()[name] for name in names) for id in wanted}
    assert listed == single == wanted


def test_an_outdated_update_is_a_conflict(fresh: Asking) -> None:
    """409 when `base_updated_at` is older than the record."""
    made = fresh.made(hog="h")
    path = f"{LIST}{made['id']}/"
    assert fresh("PATCH", path, {"name": "x", "base_updated_at": made["updated_at"]}).status_code == 200
    late = fresh("PATCH", path, {"name": "y", "base_updated_at": made["updated_at"]})
    assert (late.status_code, late.json()["code"]) == (409, "stale_update")
    refused(fresh("PATCH", path, {"base_updated_at": "x"}), "base_updated_at")


def test_only_twenty_transformations_are_enabled(fresh: Asking) -> None:
    """At most twenty per project; others stay possible."""
    ids = [fresh.made(hog="h", type="transformation", enabled=True)["id"] for _ in range(20)]
    refused(fresh("POST", LIST, {"hog": "h", "type": "transformation", "enabled": True}), None)
    off = fresh.made(hog="h", type="transformation")["id"]
    refused(fresh("PATCH", f"{LIST}{off}/", {"enabled": True}), None)
    assert fresh("PATCH", f"{LIST}{ids[0]}/", {"enabled": False}).status_code == 200
    assert fresh("PATCH", f"{LIST}{off}/", {"enabled": True}).status_code == 200
    assert fresh("PATCH", f"{LIST}{off}/", {"name": "still"}).status_code == 200


def test_rearranging_answers_with_the_functions_in_order(fresh: Asking) -> None:
    """All transformations of one type, as a plain list."""
    first, second = (fresh.made(hog="h", type="transformation", execution_order=n)["id"] for n in (1, 2))
    other = fresh.made(hog="h")["id"]
    path = LIST + "rearrange/"
    found = fresh("PATCH", path, {"orders": {first: 3}}).json()
    assert [(one["id"], one["execution_order"]) for one in found] == [(second, 2), (first, 3)]
    refused(fresh("PATCH", path, {"orders": {other: 1}}), None)
    mixed = {"orders": {first: 1, other: 1}}
    refused(fresh("PATCH", path, mixed), None, detail="Cannot rearrange functions of different types in one request")
    refused(fresh("PATCH", path, {}), "orders", detail="No orders provided")


SPANS = {
    "?after=9999-12-31&before=9999-12-31": ["9999-12-31"],
    "?after=9999-12-30&before=9999-12-31&interval=week": ["9999-12-30"],
    "?after=0001-01-01&before=0001-01-02": ["0001-01-01", "0001-01-02"],
    "?after=2023-01-31T23:30:00Z&before=2023-02-01T00:45:00Z&interval=hour": ["2023-01-31T23:00", "2023-02-01T00:00"],
    "?after=2023-01-02&before=2023-01-01": [],
}


def test_runs_have_the_shapes_of_the_source(ask: Asking) -> None:
    """Logs are a page, totals a map, metrics have labels, which are ISO 8601 with years of four digits, and series."""
    path = f"{LIST}{ask.made(hog='h')['id']}/"
    assert ask("GET", path + "logs/").json() == {"count": 0, "next": None, "previous": None, "results": []}
    found = ask("GET", path + "metrics/?after=-2d").json()
    assert found == {"labels": ["2023-11-12", "2023-11-13", "2023-11-14"], "series": []}
    hours = ask("GET", path + "metrics/?interval=hour&after=2023-11-14T20:00:00Z").json()["labels"]
    assert hours == ["2023-11-14T20:00", "2023-11-14T21:00", "2023-11-14T22:00"]
    found = {span: ask("GET", path + "metrics/" + span).json() for span in SPANS}
    assert found == {span: {"labels": labels, "series": []} for span, labels in SPANS.items()}
    assert ask("GET", path + "metrics/totals/").json() == {"totals": {}}
    for query in (
        *("logs/?limit=0", "logs/?limit=501", "logs/?after=x", "metrics/?interval=month", "metrics/?breakdown_by=x"),
        *("metrics/?after=0001-01-01&interval=hour", "metrics/totals/?before=x"),
    ):
        refused(ask("GET", path + query), query.partition("?")[2].partition("=")[0])


def test_an_invocation_needs_a_configuration(ask: Asking) -> None:
    """Errors come without the envelope; the id may be of no function. A run says that it did not happen."""
    for id in (ask.made(hog="h")["id"], "new"):
        bare = ask("POST", f"{LIST}{id}/invocations/", {})
        assert (bare.status_code, bare.json()) == (400, {"configuration": ["This field is required."]})
        done = ask("POST", f"{LIST}{id}/invocations/", {"configuration": {"hog": "h"}}).json()
        assert done["status"] == "success"
        said = "The local service runs no hog function: this one did not run."
        assert [line["message"] for line in done["logs"]] == [said]
    described = ask("GET", "/openapi.json").json()["paths"]
    told = described["/api/projects/{project_id}/hog_functions/{id}/logs/"]["get"]["description"]
    assert "runs no hog function" in told


def test_the_unsettled_points_are_switches() -> None:
    """Broadcast and icons are missing unless they are switched on; the list of projects needs its scope,
    project:read."""
    closed = management_service.shared("observed")
    assert closed("POST", f"{LIST}{closed.made(hog='h')['id']}/broadcast/", {}).status_code == 404
    for path in ("icon/?id=x", "icons/"):
        assert closed("GET", LIST + path).json()["detail"] == "This action does not support personal API key access"
    for scope, status in (("hog_function:read", 403), ("project:read", 200)):
        assert closed("GET", "/api/projects/", key=key_with(scope)).status_code == status
    with asking(preset("observed", broadcast="success", icons="open")) as ask:
        id = ask.made(hog="h")["id"]
        assert ask("POST", f"{LIST}{id}/broadcast/", {}).json() == {"success": True}
        icon = ask("GET", LIST + "icon/?id=x")
        assert (icon.headers["content-type"], icon.content[:4]) == ("image/png", b"\x89PNG")
        assert [one["id"] for one in ask("GET", LIST + "icons/?query=slack").json()] == ["template-slack"]


def test_further_filters_of_the_list(ask: Asking) -> None:
    """Search in names and descriptions, and filters that contain others."""
    functions = [
        {"name": "Alpha", "hog": "h", "filters": {"events": [{"id": "a", "order": 1}]}},
        {"description": "about alpha", "name": "B", "hog": "h", "filters": {"events": [{"id": "b"}]}},
        {"name": "w", "hog": "h", "type": "warehouse_source_webhook"},
    ]
    wanted = {
        "": {"Alpha", "B"},
        "search=ALPHA": {"Alpha", "B"},
        'filters={"events":[{"id":"a"}]}': {"Alpha"},
        'filter_groups=[{"events":[{"id":"a"}]},{"events":[{"id":"b"}]}]': {"Alpha", "B"},
    }
    with asking(preset("observed"), seed={"hog_functions": functions}) as seeded:
        for query, names in wanted.items():
            assert {one["name"] for one in seeded("GET", f"{LIST}?{query}").json()["results"]} == names, query
    refused(ask("GET", f"{LIST}?filter_groups=x"), "filter_groups")
    refused(ask("GET", f"{LIST}?search={'x' * 201}"), "search")
    assert ask("GET", f"{LIST}?limit=x&offset=y").status_code == 200


def test_recordings_as_the_source_has_them(fresh: Asking) -> None:
    """Another list, an update that marks as viewed, a deletion without conditions, more about sharing."""
    root = "/api/projects/1/session_recordings/"
    found = fresh("GET", root + "?limit=2").json()
    listed = [one["id"] for one in found["results"]]
    assert (listed, found["has_next"], found["version"]) == (["rec-2", RECORDING], True, 4)
    picked = fresh("GET", root, params={"session_ids": json.dumps(["rec-3"])}).json()
    assert [one["id"] for one in picked["results"]] == ["rec-3"]
    wrong = fresh("GET", root + "?novel=1")
    assert json.loads(wrong.json()["detail"])[0]["loc"] == ["novel"]
    assert fresh("PATCH", root + RECORDING, {"viewed": True}).json() == {"success": True}
    seen = fresh("GET", root + RECORDING).json()
    assert (seen["viewed"], seen["viewers"]) == (True, ["user1@example.com"])
    for body in ({}, {"viewed": False}, {"person": {}}):
        refused(fresh("PATCH", root + RECORDING, body), None)
    assert fresh("GET", root + "nowhere").json()["detail"] == "Recording not found"
    assert fresh("DELETE", root + "nowhere").status_code == 204
    sharing = fresh("GET", root + RECORDING + "/sharing").json()
    assert {"settings", "password_required", "share_passwords"} < set(sharing)


def test_calls_are_counted_by_the_minute_and_the_hour() -> None:
    """429 after 480 plain calls or 240 of recordings in a minute, with the time to wait; then calls work again."""
    now = [NOW]
    with asking(preset("observed", clock=lambda: now[0])) as ask:
        codes = [ask("GET", "/api/projects/1/session_recordings/?limit=1").status_code for _ in range(241)]
        assert (codes.count(200), codes[-1]) == (240, 429)
        throttled = ask("GET", "/api/projects/1/session_recordings/")
        assert (throttled.headers["retry-after"], throttled.json()["type"]) == ("60", "throttled_error")
        assert ask("GET", LIST).status_code == 200
        assert ask("GET", "/api/projects/2/session_recordings/").status_code == 200
        now[0] += 60_000_000
        assert ask("GET", "/api/projects/1/session_recordings/").status_code == 200


REQUIRING = [
    {"key": "url", "type": "string", "required": True},
    {"key": "token", "type": "string", "required": True, "secret": True},
    {"key": "note", "type": "string"},
]
INPUTS: dict[str, Any] = {"url": {"value": "u"}, "token": {"value": "t"}}


LACKING: dict[str, tuple[dict[str, Any], str]] = {
    "no inputs at all": ({}, "url"),
    "no inputs": ({"inputs": {}}, "url"),
    "no value": ({"inputs": INPUTS | {"url": {}}}, "url"),
    "an empty text": ({"inputs": INPUTS | {"url": {"value": ""}}}, "url"),
    "null": ({"inputs": INPUTS | {"url": {"value": None}}}, "url"),
    "no secret": ({"inputs": {"url": {"value": "u"}}}, "token"),
    "an empty secret": ({"inputs": INPUTS | {"token": {"value": ""}}}, "token"),
}


@pytest.mark.parametrize(("body", "key"), LACKING.values(), ids=LACKING.keys())
def test_a_function_is_not_made_without_a_required_input(ask: Asking, body: dict[str, Any], key: str) -> None:
    answer = ask("POST", LIST, {"hog": "h", "inputs_schema": REQUIRING, **body})
    refused(answer, f"inputs__{key}", detail="This field is required.")


def test_an_update_is_checked_against_the_schema_only_for_what_it_writes(ask: Asking) -> None:
    """A name changes without the inputs; written inputs replace all except the secrets that are kept."""
    path = LIST + ask.made(hog="h", inputs_schema=REQUIRING, inputs=INPUTS | {"note": {"value": "n"}})["id"] + "/"
    assert ask("PATCH", path, {"name": "other"}).status_code == 200
    refused(ask("PATCH", path, {"inputs": {"note": {"value": "m"}}}), "inputs__url", detail="This field is required.")
    kept = ask("PATCH", path, {"inputs": {"url": {"value": "v"}}}).json()["inputs"]
    assert (list(kept), kept["url"]["value"], kept["token"]) == (["url", "token"], "v", {"secret": True})
    wider = [*REQUIRING, {"key": "more", "required": True}]
    assert ask("PATCH", path, {"inputs_schema": wider}).status_code == 200
    refused(ask("PATCH", path, {"inputs": kept}), "inputs__more")


def test_mappings_are_checked_against_their_own_schemas(ask: Asking) -> None:
    """Those without inputs are not."""
    lacking = {"mappings": [{"inputs_schema": REQUIRING}, {"inputs_schema": REQUIRING, "inputs": {}}], "hog": "h"}
    refused(ask("POST", LIST, lacking), "mappings__1__inputs__url", detail="This field is required.")
    made = ask.made(hog="h", mappings=[{"inputs_schema": REQUIRING}, {"inputs_schema": REQUIRING, "inputs": INPUTS}])
    assert made["mappings"][1]["inputs"]["token"] == {"secret": True}
