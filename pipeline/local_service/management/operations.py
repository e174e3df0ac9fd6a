"""Every operation of the service: name, method, path, scope and statuses, listed once
(docs/know/service.md#management-api, #key-scopes).

Routes, scope checks and the OpenAPI document are made from this table. `listed` says whether the contract itself
states the scope; the others are those of the service's source where it has one (docs/know/service.md#hog-functions),
else that of the nearest operation.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Area = Literal["hog functions", "session recordings", "projects", "query"]


class Operation(NamedTuple):
    """One operation. `status` is that of its usual answer; `scope` None is a key of any scope."""

    name: str
    method: str
    path: str
    scope: str | None
    status: int
    summary: str
    listed: bool = True
    analytics: bool = False
    """Counts against the lower of the two rates (docs/know/service.md#management-api)."""
    observed: bool = False
    """There under `observed` alone: the service has it, the contract does not (docs/know/service.md#hog-functions)."""

    @property
    def area(self) -> Area:
        if "hog_functions" in self.path:
            return "hog functions"
        if "session_recordings" in self.path:
            return "session recordings"
        return "query" if self.path.endswith("/query") else "projects"


WITH_BODY = ("POST", "PATCH", "PUT")
"""Methods whose requests have a body."""
PROJECTS = "/api/projects"
_FUNCTIONS = PROJECTS + "/{project_id}/hog_functions"
_FUNCTION = _FUNCTIONS + "/{id}"
_RECORDINGS = PROJECTS + "/{project_id}/session_recordings"
_RECORDING = _RECORDINGS + "/{id}"
_READ, _WRITE = "hog_function:read", "hog_function:write"
_WATCH, _KEEP = "session_recording:read", "session_recording:write"

OPERATIONS = (
    Operation("hog_functions_list", "GET", _FUNCTIONS, _READ, 200, "List hog functions"),
    Operation("hog_functions_create", "POST", _FUNCTIONS, _WRITE, 201, "Create a hog function"),
    Operation("hog_functions_icon", "GET", _FUNCTIONS + "/icon", _READ, 200, "Retrieve an icon", False),
    Operation("hog_functions_icons", "GET", _FUNCTIONS + "/icons", _READ, 200, "Retrieve icons", False),
    Operation(
        "hog_functions_rearrange", "PATCH", _FUNCTIONS + "/rearrange", _WRITE, 200, "Set execution orders", False
    ),
    Operation("hog_functions_retrieve", "GET", _FUNCTION, _READ, 200, "Retrieve a hog function"),
    Operation("hog_functions_update", "PATCH", _FUNCTION, _WRITE, 200, "Update or softly delete a hog function"),
    Operation("hog_functions_replace", "PUT", _FUNCTION, _WRITE, 200, "The same as PATCH", False, observed=True),
    Operation("hog_functions_delete", "DELETE", _FUNCTION, _WRITE, 405, "Refused: delete by PATCH with deleted true"),
    Operation(
        "hog_functions_broadcast", "POST", _FUNCTION + "/broadcast", _WRITE, 200, "Run for matching persons", False
    ),
    Operation("hog_functions_invoke", "POST", _FUNCTION + "/invocations", _WRITE, 200, "Run once", False),
    Operation("hog_functions_logs", "GET", _FUNCTION + "/logs", _READ, 200, "Retrieve logs", False),
    Operation("hog_functions_metrics", "GET", _FUNCTION + "/metrics", _READ, 200, "Retrieve metrics", False),
    Operation(
        "hog_functions_metrics_totals", "GET", _FUNCTION + "/metrics/totals", _READ, 200, "Retrieve totals", False
    ),
    Operation("recordings_list", "GET", _RECORDINGS, _WATCH, 200, "List session recordings", analytics=True),
    Operation("recordings_retrieve", "GET", _RECORDING, _WATCH, 200, "Retrieve a session recording", analytics=True),
    Operation("recordings_update", "PATCH", _RECORDING, _KEEP, 200, "Update a session recording", analytics=True),
    Operation(
        "recordings_replace", "PUT", _RECORDING, _KEEP, 200, "The same as PATCH", False, analytics=True, observed=True
    ),
    Operation("recordings_delete", "DELETE", _RECORDING, _KEEP, 204, "Delete a session recording", analytics=True),
    Operation(
        "recordings_sharing",
        "GET",
        _RECORDINGS + "/{recording_id}/sharing",
        "sharing_configuration:read",
        200,
        "Retrieve the sharing configuration of a recording",
    ),
    Operation(
        "recordings_sharing_refresh",
        "POST",
        _RECORDINGS + "/{recording_id}/sharing/refresh",
        "sharing_configuration:write",
        200,
        "Replace the access token of a recording",
        False,
        observed=True,
    ),
    Operation("projects_list", "GET", PROJECTS, None, 200, "List the projects that the key reaches", False),
    Operation("projects_retrieve", "GET", PROJECTS + "/{project_id}", "project:read", 200, "Retrieve a project", False),
    Operation("query", "POST", PROJECTS + "/{project_id}/query", "query:read", 200, "Run one read-only SELECT", False),
)
"""In the order in which paths are tried: fixed names before ids."""


def operations(*, observed: bool) -> list[Operation]:
    """The operations of a behaviour."""
    return [operation for operation in OPERATIONS if observed or not operation.observed]


def paths(*, observed: bool) -> dict[str, dict[str, Operation]]:
    """The methods of every path, in the order in which paths are tried."""
    found: dict[str, dict[str, Operation]] = {}
    for operation in operations(observed=observed):
        found.setdefault(operation.path, {})[operation.method] = operation
    return found
