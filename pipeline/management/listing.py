"""Lists of the service, page by page (docs/know/service.md#pagination)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from pipeline.management.models import Page, ServiceObject
from pipeline.management.operations import Operation
from pipeline.management.problems import unexpected

if TYPE_CHECKING:
    from pipeline.management.client import Answer, ManagementClient, Query

Item = TypeVar("Item", bound=ServiceObject)
Found = TypeVar("Found", bound=ServiceObject)


class Listing(Generic[Item]):
    """One list: iterate over it for every item of every page, in the service's order. Nothing is asked before that.

    `page()` is the first page alone; `limit` is how many items a page holds, not how many there are in all.
    """

    def __init__(self, client: ManagementClient, operation: Operation, page: type[Page[Item]], query: Query) -> None:
        self._client = client
        self._operation = operation
        self._page = page
        self._query = query

    def __iter__(self) -> Iterator[Item]:
        for page in self.pages():
            yield from page.results or ()

    def page(self) -> Page[Item]:
        """The first page."""
        return self._read(self._client.call(self._operation, query=self._query))

    def pages(self) -> Iterator[Page[Item]]:
        """Every page, following `next` until it is null. Raises UnexpectedAnswer when it leads away or in a circle.

        Where the service says `has_next` instead of `next` (docs/know/service.md#session-recordings), the offset moves
        on.
        """
        answer = self._client.call(self._operation, query=self._query)
        seen = {answer.url}
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
            if onward.url in seen:
                raise unexpected(self._operation, answer.url, answer.status, "its pages lead in a circle")
            seen.add(onward.url)
            answer = onward

    def _read(self, answer: Answer) -> Page[Item]:
        found = read_as(self._page, answer)
        items = found.results
        whole = isinstance(items, list) and all(isinstance(one, ServiceObject) for one in items)
        if not whole or not isinstance(found.next, str | None):
            raise unexpected(self._operation, answer.url, answer.status, "it is no page of a list")
        return found


def read_as(kind: type[Found], answer: Answer) -> Found:
    """An answer as one of the contract's objects. Raises UnexpectedAnswer when it is no object."""
    try:
        return kind.read(answer.json())
    except ValueError:
        what = "it is no JSON object" if answer.body.strip() else "its body is empty"
        raise unexpected(answer.operation, answer.url, answer.status, what) from None


def comma_list(names: str | tuple[str, ...] | list[str] | None) -> str | None:
    """`a,b` of the names, as the service takes several of them; None of none."""
    return names if isinstance(names, str) or names is None else ",".join(names) or None
