"""Running hog functions and reading about their runs: broadcast, invocations, logs, metrics, icons.

The local service runs no function. Under `contract` these answer 200 with an empty body, as the contract states.
Under `observed` they have the shapes of the source, with the numbers of functions that never ran.
"""

from __future__ import annotations

import base64
from datetime import datetime, timedelta

from starlette.responses import JSONResponse, Response

from pipeline.local_service.management.function_fields import read_fields
from pipeline.local_service.management.hog_functions import find_function
from pipeline.local_service.management.requests import (
    OperationCall,
    answers,
    forbidden,
    invalid,
    natural_number,
    not_found,
    parse_instant,
)
from pipeline.local_service.management.templates import TEMPLATES
from pipeline.management import operations

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""A PNG of one pixel, the icon for everything."""
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


@answers(operations.BROADCAST)
def hog_functions_broadcast(call: OperationCall) -> Response:
    """Run for matching persons.

    200 for a function that exists. The source that we read has no such operation
    (docs/know/service.md#hog-functions).
    """
    if call.observed and call.state.settings.broadcast == "removed":
        raise not_found()
    find_function(call)
    if call.observed:
        return JSONResponse({"success": True})
    read_fields(call.body, observed=False)
    return Response()


@answers(operations.INVOKE)
def hog_functions_invoke(call: OperationCall) -> Response:
    """Run once.

    Under `observed` the id need not belong to a function, and problems are bare (docs/know/service.md#hog-functions).
    """
    if not call.observed:
        find_function(call)
        read_fields(call.body, observed=False)
        return Response()
    if not call.body.get("use_draft"):
        configuration = call.body.get("configuration")
        if "configuration" not in call.body:
            return JSONResponse({"configuration": ["This field is required."]}, 400)
        if not isinstance(configuration, dict):
            return JSONResponse({"configuration": ["Expected a dictionary of items."]}, 400)
    logs = [{"level": "INFO", "timestamp": call.now, "message": NOT_RUN}]
    return JSONResponse({"status": "success", "logs": logs, "invocation_id": call.body.get("invocation_id")})


@answers(operations.LOGS)
def hog_functions_logs(call: OperationCall) -> Response:
    """Retrieve logs. There are none."""
    find_function(call)
    if not call.observed:
        return Response()
    limit = call.parameter("limit")
    if limit is not None and not 1 <= (natural_number(limit) or 0) <= MOST_LOGS:
        raise invalid("limit", f"Ensure this value is between 1 and {MOST_LOGS}.")
    _span(call)
    return JSONResponse({"count": 0, "next": None, "previous": None, "results": []})


@answers(operations.METRICS)
def hog_functions_metrics(call: OperationCall) -> Response:
    """Retrieve metrics. The labels of the requested time span, and no series."""
    find_function(call)
    if not call.observed:
        return Response()
    interval = call.parameter("interval") or "day"
    if interval not in _LABELS:
        raise invalid("interval", "Not a valid choice.", "invalid_choice")
    _check_breakdown(call)
    after, before = _span(call)
    step, length, suffix = _LABELS[interval]
    end, start = before or _now(call), after or _now(call) - timedelta(days=7)
    if (end - start) / step > _MOST_LABELS:
        raise invalid("after", "The time between after and before is too long for this interval.")
    count = max(0, (end - start) // step + 1)
    labels = [(start + number * step).isoformat()[:length] + suffix for number in range(count)]
    return JSONResponse({"labels": labels, "series": []})


@answers(operations.METRICS_TOTALS)
def hog_functions_metrics_totals(call: OperationCall) -> Response:
    """Retrieve totals. There are none."""
    find_function(call)
    if not call.observed:
        return Response()
    _check_breakdown(call)
    _span(call)
    return JSONResponse({"totals": {}})


@answers(operations.ICON)
def hog_functions_icon(call: OperationCall) -> Response:
    _check_icons(call)
    if not call.observed:
        return Response()
    if call.parameter("id") is None:
        raise invalid("id", "This field is required.", "required")
    return Response(PICTURE, media_type="image/png")


@answers(operations.ICONS)
def hog_functions_icons(call: OperationCall) -> Response:
    """Retrieve icons. Those with the query in their name."""
    _check_icons(call)
    if not call.observed:
        return Response()
    wanted = (call.parameter("query") or "").casefold()
    templates = [template for template in TEMPLATES.values() if wanted in template["name"].casefold()]
    return JSONResponse([{"id": entry["id"], "name": entry["name"], "url": entry["icon_url"]} for entry in templates])


def _check_icons(call: OperationCall) -> None:
    if call.observed and call.state.settings.icons == "closed":
        raise forbidden("This action does not support personal API key access")


def _check_breakdown(call: OperationCall) -> None:
    if call.parameter("breakdown_by") not in (None, "name", "kind"):
        raise invalid("breakdown_by", "Not a valid choice.", "invalid_choice")


def _span(call: OperationCall) -> tuple[datetime | None, datetime | None]:
    """`after` and `before`: instants, or `-7d`, `-12h`, `-2w` before now. Raises ApiError (400)."""
    return _bound(call, "after"), _bound(call, "before")


def _bound(call: OperationCall, name: str) -> datetime | None:
    value = call.parameter(name)
    if value is None:
        return None
    amount = natural_number(value[1:-1], digits=5)
    if value.startswith("-") and value[-1] in _UNITS and amount is not None:
        try:
            return _now(call) - timedelta(seconds=amount * _UNITS[value[-1]])
        except OverflowError:
            pass
    instant = parse_instant(value)
    if instant is None:
        raise invalid(name, "Datetime has wrong format.")
    return instant


def _now(call: OperationCall) -> datetime:
    now = parse_instant(call.now)
    assert now is not None
    return now
