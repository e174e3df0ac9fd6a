"""PostHog: events from the query API, in pages by time and uuid, as JSON lines like those of its batch exports.

For large projects a batch export to a bucket is better, as the service itself says; the query API is what every
instance has and every personal key may be allowed. A query is limited to 10 seconds and 50,000 rows, and 1,200 queries
an hour are answered (docs/know/service.md#query-interface), so a window is counted first, and divided until one page
holds it.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from pipeline.errors import Refused
from pipeline.fetch.tool import DAY, HOUR, FetchContext, Fetched, RequestLimit, Tool, TooLarge, Window
from pipeline.timestamps import BadTime, read_iso

PAGE = 10_000
"""Rows per answer; a page is read into memory whole, even if its properties are large."""
UUIDS = 500
"""Uuids that one query asks for."""
_COLUMNS = ("uuid", "event", "properties", "distinct_id", "timestamp", "created_at", "elements_chain", "person_id")
_TIME = _COLUMNS.index("timestamp")
_EVENT = "(timestamp, uuid)"
"""What is counted on both sides. Copies of an event are next to each other in the order of the pages, and a uuid with
two times does not make up for a missing event."""


class _Answer(msgspec.Struct):
    results: list[list[msgspec.Raw]]


class _PostHog:
    def __init__(self, context: FetchContext) -> None:
        self._asking = context
        self._url = f"{context.base}/api/projects/{quote(context.project, safe='')}/query/"

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
                    lines.write(_line(row))
                    rows += 1
        return Fetched(".jsonl.gz", rows, {"": distinct}, {"": counted} if self._asking.count else None)

    def _conditions(self, window: Window) -> list[str]:
        """What the events of a window have in common; with a list of uuids, one condition for some of them at a time,
        since a query cannot have any length."""
        within = f"timestamp >= {_moment(window.since * 1_000_000)} and timestamp < {_moment(window.until * 1_000_000)}"
        ids = sorted(self._asking.ids)
        some = [", ".join(f"'{id}'" for id in ids[at : at + UUIDS]) for at in range(0, len(ids), UUIDS)]
        return [f"{within} and uuid in ({uuids})" for uuids in some] or [within]

    def _counted(self, window: Window, within: str) -> int:
        answer = self._query(window, f"select count(distinct {_EVENT}) from events where {within} limit 1")
        try:
            return int(answer[0][0])
        except (IndexError, ValueError):
            raise Refused(f"{self._url} gives no count", hint="check --from: it must be the service itself") from None

    def _rows(self, window: Window, within: str) -> Iterator[list[msgspec.Raw]]:
        """The events that meet a condition, in pages by time and uuid."""
        after = ""
        while True:
            page = self._query(
                window,
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
            raise Refused(f"{self._url} returned a time that cannot be read: {error}", hint="report this") from None
        return f"(timestamp > {moment} or (timestamp = {moment} and uuid > toUUID('{uuid}')))"

    def _query(self, window: Window, sql: str) -> list[list[msgspec.Raw]]:
        transport = self._asking.transport
        # Not cached: a cached answer would prove nothing.
        body = {"query": {"kind": "HogQLQuery", "query": sql}, "refresh": "force_blocking"}
        reply = transport.ask("query", self._url, json=body)
        return transport.decoded(f"{window}", self._url, reply, _Answer).results


def _moment(microseconds: int) -> str:
    """A moment for HogQL, which would read a string without a zone in the project's zone."""
    text = datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"toDateTime64('{text}.{microseconds % 1_000_000:06d}', 6, 'UTC')"


def _line(row: list[msgspec.Raw]) -> bytes:
    """One row as a line: values byte for byte as they came, properties as the object in their text."""
    cells = [bytes(cell) for cell in row]
    cells[2] = _object(cells[2])
    pairs = (b'"%b":%b' % (name.encode(), cell) for name, cell in zip(_COLUMNS, cells, strict=True))
    # A newline between the tokens of an answer is white space; inside a string it is escaped.
    return b"{" + b",".join(pairs).replace(b"\n", b" ") + b"}\n"


def _object(cell: bytes) -> bytes:
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
    clock="times of events in UTC",
    open=_PostHog,
    ids=("uuid",),
    picks=True,
)
