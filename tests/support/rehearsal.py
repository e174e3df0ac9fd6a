"""Send events to a local service and look at the result, for the tests of persons, merges and groups."""

from __future__ import annotations

import atexit
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any
from uuid import UUID

import httpx

from pipeline.local_service import Keyring, LocalService, Settings
from pipeline.local_service.keys import Project
from pipeline.local_service.landed import GroupProfile, IngestionWarning, PersonProfile
from tests.support.plain_http import PLAIN
from tests.support.services import NOW, kept

KEYS = Keyring(
    tuple(Project(number, f"Project {number}", f"phc_test_{number}") for number in range(1, 1000)),
    {"phx_test": frozenset({"*"})},
)
_numbers = count(1)


@cache
def _shared(**switches: Any) -> Iterator[tuple[LocalService, int]]:
    """For all tests with the same switches: an empty project of a service, and of a new service once none is left."""
    while True:
        service = kept(keys=KEYS, settings=Settings(clock=lambda: NOW, **switches))
        yield from ((service, project) for project in range(1, 999, 2))


@dataclass(frozen=True)
class Room:
    """An empty project of a shared service, and the one after it."""

    service: LocalService
    project: int

    @property
    def url(self) -> str:
        return self.service.url

    def key(self, second: bool = False) -> str:
        return f"phc_test_{self.project + second}"

    def persons(self, second: bool = False) -> list[PersonProfile]:
        return self.service.persons(self.project + second)

    def groups(self, second: bool = False) -> list[GroupProfile]:
        return self.service.groups(self.project + second)

    def warnings(self) -> list[IngestionWarning]:
        return self.service.warnings(self.project)

    def select(self, sql: str) -> list[tuple[Any, ...]]:
        return self.service.store.select(sql, self.project)

    def count(self) -> int:
        return int(self.select("select count(*) from events")[0][0])


def fresh(**switches: Any) -> Room:
    """An empty project, in a service with a fixed clock."""
    return Room(*next(_shared(**switches)))


def event(
    distinct_id: Any, name: str = "Seen", day: int = 1, uuid: str | None = None, **properties: Any
) -> dict[str, Any]:
    """An event of a day in January 2023. In names of properties, `_x` means `$x`."""
    named = {f"${key[1:]}" if key.startswith("_") else key: value for key, value in properties.items()}
    return {
        "event": name,
        "properties": {"distinct_id": distinct_id} | named,
        "timestamp": f"2023-01-{day:02}T00:00:00Z",
        "uuid": uuid or str(UUID(int=next(_numbers))),
    }


def identify(user: Any, device: Any, day: int = 1, **properties: Any) -> dict[str, Any]:
    """`device` is `user`."""
    return event(user, "$identify", day, _anon_distinct_id=device, **properties)


def alias(kept: Any, other: Any, name: str = "$create_alias", **properties: Any) -> dict[str, Any]:
    """`other` is to be absorbed by `kept`."""
    return event(kept, name, alias=other, **properties)


@cache
def _client() -> httpx.Client:
    client = httpx.Client(headers={"content-type": "application/json"}, **PLAIN)
    atexit.register(client.close)
    return client


def post(url: str, key: str, body: bytes) -> None:
    """Send the JSON of a list of events; it must be taken."""
    text = b'{"api_key":"%s","historical_migration":true,"batch":%s}' % (key.encode(), body)
    answer = _client().post(url + "/batch/", content=text)
    assert (answer.status_code, answer.text) == (200, '{"status":"Ok"}')


def send(room: Room, *events: dict[str, Any], second: bool = False) -> None:
    """Send the events as one batch, to the second project if `second`."""
    post(room.url, room.key(second), json.dumps(events).encode())


def landed(*events: dict[str, Any], **switches: Any) -> list[PersonProfile]:
    """The persons that the events make."""
    room = fresh(**switches)
    send(room, *events)
    return room.persons()


def warnings_of(service: Room) -> list[tuple[str, str]]:
    """The types of the warnings, each with the distinct_id of its event."""
    return [(warning.type, warning.distinct_id) for warning in service.warnings()]
