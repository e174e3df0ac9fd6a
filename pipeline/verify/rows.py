"""Name what differs: each difference with its row of the export, or its line of a file of the plan, and what landed.

All are written to `differences.jsonl` of the plan; a result has the first of each kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pipeline.encoder.encoded import read_event
from pipeline.models import Step
from pipeline.plan.samples.event_rows import BlockEvents, Place, find_lines, find_rows
from pipeline.plan.sealed.directory import EVENTS, PHASES, Directory, LinesWriter, read_lines, sealed_file
from pipeline.plan.sealed.manifest import Plan
from pipeline.transform.tasks import TransformConfig
from pipeline.verify.comparison import DIFFERENT, DUPLICATED, EXTRA, LOST, MISSING, Comparison, uuid_of
from pipeline.verify.expected import LANDED, spelled
from pipeline.verify.fields import MOST_NAMED, Altered
from pipeline.verify.findings import Difference, Landed, PersonDifference
from pipeline.verify.landed import ASKED, landed_events

if TYPE_CHECKING:
    from pipeline.management import ManagementClient

SHOWN = 20
"""Differences of each kind that a result lists."""
ALTERED = "altered"


class SealedPlan(NamedTuple):
    """A plan, its directory, and its config on this machine."""

    plan: Plan
    directory: Directory
    config: TransformConfig


class _Named(NamedTuple):
    """A difference before its row is known; `block` is -1 for what is not of the plan."""

    phase: int
    block: int
    at: int
    kind: str
    uuid: str
    event: str
    changed: list[str]


def name_differences(
    client: ManagementClient,
    comparison: Comparison,
    altered: Sequence[Altered],
    sealed: SealedPlan,
    cells: Sequence[tuple[str, str]],
    people: Iterable[PersonDifference],
    progress: Step,
    keep: frozenset[str] = frozenset(),
) -> list[Difference]:
    """Write all differences, those of people last, and return the first events of each kind.

    The file is removed where there are none. Those of the kinds `keep` that it has from an earlier verification stay.
    """
    directory = sealed.directory
    named = sorted(_named(comparison, altered, cells))
    shown: list[Difference] = []
    counts: Counter[str] = Counter()
    aside = directory.differences.with_suffix(".new")
    with LinesWriter(aside) as writer:
        for chunk in _with_rows(client, named, sealed):
            for difference in chunk:
                counts[difference.kind] += 1
                if counts[difference.kind] <= SHOWN:
                    shown.append(difference)
                writer.write(difference)
            progress("rows of differences", writer.count, len(named))
        writer.write_all(one for one in people if one.kind not in keep)
        if keep and directory.differences.exists():
            new = {(one.kind, one.uuid) for one in named}
            earlier = read_lines(directory.differences, dict[str, Any])
            writer.write_all(one for one in earlier if one["kind"] in keep and (one["kind"], one["uuid"]) not in new)
        writer.close()
    if writer.count:
        aside.replace(directory.differences)
    else:
        aside.unlink()
        directory.differences.unlink(missing_ok=True)
    order = (MISSING, DIFFERENT, ALTERED, DUPLICATED, EXTRA)
    return sorted(shown, key=lambda difference: order.index(difference.kind))


def _named(comparison: Comparison, altered: Sequence[Altered], cells: Sequence[tuple[str, str]]) -> Iterator[_Named]:
    for kind, file in ((MISSING, LOST), (DIFFERENT, DIFFERENT), (DUPLICATED, DUPLICATED), (EXTRA, EXTRA)):
        for some in comparison.read(file, MOST_NAMED):
            for one in some:
                event, _ = cells[int(one["cell"])]
                block = -1 if one["state"] == LANDED else int(one["block"])
                yield _Named(int(one["phase"]), block, int(one["index"]), kind, uuid_of(one), event, [])
    for item in altered:
        yield _Named(item.phase, item.block, item.index, ALTERED, item.uuid, item.event, item.changed)


def _with_rows(client: ManagementClient, named: Sequence[_Named], sealed: SealedPlan) -> Iterator[list[Difference]]:
    """Differences with their rows, some of one block or file at a time."""
    for group, places, block in _placed(named, sealed):
        for start in range(0, len(group), ASKED):
            some = group[start : start + ASKED]
            there = [one.uuid for one in some if one.kind != MISSING]
            landed: dict[str, list[Landed]] = {}
            for row in landed_events(client, there):
                landed.setdefault(row.uuid, []).append((row.event, row.distinct_id, row.timestamp))
            yield [
                _difference(one, landed.get(one.uuid, []), place, block)
                for one, place in zip(some, places[start : start + ASKED], strict=True)
            ]


def _placed(
    named: Sequence[_Named], sealed: SealedPlan
) -> Iterator[tuple[list[_Named], list[tuple[str, Place]], BlockEvents | None]]:
    """Differences in their order with the file and row of each, those of a block at a time, with its events."""
    blocks = {one.block for one in named if one.block >= 0 and PHASES[one.phase] == EVENTS}
    rows = find_rows(*sealed, blocks)
    for (phase, block), of_block in groupby(named, key=lambda one: (one.phase, one.block)):
        group, name = list(of_block), PHASES[phase]
        if block < 0:
            yield group, [("", Place())] * len(group), None
        elif name == EVENTS:
            found = next(rows)
            yield group, [(found.part, found.place(one.at)) for one in group], found
        else:
            file = sealed_file(name, sealed.directory)
            places = find_lines(file, [(one.block, one.at) for one in group])
            yield group, [(file.name, place) for place in places], None


def _difference(one: _Named, landed: list[Landed], place: tuple[str, Place], block: BlockEvents | None) -> Difference:
    part, (row, offset, _) = place
    changed = one.changed
    if one.kind == DIFFERENT and block is not None and landed:
        sent = read_event(block.events[one.at])
        event, distinct_id, timestamp = landed[0]
        changed = [
            name
            for name, before, after in (
                ("event", sent.event, event),
                ("distinct_id", sent.properties.distinct_id, distinct_id),
                ("timestamp", spelled(sent.timestamp), spelled(timestamp)),
            )
            if before != after
        ]
    planned = one.block >= 0
    return Difference(
        one.kind,
        one.uuid,
        one.block if planned else None,
        landed,
        PHASES[one.phase] if planned else "",
        one.event,
        part,
        row,
        offset,
        changed,
    )


def place_differences(
    found: Iterable[np.void], sealed: SealedPlan, cells: Sequence[tuple[str, str]]
) -> list[Difference]:
    """Some planned events, as differences with their rows: examples for what is told of them."""
    named = sorted(
        _Named(
            int(one["phase"]), int(one["block"]), int(one["index"]), "", uuid_of(one), cells[int(one["cell"])][0], []
        )
        for one in found
    )
    return [
        _difference(one, [], place, None)
        for group, places, _ in _placed(named, sealed)
        for one, place in zip(group, places, strict=True)
    ]
