"""Finds the project of the keys.

The contract shows only that `/api/projects/` lists the ids (docs/know/service.md#projects), so the project itself is
requested by its id.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from pipeline.config import Secret
from pipeline.management.operations import RETRIEVE_PROJECT
from pipeline.management.problems import Forbidden, NotFound, ServiceProblem
from pipeline.preflight.check import check_of_error
from pipeline.report.records import Check

if TYPE_CHECKING:
    from pipeline.management.client import ManagementClient

PROJECT = "project"
_MOST_LISTED = 500
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class ProjectResult:
    """The result of the check; the project's `record`, None if it cannot be read; the projects that were `listed`;
    the `Date` header of a response. `known`: the client has a project id, so more of the project can be requested."""

    check: Check
    record: Mapping[str, Any] | None = field(default=None, repr=False)
    listed: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    date: str = ""
    known: bool = True


def find_project(client: ManagementClient, key: Secret | None) -> ProjectResult:
    """The client's project; without one, the project of the capture key, or the only one of the personal key.

    Sets the client's `project_id`.
    """
    listed: list[Mapping[str, Any]] = []
    try:
        listed = [project.plain() for project in islice(client.projects.list(), _MOST_LISTED)]
    except ServiceProblem as error:
        if client.project_id is None or not isinstance(error, Forbidden | NotFound):
            return ProjectResult(check_of_error(PROJECT, error), known=False)
    if client.project_id is None:
        chosen = _choose(listed, key)
        if isinstance(chosen, Check):
            return ProjectResult(chosen, listed=listed, known=False)
        client.project_id = str(chosen.get("id"))
    own = next((project for project in listed if str(project.get("id")) == client.project_id), None)
    try:
        answer = client.call(RETRIEVE_PROJECT)
        record = answer.json()
    except ServiceProblem as error:
        if own is not None:
            return ProjectResult(Check(PROJECT, "ok", named(own)), own, listed)
        if isinstance(error, NotFound):
            hint = f"check --project and the region; to see the projects: backcast projects list --to {client.base_url}"
            missing = Check(PROJECT, "stop", f"project {client.project_id} does not exist", hint)
            return ProjectResult(missing, listed=listed, known=False)
        return ProjectResult(check_of_error(PROJECT, error), listed=listed, known=isinstance(error, Forbidden))
    if not isinstance(record, dict):
        check = Check(PROJECT, "unknown", "the service's answer is not a project")
        return ProjectResult(check, own, listed, answer.date)
    return ProjectResult(Check(PROJECT, "ok", named(record)), record, listed, answer.date)


def project_record(client: ManagementClient) -> Mapping[str, Any]:
    """The client's project, empty if the key may not read it."""
    try:
        record = client.call(RETRIEVE_PROJECT).json()
    except ServiceProblem:
        return {}
    return record if isinstance(record, dict) else {}


def _choose(listed: Sequence[Mapping[str, Any]], key: Secret | None) -> Mapping[str, Any] | Check:
    own = next((project for project in listed if is_key_of(key, project)), None)
    if own is not None:
        return own
    if len(listed) == 1:
        return listed[0]
    if not listed:
        return Check(
            PROJECT,
            "stop",
            "the personal key cannot read any project",
            "create a personal key with access to the project",
        )
    names = ", ".join(named(project) for project in listed[:_MOST_NAMED]) + (", …" if len(listed) > _MOST_NAMED else "")
    detail = f"the personal key can read more than one project, and none of them shows this capture key: {names}"
    return Check(PROJECT, "unknown", detail, "give --project ID")


def is_key_of(key: Secret | None, project: Mapping[str, Any]) -> bool | None:
    """Whether a key is a project's own; None if the project does not show its key."""
    own = key_of(project)
    if key is None or own is None:
        return None
    return hmac.compare_digest(*(one.reveal().encode("utf-8", "surrogatepass") for one in (own, key)))


def key_of(project: Mapping[str, Any]) -> Secret | None:
    """A project's own capture key; None if the project does not show it."""
    token = project.get("api_token")
    return Secret(token) if isinstance(token, str) and token else None


def named(project: Mapping[str, Any]) -> str:
    """A project in messages: its name and id."""
    return f"{project.get('name') or 'without a name'} ({project.get('id')})"
