"""Which events of a plan the target has already: under their own uuids, or under others, as from an earlier script.

Two events are the *same* when their name, distinct_id and second are equal: scripts often drop the fraction of a
second, and none of the usual ones sends a uuid (docs/know/peers.md#sample-scripts). Only names and UTC
days of which both sides have events are looked at, and of the export only blocks with such days are read. Events that
this plan's ledger has begun or settled count for nothing: they are there because they were sent.

A sample of the plan's events is looked up first (`sample`); where it finds any, all are compared (`compare`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec

from pipeline.encoder.encoded import SentEvent
from pipeline.ledger import read_batches
from pipeline.plan.sealed.contents import PlannedBlock
from pipeline.plan.sealed.directory import EVENTS
from pipeline.preflight.live import Cell, micros
from pipeline.timestamps import format_utc
from pipeline.verify.landed import Row, landed_pages

if TYPE_CHECKING:
    from pipeline.management import ManagementClient
    from pipeline.plan.sealed.directory import Directory
    from pipeline.plan.sealed.manifest import Plan
    from pipeline.preflight.live import TargetCells
    from pipeline.preflight.questions import Questions
    from pipeline.transform.tasks import TransformConfig

MOST_EXAMPLES = 10


class Example(NamedTuple):
    """A planned event that is there already: under its own `uuid`, or as another one, `other` ("" for its own)."""

    event: str
    day: str
    uuid: str
    other: str


class Matches(msgspec.Struct):
    """What of a plan's events is there: `compared` of the `shared` ones on names and days of both were looked at.

    `held` counts those under their own uuids by cell, `doubled` the same events under other uuids; both are of the
    events compared. `complete`: every event was.
    """

    shared: int
    compared: int = 0
    complete: bool = False
    held: Counter[Cell] = msgspec.field(default_factory=Counter)
    doubled: Counter[Cell] = msgspec.field(default_factory=Counter)
    examples: list[Example] = msgspec.field(default_factory=list)

    def estimated(self, found: Counter[Cell]) -> int:
        """How many of all events these are: their number where every event was compared, else by their share."""
        count = found.total()
        return count if self.complete or not self.compared else -(-count * self.shared // self.compared)


class Comparison(msgspec.Struct, frozen=True):
    """What is compared with what: a plan's events of the cells that the target has events of, too."""

    plan: Plan
    directory: Directory
    config: TransformConfig
    planned: Mapping[Cell, int]
    cells: TargetCells
    questions: Questions
    workers: int = 0
    sample: int = 1_000
    """Planned events that are looked up before all are compared."""

    @property
    def common(self) -> set[Cell]:
        """Names and days of which both sides have events."""
        return {cell for cell in self.planned if cell in self.cells}


Ranges = Mapping[int, Sequence[tuple[int, int]]]
"""By block: the (first, last) events that were sent, in doubt or not."""


def sent_ranges(directory: Directory) -> Ranges:
    ranges: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for state in ("settled", "begun", "waiting"):
        for key in read_batches(directory.ledger, state):
            if key.phase == EVENTS:
                ranges[key.block].append((key.first, key.last))
    return ranges


def has_day(planned: PlannedBlock, days: Sequence[str]) -> bool:
    """Whether a block may have an event of one of these days, which are sorted."""
    span = planned.sealed.days
    if span is None:
        return planned.sealed.events > 0
    return bool(next((day for day in days if span[0] <= day <= span[1]), ""))


class Looked(NamedTuple):
    """An event of the sample."""

    uuid: str
    event: str
    distinct_id: str
    second: str

    @property
    def cell(self) -> Cell:
        return self.event, self.second[:10]


def looked(sent: SentEvent) -> Looked:
    return Looked(sent.uuid, sent.event, sent.properties.distinct_id, second_of(sent.timestamp))


def rows_of(questions: Questions, cells: Mapping[Cell, int], where: str) -> Iterator[list[Row]]:
    """Rows of the days of these cells. `landed_pages` asks by `query` alone, which questions have as a client has."""
    for rows, _ in landed_pages(cast("ManagementClient", questions), Counter(cells), where=where):
        yield rows


def second_of(moment: str) -> str:
    """The whole second in UTC of a time as it was sent, or as a service answers it: `2023-01-31T12:00:00`."""
    if moment.endswith("Z"):
        return moment[:19].replace(" ", "T")
    return format_utc(micros(moment) // 1_000_000 * 1_000_000)[:19]
