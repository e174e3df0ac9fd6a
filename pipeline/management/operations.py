"""The operations of the management API: method, path and the key scope of each (docs/know/service.md#hog-functions,
#session-recordings, #key-scopes).

The contract leaves open the scopes of eight operations; theirs are those of the service's source
(docs/know/service.md#hog-functions), which names none for broadcast, icon and icons: there it is the scope of the
nearest operation. PUT and the refreshing of a sharing configuration are the service's alone
(docs/know/service.md#hog-functions).
"""

from __future__ import annotations

from typing import NamedTuple

_FUNCTIONS = "/api/projects/{project_id}/hog_functions/"
_RECORDINGS = "/api/projects/{project_id}/session_recordings/"


class Operation(NamedTuple):
    """What is called as people name it, its method, its path with places for ids, the scope its key needs.

    `again`: asking twice leaves the service as asking once does, so that a lost answer may be asked for again. That is
    so of every GET and DELETE here, and of PATCH and PUT too: their bodies set fields to values, they add nothing.
    """

    name: str
    method: str
    path: str
    scope: str

    @property
    def again(self) -> bool:
        return self.method != "POST"


LIST_FUNCTIONS = Operation("list hog functions", "GET", _FUNCTIONS, "hog_function:read")
CREATE_FUNCTION = Operation("create a hog function", "POST", _FUNCTIONS, "hog_function:write")
RETRIEVE_FUNCTION = Operation("retrieve a hog function", "GET", _FUNCTIONS + "{id}/", "hog_function:read")
UPDATE_FUNCTION = Operation("update a hog function", "PATCH", _FUNCTIONS + "{id}/", "hog_function:write")
REPLACE_FUNCTION = Operation("replace a hog function", "PUT", _FUNCTIONS + "{id}/", "hog_function:write")
DELETE_FUNCTION = Operation("hard-delete a hog function", "DELETE", _FUNCTIONS + "{id}/", "hog_function:write")
BROADCAST = Operation("broadcast a hog function", "POST", _FUNCTIONS + "{id}/broadcast/", "hog_function:write")
INVOKE = Operation("invoke a hog function", "POST", _FUNCTIONS + "{id}/invocations/", "hog_function:write")
LOGS = Operation("retrieve logs", "GET", _FUNCTIONS + "{id}/logs/", "hog_function:read")
METRICS = Operation("retrieve metrics", "GET", _FUNCTIONS + "{id}/metrics/", "hog_function:read")
METRICS_TOTALS = Operation("retrieve metrics totals", "GET", _FUNCTIONS + "{id}/metrics/totals/", "hog_function:read")
ICON = Operation("retrieve an icon", "GET", _FUNCTIONS + "icon/", "hog_function:read")
ICONS = Operation("retrieve icons", "GET", _FUNCTIONS + "icons/", "hog_function:read")
REARRANGE = Operation("rearrange hog functions", "PATCH", _FUNCTIONS + "rearrange/", "hog_function:write")

LIST_RECORDINGS = Operation("list recordings", "GET", _RECORDINGS, "session_recording:read")
RETRIEVE_RECORDING = Operation("retrieve a recording", "GET", _RECORDINGS + "{id}/", "session_recording:read")
UPDATE_RECORDING = Operation("update a recording", "PATCH", _RECORDINGS + "{id}/", "session_recording:write")
REPLACE_RECORDING = Operation("replace a recording", "PUT", _RECORDINGS + "{id}/", "session_recording:write")
DELETE_RECORDING = Operation("delete a recording", "DELETE", _RECORDINGS + "{id}/", "session_recording:write")
SHARING = Operation("retrieve sharing", "GET", _RECORDINGS + "{id}/sharing/", "sharing_configuration:read")
REFRESH_SHARING = Operation(
    "refresh sharing", "POST", _RECORDINGS + "{id}/sharing/refresh/", "sharing_configuration:write"
)

LIST_PROJECTS = Operation("list projects", "GET", "/api/projects/", "project:read")
RETRIEVE_PROJECT = Operation("retrieve a project", "GET", "/api/projects/{project_id}/", "project:read")
CURRENT_PROJECT = Operation("retrieve the current project", "GET", "/api/projects/@current/", "project:read")
RETRIEVE_BILLING = Operation("retrieve billing", "GET", "/api/billing/", "billing:read")
"""Of these three the contract shows nothing; only the checks before an import ask them."""
