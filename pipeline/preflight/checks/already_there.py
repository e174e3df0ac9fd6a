"""Events of the plan that the target has already: an import that was made before, by this tool or by a script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from pipeline.plan.checks import parse_limit
from pipeline.plan.sealed.freshness import transform_config_for, workers_for
from pipeline.preflight.check import Check, Level, check
from pipeline.preflight.live import Cell
from pipeline.preflight.matches import Comparison, Matches
from pipeline.preflight.target import Target
from pipeline.text import are, pluralize, printable

ALREADY_THERE = "already_there"
SAME_EVENTS = "same_events"
FLAG = "--max-already-there"
MOST_COMPARED = 20_000_000
"""Events of the target that are read to compare all; where there are more, the sample's share stands for all."""
_MOST_CELLS = 1_000
_SHOWN = 3
_NAME_CHARACTERS = 60


@check(150, ALREADY_THERE, needs="events", also=(SAME_EVENTS,))
def check_already_there(target: Target) -> Iterator[Check] | None:
    """Does the target have events of the plan, by their uuids, or as the same events under other uuids?"""
    if target.plan is None or target.directory is None:
        return None
    return iter(_results(target))


def _results(target: Target) -> list[Check]:
    plan, directory = target.plan, target.directory
    assert plan is not None
    assert directory is not None
    limit = parse_limit(target.request.options.max_already_there, FLAG)
    if not target.planned_cells:
        return [Check(ALREADY_THERE, "ok", "the plan has no event")]
    if not any(cell in target.cells for cell in target.planned_cells):
        return [Check(ALREADY_THERE, "ok", "the target has no event of a name and day of the plan")]
    config = transform_config_for(plan, directory)
    comparison = Comparison(
        plan, directory, config, target.planned_cells, target.cells, target.questions,
        workers_for(None, config.parts),
    )  # fmt: skip
    matches = find_matches(comparison)
    events = sum(target.planned_cells.values())
    results = []
    for name, found, under in (
        (ALREADY_THERE, matches.held, "under their own uuids"),
        (SAME_EVENTS, matches.doubled, "under other uuids (the same name, distinct_id and second)"),
    ):
        count = matches.estimated(found)
        level: Level = "ok" if not count else "stop" if not limit.permits(count, events) else "warning"
        detail = _detail(matches, found, count, events, under)
        if level == "stop" and target.request.options.allow_already_there:
            level, detail = "warning", f"{detail}; allowed by --allow-already-there"
        hint = "" if level == "ok" else _hint(name, level)
        results.append(Check(name, level, detail, hint, _facts(matches, found, count)))
    return results


def find_matches(comparison: Comparison) -> Matches:
    """Look up a sample, and compare everything where it finds an event. Raises Refused, Unfinished, StalePlan."""
    from pipeline.preflight.compare import compare_all
    from pipeline.preflight.matches import sent_ranges
    from pipeline.preflight.sample import look_up_sample

    ranges = sent_ranges(comparison.directory)
    sample = look_up_sample(comparison, ranges)
    landed = sum(comparison.cells.count(cell) for cell in comparison.common)
    if sample.complete or not (sample.held or sample.doubled) or landed > MOST_COMPARED:
        return sample
    return compare_all(comparison, sample, ranges)


def _detail(matches: Matches, found: Counter[Cell], count: int, events: int, under: str) -> str:
    looked = f"of {pluralize(events, 'event')} of the plan"
    basis = "" if matches.complete else f" (by {found.total():,} of {matches.compared:,} that were looked up)"
    if not count:
        basis = "" if matches.complete else f"; {matches.compared:,} of {matches.shared:,} that may be were looked up"
        return f"none {looked} is there {under}{basis}"
    ranked = sorted(found.items(), key=lambda one: (-one[1], one[0]))
    shown = [f"{printable(event, _NAME_CHARACTERS)} on {day} ({n:,})" for (event, day), n in ranked[:_SHOWN]]
    more = f" and {len(ranked) - _SHOWN:,} more names and days" if len(ranked) > _SHOWN else ""
    about = "" if matches.complete else "about "
    return f"{about}{count:,} {looked} {are(count)} there already {under}{basis}: {', '.join(shown)}{more}"


def _hint(name: str, level: Level) -> str:
    if name == ALREADY_THERE:
        what = "if the export was sent from another plan, go on with that one, which has the ledger"
    else:
        what = "leave out the days of the earlier import with --since and --until, or use a new project"
    return f"{what}; or accept it with --allow-already-there" if level == "stop" else what


def _facts(matches: Matches, found: Counter[Cell], count: int) -> dict[str, Any]:
    own = {example for example in matches.examples if bool(example.other) == (found is matches.doubled)}
    return {
        "events": count,
        "exact": matches.complete,
        "compared": matches.compared,
        "cells": [
            {"event": event, "day": day, "events": n}
            for (event, day), n in sorted(found.items(), key=lambda one: (-one[1], one[0]))[:_MOST_CELLS]
        ],
        "examples": [example._asdict() for example in sorted(own)],
    }
