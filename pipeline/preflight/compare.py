"""Compares all events of a plan with what the target has of the same names and days.

Both sides are spread over files by hashes, as in a verification, so that memory does not grow with them.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, NamedTuple
from uuid import UUID

import numpy as np
import xxhash
from numpy.typing import NDArray

from pipeline.encoder.encoded import read_event
from pipeline.engines.local import Workers
from pipeline.plan.sealed.contents import PlannedBlock, task_of, tasks
from pipeline.preflight.live import Cell
from pipeline.preflight.matches import Comparison, Matches, Ranges, has_day, looked, rows_of, second_of
from pipeline.transform.block import BlockTransformer
from pipeline.transform.tasks import Task
from pipeline.verify.landed import Row

_FILES = 64
RECORD = np.dtype([("hi", "<u8"), ("lo", "<u8"), ("key", "<u8"), ("cell", "<u4"), ("sent", "u1")])
"""An event: its uuid, the hash of (name, distinct_id, second), the index of its cell, and 1 where it was sent."""
Records = NDArray[np.void]


class Planned(NamedTuple):
    """The events of one block: RECORD records whose `cell` is an index of `cells`."""

    records: bytes
    cells: list[Cell]


def records_of(transformer: BlockTransformer, task: Task) -> Planned:
    """The events of a block; `task.ended` are the ranges of those that were sent."""
    sent = [looked(read_event(event)) for event in transformer.sent_events(task)]
    numbers: dict[Cell, int] = {}
    rows = [
        (*_words(event.uuid), key_of(*event[1:]), numbers.setdefault(event.cell, len(numbers)), 0) for event in sent
    ]
    records = np.array(rows, RECORD)
    records["sent"] = flags(len(records), task.ended)
    return Planned(records.tobytes(), list(numbers))


def key_of(event: str, distinct_id: str, second: str) -> int:
    """A hash of what makes two events the same."""
    return xxhash.xxh3_64_intdigest(f"{event}\x1f{distinct_id}\x1f{second}".encode("utf-8", "surrogatepass"))


def compare_all(comparison: Comparison, sample: Matches, ranges: Ranges) -> Matches:
    """Compare every event of the names and days of both sides. Raises Refused, Unfinished, StalePlan."""
    common = comparison.common
    days = sorted({day for _, day in common})
    cells = sorted(common)
    number = {cell: index for index, cell in enumerate(cells)}
    found = Matches(sample.shared, complete=True, examples=sample.examples)

    def choose(planned: PlannedBlock) -> Task | None:
        if not has_day(planned, days):
            return None
        return task_of(comparison.plan, planned)._replace(ended=ranges.get(planned.sealed.number, ()))

    scratch = Path(tempfile.mkdtemp(prefix="preflight-", dir=comparison.directory.path))
    try:
        with _Files(scratch / "planned", "lo") as planned, _Files(scratch / "landed", "lo") as landed:
            with Workers(comparison.workers, comparison.config) as workers:
                for _, block in workers.walk(records_of, tasks(comparison.directory, choose)):
                    planned.add(_in_cells(block, number))
            for page in rows_of(comparison.questions, {cell: comparison.cells.count(cell) for cell in cells}, ""):
                landed.add(_landed_records(page, number))
        with _Files(scratch / "mine", "key") as mine, _Files(scratch / "others", "key") as others:
            for want, have in zip(planned.parts(), landed.parts(), strict=True):
                found.compared += int(np.count_nonzero(want["sent"] == 0))
                there = np.isin(_uuids(want), _uuids(have))
                waiting = want["sent"] == 0
                _count(found.held, want[there & waiting], cells)
                mine.add(want[~there & waiting])
                others.add(have[~np.isin(_uuids(have), _uuids(want))])
        for want, have in zip(mine.parts(), others.parts(), strict=True):
            _count(found.doubled, paired(want, have), cells)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return found


def _in_cells(block: Planned, number: Mapping[Cell, int]) -> Records:
    """The records of a block whose cells are compared, with the numbers of those cells."""
    records = np.frombuffer(bytearray(block.records), RECORD)
    numbers = np.array([number.get(cell, -1) for cell in block.cells], np.int64)
    if not len(records):
        return records
    chosen = numbers[records["cell"]]
    records["cell"] = np.maximum(chosen, 0)
    kept: Records = records[chosen >= 0]
    return kept


def _landed_records(page: list[Row], number: Mapping[Cell, int]) -> Records:
    rows = []
    for uuid, event, distinct_id, moment, _ in page:
        second = second_of(moment)
        cell = number.get((event, second[:10]))
        if cell is not None:
            rows.append((*_words(uuid), key_of(event, distinct_id, second), cell, 0))
    return np.array(rows, RECORD)


def paired(want: Records, have: Records) -> Records:
    """The planned events that are the same as others, each of which stands for one planned event."""
    keys, counts = np.unique(have["key"], return_counts=True)
    if not len(keys):
        return want[:0]
    want = want[np.argsort(want["key"], kind="stable")]
    place = np.minimum(np.searchsorted(keys, want["key"]), len(keys) - 1)
    first = np.searchsorted(want["key"], want["key"])
    rank = np.arange(len(want)) - first
    chosen: Records = want[(keys[place] == want["key"]) & (rank < counts[place])]
    return chosen


def _count(counts: Counter[Cell], records: Records, cells: Sequence[Cell]) -> None:
    numbers, times = np.unique(records["cell"], return_counts=True)
    counts.update({cells[number]: count for number, count in zip(numbers.tolist(), times.tolist(), strict=True)})


def flags(length: int, ranges: Iterable[tuple[int, int]]) -> NDArray[np.uint8]:
    """1 for each event of a block that lies in one of the (first, last) ranges."""
    flags = np.zeros(length, np.uint8)
    for first, last in ranges:
        flags[first : last + 1] = 1
    return flags


def _words(uuid: str) -> tuple[int, int]:
    number = UUID(uuid).int
    return number >> 64, number & 0xFFFFFFFFFFFFFFFF


def _uuids(records: Records) -> NDArray[np.void]:
    """The uuid of each record as 16 bytes that compare whole."""
    columns = np.ascontiguousarray(np.stack([records["hi"], records["lo"]], axis=1))
    whole: NDArray[np.void] = columns.view("V16")[:, 0]
    return whole


class _Files:
    """Records in files by a field of them, so that equal ones are in one file. A context manager, to be written in."""

    def __init__(self, folder: Path, by: str) -> None:
        folder.mkdir()
        self._by = by
        self._paths = [folder / f"{index:02d}" for index in range(_FILES)]
        self._stack = ExitStack()
        self._files: list[IO[bytes]] = []

    def __enter__(self) -> _Files:
        self._files = [self._stack.enter_context(path.open("wb")) for path in self._paths]
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, records: Records) -> None:
        where = records[self._by] % np.uint64(_FILES)
        for index in np.unique(where).tolist():
            self._files[index].write(records[where == index].tobytes())

    def parts(self) -> Iterator[Records]:
        """All records, file by file. To be called once they are written."""
        for path in self._paths:
            yield np.fromfile(path, RECORD)
