"""Every operation of the management API, listed once (docs/know/service.md#management-api, #key-scopes).

Routes, scope checks and the OpenAPI document are derived from this table: a new operation is a function and its entry
here. `stated` says whether the contract itself states the scope; the others are those of the service's source where it
has one (docs/know/service.md#hog-functions), else that of the nearest operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from pipeline.local_service.management import function_runs, hog_functions, projects, recordings
from pipeline.local_service.management.requests import ManagementState, OperationCall, OperationReply

Area = Literal["hog functions", "session recordings", "projects", "query"]


class Operation(NamedTuple):
    """One operation. `scope` None: a key of any scope. `run` None: the query, which runs beside the others."""

    name: str
    method: str
    path: str
    scope: str | None
    summary: str
    run: Callable[[ManagementState, OperationCall], OperationReply] | None
    status: int = 200
    """That of its usual answer."""
    body: str = ""
    """The schema of the request's body in the OpenAPI document; "" for none."""
    answer: str = ""
    """The schema of the usual answer; "" for an empty one, or for one that the contract does not state."""
    stated: bool = True
    """Whether the contract states the scope."""
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
    Operation(
        "hog_functions_list", "GET", _FUNCTIONS, _READ, "List hog functions",
        hog_functions.list_functions, answer="HogFunctionPage",
    ),
    Operation(
        "hog_functions_create", "POST", _FUNCTIONS, _WRITE, "Create a hog function",
        hog_functions.create, status=201, body="HogFunctionWrite", answer="HogFunction",
    ),
    Operation(
        "hog_functions_icon", "GET", _FUNCTIONS + "/icon", _READ, "Retrieve an icon", function_runs.icon, stated=False
    ),
    Operation(
        "hog_functions_icons", "GET", _FUNCTIONS + "/icons", _READ, "Retrieve icons", function_runs.icons, stated=False
    ),
    Operation(
        "hog_functions_rearrange", "PATCH", _FUNCTIONS + "/rearrange", _WRITE, "Set execution orders",
        hog_functions.rearrange, stated=False, body="HogFunctionOrders",
    ),
    Operation(
        "hog_functions_retrieve", "GET", _FUNCTION, _READ, "Retrieve a hog function",
        hog_functions.retrieve, answer="HogFunction",
    ),
    Operation(
        "hog_functions_update", "PATCH", _FUNCTION, _WRITE, "Update or softly delete a hog function",
        hog_functions.update, body="HogFunctionWrite", answer="HogFunction",
    ),
    Operation(
        "hog_functions_replace", "PUT", _FUNCTION, _WRITE, "The same as PATCH",
        hog_functions.update, stated=False, observed=True, body="HogFunctionWrite", answer="HogFunction",
    ),
    Operation(
        "hog_functions_delete", "DELETE", _FUNCTION, _WRITE, "Refused: delete by PATCH with deleted true",
        hog_functions.delete, status=405,
    ),
    Operation(
        "hog_functions_broadcast", "POST", _FUNCTION + "/broadcast", _WRITE, "Run for matching persons",
        function_runs.broadcast, stated=False, body="HogFunctionWrite",
    ),
    Operation(
        "hog_functions_invoke", "POST", _FUNCTION + "/invocations", _WRITE, "Run once",
        function_runs.invoke, stated=False, body="HogFunctionWrite",
    ),
    Operation(
        "hog_functions_logs", "GET", _FUNCTION + "/logs", _READ, "Retrieve logs", function_runs.logs, stated=False
    ),
    Operation(
        "hog_functions_metrics", "GET", _FUNCTION + "/metrics", _READ, "Retrieve metrics",
        function_runs.metrics, stated=False,
    ),
    Operation(
        "hog_functions_metrics_totals", "GET", _FUNCTION + "/metrics/totals", _READ, "Retrieve totals",
        function_runs.metrics_totals, stated=False,
    ),
    Operation(
        "recordings_list", "GET", _RECORDINGS, _WATCH, "List session recordings",
        recordings.list_recordings, analytics=True, answer="SessionRecordingPage",
    ),
    Operation(
        "recordings_retrieve", "GET", _RECORDING, _WATCH, "Retrieve a session recording",
        recordings.retrieve, analytics=True, answer="SessionRecording",
    ),
    Operation(
        "recordings_update", "PATCH", _RECORDING, _KEEP, "Update a session recording",
        recordings.update, analytics=True, body="SessionRecordingWrite", answer="SessionRecording",
    ),
    Operation(
        "recordings_replace", "PUT", _RECORDING, _KEEP, "The same as PATCH",
        recordings.update, stated=False, analytics=True, observed=True, body="SessionRecordingWrite",
    ),
    Operation(
        "recordings_delete", "DELETE", _RECORDING, _KEEP, "Delete a session recording",
        recordings.delete, status=204, analytics=True,
    ),
    Operation(
        "recordings_sharing", "GET", _RECORDINGS + "/{recording_id}/sharing", "sharing_configuration:read",
        "Retrieve the sharing configuration of a recording", recordings.sharing, answer="SharingConfiguration",
    ),
    Operation(
        "recordings_sharing_refresh", "POST", _RECORDINGS + "/{recording_id}/sharing/refresh",
        "sharing_configuration:write", "Replace the access token of a recording",
        recordings.refresh_sharing, stated=False, observed=True, answer="SharingConfiguration",
    ),
    Operation(
        "projects_list", "GET", PROJECTS, None, "List the projects that the key reaches",
        projects.list_projects, stated=False, answer="ProjectPage",
    ),
    Operation(
        "projects_retrieve", "GET", PROJECTS + "/{project_id}", "project:read", "Retrieve a project",
        projects.retrieve, stated=False, answer="Project",
    ),
    Operation(
        "query", "POST", PROJECTS + "/{project_id}/query", "query:read", "Run one read-only SELECT",
        None, stated=False, body="Query", answer="QueryAnswer",
    ),
)  # fmt: skip
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
