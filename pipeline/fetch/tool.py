"""What a fetch needs to know about a tool: its hosts, keys, limits and windows, and how to request one window."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pipeline.config import Secret
from pipeline.errors import BackcastError, Unfinished, UsageError
from pipeline.targets import address_of

if TYPE_CHECKING:
    from pipeline.fetch.transport import Transport

HOUR, DAY = 3600, 86_400
GROUP = "group:KEY=ID"
"""How the group profiles of one key are asked for, by the tool's id of that key."""
LATER = "run the same command again later; what else was fetched is kept"
MORE = ".more"
"""The ending of a file next to a window's, into which a tool may download more for a moment."""


class Window(NamedTuple):
    """Seconds since 1970, from `since` until before `until`, in the tool's own time."""

    since: int
    until: int

    def __str__(self) -> str:
        return f"{stamp(self.since)} to {stamp(self.until)}"

    def divided(self, pieces: int, step: int) -> list[Window]:
        """At most `pieces` windows of nearly equal length, all at multiples of `step` seconds."""
        steps = (self.until - self.since) // step
        pieces = min(pieces, steps)
        edges = [self.since + steps * number // pieces * step for number in range(pieces)] + [self.until]
        return [Window(*pair) for pair in pairwise(edges)]


def stamp(seconds: int) -> str:
    """A moment as ISO 8601; only the date if it is midnight."""
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return text.removesuffix("T00:00:00")


def seconds_of(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


class RequestLimit(NamedTuple):
    """At most `requests` in `seconds`."""

    requests: int
    seconds: float


class Fetched(msgspec.Struct, frozen=True):
    """What a window gave: the ending of the file's name, its rows, and row counts by event name.

    `counts` are those of the file and `counted` the tool's own, with "" for all events together; `counted` is None if
    the tool has no count or was not asked. A window without rows has no file.
    """

    suffix: str = ""
    rows: int = 0
    counts: Mapping[str, int] = msgspec.field(default_factory=dict)
    counted: Mapping[str, int] | None = None

    @property
    def fewer(self) -> list[str]:
        """The event names of which the tool counts more than the file has."""
        return sorted(name for name, count in (self.counted or {}).items() if self.counts.get(name, 0) < count)


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One answer about something other than events, such as people: what its file gets, and how many `rows` it has.

    `key` is the same for a page with the same rows. `cursor` asks for the next page, "" after the last one; `counted`
    is the tool's own count of all pages. `more` is what else is to fetch because of it. Only a page that is `planned`
    is read by `plan`.
    """

    content: bytes
    rows: int
    suffix: str = ".json"
    key: str = ""
    cursor: str = ""
    counted: int | None = None
    more: tuple[str, ...] = ()
    planned: bool = False


class BeginAgain(Unfinished):
    """The pages so far are of no use: the tool has forgotten them or gave one twice."""


class TooLarge(Exception):
    """A window is too much for one request. `pieces` is how many to try, `final` the error if none can be smaller."""

    def __init__(self, final: BackcastError, pieces: int = 2) -> None:
        super().__init__(final.message)
        self.final = final
        self.pieces = pieces


class FetchContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool needs for its requests. `count`: fetch its own count too. `warn` gets a line for a person. `ids` are
    the only events to fetch, if there are any. `by` says of what a window has the times: `event` or `ingestion`."""

    base: str
    project: str
    transport: Transport
    count: bool
    warn: Callable[[str], None]
    ids: frozenset[str] = frozenset()
    by: str = "event"


Fetch = Callable[[Window, Path], Fetched]
"""Downloads a window into a file. Raises TooLarge, or a BackcastError if nothing more can be done."""

FetchPage = Callable[[FetchContext, str, int, str], Page]
"""The page with a number, from 0, of what has a name in `Tool.extras`, by the cursor of the page before it. Raises
BeginAgain, or a BackcastError if nothing more can be done."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool. `hosts` are its regions; `keys` are the environment variables with its user and password, or with only
    its bearer token; those in `optional` may be absent.

    A window begins and ends at multiples of `step` seconds, and is `window` seconds long at first. An export is
    complete `delay` seconds after the window's end. `limits` are by kind of request, which the transport is given.
    `project`: the project's id is required. `counts`: the tool has counts to compare with. `clock` describes its
    windows. `ids` are where a row has its ids, as `properties/$insert_id`; a tool that `picks` asks for them itself.
    `extras` are what `page` can fetch besides events. `ingestion`: windows can also be of the time of ingestion.
    """

    name: str
    title: str
    hosts: Mapping[str, str]
    keys: tuple[str, ...]
    optional: tuple[str, ...] = ()
    project: bool
    counts: bool
    step: int
    window: int
    delay: int
    limits: Mapping[str, tuple[RequestLimit, ...]]
    clock: str
    open: Callable[[FetchContext], Fetch]
    ids: tuple[str, ...]
    picks: bool = False
    extras: tuple[str, ...] = ()
    page: FetchPage | None = None
    ingestion: bool = False

    def address(self, host: str) -> str:
        """The base address of a region or URL. Raises UsageError."""
        if host in self.hosts:
            return self.hosts[host]
        if "://" not in host:
            raise UsageError(
                f"{self.title} has no region {host!r}", hint=f"give --from one of {', '.join(self.hosts)}, or a URL"
            )
        return address_of(host)

    def secrets(self, environment: Mapping[str, str] = os.environ) -> tuple[Secret, ...]:
        """The keys from the environment, in the order of `keys`. Raises UsageError, without showing any of them."""
        found = []
        for name in self.keys:
            text = environment.get(name, "").strip()
            if not text and name not in self.optional:
                raise UsageError(
                    f"there is no key for {self.title}: {name} is not set", hint=f"set it: export {name}=…"
                )
            if not text.isascii() or (text and not text.isprintable()) or " " in text:
                raise UsageError(
                    f"{name} contains a space or another character that no key has", hint="copy the key again"
                )
            found.append(Secret(text))
        # A user without a password is the secret of a Mixpanel project.
        return tuple(sorted(found, key=lambda secret: not secret))


@cache
def tools() -> dict[str, Tool]:
    from pipeline.fetch import tools as package

    declared: list[Tool] = [
        import_module(f"{package.__name__}.{module.name}").TOOL for module in iter_modules(package.__path__)
    ]
    return {tool.name: tool for tool in declared}
