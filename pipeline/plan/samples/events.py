"""Single events of a source, read again after the walk: the blocks that contain them, and the event at a place."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, islice
from operator import attrgetter
from typing import NamedTuple

import msgspec
from msgspec import Raw

from pipeline.extractors import blocks as read_blocks
from pipeline.models import Block
from pipeline.plan.sealed.directory import Directory, read_lines
from pipeline.plan.sealed.manifest import SealedBlock
from pipeline.transform.block import BlockTransformer
from pipeline.transform.tasks import Task, TransformConfig

_FREE_BLOCKS = 64


class Place(NamedTuple):
    """Where an event is: block of the source, row and position in it, all from 0."""

    block: int
    row: int
    position: int


class DecodedEvent(msgspec.Struct):
    """An event as it is sent; the distinct_id is one of its properties."""

    event: str
    properties: dict[str, Raw]
    timestamp: str
    uuid: str


decode_event = msgspec.json.Decoder(DecodedEvent).decode


def wanted_blocks(
    directory: Directory, config: TransformConfig, wanted: set[int]
) -> Iterator[tuple[SealedBlock, Block]]:
    """The wanted blocks with their content, as far as reading up to them is no great work.

    A file that cannot be entered in the middle is read from its beginning, at most a tenth of the export in all.
    """
    some = []
    total = 0
    for sealed in read_lines(directory.blocks, SealedBlock):
        total += 1
        if sealed.number in wanted:
            some.append(sealed)
    budget = max(_FREE_BLOCKS, total // 10)
    for part, of_part in groupby(some, key=attrgetter("part")):
        fresh = read_blocks(config.parts[part])
        first = next(fresh, None)
        block, at = first, 0
        for sealed in of_part:
            if first is not None and first.content is None:
                yield sealed, Block(sealed.part, sealed.index, sealed.offset, sealed.length)
                continue
            steps = sealed.index - at
            if steps > budget:
                break
            budget -= steps
            if steps:
                block = next(islice(fresh, steps - 1, steps), None)
                at = sealed.index
            if block is not None:
                yield sealed, block


def event_at(transformer: BlockTransformer, block: Block, place: Place) -> bytes | None:
    """The bytes of the event at a place; None where the row is rejected."""
    events = transformer.transform(Task(place.block, block, place.row + 1, first=place.row), observe=False)
    positions = events.positions or [0] * events.count
    for encoded, row, position in zip(events.events, events.row_of, positions, strict=True):
        if (row, position) == place[1:]:
            return bytes(encoded)
    return None
