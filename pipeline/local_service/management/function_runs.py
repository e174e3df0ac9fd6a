"""Running hog functions and reading about their runs: broadcast, invocations, logs, metrics, icons.

The local service runs no function. Under `contract` these answer 200 with an empty body, as the contract states.
Under `observed` they have the shapes of the source, with the numbers of functions that never ran.
"""

from __future__ import annotations

import base64
from datetime import datetime, timedelta

from pipeline.local_service.management.function_fields import read_fields
from pipeline.local_service.management.hog_functions import find_function
from pipeline.local_service.management.requests import (
    EMPTY,
    BareError,
    ManagementState,
    OperationCall,
    OperationReply,
    forbidden,
    invalid,
    not_found,
    parse_instant,
)
from pipeline.local_service.management.templates import TEMPLATES

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""A PNG of one pixel: the icon of everything."""
MOST_LOGS = 500
_LABELS = {
    "hour": (timedelta(hours=1), len("2023-01-31T00"), ":00"),
    "day": (timedelta(days=1), len("2023-01-31"), ""),
    "week": (timedelta(weeks=1), len("2023-01-31"), ""),
}
"""The step of each interval, and its label: how much of ISO 8601, and what follows
(docs/know/service.md#hog-functions)."""
NOT_RUN = "The local service runs no hog function: this one did not run."
_MOST_LABELS = 10_000
_UNITS = {"h": 3600, "d": 86400, "w": 7 * 86400}


def broadcast(state: ManagementState, call: OperationCall) -> OperationReply:
    """200 for a function that exists. The source that was read has no such operation
    (docs/know/service.md#hog-functions)."""
    if state.observed and state.settings.broadcast == "removed":
        raise not_found()
    find_function(state, call)
    if state.observed:
        return OperationReply(body={"success": True})
    read_fields(call.body, observed=False)
    return EMPTY


def invoke(state: ManagementState, call: OperationCall) -> OperationReply:
    """One run. Under `observed` the id may be that of no function, and problems are bare
    (docs/know/service.md#hog-functions)."""
    if not state.observed:
        find_function(state, call)
        read_fields(call.body, observed=False)
        return EMPTY
    if not call.body.get("use_draft"):
        configuration = call.body.get("configuration")
        if "configuration" not in call.body:
            raise BareError(400, {"configuration": ["This field is required."]})
        if not isinstance(configuration, dict):
            raise BareError(400, {"configuration": ["Expected a dictionary of items."]})
    logs = [{"level": "INFO", "timestamp": call.now, "message": NOT_RUN}]
    return OperationReply(body={"status": "success", "logs": logs, "invocation_id": call.body.get("invocation_id")})


def logs(state: ManagementState, call: OperationCall) -> OperationReply:
    """The logs of the runs, newest first: none."""
    find_function(state, call)
    if not state.observed:
        return EMPTY
    limit = call.parameter("limit")
    if limit is not None and not (
        limit.isascii() and limit.isdigit() and len(limit) < 10 and 1 <= int(limit) <= MOST_LOGS
    ):
        raise invalid("limit", f"Ensure this value is between 1 and {MOST_LOGS}.")
    _span(call)
    return OperationReply(body={"count": 0, "next": None, "previous": None, "results": []})


def metrics(state: ManagementState, call: OperationCall) -> OperationReply:
    """Runs over time: the labels of the requested time span, and no series."""
    find_function(state, call)
    if not state.observed:
        return EMPTY
    interval = call.parameter("interval") or "day"
    if interval not in _LABELS:
        raise invalid("interval", "Not a valid choice.", "invalid_choice")
    _check_breakdown(call)
    after, before = _span(call)
    step, length, rest = _LABELS[interval]
    now = parse_instant(call.now)
    assert now is not None
    end, at = before or now, after or now - timedelta(days=7)
    if (end - at) / step > _MOST_LABELS:
        raise invalid("after", "The time between after and before is too long for this interval.")
    count = max(0, (end - at) // step + 1)
    labels = [(at + number * step).isoformat()[:length] + rest for number in range(count)]
    return OperationReply(body={"labels": labels, "series": []})


def metrics_totals(state: ManagementState, call: OperationCall) -> OperationReply:
    """Runs in sum: none."""
    find_function(state, call)
    if not state.observed:
        return EMPTY
    _check_breakdown(call)
    _span(call)
    return OperationReply(body={"totals": {}})


def icon(state: ManagementState, call: OperationCall) -> OperationReply:
    """The picture of one icon."""
    _check_icons(state)
    if not state.observed:
        return EMPTY
    if call.parameter("id") is None:
        raise invalid("id", "This field is required.", "required")
    return OperationReply(content=PICTURE, media_type="image/png")


def icons(state: ManagementState, call: OperationCall) -> OperationReply:
    """Icons by a part of their name."""
    _check_icons(state)
    if not state.observed:
        return EMPTY
    wanted = (call.parameter("query") or "").casefold()
    found = [one for one in TEMPLATES.values() if wanted in one["name"].casefold()]
    return OperationReply(body=[{"id": one["id"], "name": one["name"], "url": one["icon_url"]} for one in found])


def _check_icons(state: ManagementState) -> None:
    if state.observed and state.settings.icons == "closed":
        raise forbidden("This action does not support personal API key access")


def _check_breakdown(call: OperationCall) -> None:
    if call.parameter("breakdown_by") not in (None, "name", "kind"):
        raise invalid("breakdown_by", "Not a valid choice.", "invalid_choice")


def _span(call: OperationCall) -> tuple[datetime | None, datetime | None]:
    """`after` and `before`: instants, or `-7d`, `-12h`, `-2w` before now. Raises ApiError (400)."""
    found = []
    for name in ("after", "before"):
        value = call.parameter(name)
        at = None
        if value is not None:
            amount, unit = value[1:-1], value[-1:]
            if value.startswith("-") and unit in _UNITS and amount.isascii() and amount.isdigit() and len(amount) < 6:
                now = parse_instant(call.now)
                assert now is not None
                try:
                    at = now - timedelta(seconds=int(amount) * _UNITS[unit])
                except OverflowError:
                    at = None
            else:
                at = parse_instant(value)
            if at is None:
                raise invalid(name, "Datetime has wrong format.")
        found.append(at)
    return found[0], found[1]
