"""Looks up a sample of a plan's events at the target: one of each name and day before a second one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TypeVar

from pipeline.encoder.encoded import read_event
from pipeline.plan.sealed.contents import PlannedBlock, planned_blocks, task_of, tasks
from pipeline.preflight.compare import flags
from pipeline.preflight.matches import (
    MOST_EXAMPLES,
    Comparison,
    Example,
    Looked,
    Matches,
    Ranges,
    has_day,
    looked,
    rows_of,
    second_of,
)
from pipeline.preflight.questions import Questions
from pipeline.transform.block import BlockTransformer
from pipeline.transform.tasks import Task

BLOCKS = 24
"""Blocks of the export that the sample is of."""
DAYS = 40
"""Days that they are looked up on; each is a query or more."""
AT_ONCE = 250
"""Events of one query."""
T = TypeVar("T")


def look_up_sample(comparison: Comparison, ranges: Ranges) -> Matches:
    """Look up a sample of the plan's events. Raises Refused, Unfinished, StalePlan."""
    common = comparison.common
    shared = sum(comparison.planned[cell] for cell in common)
    days = sorted({day for _, day in common})
    blocks = [one.sealed.number for one in planned_blocks(comparison.directory) if has_day(one, days)]
    chosen = set(spread(blocks, BLOCKS))
    picked: list[Looked] = []
    planned_uuids: set[str] = set()
    eligible = 0
    transformer = BlockTransformer(comparison.config)

    def choose(planned: PlannedBlock) -> Task | None:
        return task_of(comparison.plan, planned) if planned.sealed.number in chosen else None

    for task in tasks(comparison.directory, choose):
        events = [looked(read_event(event)) for event in transformer.sent_events(task)]
        planned_uuids.update(event.uuid for event in events)
        sent = flags(len(events), ranges.get(task.number, ()))
        mine = [event for event, gone in zip(events, sent.tolist(), strict=True) if not gone and event.cell in common]
        eligible += len(mine)
        picked += stratified(mine, -(-comparison.sample // max(1, len(chosen))), lambda event: event.cell)
    by_day: dict[str, list[Looked]] = defaultdict(list)
    for event in picked:
        if "\\" not in event.distinct_id:  # the two services read a backslash differently
            by_day[event.second[:10]].append(event)
    found = Matches(shared)
    used: set[str] = set()
    looked_on = set(spread(sorted(by_day), DAYS))
    for day in sorted(looked_on):
        remaining = iter(by_day[day])
        while some := list(islice(remaining, AT_ONCE)):
            _look_up(comparison.questions, day, some, planned_uuids, used, found)
    found.complete = len(chosen) == len(blocks) and found.compared == eligible
    return found


def _look_up(
    questions: Questions, day: str, events: list[Looked], planned: set[str], used: set[str], found: Matches
) -> None:
    """Ask for these events of one day, by uuid and by person.

    `planned` are uuids of the plan, `used` those of others that stand for an event already: each stands for one.
    """
    uuids = ", ".join(f"'{event.uuid}'" for event in events)
    persons = ", ".join(sorted({"'{}'".format(event.distinct_id.replace("'", "''")) for event in events}))
    held: set[str] = set()
    others: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for page in rows_of(questions, {("", day): 1}, f"(uuid in ({uuids}) or distinct_id in ({persons}))"):
        for uuid, name, distinct_id, moment, _ in page:
            held.add(uuid)
            if uuid not in planned and uuid not in used:
                others[name, distinct_id, second_of(moment)].append(uuid)
    for event in events:
        found.compared += 1
        if event.uuid in held:
            found.held[event.cell] += 1
            _add_example(found, Example(*event.cell, event.uuid, ""))
        elif same := others.get(event[1:]):
            found.doubled[event.cell] += 1
            used.add(same[0])
            _add_example(found, Example(*event.cell, event.uuid, same.pop(0)))


def _add_example(found: Matches, example: Example) -> None:
    if len(found.examples) < MOST_EXAMPLES and all(example[:2] != one[:2] for one in found.examples):
        found.examples.append(example)


def spread(values: Sequence[T], most: int) -> list[T]:
    """At most so many of some values, evenly spread, with the first and the last."""
    if len(values) <= most:
        return list(values)
    return [values[round(index * (len(values) - 1) / max(1, most - 1))] for index in range(most)]


def stratified(values: Iterable[T], most: int, stratum: Callable[[T], object]) -> list[T]:
    """At most so many values: one of each stratum before a second one of any, in their order within it."""
    rank: Counter[object] = Counter()
    ranked = []
    for index, value in enumerate(values):
        key = stratum(value)
        ranked.append((rank[key], index, value))
        rank[key] += 1
    return [value for _, _, value in sorted(ranked, key=lambda one: one[:2])[:most]]
