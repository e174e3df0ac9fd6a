"""PostHog: events, persons and groups from the query API, as JSON lines like those of its batch exports.

For large projects a batch export to a bucket is better, as the service itself says; the query API is what every
instance has and every personal key may be allowed. A query is limited to 10 seconds and 50,000 rows, and 1,200 queries
an hour are answered (docs/know/service.md#query-interface), so a window is counted first, and divided until one page
holds it. A window is of the times of events, or of `created_at`, when the service ingested them.

Persons are listed by their uuid, and groups by type and key. What is new while they are listed may be missing, so both
are counted before the first page.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from pipeline.errors import Refused
from pipeline.fetch.tool import DAY, HOUR, FetchContext, Fetched, Page, RequestLimit, Tool, TooLarge, Window
from pipeline.timestamps import BadTime, read_iso

PAGE = 10_000
"""Rows per answer; a page is read into memory whole, even if its properties are large."""
UUIDS = 500
"""Uuids that one query asks for."""
MOST_IDS = 50_000
"""Rows of a query, which the service cuts off there, and so most ids of one person."""
_COLUMNS = ("uuid", "event", "properties", "distinct_id", "timestamp", "created_at", "elements_chain", "person_id")
_TIME, _PROPERTIES = _COLUMNS.index("timestamp"), _COLUMNS.index("properties")
_PERSON = (
    "distinct_id", "person_id", "properties", "created_at", "person_distinct_id_version", "person_version", "is_deleted"
)  # fmt: skip
_GROUP = ("group_type_index", "group_key", "group_properties", "created_at")
_EVENT = "(timestamp, uuid)"
"""What is counted on both sides. Copies of an event are next to each other in the order of the pages, and a uuid with
two times does not make up for a missing event."""


class _Answer(msgspec.Struct):
    results: list[list[msgspec.Raw]]


class _PostHog:
    def __init__(self, context: FetchContext) -> None:
        self._asking = context

    def __call__(self, window: Window, file: Path) -> Fetched:
        counted = rows = distinct = 0
        with file.open("wb") as stream, gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as lines:
            for within in self._conditions(window):
                more = self._counted(window, within)
                if more > PAGE and window.until - window.since > 1:
                    error = Refused(f"{window} has {more:,} events", hint="fetch less")
                    raise TooLarge(error, -(-more * 5 // (PAGE * 4)))  # some windows have more events than others
                counted += more
                last: tuple[bytes, ...] = ()
                for row in self._rows(window, within):
                    event = bytes(row[_TIME]), bytes(row[0])
                    distinct += event != last
                    last = event
                    row[_PROPERTIES] = msgspec.Raw(_object(row[_PROPERTIES]))
                    lines.write(_line(_COLUMNS, row))
                    rows += 1
        return Fetched(".jsonl.gz", rows, {"": distinct}, {"": counted} if self._asking.count else None)

    def _conditions(self, window: Window) -> list[str]:
        """What the events of a window have in common; with a list of uuids, one condition for some of them at a time,
        since a query cannot have any length."""
        by = "created_at" if self._asking.by == "ingestion" else "timestamp"
        within = f"{by} >= {_moment(window.since * 1_000_000)} and {by} < {_moment(window.until * 1_000_000)}"
        ids = sorted(self._asking.ids)
        some = [", ".join(f"'{id}'" for id in ids[at : at + UUIDS]) for at in range(0, len(ids), UUIDS)]
        return [f"{within} and uuid in ({uuids})" for uuids in some] or [within]

    def _counted(self, window: Window, within: str) -> int:
        return _number(self._asking, f"{window}", f"select count(distinct {_EVENT}) from events where {within} limit 1")

    def _rows(self, window: Window, within: str) -> Iterator[list[msgspec.Raw]]:
        """The events that meet a condition, in pages by time and uuid."""
        after = ""
        while True:
            page = _query(
                self._asking,
                f"{window}",
                f"select {', '.join(_COLUMNS)} from events where {within}{after} order by timestamp, uuid limit {PAGE}",
            )
            yield from page
            if len(page) < PAGE:
                return
            after = f" and {self._after(page[-1])}"

    def _after(self, row: list[msgspec.Raw]) -> str:
        """The condition for all rows that come after this one."""
        try:
            uuid, time = msgspec.json.decode(row[0], type=str), msgspec.json.decode(row[_TIME], type=str)
            moment = _moment(read_iso(time, space=True).us)
        except (BadTime, msgspec.MsgspecError, UnicodeDecodeError) as error:
            url = _url(self._asking, "query")
            raise Refused(f"{url} returned a time that cannot be read: {error}", hint="report this") from None
        return f"(timestamp > {moment} or (timestamp = {moment} and uuid > toUUID('{uuid}')))"


def _page(context: FetchContext, of: str, number: int, cursor: str) -> Page:
    """A page of persons or groups, or the types of groups. The cursor is the number of rows that were counted before
    the first page, and where the page begins."""
    if of == "group types":
        url = _url(context, "groups_types")
        reply = context.transport.ask("query", url, method="GET")
        types = context.transport.decoded(of, url, reply, list[dict[str, Any]])
        return Page(content=reply.body, rows=len(types), planned=True)
    total, _, after = cursor.partition(" ")
    if not number and context.count:
        source = "person_distinct_ids" if of == "people" else "groups"
        total = str(_number(context, of, f"select count(*) from {source} limit 1"))
    lines, following = _persons(context, after) if of == "people" else _groups(context, int(after or 0))
    return Page(
        content=b"".join(lines),
        rows=len(lines),
        suffix=".jsonl",
        cursor=following and f"{total} {following}",
        counted=int(total) if total else None,
        more=("group types",) if of == "groups" else (),
        planned=True,
    )


def ids_after(ask: Callable[[str], Sequence[Any]], person: str, page: int) -> tuple[Sequence[Any], bool]:
    """The ids of the persons after one, all of each person, as rows with the person's uuid first; and whether there may
    be more. `ask` answers a query. Raises Refused."""
    where = f" where person_id > toUUID('{person}')" if person else ""
    for limit in (page, MOST_IDS):
        query = f"select person_id, distinct_id from person_distinct_ids{where} order by person_id limit {limit}"
        rows = ask(query)
        if len(rows) < limit:
            return rows, False
        # The last person may have more ids after this page, so it is read again.
        if complete := [row for row in rows if row[0] != rows[-1][0]]:
            return complete, True
    raise Refused(f"the person {rows[0][0]} has {MOST_IDS:,} ids or more", hint="use a batch export of persons")


def _persons(context: FetchContext, after: str) -> tuple[list[bytes], str]:
    """Persons after one, with a line for each of their ids, like a batch export; and the last person, "" at the end.

    A query has only the latest state: no versions, and no persons that were deleted.
    """

    def ask(sql: str) -> list[tuple[str, msgspec.Raw]]:
        return [(_text(person), id) for person, id in _query(context, "people", sql)]

    ids, more = ids_after(ask, after, PAGE)
    if not ids:
        return [], ""
    first, last = ids[0][0], ids[-1][0]
    found = _query(
        context,
        "people",
        f"select id, properties, created_at from persons where id >= toUUID('{first}') and id <= toUUID('{last}')"
        f" order by id limit {MOST_IDS}",
    )
    if len(found) >= MOST_IDS:
        raise Refused("too many persons have no ids", hint="use a batch export of persons")
    persons = {_text(id): (_object(properties), created) for id, properties, created in found}
    none = b"{}", b"null"
    lines = [
        _line(_PERSON, (id, b'"%b"' % one.encode(), *persons.get(one, none), b"0", b"0", b"false")) for one, id in ids
    ]
    return lines, last if more else ""


def _groups(context: FetchContext, after: int) -> tuple[list[bytes], str]:
    """Groups after this many, and how many there are with them, "" at the end. A key may have any characters, so no
    query contains one."""
    query = f"select index, key, properties, created_at from groups order by index, key limit {PAGE} offset {after}"
    found = _query(context, "groups", query)
    following = str(after + PAGE) if len(found) == PAGE else ""
    return [_line(_GROUP, (index, key, _object(set_), created)) for index, key, set_, created in found], following


def _query(context: FetchContext, what: str, sql: str) -> list[list[msgspec.Raw]]:
    url = _url(context, "query")
    # Not cached: a cached answer would prove nothing.
    body = {"query": {"kind": "HogQLQuery", "query": sql}, "refresh": "force_blocking"}
    return context.transport.decoded(what, url, context.transport.ask("query", url, json=body), _Answer).results


def _number(context: FetchContext, what: str, sql: str) -> int:
    try:
        return int(_query(context, what, sql)[0][0])
    except (IndexError, ValueError):
        url = _url(context, "query")
        raise Refused(f"{url} gives no count", hint="check --from: it must be the service itself") from None


def _url(context: FetchContext, name: str) -> str:
    return f"{context.base}/api/projects/{quote(context.project, safe='')}/{name}/"


def _text(cell: msgspec.Raw) -> str:
    return msgspec.json.decode(cell, type=str)


def _moment(microseconds: int) -> str:
    """A moment for HogQL, which would read a string without a zone in the project's zone."""
    text = datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"toDateTime64('{text}.{microseconds % 1_000_000:06d}', 6, 'UTC')"


def _line(names: Sequence[str], row: Sequence[msgspec.Raw | bytes]) -> bytes:
    """One row as a line: values byte for byte as they came."""
    pairs = (b'"%b":%b' % (name.encode(), bytes(cell)) for name, cell in zip(names, row, strict=True))
    # A newline between the tokens of an answer is white space; inside a string it is escaped.
    return b"{" + b",".join(pairs).replace(b"\n", b" ") + b"}\n"


def _object(value: msgspec.Raw) -> bytes:
    """Properties as the object in their text."""
    cell = bytes(value)
    if not cell.startswith(b'"'):
        return cell
    try:
        text = msgspec.json.decode(cell, type=str).encode("utf-8", "surrogatepass")
        found: Any = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):  # `plan` rejects the row, or accepts the string
        return cell
    return text if isinstance(found, dict) else cell


TOOL = Tool(
    name="posthog",
    title="PostHog",
    hosts={"us": "https://us.posthog.com", "eu": "https://eu.posthog.com"},
    keys=("BACKCAST_POSTHOG_KEY",),
    project=True,
    counts=True,
    step=1,
    window=DAY,
    delay=HOUR,
    limits={"query": (RequestLimit(1_200, 3600), RequestLimit(100, 60), RequestLimit(3, 1))},
    clock="times of events or of their ingestion, in UTC",
    open=_PostHog,
    ids=("uuid",),
    picks=True,
    extras=("people", "groups"),
    page=_page,
    ingestion=True,
)
