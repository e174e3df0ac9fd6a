"""The decoder for visits from Matomo's Live API, as JSON and as CSV (docs/know/exports.md#matomo).

A visit has its actions in a list, or in CSV in numbered columns. An action's `timestamp` is the site's local time,
written as if it were UTC; the visit's times are UTC. For each action, the decoder returns one row with

* the columns of the visit;
* `action`: an object of the action's own members;
* `utc`: the action's time in seconds since 1970, if the site's offset from UTC can be computed;
* `local`: otherwise its time on the site's clock, as ISO 8601 without an offset;
* `first`: yes, for the first action of the visit.

If Matomo left out actions of a visit, the visit gives one more row: the visit's columns, and `cut` with the number of
actions that it has.
"""

from __future__ import annotations

import re

from pipeline import values
from pipeline.mapper.language.kinds import YES, Field
from pipeline.mapper.program.functions import decodes
from pipeline.timestamps import SECOND, format_utc
from pipeline.values import BadValue, Record, Value

ACTIONS = "actionDetails"
MAX_ACTIONS = 500
"""How many actions of a visit the API returns by default (docs/know/exports.md#matomo-api)."""
QUARTER, WEST, EAST = 900, -12 * 3600, 14 * 3600
"""Offsets from UTC are multiples of a quarter of an hour in this range, in seconds."""
_NUMBERED = re.compile(ACTIONS + r"_([0-9]+)_(.+)")
_ITEM = re.compile(r"itemDetails_([0-9]+)_(.+)")
_SECONDS = re.compile(r"[0-9]{1,10}")


@decodes(
    "matomo_visit",
    "a visit from Matomo's Live API: a row for each of its actions, with the action in `action` and its time in `utc`",
    matomo_visit=Field(YES, "yes", True),
)
def visit_actions(row: Record) -> list[Record]:
    """The rows of a visit, as above. Raises BadValue if its actions are not a list of objects."""
    visit = {name: value for name, value in row.items() if not name.startswith(ACTIONS)}
    actions = _numbered(row) if ACTIONS not in row else _listed(row[ACTIONS])
    times = [_time(action.get("timestamp")) for action in actions]
    known = [time for time in times if time is not None]
    offset = _offset(known, visit)
    earliest = min(known, default=None)
    found: list[Record] = []
    first = True
    for action, time in zip(actions, times, strict=True):
        one: Record = {**visit, "action": action}  # type: ignore[dict-item]
        if time is not None and offset is not None:
            one["utc"] = str(time - offset)
        elif time is not None:
            one["local"] = format_utc(time * SECOND).removesuffix("Z")
        if first and time is not None and time == earliest:
            one["first"] = "yes"
            first = False
        found.append(one)
    if len(actions) >= MAX_ACTIONS or values.text(visit.get("truncatedActionsCount")) not in (None, "", "0"):
        found.append({**visit, "cut": str(len(actions))})
    return found


def _listed(value: Value) -> list[Record]:
    listed = values.items(value)
    opened = None if listed is None else [values.opened(member) for member in listed]
    if opened is None or None in opened:
        raise BadValue(f"column {ACTIONS!r}: expected a list of objects")
    return [action for action in opened if action is not None]


def _numbered(row: Record) -> list[Record]:
    """The actions in columns such as `actionDetails_0_type`, without blank cells; `itemDetails` becomes a list."""
    actions: dict[int, Record] = {}
    items: dict[int, dict[int, Record]] = {}
    for name, value in row.items():
        match = _NUMBERED.fullmatch(name)
        if match is None or values.is_absent(value) or value == "":
            continue
        number, member = int(match[1]), match[2]
        item = _ITEM.fullmatch(member)
        if item is None:
            actions.setdefault(number, {})[member] = value
        else:
            items.setdefault(number, {}).setdefault(int(item[1]), {})[item[2]] = value
    for number, numbered in items.items():
        listed = [one for _, one in sorted(numbered.items())]
        actions.setdefault(number, {})["itemDetails"] = listed  # type: ignore[assignment]
    return [action for _, action in sorted(actions.items())]


def _time(value: Value) -> int | None:
    text = values.text(value) or ""
    return int(text) if _SECONDS.fullmatch(text) else None


def _offset(times: list[int], visit: Record) -> int | None:
    """The site's offset from UTC in seconds, or None if the times of the visit do not show it.

    It is the earliest of `times`, those of the actions, less the visit's beginning. That is wrong if the first action
    was left out, and not right for all actions if the site's clock changed during the visit: the last action then shows
    a different offset. A last action that was left out shows none.
    """
    begin, end = _time(visit.get("firstActionTimestamp")), _time(visit.get("lastActionTimestamp"))
    if not times or begin is None:
        return None
    offset = min(times) - begin
    shown = {offset} if end is None else {offset, max(times) - end}
    possible = {one for one in shown if one % QUARTER == 0 and WEST <= one <= EAST}
    return offset if possible == {offset} else None
