"""The written contract of historical import (docs/know/service.md#body-shapes), row by row: over HTTP, by the library,
by commands.

The same three events, an event, a user update and a group update, are sent in each way into a local service of either
behaviour.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import pipeline
from pipeline.cli import run
from pipeline.errors import BackcastError
from pipeline.local_service import LocalService
from pipeline.local_service.settings import preset
from pipeline.options import ApplyOptions, PlanOptions
from tests.support.management_service import ALL, KEYS
from tests.support.plain_http import PLAIN
from tests.support.scripted_api import answering
from tests.support.scripted_server import Asked, Said

pytestmark = pytest.mark.slow

KEY = "phc_test_a"
EVENTS: list[dict[str, Any]] = [
    {
        "event": "Signed Up",
        "properties": {"distinct_id": "u-1", "n": 1},
        "timestamp": "2023-04-20T14:30:00Z",
        "uuid": "018a4b2c-0000-7000-8000-000000000001",
    },
    {
        "event": "$identify",
        "properties": {"distinct_id": "u-1", "$set": {"plan": "pro"}},
        "timestamp": "2023-04-20T14:31:00.5Z",
        "uuid": "018a4b2c-0000-7000-8000-000000000002",
    },
    {
        "event": "$group_identify",
        "properties": {
            "distinct_id": "$company_acme", "$group_type": "company", "$group_key": "acme", "$group_set": {"seats": 12},
        },
        "timestamp": "2023-04-20T14:32:00+02:00",
        "uuid": "018a4b2c-0000-7000-8000-000000000003",
    },
]  # fmt: skip
"""The contract's own example of each kind (docs/know/service.md#event-fields)."""
LANDED = [
    ("$group_identify", "$company_acme", "2023-04-20T12:32:00.000000Z", True),
    ("Signed Up", "u-1", "2023-04-20T14:30:00.000000Z", True),
    ("$identify", "u-1", "2023-04-20T14:31:00.500000Z", True),
]
Way = Callable[[str, str, list[dict[str, Any]], Path], tuple[bool, str]]
"""Send events to an address with a capture key, with a folder to work in: whether all was taken, and what was said."""


def over_http(url: str, key: str, events: list[dict[str, Any]], folder: Path) -> tuple[bool, str]:
    body = {"api_key": key, "historical_migration": True, "batch": events}
    answer = httpx.post(url + "/batch/", json=body, follow_redirects=True, timeout=30, **PLAIN)
    return answer.status_code == 200, f"{answer.status_code} {answer.text}"


def exported(events: list[dict[str, Any]], folder: Path) -> Path:
    """The events as an export of the service's own, which backcast reads: the distinct_id stands beside the rest."""
    rows = []
    for event in events:
        properties = dict(event["properties"])
        rows.append(event | {"distinct_id": properties.pop("distinct_id", None), "properties": properties})
    (folder / "export.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return folder / "export.jsonl"


def by_library(url: str, key: str, events: list[dict[str, Any]], folder: Path) -> tuple[bool, str]:
    pipeline.plan_export(
        exported(events, folder), folder / "plan", PlanOptions(mapping="posthog", workers=0, max_rejects="100%")
    )
    try:
        outcome = pipeline.apply_plan(folder / "plan", url, ApplyOptions(workers=0), project_key=key)
    except BackcastError as error:
        return False, str(error)
    return outcome.balanced and not outcome.counts.refused, ""


def by_commands(url: str, key: str, events: list[dict[str, Any]], folder: Path) -> tuple[bool, str]:
    (folder / "key").write_text(key)
    source, plan = str(exported(events, folder)), str(folder / "plan")
    assert run(["plan", source, "-m", "posthog", "-o", plan, "--workers", "0", "--max-rejects", "100%"]) == 0
    code = run(["apply", plan, "--to", url, "--project-key-file", str(folder / "key"), "--workers", "0"])
    return code == 0, str(code)


WAYS = {"HTTP": over_http, "library": by_library, "commands": by_commands}


@pytest.fixture(params=["contract", "observed"])
def service(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalService]:
    """An empty service of either behaviour."""
    for name in ("BACKCAST_PROJECT_KEY", "BACKCAST_PERSONAL_KEY"):
        monkeypatch.delenv(name, raising=False)
    with LocalService(keys=KEYS, settings=preset(request.param)) as made:
        yield made


def landed(service: LocalService) -> list[tuple[str, str, str, bool]]:
    """What landed, in the order of time."""
    return [(one.event, one.distinct_id, one.timestamp, one.historical_migration) for one in service.events()]


@pytest.mark.parametrize("way", WAYS)
def test_events_user_updates_and_group_updates_land_as_history(service: LocalService, way: str, tmp_path: Path) -> None:
    """With the flag, name, id and instant of each; the person and the group have their properties."""
    taken, said = WAYS[way](service.url, KEY, EVENTS, tmp_path)
    assert taken, said
    assert landed(service) == LANDED
    assert service.events()[1].uuid == EVENTS[0]["uuid"]
    assert json.loads(service.events()[1].properties)["n"] == 1
    (user,) = [person for person in service.persons() if person.distinct_ids == ("u-1",)]
    assert user.properties == {"plan": "pro"}
    assert [(one.type, one.key, one.properties) for one in service.groups()] == [("company", "acme", {"seats": 12})]
    assert service.events(2) == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("key", [ALL, "phc_test_unknown"])
def test_only_a_capture_key_opens_capture(service: LocalService, way: str, key: str, tmp_path: Path) -> None:
    """It is the project key of the body that counts: nothing lands by another.

    A personal key is refused. Of an unknown key the service says nothing: it takes the batch and drops it.
    """
    taken, said = WAYS[way](service.url, key, EVENTS, tmp_path)
    assert taken is (key != ALL), said
    assert [service.events(project) for project in (1, 2)] == [[], []]


@pytest.mark.parametrize("way", WAYS)
def test_an_event_without_a_distinct_id_does_not_land(service: LocalService, way: str, tmp_path: Path) -> None:
    """Rule 5. Over HTTP it takes its whole batch down with it; backcast leaves it out, counted, and sends the rest."""
    nobody = EVENTS[0] | {"properties": {"n": 2}, "uuid": "018a4b2c-0000-7000-8000-000000000004"}
    taken, said = WAYS[way](service.url, KEY, [*EVENTS, nobody], tmp_path)
    if way == "HTTP":
        assert (taken, said) == (False, "400 event submitted without a distinct_id")
        assert landed(service) == []
        return
    assert taken, said
    assert landed(service) == LANDED
    (reject,) = pipeline.read_rejects(tmp_path / "plan")
    assert (reject.row, reject.code) == (4, "missing_distinct_id")


@pytest.mark.parametrize("way", ["library", "commands"])
def test_an_event_needs_a_timestamp_in_iso_8601(service: LocalService, way: str, tmp_path: Path) -> None:
    """Rules 4 and 5: what cannot be dated is not sent, since it would be now and stay for ever."""
    wrong = [
        EVENTS[0] | {"timestamp": text, "uuid": f"018a4b2c-0000-7000-8000-00000000001{number}"}
        for number, text in enumerate(["yesterday", "20/04/2023 14:30", None])
    ]
    taken, said = WAYS[way](service.url, KEY, [*EVENTS, *wrong], tmp_path)
    assert taken, said
    assert landed(service) == LANDED
    codes = [reject.code for reject in pipeline.read_rejects(tmp_path / "plan")]
    assert codes == ["bad_timestamp", "bad_timestamp", "missing_timestamp"]


@pytest.mark.parametrize("way", WAYS)
def test_the_request_is_the_one_that_is_written(service: LocalService, way: str, tmp_path: Path) -> None:
    """POST {ingest_url}/batch/ as JSON with these three members, over a redirect, the key in the body alone."""

    def moved(call: Asked) -> Said:
        return Said(307, headers={"Location": service.url + call.target})

    with answering(moved) as front:
        taken, said = WAYS[way](front.url, KEY, EVENTS, tmp_path)
    assert taken, said
    assert len(service.events()) == len(EVENTS)
    for call in front.asked:
        assert (call.method, call.path, call.headers["content-type"]) == ("POST", "/batch/", "application/json")
        assert KEY not in json.dumps(call.headers) + call.target
