"""Events of the plan that the target already has: from an earlier import, by this tool or by a script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from pipeline.plan.checks import parse_limit
from pipeline.plan.sealed.contents import check_tables
from pipeline.plan.sealed.directory import EVENTS
from pipeline.plan.sealed.manifest import Plan
from pipeline.preflight.check import check
from pipeline.preflight.live import Cell, TargetCells
from pipeline.preflight.matches import (
    MOST_EXAMPLES,
    Comparison,
    Matches,
    OtherVersions,
    find_matches,
    find_other_versions,
    opened,
)
from pipeline.preflight.target import Target
from pipeline.report.records import Check, Level
from pipeline.text import are, pluralize, printable, some_of

ALREADY_THERE = "already_there"
SAME_EVENTS = "same_events"
OTHER_VERSIONS = "other_versions"
FLAG = "--max-already-there"
_MOST_CELLS = 1_000
_SHOWN = 3
_NAME_CHARACTERS = 60


@check(150, ALREADY_THERE, needs="events", also=(SAME_EVENTS,))
def check_already_there(target: Target) -> Iterator[Check] | None:
    """Does the target have events of the plan, under their uuids, or as the same events under other uuids?"""
    if target.plan is None or target.directory is None:
        return None
    return iter(_results(target))


def _results(target: Target) -> list[Check]:
    plan, directory = target.plan, target.directory
    assert plan is not None
    assert directory is not None
    limit = parse_limit(target.request.options.max_already_there, FLAG)
    check_tables(plan, directory, (directory.cells.name, directory.requests.name))  # `opened` checks the facts
    if not target.planned_cells:
        return [Check(ALREADY_THERE, "ok", "the plan has no event")]
    comparison = Comparison(directory, target.planned_cells, target.cells, target.questions)
    if not comparison.common:
        return [Check(ALREADY_THERE, "ok", "the target has no event with a name and day of the plan")]
    with opened(comparison) as database:
        matches = find_matches(comparison, database)
    events = sum(target.planned_cells.values())
    results = []
    for name, found, under in (
        (ALREADY_THERE, matches.same_uuid, "under their own uuids"),
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


@check(155, OTHER_VERSIONS, needs="events")
def check_other_versions(target: Target) -> Check | None:
    """Does the target have events of the plan under their uuids, but with another name, person or UTC day?"""
    plan, directory = target.plan, target.directory
    if plan is None or directory is None or not plan.events.phases.get(EVENTS):
        return None
    check_tables(plan, directory, (directory.requests.name,))
    comparison = Comparison(directory, {}, TargetCells({}, {}), target.questions)  # asks by uuid, whatever the day
    with opened(comparison) as database:
        return _other_versions(find_other_versions(comparison, database, target.clock.now), plan)


def _other_versions(versions: OtherVersions, plan: Plan) -> Check:
    """Events whose uuid the target has with another name, person or UTC day, so that it would keep both."""
    if not versions.found:
        looked = pluralize(versions.compared, "event")
        detail = f"none of {looked} that were looked up is there with another name, person or UTC day"
        return Check(OTHER_VERSIONS, "ok", detail)
    count, complete, first = versions.estimated, versions.compared == versions.planned, versions.found[0]
    about, basis = "about ", f" (by {len(versions.found):,} of {versions.compared:,} that were looked up)"
    planned, there = (f"{printable(name, _NAME_CHARACTERS)} on {day}" for name, _, day in (first.planned, first.there))
    person = " of another person" if first.planned[1] != first.there[1] else ""
    path = printable(plan.parts[first.part].path, 200)
    detail = (
        f"{'' if complete else about}{count:,} of {pluralize(versions.planned, 'event')} {are(count)} there under the"
        f" same uuid with another name, person or UTC day{'' if complete else basis}; the first, {path}, row"
        f" {first.row:,}, is planned as {planned} and there as {there}{person}"
    )
    hint = (
        "the service would keep both versions: plan again with the mapping and --timezone of the earlier import"
        " (backcast diff compares its plan with this one), leave the rows out, or use a new project"
    )
    examples = [one._asdict() | {"part": plan.parts[one.part].path} for one in versions.found[:MOST_EXAMPLES]]
    facts = {"events": count, "exact": complete, "compared": versions.compared, "examples": examples}
    return Check(OTHER_VERSIONS, "warning", detail, hint, facts)


def _detail(matches: Matches, found: Counter[Cell], count: int, events: int, under: str) -> str:
    looked = f"of {pluralize(events, 'event')} of the plan"
    basis = "" if matches.complete else f" (by {found.total():,} of {matches.compared:,} that were looked up)"
    if not count:
        basis = "" if matches.complete else f"; {matches.compared:,} of {matches.shared:,} that may be were looked up"
        return f"none {looked} is there {under}{basis}"
    ranked = sorted(found.items(), key=lambda one: (-one[1], one[0]))
    shown = [f"{printable(event, _NAME_CHARACTERS)} on {day} ({n:,})" for (event, day), n in ranked]
    about, some = "" if matches.complete else "about ", some_of(shown, _SHOWN)
    return f"{about}{count:,} {looked} {are(count)} already there {under}{basis}: {some}"


def _hint(name: str, level: Level) -> str:
    if name == ALREADY_THERE:
        what = "if the export was sent from another plan, continue with that one, which has the ledger"
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
