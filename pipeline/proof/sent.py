"""Everything that a ledger says was sent, event by event, with the file and row that it comes from.

Events are not kept: they are transformed from the export once more, and compared with the plan's seal on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from pipeline.encoder.encoded import read_event
from pipeline.engines.local import Workers
from pipeline.ledger import read_batches, read_unanswered
from pipeline.models import Step
from pipeline.plan.sealed.contents import PlannedBlock, task_of, tasks
from pipeline.plan.sealed.directory import EVENTS, PHASES, Directory, sealed_file
from pipeline.plan.sealed.manifest import Plan
from pipeline.plan.sealed.phases import phase_blocks
from pipeline.transform.block import BlockTransformer, rows_sent
from pipeline.transform.tasks import Task, TransformConfig

SETTLED, IN_DOUBT = "settled", "in doubt"

Ranges = list[tuple[int, int]]


class SentLine(msgspec.Struct, frozen=True):
    """An event that the service has, or may have (`in doubt`). `row` counts from 1 in `file`; of a merge, a group or a
    profile, `file` is its file in the plan and `row` its line."""

    phase: str
    uuid: str
    event: str
    distinct_id: str
    timestamp: str
    state: str
    file: str
    row: int


class SentEvent(NamedTuple):
    """A line, and the encoded event where it is none of the phase events."""

    line: SentLine
    encoded: bytes = b""


class _Located(NamedTuple):
    """The sent events of one block: uuid, event, distinct_id, timestamp, state, row in the block from 0."""

    block: int
    events: list[tuple[str, str, str, str, str, int]]


def sent_events(
    plan: Plan,
    directory: Directory,
    config: TransformConfig,
    workers: int,
    progress: Step = lambda name, done, total: None,
) -> Iterator[SentEvent]:
    """Every event that is settled or in doubt, phase by phase in the order of sending.

    `progress` is called with how many were read, and how many there are. Raises BrokenLedger, UnreadableExport,
    StalePlan, UnsafePlan.
    """
    ranges: dict[tuple[str, int], tuple[Ranges, Ranges]] = {}
    total = done = 0
    for state, batches in (
        (SETTLED, read_batches(directory.ledger, "settled")),
        (IN_DOUBT, read_unanswered(directory.ledger)),
    ):
        for key in batches:
            ranges.setdefault((key.phase, key.block), ([], []))[state == IN_DOUBT].append((key.first, key.last))
            total += key.events
    for event in _events(plan, directory, config, workers, ranges):
        yield event
        done += 1
        if not done % 5_000:
            progress("events that were sent", done, total)
    progress("events that were sent", done, total)


def _events(
    plan: Plan,
    directory: Directory,
    config: TransformConfig,
    workers: int,
    ranges: dict[tuple[str, int], tuple[Ranges, Ranges]],
) -> Iterator[SentEvent]:
    mapper = config.compile(config.options)
    for phase in PHASES:
        if phase == EVENTS:
            yield from _of_rows(plan, directory, config, workers, ranges)
            continue
        row = 0
        file = sealed_file(phase, directory).name
        for number, events in phase_blocks(phase, plan, directory, mapper, config.options):
            for index, state in _sent_indices(ranges.get((phase, number), ([], []))):
                sent = read_event(events[index])
                line = SentLine(
                    phase, sent.uuid, sent.event, sent.properties.distinct_id, sent.timestamp,
                    state, file, row + index + 1,
                )  # fmt: skip
                yield SentEvent(line, events[index])
            row += len(events)


def _of_rows(
    plan: Plan,
    directory: Directory,
    config: TransformConfig,
    count: int,
    ranges: dict[tuple[str, int], tuple[Ranges, Ranges]],
) -> Iterator[SentEvent]:
    places: dict[int, tuple[str, int]] = {}

    def choose(planned: PlannedBlock) -> Task | None:
        sealed = planned.sealed
        sent = ranges.get((EVENTS, sealed.number))
        if sent is None:
            return None
        places[sealed.number] = plan.parts[sealed.part].path, sealed.first_row
        return task_of(plan, planned)._replace(ended=sent[0], doubtful=sent[1])

    if not any(phase == EVENTS for phase, _ in ranges):
        return
    with Workers(count, config) as workers:
        for _, located in workers.walk(_locate_block, tasks(directory, choose)):
            file, first = places.pop(located.block)
            for uuid, event, distinct_id, timestamp, state, row in located.events:
                yield SentEvent(SentLine(EVENTS, uuid, event, distinct_id, timestamp, state, file, first + row))


def _locate_block(transformer: BlockTransformer, task: Task) -> _Located:
    """The events of a block that were sent. `task.ended` are the settled ranges, `task.doubtful` those in doubt."""
    events = transformer.planned(task)
    encoded, _ = transformer.apply_tables(events, task)
    rows = rows_sent(events, task)
    located = []
    for index, state in _sent_indices((task.ended, task.doubtful)):
        sent = read_event(encoded[index])
        located.append((sent.uuid, sent.event, sent.properties.distinct_id, sent.timestamp, state, rows[index]))
    return _Located(task.number, located)


def _sent_indices(ranges: tuple[Sequence[tuple[int, int]], Sequence[tuple[int, int]]]) -> Iterator[tuple[int, str]]:
    """The positions of events in their block, in order, and whether each is settled or in doubt."""
    settled, in_doubt = ranges
    whole = [(*one, SETTLED) for one in settled] + [(*one, IN_DOUBT) for one in in_doubt]
    for first, last, state in sorted(whole):
        for index in range(first, last + 1):
            yield index, state
