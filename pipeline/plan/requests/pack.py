"""What a worker does with some blocks of staged events: requests in lanes, and a row of facts for each event.

The files depend only on the blocks, the plan's decisions and `PackSettings`, so they are the same for any number
of workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from pipeline.batcher import batch_ranges
from pipeline.encoder.identified_ids import IdentifiedIds
from pipeline.encoder.marks import marked
from pipeline.fragment import deflate
from pipeline.options import Limits
from pipeline.plan.requests.store import NO_LANE, PackedRequest
from pipeline.plan.sealed.directory import BytesWriter
from pipeline.transform.tasks import Task

if TYPE_CHECKING:
    from pipeline.plan.requests.facts import EventFacts, FactsWriter
    from pipeline.transform.block import BlockTransformer

GROUP_BLOCKS = 8
"""The events of this many blocks are spread over the lanes together: lanes within one block gain nothing (measured)."""
FILE_GROUPS = 2
"""One file of requests, which is the work of one task, has this many groups."""
COUNTED = 100
"""An id with fewer events in a request is not counted: to exceed 5,000 a minute takes 50 such requests."""


class PackSettings(NamedTuple):
    """How the events of a plan become requests. `staged` is the folder that the walk wrote
    (`pipeline.transform.staged`); `lanes` is the number of lanes, 0 if order decides nothing.

    These are files, each None if it is not needed: `merged` has pairs of `hash_id`, an id that a merge absorbs,
    ascending, and the id that survives; `hot` has the hashes of ids with requests of their own; `identified` is the
    table of ids that get a profile; `canary` has the hashes of the ids whose events have the first requests.
    `import_plan` and `import_rows` are the marks of the events (`pipeline.encoder.marks`).
    """

    directory: Path
    staged: Path
    limits: Limits
    lanes: int = 0
    merged: Path | None = None
    hot: Path | None = None
    identified: Path | None = None
    canary: Path | None = None
    import_plan: str = ""
    import_rows: bool = False


class StagedBlock(NamedTuple):
    """A block with its decisions: the task whose content is its events, the number of its file, and its first row."""

    task: Task
    part: int
    first_row: int


class PackTask(NamedTuple):
    """Some blocks that become the file with the number `number`."""

    number: int
    blocks: Sequence[StagedBlock]
    settings: PackSettings


class CanaryEvents(NamedTuple):
    """Events of the canary that a task left out of its file, and their facts (`requests.facts.encode_facts`)."""

    events: list[bytes]
    facts: bytes


class PackedFile(NamedTuple):
    """What a task wrote: its requests, numbered from 0, and the digests of the two files by name."""

    requests: list[PackedRequest]
    files: dict[str, str]
    canary: CanaryEvents


class _Group(NamedTuple):
    """The events of some blocks that are sent, the hash of the person of each, and the facts of all events."""

    events: list[bytes]
    persons: list[NDArray[np.uint64]]
    facts: list[EventFacts]


def pack_blocks(transformer: BlockTransformer, task: PackTask) -> PackedFile:
    """Write a file of requests and a file of facts. Raises StalePlan if the walk did not write these staged events."""
    from pipeline.plan.requests.facts import encode_facts  # this loads Arrow

    settings, canary = task.settings, _Group([], [], [])
    if settings.identified is not None and transformer.identified is None:
        transformer.identified = IdentifiedIds(settings.identified)
    ids = None if settings.canary is None else np.fromfile(settings.canary, np.uint64)

    def groups() -> Iterator[_Group]:
        for start in range(0, len(task.blocks), GROUP_BLOCKS):
            group = _Group([], [], [])
            for block in task.blocks[start : start + GROUP_BLOCKS]:
                _add(group, canary, ids, transformer, block, settings)
            yield group

    requests, files = _write(settings, task.number, groups())
    return PackedFile(requests, files, CanaryEvents(canary.events, encode_facts(canary.facts)))


def pack_canary(settings: PackSettings, number: int, found: Iterable[CanaryEvents]) -> PackedFile:
    """Write the events of the canary that tasks left out, as the file with the number `number`."""
    from pipeline.plan.requests.facts import decode_facts, encode_facts

    group = _Group([], [], [])
    for events, data in found:
        if events:
            group.events.extend(events)
            group.facts.append(decode_facts(data))
            group.persons.append(group.facts[-1].persons)
    requests, files = _write(settings, number, iter([group] if group.events else []), canary=True)
    return PackedFile(requests, files, CanaryEvents([], encode_facts([])))


def _write(
    settings: PackSettings, number: int, groups: Iterator[_Group], *, canary: bool = False
) -> tuple[list[PackedRequest], dict[str, str]]:
    """Write the events of some groups. Returns their requests, and the digests of the two files by name."""
    from pipeline.plan.requests.facts import FactsWriter

    name, facts_name = f"requests/events-{number:05d}.pack", f"facts/{number:05d}.parquet"
    requests: list[PackedRequest] = []
    with BytesWriter(settings.directory / name) as fragments, FactsWriter(settings.directory / facts_name) as facts:
        for group in groups:
            for data, request in _requests(group, settings, len(requests), facts):
                offset, length = fragments.write_bytes(data)
                requests.append(replace(request, file=name, offset=offset, length=length, canary=canary, part=number))
        return requests, {name: fragments.close(), facts_name: facts.close()}


def _add(
    group: _Group,
    canary: _Group,
    ids: NDArray[np.uint64] | None,
    transformer: BlockTransformer,
    block: StagedBlock,
    settings: PackSettings,
) -> None:
    """Add the events of a block, with the plan's decisions applied: events of the people with these `ids` to `canary`,
    all others to `group`."""
    from pipeline.plan.requests.facts import read_block_facts

    events = transformer.planned(block.task)
    sent, _ = transformer.apply_tables(events, block.task)
    own = read_block_facts(settings.staged / "facts", block, events.row_of, events.positions, sent)
    if settings.import_plan or settings.import_rows:
        path = transformer.config.parts[block.part].path
        rows = own.rows[own.sent].tolist() if settings.import_rows else ()
        sent = list(marked(sent, settings.import_plan, (f"{path}:{row}" for row in rows)))
    if ids is not None and (theirs := _are_among(own.persons, ids) & own.sent).any():
        flags = theirs[own.sent]
        canary.events.extend(compress(sent, flags.tolist()))
        canary.facts.append(own.only(theirs))
        sent = list(compress(sent, (~flags).tolist()))
        own = own.only(~theirs)
    group.events.extend(sent)
    group.persons.append(own.persons[own.sent])
    group.facts.append(own)


def _are_among(persons: NDArray[np.uint64], ids: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Whether each person is one of `ids`, which are sorted. (NumPy's `isin` would import masked arrays.)"""
    if not len(ids):
        return np.zeros(len(persons), bool)
    found: NDArray[np.bool_] = ids[np.minimum(np.searchsorted(ids, persons), len(ids) - 1)] == persons
    return found


def _requests(
    group: _Group, settings: PackSettings, first: int, facts: FactsWriter
) -> Iterator[tuple[bytes, PackedRequest]]:
    """The requests of a group, numbered from `first`, each with its fragment; its facts are written."""
    events = group.events
    persons = np.concatenate(group.persons) if group.persons else np.zeros(0, np.uint64)
    request_of = np.zeros(len(events), np.uint32)
    place_of = np.zeros(len(events), np.uint32)
    number = first
    for lane, members in _lanes(persons, settings):
        chosen = list(map(events.__getitem__, members.tolist()))
        sizes = list(map(len, chosen))
        for begin, last in batch_ranges(sizes, settings.limits):
            text = b",".join(chosen[begin : last + 1])
            fragment = deflate(text)
            own = members[begin : last + 1]
            request_of[own], place_of[own] = number, np.arange(len(own), dtype=np.uint32)
            yield fragment.data, PackedRequest(
                number, "events", "", 0, 0, fragment.crc, sha256(text).hexdigest(), fragment.length, len(own), lane,
                _hot(persons[own]), nth=number,
            )  # fmt: skip
            number += 1
    facts.write(group.facts, request_of, place_of)


def _lanes(persons: NDArray[np.uint64], settings: PackSettings) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Each lane with its events in order; the events of each person that is too fast are separate."""
    if not len(persons):
        return
    resolved = persons if settings.merged is None else _resolved(persons, settings.merged)
    alone = np.zeros(0, np.uint64)
    everyone = np.arange(len(persons))
    fast = np.zeros(len(persons), bool)
    if settings.hot is not None:
        hot = np.fromfile(settings.hot, np.uint64)
        fast = np.isin(resolved, hot)
        alone = np.unique(resolved[fast])
    rest = everyone[~fast]
    if not settings.lanes:
        if len(rest):
            yield NO_LANE, rest
    else:
        lane_of = (resolved[rest] % np.uint64(settings.lanes)).astype(np.int64)
        for lane in range(settings.lanes):
            members = rest[lane_of == lane]
            if len(members):
                yield lane, members
    for person in alone.tolist():
        lane = NO_LANE if not settings.lanes else person % settings.lanes
        yield lane, everyone[resolved == np.uint64(person)]


def _resolved(persons: NDArray[np.uint64], merged: Path) -> NDArray[np.uint64]:
    """For each person, the id that survives the merges."""
    pairs = np.memmap(merged, np.uint64, "r").reshape(-1, 2)
    where = np.minimum(np.searchsorted(pairs[:, 0], persons), len(pairs) - 1)
    return np.where(pairs[where, 0] == persons, pairs[where, 1], persons)


def _hot(persons: NDArray[np.uint64]) -> tuple[tuple[int, int], ...]:
    """The ids with at least COUNTED events of a request, and how many each has."""
    if len(persons) < COUNTED:
        return ()
    ids, counts = np.unique(persons, return_counts=True)
    many = counts >= COUNTED
    return tuple(zip(ids[many].tolist(), counts[many].tolist(), strict=True))
