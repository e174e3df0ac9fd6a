"""The written contract as a table: every operation of 4.1 and 4.2 with its scope from 5 and its statuses from 7.

Written out from the contract by hand, not taken from the service's code or the client's: the tests over HTTP, through
the client and through the commands all read it here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from pipeline.management import ManagementClient
from pipeline.management.models import (
    HogFunction,
    HogFunctionListItem,
    ListPage,
    ServiceObject,
    SessionRecording,
    SharingConfiguration,
)
from tests.support.management_service import RECORDING

READ, WRITE = "hog_function:read", "hog_function:write"
WATCH, KEEP, SHARE = "session_recording:read", "session_recording:write", "sharing_configuration:read"


Do = Callable[[ManagementClient, str], Any]


class Row(NamedTuple):
    """One operation, asked in three ways.

    Over HTTP: `method`, `path` under the project (`:id` is a hog function's, `:rec` a recording's) and `body`. Through
    the client: `do`, given the id. Through its `command`, where `ID` is the id. `answer` names the shape of the body.
    """

    method: str
    path: str
    scope: str
    status: int
    answer: str
    do: Do
    command: str
    body: Any = None


FUNCTION = "hog_functions/:id"
ONE = "session_recordings/:rec"
EVE = {"person": {"name": "Eve"}}
MADE = {"name": "n", "hog": "return event"}
OPERATIONS = {
    "list hog functions": Row(
        "GET", "hog_functions", READ, 200, "item-page",
        lambda c, id: c.hog_functions.list().page(), "hog-functions list",
    ),
    "create hog function": Row(
        "POST", "hog_functions", WRITE, 201, "full",
        lambda c, id: c.hog_functions.create(MADE), "hog-functions create --name n --hog return", MADE,
    ),
    "retrieve hog function": Row(
        "GET", FUNCTION, READ, 200, "full",
        lambda c, id: c.hog_functions.retrieve(id), "hog-functions get ID",
    ),
    "update hog function": Row(
        "PATCH", FUNCTION, WRITE, 200, "full",
        lambda c, id: c.hog_functions.update(id, {"name": "m"}), "hog-functions update ID --name m", {"name": "m"},
    ),
    "delete hog function": Row(
        "DELETE", FUNCTION, WRITE, 405, "empty",
        lambda c, id: c.hog_functions.hard_delete(id, send=True), "hog-functions delete ID --hard --send --yes",
    ),
    "soft-delete hog function": Row(
        "PATCH", FUNCTION, WRITE, 200, "full",
        lambda c, id: c.hog_functions.delete(id), "hog-functions delete ID --yes", {"deleted": True},
    ),
    "broadcast": Row(
        "POST", FUNCTION + "/broadcast", WRITE, 200, "empty",
        lambda c, id: c.hog_functions.broadcast(id, MADE), "hog-functions broadcast ID --yes", MADE,
    ),
    "invoke": Row(
        "POST", FUNCTION + "/invocations", WRITE, 200, "empty",
        lambda c, id: c.hog_functions.invoke(id, MADE), "hog-functions invoke ID", {"enabled": True},
    ),
    "retrieve logs": Row(
        "GET", FUNCTION + "/logs", READ, 200, "empty",
        lambda c, id: c.hog_functions.logs(id), "hog-functions logs ID",
    ),
    "retrieve metrics": Row(
        "GET", FUNCTION + "/metrics", READ, 200, "empty",
        lambda c, id: c.hog_functions.metrics(id), "hog-functions metrics ID",
    ),
    "retrieve metrics totals": Row(
        "GET", FUNCTION + "/metrics/totals", READ, 200, "empty",
        lambda c, id: c.hog_functions.metrics_totals(id), "hog-functions totals ID",
    ),
    "retrieve icon": Row(
        "GET", "hog_functions/icon", READ, 200, "empty",
        lambda c, id: c.hog_functions.icon(), "hog-functions icon",
    ),
    "retrieve icons": Row(
        "GET", "hog_functions/icons", READ, 200, "empty",
        lambda c, id: c.hog_functions.icons(), "hog-functions icons",
    ),
    "rearrange": Row(
        "PATCH", "hog_functions/rearrange", WRITE, 200, "empty",
        lambda c, id: c.hog_functions.rearrange({id: 4}), "hog-functions rearrange ID=4", {"execution_order": 3},
    ),
    "list recordings": Row(
        "GET", "session_recordings", WATCH, 200, "recording-page",
        lambda c, id: c.session_recordings.list().page(), "recordings list",
    ),
    "retrieve recording": Row(
        "GET", ONE, WATCH, 200, "recording",
        lambda c, id: c.session_recordings.retrieve(RECORDING), f"recordings get {RECORDING}",
    ),
    "update recording": Row(
        "PATCH", ONE, KEEP, 200, "recording",
        lambda c, id: c.session_recordings.update(RECORDING, EVE),
        f'recordings update {RECORDING} --person {{"name":"Eve"}}', EVE,
    ),
    "delete recording": Row(
        "DELETE", ONE, KEEP, 204, "empty",
        lambda c, id: c.session_recordings.delete(RECORDING), f"recordings delete {RECORDING} --yes",
    ),
    "sharing configuration": Row(
        "GET", ONE + "/sharing", SHARE, 200, "sharing",
        lambda c, id: c.session_recordings.sharing(RECORDING), f"recordings sharing {RECORDING}",
    ),
}  # fmt: skip
"""Soft deletion is the transition of 3: an update, with a method and a command of its own."""

MODELS: dict[str, type[ServiceObject] | None] = {
    "item-page": ListPage[HogFunctionListItem], "full": HogFunction, "recording-page": ListPage[SessionRecording],
    "recording": SessionRecording, "sharing": SharingConfiguration, "empty": None,
}  # fmt: skip
"""What the client makes of each form of answer."""

SPENDING = {"delete recording", "soft-delete hog function"}
"""Operations that can be done once to each object."""

WRITABLE: dict[str, Any] = {
    "type": "site_app",
    "kind": "messaging_campaign",
    "name": "[Größe]",
    "description": "Größe…",
    "enabled": True,
    "deleted": False,
    "hog": "return event",
    "inputs_schema": [{"key": "url", "type": "string", "label": "URL", "required": False, "secret": False}],
    "inputs": {"url": {"value": "https://example.com", "order": 0}},
    "filters": {"events": [{"id": "Signed Up", "type": "events", "order": 0}], "filter_test_accounts": True},
    "masking": {"ttl": 60, "threshold": 2, "hash": "{person.id}"},
    "mappings": [{"name": "m", "inputs": {}, "filters": {"events": []}}],
    "icon_url": "/static/icon.png",
    "template_id": "template-webhook",
    "execution_order": 32767,
    "_create_in_folder": "Imports/2023",
}
"""Every writable field with a value to write."""

FILTERS = ("created_at", "created_by", "enabled", "exclude_kind", "id", "kind", "limit", "offset", "type", "updated_at")
"""The query parameters of the list of hog functions."""


def opening(scope: str) -> set[str]:
    """The scopes that open an operation: its own, and the write that implies its read."""
    return {scope, scope.replace(":read", ":write")}


def exact(value: object) -> str:
    """A JSON value in which 1, 1.0 and true differ and the order of keys does not matter."""
    return json.dumps(value, sort_keys=True)


def contains(found: Any, wanted: Any) -> bool:
    """Whether an answer contains what was written; it may have more members, such as what the service compiled."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(name in found and contains(found[name], wanted[name]) for name in wanted)
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(contains, found, wanted))
    return type(found) is type(wanted) and bool(found == wanted)
