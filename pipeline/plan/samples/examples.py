"""Examples for warnings and checks: the file and row in which a row of a block lies, found after the walk."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from operator import attrgetter

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.extractors import blocks as read_blocks
from pipeline.identity.aggregator import PLACE_SHIFT
from pipeline.plan.duplicates import EARLIER, Clash
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Example, SealedBlock
from pipeline.plan.statistics.daily_counts import day_name
from pipeline.text import printable
from pipeline.timestamps import DAY
from pipeline.transform.block import BlockTransformer
from pipeline.transform.event_keys import UPDATE
from pipeline.transform.tasks import Task, TransformConfig

_NAME_CHARACTERS = 60
_block = msgspec.json.Decoder(SealedBlock).decode


class _Properties(msgspec.Struct):
    distinct_id: str


class _Event(msgspec.Struct):
    properties: _Properties


_decode_event = msgspec.json.Decoder(_Event).decode


class SourceExamples:
    """Rows of the source as examples, found through blocks.jsonl. `paths` are those of the parts."""

    def __init__(self, directory: Directory, paths: Sequence[str]) -> None:
        self._directory = directory
        self._paths = paths
        self._blocks: NDArray[np.int64] | None = None

    def at(self, number: int, row: int, detail: str) -> Example:
        """A row of a block, both counted from 0, as an example. Its offset is that of the block."""
        with self._directory.blocks.open("rb") as lines:
            block = next(block for block in map(_block, lines) if block.number == number)
        return Example(self._paths[block.part], block.first_row + row, block.offset, detail)

    def row_at(self, place: int) -> str:
        """`row 12 of export.jsonl`: where a place (`pipeline.identity.aggregator.PLACE_SHIFT`) is."""
        if self._blocks is None:
            with self._directory.blocks.open("rb") as lines:
                blocks = ((block.part, block.first_row) for block in map(_block, lines))
                self._blocks = np.fromiter(blocks, np.dtype((np.int64, 2)))
        part, first_row = self._blocks[place >> PLACE_SHIFT].tolist()
        return f"row {first_row + (place & ((1 << PLACE_SHIFT) - 1)):,} of {self._paths[part]}"

    def ids(self, config: TransformConfig, places: Iterable[tuple[int, int]]) -> dict[tuple[int, int], str]:
        """The distinct_ids of events at (block, row), for which their blocks are read again."""
        wanted: dict[int, set[int]] = defaultdict(set)
        for number, row in places:
            wanted[number].add(row)
        ids: dict[tuple[int, int], str] = {}
        transformer = BlockTransformer(config)
        with self._directory.blocks.open("rb") as lines:
            sealed = [block for block in map(_block, lines) if block.number in wanted]
        for index, of_part in groupby(sealed, key=attrgetter("part")):
            blocks = read_blocks(config.parts[index])
            passed = 0
            for one in of_part:
                block = next(islice(blocks, one.index - passed, None))
                passed = one.index + 1
                for row in wanted[one.number]:
                    events = transformer.transform(Task(one.number, block, row + 1, first=row), observe=False)
                    if events.count:
                        ids[one.number, row] = _decode_event(events.events[0]).properties.distinct_id
        return ids

    def pairs(self, clashes: Iterable[Clash], names: Sequence[str]) -> list[str]:
        """Each clash in words: where the two rows with one key lie, their event names and UTC days, or else that they
        are of different persons."""

        def winner(clash: Clash) -> str:
            if clash.winner == EARLIER:
                return "an event that an earlier plan sent"
            return row(clash.winner, clash.winner_name, clash.winner_time)

        def row(block_row: tuple[int, int], name: int, time: int) -> str:
            example = self.at(*block_row, "")
            event = "no event" if name & int(UPDATE) else printable(names[name], _NAME_CHARACTERS)
            return f"row {example.row:,} of {example.part} ({event}, {day_name(time // DAY)})"

        def of(clash: Clash) -> str:
            alike = clash.name == clash.winner_name and clash.time // DAY == clash.winner_time // DAY
            return " of another person" if alike else ""

        return [f"{row(clash.row, clash.name, clash.time)} and {winner(clash)}" + of(clash) for clash in clashes]
