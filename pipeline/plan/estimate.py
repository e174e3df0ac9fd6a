"""How large an import will be and how long it takes, from a sample: before hours are spent on a plan.

The first blocks of files that are spread over the export are transformed as a plan and an apply do, and their CPU time
is measured. Files of one kind (format, compression, columns, table) are taken for alike: what the sample has for each
stored byte is extrapolated to the bytes of all. Duplicates, merges and profiles are not known from a sample.
"""

from __future__ import annotations

import math
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from pipeline.batcher import Envelope
from pipeline.engines import Engine, Rest, open_engine
from pipeline.engines.local import Workers
from pipeline.engines.processes import default_workers
from pipeline.errors import EmptyExport, UsageError
from pipeline.extractors import blocks as read_blocks
from pipeline.models import Block, Part, Source
from pipeline.options import PlanOptions
from pipeline.plan.create import open_export, prepare_request
from pipeline.plan.sealed.directory import Directory
from pipeline.text import pluralize
from pipeline.transform.block import BlockTransformer, make_batches, observe_block, take_retained
from pipeline.transform.tasks import Task

FILES, BLOCKS = 24, 2
"""Files that are sampled, and blocks of each that are transformed."""
SECONDS = 20.0
"""After so long no other file is sampled; each kind of files has one at least."""
_BYTES_OF_TEXT = frozenset(("jsonl", "csv", "json"))
"""Formats whose blocks lie at bytes. Those of the others count rows, which are no share of the bytes of the file."""
_KEY = "phc_" + "0" * 43


class Sampled(msgspec.Struct, frozen=True):
    """What was read for the estimate. `bytes` are as stored; `seconds` is the time that it took."""

    files: int
    bytes: int
    rows: int
    seconds: float


class Limit(msgspec.Struct, frozen=True):
    """The hours that one limit alone would take, and what it is."""

    name: str
    hours: float
    detail: str


class Estimate(msgspec.Struct, frozen=True):
    """Estimated totals of an export, and the time of its plan and of sending it.

    `json_bytes` are those of the requests before gzip, `sent_bytes` after it. `plan_cpu` and `apply_cpu` are seconds of
    CPU of this machine, or of one like it, that `workers` share. `plan_parent` and `apply_parent` are those of the
    process that reads what workers cannot read by themselves, and receives what they make. `workers_needed` make
    requests as fast as `rate` asks for, and so do `machines` like this one with `workers` each.
    `limits` are those of sending, the one that binds first before the others. `spread` is how much the events for each
    stored byte differ between the sampled files: their relative standard deviation.
    """

    files: int
    bytes: int
    rows: int
    events: int
    json_bytes: int
    sent_bytes: int
    requests: int
    plan_cpu: float
    apply_cpu: float
    plan_parent: float
    apply_parent: float
    plan_hours: float
    apply_hours: float
    engine: str
    workers: int
    rate: float | None
    workers_needed: int
    machines: int
    limits: list[Limit]
    spread: float
    sampled: Sampled
    format: str = "backcast.estimate/1"


class _Measured(NamedTuple):
    """One sampled file: its stored bytes, and what they have."""

    stored: float
    rows: float
    events: float
    json: float
    sent: float
    requests: float
    plan: float
    apply: float
    plan_parent: float
    apply_parent: float


def estimate_plan(
    sources: Sequence[str],
    options: PlanOptions,
    *,
    rate: float | None = None,
    progress: Callable[[int, int], None] = lambda rows, length: None,
) -> Estimate:
    """Estimate an import from a sample of its export. Nothing is written, and nothing is sent.

    `rate` is that of `apply --rate`, in events a second. With another engine than `local` the sample also goes through
    its workers, for what they leave to this process. Raises UsageError, MappingError, UnreadableExport, Unfinished;
    EmptyExport where the sample has no event.
    """
    if "-" in sources:
        raise UsageError("standard input cannot be sampled", hint="name files or folders")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as spool:
        work = Directory(Path(spool))
        name, mapping, source = open_export(sources, options, work)
        chosen = [number for kind in _kinds(source) for number in kind]
        parts = tuple(replace(source.parts[number], index=index) for index, number in enumerate(chosen))
        sizes = [source.sizes[number] for number in chosen]
        sampled = replace(source, parts=parts, sizes=tuple(sizes), copies=())
        options = replace(options, earlier=())
        cluster = None
        if options.engine != "local":
            cluster = open_engine(options.engine, options.workers, sum(source.sizes))
        with cluster or Workers(0) as engine:
            request = prepare_request(sampled, (name, mapping), options, work, work, engine, None)
            engine.configure(request.config, Envelope(_KEY))
            count = cluster.count if cluster is not None else options.workers or default_workers()
            transformer = BlockTransformer(request.config, Envelope(_KEY))
            kinds: dict[tuple[object, ...], list[_Measured]] = {}
            read = 0
            for part, size in zip(request.config.parts, sizes, strict=True):
                known = kinds.setdefault(_kind(part), [])
                if known and time.monotonic() - began > SECONDS:
                    continue
                found = _measure(transformer, cluster, part, size, began)
                if found is not None:
                    known.append(found)
                    read += round(found.rows)
                    progress(read, round(sum(one.stored for some in kinds.values() for one in some)))
    return _extrapolated(source, kinds, options.engine, count, rate, time.monotonic() - began)


def _kind(part: Part) -> tuple[object, ...]:
    return part.format, part.codecs, part.dialect.header, part.table


def _kinds(source: Source) -> Iterator[list[int]]:
    """The files to sample of each kind, evenly spread, the most telling first: the middle, then the ends."""
    kinds: dict[tuple[object, ...], list[int]] = {}
    for number, part in enumerate(source.parts):
        kinds.setdefault(_kind(part), []).append(number)
    most = max(2, FILES // max(1, len(kinds)))
    for numbers in kinds.values():
        count = min(most, len(numbers))
        spread = [numbers[(2 * place + 1) * len(numbers) // (2 * count)] for place in range(count)]
        # Halving the distance each time: where time runs out, what was sampled is spread all the same.
        yield sorted(spread, key=lambda number, all_=spread: _turn(all_.index(number)))  # type: ignore[misc]


def _turn(place: int) -> int:
    """The place of a number when its bits are read backwards: neighbours come far apart."""
    return int(f"{place:016b}"[::-1], 2)


def _measure(
    transformer: BlockTransformer, cluster: Engine | None, part: Part, size: int, began: float
) -> _Measured | None:
    """What the first blocks of a file have; None where it has no rows, or too many to count."""
    length = packed = rows = events = json = sent = requests = all_rows = 0
    plan = apply = 0.0
    whole = True
    planning: list[Task] = []
    sending: list[Task] = []
    reading, start = 0.0, time.process_time()
    for number, block in enumerate(read_blocks(part)):
        all_rows += block.length
        if number >= BLOCKS:
            if part.format in _BYTES_OF_TEXT or time.monotonic() - began > 2 * SECONDS:
                whole = False
                break
            continue
        reading += time.process_time() - start
        task = Task(number, block)
        planning.append(task)
        if not number:
            observe_block(transformer, task)  # compiles what the mapping needs, which is no part of the measurement
        start = time.process_time()
        stats = observe_block(transformer, task)
        planned = time.process_time()
        sending.append(Task(number, msgspec.structs.replace(block, content=stats.staged), seal=stats.digest))
        made = make_batches(transformer, sending[-1])
        apply += time.process_time() - planned
        plan += planned - start
        length += block.length
        rows += stats.rows
        events += made.events
        json += sum(batch.bytes for batch in made.batches)
        sent += sum(len(batch.body) for batch in made.batches)
        requests += len(made.batches)
        packed += _packed(part, block)
        start = time.process_time()
    if not rows:
        return None
    if whole:
        stored = size * (length / all_rows if all_rows else 1.0)
    elif part.format not in _BYTES_OF_TEXT:
        return None
    else:
        stored = min(float(size), float(packed))
    parent = (0.0, 0.0) if cluster is None else _received(cluster, planning, sending)
    return _Measured(
        stored, rows, events, json, sent, requests, plan, apply, reading + parent[0], reading + parent[1]
    )  # fmt: skip


def _received(cluster: Engine, planning: Sequence[Task], sending: Sequence[Task]) -> tuple[float, float]:
    """The CPU seconds of this process while workers plan these blocks, and while they make requests of them."""
    spent = []
    for walk in (
        lambda: cluster.walk(observe_block, planning, Rest(take_retained, lambda retained: None)),
        lambda: cluster.walk(make_batches, sending),
    ):
        for _ in walk():  # workers compile the mapping, and this process connects to them
            pass
        start = time.process_time()
        for _ in walk():
            pass
        spent.append(time.process_time() - start)
    return spent[0], spent[1]


def _packed(part: Part, block: Block) -> int:
    """About how many stored bytes a block has: as many as gzip makes of it where the file is compressed."""
    if not part.codecs or block.content is None:
        return block.length
    stream = zlib.compressobj(6)
    return len(stream.compress(block.content)) + len(stream.flush())


def _extrapolated(
    source: Source, kinds: dict[tuple[object, ...], list[_Measured]], engine: str, workers: int, rate: float | None,
    seconds: float,
) -> Estimate:  # fmt: skip
    total = [0.0] * len(_Measured._fields)
    shares: list[float] = []
    every = [one for some in kinds.values() for one in some]
    if not sum(one.events for one in every):
        raise EmptyExport("the sample has no event", hint="check the mapping and its options with `backcast survey`")
    by_kind: dict[tuple[object, ...], int] = {}
    for part, size in zip(source.parts, source.sizes, strict=True):
        by_kind[_kind(part)] = by_kind.get(_kind(part), 0) + size
    for kind, size in by_kind.items():
        # Tables are recognised in the sample alone, so its kinds may be finer.
        some = [one for key, found in kinds.items() if key[:3] == kind[:3] for one in found] or every
        stored = sum(one.stored for one in some)
        for place in range(len(total)):
            total[place] += sum(one[place] for one in some) * size / stored
        mean = sum(one.events for one in some) / stored
        shares += [one.events / one.stored / mean for one in some] if mean else []
    _, rows, events, json, sent, requests, plan, apply, plan_parent, apply_parent = total
    where = "on this machine" if engine == "local" else f"of the engine {engine}"
    limits = [Limit("cpu", apply / workers / 3_600, f"making the requests with {pluralize(workers, 'worker')} {where}")]
    if engine != "local":
        limits.append(Limit("parent", apply_parent / 3_600, "receiving on this machine what the workers make"))
    if rate is not None:
        limits.append(Limit("rate", events / rate / 3_600, f"{rate:,g} events a second (--rate)"))
    limits.sort(key=lambda limit: -limit.hours)
    needed = 1 if rate is None else max(1, math.ceil(apply * rate / events))
    return Estimate(
        files=len(source.parts),
        bytes=sum(source.sizes),
        rows=round(rows),
        events=round(events),
        json_bytes=round(json),
        sent_bytes=round(sent),
        requests=math.ceil(requests),
        plan_cpu=round(plan, 3),
        apply_cpu=round(apply, 3),
        plan_parent=round(plan_parent, 3),
        apply_parent=round(apply_parent, 3),
        plan_hours=max(plan / workers, plan_parent) / 3_600,
        apply_hours=limits[0].hours,
        engine=engine,
        workers=workers,
        rate=rate,
        workers_needed=needed,
        machines=math.ceil(needed / workers),
        limits=limits,
        spread=round(math.sqrt(sum((share - 1) ** 2 for share in shares) / len(shares)), 3),
        sampled=Sampled(
            len(every),
            round(sum(one.stored for one in every)),
            round(sum(one.rows for one in every)),
            round(seconds, 1),
        ),
    )
