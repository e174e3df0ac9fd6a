"""Compares a mapping with an export: its coverage, and which of its choices the rows take (`mapping check --against`).

The export is planned in a temporary folder, so that fields, names, keys and references are counted as in any plan; then
the same rows are mapped once more with a counter at each choice.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import msgspec

from pipeline.extractors import blocks as read_blocks
from pipeline.extractors import rows as read_rows
from pipeline.mapper import load
from pipeline.mapper.inspection.counted_uses import CHANGE, CONDITION, FIRST, LOOKUP, SKIP, Choice, counting_mapper
from pipeline.mapper.language.sections import Mapping
from pipeline.mapper.program.builder import Tables
from pipeline.models import BrokenRow, Finding, Part
from pipeline.options import PlanOptions
from pipeline.plan.create import create_plan
from pipeline.plan.lookups import load_lookups
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.facts import Coverage
from pipeline.plan.sealed.manifest import Plan
from pipeline.plan.statistics.coverage import NAME_CHARACTERS
from pipeline.plan.time_hints import time_hints

FORMAT = "backcast.mapping-against/1"
ROWS = 100_000
"""This many rows, the first ones, are read unless all are requested."""
KEY_CHECKS = ("key_not_unique",)


class Way(msgspec.Struct, frozen=True):
    """One way that a choice can go, and the rows that went it."""

    what: str
    rows: int


class ChoiceCount(msgspec.Struct, frozen=True):
    """A place in the mapping at which each row takes one way: the candidates of `first`, `distinct_id`, `time` or
    `received`. `line` is 0 if it is not known."""

    what: str
    line: int
    ways: list[Way]


class Idle(msgspec.Struct, frozen=True):
    """A verb or rule that changed nothing in these rows, although `rows` of them reached it."""

    what: str
    line: int
    rows: int
    why: str


class Against(msgspec.Struct, frozen=True):
    """What an export shows about a mapping. `rows` were read; `sampled`: there are more. `unnamed_rows` counts the rows
    whose event no rule names. `patch` are lines for the mapping file, "" if it needs none. `times` says what settles
    the zone of times that have none."""

    format: str
    mapping: str
    rows: int
    sampled: bool
    coverage: Coverage
    keys: list[Finding]
    choices: list[ChoiceCount]
    idle: list[Idle]
    unnamed_rows: int
    rejects: dict[str, int]
    patch: str
    times: list[str]


def check_against(name: str, sources: Sequence[str], options: PlanOptions, *, every: bool) -> Against:
    """Compare a mapping with an export: with its first ROWS rows, or with `every` row.

    Raises what a plan raises: UsageError, MappingError, UnreadableExport.
    """
    options = replace(options, mapping=name, limit=None if every else ROWS, max_rejects="100%", earlier=(), workers=0)
    mapping = load(name)
    with tempfile.TemporaryDirectory(prefix="backcast-") as scratch:
        folder = Path(scratch) / "plan"
        plan = create_plan(sources, folder, options)
        parts = [sealed.part(index) for index, sealed in enumerate(plan.parts)]
        choices = _choices(plan, parts, mapping, load_lookups(plan, Directory(folder)))
        times = time_hints(mapping, parts, bool(plan.options.zones))
        unread = [gate.detail for gate in plan.gates if gate.name == "rejects" and "--timezone" in gate.detail]
    coverage = plan.coverage
    if not isinstance(coverage, Coverage):
        raise TypeError("a plan of a mapping file has a coverage")
    return Against(
        FORMAT,
        name,
        plan.rows.read,
        not every and plan.rows.read == ROWS,
        coverage,
        [gate for gate in plan.gates if gate.name in KEY_CHECKS],
        [_count(choice) for choice in choices if choice.kind == FIRST and choice.reached],
        sorted(_idle(choices), key=lambda one: (one.line, one.what)),
        sum(one.become_events for one in coverage.events if one.unmapped),
        dict(plan.rejects),
        patch(mapping, coverage),
        times or unread,
    )


def _choices(plan: Plan, parts: Sequence[Part], mapping: Mapping, lookups: Tables) -> list[Choice]:
    """The choices of a mapping, with the rows that took each way, counted over the planned rows."""
    mappers: dict[str, Callable[..., object]] = {}
    every: list[Choice] = []
    left = plan.rows.read
    for part in parts:
        map_row = mappers.get(part.table)
        if map_row is None:
            map_row, counted = counting_mapper(mapping, plan.options.of_table(part.table), lookups)
            mappers[part.table] = map_row
            every += counted
        for block in read_blocks(part):
            for row in islice(read_rows(part, block, blanks=mapping.blanks.in_cells), max(0, left)):
                left -= 1
                if not isinstance(row, BrokenRow):
                    map_row(row)
            if left <= 0:
                return _together(every)
    return _together(every)


def _together(every: Sequence[Choice]) -> list[Choice]:
    """The choices, those at the same place in the mappings of several tables put together."""
    found: dict[tuple[str, str, object], Choice] = {}
    for choice in every:
        key = choice.kind, choice.what, (choice.place, tuple(choice.names))
        if key in found:
            found[key].counts = [a + b for a, b in zip(found[key].counts, choice.counts, strict=True)]
        else:
            found[key] = choice
    return list(found.values())


def _count(choice: Choice) -> ChoiceCount:
    return ChoiceCount(choice.what, _line(choice), [Way(what, rows) for what, rows in choice.ways])


def _line(choice: Choice) -> int:
    return choice.place.line if choice.place is not None else 0


def _idle(choices: Sequence[Choice]) -> Iterator[Idle]:
    """What changed nothing although rows reached it."""
    for choice in choices:
        if not choice.reached:
            continue
        counts = choice.counts
        if choice.kind in (CHANGE, SKIP, LOOKUP) and not counts[0]:
            yield Idle(choice.what, _line(choice), choice.reached, _WHY[choice.kind])
        elif choice.kind == CONDITION and 0 in counts:
            always = "true" if counts[0] else "false"
            yield Idle(choice.what, _line(choice), choice.reached, f"the condition is always {always}")


_WHY = {
    CHANGE: "the value stays as it is in every row",
    SKIP: "it skips no row",
    LOOKUP: "the table has none of the values",
}


def patch(mapping: Mapping, coverage: Coverage) -> str:
    """The YAML of the section `known` that names whatever is unmapped; "" if there is nothing. It replaces the
    mapping's own section. Names that were cut are left out."""
    events = [one.event for one in coverage.events if one.unmapped and len(one.event) < NAME_CHARACTERS]
    fields = [one.field for one in coverage.fields if one.unmapped and len(one.field) < NAME_CHARACTERS]
    if not events and not fields:
        return ""
    lines = ["known:"]
    for key, known, new in (("events", mapping.known.events, events), ("fields", mapping.known.fields, fields)):
        if known or new:
            lines += [f"  {key}:", *(f"    - {json.dumps(one, ensure_ascii=False)}" for one in (*known, *new))]
    return "\n".join(lines) + "\n"
