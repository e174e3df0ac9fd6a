"""Projects that a key reaches: where project ids come from (docs/know/service.md#projects)."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from pipeline.errors import UsageError
from pipeline.management import operations
from pipeline.management.listing import Listing
from pipeline.management.models import Page, Project

if TYPE_CHECKING:
    from pipeline.management.client import ManagementClient

_NAMED = 20


class Projects:
    """The projects of the client's key."""

    def __init__(self, client: ManagementClient) -> None:
        self._client = client

    def list(self, *, limit: int | None = None, offset: int | None = None) -> Listing[Project]:
        """All of them; `limit` is the size of a page, `offset` where the first one starts."""
        query = {"limit": limit, "offset": offset}
        return Listing(self._client, operations.LIST_PROJECTS, Page[Project], query)

    def only_id(self) -> str:
        """The id of the key's only project. Raises UsageError where there is none, or more than one, naming them."""
        found = list(islice(self.list(), _NAMED))
        if not found:
            raise UsageError("the personal key reaches no project", hint="make a key for the project")
        if len(found) > 1:
            names = ", ".join(f"{one.id} ({one.name})" for one in found)
            more = ", …" if len(found) == _NAMED else ""
            raise UsageError(f"the personal key reaches more than one project: {names}{more}", hint="give --project ID")
        return str(found[0].id)
