"""Each operation of the typed client, and a scripted service's answers to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipeline.management import ManagementClient
from tests.support import contract_table
from tests.support.contract_table import FUNCTION, ONE, Row
from tests.support.management_service import RECORDING
from tests.support.scripted_server import Canned

ID = "01900000-0000-0000-0000-00000000000a"
PROJECT = "/api/projects/7/"
FUNCTIONS = f"{PROJECT}hog_functions/"
PAGE = Canned(body={"count": 0, "next": None, "previous": None, "results": []})
Do = Callable[[ManagementClient], Any]
ROWS = {name: row for name, row in contract_table.OPERATIONS.items() if name != "delete hog function"} | {
    "update by PUT": Row(
        "PUT", FUNCTION, "hog_function:write", 200, "full",
        lambda c, id: c.hog_functions.update(id, {"name": "a"}, put=True), "",
    ),
    "update recording by PUT": Row(
        "PUT", ONE, "session_recording:write", 200, "recording",
        lambda c, id: c.session_recordings.update(RECORDING, {"viewed": True}, put=True), "",
    ),
    "refresh sharing": Row(
        "POST", f"{ONE}/sharing/refresh", "sharing_configuration:write", 200, "sharing",
        lambda c, id: c.session_recordings.refresh_sharing(RECORDING), "",
    ),
}  # fmt: skip
"""The operations of the contract except the one that is always refused, and three that only the service has
(docs/know/service.md#hog-functions)."""


def _asked(row: Row) -> tuple[Do, str, str, Canned]:
    answers = {"item-page": PAGE, "recording-page": PAGE, "empty": Canned(row.status)}
    path = f"{PROJECT}{row.path.replace(':id', ID).replace(':rec', RECORDING)}/"
    return lambda c: row.do(c, ID), row.method, path, answers.get(row.answer, Canned(row.status, {"id": ID}))


OPERATIONS: dict[str, tuple[Do, str, str, Canned]] = {name: _asked(row) for name, row in ROWS.items()} | {
    "list projects": (lambda c: list(c.projects.list()), "GET", "/api/projects/", PAGE)
}
"""How the client does each, its method and path, an answer of the contract."""


def envelope(detail: str, code: str = "c", kind: str = "t", attr: str | None = None) -> dict[str, Any]:
    return {"type": kind, "code": code, "detail": detail, "attr": attr}
