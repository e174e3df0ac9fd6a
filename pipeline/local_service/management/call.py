"""What an operation is given and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.local_service.keys import Keyring, Project
    from pipeline.local_service.settings import Settings
    from pipeline.local_service.store import Store

    from .documents import Documents
    from .operations import Operation
    from .scopes import Caller

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class State:
    """What the operations share: the documents, the database of events, the keys and the settings."""

    documents: Documents
    store: Store
    keys: Keyring
    settings: Settings

    @property
    def observed(self) -> bool:
        return self.settings.behaviour == "observed"


@dataclass(frozen=True, slots=True)
class Call:
    """One request that was let in. `address` is its absolute URL without the query; `now` is ISO 8601 in UTC."""

    operation: Operation
    caller: Caller
    project: Project | None
    ids: Mapping[str, str]
    query: Sequence[tuple[str, str]]
    body: Json
    address: str
    now: str

    @property
    def project_id(self) -> int:
        assert self.project is not None
        return self.project.id

    def parameter(self, name: str) -> str | None:
        """The last value of a query parameter; None where it is absent or empty."""
        given = [value for key, value in self.query if key == name]
        return given[-1] if given and given[-1] else None

    def listed(self, name: str) -> frozenset[str]:
        """The values of a query parameter that may be repeated and may be a comma list."""
        return frozenset(part.strip() for key, value in self.query if key == name for part in value.split(",") if part)


@dataclass(frozen=True, slots=True)
class Reply:
    """A success: JSON where `body` is a value, else the bytes of `content` (none: an empty body)."""

    status: int = 200
    body: object = None
    content: bytes = b""
    media_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


EMPTY = Reply()
"""200 without a body: what the contract states for several operations (service-api 4.1)."""
