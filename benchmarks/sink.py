"""A server that reads each request to its end and answers 200, at almost no cost.

Prints its port on the first line; `GET /counts` shows what came; ends when its standard input does. With `--keep
FOLDER` it writes each inflated body there, named by its sha256 and how many came before it. With `--open` it also
inflates and parses every body and counts events and distinct uuids: too dear for a timed run, and therefore used in a
pass of its own that proves the clients deliver what they say.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import hashlib
import json
import os
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

RECEIVE_BYTES = 1 << 20
HEAD_END = b"\r\n\r\n"


@dataclass(slots=True)
class Counts:
    """What arrived: requests and their body bytes; events and uuids only if bodies are opened."""

    opens: bool = False
    keep: Path | None = None
    requests: int = 0
    body_bytes: int = 0
    events: int = 0
    uuids: set[str] = field(default_factory=set)

    def answer(self) -> bytes:
        """The counts as JSON."""
        return json.dumps(
            {name: value for name, value in asdict(self).items() if name != "keep"} | {"uuids": len(self.uuids)}
        ).encode()


class Connection(asyncio.BufferedProtocol):
    """One client's connection, kept alive; bodies are counted in place and not copied."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.room = memoryview(bytearray(RECEIVE_BYTES))
        self.head = bytearray()
        self.body = bytearray()
        self.left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport for the answers."""
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        """The one buffer, reused."""
        return self.room

    def buffer_updated(self, nbytes: int) -> None:
        """Take what came: the rest of a body, a head, or both."""
        came = self.room[:nbytes]
        while came:
            if self.left:
                took = min(self.left, len(came))
                self._body(came[:took])
                came = came[took:]
                continue
            self.head += came
            end = self.head.find(HEAD_END)
            if end < 0:
                return
            rest = bytes(self.head[end + len(HEAD_END) :])
            head = bytes(self.head[:end])
            self.head.clear()
            self._begin(head)
            came = memoryview(rest)

    def _begin(self, head: bytes) -> None:
        lines = head.split(b"\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines[1:])}
        if lines[0].startswith(b"GET /counts"):
            self._answer(b"200 OK", self.counts.answer())
        elif b"content-length" not in fields:
            self._answer(b"411 Length Required", b"")
            self.transport.close()
        else:
            self.packed = fields.get(b"content-encoding") == b"gzip"
            self.left = int(fields[b"content-length"])
            self.counts.requests += 1
            self.counts.body_bytes += self.left
            if not self.left:
                self._answer(b"200 OK", b'{"status":"Ok"}')

    def _body(self, piece: memoryview) -> None:
        self.left -= len(piece)
        if self.counts.opens or self.counts.keep is not None:
            self.body += piece
        if not self.left:
            if self.counts.opens or self.counts.keep is not None:
                content = gzip.decompress(self.body) if self.packed else bytes(self.body)
                self.body.clear()
            if self.counts.keep is not None:
                digest = hashlib.sha256(content).hexdigest()
                (self.counts.keep / f"{digest}-{self.counts.requests}").write_bytes(content)
            if self.counts.opens:
                batch = json.loads(content)["batch"]
                self.counts.events += len(batch)
                self.counts.uuids.update(event["uuid"] for event in batch)
            self._answer(b"200 OK", b'{"status":"Ok"}')

    def _answer(self, status: bytes, body: bytes) -> None:
        head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (
            status,
            len(body),
        )
        self.transport.write(head + body)


async def serve(open_bodies: bool, keep: Path | None) -> None:
    """Listen on a free port of the loopback until standard input ends."""
    loop, over, counts = asyncio.get_running_loop(), asyncio.Event(), Counts(open_bodies, keep)
    server = await loop.create_server(lambda: Connection(counts), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    loop.add_reader(sys.stdin.fileno(), lambda: None if os.read(sys.stdin.fileno(), 64) else over.set())
    await over.wait()
    server.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--open", action="store_true", help="inflate and parse every body, and count its events")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write each inflated body into this folder")
    asked = parser.parse_args()
    asyncio.run(serve(asked.open, asked.keep))
