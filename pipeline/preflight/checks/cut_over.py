"""When live events begin at the target, and on which days the plan has events too: those would be counted twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pipeline.preflight.check import check
from pipeline.preflight.live import LiveEvents, micros, moment_text
from pipeline.preflight.target import Target
from pipeline.report.records import Check
from pipeline.text import pluralize, printable, some_of
from pipeline.timestamps import DAY, format_utc

CUT_OVER = "cut_over"
MOST_NAMES = 100
"""The facts list at most this many event names: those with the most planned events."""
MOST_DAYS = 1_000
"""The facts list at most this many days and names."""
_SHOWN = 5
_NAME_CHARACTERS = 60


@check(140, CUT_OVER, needs="events")
def check_cut_over(target: Target) -> Check:
    """Do live events begin before the plan ends?

    The facts have the first live event (`first_live`, null if there is none), and for a plan what overlaps by name
    (`names`) and by day and name (`days`).
    """
    if target.own_unknown:
        detail = "the plan was made without provenance, so its sent events cannot be told apart from live ones"
        return Check(CUT_OVER, "unknown", detail, "compare with backcast verify")
    live, plan = target.live, target.plan
    first = live.first
    facts: dict[str, Any] = {
        "first_live": None if first is None else format_utc(first),
        "first_live_event": live.first_name,
        "live": live.events,
    }
    if first is None:
        return Check(CUT_OVER, "ok", "the project has no live event yet", facts=facts)
    begin = f"live events begin at {moment_text(first)} ({_shown(live.first_name)})"
    if plan is None or plan.last is None or not target.planned_cells:
        return Check(CUT_OVER, "ok", begin, facts=facts)
    last = micros(plan.last)
    if first > last:
        gap = (first - last) // DAY
        after = f", {pluralize(gap, 'day')} after the plan's last event" if gap else ", after the plan's last event"
        return Check(CUT_OVER, "ok", begin + after, facts=facts)
    overlap = _Overlap(target.planned_cells, target.cells.live, format_utc(first)[:10])
    facts |= overlap.facts(live)
    if not overlap.live:
        return Check(CUT_OVER, "ok", f"{begin}, and none is on a later day of the plan", facts=facts)
    detail = (
        f"{begin}, and the plan runs until {moment_text(last)}: on {pluralize(len(overlap.days), 'day')} both have"
        f" events, {overlap.planned:,} of the plan and {overlap.live:,} live; {overlap.largest()}"
    )
    if overlap.planned_from_then == sum(target.planned_cells.values()):
        hint = "the whole plan is on days with live events: choose --until yourself, or find out what these events are"
    else:
        hint = (
            "plan again with --until first-live, which leaves out"
            f" up to {pluralize(overlap.planned_from_then, 'event')} from then on, or with your own time"
        )
    return Check(CUT_OVER, "warning", detail, hint, facts)


class _Overlap:
    """The days, from the first live event on, that have planned and live events."""

    def __init__(self, planned: Mapping[tuple[str, str], int], live: Mapping[tuple[str, str], int], begin: str) -> None:
        from_then = {cell: count for cell, count in planned.items() if cell[1] >= begin}
        self.planned_from_then = sum(from_then.values())
        of_plan, of_others = Counter[str](), Counter[str]()
        for counts, cells in ((of_plan, from_then), (of_others, live)):
            for (_, day), count in cells.items():
                counts[day] += count
        self.days = sorted(day for day in of_plan if of_others[day])
        self.planned = sum(of_plan[day] for day in self.days)
        self.live = sum(of_others[day] for day in self.days)
        both = sorted((day, event) for event, day in from_then if live.get((event, day)))
        self.cells = [(day, event, planned[event, day], live[event, day]) for day, event in both]
        self.names: dict[str, list[tuple[str, int, int]]] = {}
        for day, event, mine, others in self.cells:
            self.names.setdefault(event, []).append((day, mine, others))

    def largest(self) -> str:
        """The names with the most days on which both sides have them, in words."""
        if not self.names:
            return "no day has the same event name on both sides"
        ranked = sorted(self.names, key=lambda event: (-len(self.names[event]), event))
        shown = [f"{_shown(event)} on {pluralize(len(self.names[event]), 'day')}" for event in ranked]
        return f"by name: {some_of(shown, _SHOWN, what='name')}"

    def facts(self, live: LiveEvents) -> dict[str, Any]:
        """What overlaps, by name and by day."""
        ranked = sorted(self.names, key=lambda event: (-sum(mine for _, mine, _ in self.names[event]), event))
        return {
            "overlap_days": len(self.days),
            "overlap_planned": self.planned,
            "overlap_live": self.live,
            "names": [
                {
                    "event": event,
                    "first_live": format_utc(live.names[event].first) if event in live.names else None,
                    "days": len(self.names[event]),
                    "planned": sum(mine for _, mine, _ in self.names[event]),
                    "live": sum(others for _, _, others in self.names[event]),
                }
                for event in ranked[:MOST_NAMES]
            ],
            "days": [
                {"day": day, "event": event, "planned": mine, "live": others}
                for day, event, mine, others in self.cells[:MOST_DAYS]
            ],
        }


def _shown(event: str) -> str:
    return printable(event, _NAME_CHARACTERS)
