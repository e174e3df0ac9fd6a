"""The keys and projects that a local service knows.

The file is JSON: `{"projects": [{"id": 1, "name": "Rehearsal", "capture_key": "phc_..."}],
"keys": {"phx_...": ["hog_function:read", ...]}}`, with `["*"]` for all scopes; a key that reaches only some projects
has `{"scopes": [...], "projects": [1]}`. Without a file there is project 1 and one new key of each kind. No key
appears in a repr, a log or an error message.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_SCOPE = re.compile(r"\*|[a-z_]+:(?:read|write)")
_LARGEST_ID = 2**31 - 1


class BadKeys(ValueError):
    """A keys file cannot be used; the message says where in the file, without any key."""


@dataclass(frozen=True, slots=True)
class Project:
    """One project: where a capture key's events land."""

    id: int
    name: str
    capture_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Keyring:
    """Projects with their capture keys, and personal keys with their scopes."""

    projects: tuple[Project, ...]
    personal: Mapping[str, frozenset[str]] = field(repr=False)
    reach: Mapping[str, frozenset[int]] = field(default_factory=dict, repr=False)
    """The projects of the personal keys that do not reach all of them."""

    def project_of(self, capture_key: str) -> int | None:
        """The project that owns a capture key, or None."""
        for project in self.projects:
            if project.capture_key == capture_key:
                return project.id
        return None

    def has_project(self, project_id: int) -> bool:
        """Whether there is such a project."""
        return any(project.id == project_id for project in self.projects)

    def scopes_of(self, personal_key: str) -> frozenset[str] | None:
        """The scopes of a personal key, or None for an unknown key."""
        return self.personal.get(personal_key)

    def texts(self) -> tuple[str, ...]:
        """Every key as text: what must be removed from anything that is stored or shown."""
        return (*(project.capture_key for project in self.projects), *self.personal)


def allows(scopes: frozenset[str], scope: str) -> bool:
    """Whether scopes include one: `*` includes all, and `x:write` includes `x:read`
    (docs/know/service.md#management-api)."""
    return "*" in scopes or scope in scopes or scope.replace(":read", ":write") in scopes


def generate_keys() -> Keyring:
    """Project 1 with a new key of each kind."""
    project = Project(1, "Rehearsal", f"phc_{secrets.token_hex(20)}")
    return Keyring((project,), {f"phx_{secrets.token_hex(20)}": frozenset({"*"})})


def load_keys(path: Path) -> Keyring:
    """The keys of a file. Raises BadKeys, which names the place and never a key."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadKeys(f"the keys file {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise BadKeys(f"the keys file {path} is not JSON") from None
    if not isinstance(content, dict):
        raise BadKeys(f"the keys file {path} is not a JSON object")
    listed = content.get("projects")
    if not isinstance(listed, list) or not listed:
        raise BadKeys(f'the keys file {path} has no list "projects"')
    projects = tuple(_project(path, position, entry) for position, entry in enumerate(listed))
    if len({project.id for project in projects}) < len(projects):
        raise BadKeys(f"two projects in {path} have one id")
    if len({project.capture_key for project in projects}) < len(projects):
        raise BadKeys(f"two projects in {path} have one capture key")
    personal = content.get("keys", {})
    if not isinstance(personal, dict):
        raise BadKeys(f'"keys" in {path} is not an object of key to scopes')
    scopes: dict[str, frozenset[str]] = {}
    reach: dict[str, frozenset[int]] = {}
    for position, (key, granted) in enumerate(personal.items()):
        where = f"personal key {position + 1} in {path}"
        if not key.startswith("phx_") or not key.isascii() or not key.isprintable() or " " in key:
            raise BadKeys(f"{where} does not start with phx_, or has characters that no key has")
        if isinstance(granted, dict):
            reach[key] = _reach(where, granted.get("projects"), projects)
            granted = granted.get("scopes")
        if not isinstance(granted, list) or not all(isinstance(one, str) and _SCOPE.fullmatch(one) for one in granted):
            raise BadKeys(f'the scopes of {where} are not a list of texts like "hog_function:read", or ["*"]')
        scopes[key] = frozenset(granted)
    return Keyring(projects, scopes, reach)


def _reach(where: str, ids: Any, projects: tuple[Project, ...]) -> frozenset[int]:
    known = {project.id for project in projects}
    if not isinstance(ids, list) or not all(type(one) is int and one in known for one in ids):
        raise BadKeys(f'the "projects" of {where} are not a list of ids of its projects')
    return frozenset(ids)


def _project(path: Path, position: int, entry: Any) -> Project:
    where = f"projects[{position}] in {path}"
    if not isinstance(entry, dict):
        raise BadKeys(f"{where} is not an object")
    number, name, key = entry.get("id"), entry.get("name", "Rehearsal"), entry.get("capture_key")
    if type(number) is not int or not 0 < number <= _LARGEST_ID:
        raise BadKeys(f'"id" of {where} is not a whole number from 1 on')
    if not isinstance(name, str):
        raise BadKeys(f'"name" of {where} is not text')
    if not isinstance(key, str) or not key or key.startswith("phx_"):
        raise BadKeys(f'"capture_key" of {where} is not a capture key')
    return Project(number, name, key)
