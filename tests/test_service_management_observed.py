"""Under `--behaviour observed` the management API answers as the real service's source does, not as its contract."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from management_service import RECORDING, Asking, asking, key_with

from pipeline.service.switches import BadSwitch, chosen, preset, switches

LIST = "/api/projects/1/hog_functions/"
NOW = 1_700_000_000_000_000


@pytest.fixture(scope="module")
def ask() -> Iterator[Asking]:
    with asking(preset("observed", management_rates="off", clock=lambda: NOW)) as found:
        yield found


@pytest.fixture
def fresh() -> Iterator[Asking]:
    with asking(preset("observed")) as found:
        yield found


def refused(answer: Any, attr: str | None, status: int = 400) -> None:
    assert (answer.status_code, answer.json()["attr"]) == (status, attr), answer.text


def test_records_have_the_fields_of_the_source(ask: Asking) -> None:
    """A list item holds its template, a record no write-only field, and what is not set is null."""
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


@pytest.mark.parametrize(
    ("body", "attr"),
    [
        ({}, "hog"),
        ({"hog": ""}, "hog"),
        ({"hog": "x" * 102401}, "hog"),
        ({"hog": "h", "name": "x" * 401}, "name"),
        ({"hog": "h", "type": "novel"}, "type"),
        ({"hog": "h", "execution_order": 32768}, "execution_order"),
        ({"hog": "h", "execution_order": -1}, "execution_order"),
        ({"hog": "h", "masking": {}}, "masking__ttl"),
        ({"hog": "h", "masking": {"ttl": 59, "hash": "x"}}, "masking__ttl"),
        ({"hog": "h", "masking": {"ttl": 86401, "hash": "x"}}, "masking__ttl"),
        ({"hog": "h", "masking": {"ttl": 60}}, "masking__hash"),
        ({"hog": "h", "filters": {"source": "elsewhere"}}, "filters__source"),
        ({"template_id": "template-nowhere"}, "template_id"),
        ({"hog": "h", "enabled": None}, "enabled"),
    ],
)
def test_what_the_source_refuses(ask: Asking, body: dict[str, Any], attr: str) -> None:
    """Required fields, bounds and choices that the contract does not show."""
    refused(ask("POST", LIST, body), attr)


def test_what_the_source_takes_and_changes(ask: Asking) -> None:
    """Input values of any type, null where it may be; keys outside the schema vanish; filters get a source."""
    made = ask.made(
        hog="h",
        inputs_schema=[{"key": "headers", "type": "dictionary"}],
        inputs={"headers": {"value": {"a": "b"}}, "stray": {"value": "x"}},
        filters={"events": [{"id": "e"}]},
        icon_url=None,
    )
    assert made["inputs"] == {"headers": {"value": {"a": "b"}, "order": 0}}
    assert made["filters"] == {"source": "events", "events": [{"id": "e"}]}
    path = f"{LIST}{made['id']}/"
    masked = ask("PATCH", path, {"masking": {"ttl": 60, "hash": "x", "threshold": None, "odd": 1}}).json()["masking"]
    assert masked == {"ttl": 60, "threshold": None, "hash": "x", "bytecode": None}
    assert ask("PATCH", path, {"masking": None, "filters": None}).json()["filters"] == {"source": "events"}
    mapped = ask("PATCH", path, {"mappings": [{"name": "m"}], "filters": {"events": [], "properties": []}}).json()
    assert mapped["filters"] == {"source": "events", "properties": []}
    refused(ask("PATCH", path, {"type": "transformation"}), "type")


def test_an_outdated_update_is_a_conflict(fresh: Asking) -> None:
    """409 when `base_updated_at` is older than the record."""
    made = fresh.made(hog="h")
    path = f"{LIST}{made['id']}/"
    assert fresh("PATCH", path, {"name": "x", "base_updated_at": made["updated_at"]}).status_code == 200
    late = fresh("PATCH", path, {"name": "y", "base_updated_at": made["updated_at"]})
    assert (late.status_code, late.json()["code"]) == (409, "stale_update")
    refused(fresh("PATCH", path, {"base_updated_at": "x"}), "base_updated_at")


def test_only_so_many_transformations_are_enabled(fresh: Asking) -> None:
    """Twenty of a project; others stay possible."""
    ids = [fresh.made(hog="h", type="transformation", enabled=True)["id"] for _ in range(20)]
    refused(fresh("POST", LIST, {"hog": "h", "type": "transformation", "enabled": True}), None)
    off = fresh.made(hog="h", type="transformation")["id"]
    refused(fresh("PATCH", f"{LIST}{off}/", {"enabled": True}), None)
    assert fresh("PATCH", f"{LIST}{ids[0]}/", {"enabled": False}).status_code == 200
    assert fresh("PATCH", f"{LIST}{off}/", {"enabled": True}).status_code == 200
    assert fresh("PATCH", f"{LIST}{off}/", {"name": "still"}).status_code == 200


def test_rearranging_answers_with_the_functions_in_order(fresh: Asking) -> None:
    """Transformations of one type alone, all of them, as a plain list."""
    first, second = (fresh.made(hog="h", type="transformation", execution_order=n)["id"] for n in (1, 2))
    other = fresh.made(hog="h")["id"]
    path = LIST + "rearrange/"
    found = fresh("PATCH", path, {"orders": {first: 3}}).json()
    assert [(one["id"], one["execution_order"]) for one in found] == [(second, 2), (first, 3)]
    refused(fresh("PATCH", path, {"orders": {other: 1}}), None)
    mixed = fresh("PATCH", path, {"orders": {first: 1, other: 1}})
    assert mixed.json()["detail"] == "Cannot rearrange functions of different types in one request"
    nothing = fresh("PATCH", path, {})
    assert nothing.json()["detail"] == "No orders provided"


def test_runs_have_the_shapes_of_the_source(ask: Asking) -> None:
    """Logs are a page, metrics have labels and series, totals a map: all without a run."""
    path = f"{LIST}{ask.made(hog='h')['id']}/"
    assert ask("GET", path + "logs/").json() == {"count": 0, "next": None, "previous": None, "results": []}
    found = ask("GET", path + "metrics/?after=-2d").json()
    assert found == {"labels": ["2023-11-12", "2023-11-13", "2023-11-14"], "series": []}
    hours = ask("GET", path + "metrics/?interval=hour&after=2023-11-14T20:00:00Z").json()["labels"]
    assert hours == ["2023-11-14T20:00", "2023-11-14T21:00", "2023-11-14T22:00"]
    assert ask("GET", path + "metrics/totals/").json() == {"totals": {}}
    for query, attr in (
        ("logs/?limit=0", "limit"),
        ("logs/?limit=501", "limit"),
        ("logs/?after=x", "after"),
        ("metrics/?interval=month", "interval"),
        ("metrics/?breakdown_by=x", "breakdown_by"),
        ("metrics/?after=0001-01-01&interval=hour", "after"),
        ("metrics/totals/?before=x", "before"),
    ):
        refused(ask("GET", path + query), attr)


def test_an_invocation_needs_a_configuration(ask: Asking) -> None:
    """Problems come without the envelope; the id may be that of no function."""
    for id in (ask.made(hog="h")["id"], "new"):
        bare = ask("POST", f"{LIST}{id}/invocations/", {})
        assert (bare.status_code, bare.json()) == (400, {"configuration": ["This field is required."]})
        done = ask("POST", f"{LIST}{id}/invocations/", {"configuration": {"hog": "h"}}).json()
        assert done["status"] == "success"


def test_the_unsettled_points_are_switches() -> None:
    """Broadcast and icons are away unless they are switched on."""
    with asking(preset("observed")) as ask:
        id = ask.made(hog="h")["id"]
        assert ask("POST", f"{LIST}{id}/broadcast/", {}).status_code == 404
        for path in ("icon/?id=x", "icons/"):
            answer = ask("GET", LIST + path)
            assert answer.json()["detail"] == "This action does not support personal API key access"
    with asking(preset("observed", broadcast="success", icons="open")) as ask:
        id = ask.made(hog="h")["id"]
        assert ask("POST", f"{LIST}{id}/broadcast/", {}).json() == {"success": True}
        icon = ask("GET", LIST + "icon/?id=x")
        assert (icon.headers["content-type"], icon.content[:4]) == ("image/png", b"\x89PNG")
        assert [one["id"] for one in ask("GET", LIST + "icons/?query=slack").json()] == ["template-slack"]


def test_further_filters_of_the_list(ask: Asking) -> None:
    """Search in names and descriptions, and filters that hold others."""
    with asking(
        preset("observed"),
        seed={
            "hog_functions": [
                {"name": "Alpha", "hog": "h", "filters": {"events": [{"id": "a", "order": 1}]}},
                {"description": "about alpha", "name": "B", "hog": "h", "filters": {"events": [{"id": "b"}]}},
                {"name": "w", "hog": "h", "type": "warehouse_source_webhook"},
            ]
        },
    ) as seeded:

        def names(query: str) -> set[str]:
            return {one["name"] for one in seeded("GET", f"{LIST}?{query}").json()["results"]}

        assert names("") == {"Alpha", "B"}
        assert names("search=ALPHA") == {"Alpha", "B"}
        assert names('filters={"events":[{"id":"a"}]}') == {"Alpha"}
        assert names('filter_groups=[{"events":[{"id":"a"}]},{"events":[{"id":"b"}]}]') == {"Alpha", "B"}
    refused(ask("GET", f"{LIST}?filter_groups=x"), "filter_groups")
    refused(ask("GET", f"{LIST}?search={'x' * 201}"), "search")
    assert ask("GET", f"{LIST}?limit=x&offset=y").status_code == 200


def test_recordings_as_the_source_has_them(fresh: Asking) -> None:
    """Another list, an update that marks as viewed, a deletion that asks nothing, more of sharing."""
    root = "/api/projects/1/session_recordings/"
    found = fresh("GET", root + "?limit=2").json()
    assert ([one["id"] for one in found["results"]], found["has_next"], found["version"]) == (
        ["rec-2", RECORDING],
        True,
        4,
    )
    picked = fresh("GET", root, params={"session_ids": json.dumps(["rec-3"])}).json()
    assert [one["id"] for one in picked["results"]] == ["rec-3"]
    wrong = fresh("GET", root + "?novel=1")
    assert json.loads(wrong.json()["detail"])[0]["loc"] == ["novel"]
    assert fresh("PATCH", root + RECORDING, {"viewed": True}).json() == {"success": True}
    assert fresh("GET", root + RECORDING).json()["viewed"] is True
    assert fresh("GET", root + RECORDING).json()["viewers"] == ["user1@example.com"]
    for body in ({}, {"viewed": False}, {"person": {}}):
        refused(fresh("PATCH", root + RECORDING, body), None)
    assert fresh("GET", root + "nowhere").json()["detail"] == "Recording not found"
    assert fresh("DELETE", root + "nowhere").status_code == 204
    assert {"settings", "password_required", "share_passwords"} < set(
        fresh("GET", root + RECORDING + "/sharing").json()
    )


def test_calls_are_counted_by_the_minute_and_the_hour() -> None:
    """429 after 480 plain calls or 240 of recordings in a minute, with the time to wait; then again."""
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


def test_projects_need_their_scope(ask: Asking) -> None:
    """project:read, as the source has it."""
    assert ask("GET", "/api/projects/", key=key_with("hog_function:read")).status_code == 403
    assert ask("GET", "/api/projects/", key=key_with("project:read")).status_code == 200


def test_settings_are_set_by_name() -> None:
    """Every switch is listed with its values; a wrong name or value is refused."""
    assert chosen("contract", ["broadcast=success", "drop_events_older_than=60"]).drop_events_older_than == 60
    assert chosen("observed", ["drop_events_older_than=none"]).behaviour == "observed"
    assert chosen("contract", ["query_seconds=0.5"]).query_seconds == 0.5
    assert {"broadcast", "icons", "token_validation"} < {one.name for one in switches()}
    assert all(one.about and one.values and one.usual for one in switches())
    for text in ("clock=1", "behaviour=observed", "broadcast=maybe", "nowhere=1", "icons", "batch_wire_limit=-1",
                 "batch_wire_limit=x", "query_seconds=nan"):  # fmt: skip
        with pytest.raises(BadSwitch):
            chosen("contract", [text])
