"""Estimates from a sample how large an import will be and how long it takes, before hours are spent on a plan.

The first blocks of files that are spread over the export are transformed as plan and apply do it, and their CPU time
is measured. Files of one kind (format, compression, columns, table) are assumed to be alike: what the sample has per
stored byte is extrapolated to all bytes. A sample does not show duplicates, merges and profiles.
"""

from __future__ import annotations

import math
import pickle
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from pipeline.batcher import Envelope, batch_ranges
from pipeline.engines import open_engine
from pipeline.engines.local import Workers
from pipeline.engines.processes import default_workers
from pipeline.errors import EmptyExport, UsageError
from pipeline.extractors import blocks as read_blocks
from pipeline.fragment import Fragment, deflate
from pipeline.models import Block, Part, Source
from pipeline.options import PlanOptions
from pipeline.plan.create import open_export, prepare_request
from pipeline.plan.sealed.directory import Directory
from pipeline.transform.block import BlockTransformer, observe_block
from pipeline.transform.tasks import Task

FILES, BLOCKS = 24, 2
"""How many files are sampled, and how many blocks of each are transformed."""
SECONDS = 20.0
"""After this many seconds no other file is sampled, but at least one of each kind."""
_BYTES_OF_TEXT = frozenset(("jsonl", "csv", "json"))
"""Formats whose blocks are ranges of bytes. Blocks of other formats count rows, which are not a share of the bytes."""
_KEY = "phc_" + "0" * 43


class Sampled(msgspec.Struct, frozen=True):
    """What was read for the estimate. `bytes` are bytes as stored; `seconds` is how long reading took."""

    files: int
    bytes: int
    rows: int
    seconds: float


class Limit(msgspec.Struct, frozen=True):
    """A limit, and the hours that sending would take if it were the only one."""

    name: str
    hours: float
    detail: str


class Estimate(msgspec.Struct, frozen=True):
    """Estimated totals of an export, and the time to plan and to send it.

    `json_bytes` is the size of the requests before gzip, `sent_bytes` after it. `plan_cpu` and `apply_cpu` are seconds
    of CPU on this machine or one like it; `workers` share those of a plan, while one process sends. `plan_parent` is
    the share of the process that cuts files into blocks, reads what workers cannot read by themselves, and receives
    their counts. `limits` are the limits of sending, the one that binds first at the front. `spread` is how much the
    events per stored byte differ between the sampled files: their relative standard deviation.
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
    plan_hours: float
    apply_hours: float
    engine: str
    workers: int
    rate: float | None
    limits: list[Limit]
    spread: float
    sampled: Sampled
    format: str = "backcast.estimate/2"


class _Measured(NamedTuple):
    """One sampled file: its stored bytes, and what they contain."""

    stored: float
    rows: float
    events: float
    json: float
    sent: float
    requests: float
    plan: float
    apply: float
    plan_parent: float


def estimate_plan(
    sources: Sequence[str],
    options: PlanOptions,
    *,
    rate: float | None = None,
    progress: Callable[[int, int], None] = lambda rows, length: None,
) -> Estimate:
    """Estimate an import from a sample of its export. Nothing is written, and nothing is sent.

    `rate` is the `--rate` of apply, in events a second. A cluster is asked for its number of workers. Raises
    UsageError, MappingError, UnreadableExport, Unfinished; EmptyExport if the sample has no event.
    """
    if "-" in sources:
        raise UsageError("an estimate cannot sample standard input", hint="name files or folders instead of -")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as spool:
        work = Directory(Path(spool))
        name, mapping, source = open_export(sources, options, work)
        chosen = [number for kind in _kinds(source) for number in kind]
        parts = tuple(replace(source.parts[number], index=index) for index, number in enumerate(chosen))
        sizes = [source.sizes[number] for number in chosen]
        sampled = replace(source, parts=parts, sizes=tuple(sizes), copies=())
        options = replace(options, earlier=())
        count = options.workers or default_workers()
        if options.engine != "local":
            with open_engine(options.engine, options.workers, sum(source.sizes)) as cluster:
                count = cluster.count
        with Workers(0) as engine:
            request = prepare_request(sampled, (name, mapping), options, work, work, engine, None)
            transformer = BlockTransformer(request.config)
            kinds: dict[tuple[object, ...], list[_Measured]] = {}
            read = 0
            for part, size in zip(request.config.parts, sizes, strict=True):
                known = kinds.setdefault(_kind(part), [])
                if known and time.monotonic() - began > SECONDS:
                    continue
                found = _measure(transformer, part, size, began)
                if found is not None:
                    known.append(found)
                    read += round(found.rows)
                    progress(read, round(sum(one.stored for some in kinds.values() for one in some)))
    return _extrapolated(source, kinds, options.engine, count, rate, time.monotonic() - began)


def _kind(part: Part) -> tuple[object, ...]:
    return part.format, part.codecs, part.dialect.header, part.table


def _kinds(source: Source) -> Iterator[list[int]]:
    """The files to sample, for each kind: evenly spread, the most informative first: the middle, then the ends."""
    kinds: dict[tuple[object, ...], list[int]] = {}
    for number, part in enumerate(source.parts):
        kinds.setdefault(_kind(part), []).append(number)
    most = max(2, FILES // max(1, len(kinds)))
    for numbers in kinds.values():
        count = min(most, len(numbers))
        spread = [numbers[(2 * place + 1) * len(numbers) // (2 * count)] for place in range(count)]
        # Halve the distance each time, so that the sample is spread evenly even if time runs out.
        yield sorted(spread, key=lambda number, all_=spread: _turn(all_.index(number)))  # type: ignore[misc]


def _turn(place: int) -> int:
    """The number with its bits in reverse order, so that neighbours come far apart."""
    return int(f"{place:016b}"[::-1], 2)


def _measure(transformer: BlockTransformer, part: Part, size: int, began: float) -> _Measured | None:
    """What the first blocks of a file contain; None if it has no rows, or too many to count."""
    length = packed = rows = events = json = sent = requests = all_rows = 0
    plan = apply = 0.0
    envelope = Envelope(_KEY)
    whole = True
    parent, start = 0.0, time.process_time()
    for number, block in enumerate(read_blocks(part)):
        all_rows += block.length
        if number >= BLOCKS:
            if part.format in _BYTES_OF_TEXT or time.monotonic() - began > 2 * SECONDS:
                whole = False
                break
            continue
        parent += time.process_time() - start
        task = Task(number, block)
        if not number:
            observe_block(transformer, task)  # compiles what the mapping needs before the measurement
        start = time.process_time()
        stats, staged, _ = observe_block(transformer, task)
        made = _requests(transformer, Task(number, msgspec.structs.replace(block, content=staged), seal=stats.digest))
        planned = time.process_time()
        plan += planned - start
        sent += sum(len(envelope.frame(fragment)) for fragment in made)
        apply += time.process_time() - planned
        length += block.length
        rows += stats.rows
        events += stats.events
        json += sum(fragment.length + envelope.length for fragment in made)
        requests += len(made)
        packed += _packed(part, block)
        returned = pickle.dumps(stats, pickle.HIGHEST_PROTOCOL)
        start = time.process_time()
        pickle.loads(returned)
    if not rows:
        return None
    if whole:
        stored = size * (length / all_rows if all_rows else 1.0)
    elif part.format not in _BYTES_OF_TEXT:
        return None
    else:
        stored = min(float(size), float(packed))
    return _Measured(stored, rows, events, json, sent, requests, plan, apply, parent)


def _requests(transformer: BlockTransformer, task: Task) -> list[Fragment]:
    """The requests of a block."""
    events = transformer.planned(task).events
    cut = batch_ranges([len(event) for event in events], transformer.config.limits)
    return [deflate(b",".join(events[first : last + 1])) for first, last in cut]


def _packed(part: Part, block: Block) -> int:
    """About how many stored bytes a block has: if the file is compressed, as many as gzip makes of the block."""
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
        raise EmptyExport(
            "no row of the sample became an event",
            hint="compare the fields that `backcast survey` shows with -m, --set, --since and --until",
        )
    by_kind: dict[tuple[object, ...], int] = {}
    for part, size in zip(source.parts, source.sizes, strict=True):
        by_kind[_kind(part)] = by_kind.get(_kind(part), 0) + size
    for kind, size in by_kind.items():
        # Tables are recognised only in the sample, so its kinds may be finer.
        some = [one for key, found in kinds.items() if key[:3] == kind[:3] for one in found] or every
        stored = sum(one.stored for one in some)
        for place in range(len(total)):
            total[place] += sum(one[place] for one in some) * size / stored
        mean = sum(one.events for one in some) / stored
        shares += [one.events / one.stored / mean for one in some] if mean else []
    _, rows, events, json, sent, requests, plan, apply, plan_parent = total
    limits = [Limit("cpu", apply / 3_600, "writing the requests around their events, before the network")]
    if rate is not None:
        limits.append(Limit("rate", events / rate / 3_600, f"{rate:,g} events a second (--rate)"))
    limits.sort(key=lambda limit: -limit.hours)
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
        plan_hours=max(plan / workers, plan_parent) / 3_600,
        apply_hours=limits[0].hours,
        engine=engine,
        workers=workers,
        rate=rate,
        limits=limits,
        spread=round(math.sqrt(sum((share - 1) ** 2 for share in shares) / len(shares)), 3),
        sampled=Sampled(
            len(every),
            round(sum(one.stored for one in every)),
            round(sum(one.rows for one in every)),
            round(seconds, 1),
        ),
    )
