"""Projects: where the ids of all other paths come from (docs/know/service.md#projects). Their shape is not shown by the
contract."""

from __future__ import annotations

import uuid

from pipeline.local_service.keys import Project, allows
from pipeline.local_service.management.requests import Json, ManagementState, OperationCall, OperationReply, paginate

_SPACE = uuid.UUID("5d1f0c4e-7a0b-5f0d-9c1e-2b7f3a6d8e91")
_ORGANIZATION = str(uuid.uuid5(_SPACE, "organization"))


def list_projects(state: ManagementState, call: OperationCall) -> OperationReply:
    """One page of the projects that the key reaches."""
    found = [project for project in state.keys.projects if call.caller.reaches(project)]
    envelope, shown = paginate(call, found, strict=not state.observed)
    envelope["results"] = [_shown(state, call, project) for project in shown]
    return OperationReply(body=envelope)


def retrieve(state: ManagementState, call: OperationCall) -> OperationReply:
    """One project with its settings."""
    assert call.project is not None
    more = {"drop_events_older_than_seconds": state.settings.drop_events_older_than}
    return OperationReply(body=_shown(state, call, call.project) | more)


def _shown(state: ManagementState, call: OperationCall, project: Project) -> Json:
    shown: Json = {
        "id": project.id,
        "uuid": str(uuid.uuid5(_SPACE, str(project.id))),
        "organization": _ORGANIZATION,
        "name": project.name,
        "is_demo": False,
        "timezone": "UTC",
    }
    if allows(call.caller.scopes, "project:read"):
        shown["api_token"] = project.capture_key  # a key that may only reach other things must not learn it
    return shown
