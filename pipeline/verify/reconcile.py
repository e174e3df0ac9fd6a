"""Compare what landed with the ledger: nothing missing, nothing extra, nothing different, nothing twice.

Two sets are compared exactly, by (uuid, event, distinct_id, timestamp). Both sides are spread over files by bits of
the uuid and compared file by file, so memory does not grow with the history.

What is in doubt, or waits since a larger request with it in was turned away, may have landed or not, and is no
difference either way. Copies that are equal in all four are none either: the service collapses them.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING
from uuid import UUID

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.ledger import read_batches, read_totals
from pipeline.models import Step
from pipeline.plan.contents import PlannedBlock, task_of, tasks
from pipeline.plan.directory import Directory
from pipeline.plan.manifest import Plan
from pipeline.plan.phases import EVENTS, PHASES, phase_blocks
from pipeline.transform.tasks import Task, TransformConfig
from pipeline.transform.workers import Workers
from pipeline.verify.expected import FINGERPRINT, IN_DOUBT, LANDED, Expected, expect_block, fingerprint, fingerprints_of
from pipeline.verify.landed import Row, landed_cells, landed_copies, landed_event, landed_rows
from pipeline.verify.provenance import having, provenance_of

if TYPE_CHECKING:
    from pipeline.management import ManagementClient

SHOWN = 20
"""Differences, and cells of extra events, that are listed; all are counted."""
_SPREAD = 256
_WORST = ("missing", "different", "duplicated", "extra")
"""A cell that is wrong in several ways counts as the first of these."""

Fingerprints = NDArray[np.void]


class Difference(msgspec.Struct, frozen=True):
    """One event that differs. `kind` is `missing`, `extra`, `different` or `duplicated`.

    `landed` has the (event, distinct_id, timestamp) of each landed event of its uuid; `block` is where it was planned.
    """

    kind: str
    uuid: str
    block: int | None
    landed: list[tuple[str, str, str]]


class ExtraEvents(msgspec.Struct, frozen=True):
    """Events of one name and UTC day that are not of the plan."""

    event: str
    day: str
    count: int


class Verification(msgspec.Struct, frozen=True):
    """What verification found. `proved`: all that was sent is there, once and as it was sent.

    In `events`, `duplicated` are there a second time with another content, and `extra` counts them too; `others` are
    not of the plan, and no difference; `copies` are accepted ones that are equal to another, which collapse. In a
    project that is the plan's alone, what is not of it is `extra`. `extras` are the cells with most of what is not of
    the plan, `scope` the properties that an event had to have to be compared.
    """

    cells: dict[str, int]
    events: dict[str, int]
    differences: list[Difference]
    extras: list[ExtraEvents]
    scope: dict[str, str]
    format: str = "backcast.verify/1"

    @property
    def proved(self) -> bool:
        return not any(self.events[kind] for kind in ("missing", "extra", "different"))


def verify(
    plan: Plan,
    directory: Directory,
    config: TransformConfig,
    client: ManagementClient,
    *,
    workers: int,
    among_others: bool = False,
    whole: bool = False,
    progress: Step = lambda name, done, total: None,
) -> Verification:
    """Compare the service behind `client` with the plan's ledger.

    Events without a uuid of the plan belong to others, who may send to the project too; they are counted separately.
    Only events with the plan's provenance are read, or all of them where it was planned without. `whole`: the service
    has this plan's events alone, so any other is extra. `among_others`: the plan is one of many of its import, so only
    events with its uuids are compared, and only on the days of its events. `progress` is called with the name of
    a step, how many of its events are done, and how many it has.
    """
    marks = {} if whole else provenance_of(plan)
    where = having(marks)
    scratch = Path(tempfile.mkdtemp(prefix="verify-", dir=directory.path))
    try:
        cells = _DailyCounts()
        with _Spread(scratch / "expected") as expected, _Spread(scratch / "landed") as landed:
            totals, done = read_totals(directory.ledger), 0
            for block in _expected(plan, directory, config, workers):
                fingerprints = cells.renumbered(block)
                expected.add(fingerprints)
                done += len(fingerprints)
                progress("events as planned", done, totals.settled + totals.in_doubt)
            comparison = _Comparison(cells, alone=whole)
            counts = landed_cells(client, where=where)
            if among_others:
                days = cells.days()
                counts = Counter({cell: count for cell, count in counts.items() if cell[1] in days})
            done = 0
            for page in landed_rows(client, counts, where=where):
                landed.add(cells.fingerprints(page))
                done += len(page)
                progress("events at the target", done, counts.total())
        for want, have in zip(expected.runs(), landed.runs(), strict=True):
            comparison.compare(want, have[np.isin(_keys(have), _keys(want))] if among_others else have)
        return comparison.verification(client, marks, None if among_others else landed_copies(client, where))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _expected(plan: Plan, directory: Directory, config: TransformConfig, count: int) -> Iterator[Expected]:
    """The fingerprints of everything that the ledger says was sent, block by block."""
    ranges: dict[tuple[str, int], tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {}
    for side, state in ((0, "settled"), (1, "begun"), (1, "waiting")):
        for key in read_batches(directory.ledger, state):
            ranges.setdefault((key.phase, key.block), ([], []))[side].append((key.first, key.last))
    mapper = config.compile(config.options)
    for phase in PHASES:
        if phase == EVENTS:
            continue
        for number, events in phase_blocks(phase, plan, directory, mapper, config.options):
            settled, in_doubt = ranges.get((phase, number), ([], []))
            yield fingerprints_of(events, settled, in_doubt, number)

    def choose(planned: PlannedBlock) -> Task | None:
        sent = ranges.get(("events", planned.sealed.number))
        return task_of(plan, planned)._replace(ended=sent[0], doubtful=sent[1]) if sent else None

    if not any(phase == "events" for phase, _ in ranges):
        return
    with Workers(count, config) as workers:
        for _, expected in workers.walk(expect_block, tasks(plan, directory, config.parts, choose)):
            yield expected


class _DailyCounts:
    """Numbers for cells (event, UTC day), one numbering for both sides."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def names(self) -> list[tuple[str, str]]:
        """(event, UTC day) of each, by its number."""
        return list(self._numbers)

    def days(self) -> set[str]:
        """The UTC days of all cells."""
        return {day for _, day in self._numbers}

    def renumbered(self, expected: Expected) -> Fingerprints:
        fingerprints = np.frombuffer(expected.fingerprints, FINGERPRINT).copy()
        if len(fingerprints):
            fingerprints["cell"] = np.array([self._number(*cell) for cell in expected.cells], np.uint32)[
                fingerprints["cell"]
            ]
        return fingerprints

    def fingerprints(self, page: list[Row]) -> Fingerprints:
        rows = [(*fingerprint(u, e, d, t), LANDED, self._number(e, t[:10])) for u, e, d, t in page]
        return np.array(rows, FINGERPRINT)

    def _number(self, event: str, day: str) -> int:
        return self._numbers.setdefault((event, day), len(self._numbers))


class _Spread:
    """Fingerprints in files by the last bits of their uuid, which are random in every version of one."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._paths = [directory / f"{index:03d}" for index in range(_SPREAD)]
        self._files: dict[int, IO[bytes]] = {}

    def add(self, fingerprints: Fingerprints) -> None:
        where = fingerprints["lo"] % np.uint64(_SPREAD)
        order = np.argsort(where, kind="stable")
        fingerprints, where = fingerprints[order], where[order]
        starts = np.flatnonzero(np.diff(where, prepend=-1)).tolist()
        for first, last in zip(starts, [*starts[1:], len(fingerprints)], strict=True):
            self._file(int(where[first])).write(fingerprints[first:last].tobytes())

    def _file(self, index: int) -> IO[bytes]:
        if index not in self._files:
            self._files[index] = self._paths[index].open("wb")
        return self._files[index]

    def __enter__(self) -> _Spread:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    def runs(self) -> Iterator[Fingerprints]:
        """All fingerprints, file by file. To be called once it is closed."""
        for index, path in enumerate(self._paths):
            yield np.fromfile(path, FINGERPRINT) if index in self._files else np.empty(0, FINGERPRINT)


class _Comparison:
    """Counts, part by part, what agrees and what does not. Created when the cells of the plan are known."""

    def __init__(self, cells: _DailyCounts, *, alone: bool) -> None:
        self._cells = cells
        self._planned = len(cells)
        self._alone = alone
        self._counts = dict.fromkeys(
            ("expected", "found", "missing", "extra", "duplicated", "different", "others", "copies"), 0
        )
        self._wrong: dict[str, set[int]] = {kind: set() for kind in _WORST}
        self._named: list[tuple[str, str, int | None]] = []
        self._extras: Counter[int] = Counter()

    def compare(self, want: Fingerprints, have: Fingerprints) -> None:
        """Compare one part of each side; equal uuids are in the same part."""
        keys, first = np.unique(_packed(have), return_index=True)
        counts = self._counts
        counts["copies"] += len(have) - len(keys)
        have = have[first]
        if not self._alone:
            ours = np.isin(_keys(have), _keys(want))
            self._set_apart(have[~ours])
            have, keys = have[ours], keys[ours]
        wanted = np.isin(_packed(want), keys)
        in_doubt = want["block"] <= IN_DOUBT
        counts["expected"] += int(np.count_nonzero(wanted | ~in_doubt))
        counts["found"] += len(have)
        lost = want[~wanted & ~in_doubt]
        strange = have[~np.isin(keys, _packed(want))]
        if not len(lost) and not len(strange):
            return
        landed, right = _uuids(strange), _uuids(want[wanted])
        missed, open_ = _uuids(lost), _uuids(want[~wanted & in_doubt])
        for event in lost.tolist():
            self._count("different" if event[:2] in landed else "missing", event)
        for event in strange.tolist():
            uuid = event[:2]
            if uuid in right:
                self._count("duplicated", event)
            elif uuid in missed:
                self._wrong["different"].add(event[5])  # counted already, with the planned event
                right.add(uuid)
            elif uuid in open_:
                self._count("different", event)
                right.add(uuid)
            else:
                self._count("extra", event)

    def _set_apart(self, foreign: Fingerprints) -> None:
        """Count events that are not of the plan."""
        self._counts["others"] += len(foreign)
        cells, counts = np.unique(foreign["cell"], return_counts=True)
        self._extras.update(dict(zip(cells.tolist(), counts.tolist(), strict=True)))

    def _count(self, kind: str, event: tuple[int, int, int, int, int, int]) -> None:
        self._counts[kind] += 1
        self._counts["extra"] += kind == "duplicated"
        self._wrong[kind].add(event[5])
        if kind == "extra":
            self._extras[event[5]] += 1
        if len(self._named) < SHOWN:
            self._named.append((kind, str(UUID(int=event[0] << 64 | event[1])), None if event[4] < 0 else event[4]))

    def verification(self, client: ManagementClient, scope: Mapping[str, str], accepted: int | None) -> Verification:
        """The result, with what landed under each uuid that is named. `accepted` counts copies too, where known."""
        tally = {"match": 0, "missing": 0, "extra": 0, "duplicated": 0, "different": 0}
        taken: set[int] = set()
        for kind in _WORST:
            tally[kind] = len(self._wrong[kind] - taken)
            taken |= self._wrong[kind]
        tally["match"] = self._planned - sum(cell < self._planned for cell in taken)
        if accepted is not None:
            self._counts["copies"] = max(0, accepted - self._counts["found"] - self._counts["others"])
        named = [Difference(kind, uuid, block, landed_event(client, uuid)) for kind, uuid, block in self._named]
        names = self._cells.names()
        extras = [ExtraEvents(*names[cell], count) for cell, count in self._extras.most_common(SHOWN)]
        return Verification(tally, dict(self._counts), named, extras, dict(scope))


def _packed(fingerprints: Fingerprints) -> NDArray[np.void]:
    """Uuid and content of each fingerprint as 32 bytes that compare whole."""
    return _columns(fingerprints, "hi", "lo", "what_hi", "what_lo")


def _keys(fingerprints: Fingerprints) -> NDArray[np.void]:
    """The uuid of each fingerprint as 16 bytes that compare whole."""
    return _columns(fingerprints, "hi", "lo")


def _columns(fingerprints: Fingerprints, *names: str) -> NDArray[np.void]:
    columns = np.ascontiguousarray(np.stack([fingerprints[name] for name in names], axis=1))
    return columns.view(f"V{columns.itemsize * len(names)}")[:, 0]


def _uuids(fingerprints: Fingerprints) -> set[tuple[int, int]]:
    return set(zip(fingerprints["hi"].tolist(), fingerprints["lo"].tolist(), strict=True))
