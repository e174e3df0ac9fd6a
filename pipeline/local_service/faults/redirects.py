"""The fault that sends a client elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from .exchange import Call, Ending, Onward, Reply
from .fault import Fault, flag, option, value, whole

STATUSES = ("301", "302", "303", "307", "308")


def read_status(text: str) -> int:
    """A redirecting status that a capture client has to follow."""
    if text not in STATUSES:
        raise ValueError("one of " + ", ".join(STATUSES))
    return int(text)


def read_host(text: str) -> str:
    """A host name, with a port if it is another one."""
    if not re.fullmatch(r"[A-Za-z0-9.-]+(:\d{1,5})?", text):
        raise ValueError("a host name such as localhost or localhost:8101")
    return text


@dataclass(kw_only=True)
class Redirect(Fault, example="redirect:307"):
    """answers 301, 302, 303, 307 or 308; after hops=N of them (1 by default) the request is taken, with loop never;
    host=NAME[:PORT] leads to another host"""

    status: int = value(read_status)
    hops: int = option(whole, 1)
    loop: bool = flag()
    host: str | None = option(read_host, None)

    async def meet(self, call: Call, onward: Onward) -> Ending:
        """Go on with a chain that has begun, whatever `every` and the others say about new ones."""
        marks = dict(parse_qsl(call.query.decode("latin-1")))
        mark = marks.get(self._mark, "")
        if mark.isdigit():
            return await (self._onward(call, int(mark)) if self._goes_on(int(mark)) else onward())
        return await super().meet(call, onward)

    async def act(self, call: Call, onward: Onward) -> Ending:
        return await (self._onward(call, 0) if self.claim() else onward())

    def _goes_on(self, hops: int) -> bool:
        return self.loop or hops < self.hops

    async def _onward(self, call: Call, hops: int) -> Reply:
        await call.body()
        marks = dict(parse_qsl(call.query.decode("latin-1"))) | {self._mark: str(hops + 1)}
        place = f"{call.path}?{urlencode(marks)}"
        if self.host is not None:
            place = f"http://{self.host}{'' if ':' in self.host else f':{call.port}'}{place}"
        return Reply(self.status, b"", ((b"location", place.encode()),))

    @property
    def _mark(self) -> str:
        return f"hop{self.place}"
