"""The export APIs of Mixpanel, Amplitude and PostHog as scripted servers, with their known misbehaviours.

Their events follow from a number, so a test knows what has to arrive. A fault replaces the answer to one request.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import signal
import sys
import zipfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, unquote_plus
from uuid import UUID

from pipeline.fetch.run import FetchResult, fetch_export
from pipeline.fetch.transport import Clock
from pipeline.options import FetchOptions
from tests.support.scripted_server import Asked, Canned, Server, serving

DAY, HOUR = 86_400, 3600
START = int(datetime(2023, 3, 1, tzinfo=UTC).timestamp())
KEYS = {
    "BACKCAST_MIXPANEL_USERNAME": "testMARKED-account", "BACKCAST_MIXPANEL_SECRET": "testMARKED-mixpanel",
    "BACKCAST_AMPLITUDE_API_KEY": "testMARKED-api", "BACKCAST_AMPLITUDE_SECRET_KEY": "testMARKED-amplitude",
    "BACKCAST_POSTHOG_KEY": "phx_testMARKED",
}  # fmt: skip
Fault = Callable[[Canned], Canned]
STEPS = ("open", "os.rename", "os.remove", "os.mkdir")
"""Audit events for changes of a folder; `open` only for writing."""


def text(seconds: float, format: str = "%Y-%m-%d %H:%M:%S.%f") -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(format)


def moment(written: str, format: str = "%Y-%m-%d") -> int:
    return int(datetime.strptime(written, format).replace(tzinfo=UTC).timestamp())


def uuid(number: int) -> str:
    return str(UUID(int=(number * 0x9E3779B97F4A7C15F39CC0605CEDC835) % (1 << 128), version=4))


class FakeClock:
    """Time that passes only during waits; `waits` are the seconds of each."""

    def __init__(self) -> None:
        self.time = 0.0
        self.waits: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time += seconds

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.time, self.sleep)


@dataclass
class Api(ABC):
    """A tool's API. `faults` are by the number of the request; `events` are moments in seconds, in their order."""

    events: list[float]
    faults: Mapping[int, Fault] = field(default_factory=dict)

    tool = ""

    def __call__(self, asked: Asked) -> Canned:
        said = self.answer(asked)
        return self.faults[asked.number](said) if asked.number in self.faults else said

    @abstractmethod
    def answer(self, asked: Asked) -> Canned:
        """The answer of the API if no fault intervenes."""

    @property
    def project(self) -> str | None:
        return "7"


class Mixpanel(Api):
    """Gzipped JSON lines of whole days; a day without an event is alternately 404 and an empty 200."""

    tool = "mixpanel"
    uncounted = 0
    """Events of each answer that the count has in addition."""
    page_size = 10
    members: Mapping[str, Sequence[str]] = MappingProxyType({})
    """The ids of people, of the groups of a `data_group_id` and of the members of `cohort:ID`."""
    expired: Collection[int] = ()
    """Which requests for a page find that their session is gone."""
    sessions = 0

    def listing(self, asked: Asked) -> Canned:
        """The Engage API: a session lists what there was when it began."""
        form = dict(parse_qsl(asked.body.decode()))
        cohort = json.loads(form.get("filter_by_cohort", "{}")).get("id")
        ids = self.members[f"cohort:{cohort}" if cohort else form.get("data_group_id", "people")]
        number, session = int(form.get("page", 0)), form.get("session_id")
        if session is None:
            self.sessions += 1
            session = f"1-{self.sessions}"
        elif asked.number in self.expired or session != f"1-{self.sessions}":
            return Canned(400, {"error": "session_id is not valid", "status": "error"})
        some = ids[number * self.page_size : (number + 1) * self.page_size]
        results = [{"$distinct_id": id, "$properties": {"$email": f"{id}@example.com", "big": 2**60}} for id in some]
        page = {"page": number, "page_size": self.page_size, "session_id": session, "total": len(ids)}
        return Canned(200, page | {"status": "ok", "results": results})

    def answer(self, asked: Asked) -> Canned:
        if asked.path.startswith("/api/query/") and asked.path != "/api/query/jql":
            assert asked.query["project_id"] == "7"
            if asked.path == "/api/query/engage":
                return self.listing(asked)
            assert asked.path == "/api/query/cohorts/list"
            ids = [of.removeprefix("cohort:") for of in self.members if of.startswith("cohort:")]
            return Canned(200, [{"id": int(id), "name": f"Cohort {id}", "count": 1, "project_id": 7} for id in ids])
        if asked.path == "/api/app/projects/7/annotations":
            assert asked.method == "GET"
            notes = [{"id": 1, "date": "2023-03-01 00:00:00", "description": "Launch"}]
            return Canned(200, {"status": "ok", "results": notes})
        if asked.path == "/api/query/jql":
            form = dict(pair.split("=", 1) for pair in asked.body.decode().split("&"))
            days = re.findall(r"\d{4}-\d\d-\d\d", unquote_plus(form["params"]))
            counts = Counter(event["event"] for event in self.rows(*days))
            return Canned(200, [{"key": [name], "value": n + self.uncounted} for name, n in sorted(counts.items())])
        assert asked.path == "/api/2.0/export"
        assert asked.query["project_id"] == "7"
        rows = self.rows(asked.query["from_date"], asked.query["to_date"])
        if not rows:
            return Canned(200 if moment(asked.query["from_date"]) // DAY % 2 else 404)
        body = "".join(json.dumps(row) + "\n" for row in rows).encode()
        return Canned(200, gzip.compress(body, mtime=0), {"Content-Encoding": "gzip"})

    def rows(self, first: str, last: str) -> list[dict[str, Any]]:
        return [
            {
                "event": f"Step {number % 3}",
                "properties": {
                    "time": int(at), "distinct_id": f"u-{number % 5}", "$insert_id": f"i{number}",
                    "mp_processing_time_ms": int(at * 1000) + 300, "big": 2**60 + number,
                },
            }
            for number, at in enumerate(self.events)
            if moment(first) <= at < moment(last) + DAY
        ]  # fmt: skip


@dataclass
class Amplitude(Api):
    """Zips of gzipped JSON lines, one per hour of upload; 404 without an event, 400 for more than `most` of them."""

    most: int = 1_000_000

    tool = "amplitude"

    def answer(self, asked: Asked) -> Canned:
        assert asked.path == "/api/2/export"
        since, until = (moment(asked.query[name], "%Y%m%dT%H") for name in ("start", "end"))
        hours: dict[int, list[str]] = {}
        for number, at in enumerate(self.events):
            if since <= at < until + HOUR:
                hours.setdefault(int(at) // HOUR * HOUR, []).append(json.dumps(self.row(number, at)))
        if not hours:
            return Canned(404, b"Raw data files were not found.")
        if sum(map(len, hours.values())) > self.most:
            return Canned(400, b"The file size of the exported data is too large.")
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            for hour, lines in hours.items():
                name = f"7/7_{text(hour, '%Y-%m-%d')}_{hour % DAY // HOUR}#0.json.gz"
                data = gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0)
                archive.writestr(zipfile.ZipInfo(name), data)
        return Canned(200, content.getvalue(), {"Content-Type": "application/zip"})

    def row(self, number: int, at: float) -> dict[str, Any]:
        return {
            "event_type": f"Step {number % 3}", "event_time": text(at), "uuid": uuid(number),
            "user_id": f"u-{number % 5}", "device_id": f"d-{number % 5}", "amplitude_id": number % 5,
            "$insert_id": f"i{number}", "session_id": -1, "server_upload_time": text(at), "client_event_time": text(at),
            "event_properties": {"big": 2**60 + number}, "user_properties": {}, "platform": "Web",
            "library": "http/2.0",
        }  # fmt: skip


@dataclass
class PostHog(Api):
    """Answers the two queries of a fetch. `slow` is how many events of a window take longer than a query may; `same`
    are events that have the uuid of another one, by their numbers."""

    slow: int = 1_000_000_000
    same: Mapping[int, int] = field(default_factory=dict)

    tool = "posthog"
    _moments = re.compile(r"toDateTime64\('([^']+)', 6, 'UTC'\)")

    def answer(self, asked: Asked) -> Canned:
        assert asked.path == "/api/projects/7/query/"
        sql = asked.json["query"]["query"]
        times = [datetime.fromisoformat(found + "+00:00").timestamp() for found in self._moments.findall(sql)]
        rows = [row for row in self.all_rows if times[0] <= row[0] < times[1]]
        if chosen := re.search(r"uuid in \(([^)]*)\)", sql):
            rows = [row for row in rows if f"'{row[1]}'" in chosen[1]]
        if len(rows) > self.slow:
            return Canned(504, {"detail": "Query took too long"})
        if distinct := re.match(r"select count\(distinct (.+)\) from", sql):
            counted = {"uuid": {row[1] for row in rows}, "(timestamp, uuid)": {row[:2] for row in rows}}[distinct[1]]
            return Canned(200, {"columns": ["n"], "types": [], "results": [[len(counted)]]})
        if after := re.search(r"uuid > toUUID\('([^']+)'\)", sql):
            rows = [row for row in rows if (row[0], row[1]) > (times[2], after[1])]
        limit = re.search(r"limit (\d+)$", sql)
        assert limit is not None
        assert int(limit[1]) <= 50_000
        return Canned(200, {"columns": [], "types": [], "results": [self.shown(*row) for row in rows[: int(limit[1])]]})

    @cached_property
    def all_rows(self) -> list[tuple[float, str, int]]:
        return self.rows()

    def rows(self) -> list[tuple[float, str, int]]:
        return sorted((at, uuid(self.same.get(number, number)), number) for number, at in enumerate(self.events))

    def shown(self, at: float, id: str, number: int) -> list[Any]:
        """A row in the zone of a project in Kathmandu, as the service shows times."""
        local = text(at + 20_700, "%Y-%m-%dT%H:%M:%S.%f+05:45")
        properties = f'{{"price": 1.10, "big": {2**70 + number}}}'
        return [id, f"Step {number % 3}", properties, f"u-{number % 5}", local, local, "", uuid(number % 5 + 10**6)]


@contextmanager
def exporting(api: Api) -> Iterator[Server]:
    """Serve an API on loopback."""
    with serving(api, methods=("GET", "POST")) as server:
        yield server


def fetch(
    api: Api, server: Server, folder: Path, days: int = 1, *, clock: FakeClock | None = None, **options: Any
) -> FetchResult:
    """Fetch this many days from START, with keys and without waiting."""
    warn = options.pop("warn", lambda line: None)
    asked = FetchOptions(host=server.url, project=api.project, first_pause=0, **options)
    between = text(START, "%Y-%m-%d"), text(START + days * DAY, "%Y-%m-%d")
    used = (clock or FakeClock()).clock
    return fetch_export(api.tool, between, folder, asked, environment=KEYS, warn=warn, clock=used)


def fetched(api: Api, folder: Path, days: int = 1, **options: Any) -> tuple[FetchResult, list[Asked]]:
    """Fetch in the same way from a new server; and the requests that it got."""
    with exporting(api) as server:
        return fetch(api, server, folder, days, **options), server.asked


def files(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def spread(count: int, days: int) -> list[float]:
    """This many moments over some days from START, with fractions of a second."""
    return [START + (number * 7919.25) % (days * DAY) for number in range(count)]


def cut_body(share: float) -> Fault:
    """The connection is cut inside the body."""
    return lambda said: replace(said, cut=int(len(said.body) * share))


def truncated(share: float) -> Fault:
    """The body ends early, and the announced length is that of what came."""
    return lambda said: replace(said, body=said.body[: int(len(said.body) * share)])


def instead(*said: Any) -> Fault:
    """Another answer."""
    return lambda _: Canned(*said)


def plain(change: Callable[[bytes], bytes]) -> Fault:
    """Other lines in a gzipped body."""
    return lambda said: replace(said, body=gzip.compress(change(gzip.decompress(said.body)), mtime=0))


def in_archive(change: Callable[[bytes], bytes]) -> Fault:
    """Other lines in the first file of an archive, which is whole again."""

    def changed(said: Canned) -> Canned:
        content = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(said.body)) as before, zipfile.ZipFile(content, "w") as after:
            for number, name in enumerate(before.namelist()):
                lines = gzip.decompress(before.read(name))
                after.writestr(name, gzip.compress(lines if number else change(lines)))
        return replace(said, body=content.getvalue())

    return changed


def encrypted(said: Canned) -> Canned:
    """The first file of an archive is marked as needing a password."""
    body = bytearray(said.body)
    for header, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        body[body.index(header) + flags] |= 1
    return replace(said, body=bytes(body))


def kill_at(api: Api, server: Server, folder: Path, at: int) -> None:
    """Fetch, and die by SIGKILL before the step with this number that changes something in the folder."""
    steps = 0

    def watch(event: str, args: tuple[Any, ...]) -> None:
        nonlocal steps
        if event in STEPS and str(args[0]).startswith(str(folder)) and (event != "open" or "w" in str(args[1])):
            steps += 1
            if steps > at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    fetch(api, server, folder, 3)
