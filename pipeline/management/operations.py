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


class Endpoint(NamedTuple):
    """An operation of the API: its name for people, its method, its path with fields for ids, the scope its key needs.

    `repeatable`: a second request has no effect beyond the first, so that it may be sent again after a lost answer.
    Every GET and DELETE here is, and PATCH and PUT too: their bodies set fields to values, they add nothing.
    """

    name: str
    method: str
    path: str
    scope: str

    @property
    def repeatable(self) -> bool:
        return self.method != "POST"


LIST_FUNCTIONS = Endpoint("list hog functions", "GET", _FUNCTIONS, "hog_function:read")
CREATE_FUNCTION = Endpoint("create a hog function", "POST", _FUNCTIONS, "hog_function:write")
RETRIEVE_FUNCTION = Endpoint("retrieve a hog function", "GET", _FUNCTIONS + "{id}/", "hog_function:read")
UPDATE_FUNCTION = Endpoint("update a hog function", "PATCH", _FUNCTIONS + "{id}/", "hog_function:write")
REPLACE_FUNCTION = Endpoint("replace a hog function", "PUT", _FUNCTIONS + "{id}/", "hog_function:write")
DELETE_FUNCTION = Endpoint("hard-delete a hog function", "DELETE", _FUNCTIONS + "{id}/", "hog_function:write")
BROADCAST = Endpoint("broadcast a hog function", "POST", _FUNCTIONS + "{id}/broadcast/", "hog_function:write")
INVOKE = Endpoint("invoke a hog function", "POST", _FUNCTIONS + "{id}/invocations/", "hog_function:write")
LOGS = Endpoint("retrieve logs", "GET", _FUNCTIONS + "{id}/logs/", "hog_function:read")
METRICS = Endpoint("retrieve metrics", "GET", _FUNCTIONS + "{id}/metrics/", "hog_function:read")
METRICS_TOTALS = Endpoint("retrieve metrics totals", "GET", _FUNCTIONS + "{id}/metrics/totals/", "hog_function:read")
ICON = Endpoint("retrieve an icon", "GET", _FUNCTIONS + "icon/", "hog_function:read")
ICONS = Endpoint("retrieve icons", "GET", _FUNCTIONS + "icons/", "hog_function:read")
REARRANGE = Endpoint("rearrange hog functions", "PATCH", _FUNCTIONS + "rearrange/", "hog_function:write")

LIST_RECORDINGS = Endpoint("list recordings", "GET", _RECORDINGS, "session_recording:read")
RETRIEVE_RECORDING = Endpoint("retrieve a recording", "GET", _RECORDINGS + "{id}/", "session_recording:read")
UPDATE_RECORDING = Endpoint("update a recording", "PATCH", _RECORDINGS + "{id}/", "session_recording:write")
REPLACE_RECORDING = Endpoint("replace a recording", "PUT", _RECORDINGS + "{id}/", "session_recording:write")
DELETE_RECORDING = Endpoint("delete a recording", "DELETE", _RECORDINGS + "{id}/", "session_recording:write")
SHARING = Endpoint("retrieve sharing", "GET", _RECORDINGS + "{id}/sharing/", "sharing_configuration:read")
REFRESH_SHARING = Endpoint(
    "refresh sharing", "POST", _RECORDINGS + "{id}/sharing/refresh/", "sharing_configuration:write"
)

LIST_PROJECTS = Endpoint("list projects", "GET", "/api/projects/", "project:read")
RETRIEVE_PROJECT = Endpoint("retrieve a project", "GET", "/api/projects/{project_id}/", "project:read")
CURRENT_PROJECT = Endpoint("retrieve the current project", "GET", "/api/projects/@current/", "project:read")
RETRIEVE_BILLING = Endpoint("retrieve billing", "GET", "/api/billing/", "billing:read")
LIST_GROUP_TYPES = Endpoint("list group types", "GET", "/api/projects/{project_id}/groups_types/", "group:read")
"""The contract does not have the last four; the checks before an import use the first three, `verify` the last."""
