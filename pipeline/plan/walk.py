"""The one pass over a source that a plan makes: workers transform every block, and their statistics are added up.

Events, facts, ids, daily counts and rejected rows go to disk as they come, so memory does not grow with the input
(docs/know/promises.md#constant-memory).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator

import msgspec

from pipeline.errors import BackcastError
from pipeline.extractors import blocks as read_blocks
from pipeline.extractors.formats import format_of
from pipeline.extractors.stream import in_turn
from pipeline.identity.kinds import PLACE_SHIFT
from pipeline.mapper.own_code import Cost
from pipeline.models import OwnCode, Part
from pipeline.plan.blocks import PlannedBlock
from pipeline.plan.checks.rows import remedy_of
from pipeline.plan.people import PeopleBuilder
from pipeline.plan.request import Request
from pipeline.plan.sealed.directory import LinesWriter
from pipeline.plan.sealed.manifest import Example, PartSeal, as_text
from pipeline.plan.statistics.coverage import CoverageCounts
from pipeline.plan.statistics.sample import EventSample
from pipeline.plan.statistics.spilling_counts import SpillingCounts
from pipeline.text import pluralize
from pipeline.transform.block import observe_unit
from pipeline.transform.staged import read_unit
from pipeline.transform.tasks import BlockStats, Task, Unit
from pipeline.transform.unsafe_integers import Unsafe

SAME_FILE = "same_file"
"""The one notice of the extractors that is also a warning: the same bytes were given twice."""

Progress = Callable[[int, int], None]
"""Called with the numbers of rows and bytes read so far."""


FEWEST, MOST = 1, 8
"""The number of blocks in a unit: the first units have few, so that a small export is spread over all processes; later
ones have more, since each unit is a message."""
MOST_BYTES = 8 * 1024 * 1024
"""At most this many bytes of blocks travel with a unit, if no worker can read them by itself."""


def units_of(tasks: Iterable[Task]) -> Iterator[Unit]:
    """All tasks, in units that do not depend on the number of workers."""
    some: list[Task] = []
    number = carried = 0
    for task in tasks:
        some.append(task)
        carried += len(task.block.content or b"")
        if len(some) >= min(MOST, FEWEST + number // 4) or carried >= MOST_BYTES:
            yield Unit(number, some)
            some, carried, number = [], 0, number + 1
    if some:
        yield Unit(number, some)


class PartCounts:
    """What became of the rows of one part. Each row is counted once, or nothing is sealed
    (docs/know/promises.md#balance)."""

    __slots__ = ("mapped", "rejected", "rows", "skipped")

    def __init__(self) -> None:
        self.rows = self.mapped = self.skipped = self.rejected = 0

    def seal(self, part: Part, digest: str) -> PartSeal:
        """The part as a plan seals it; `digest` is the sha256 of its bytes.

        Raises BackcastError if the counts do not add up to the rows read.
        """
        if self.rows != self.mapped + self.skipped + self.rejected:
            raise BackcastError(
                f"{part.path} does not balance: {self.rows} rows read, {self.mapped} mapped,"
                f" {self.skipped} skipped, {self.rejected} rejected",
                hint="this is a bug in backcast; please report it with the mapping",
            )
        return PartSeal(
            part.path, part.bytes, digest, self.rows, self.mapped, self.skipped, self.rejected, part.format,
            part.codecs, part.dialect, as_text(part.file), as_text(part.member), part.mtime_ns, part.table,
            part.etag or msgspec.UNSET,
        )  # fmt: skip


class Walk:
    """Reads a source and adds up what its blocks contain.

    `parts` has the counts by part, `block_parts` the part of each block. `cells` counts skips and rejects by name and
    day, `zone` the offsets of the clock by month (`pipeline.clock_offsets`), `remedies` the rejected rows that each
    remedy would help, and `unsafe` the events with large integers by event name and property, with the first place.
    `bytes_read` counts the bytes of blocks, `rejected_bytes` roughly those of rejected rows of text. `code_cost` is a
    line about the time that the mapping's own code took; it is in no file, since no two plans take the same time.
    """

    def __init__(self, request: Request, people: PeopleBuilder, progress: Progress) -> None:
        self._request = request
        self._people = people
        self._progress = progress
        self._directory = request.directory
        scratch = request.directory.scratch
        self.parts = [PartCounts() for _ in request.config.parts]
        self.block_parts: list[int] = []
        self.skips: Counter[str] = Counter()
        self.rejects: Counter[str] = Counter()
        self.first_rejects: dict[str, tuple[str, int]] = {}
        self.remedies: Counter[str] = Counter()
        self.warnings: Counter[str] = Counter(note.code for note in request.source.notes if note.code == SAME_FILE)
        self.examples: dict[str, Example] = {}
        self.zone: Counter[tuple[int, int]] = Counter()
        self.events = 0
        self.event_bytes = 0
        self.bytes_read = self.rejected_bytes = 0
        counted, scope = request.config.counted, request.config.options.scope
        self.coverage = CoverageCounts(scratch, counted, scope) if counted is not None else None
        self.rules: dict[str, int] = {}
        self._ruled = counted.ruled if counted is not None else frozenset()
        self.sample = EventSample(scratch, request.config.sampled)
        self.unsafe: dict[tuple[str, str], tuple[int, int]] = {}
        self.cells = SpillingCounts(scratch / "cells.jsonl")
        self.code_cost: str | None = None
        self._cost = Cost()
        self._rows_read = 0

    def run(self, files: dict[str, str]) -> None:
        """Read the source, or as many of its rows as --limit allows. `files` receives the digests of the tables."""
        limit, engine = self._request.config.options.limit, self._request.engine
        with (
            LinesWriter(self._directory.blocks) as blocks,
            LinesWriter(self._directory.rejects) as rejects,
        ):
            started = time.perf_counter()
            if limit is None:
                mapped = engine.map(observe_unit, units_of(self.tasks()))
            else:
                mapped = (one for unit in self._limited_units(limit) for one in engine.map(observe_unit, [unit]))
            for unit, _ in mapped:
                for task, stats in zip(unit.tasks, read_unit(self._directory.staged, unit), strict=True):
                    self._add(task, stats, blocks, rejects)
            self._show_cost((time.perf_counter() - started) * max(engine.count, 1))
            files["rejects.jsonl"] = rejects.close()

    def _limited_units(self, limit: int) -> Iterator[Unit]:
        """One block at a time, as far as --limit allows, each once the rows of the block before it are known."""
        for task in self.tasks():
            if self._rows_read >= limit:
                return
            yield Unit(task.number, [task._replace(limit=limit - self._rows_read)])

    def _show_cost(self, elapsed: float) -> None:
        """Describe the cost of the mapping's own code. `elapsed` is the time of all processes together, in seconds."""
        code = self._request.mapping.python
        if not isinstance(code, OwnCode):
            return
        seconds = self._cost.nanoseconds / 1e9
        share = seconds / max(elapsed, seconds, 1e-9)
        events = pluralize(self._cost.events, "event")
        self.code_cost = f"{code.name}: {events}, {seconds:,.1f} s, {share:.0%} of the reading time"

    def reject_codes(self) -> list[str]:
        """The codes of rejected rows, the most frequent first, each with its count and its first row in words."""
        return [
            f"{code} ({count:,}), the first in row {row:,} of {path}"
            for code, count in sorted(self.rejects.items(), key=lambda one: (-one[1], one[0]))
            for path, row in [self.first_rejects[code]]
        ]

    def tasks(self) -> Generator[Task]:
        """Every block of the source, numbered from 0."""
        number = 0
        for part in in_turn(self._request.config.parts):
            for block in read_blocks(part):
                yield Task(number, block)
                number += 1

    def _add(self, task: Task, stats: BlockStats, blocks: LinesWriter, rejects: LinesWriter) -> None:
        block = task.block
        counts = self.parts[block.part]
        part = self._request.config.parts[block.part]
        first_row = counts.rows + 1
        blocks.write(
            PlannedBlock(
                task.number, block.part, block.index, block.offset, block.length, first_row,
                stats.rows, stats.events, stats.digest,
            )
        )  # fmt: skip
        for reject in stats.rejects:
            row = first_row + reject.row - 1
            rejects.write(msgspec.structs.replace(reject, row=row, sheet=part.dialect.sheet or ""))
            self.rejects[reject.code] += 1
            self.first_rejects.setdefault(reject.code, (part.path, row))
            if not reject.item and format_of(part).recognize is not None:
                self.rejected_bytes += len(reject.record)
            if remedy := remedy_of(reject.code, reject.detail):
                self.remedies[remedy] += 1
        for code, (row, offset, detail) in stats.examples.items():
            self.examples.setdefault(code, Example(part.path, first_row + row, offset, detail))
        counts.rows += stats.rows
        self._rows_read += stats.rows
        counts.mapped += stats.mapped
        counts.skipped += stats.skips.total()
        counts.rejected += stats.rejected
        self.skips.update(stats.skips)
        self.warnings.update(stats.warnings)
        self.zone.update(stats.zone)
        self.cells.add(stats.cells)
        if self.coverage is not None:
            self.coverage.add(stats.fields)
            for name, sent, _ in stats.fields.events:
                if sent and name in self._ruled:
                    self.rules.setdefault(name, task.number)
        self._people.add_block(block.part, first_row, stats)
        self._cost.events += stats.cost.events
        self._cost.nanoseconds += stats.cost.nanoseconds
        self.sample.add(task.number, stats.sampled)
        self._add_unsafe(task.number, stats.unsafe)
        self.block_parts.append(block.part)
        self.events += stats.events
        self.event_bytes += stats.event_bytes
        self.bytes_read += block.length
        self._progress(self._rows_read, self.bytes_read)

    def _add_unsafe(self, block: int, unsafe: Unsafe) -> None:
        for key, (count, row) in unsafe.items():
            known, place = self.unsafe.get(key, (0, block << PLACE_SHIFT | row))
            self.unsafe[key] = known + count, place
