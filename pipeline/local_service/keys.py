"""The keys and projects of a local service.

The file is JSON: `{"projects": [{"id": 1, "name": "Rehearsal", "capture_key": "phc_..."}],
"keys": {"phx_...": ["hog_function:read", ...]}}`, with `["*"]` for all scopes; a key that reaches only some projects is
written as `{"scopes": [...], "projects": [1]}`. Without a file, there is project 1 and one new key of each kind. No key
appears in a repr, a log or an error message.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from pipeline.errors import UsageError


class BadKeys(UsageError):
    """A keys file cannot be used; the message has the position in the file but no key."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="correct the keys file")


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
    """The projects of those personal keys that do not reach all projects."""

    def project_of(self, capture_key: str) -> int | None:
        return next((project.id for project in self.projects if project.capture_key == capture_key), None)

    def texts(self) -> tuple[str, ...]:
        """Every key as text, to be removed from anything that is stored or shown."""
        return (*(project.capture_key for project in self.projects), *self.personal)


def allows(scopes: frozenset[str], scope: str) -> bool:
    """Whether scopes include a scope: `*` includes all, and `x:write` includes `x:read`
    (docs/know/service.md#management-api)."""
    return "*" in scopes or scope in scopes or scope.replace(":read", ":write") in scopes


def generate_keys() -> Keyring:
    """Project 1 with a new key of each kind."""
    project = Project(1, "Rehearsal", f"phc_{secrets.token_hex(20)}")
    return Keyring((project,), {f"phx_{secrets.token_hex(20)}": frozenset({"*"})})


class _ProjectEntry(msgspec.Struct):
    id: Annotated[int, Meta(ge=1, lt=2**31)]
    capture_key: Annotated[str, Meta(pattern="^(?!phx_).")]
    name: str = "Rehearsal"


class _KeysFile(msgspec.Struct):
    projects: Annotated[list[_ProjectEntry], Meta(min_length=1)]
    keys: dict[str, Any] = {}


_Scopes = frozenset[Annotated[str, Meta(pattern=r"^(\*|[a-z_]+:(read|write))\Z")]]


class _RestrictedKey(msgspec.Struct):
    scopes: _Scopes
    projects: frozenset[int]


def load_keys(path: Path) -> Keyring:
    """The keys of a file. Raises BadKeys, whose message has the position in the file but never a key."""
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_KeysFile)
    except OSError as error:
        raise BadKeys(f"the keys file {path} cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadKeys(f"the keys file {path}: {error}") from None
    projects = tuple(Project(entry.id, entry.name, entry.capture_key) for entry in file.projects)
    ids = {project.id for project in projects}
    if len(ids) < len(projects):
        raise BadKeys(f"two projects in {path} have the same id")
    if len({project.capture_key for project in projects}) < len(projects):
        raise BadKeys(f"two projects in {path} have the same capture key")
    scopes, reach = {}, {}
    for number, (key, value) in enumerate(file.keys.items(), 1):
        where = f"personal key {number} in {path}"
        if not re.fullmatch("phx_[!-~]*", key):
            raise BadKeys(f"{where} does not start with phx_, or has characters that are not allowed in a key")
        try:
            entry = msgspec.convert(value, _Scopes | _RestrictedKey)
        except msgspec.ValidationError as error:
            raise BadKeys(f"{where}: {error}") from None
        if isinstance(entry, _RestrictedKey):
            if not entry.projects <= ids:
                raise BadKeys(f'the "projects" of {where} are not ids of projects in the file')
            reach[key], entry = entry.projects, entry.scopes
        scopes[key] = entry
    return Keyring(projects, scopes, reach)
