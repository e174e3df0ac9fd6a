"""The capture key: its shape, and whose it is.

An unknown capture key of a good shape is answered 200, and its events are gone (docs/know/service.md#answers). So a
shape proves nothing; the project's own `api_token`, or reading back what was sent, does.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.config import PROJECT_KEY, Secret, project_key_fault
from pipeline.preflight.check import Check

SHAPE = "capture_key"
PROJECT = "capture_key_project"
_PROVED_BY = "prove it with a personal key of the scope project:read, or by reading back one sent batch"


def check_shape(key: Secret | None, *, cloud: bool = False) -> Check:
    """Would capture refuse it, or would it be nobody's? `key` is None where none was given, `cloud` as for the key."""
    if key is None:
        hint = f"set {PROJECT_KEY}, or give --project-key-file FILE"
        return Check(SHAPE, "unknown", "no capture key was given", hint)
    fault = project_key_fault(key.reveal(), cloud=cloud)
    if fault is not None:
        return Check(SHAPE, "stop" if fault.stops else "warning", fault.message, fault.hint)
    return Check(SHAPE, "ok", "the capture key has the shape of one")


def is_key_of(key: Secret | None, project: Mapping[str, Any]) -> bool | None:
    """Whether a key is a project's own; None where the project does not show its key."""
    token = project.get("api_token")
    if key is None or not isinstance(token, str) or not token:
        return None
    return hmac.compare_digest(*(text.encode("utf-8", "surrogatepass") for text in (token, key.reveal())))


def check_project(key: Secret | None, project: Mapping[str, Any] | None, others: Sequence[Mapping[str, Any]]) -> Check:
    """Does the capture key belong to the project? `others` are the projects that the personal key reaches."""
    if key is None:
        return Check(PROJECT, "unknown", "no capture key was given")
    if project is None:
        return Check(
            PROJECT, "unknown", "no project could be looked at, and an unknown key is answered 200", _PROVED_BY
        )
    own = is_key_of(key, project)
    if own is None:
        return Check(PROJECT, "unknown", "the personal key may not read the project's capture key", _PROVED_BY)
    if own:
        return Check(PROJECT, "ok", f"the capture key is that of project {named(project)}")
    other = next((one for one in others if is_key_of(key, one)), None)
    whose = f"that of project {named(other)}, not" if other is not None else "not that"
    hint = f"take the capture key of project {named(project)}, or name the other project with --project"
    return Check(PROJECT, "stop", f"the capture key is {whose} of project {named(project)}", hint)


def named(project: Mapping[str, Any]) -> str:
    """A project as people know it."""
    return f"{project.get('name') or 'without a name'} ({project.get('id')})"
