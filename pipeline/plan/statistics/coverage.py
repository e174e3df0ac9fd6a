"""The coverage of a plan: where every field of the source goes, and what becomes of every event name.

Rows are counted as they came, before duplicates are left out. A field counts in each row that has it, so mapped,
kept and dropped rows add up. The most frequent fields and names are listed; the others are only counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import ROUND_HALF_EVEN, Decimal
from heapq import nlargest
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TypeVar

from msgspec import UNSET, UnsetType

from pipeline.mapper.inspection.field_uses import DROPPED, KEPT, MAPPED, Fate, FieldUses
from pipeline.mapper.program.references import Level
from pipeline.plan.scope import ScopeUsage
from pipeline.plan.sealed.facts import Coverage, EventCoverage, FieldCoverage, Totals
from pipeline.plan.statistics.spilling_counts import SpillingCounts
from pipeline.plan.statistics.unmatched import ReferenceUsage
from pipeline.text import printable
from pipeline.transform.field_counts import COLUMN, EVENT, EXAMPLES, OPENED, OTHER, REJECT, ROW, BlockFields, Counted

MOST_FIELDS = MOST_EVENTS = 1_000
"""This many fields and names are listed."""
MOST_EXAMPLES = 5_000
"""This many fields have examples: the first ones in the source."""
NAME_CHARACTERS = 200


class CoverageCounts:
    """Adds up what the blocks of a source contain."""

    def __init__(self, directory: Path, counted: Counted, scope: Mapping[str, bool] | UnsetType = UNSET) -> None:
        self._levels = (ROW, OPENED, *counted.nested)
        self._fields = SpillingCounts(directory / "fields.jsonl")
        self._events = SpillingCounts(directory / "events.jsonl")
        self._rows: Counter[str] = Counter()
        self._examples: dict[tuple[int, str], list[str]] = {}
        self._skipped_items: Counter[str] = Counter()
        self.scope = ScopeUsage(scope) if scope else None
        """How the event names compare with the scope, if the plan has one; complete after `coverage`."""

    def add(self, block: BlockFields) -> None:
        """Add a block; blocks come in order."""
        self._fields.add(block.fields)
        self._events.add(block.events)
        self._rows.update(block.rows)
        self._skipped_items.update(block.skipped_items)
        for key, values in block.examples.items():
            shown = self._examples.get(key)
            if shown is None:
                if len(self._examples) == MOST_EXAMPLES:
                    continue
                shown = self._examples[key] = []
            shown += [value for value in values if value not in shown][: EXAMPLES - len(shown)]

    def coverage(self, uses: FieldUses, references: ReferenceUsage, *, items: bool, duplicates: int = 0) -> Coverage:
        """The coverage by a mapping. `items`: the mapping's decoder makes plain rows; `duplicates` rows are left out.
        `references` receives the names that rows have. Called once."""
        rows = self._rows.total()
        occurring: set[tuple[Level, str]] = set()
        fields, fields_total = _most(self._each_field(uses, references, rows, occurring), MOST_FIELDS)
        met_events: set[str] = set()
        events, events_total = _most(self._each_event(uses, met_events), MOST_EVENTS)
        return Coverage(
            "items" if items else "rows",
            rows,
            fields,
            fields_total,
            events,
            events_total,
            uses.missing(occurring),
            uses.missing_events(met_events),
            dict(sorted(self._skipped_items.items())),
            duplicates,
        )

    def _each_field(
        self, uses: FieldUses, references: ReferenceUsage, rows: int, occurring: set[tuple[Level, str]]
    ) -> Iterator[FieldCoverage]:
        every = self._fields.in_order("level BIGINT, name VARCHAR, outcome VARCHAR")
        for (number, name), counts in groupby(every, key=itemgetter(0, 1)):
            level = self._levels[number]
            kinds: Counter[str] = Counter()
            to: dict[str, None] = {}
            by: Counter[str] = Counter()
            for _, _, outcome, count in counts:
                if outcome == COLUMN:
                    continue
                fate = _fate(uses, level, name, outcome)
                kinds[fate.kind] += count
                to.update(dict.fromkeys(fate.to))
                if fate.kind == DROPPED:
                    by[fate.by] += count
            total = kinds.total()
            references.add(level, name, total)
            if not total:
                continue  # all cells of this column are blank
            if uses.refers_to(level, name):
                occurring.add((level, name))
            yield FieldCoverage(
                printable(uses.reference(level, name), NAME_CHARACTERS),
                total,
                _share(total, rows),
                kinds[MAPPED],
                kinds[KEPT],
                kinds[DROPPED],
                [printable(one, NAME_CHARACTERS) for one in to],
                _by_count(by),
                bool(kinds[KEPT]) and not uses.is_named(level, name),
                self._examples.get((number, name), []),
            )

    def _each_event(self, uses: FieldUses, met: set[str]) -> Iterator[EventCoverage]:
        every = self._events.in_order("name VARCHAR, sent VARCHAR, outcome VARCHAR")
        for name, counts in groupby(every, key=itemgetter(0)):
            if uses.is_ruled_event(name):
                met.add(name)
            to: Counter[str] = Counter()
            updates = 0
            left_out: Counter[str] = Counter()
            for _, new, outcome, count in counts:
                if outcome.startswith(EVENT):
                    to[new] += count
                elif outcome.startswith(OTHER):
                    updates += count
                else:
                    left_out[outcome.partition(":")[2]] += count
            if self.scope is not None:
                self.scope.add(name, to.total() + updates + left_out.total())
            yield EventCoverage(
                printable(name, NAME_CHARACTERS),
                to.total() + updates + left_out.total(),
                printable(", ".join(_by_count(to)), NAME_CHARACTERS),
                to.total(),
                updates,
                _by_count(left_out),
                name in to and not uses.is_named_event(name),
            )


def _fate(uses: FieldUses, level: Level, name: str, outcome: str) -> Fate:
    kind, _, rest = outcome.partition(":")
    if outcome.startswith(EVENT):
        return uses.fate(level, name, int(rest), None)
    if outcome.startswith(OTHER):
        return uses.fate(level, name, 0, rest)
    return Fate(DROPPED, by=f"{'rejected' if kind + ':' == REJECT else 'skip'}: {rest}")


_One = TypeVar("_One", FieldCoverage, EventCoverage)


def _most(every: Iterator[_One], most: int) -> tuple[list[_One], Totals]:
    """The entries with the most rows, the earlier ones first among equals; only `most` of them are in memory."""
    met = unmapped = 0

    def counted() -> Iterator[_One]:
        nonlocal met, unmapped
        for one in every:
            met += 1
            unmapped += one.unmapped
            yield one

    listed = nlargest(most, counted(), attrgetter("rows"))
    return listed, Totals(met, len(listed), unmapped)


def _share(part: int, whole: int) -> float:
    if not whole:
        return 0.0
    return float((Decimal(part) / whole).quantize(Decimal("0.0001"), ROUND_HALF_EVEN))


def _by_count(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
