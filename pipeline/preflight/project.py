"""Which project it is, and what it shows of itself.

The contract shows only that `/api/projects/` gives the ids (docs/know/service.md#projects); one project is asked for
below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from pipeline.config import Secret
from pipeline.management.operations import RETRIEVE_PROJECT
from pipeline.management.problems import Forbidden, NotFound, ServiceProblem
from pipeline.preflight.capture_key import is_key_of, named
from pipeline.preflight.check import Check, untold

if TYPE_CHECKING:
    from pipeline.management.client import ManagementClient

NAME = "project"
_MOST = 500
_NAMED = 10


@dataclass(frozen=True, slots=True)
class Found:
    """The check; what the project shows of itself, None where it may not be looked at; the projects that were listed;
    the `Date` of an answer. `known`: the client speaks for a project, of which more can be asked."""

    check: Check
    project: Mapping[str, Any] | None = field(default=None, repr=False)
    others: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    date: str = ""
    known: bool = True


def find_project(client: ManagementClient, key: Secret | None) -> Found:
    """The client's project; without one, the project of the capture key, or the only one that the key reaches.

    Afterwards the client speaks for it.
    """
    others: list[Mapping[str, Any]] = []
    try:
        others = [one.plain() for one in islice(client.projects.list(), _MOST)]
    except ServiceProblem as error:
        if client.project_id is None or not isinstance(error, Forbidden | NotFound):
            return Found(untold(NAME, error), known=False)
    if client.project_id is None:
        chosen = _chosen(others, key)
        if isinstance(chosen, Check):
            return Found(chosen, others=others, known=False)
        client.project_id = str(chosen.get("id"))
    listed = next((one for one in others if str(one.get("id")) == client.project_id), None)
    try:
        answer = client.call(RETRIEVE_PROJECT)
        shown = answer.json()
    except NotFound:
        if listed is not None:
            return Found(_exists(listed), listed, others)
        hint = "check the id of the project and the region"
        return Found(Check(NAME, "stop", f"there is no project {client.project_id}", hint), others=others, known=False)
    except ServiceProblem as error:
        if listed is not None:
            return Found(_exists(listed), listed, others)
        return Found(untold(NAME, error), others=others, known=isinstance(error, Forbidden))
    if not isinstance(shown, dict):
        return Found(Check(NAME, "unknown", "what the service shows is no project"), listed, others, answer.date)
    return Found(_exists(shown), shown, others, answer.date)


def _exists(project: Mapping[str, Any]) -> Check:
    return Check(NAME, "ok", named(project))


def _chosen(listed: Sequence[Mapping[str, Any]], key: Secret | None) -> Mapping[str, Any] | Check:
    own = next((one for one in listed if is_key_of(key, one)), None)
    if own is not None:
        return own
    if len(listed) == 1:
        return listed[0]
    if not listed:
        return Check(NAME, "stop", "the personal key reaches no project", "make a personal key for the project")
    names = ", ".join(named(one) for one in listed[:_NAMED]) + (", …" if len(listed) > _NAMED else "")
    detail = f"the personal key reaches more than one project, and none shows this capture key: {names}"
    return Check(NAME, "unknown", detail, "give --project ID")
