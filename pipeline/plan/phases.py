"""The phases of a sending, in their order, and the encoded events of those that are not made of rows.

Merges come first, because one that arrives after the events it joins leaves two people; groups next, because the
first five types take the places there are, and with them what `--promoted-properties final` sets once for persons
before their events can; profiles last, because an event can overwrite what they say (docs/know/service.md#persons). The
lines of a sealed file are cut into blocks by one rule, so a place in the ledger always names the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

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
from pipeline.models import BLOCK_BYTES, BLOCK_ROWS
from pipeline.options import SealedOptions
from pipeline.plan.directory import Directory
from pipeline.plan.manifest import Plan
from pipeline.transform.events import Mapper

PHASES = ("identities", "groups", "events", "persons")
EVENTS = "events"


class _Kind(msgspec.Struct):
    """What tells a line of persons from one of groups."""

    kind: str = ""


def sealed_file(phase: str, directory: Directory) -> Path:
    """Where a phase other than events is sealed: one JSON line an event."""
    return {"identities": directory.identities, "groups": directory.groups, "persons": directory.persons}[phase]


def phase_blocks(
    phase: str, plan: Plan, directory: Directory, mapper: Mapper, options: SealedOptions
) -> Iterator[tuple[int, list[bytes]]]:
    """The encoded events of a phase other than events, block by block, numbered from 0."""
    if not plan.events.phases.get(phase):
        return
    encode = event_encoder(phase, mapper, options)
    for number, lines in enumerate(line_blocks(sealed_file(phase, directory))):
        yield number, [encode(line) for line in lines]


def event_encoder(phase: str, mapper: Mapper, options: SealedOptions) -> Callable[[bytes], bytes]:
    """What makes an event, as it is sent, of a line of a phase's sealed file."""
    encoder, dialect = Encoder(mapper.tool, options), options.dialect
    if phase == "identities":
        link = msgspec.json.Decoder(SealedLink).decode
        return lambda line: encode_merge(link(line), encoder)
    if phase == "persons":
        person = msgspec.json.Decoder(SealedPerson).decode
        return lambda line: encode_profile(person(line), encoder, dialect)
    kind = msgspec.json.Decoder(_Kind).decode
    group = msgspec.json.Decoder(SealedGroup).decode
    initial = msgspec.json.Decoder(SealedInitial).decode
    return lambda line: (
        encode_profile(initial(line), encoder, dialect)
        if kind(line).kind
        else encode_group(group(line), encoder, dialect)
    )


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
