"""The report for people: one self-contained page that needs no network, no script and no other file.

Everything that came from an export is escaped by the template engine, and the page's own policy forbids scripts
and any load, so that a hostile event name stays text.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pipeline.clock_offsets import offset_name
from pipeline.extractors import describe
from pipeline.plan.manifest import Plan
from pipeline.report import people
from pipeline.report.contents import OTHERS, Report, phases_of
from pipeline.report.wording import (
    COLLAPSE,
    DECISIONS,
    VERDICTS,
    advice,
    mapping_of,
    phase_meaning,
    state_in_words,
)
from pipeline.text import pluralize, printable
from pipeline.timestamps import format_utc

if TYPE_CHECKING:
    from jinja2 import Environment

MOST_IDS = 20
"""Rows of each table of ids, and of names of properties; the others are in plan.json."""
MOST_PARTS = 2_000
"""Parts listed one by one; the others are in plan.json."""
NAME_CHARACTERS = 200


class YearTable(NamedTuple):
    """Events to send in one UTC year: (name, twelve counts, their sum) in the order of the plan, then the sums."""

    year: str
    events: list[tuple[str, list[int], int]]
    sums: list[int]
    total: int


def render(report: Report) -> str:
    """The page as text. The same report gives the same page."""
    plan = report.plan
    return (
        _environment()
        .get_template("plan.html.j2")
        .render(
            report=report,
            plan=plan,
            state=_state(report),
            verdict=VERDICTS.get(plan.verdict, plan.verdict),
            phases=[(name, phase_meaning(name, plan), count) for name, count in phases_of(plan).items()],
            parts=[(part, describe(part.part(index))) for index, part in enumerate(plan.parts[:MOST_PARTS])],
            parts_left_out=max(0, len(plan.parts) - MOST_PARTS),
            tables=any(part.table for part in plan.parts),
            mapping=mapping_of(plan),
            years=years(report),
            gates=[(gate, advice(gate.name)) for gate in plan.gates],
            zones=list(map(_zone_row, plan.zone_evidence)),
            options=list(options_shown(plan)),
            people=_people(report),
            results=report.results,
            collapse=COLLAPSE,
        )
    )


def _state(report: Report) -> str:
    applied = report.results.applied
    return state_in_words(report.state, applied.events.refused if applied is not None else 0)


def _people(report: Report) -> dict[str, object]:
    """What the pages on ids, groups and persons show."""
    plan, found = report.plan, report.plan.people
    return {
        "nothing": people.NOTHING if people.nothing(plan) else "",
        "identities": people.identities_sentence(plan),
        "approval": people.approval(plan),
        "decisions": people.decisions(plan),
        "largest": found.identities.largest[:MOST_IDS],
        "largest_left": people.more_persons(plan, min(MOST_IDS, len(found.identities.largest))),
        "most": MOST_IDS,
        "partners": [
            (title, unit, some[:MOST_IDS])
            for title, unit, some in (
                ("Ids of several users (shared devices)", "users", found.identities.shared),
                ("Users of several ids", "ids", found.identities.crowded),
            )
        ],
        "pairs": [(one, DECISIONS.get(one.decision, one.decision)) for one in report.pairs],
        "groups": people.groups_sentence(plan),
        "types": people.group_types(plan)[:MOST_IDS],
        "types_left": max(0, len(found.groups.types) - MOST_IDS),
        "groups_left_out": people.left_out(found.groups.left_out),
        "persons": people.persons_sentence(plan),
        "names": people.bounded(found.persons.names, MOST_IDS, found.persons.properties),
        "persons_left_out": people.left_out(found.persons.left_out),
        "profiles": people.profiles_sentences(plan),
        "promoted_sentence": people.promoted_sentence(plan),
        "promoted": people.bounded(found.profiles.promoted, MOST_IDS),
    }


def years(report: Report) -> list[YearTable]:
    """The months of a report as one table a year."""
    by_year: dict[str, dict[str, list[int]]] = {}
    for one in report.months:
        year, month = one.month.rsplit("-", 1)
        counts = by_year.setdefault(year, {}).setdefault(one.event, [0] * 12)
        counts[int(month) - 1] += one.count
    tables = []
    for year, events in sorted(by_year.items()):
        sums = [sum(column) for column in zip(*events.values(), strict=True)]
        rows = [(_event_name(name), counts, sum(counts)) for name, counts in events.items()]
        tables.append(YearTable(year, rows, sums, sum(sums)))
    return tables


def options_shown(plan: Plan) -> list[tuple[str, str]]:
    """Each option of the plan by name, times in words, those that were not given left out."""
    shown: list[tuple[str, str]] = []
    for name, value in msgspec.to_builtins(plan.options).items():
        if value in (None, "", (), [], {}):
            continue
        shown.append((name, _option(name, value)))
    for name, value in msgspec.to_builtins(plan.limits).items():
        shown.append((name, f"{value:,}"))
    return shown


def _option(name: str, value: object) -> str:
    if name in ("as_of", "since", "until") and isinstance(value, int):
        return format_utc(value)
    if name == "zones" and isinstance(value, list | tuple):
        return ", ".join(f"{zone} from {since}" if since else str(zone) for zone, since in value)
    if name == "group_types" and isinstance(value, list | tuple):
        return ", ".join(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={one}" for key, one in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _event_name(name: str) -> str:
    return "all other events" if name == OTHERS else printable(name, NAME_CHARACTERS)


def _zone_row(month: Mapping[str, object]) -> dict[str, object]:
    expected = month.get("expected")
    names = [offset_name(int(one)) for one in expected] if isinstance(expected, list) else []
    offset = month.get("offset")
    return {
        **month,
        "offset": offset_name(offset) if isinstance(offset, int) else "",
        "expected": " or ".join(names),
    }


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("pipeline.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["n"] = lambda number: f"{number:,}"
    environment.filters["pluralize"] = pluralize
    environment.filters["plainly"] = lambda text, limit=NAME_CHARACTERS: printable(str(text), limit)
    environment.filters["by_line"] = _by_line
    return environment


def _by_line(text: str) -> str:
    """A whole file as it stands but for characters that would turn the page round."""
    return "\n".join(printable(line.expandtabs(4), 1_000) for line in text.splitlines())
