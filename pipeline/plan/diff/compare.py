"""What a worker does with a block of two plans, and later with what did not match within a block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pipeline.encoder.encoded import uuid_of
from pipeline.models import Block
from pipeline.plan.diff.spill import SIDES, Entry, Spill, tags_of
from pipeline.plan.diff.tally import Tally
from pipeline.plan.sealed.directory import EVENTS
from pipeline.transform.block import BlockTransformer
from pipeline.transform.tasks import Task

ONLY = {"a": "only_a", "b": "only_b"}
_ROW_BITS, _POSITION_BITS = 24, 12


class Pair(NamedTuple):
    """A block of the one plan, of the other, or the same block of both, each with its plan's events.

    `number` counts the pairs from 1. `values`: examples are not masked.
    """

    number: int
    a: Task | None
    b: Task | None
    spill: Spill
    values: bool


class SpillPair(NamedTuple):
    """One file of each side, see `Spill`. `instants` are the times that stand for the plans' own instants."""

    number: int
    block: Block
    spill: Spill
    instants: tuple[str, str]
    values: bool


class Matched(NamedTuple):
    """The differences of one file of each side, and the tags of the rows of which a plan has an event of its own."""

    tally: Tally
    tags: dict[str, bytes]


class _Sent(NamedTuple):
    """The events of one plan's block as they are sent, the key of each, and the row and position of each."""

    events: list[bytes]
    keys: list[bytes]
    rows: list[tuple[int, int]]

    def entries(self, places: Iterable[int], pair: Pair) -> Iterator[Entry]:
        """Some of them for the disk, with the tags of their rows where both plans have the block."""
        tagged = pair.a is not None and pair.b is not None
        for place in places:
            row, position = self.rows[place]
            tag = (((pair.number << _ROW_BITS) | row) << _POSITION_BITS) | position if tagged else 0
            yield Entry(self.keys[place], EVENTS, tag, self.events[place])


_NOTHING = _Sent([], [], [])


def compare_block(transformer: BlockTransformer, pair: Pair) -> Tally:
    """Compare the events of a block by uuid; those that do not match are spilled. Raises StalePlan."""
    tally = Tally(pair.values)
    a, b = _sent(transformer, pair.a), _sent(transformer.other or transformer, pair.b)
    in_a, in_b = set(a.events), set(b.events)
    waiting = {key: place for place, key in enumerate(a.keys) if a.events[place] not in in_b}
    alone = []
    for place, key in enumerate(b.keys):
        event = b.events[place]
        if event in in_a:
            continue
        match = waiting.pop(key, None)
        if match is None:
            alone.append(place)
        else:
            tally.pair(EVENTS, a.events[match], event, ("", ""))
    pair.spill.write("a", a.entries(waiting.values(), pair))
    pair.spill.write("b", b.entries(alone, pair))
    return tally


def _sent(transformer: BlockTransformer, task: Task | None) -> _Sent:
    if task is None:
        return _NOTHING
    events = transformer.planned(task)
    sent, _ = transformer.apply_tables(events, task)
    rows = list(zip(events.row_of, events.positions, strict=True))
    left_out = {(copy.row, copy.position) for copy in task.duplicates if copy.code}
    keys = [bytes.fromhex(uuid_of(event).replace("-", "")) for event in sent]
    return _Sent(sent, keys, [row for row in rows if row not in left_out])


def match_spilled(transformer: BlockTransformer | None, pair: SpillPair) -> Matched:
    """Match the spilled events of one file of each side by their keys."""
    tally = Tally(pair.values)
    waiting: dict[tuple[str, bytes], list[Entry]] = {}
    for entry in pair.spill.read("a", pair.number):
        waiting.setdefault((entry.phase, entry.key), []).append(entry)
    tags: dict[str, list[int]] = {side: [] for side in SIDES}
    for entry in pair.spill.read("b", pair.number):
        matches = waiting.get((entry.phase, entry.key))
        if matches:
            tally.pair(entry.phase, matches.pop(0).event, entry.event, pair.instants)
        else:
            tally.only(entry.phase, "only_b", entry.event)
            tags["b"].append(entry.tag)
    for matches in waiting.values():
        for entry in matches:
            tally.only(entry.phase, "only_a", entry.event)
            tags["a"].append(entry.tag)
    return Matched(tally, {side: tags_of(some).tobytes() for side, some in tags.items()})
