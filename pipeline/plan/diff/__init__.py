"""What a changed mapping or export changes: compares two sealed plans, event by event (`backcast diff`).

The facts of both plans are joined by uuid in a database that spills to disk, so memory does not grow with the plans.
Only events whose content differs are read from their requests, to compare their properties. Merges, groups and
profile updates are matched by their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from pipeline.files import private
from pipeline.identity.database import Database
from pipeline.mask import MASK
from pipeline.plan.diff.result import (
    KINDS,
    CodeChange,
    Consequences,
    DayChange,
    Diff,
    EventExample,
    NameChange,
    PersonChange,
    Persons,
    PhaseChange,
    PropertyChange,
    Renamed,
    Shift,
    Side,
)
from pipeline.plan.diff.settings import settings_of
from pipeline.plan.diff.tables import Joined, Opened
from pipeline.plan.diff.tally import MOST_EXAMPLES, Tally
from pipeline.plan.requests.query import scratch_database
from pipeline.plan.sealed.directory import EVENTS, PHASES, Directory, sealed_file
from pipeline.plan.sealed.manifest import Plan
from pipeline.timestamps import format_utc
from pipeline.uuids import uuid_text
from pipeline.validator.rules import WITHOUT_TIME

MOST_LISTED = 100
Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""
_DAY = "strftime(make_timestamp({}), '%Y-%m-%d')"
_A_DAY, _B_DAY = _DAY.format("a_time"), _DAY.format("b_time")
_CHANGED = "FROM differing WHERE kind = 'changed'"
_MOVED = f"a_name != b_name OR a_id != b_id OR {_A_DAY} != {_B_DAY}"
"""When the service keeps both: it recognises a copy by uuid, name, distinct_id and UTC day."""
_EVENTS = f"(SELECT *, coalesce(a_name, b_name) AS name, coalesce({_A_DAY}, {_B_DAY}) AS day FROM differing)"
_KINDS = ", ".join(f"count(*) FILTER (WHERE kind = '{kind}')" for kind in KINDS)
_IDS = f"(SELECT coalesce(a_id, b_id) AS id FROM differing UNION ALL SELECT b_id {_CHANGED} AND a_id != b_id)"
_OF_DAY = f"SELECT {_DAY.format('time')} AS day, count(*) AS events FROM {{}} WHERE code IS NULL GROUP BY day"


@private()
def compare_plans(
    a: Opened,
    b: Opened,
    *,
    counts_only: bool = False,
    values: bool = False,
    ids: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> Diff:
    """Compare two plans; with `counts_only`, only what they recorded.

    `values` and `ids` show values of properties and distinct_ids, which are masked otherwise. `progress` is called with
    the number of changed events compared so far, and how many there are. Raises UnsafePlan.
    """
    recorded = _recorded(a, b)
    if counts_only:
        return recorded
    with scratch_database(b.directory) as database:
        return _compared(recorded, database, a, b, Tally(values), ids, progress)


def _recorded(a: Opened, b: Opened) -> Diff:
    """The difference between what the two plans recorded."""
    plans = a.plan, b.plan
    skips, rejects = (_codes(getattr(plans[0], name), getattr(plans[1], name)) for name in ("skips", "rejects"))
    settings = settings_of(*plans)
    sides = _side(a), _side(b)
    in_b = sides[1].phases
    same = _seals(*plans) == _seals(*reversed(plans))
    return Diff(
        equal=same and not skips and not rejects,
        compared=False,
        a=sides[0],
        b=sides[1],
        settings=settings,
        skips=skips,
        rejects=rejects,
        phases={phase: PhaseChange(in_a, in_b[phase], in_a, 0, 0, 0) for phase, in_a in sides[0].phases.items()},
        totals=dict.fromkeys(("names", "days", "persons", "properties"), 0) | {"settings": len(settings)},
    )


def _seals(plan: Plan, other: Plan) -> object:
    """What a plan recorded about its events: counts, and the digests of its files; the files in facts/ list every
    event.

    Updates may have the plan's own instant as their time, so they are compared only by their number if the instants
    differ.
    """
    left_out = {"identities.parquet", "source-pairs.jsonl"}  # these say where rows are
    if plan.options.as_of != other.options.as_of:
        left_out |= {sealed_file(phase, Directory(Path())).name for phase in PHASES if phase != EVENTS}
    files = {
        name: digest for name, digest in plan.files.items() if name not in left_out and not name.startswith("requests")
    }
    return plan.rows, plan.events, plan.names, files


def _compared(
    recorded: Diff, database: Database, a: Opened, b: Opened, tally: Tally, ids: bool, progress: Progress
) -> Diff:
    """The recorded differences, with the differences between the events of both plans."""
    joined = Joined(database, a, b)
    instants = _instant(a), _instant(b)
    phases: dict[str, PhaseChange] = {}
    for phase in sorted(PHASES, key=EVENTS.__eq__):  # events last, because their table is counted below
        joined.join(phase)
        done, total = 0, joined.count("changed")
        for some in joined.pairs(phase):
            same = []
            for at, first, second, alike in zip(*some, strict=True):
                if phase != EVENTS:
                    tally.update(phase, first, second, instants)
                elif not tally.event(first, second, alike=bool(alike)):
                    same.append(int(at))
            joined.leave_out(same)
            done += len(some.at)
            progress("Comparing", done, total)
        counted, changed, only_a = recorded.phases[phase], tally.changed[phase], joined.count("only_a")
        phases[phase] = replace(
            counted, same=counted.a - changed - only_a, changed=changed, only_a=only_a, only_b=joined.count("only_b")
        )
    properties = _properties(tally)
    persons = _persons(database, ids=ids)
    names = database.rows(
        f"SELECT name, {_KINDS} FROM {_EVENTS} GROUP BY name ORDER BY count(*) DESC, name DESC LIMIT {MOST_LISTED}"
    )
    days = database.rows(
        f"SELECT day, {_KINDS}, coalesce(any_value(a.events), 0), coalesce(any_value(b.events), 0) FROM {_EVENTS}"
        f" LEFT JOIN ({_OF_DAY.format('a')}) AS a USING (day) LEFT JOIN ({_OF_DAY.format('b')}) AS b USING (day)"
        " GROUP BY day ORDER BY day"
    )
    what = database.rows(
        "SELECT count(*) FILTER (WHERE a_name != b_name), count(*) FILTER (WHERE a_id != b_id),"
        f" count(*) FILTER (WHERE a_time != b_time), count(*) FILTER (WHERE {_A_DAY} != {_B_DAY}),"
        f" count(*) FILTER (WHERE {_MOVED}) {_CHANGED}"
    )[0]
    differ = any((one.changed, one.only_a, one.only_b) != (0, 0, 0) for one in phases.values())
    return replace(
        recorded,
        equal=not differ and not recorded.skips and not recorded.rejects,
        compared=True,
        phases={phase: phases[phase] for phase in PHASES},
        changed=dict(zip(recorded.changed, (*what[:4], tally.of_properties, tally.of_order), strict=True)),
        properties=properties[:MOST_LISTED],
        names=[NameChange(*one) for one in names],
        days=[DayChange(*one) for one in days],
        renamed=[
            Renamed(name or "", other or "", events)
            for name, other, events in _most(database, "a_name, b_name", "a_name != b_name")
        ],
        shifts=[Shift(*one) for one in _most(database, "(b_time - a_time) / 1e6", "a_time != b_time")],
        persons=persons,
        examples=[one for kind in KINDS for one in _examples(database, kind)],
        consequences=_consequences(phases[EVENTS], what[4], joined.rekeyed(), joined.merged()),
        totals=recorded.totals
        | {
            "names": database.number(f"SELECT count(DISTINCT name) FROM {_EVENTS}"),
            "days": len(days),
            "persons": persons.count,
            "properties": len(properties),
        },
    )


def _instant(opened: Opened) -> str:
    """The time of updates that have no time of their own."""
    return format_utc(opened.plan.options.as_of - WITHOUT_TIME)


def _side(opened: Opened) -> Side:
    plan = opened.plan
    return Side(
        opened.name, plan.digest, plan.tool, plan.mapping.name, plan.zone, plan.first, plan.last,
        msgspec.to_builtins(plan.rows), {phase: plan.events.phases.get(phase, 0) for phase in PHASES},
    )  # fmt: skip


def _codes(a: Mapping[str, int], b: Mapping[str, int]) -> list[CodeChange]:
    """The codes whose counts differ, the largest difference first."""
    changes = [CodeChange(code, a.get(code, 0), b.get(code, 0)) for code in dict.fromkeys([*a, *b])]
    return sorted((one for one in changes if one.a != one.b), key=lambda one: -abs(one.a - one.b))


def _properties(tally: Tally) -> list[PropertyChange]:
    """The properties that differ, those of events first, the worst first."""
    found = [
        PropertyChange(phase, name, one.added, one.removed, one.changed, [(a, b) for _, a, b in one.examples])
        for (phase, name), one in tally.properties.items()
    ]
    found.sort(key=lambda one: (-one.added - one.removed - one.changed, one.name))
    return sorted(found, key=lambda one: PHASES.index(one.phase) if one.phase != EVENTS else -1)


def _most(database: Database, columns: str, which: str) -> list[tuple[Any, ...]]:
    """The most frequent values among the changed events, each with its count; the last one, None, stands for the
    rest."""
    found = database.rows(
        f"SELECT {columns}, count(*) AS events {_CHANGED} AND {which} GROUP BY ALL ORDER BY events DESC, {columns}"
        f" LIMIT {MOST_LISTED}"
    )
    rest = database.number(f"SELECT count(*) {_CHANGED} AND {which}") - sum(one[-1] for one in found)
    return [*found, (*(None for _ in columns.split(", ")), rest)] if rest else found


def _persons(database: Database, *, ids: bool) -> Persons:
    count = database.number(f"SELECT count(DISTINCT id) FROM {_IDS}")
    most = database.rows(
        f"SELECT id, count(*) FROM {_IDS} GROUP BY id ORDER BY count(*) DESC, id DESC LIMIT {MOST_LISTED // 5}"
    )
    return Persons(count, [PersonChange(person if ids else MASK, events) for person, events in most])


def _examples(database: Database, kind: str) -> list[EventExample]:
    """Examples of events of a kind: those with the smallest uuids."""

    def shown(name: str | None, time: int | None) -> tuple[str, str] | None:
        return None if name is None or time is None else (name, format_utc(time))

    rows = database.rows(
        f"SELECT hi, lo, a_name, a_time, b_name, b_time FROM differing WHERE kind = '{kind}'"
        f" ORDER BY hi, lo LIMIT {MOST_EXAMPLES}"
    )
    return [EventExample(kind, uuid_text(*one[:2]), shown(*one[2:4]), shown(*one[4:])) for one in rows]


def _consequences(events: PhaseChange, duplicated: int, rekeyed: int, merged: int) -> Consequences:
    replaced = events.changed - duplicated
    return Consequences(
        collapse=events.same + replaced,
        replaced=replaced,
        duplicated=duplicated,
        rekeyed=rekeyed,
        new=events.only_b - rekeyed,
        left=events.only_a - rekeyed,
        merged=merged,
    )
