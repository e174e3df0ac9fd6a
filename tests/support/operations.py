"""Each operation of the typed client, and the answers that a scripted service gives to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipeline.management import ManagementClient
from tests.support.scripted_server import Said

ID = "01900000-0000-0000-0000-00000000000a"
FUNCTIONS = "/api/projects/7/hog_functions/"
RECORDINGS = "/api/projects/7/session_recordings/"
PAGE = Said(body={"count": 0, "next": None, "previous": None, "results": []})
EMPTY = Said(200)
Do = Callable[[ManagementClient], Any]
OPERATIONS: dict[str, tuple[Do, str, str, Said]] = {
    "list hog functions": (lambda c: list(c.hog_functions.list()), "GET", FUNCTIONS, PAGE),
    "create": (lambda c: c.hog_functions.create({"name": "a"}), "POST", FUNCTIONS, Said(201, {"id": ID})),
    "retrieve": (lambda c: c.hog_functions.retrieve(ID), "GET", f"{FUNCTIONS}{ID}/", Said(200, {"id": ID})),
    "update": (lambda c: c.hog_functions.update(ID, {"name": "a"}), "PATCH", f"{FUNCTIONS}{ID}/", Said(200, {})),
    "update by PUT": (
        lambda c: c.hog_functions.update(ID, {"name": "a"}, put=True), "PUT", f"{FUNCTIONS}{ID}/", Said(200, {})
    ),
    "delete": (lambda c: c.hog_functions.delete(ID), "PATCH", f"{FUNCTIONS}{ID}/", Said(200, {"deleted": True})),
    "broadcast": (lambda c: c.hog_functions.broadcast(ID), "POST", f"{FUNCTIONS}{ID}/broadcast/", EMPTY),
    "invoke": (lambda c: c.hog_functions.invoke(ID), "POST", f"{FUNCTIONS}{ID}/invocations/", EMPTY),
    "logs": (lambda c: c.hog_functions.logs(ID), "GET", f"{FUNCTIONS}{ID}/logs/", EMPTY),
    "metrics": (lambda c: c.hog_functions.metrics(ID), "GET", f"{FUNCTIONS}{ID}/metrics/", EMPTY),
    "metrics totals": (
        lambda c: c.hog_functions.metrics_totals(ID), "GET", f"{FUNCTIONS}{ID}/metrics/totals/", EMPTY
    ),
    "icon": (lambda c: c.hog_functions.icon(), "GET", f"{FUNCTIONS}icon/", EMPTY),
    "icons": (lambda c: c.hog_functions.icons(), "GET", f"{FUNCTIONS}icons/", EMPTY),
    "rearrange": (lambda c: c.hog_functions.rearrange({ID: 1}), "PATCH", f"{FUNCTIONS}rearrange/", EMPTY),
    "list recordings": (lambda c: list(c.session_recordings.list()), "GET", RECORDINGS, PAGE),
    "retrieve recording": (lambda c: c.session_recordings.retrieve("r"), "GET", f"{RECORDINGS}r/", Said(200, {})),
    "update recording": (
        lambda c: c.session_recordings.update("r", {"person": {}}), "PATCH", f"{RECORDINGS}r/", Said(200, {})
    ),
    "update recording by PUT": (
        lambda c: c.session_recordings.update("r", {"viewed": True}, put=True), "PUT", f"{RECORDINGS}r/", Said(200, {})
    ),
    "delete recording": (lambda c: c.session_recordings.delete("r"), "DELETE", f"{RECORDINGS}r/", Said(204)),
    "sharing": (lambda c: c.session_recordings.sharing("r"), "GET", f"{RECORDINGS}r/sharing/", Said(200, {})),
    "refresh sharing": (
        lambda c: c.session_recordings.refresh_sharing("r"), "POST", f"{RECORDINGS}r/sharing/refresh/", Said(200, {})
    ),
    "list projects": (lambda c: list(c.projects.list()), "GET", "/api/projects/", PAGE),
}  # fmt: skip
"""Each operation of the contract (docs/know/service.md#management-api), and the three that the service alone has
(docs/know/service.md#hog-functions).

How the client does it, its method and path, an answer of the contract.
"""


def envelope(detail: str, code: str = "c", kind: str = "t", attr: str | None = None) -> dict[str, Any]:
    return {"type": kind, "code": code, "detail": detail, "attr": attr}
