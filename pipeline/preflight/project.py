"""Finding the project of the keys, and whose a capture key is.

The contract shows only that `/api/projects/` gives the ids (docs/know/service.md#projects); one project is asked for
below it.
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
from pipeline.preflight.check import Check, could_not_ask

if TYPE_CHECKING:
    from pipeline.management.client import ManagementClient

PROJECT = "project"
_MOST = 500
_PROJECTD = 10


@dataclass(frozen=True, slots=True)
class FoundProject:
    """The check's result; the project's record, None where it cannot be read; the other projects that were listed; the
    `Date` header of a response. `known`: the client has a project, of which more can be asked."""

    check: Check
    project: Mapping[str, Any] | None = field(default=None, repr=False)
    others: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    date: str = ""
    known: bool = True


def find_project(client: ManagementClient, key: Secret | None) -> FoundProject:
    """The client's project; without one, the project of the capture key, or the only one that the key reaches.

    Afterwards it is the client's `project_id`.
    """
    others: list[Mapping[str, Any]] = []
    try:
        others = [one.plain() for one in islice(client.projects.list(), _MOST)]
    except ServiceProblem as error:
        if client.project_id is None or not isinstance(error, Forbidden | NotFound):
            return FoundProject(could_not_ask(PROJECT, error), known=False)
    if client.project_id is None:
        chosen = _chosen(others, key)
        if isinstance(chosen, Check):
            return FoundProject(chosen, others=others, known=False)
        client.project_id = str(chosen.get("id"))
    listed = next((one for one in others if str(one.get("id")) == client.project_id), None)
    try:
        answer = client.call(RETRIEVE_PROJECT)
        shown = answer.json()
    except NotFound:
        if listed is not None:
            return FoundProject(_exists(listed), listed, others)
        hint = "check the id of the project and the region"
        return FoundProject(
            Check(PROJECT, "stop", f"there is no project {client.project_id}", hint), others=others, known=False
        )
    except ServiceProblem as error:
        if listed is not None:
            return FoundProject(_exists(listed), listed, others)
        return FoundProject(could_not_ask(PROJECT, error), others=others, known=isinstance(error, Forbidden))
    if not isinstance(shown, dict):
        return FoundProject(
            Check(PROJECT, "unknown", "what the service shows is no project"), listed, others, answer.date
        )
    return FoundProject(_exists(shown), shown, others, answer.date)


def _exists(project: Mapping[str, Any]) -> Check:
    return Check(PROJECT, "ok", named(project))


def _chosen(listed: Sequence[Mapping[str, Any]], key: Secret | None) -> Mapping[str, Any] | Check:
    own = next((one for one in listed if is_key_of(key, one)), None)
    if own is not None:
        return own
    if len(listed) == 1:
        return listed[0]
    if not listed:
        return Check(PROJECT, "stop", "the personal key reaches no project", "make a personal key for the project")
    names = ", ".join(named(one) for one in listed[:_PROJECTD]) + (", …" if len(listed) > _PROJECTD else "")
    detail = f"the personal key reaches more than one project, and none shows this capture key: {names}"
    return Check(PROJECT, "unknown", detail, "give --project ID")


def is_key_of(key: Secret | None, project: Mapping[str, Any]) -> bool | None:
    """Whether a key is a project's own; None where the project does not show its key."""
    token = project.get("api_token")
    if key is None or not isinstance(token, str) or not token:
        return None
    return hmac.compare_digest(*(text.encode("utf-8", "surrogatepass") for text in (token, key.reveal())))


def named(project: Mapping[str, Any]) -> str:
    """A project as people read it: its name and id."""
    return f"{project.get('name') or 'without a name'} ({project.get('id')})"
