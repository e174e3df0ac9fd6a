"""Plans sent to an empty project of a shared service, changes made there without their knowledge, and verify."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pipeline import api
from pipeline.local_service import LocalService, Settings
from pipeline.options import VerifyOptions
from pipeline.verify import Verification
from tests.support.deliveries import Identity, planned, run, tamper, uuid
from tests.support.rehearsal import KEYS, Room
from tests.support.services import kept

PERSONAL = "phx_test"
COPY = (
    "insert into accepted select project, -receipt, {uuid}, {event}, distinct_id, {time}, properties,"
    " historical_migration, created_at from accepted where {which}"
)
"""A second event made from one that landed, as if received before all others."""


@cache
def _shared(faults: tuple[str, ...], **switches: Any) -> tuple[LocalService, Iterator[int]]:
    """The service of all tests with these faults and switches, and its projects that are still empty."""
    return kept(keys=KEYS, settings=Settings(**switches), faults=faults), iter(range(1, 999))


def empty(*faults: str, **switches: Any) -> Room:
    """An empty project, in a service with a running clock."""
    service, projects = _shared(faults, **switches)
    return Room(service, next(projects))


class Sent(NamedTuple):
    """A plan, the project that it was sent to, and its address if the plan was sent to another."""

    directory: Path
    room: Room
    to: str = ""

    def verify(self, *, progress: Any = None, **asked: Any) -> Verification:
        """Compare what landed with what was sent."""
        asked = {"project": str(self.room.project), "api": self.room.url} | asked
        step = progress or (lambda name, done, total: None)
        return api.verify_plan(
            self.directory, self.to or self.room.url, VerifyOptions(**asked), progress=step,
            personal_key=PERSONAL, project_key=self.room.key(),
        )  # fmt: skip

    def change(self, *statements: str) -> None:
        """Change what landed in the project; each statement ends with its conditions."""
        for statement in statements:
            tamper(self.room.service, f"{statement} and project = {self.room.project}")

    def lose(self, *numbers: int) -> None:
        """Delete events by the numbers of their rows."""
        self.change(f"delete from accepted where uuid in ({', '.join(repr(uuid(one)) for one in numbers)})")

    def named(self) -> list[dict[str, Any]]:
        """Every difference that the last verification wrote."""
        return [json.loads(line) for line in (self.directory / "differences.jsonl").read_text("utf-8").splitlines()]

    def landed(self) -> set[Identity]:
        """The stored version of each event, copies collapsed."""
        events = self.room.service.events(self.room.project)
        return {(one.uuid, one.event, one.distinct_id, one.timestamp) for one in events}

    def copies(self) -> Counter[str]:
        """How often each uuid was accepted."""
        return Counter(str(one) for (one,) in self.room.select("select uuid from raw_events"))


def repair(directory: Path, to: str, project: int, key: str) -> None:
    """Send again what is missing, optionally in a separate process."""
    options = VerifyOptions(repair=True, fields="none", project=str(project))
    api.verify_plan(directory, to, options, personal_key=PERSONAL, project_key=key)


def sent(directory: Path, room: Room | None = None) -> Sent:
    """The plan after it was sent, to a project of its own unless one is given."""
    room = room or empty()
    assert run(directory, room.url, key=room.key()).balanced
    return Sent(directory, room)


def sent_rows(folder: Path, rows: int, *, room: Room | None = None, **asked: Any) -> Sent:
    """The same, for a plan of this many rows."""
    return sent(planned(folder, rows, **asked), room)
