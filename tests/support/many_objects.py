"""A server with the interface of S3 for a bucket with more objects than could be stored: all are computed."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from s3fs import S3FileSystem

BUCKET = "many"
URL = f"s3://{BUCKET}"
PAGE = 100
"""Small, so that pages of a listing cost little; a store may always answer with fewer than were asked for."""
CHANGED = "2023-05-01T09:00:00.000Z", "Mon, 01 May 2023 09:00:00 GMT"
Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Objects:
    """`count` objects; `key` of a number is in the order of UTF-8, and `content` are the bytes of one.

    `fault` may answer a request instead, or return None: it is given the method, the key and the query. A
    listing has `page` of them at a time. `requests` counts what was asked for: `LIST`, `HEAD` and `GET`.
    """

    count: int
    key: Callable[[int], str]
    content: Callable[[int], bytes] = lambda number: b"{}\n"
    fault: Callable[[str, str, dict[str, str]], Answer | None] = lambda method, key, query: None
    page: int = PAGE
    requests: dict[str, int] = field(default_factory=lambda: {"LIST": 0, "HEAD": 0, "GET": 0})

    def answer(self, method: str, target: str, headers: dict[str, str]) -> Answer:
        split = urlsplit(target)
        query = dict(parse_qsl(split.query, keep_blank_values=True))
        key = unquote(split.path).removeprefix("/").removeprefix(BUCKET).removeprefix("/")
        kind = method if key else "LIST"
        self.requests[kind] += 1
        return self.fault(kind, key, query) or (self._object(method, key, headers) if key else self._page(query))

    def _object(self, method: str, key: str, headers: dict[str, str]) -> Answer:
        number = self._place(key)
        if number == self.count or self.key(number) != key:
            return 404, {}, b"" if method == "HEAD" else b"<Error><Code>NoSuchKey</Code></Error>"
        content = self.content(number)
        found = {"ETag": etag(content), "Last-Modified": CHANGED[1], "Content-Length": str(len(content))}
        if method == "HEAD":
            return 200, found, b""
        if "range" not in headers:
            return 200, found, content
        first, _, last = headers["range"].removeprefix("bytes=").partition("-")
        piece = content[int(first) : int(last) + 1 if last else None]
        found["Content-Range"] = f"bytes {first}-{int(first) + len(piece) - 1}/{len(content)}"
        return 206, found | {"Content-Length": str(len(piece))}, piece

    def _page(self, query: dict[str, str]) -> Answer:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        room = min(int(query.get("max-keys", self.page)), self.page)
        number = self._place(max(prefix, f"{after}\0" if after else ""))
        entries: list[str] = []
        last = ""
        while number < self.count and len(entries) < room and (key := self.key(number)).startswith(prefix):
            head, cut, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            if cut:
                last = f"{prefix}{head}{cut}\U0010ffff"
                entries.append(f"<CommonPrefixes><Prefix>{_shown(prefix + head + cut)}</Prefix></CommonPrefixes>")
                number = self._place(last)
            else:
                content = self.content(number)
                entries.append(
                    f"<Contents><Key>{_shown(key)}</Key><LastModified>{CHANGED[0]}</LastModified>"
                    f"<ETag>{escape(etag(content))}</ETag><Size>{len(content)}</Size></Contents>"
                )
                last = key
                number += 1
        more = number < self.count and self.key(number).startswith(prefix)
        token = f"<NextContinuationToken>{_shown(last)}</NextContinuationToken>" if more else ""
        body = (
            f"<ListBucketResult><Name>{BUCKET}</Name><EncodingType>url</EncodingType><KeyCount>{len(entries)}</KeyCount>"
            f"<MaxKeys>{room}</MaxKeys><IsTruncated>{str(more).lower()}</IsTruncated>{token}{''.join(entries)}"
            "</ListBucketResult>"
        )
        return 200, {"Content-Type": "application/xml"}, body.encode()

    def _place(self, key: str) -> int:
        """The number of the first object whose key is not before this one."""
        return bisect_left(range(self.count), key.encode(), key=lambda number: self.key(number).encode())


def etag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


def refusal(status: int, code: str) -> Answer:
    """An error as a store answers it."""
    return status, {"Content-Type": "application/xml"}, f"<Error><Code>{code}</Code></Error>".encode()


def _shown(key: str) -> str:
    return quote(key, safe="/")


class _Connection(asyncio.Protocol):
    def __init__(self, objects: Objects, opened: set[Any]) -> None:
        self._objects = objects
        self._opened = opened
        self._unread = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._opened.add(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._opened.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while b"\r\n\r\n" in self._unread:  # no answered request has a body
            head, _, self._unread = self._unread.partition(b"\r\n\r\n")
            first, *lines = head.decode().split("\r\n")
            method, target, _ = first.split(" ")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            status, found, body = self._objects.answer(method, target, headers)
            found.setdefault("Content-Length", str(len(body)))
            lines = [f"HTTP/1.1 {status} Answer", *(f"{name}: {value}" for name, value in found.items()), "", ""]
            self._transport.write("\r\n".join(lines).encode() + body)


@contextmanager
def serving(objects: Objects) -> Iterator[str]:
    """Serve the objects in a thread, at an address that the environment names as for a company's own store."""
    loop = asyncio.new_event_loop()
    opened: set[Any] = set()
    server = loop.run_until_complete(loop.create_server(lambda: _Connection(objects, opened), "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    found = {
        "AWS_ENDPOINT_URL": address, "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
    }  # fmt: skip
    S3FileSystem.clear_instance_cache()  # its clients ask the server of an earlier test
    try:
        with patch.dict(os.environ, found):
            yield address
    finally:
        S3FileSystem.clear_instance_cache()
        asyncio.run_coroutine_threadsafe(_end(server, opened), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _end(server: asyncio.Server, opened: set[Any]) -> None:
    # asyncio leaves a socket open whose server closes between its acceptance and the task that makes it a connection.
    while accepted := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(accepted)
    server.close()
    for transport in opened:
        transport.abort()
    await asyncio.sleep(0)
