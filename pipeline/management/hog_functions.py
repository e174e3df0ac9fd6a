"""Hog functions: one method an operation (docs/know/service.md#hog-functions)."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.errors import UsageError
from pipeline.management import operations
from pipeline.management.listing import Listing, comma_list, read_as
from pipeline.management.models import HogFunction, HogFunctionListItem, HogFunctionWrite, Page
from pipeline.management.problems import NotAllowed, unexpected

if TYPE_CHECKING:
    from pipeline.management.client import ManagementClient

Names = str | tuple[str, ...] | list[str] | None
"""One name, or several."""
Written = HogFunctionWrite | Mapping[str, object] | bytes
"""Writable fields: as an object, as a mapping, or as JSON that is sent as it is."""
_ROUTES = ("icon", "icons", "rearrange")


class Icon(NamedTuple):
    """An icon: its bytes, none where the service gives none, and their media type."""

    content: bytes
    media_type: str


class HogFunctions:
    """The hog functions of the client's project."""

    def __init__(self, client: ManagementClient) -> None:
        self._client = client

    def list(
        self,
        *,
        created_at: str | None = None,
        created_by: int | None = None,
        enabled: bool | None = None,
        exclude_kind: Names = None,
        id: str | None = None,
        kind: Names = None,
        limit: int | None = None,
        offset: int | None = None,
        type: Names = None,
        updated_at: str | None = None,
    ) -> Listing[HogFunctionListItem]:
        """Those that every given filter finds; `limit` is the size of a page, `offset` where the first one starts."""
        query = {
            "created_at": created_at,
            "created_by": created_by,
            "enabled": enabled,
            "exclude_kind": comma_list(exclude_kind),
            "id": id,
            "kind": comma_list(kind),
            "limit": limit,
            "offset": offset,
            "type": comma_list(type),
            "updated_at": updated_at,
        }
        return Listing(self._client, operations.LIST_FUNCTIONS, Page[HogFunctionListItem], query)

    def create(self, body: Written) -> HogFunction:
        """Make one. It is sent once: where the answer is lost, look before creating again."""
        return read_as(HogFunction, self._client.call(operations.CREATE_FUNCTION, body=body))

    def retrieve(self, id: str) -> HogFunction:
        """The whole record."""
        return read_as(HogFunction, self._client.call(operations.RETRIEVE_FUNCTION, _id(id)))

    def update(self, id: str, body: Written, *, put: bool = False) -> HogFunction:
        """Set the fields that the body has, and no other; by PUT too, which the contract does not have."""
        operation = operations.REPLACE_FUNCTION if put else operations.UPDATE_FUNCTION
        return read_as(HogFunction, self._client.call(operation, _id(id), body=body))

    def delete(self, id: str) -> HogFunction | None:
        """Delete softly, the only way there is: an update with `deleted` true; `deleted` false brings it back.

        None where an earlier try, whose answer was lost, had done it.
        """
        body = HogFunctionWrite(deleted=True)
        answer = self._client.call(operations.UPDATE_FUNCTION, _id(id), body=body, gone_is_done=True)
        return None if answer.gone else read_as(HogFunction, answer)

    def hard_delete(self, id: str, *, send: bool = False) -> None:
        """Raise NotAllowed (405): the service deletes no hog function for good. `send` asks it all the same."""
        operation = operations.DELETE_FUNCTION
        if send:
            self._client.call(operation, _id(id), gone_is_done=True)
            return
        error = NotAllowed(
            f"the service answers 405 to DELETE of a hog function, so it was not sent: {id}",
            hint="delete it softly, by an update with deleted true",
        )
        error.status = 405
        raise error

    def broadcast(self, id: str, body: Written | None = None) -> Any:
        """Run it for the persons it matches. The answer as JSON; None where it is empty. Sent once."""
        return self._client.call(operations.BROADCAST, _id(id), body={} if body is None else body).json()

    def invoke(self, id: str, body: Written | None = None) -> Any:
        """Run it once, on the event the body gives. The answer as JSON; None where it is empty. Sent once.

        The body holds writable fields, or `configuration`, `globals`, `mock_async_functions`, …
        (docs/know/service.md#hog-functions); the service itself mocks calls to the outside unless told not to.
        """
        return self._client.call(operations.INVOKE, _id(id), body={} if body is None else body).json()

    def logs(
        self,
        id: str,
        *,
        limit: int | None = None,
        after: str | None = None,
        before: str | None = None,
        level: str | None = None,
        search: str | None = None,
        instance_id: str | None = None,
    ) -> Any:
        """Its log, newest first, as JSON; None where it is empty. `after` and `before` are exclusive ISO times."""
        query = {
            "limit": limit,
            "after": after,
            "before": before,
            "level": level,
            "search": search,
            "instance_id": instance_id,
        }
        return self._client.call(operations.LOGS, _id(id), query=query).json()

    def metrics(
        self,
        id: str,
        *,
        after: str | None = None,
        before: str | None = None,
        interval: str | None = None,
        breakdown_by: str | None = None,
        name: Names = None,
        kind: Names = None,
        instance_id: str | None = None,
    ) -> Any:
        """Its runs over time, as JSON; None where it is empty. `interval` is hour, day or week."""
        query = _span(after, before, interval, breakdown_by, name, kind, instance_id)
        return self._client.call(operations.METRICS, _id(id), query=query).json()

    def metrics_totals(
        self,
        id: str,
        *,
        after: str | None = None,
        before: str | None = None,
        interval: str | None = None,
        breakdown_by: str | None = None,
        name: Names = None,
        kind: Names = None,
        instance_id: str | None = None,
    ) -> Any:
        """Its runs summed up, of all time unless `after` is given, as JSON; None where it is empty."""
        query = _span(after, before, interval, breakdown_by, name, kind, instance_id)
        return self._client.call(operations.METRICS_TOTALS, _id(id), query=query).json()

    def icon(self, id: str | None = None) -> Icon:
        """One icon."""
        answer = self._client.call(operations.ICON, query={"id": id})
        return Icon(answer.body, answer.media_type)

    def icons(self, query: str | None = None) -> Any:
        """What icons there are, as JSON; None where it is empty."""
        return self._client.call(operations.ICONS, query={"query": query}).json()

    def rearrange(
        self, orders: Mapping[str, int] | None = None, *, body: Written | None = None
    ) -> builtins.list[HogFunction]:
        """Set the execution order of several: `orders` is `{id: order}`, or `body` holds writable fields.

        Those the service shows afterwards, which are none under the contract.
        """
        if (orders is None) == (body is None):
            raise UsageError("rearrange takes orders or a body", hint="give ID=ORDER pairs, or a body")
        answer = self._client.call(operations.REARRANGE, body=body if orders is None else {"orders": dict(orders)})
        said = answer.json()
        found = said.get("results", [said]) if isinstance(said, dict) else said or []
        try:
            return [HogFunction.read(one) for one in found]
        except (TypeError, ValueError):
            raise unexpected(answer.operation, answer.url, answer.status, "it shows no hog functions") from None


def _id(id: str) -> str:
    if id in _ROUTES:
        raise UsageError(f"not the id of a hog function: {id!r}", hint="it is a UUID, as the list shows it")
    return id


def _span(
    after: str | None,
    before: str | None,
    interval: str | None,
    breakdown_by: str | None,
    name: Names,
    kind: Names,
    instance_id: str | None,
) -> dict[str, str | None]:
    return {
        "after": after,
        "before": before,
        "interval": interval,
        "breakdown_by": breakdown_by,
        "name": comma_list(name),
        "kind": comma_list(kind),
        "instance_id": instance_id,
    }
