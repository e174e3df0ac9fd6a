"""The resources of the management API: one class each, one method per operation (docs/know/service.md#hog-functions,
#session-recordings, #projects, #pagination)."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, Unpack

from pipeline.errors import UsageError
from pipeline.management import operations
from pipeline.management.models import (
    HogFunction,
    HogFunctionListItem,
    HogFunctionWrite,
    ListPage,
    Project,
    ServiceObject,
    SessionRecording,
    SessionRecordingWrite,
    SharingConfiguration,
)
from pipeline.management.operations import Endpoint, FunctionFilters, LogFilters, MetricsFilters, Page
from pipeline.management.problems import NotAllowed, unexpected_answer

if TYPE_CHECKING:
    from pipeline.management.client import Body, ManagementClient, Query, ServiceResponse

Item = TypeVar("Item", bound=ServiceObject)
Kind = TypeVar("Kind", bound=ServiceObject)
Written = HogFunctionWrite | Mapping[str, object] | bytes
"""Writable fields: as an object, as a mapping, or as JSON that is sent unchanged."""
Filters = Mapping[str, Any]
_NO_FILTERS: Filters = {}
_ROUTES = ("icon", "icons", "rearrange")
_NAMED = 20


# -- lists ---------------------------------------------------------------------------------------------


class Listing(Generic[Item]):
    """One list: iterate over it for every item of every page, in the service's order. Nothing is requested until then.

    `page()` is only the first page; `limit` is the number of items per page, not in total.
    """

    def __init__(self, client: ManagementClient, operation: Endpoint, item: type[Item], filters: Filters) -> None:
        self._client = client
        self._operation = operation
        self._page = ListPage[item]  # type: ignore[valid-type]
        self._query = query_of(operation, filters)

    def __iter__(self) -> Iterator[Item]:
        for page in self.pages():
            yield from page.results or ()

    def page(self) -> ListPage[Item]:
        return self._read(self._client.call(self._operation, query=self._query))

    def pages(self) -> Iterator[ListPage[Item]]:
        """Every page, following `next` until it is null. Raises UnexpectedAnswer if it leads to another host or in a
        circle.

        If pages have `has_next` instead of `next` (docs/know/service.md#session-recordings), the offset grows.
        """
        answer = self._client.call(self._operation, query=self._query)
        visited = {answer.url}
        offset = int(self._query.get("offset") or 0)
        while True:
            page = self._read(answer)
            yield page
            offset += len(page.results or ())
            if page.next is not None:
                onward = self._client.follow(self._operation, answer, page.next)
            elif page.results and (page.model_extra or {}).get("has_next") is True:
                onward = self._client.call(self._operation, query={**self._query, "offset": offset})
            else:
                return
            if onward.url in visited:
                raise unexpected_answer(self._operation, answer.url, answer.status, "its pages lead in a circle")
            visited.add(onward.url)
            answer = onward

    def _read(self, answer: ServiceResponse) -> ListPage[Item]:
        page = read_as(self._page, answer)
        items = page.results
        valid = isinstance(items, list) and all(isinstance(item, ServiceObject) for item in items)
        if not valid or not isinstance(page.next, str | None):
            raise unexpected_answer(self._operation, answer.url, answer.status, "it is not a page of a list")
        return page


def read_as(kind: type[Kind], answer: ServiceResponse) -> Kind:
    """An answer as one of the contract's objects. Raises UnexpectedAnswer if it is not an object."""
    try:
        return kind.read(answer.json())
    except ValueError:
        reason = "it is not a JSON object" if answer.body.strip() else "its body is empty"
        raise unexpected_answer(answer.operation, answer.url, answer.status, reason) from None


def query_of(operation: Endpoint, filters: Filters) -> Query:
    """Filters as query parameters, in the order of their declaration; several names are sent as `a,b`."""
    known = operation.query.__annotations__
    if unknown := filters.keys() - known.keys():
        raise TypeError(f"unknown filter: {', '.join(sorted(unknown))}")
    values = ((name, filters.get(name)) for name in known)
    return {name: (",".join(value) or None) if isinstance(value, list | tuple) else value for name, value in values}


class _Resource:
    """Objects of one kind, through a client's operations."""

    def __init__(self, client: ManagementClient) -> None:
        self._client = client

    def _read(self, kind: type[Kind], operation: Endpoint, id: str | None = None, body: Body | None = None) -> Kind:
        return read_as(kind, self._client.call(operation, id, body=body))

    def _json(
        self, operation: Endpoint, id: str | None = None, filters: Filters = _NO_FILTERS, body: Body | None = None
    ) -> Any:
        """Do an operation, and return its answer as JSON, or None if it is empty."""
        return self._client.call(operation, id, query=query_of(operation, filters), body=body).json()


# -- hog functions -------------------------------------------------------------------------------------


class Icon(NamedTuple):
    """An icon: its bytes, empty if the service has none, and their media type."""

    content: bytes
    media_type: str


class HogFunctions(_Resource):
    """The hog functions of the client's project."""

    def list(self, **filters: Unpack[FunctionFilters]) -> Listing[HogFunctionListItem]:
        """The functions that match all filters; `limit` is the page size, `offset` where the first page starts."""
        return Listing(self._client, operations.LIST_FUNCTIONS, HogFunctionListItem, filters)

    def create(self, body: Written) -> HogFunction:
        """Create a hog function. Sent once: if the answer is lost, check the list before creating it again."""
        return self._read(HogFunction, operations.CREATE_FUNCTION, body=body)

    def retrieve(self, id: str) -> HogFunction:
        return self._read(HogFunction, operations.RETRIEVE_FUNCTION, _id(id))

    def update(self, id: str, body: Written, *, put: bool = False) -> HogFunction:
        """Set the fields in the body and no others; also by PUT, which the contract does not have."""
        operation = operations.REPLACE_FUNCTION if put else operations.UPDATE_FUNCTION
        return self._read(HogFunction, operation, _id(id), body)

    def delete(self, id: str) -> HogFunction | None:
        """Delete softly, the only possible way: an update with `deleted` true; `deleted` false restores it.

        None if an earlier try, whose answer was lost, had already done it.
        """
        body = HogFunctionWrite(deleted=True)
        answer = self._client.call(operations.UPDATE_FUNCTION, _id(id), body=body, gone_is_done=True)
        return None if answer.gone else read_as(HogFunction, answer)

    def hard_delete(self, id: str, *, send: bool = False) -> None:
        """Raise NotAllowed (405): the service deletes no hog function permanently. `send` sends the request anyway."""
        operation = operations.DELETE_FUNCTION
        if send:
            self._client.call(operation, _id(id), gone_is_done=True)
            return
        error = NotAllowed(
            f"the service answers 405 to DELETE of a hog function, so nothing was sent: {id}",
            hint="delete it softly: update it with deleted true",
        )
        error.status = 405
        raise error

    def broadcast(self, id: str, body: Written | None = None) -> Any:
        """Run it for the persons it matches. Returns the answer as JSON, None if it is empty. Sent once."""
        return self._json(operations.BROADCAST, _id(id), body={} if body is None else body)

    def invoke(self, id: str, body: Written | None = None) -> Any:
        """Run it once, on the event in the body. Returns the answer as JSON, None if it is empty. Sent once.

        The body has writable fields, or `configuration`, `globals`, `mock_async_functions`, …
        (docs/know/service.md#hog-functions); by default the service mocks calls to other hosts.
        """
        return self._json(operations.INVOKE, _id(id), body={} if body is None else body)

    def logs(self, id: str, **filters: Unpack[LogFilters]) -> Any:
        """Its log, newest first, as JSON; None if it is empty. `after` and `before` are exclusive ISO times."""
        return self._json(operations.LOGS, _id(id), filters)

    def metrics(self, id: str, **filters: Unpack[MetricsFilters]) -> Any:
        """Its runs over time, as JSON; None if it is empty. `interval` is hour, day or week."""
        return self._json(operations.METRICS, _id(id), filters)

    def metrics_totals(self, id: str, **filters: Unpack[MetricsFilters]) -> Any:
        """The totals of its runs, over all time unless `after` is given, as JSON; None if empty."""
        return self._json(operations.METRICS_TOTALS, _id(id), filters)

    def icon(self, id: str | None = None) -> Icon:
        answer = self._client.call(operations.ICON, query={"id": id})
        return Icon(answer.body, answer.media_type)

    def icons(self, query: str | None = None) -> Any:
        """The available icons, as JSON, or None."""
        return self._json(operations.ICONS, filters={"query": query})

    def rearrange(
        self, orders: Mapping[str, int] | None = None, *, body: Written | None = None
    ) -> builtins.list[HogFunction]:
        """Set the execution order of several: `orders` is `{id: order}`, or `body` has writable fields.

        Returns the functions that the service shows afterwards; under the contract it shows none.
        """
        if (orders is None) == (body is None):
            raise UsageError("rearrange takes orders or a body", hint="pass ID=ORDER pairs, or a body")
        answer = self._client.call(operations.REARRANGE, body=body if orders is None else {"orders": dict(orders)})
        shown = answer.json()
        functions = shown.get("results", [shown]) if isinstance(shown, dict) else shown or []
        try:
            return [HogFunction.read(function) for function in functions]
        except (TypeError, ValueError):
            raise unexpected_answer(answer.operation, answer.url, answer.status, "it shows no hog functions") from None


def _id(id: str) -> str:
    if id in _ROUTES:
        raise UsageError(
            f"{id!r} is not the id of a hog function",
            hint="use the UUID that `backcast hog-functions list` shows",
        )
    return id


# -- session recordings and projects -------------------------------------------------------------------


class SessionRecordings(_Resource):
    """The session recordings of the client's project."""

    def list(self, **page: Unpack[Page]) -> Listing[SessionRecording]:
        """All recordings; `limit` is the page size, `offset` where the first page starts."""
        return Listing(self._client, operations.LIST_RECORDINGS, SessionRecording, page)

    def retrieve(self, id: str) -> SessionRecording:
        return self._read(SessionRecording, operations.RETRIEVE_RECORDING, id)

    def update(
        self, id: str, body: SessionRecordingWrite | Mapping[str, object] | bytes, *, put: bool = False
    ) -> SessionRecording:
        """Set `person`; the service itself also accepts `viewed` and `analyzed`, and PUT
        (docs/know/service.md#session-recordings).

        Returns the recording, or `{"success": true}` as an object without known fields.
        """
        operation = operations.REPLACE_RECORDING if put else operations.UPDATE_RECORDING
        return self._read(SessionRecording, operation, id, body)

    def delete(self, id: str) -> None:
        self._client.call(operations.DELETE_RECORDING, id, gone_is_done=True)

    def sharing(self, recording_id: str) -> SharingConfiguration:
        """How it is shared. The access token gives access to the recording."""
        return self._read(SharingConfiguration, operations.SHARING, recording_id)

    def refresh_sharing(self, recording_id: str) -> SharingConfiguration:
        """Replace the access token; the old one no longer gives access. Sent once; not in the contract."""
        return self._read(SharingConfiguration, operations.REFRESH_SHARING, recording_id)


class Projects(_Resource):
    """The projects of the client's key."""

    def list(self, **page: Unpack[Page]) -> Listing[Project]:
        """All projects; `limit` is the page size, `offset` where the first page starts."""
        return Listing(self._client, operations.LIST_PROJECTS, Project, page)

    def group_types(self) -> dict[str, int]:
        """The number of each group type of the client's project. Raises UnexpectedAnswer."""
        answer = self._client.call(operations.LIST_GROUP_TYPES)
        try:
            return {str(one["group_type"]): int(one["group_type_index"]) for one in answer.json()}
        except (KeyError, TypeError, ValueError):
            raise unexpected_answer(
                operations.LIST_GROUP_TYPES, answer.url, answer.status, "it is not a list of group types"
            ) from None

    def only_id(self) -> str:
        """The id of the key's only project. Raises UsageError if there is none, or more than one, and names them."""
        projects = list(islice(self.list(), _NAMED))
        if not projects:
            raise UsageError(
                "the personal key cannot read any project", hint="create a personal key with access to the project"
            )
        if len(projects) > 1:
            names = ", ".join(f"{project.id} ({project.name})" for project in projects)
            more = ", …" if len(projects) == _NAMED else ""
            raise UsageError(
                f"the personal key reaches several projects: {names}{more}", hint="choose one with --project ID"
            )
        return str(projects[0].id)
