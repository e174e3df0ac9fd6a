"""The result of `pipeline.plan.statistics.activity` with files, rows and ids, as checks need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pipeline.identity.kinds import PLACE_SHIFT
from pipeline.options import PlanOptions
from pipeline.plan.samples.examples import SourceExamples
from pipeline.plan.statistics.activity import UNITS, Activity
from pipeline.text import printable
from pipeline.timestamps import SECOND, format_utc

_CHARACTERS = 60


class ActivityFacts(NamedTuple):
    """`fast_ids` ids have more events within a second, a minute or a day than allowed; `fast` describes some of them.

    `repeated` counts, by name, the events that equal an earlier one in the same second; `repeats` describes some of
    them. `late` events come after a later one of the same person and UTC day; `late_rows` describes some of them.
    """

    fast_ids: int = 0
    fast: Sequence[str] = ()
    repeated: Mapping[str, int] = {}
    repeats: Sequence[str] = ()
    late: int = 0
    late_rows: Sequence[str] = ()


def limits_of(thresholds: PlanOptions) -> dict[str, int]:
    """The most events allowed for one person within each of UNITS."""
    return dict(zip(UNITS, (thresholds.per_second, thresholds.per_minute, thresholds.per_day), strict=True))


def activity_facts(activity: Activity, examples: SourceExamples) -> ActivityFacts:
    """The activity with examples."""
    ids = examples.ids([(one.block, one.row) for one in activity.busy])
    fast = []
    for one in activity.busy:
        moment = format_utc(one.time)[: 10 if one.unit == "day" else 20]
        fast.append(
            f"{printable(ids[one.block, one.row], _CHARACTERS)} has {one.events:,} in the {one.unit} {moment}"
            f" ({examples.row_at(one.block << PLACE_SHIFT | one.row)})"
        )
    repeats = []
    for two in activity.repeats:
        first, other = (examples.row_at(block << PLACE_SHIFT | row) for block, row in (two.row, two.other))
        repeats.append(
            f"{printable(two.name, _CHARACTERS)} at {format_utc(two.time // SECOND * SECOND)} ({first} and {other})"
        )
    ordered = dict(sorted(activity.repeated.items(), key=lambda one: (-one[1], one[0])))
    late = [examples.row_at(block << PLACE_SHIFT | row) for block, row in activity.late_rows]
    return ActivityFacts(activity.fast_ids, fast, ordered, repeats, activity.late, late)
