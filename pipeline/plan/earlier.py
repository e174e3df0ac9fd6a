"""The merges of earlier plans for the same target, so that no merge is repeated or contradicted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from pipeline.encoder.updates import SealedLink
from pipeline.errors import UsageError
from pipeline.ledger import BatchKey, read_batches, was_ever_applied
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import FORMAT
from pipeline.plan.sealed.phases import line_blocks

if TYPE_CHECKING:
    from pipeline.identity.observed_pairs import EarlierLink

PHASE = "identities"


class _Head(msgspec.Struct):
    """The beginning of a plan.json."""

    format: str = ""
    target: str = ""


def plans_beside(directory: Directory, target: str) -> list[Directory]:
    """The applied plans beside a new plan that name the same target; none where the new plan names no target."""
    if not target:
        return []
    own = directory.path.resolve()
    directories = (Directory(path.parent) for path in sorted(own.parent.glob("*/plan.json")) if path.parent != own)
    return [one for one in directories if was_ever_applied(one.ledger) and _head(one) == _Head(FORMAT, target)]


def earlier_links(plans: Sequence[Directory]) -> Iterator[EarlierLink]:
    """The links of these plans with the state of each. Raises UsageError for a directory without a plan,
    BrokenLedger."""
    for directory in plans:
        if _head(directory).format != FORMAT:
            raise UsageError(f"{directory.name} contains no plan", hint="give --earlier the directory of a plan")
    return chain.from_iterable(map(_links, plans))


def _links(directory: Directory) -> Iterator[EarlierLink]:
    if not directory.identities.exists() or not directory.identities.stat().st_size:
        return
    from pipeline.identity.observed_pairs import EarlierLink

    states: dict[int, list[tuple[BatchKey, str]]] = {}
    for state, name in (("settled", "settled"), ("begun", "in_doubt")):
        for batch in read_batches(directory.ledger, state):
            if batch.phase == PHASE:
                states.setdefault(batch.block, []).append((batch, name))
    decode = msgspec.json.Decoder(SealedLink).decode
    for number, lines in enumerate(line_blocks(directory.identities)):
        line_states = ["unsent"] * len(lines)
        for batch, name in states.get(number, ()):
            line_states[batch.first : batch.last + 1] = [name] * batch.events
        for line, state in zip(lines, line_states, strict=True):
            link = decode(line)
            yield EarlierLink(link.distinct_id, link.other, link.kind, link.time, state)


def _head(directory: Directory) -> _Head:
    try:
        return msgspec.json.decode(directory.plan.read_bytes(), type=_Head)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return _Head()
