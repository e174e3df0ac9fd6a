"""Examples for warnings and checks: the file and row of an event, its id, and how two events differ.

They are looked up in what the workers wrote about the blocks, once every block is mapped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.encoder.encoded import DecodedEvent, decode_event
from pipeline.identity.kinds import PLACE_SHIFT
from pipeline.mask import IDS
from pipeline.plan.blocks import read_blocks
from pipeline.plan.duplicates import EARLIER, Clash
from pipeline.plan.samples.source_pairs import Shown
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Example
from pipeline.plan.statistics.daily_counts import day_name
from pipeline.text import printable, some_of
from pipeline.timestamps import DAY
from pipeline.transform.staged import events_file, unstage

ID_PROPERTIES = IDS | {"$anon_distinct_id", "alias", "$alias"}
_NAME_CHARACTERS = 60
_MOST_DIFFERENCES = 2


class Place(NamedTuple):
    """Where an event is: its block, and its row and position there, all from 0."""

    block: int
    row: int
    position: int


def events_of(directory: Directory, block: int) -> Iterator[tuple[Place, bytes]]:
    """The events of a block as they were mapped, copies included, in order."""
    staged = unstage(events_file(directory.staged, block).read_bytes())
    for event, row, position in zip(staged.events, staged.row_of, staged.positions, strict=True):
        yield Place(block, row, position), event


class SourceExamples:
    """Rows of the source as examples. `paths` are those of the parts."""

    def __init__(self, directory: Directory, paths: Sequence[str]) -> None:
        self._directory = directory
        self._paths = paths
        self._found: NDArray[np.int64] | None = None

    @property
    def _blocks(self) -> NDArray[np.int64]:
        """The part, the first row and the offset of each block."""
        if self._found is None:
            blocks = ((block.part, block.first_row, block.offset) for block in read_blocks(self._directory))
            self._found = np.fromiter(blocks, np.dtype((np.int64, 3)))
        return self._found

    def at(self, number: int, row: int, detail: str) -> Example:
        """A row of a block (both numbers count from 0) as an example. Its offset is the block's."""
        part, first_row, offset = self._blocks[number].tolist()
        return Example(self._paths[part], first_row + row, offset, detail)

    def row_at(self, place: int) -> str:
        """A place (`pipeline.identity.kinds.PLACE_SHIFT`) in words: `row 12 of export.jsonl`."""
        example = self.at(place >> PLACE_SHIFT, place & ((1 << PLACE_SHIFT) - 1), "")
        return f"row {example.row:,} of {example.part}"

    def pairs(self, clashes: Iterable[Clash]) -> list[str]:
        """Each clash in words: where the two rows with one key are, and their event names and UTC days; if these are
        the same, they belong to different persons."""

        def winner(clash: Clash) -> str:
            if clash.winner_time is None:
                return "an event that an earlier plan sent with another event name"
            same = clash.name == clash.winner_name and clash.time // DAY == clash.winner_time // DAY
            where = "an event that an earlier plan sent" if clash.winner == EARLIER else row(clash.winner)
            return f"{where} {said(clash.winner_name, clash.winner_time)}" + (" of another person" if same else "")

        def row(block_row: tuple[int, int]) -> str:
            example = self.at(*block_row, "")
            return f"row {example.row:,} of {example.part}"

        def said(name: str | None, time: int) -> str:
            event = "no event" if name is None else printable(name, _NAME_CHARACTERS)
            return f"({event}, {day_name(time // DAY)})"

        return [f"{row(clash.row)} {said(clash.name, clash.time)} and {winner(clash)}" for clash in clashes]

    def differences(self, left_out: Place, sent: Place, shown: Shown) -> str:
        """The first properties and members in which two events differ, with both values, which are masked unless
        `shown` says otherwise. "" if either row is not sent as an event."""
        events = [dict(events_of(self._directory, place.block)).get(place) for place in (left_out, sent)]
        if None in events:
            return ""
        one, other = (decode_event(event) for event in events if event is not None)
        names = {name: None for event in (one, other) for name in event.properties}
        found = [
            f"{name} ({before} here, {after} sent)"
            for name, before, after in (
                ("event", printable(one.event, _NAME_CHARACTERS), printable(other.event, _NAME_CHARACTERS)),
                ("timestamp", one.timestamp, other.timestamp),
            )
            if before != after
        ]
        found += [
            f"{printable(name, _NAME_CHARACTERS)}"
            f" ({shown_value(one, name, shown)} here, {shown_value(other, name, shown)} sent)"
            for name in names
            if one.properties.get(name) != other.properties.get(name)
        ]
        if not found:
            return "they differ only in the order of their properties"
        return f"they differ in {some_of(found, _MOST_DIFFERENCES, what='place')}"


def shown_value(event: DecodedEvent, name: str, shown: Shown) -> str:
    """A property of an event as text, masked unless `shown` says so."""
    value = event.properties.get(name)
    if value is None:
        return "no value"
    # A value may contain an id, so it is shown only if both values and ids are.
    is_id = name in ID_PROPERTIES
    hidden = () if shown.ids or is_id else _ids_of(event)
    return shown.text(value, frozenset(hidden), is_id=is_id)


def _ids_of(event: DecodedEvent) -> list[str]:
    ids = (bytes(event.properties[name]).decode() for name in ID_PROPERTIES if name in event.properties)
    return [one.strip('"') for one in ids if len(one) > 5]
