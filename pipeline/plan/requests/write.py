"""Writes the requests of a plan once everything is decided: requests of events in workers, the others here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from pipeline.batcher import batch_ranges
from pipeline.encoder.event import Encoder
from pipeline.encoder.marks import marked
from pipeline.engines.engine import Engine
from pipeline.fragment import deflate
from pipeline.id_hash import hash_id
from pipeline.identity.event_ids import HotId
from pipeline.models import Step
from pipeline.plan.blocks import planned_tasks
from pipeline.plan.canary.choose import ChosenCanary
from pipeline.plan.requests.pack import (
    FILE_GROUPS,
    GROUP_BLOCKS,
    CanaryEvents,
    PackSettings,
    PackTask,
    StagedBlock,
    pack_blocks,
    pack_canary,
)
from pipeline.plan.requests.store import PackedRequest
from pipeline.plan.sealed.directory import EVENTS, PHASES, BytesWriter, Directory, LinesWriter, sealed_file
from pipeline.plan.sealed.phases import event_encoder, line_blocks, sealed_links
from pipeline.transform.tasks import TransformConfig

LANES = 8
"""A plan has at most this many lanes: as many as requests are in flight by default."""


class RequestPlan(NamedTuple):
    """What decides how a plan's events become requests. `ordered`: the order of a person's events decides what the
    service makes of the person. `canary` is the sample that has the first requests. `import_plan` is the mark of every
    event, or ""."""

    config: TransformConfig
    encoder: Encoder
    events: int
    ordered: bool
    hot: Sequence[HotId]
    canary: ChosenCanary | None = None
    import_plan: str = ""


def write_requests(directory: Directory, plan: RequestPlan, engine: Engine, files: dict[str, str], step: Step) -> None:
    """Write requests.jsonl, requests/ and facts/; `files` receives their digests."""
    directory.packs.mkdir()
    directory.facts.mkdir()
    with LinesWriter(directory.requests) as index:
        for phase in PHASES:
            if phase == EVENTS:
                for request in _event_requests(directory, plan, engine, files, step):
                    index.write(request)
            else:
                index.write_all(_line_requests(phase, directory, plan, files))
        files[directory.requests.name] = index.close()


def _line_requests(
    phase: str, directory: Directory, plan: RequestPlan, files: dict[str, str]
) -> Iterator[PackedRequest]:
    """The requests of a phase that is sealed line by line."""
    path = sealed_file(phase, directory)
    if not path.exists() or not path.stat().st_size:
        return
    encode = event_encoder(phase, plan.encoder, plan.config.options)
    name = f"requests/{phase}.pack"
    number = line = 0
    of_canary = 0 if plan.canary is None else len(plan.canary.lines.get(phase, ()))
    with path.open("rb") as file, BytesWriter(directory.path / name) as fragments:
        for lines in _line_blocks(file, of_canary):
            events = [encode(one) for one in lines]
            if plan.import_plan:
                events = list(marked(events, plan.import_plan))
            for first, last in batch_ranges([len(event) for event in events], plan.config.limits):
                text = b",".join(events[first : last + 1])
                fragment = deflate(text)
                offset, length = fragments.write_bytes(fragment.data)
                yield PackedRequest(
                    number, phase, name, offset, length, fragment.crc, sha256(text).hexdigest(), fragment.length,
                    last - first + 1, canary=line < of_canary, first=line + first,
                )  # fmt: skip
                number += 1
            line += len(lines)
        files[name] = fragments.close()


def _line_blocks(file: Iterable[bytes], of_canary: int) -> Iterator[list[bytes]]:
    """The lines of a sealed file in blocks; the first lines, which belong to the canary, by themselves."""
    for lines in line_blocks(file):
        for some in (lines[:of_canary], lines[of_canary:]):
            if some:
                yield some
        of_canary = max(0, of_canary - len(lines))


def _event_requests(
    directory: Directory, plan: RequestPlan, engine: Engine, files: dict[str, str], step: Step
) -> Iterator[PackedRequest]:
    settings = _settings(directory, plan)
    requests: list[PackedRequest] = []
    canary: list[CanaryEvents] = []
    done = tasks = 0
    for _, packed in engine.map(pack_blocks, _tasks(directory, settings)):
        files |= packed.files
        requests += packed.requests
        canary.append(packed.canary)
        tasks += 1
        done += sum(request.events for request in packed.requests)
        step("events packed", done, plan.events)
    if plan.canary is not None and plan.canary.seal.events[EVENTS]:
        first = pack_canary(settings, tasks, canary)
        files |= first.files
        requests = first.requests + requests
    for number, request in enumerate(requests):
        yield replace(request, number=number)
    if not any(directory.facts.iterdir()):  # even a plan without events has a table
        from pipeline.plan.requests.facts import FactsWriter  # this loads Arrow

        with FactsWriter(directory.facts / "00000.parquet") as writer:
            files["facts/00000.parquet"] = writer.close()


def _settings(directory: Directory, plan: RequestPlan) -> PackSettings:
    merged = hot = canary = None
    survivors = _merged(directory, plan)
    if len(survivors):
        merged = directory.scratch / "merged"
        survivors.tofile(merged)
    fast = _hot(plan.hot, survivors)
    if len(fast):
        hot = directory.scratch / "hot"
        fast.tofile(hot)
    lanes = min(LANES, max(1, plan.events // plan.config.limits.batch_events)) if plan.ordered else 0
    identified = directory.identified if plan.config.options.persons == "identified" else None
    if plan.canary is not None:
        canary = directory.scratch / "canary"
        plan.canary.ids.tofile(canary)
    return PackSettings(
        directory.path, directory.staged, plan.config.limits, lanes, merged, hot, identified, canary,
        plan.import_plan, "row" in plan.config.options.marks,
    )  # fmt: skip


def _merged(directory: Directory, plan: RequestPlan) -> NDArray[np.uint64]:
    """The pairs of `PackSettings.merged`, (n, 2)."""
    if not sealed_file("identities", directory).exists():
        return np.zeros((0, 2), np.uint64)
    flat = (hash_id(one) for link in sealed_links(directory) for one in (link.other, link.distinct_id))
    pairs = np.fromiter(flat, np.uint64).reshape(-1, 2)
    return pairs.take(np.argsort(pairs[:, 0], kind="stable"), axis=0)


def _hot(ids: Sequence[HotId], merged: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The persons with an id that has more events than the service takes from one id in a minute."""
    hot = np.array(sorted(one.person for one in ids), np.uint64)
    if len(hot) and len(merged):
        where = np.minimum(np.searchsorted(merged[:, 0], hot), len(merged) - 1)
        hot = np.unique(np.where(merged[where, 0] == hot, merged[where, 1], hot))
    return hot


def _tasks(directory: Directory, settings: PackSettings) -> Iterator[PackTask]:
    with_events = (
        StagedBlock(task, block.part, block.first_row) for block, task in planned_tasks(directory) if block.events
    )
    number = 0
    while blocks := list(islice(with_events, GROUP_BLOCKS * FILE_GROUPS)):
        yield PackTask(number, blocks, settings)
        number += 1
