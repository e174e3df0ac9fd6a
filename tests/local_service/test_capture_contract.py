"""The written contract of historical import (docs/know/service.md#body-shapes), row by row: over HTTP and by commands.

The same three events, an event, a user update and a group update, are sent in each way into a local service of either
behaviour.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import pipeline
from pipeline.cli import run
from pipeline.local_service.settings import Behaviour, preset
from tests.support.management_service import KEYS
from tests.support.plain_http import PLAIN
from tests.support.scripted_api import answering
from tests.support.scripted_server import Said
from tests.support.services import running

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
NOBODY = EVENTS[0] | {"properties": {"n": 2}, "uuid": "018a4b2c-0000-7000-8000-000000000004"}
UNDATED = [
    EVENTS[0] | {"timestamp": text, "uuid": f"018a4b2c-0000-7000-8000-00000000001{number}"}
    for number, text in enumerate(["yesterday", "20/04/2023 14:30", None])
]
Way = Callable[[str, list[dict[str, Any]], Path], tuple[bool, str]]
"""Send events to an address, with a folder to work in: whether all was taken, and what was said."""


def over_http(url: str, events: list[dict[str, Any]], folder: Path) -> tuple[bool, str]:
    body = {"api_key": KEY, "historical_migration": True, "batch": events}
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


def by_commands(url: str, events: list[dict[str, Any]], folder: Path) -> tuple[bool, str]:
    (folder / "key").write_text(KEY)
    source, plan = str(exported(events, folder)), str(folder / "plan")
    assert run(["plan", source, "-m", "posthog", "-o", plan, "--workers", "0", "--max-rejects", "100%"]) == 0
    code = run(["apply", plan, "--to", url, "--project-key-file", str(folder / "key"), "--workers", "0"])
    return code == 0, str(code)


WAYS = {"HTTP": over_http, "commands": by_commands}


@pytest.mark.parametrize(
    ("way", "behaviour"),
    [("HTTP", "contract"), ("HTTP", "observed"), ("commands", "observed")],
)
def test_events_user_updates_and_group_updates_land_as_history(way: str, behaviour: Behaviour, tmp_path: Path) -> None:
    """With the flag, name, id and instant of each; the person and the group have their properties.

    Rules 4 and 5: backcast leaves out who has no distinct_id, which would take the whole batch down, and what cannot be
    dated, since it would be now and stay for ever; both are counted. Each request is a POST to {ingest_url}/batch/ as
    JSON, over a redirect, with the key in the body alone.
    """
    events = EVENTS if way == "HTTP" else [*EVENTS, NOBODY, *UNDATED]
    with (
        running(KEYS, preset(behaviour)) as service,
        answering(lambda call: Said(307, headers={"Location": service.url + call.target})) as front,
    ):
        taken, said = WAYS[way](front.url, events, tmp_path)
        landed, persons, groups, others = service.events(), service.persons(), service.groups(), service.events(2)
    assert taken, said
    for call in front.asked:
        assert (call.method, call.path, call.headers["content-type"]) == ("POST", "/batch/", "application/json")
        assert KEY not in json.dumps(call.headers) + call.target
    assert [(one.event, one.distinct_id, one.timestamp, one.historical_migration) for one in landed] == LANDED
    assert (landed[1].uuid, json.loads(landed[1].properties)["n"], others) == (EVENTS[0]["uuid"], 1, [])
    assert [person.properties for person in persons if person.distinct_ids == ("u-1",)] == [{"plan": "pro"}]
    assert [(one.type, one.key, one.properties) for one in groups] == [("company", "acme", {"seats": 12})]
    if way != "HTTP":
        codes = [(reject.row, reject.code) for reject in pipeline.read_rejects(tmp_path / "plan")]
        assert codes == [
            (4, "missing_distinct_id"), (5, "bad_timestamp"), (6, "bad_timestamp"), (7, "missing_timestamp")
        ]  # fmt: skip
