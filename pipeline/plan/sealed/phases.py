"""The phases of a sending, in order, and the encoded events of all phases except the phase events.

Merges come first, because a merge that arrives after the events it joins leaves two persons. Groups come next, because
the first five group types take all places; with them come the properties that `--promoted-properties final` sets once
before any event does. Profile updates come last, because events can overwrite them (docs/know/service.md#persons). One
rule cuts the lines of a sealed file into blocks, so a place in the ledger always names the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

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
from pipeline.plan.sealed.directory import Directory, read_lines

SealedRecord = SealedLink | SealedGroup | SealedPerson
"""A line of a sealed file; a SealedInitial is a SealedPerson."""


class _Kind(msgspec.Struct):
    """The tag that distinguishes a line about a person from one about a group."""

    kind: str = ""


def event_encoder(phase: str, encoder: Encoder, options: SealedOptions) -> Callable[[bytes], bytes]:
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


def sealed_links(directory: Directory) -> Iterator[SealedLink]:
    """The merges of a plan."""
    yield from read_lines(directory.identities, SealedLink)


def line_blocks(
    file: Iterable[bytes], most_lines: int = BLOCK_ROWS, most_bytes: int = BLOCK_BYTES
) -> Iterator[list[bytes]]:
    """The lines of a file in blocks of 5,000 lines, or of fewer that reach 4 MiB."""
    lines = list[bytes]()
    size = 0
    for line in file:
        lines.append(line)
        size += len(line)
        if len(lines) == most_lines or size >= most_bytes:
            yield lines
            lines, size = [], 0
    if lines:
        yield lines
