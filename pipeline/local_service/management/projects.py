"""Projects, which the ids in all other paths come from (docs/know/service.md#projects). The contract does not show
their shape."""

from __future__ import annotations

import uuid
from functools import partial

import msgspec
from starlette.responses import JSONResponse, Response

from pipeline.local_service.keys import Project, allows
from pipeline.local_service.management.requests import Json, OperationCall, answers, paginate
from pipeline.management import operations

_SPACE = uuid.UUID("5d1f0c4e-7a0b-5f0d-9c1e-2b7f3a6d8e91")
_ORGANIZATION = str(uuid.uuid5(_SPACE, "organization"))


class GroupType(msgspec.Struct, frozen=True):
    group_type: str
    group_type_index: int


@answers(operations.LIST_PROJECTS)
def projects_list(call: OperationCall) -> Response:
    reached = [project for project in call.state.keys.projects if call.caller.reaches(project)]
    return paginate(call, reached, partial(_shown, call))


@answers(operations.RETRIEVE_PROJECT)
def projects_retrieve(call: OperationCall) -> Response:
    """Retrieve a project. With its settings."""
    assert call.project is not None
    more = {"drop_events_older_than_seconds": call.state.settings.drop_events_older_than}
    return JSONResponse(_shown(call, call.project) | more)


@answers(operations.LIST_GROUP_TYPES)
def groups_types_list(call: OperationCall) -> Response:
    """List the group types of a project. By number, in one list without pages."""
    rows = call.state.store.select('SELECT type, "index" FROM group_types ORDER BY "index"', call.project_id)
    return JSONResponse([msgspec.structs.asdict(GroupType(*row)) for row in rows])


def _shown(call: OperationCall, project: Project) -> Json:
    shown: Json = {
        "id": project.id,
        "uuid": str(uuid.uuid5(_SPACE, str(project.id))),
        "organization": _ORGANIZATION,
        "name": project.name,
        "is_demo": False,
        "timezone": call.state.settings.project_timezone,
    }
    if allows(call.caller.scopes, "project:read"):
        shown["api_token"] = project.capture_key  # a key with other scopes must not learn it
    return shown
