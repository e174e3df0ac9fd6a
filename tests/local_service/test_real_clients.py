"""The service's own SDKs, posthog-python and posthog-node, send to the local service; everything lands as they meant
it."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from pipeline.local_service import Keyring, LocalService
from pipeline.local_service.keys import Project
from pipeline.local_service.settings import Behaviour, preset
from tests.support.required import require
from tests.support.services import running

PROGRAMS = Path(__file__).parent.parent / "real_clients"
TRACKED = [
    {
        "event": "Order placed" if number % 3 else "Größe gewählt ✓",
        "distinct_id": ("device-1", "user-1", "user-2")[number % 3],
        "timestamp": f"2023-{number % 12 + 1:02}-28T23:59:{number % 60:02}.{number:03}Z",
        "uuid": str(UUID(int=(0x0188A5EB << 96) + (7 << 76) + (2 << 62) + number)),
        "properties": {"$ignore_sent_at": number % 2 == 0, "total": 1.5, "note": None, "lines": [{"sku": "é\u2028"}]},
        "groups": {"company": "acme"},
    }
    for number in range(61)
]
"""61 events of three people, over a year. Every second one asks the service to ignore the clock of its batch."""
BATCH = 25
KEY = "phc_test_sdk"
KEYS = Keyring((Project(1, "SDKs", KEY),), {"phx_test_sdk": frozenset({"*"})})
SET_LATER = {"posthog-python": ["$set", "$set_once"], "posthog-node": ["$set"]}
"""Setting properties and setting them once are two calls of the one SDK, and one of the other."""
ALSO = ["$create_alias", "$groupidentify", "$identify"]


def command(sdk: str) -> list[str]:
    """How its program is run here; the test is skipped if it cannot be."""
    if sdk == "posthog-python":
        require(importlib.util.find_spec("posthog"), "posthog-python is not installed: pip install -e '.[dev]'")
        return [sys.executable, str(PROGRAMS / "send.py")]
    node = shutil.which("node")
    require(node, "there is no Node")
    require(
        (PROGRAMS / "node_modules" / "posthog-node").is_dir(),
        "posthog-node is not installed: npm ci --ignore-scripts --prefix tests/real_clients",
    )
    return [str(node), str(PROGRAMS / "send.mjs")]


def send(
    sdk: str, host: str, *, key: str = KEY, historical: bool = True, gzip: bool = True, mode: str = "v0"
) -> tuple[int, str]:
    """Let an SDK send everything, and end: its exit code and stderr. `mode` v1 is the per-event endpoint."""
    asked = {"host": host, "key": key, "historical": historical, "gzip": gzip, "batch": BATCH, "events": TRACKED}
    asked["mode"] = mode
    clean = {name: value for name, value in os.environ.items() if not name.upper().startswith(("POSTHOG_", "HTTP"))}
    ran = subprocess.run(
        command(sdk), input=json.dumps(asked), env=clean, capture_output=True, text=True, timeout=120, check=False
    )
    return ran.returncode, ran.stderr


def raw(service: LocalService) -> list[tuple[Any, ...]]:
    """Every accepted copy: its uuid, its event's name and its flag."""
    return service.select("select uuid, event, historical_migration from raw_events")


@pytest.mark.parametrize(
    ("behaviour", "sdk", "gzip", "mode"),
    [
        ("contract", "posthog-python", True, "v0"),
        ("observed", "posthog-node", False, "v0"),
        ("observed", "posthog-python", True, "v1"),
    ],
)
def test_what_an_sdk_sends_with_the_flag_lands_once_as_historical(
    behaviour: Behaviour, sdk: str, gzip: bool, mode: str
) -> None:
    """Each event by itself: flag, uuid, instant, name, id and properties; then the persons and the groups."""
    with running(KEYS, preset(behaviour)) as service:
        assert send(sdk, service.url, gzip=gzip, mode=mode) == (0, "")
        landed, copies, persons, groups = service.events(), raw(service), service.persons(), service.groups()
        assert service.warnings() == []
    assert len(landed) == len(copies) == len({one.uuid for one in landed})
    by_uuid = {one.uuid: one for one in landed}
    for meant in TRACKED:
        one = by_uuid.pop(meant["uuid"])
        assert one.historical_migration
        assert (one.event, one.distinct_id) == (meant["event"], meant["distinct_id"])
        properties = json.loads(one.properties)
        assert {name: properties[name] for name in meant["properties"]} == meant["properties"]
        assert (properties["$groups"], properties["$lib"]) == ({"company": "acme"}, sdk)
        late = datetime.fromisoformat(one.timestamp) - datetime.fromisoformat(meant["timestamp"])
        if meant["properties"]["$ignore_sent_at"]:
            assert not late
        else:  # by as long as the batch was under way
            assert timedelta(0) < late < timedelta(minutes=2)
    others = by_uuid.values()
    assert sorted(one.event for one in others) == sorted(ALSO + SET_LATER[sdk])
    assert all(one.historical_migration and UUID(one.uuid).version in (4, 7) for one in others)

    group, first, second = persons
    assert group.distinct_ids == ("$company_acme",)
    assert first.distinct_ids == ("device-1", "device-2", "user-1")
    assert first.is_identified
    assert first.properties.items() >= {"plan": "pro", "joined": "2023-01-01"}.items()
    assert second.distinct_ids == ("user-2",)
    assert second.properties.items() >= {"plan": "free", "joined": "2023-02-01"}.items()
    assert [(one.type, one.key, one.properties) for one in groups] == [("company", "acme", {"seats": 12})]


def test_without_the_flag_the_same_events_are_not_historical() -> None:
    """Sent again with the flag, they are: a copy replaces its event, and has its own flag."""
    tracked = {meant["uuid"] for meant in TRACKED}
    with running(KEYS) as service:
        assert send("posthog-node", service.url, historical=False) == (0, "")
        assert len(raw(service)) == len(TRACKED) + len(ALSO + SET_LATER["posthog-node"])
        assert not any(one.historical_migration for one in service.events())
        assert send("posthog-node", service.url) == (0, "")
        copies = [(uuid, flag) for uuid, _, flag in raw(service) if str(uuid) in tracked]
        landed = [one for one in service.events() if one.uuid in tracked]
    assert [sum(flag is kind for _, flag in copies) for kind in (False, True)] == [len(TRACKED)] * 2
    assert len(landed) == len(TRACKED)
    assert all(one.historical_migration for one in landed)


def test_an_sdk_reports_that_its_batch_was_refused() -> None:
    """A personal key instead of the project's: nothing lands, and the SDK reports it to its caller."""
    with running(KEYS) as service:
        code, told = send("posthog-python", service.url, key="phx_test_sdk")
        assert raw(service) == []
    assert code == 1
    assert "401" in told
