"""The phases of a sending, in their order, and the encoded events of the phases other than events.

Merges come first, because a merge that arrives after the events it joins leaves two persons. Groups come next, because
the first five group types take all places, and with them the properties that `--promoted-properties final` sets once
before events do. Profile updates come last, because events can overwrite them (docs/know/service.md#persons). The
lines of a sealed file are cut into blocks by one rule, so a place in the ledger always names the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import msgspec

from pipeline.batcher import Batch, pack
from pipeline.encoder.event import Encoder
from pipeline.encoder.updates import (
    SealedGroup,
    SealedInitial,
    SealedLink,
    SealedPerson,
    encode_group,
    encode_merge,
    encode_profile,
)
from pipeline.models import BLOCK_BYTES, BLOCK_ROWS, SealedOptions
from pipeline.plan.sealed.directory import EVENTS as EVENTS
from pipeline.plan.sealed.directory import PHASES as PHASES
from pipeline.plan.sealed.directory import Directory, sealed_file
from pipeline.plan.sealed.manifest import Plan
from pipeline.transform.block import BlockTransformer
from pipeline.transform.events import Mapper

SealedRecord = SealedLink | SealedGroup | SealedPerson
"""A line of a sealed file; a SealedInitial is a SealedPerson."""


class _Kind(msgspec.Struct):
    """The tag that distinguishes a line of a person from one of a group."""

    kind: str = ""


def phase_blocks(
    phase: str, plan: Plan, directory: Directory, mapper: Mapper, options: SealedOptions
) -> Iterator[tuple[int, list[bytes]]]:
    """The encoded events of a phase other than events, block by block, numbered from 0."""
    if not plan.events.phases.get(phase):
        return
    encode = _event_encoder(phase, Encoder(mapper.tool, options), options)
    for number, lines in enumerate(line_blocks(sealed_file(phase, directory))):
        yield number, [encode(line) for line in lines]


def _event_encoder(phase: str, encoder: Encoder, options: SealedOptions) -> Callable[[bytes], bytes]:
    """A function from a line of a phase's sealed file to the event that is sent."""
    dialect = options.dialect
    decode = line_decoder(phase)

    def encode(line: bytes) -> bytes:
        record = decode(line)
        if isinstance(record, SealedLink):
            return encode_merge(record, encoder)
        if isinstance(record, SealedGroup):
            return encode_group(record, encoder, dialect)
        return encode_profile(record, encoder, dialect)

    return encode


class SealedLines(msgspec.Struct, frozen=True):
    """Some lines of a phase's sealed file, which travel to a process as the bytes of a block do."""

    content: bytes | memoryview | None


class LinesTask(NamedTuple):
    """A block of a phase other than events, for one process of an engine. The fields `ended`, `doubtful` and `most` are
    those of `pipeline.transform.tasks.Task`."""

    phase: str
    number: int
    block: SealedLines
    ended: Sequence[tuple[int, int]]
    doubtful: Sequence[tuple[int, int]]
    most: int | None


def batch_lines(transformer: BlockTransformer, task: LinesTask) -> list[Batch]:
    """The requests of a block of lines."""
    assert task.block.content is not None
    config = transformer.config
    encode = _event_encoder(task.phase, transformer.encoder, config.options)
    events = [encode(line) for line in BytesIO(task.block.content)]
    return list(pack(events, transformer.envelope, config.limits, task.ended, task.doubtful, most=task.most))


def line_decoder(phase: str) -> Callable[[bytes], SealedRecord]:
    """A function from a line of a phase's sealed file to its record."""
    if phase == "identities":
        return msgspec.json.Decoder(SealedLink).decode
    if phase == "persons":
        return msgspec.json.Decoder(SealedPerson).decode
    kind = msgspec.json.Decoder(_Kind).decode
    group = msgspec.json.Decoder(SealedGroup).decode
    initial = msgspec.json.Decoder(SealedInitial).decode
    return lambda line: initial(line) if kind(line).kind else group(line)


def sealed_records(phase: str, plan: Plan, directory: Directory) -> Iterator[tuple[int, int, SealedRecord]]:
    """The records of a phase other than events: (block, index in it, record)."""
    if not plan.events.phases.get(phase):
        return
    decode = line_decoder(phase)
    for number, lines in enumerate(line_blocks(sealed_file(phase, directory))):
        for index, line in enumerate(lines):
            yield number, index, decode(line)


def line_blocks(path: Path) -> Iterator[list[bytes]]:
    """The lines of a sealed file in blocks: 5,000, or fewer that reach 4 MiB."""
    lines = list[bytes]()
    size = 0
    with path.open("rb") as file:
        for line in file:
            lines.append(line)
            size += len(line)
            if len(lines) == BLOCK_ROWS or size >= BLOCK_BYTES:
                yield lines
                lines, size = [], 0
    if lines:
        yield lines
