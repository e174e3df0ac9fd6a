"""Who calls, what they may do, and how often: the personal key, its project and scopes, and a project's rates.

See docs/know/service.md#key-scopes and #management-api.
"""

from __future__ import annotations

import uuid
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

import msgspec

from pipeline.local_service.keys import Keyring, Project, allows
from pipeline.local_service.management.requests import ApiError, forbidden, not_found
from pipeline.management.operations import PROJECTS

if TYPE_CHECKING:
    from pipeline.management.operations import Endpoint

_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="api"'}
_USERS = uuid.UUID("5d1f0c4e-7a0b-5f0d-9c1e-2b7f3a6d8e90")


class Caller(msgspec.Struct, frozen=True):
    """The owner of a key: the key's number, its scopes, and the projects it reaches (None: all)."""

    number: int
    scopes: frozenset[str]
    reach: frozenset[int] | None

    @property
    def user(self) -> dict[str, Any]:
        """The user object (docs/know/service.md#hog-functions). Every personal key belongs to its own user."""
        name = str(self.number)
        return {
            "id": self.number,
            "uuid": str(uuid.uuid5(_USERS, name)),
            "distinct_id": f"local-user-{name}",
            "first_name": "Local",
            "last_name": name,
            "email": f"user{name}@example.com",
            "is_email_verified": True,
            "hedgehog_config": {},
            "role_at_organization": "engineering",
        }

    def reaches(self, project: Project) -> bool:
        return self.reach is None or project.id in self.reach


def caller_of(header: str | None, keys: Keyring) -> Caller:
    """Who sent an `Authorization` header. Raises ApiError (401)."""
    scheme, _, key = (header or "").partition(" ")
    key = key.strip()
    if scheme.lower() != "bearer" or not key:
        detail = "Authentication credentials were not provided."
        raise ApiError(401, "authentication_error", "not_authenticated", detail, headers=_CHALLENGE)
    scopes = keys.personal.get(key)
    if scopes is None:
        detail = "Personal API key found in request Authorization header is invalid."
        raise ApiError(401, "authentication_error", "authentication_failed", detail, headers=_CHALLENGE)
    return Caller(list(keys.personal).index(key) + 1, scopes, keys.reach.get(key))


def project_for(caller: Caller, name: str, keys: Keyring) -> Project:
    """The project of a path; `@current` is the first that the key reaches. Raises ApiError (404, 403)."""
    for project in keys.projects:
        if name == str(project.id):
            if not caller.reaches(project):
                raise forbidden(f"API key does not have access to the requested project: ID {project.id}.")
            return project
        if name == "@current" and caller.reaches(project):
            return project
    raise not_found()


def scope_for(operation: Endpoint, *, observed: bool) -> str:
    """The scope that an operation needs, "" if any key may ask: the contract shows none for the list of projects, which
    gives the ids."""
    return "" if operation.path == PROJECTS and not observed else operation.scope


def check_scope(caller: Caller, operation: Endpoint, *, observed: bool) -> None:
    """Raise ApiError (403) if the key's scopes do not permit the operation."""
    scope = scope_for(operation, observed=observed)
    if scope and not allows(caller.scopes, scope):
        raise forbidden(f"API key missing required scope '{scope}'")


RATES = {False: ((60, 480), (3600, 4800)), True: ((60, 240), (3600, 1200))}
"""(seconds, calls) for plain operations, and for those that read analytics, including recordings."""


class Throttle:
    """The calls of the last hour, by project."""

    def __init__(self) -> None:
        self._calls: dict[tuple[int, bool], deque[int]] = defaultdict(deque)

    def check(self, project: int, analytics: bool, now: int) -> None:
        """Count one call at `now`, in microseconds. Raises ApiError (429)."""
        calls = self._calls[project, analytics]
        while calls and calls[0] <= now - 3600 * 1_000_000:
            calls.popleft()
        for seconds, most in RATES[analytics]:
            if len(calls) >= most and calls[-most] > now - seconds * 1_000_000:
                wait = -(-(calls[-most] + seconds * 1_000_000 - now) // 1_000_000)
                detail = f"Request was throttled. Expected available in {wait} second{'' if wait == 1 else 's'}."
                raise ApiError(429, "throttled_error", "throttled", detail, headers={"Retry-After": str(wait)})
        calls.append(now)
