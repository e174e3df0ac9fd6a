"""A local service for the tests of its management API: keys of every kind, and a recording to look at."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import httpx

from pipeline.local_service import Keyring, LocalService, Settings
from pipeline.local_service.keys import Project
from pipeline.local_service.settings import Behaviour, preset
from tests.support.plain_http import PLAIN
from tests.support.services import NOW, kept, running

SCOPES = (
    "hog_function:read",
    "hog_function:write",
    "session_recording:read",
    "session_recording:write",
    "sharing_configuration:read",
    "project:read",
    "query:read",
    "group:read",
)
ALL = "phx_test_all"
SECRET = "s3cr3t-sw0rdf1sh"
"""A value of an input that is never shown."""
LIST = "/api/projects/1/hog_functions/"
RECORDING = "0190c0de-0000-7000-8000-0000000000aa"
FULL_RECORDING: dict[str, Any] = {
    "id": RECORDING,
    "distinct_id": "u1",
    "viewed": False,
    "viewers": [],
    "recording_duration": 61,
    "active_seconds": 40,
    "inactive_seconds": 21,
    "start_time": "2023-01-02T03:04:05Z",
    "end_time": "2023-01-02T03:05:06Z",
    "click_count": 3,
    "keypress_count": 14,
    "mouse_activity_count": 159,
    "console_log_count": 2,
    "console_warn_count": 1,
    "console_error_count": 0,
    "start_url": "https://example.com/",
    "person": {
        "id": 7,
        "name": "Ada",
        "distinct_ids": "u1",
        "properties": None,
        "created_at": "2023-01-01T00:00:00Z",
        "uuid": "0190c0de-0000-7000-8000-0000000000bb",
    },
    "storage": "object_storage_v2",
    "snapshot_source": "web",
    "ongoing": False,
    "activity_score": 12.5,
}
SEED = {
    "session_recordings": [
        FULL_RECORDING,
        {"id": "rec-2", "start_time": "2023-01-03T00:00:00Z"},
        {"id": "rec-3", "start_time": "2023-01-01T00:00:00Z", "sharing": {"enabled": True, "access_token": "tok-test"}},
    ]
}


def key_with(*scopes: str) -> str:
    """The key that has exactly these scopes."""
    return "phx_test_" + "_".join(scope.replace(":", "_") for scope in scopes)


def key_without(scope: str) -> str:
    """The key that has every scope except this one and the write scope that would include it."""
    return key_with("without", scope)


KEYS = Keyring(
    (Project(1, "A", "phc_test_a"), Project(2, "B", "phc_test_b")),
    {ALL: frozenset({"*"}), "phx_test_none": frozenset(), "phx_test_b": frozenset({"*"})}
    | {key_with(scope): frozenset({scope}) for scope in SCOPES}
    | {key_without(scope): frozenset(SCOPES) - {scope, scope.replace(":read", ":write")} for scope in SCOPES},
    {"phx_test_b": frozenset({2})},
)


QUERIED = {
    "event": "Signed up",
    "properties": {"distinct_id": "u1"},
    "timestamp": "2023-01-02T03:04:05.678901Z",
    "uuid": "0188a5eb-0000-7000-8000-000000000001",
}


class Asking:
    """Requests to one service, with and without keys."""

    def __init__(self, service: LocalService) -> None:
        self.service = service
        self.client = httpx.Client(base_url=service.url, timeout=30, **PLAIN)

    def __call__(
        self, method: str, path: str, body: Any = None, *, key: str | None = ALL, **more: Any
    ) -> httpx.Response:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        headers |= more.pop("headers", {})
        if body is not None:
            more["json"] = body
        return self.client.request(method, path, headers=headers, **more)

    def made(self, **fields: Any) -> dict[str, Any]:
        """A new hog function of project 1."""
        answer = self("POST", LIST, fields)
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found


def problem(answer: httpx.Response, status: int) -> tuple[str, str | None]:
    """Code and field of an error, which must have this status and the contract's envelope."""
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"type", "code", "detail", "attr"}
    return answer.json()["code"], answer.json()["attr"]


@contextmanager
def asking(settings: Settings | None = None, **more: Any) -> Iterator[Asking]:
    """A running service, and requests to it."""
    with running(KEYS, settings, **({"seed": SEED} | more)) as service:
        ask = Asking(service)
        with ask.client:
            yield ask


@cache
def shared(behaviour: Behaviour = "contract") -> Asking:
    """The service of all tests with this behaviour that look only at what they did themselves. It does not limit
    calls."""
    settings = preset(behaviour, management_rates="off", clock=lambda: NOW) if behaviour == "observed" else None
    ask = Asking(kept(keys=KEYS, settings=settings, seed=SEED))
    atexit.register(ask.client.close)
    return ask


@cache
def queried() -> Asking:
    """The service of all tests that ask by SQL: project 1 has one event, project 2 none."""
    ask = Asking(kept(keys=KEYS, settings=Settings(clock=lambda: NOW), seed=SEED))
    atexit.register(ask.client.close)
    batch = {"api_key": "phc_test_a", "historical_migration": True, "batch": [QUERIED]}
    assert ask("POST", "/batch/", batch, key=None).status_code == 200
    return ask


def query(ask: Asking, sql: object, key: str | None = ALL, project: object = 1, slash: str = "/") -> httpx.Response:
    """The answer to a query."""
    asked = {"query": {"kind": "HogQLQuery", "query": sql}}
    return ask("POST", f"/api/projects/{project}/query{slash}", asked, key=key)
