"""A local service for the tests of capture: its key, good events and batches, and requests."""

from __future__ import annotations

import atexit
import json
from contextlib import AbstractContextManager
from dataclasses import fields
from functools import cache
from typing import Any

import httpx

from pipeline.local_service import Keyring, LocalService, Settings
from pipeline.local_service.keys import Project
from pipeline.local_service.landed import LandedEvent
from tests.support.plain_http import PLAIN
from tests.support.services import NOW, kept, running

NOW_TEXT = "2023-11-14T22:13:20.000000Z"
UUID = "0188a5eb-0000-7000-8000-000000000001"
KEY = "phc_rehearsal"
CLIENT = httpx.Client(timeout=30, **PLAIN)
atexit.register(CLIENT.close)
KEYS = Keyring((Project(1, "Rehearsal", KEY),), {"phx_personal": frozenset({"*"})})


def make(faults: tuple[str, ...] = (), **switches: Any) -> AbstractContextManager[LocalService]:
    """A new service."""
    return running(KEYS, Settings(**{"clock": lambda: NOW} | switches), faults=faults)


@cache
def shared(**switches: Any) -> LocalService:
    """The service of all tests with these switches, for tests that look only at what they did themselves."""
    return kept(keys=KEYS, settings=Settings(**{"clock": lambda: NOW} | switches))


def event(**changes: Any) -> dict[str, Any]:
    """A good event with members replaced; a member set to `...` is left out."""
    made = {
        "event": "Signed up",
        "properties": {"distinct_id": "u1"},
        "timestamp": "2023-01-02T03:04:05.678901Z",
        "uuid": UUID,
    } | changes
    return {name: value for name, value in made.items() if value is not ...}


def batch(*events: Any, **changes: Any) -> bytes:
    """The JSON text of a batch."""
    made = {"api_key": KEY, "historical_migration": True, "batch": list(events or [event()])} | changes
    return json.dumps({name: value for name, value in made.items() if value is not ...}).encode()


def post(
    service: LocalService, body: bytes, path: str = "/batch/", headers: dict[str, str] | None = None
) -> httpx.Response:
    headers = {"content-type": "application/json"} | (headers or {})
    return CLIENT.post(service.url + path, content=body, headers=headers)


def taken(
    service: LocalService, body: bytes, path: str = "/batch/", headers: dict[str, str] | None = None
) -> list[LandedEvent]:
    """The copies of events that a request, which must be taken, leaves in the service, in their order."""
    before = service.store.raw_count()
    answer = post(service, body, path, headers)
    assert (answer.status_code, answer.text) == (200, '{"status":"Ok"}')
    assert answer.headers["content-type"] == "application/json"
    columns = ", ".join(field.name for field in fields(LandedEvent))
    found = service.select(f"select {columns} from raw_events where receipt > {before} order by receipt")
    return [LandedEvent(*row) for row in found]
