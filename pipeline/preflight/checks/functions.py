"""Enabled hog functions that an import would trigger: destinations, which send events elsewhere, and transformations,
which change or drop them.

The list does not show a function's mappings (docs/know/service.md#hog-functions), so each function that the list does
not rule out is retrieved. If one was changed in between, it is judged as it is now, and the result says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pipeline.management.operations import RETRIEVE_FUNCTION
from pipeline.management.problems import NotFound, ServiceProblem
from pipeline.preflight.check import check, check_of_error
from pipeline.preflight.firing import Matched, matched
from pipeline.preflight.target import PlannedEvents, Target
from pipeline.report.records import Check, Level
from pipeline.text import pluralize, printable, quoted

if TYPE_CHECKING:
    from pipeline.management.client import ManagementClient

FUNCTIONS = "functions"
DESTINATION = "destination"
TRANSFORMATION = "transformation"
GEOIP = "template-geoip"
_MOST_NAMES = 5
_NAME_CHARACTERS = 60


@check(90, "workflows")
def check_workflows(target: Target) -> Check | None:
    """Workflows match imported events too (docs/know/service.md#historical-migration), and no operation of the
    contract lists them."""
    if target.client is None or not target.project.known:
        return None
    detail = "workflows fire on imported events as functions do, but the management API does not show them"
    return Check("workflows", "unknown", detail, "check the project's workflows, and turn off those that would fire")


@check(80, FUNCTIONS, needs="project")
def check_functions(target: Target) -> list[Check]:
    """One result for each function that would or may fire, else one result saying that none would.

    With `allow_firing`, functions that would fire are a warning.
    """
    client, planned = target.client, target.planned
    assert client is not None
    names = None if planned is None else planned.names.keys()
    results: list[Check] = []
    enabled = 0
    try:
        for item in client.hog_functions.list(enabled=True):
            enabled += 1
            listed = item.plain()
            if matched(listed, names).verdict != "no":
                results.extend(_allowed(result, target) for result in _results(client, listed, planned, target))
    except ServiceProblem as error:
        return [*results, check_of_error(FUNCTIONS, error)]
    if any(result.level != "ok" for result in results):
        return results
    on = "an imported event" if planned is None else "an event of this plan"
    return [*results, Check(FUNCTIONS, "ok", f"none of {enabled:,} enabled hog functions would fire on {on}")]


def _results(
    client: ManagementClient, listed: Mapping[str, Any], planned: PlannedEvents | None, target: Target
) -> Iterator[Check]:
    name = _named(listed)
    try:
        record = client.call(RETRIEVE_FUNCTION, str(listed.get("id"))).json()
    except NotFound:
        yield Check(FUNCTIONS, "ok", f"{name} was deleted during this check")
        return
    if not isinstance(record, dict):
        record = dict(listed)
    names = None if planned is None else planned.names.keys()
    on = matched(record, names)
    changed = record.get("updated_at") != listed.get("updated_at")
    note = "; it was changed during this check" if changed else ""
    if on.verdict == "no":
        if changed:
            yield Check(FUNCTIONS, "ok", f"{name} was changed during this check, and would not fire now")
        return
    to = f"--to {quoted(target.request.options.api or target.request.to)} --project {client.project_id}"
    turn_off = f"backcast hog-functions update {record.get('id')} --enabled false {to}"
    if record.get("type") == TRANSFORMATION:
        yield _transformation(name, record, on, planned, note, turn_off)
        return
    level: Level = "stop" if on.verdict == "would" else "warning"
    detail = f"{name} {on.verdict} fire on {_on(on, planned)}{_why(on, record)}{note}"
    hint = f"turn it off while the import runs: {turn_off}"
    yield Check(
        DESTINATION,
        level,
        detail,
        f"{hint}; or let `backcast apply --pause-functions` do that; or accept it with --allow-firing"
        if level == "stop"
        else hint,
    )


def _transformation(
    name: str, record: Mapping[str, Any], on: Matched, planned: PlannedEvents | None, note: str, turn_off: str
) -> Check:
    template = record.get("template")
    template = template if isinstance(template, Mapping) else {}
    if GEOIP in (template.get("id"), record.get("template_id")):
        if record.get("hog") and record.get("hog") == template.get("hog"):
            if planned is None or not planned.sets_geoip:
                detail = (
                    f"{name} does not change imported events: they have $geoip_disable unless a row sets it to false"
                )
                return Check(TRANSFORMATION, "ok", detail + note)
        else:
            note = f"; its code differs from its template, so it may ignore $geoip_disable{note}"
    detail = f"{name} {on.verdict} change or drop {_on(on, planned)}{_why(on, record)}{note}"
    return Check(TRANSFORMATION, "warning", detail, f"turn it off unless history should pass through it: {turn_off}")


def _on(on: Matched, planned: PlannedEvents | None) -> str:
    """The events that would trigger it, else those that may: `12 events (a, b)`."""
    names = [name for name in (on.would or on.may) if name is not None]
    if planned is None:
        return "imported events" if on.would else "imported events of some names"
    if not names:
        return "events of this plan"
    names.sort(key=lambda name: (-planned.names[name], name))
    shown = [printable(name, _NAME_CHARACTERS) for name in names[:_MOST_NAMES]] + ["…"] * (len(names) > _MOST_NAMES)
    count = sum(planned.names[name] for name in names)
    every = "all " if count == planned.events else ""
    return f"{every}{pluralize(count, 'event')} of this plan ({', '.join(shown)})"


def _why(on: Matched, record: Mapping[str, Any]) -> str:
    if on.verdict == "would":
        filters = record.get("filters")
        narrow = isinstance(filters, Mapping) and (filters.get("events") or filters.get("actions"))
        return "" if narrow or record.get("mappings") else ": it has no event filters"
    return ": its filters have more than event names, or its state is unclear"


def _named(function: Mapping[str, Any]) -> str:
    kind = printable(str(function.get("type") or "function"), _NAME_CHARACTERS)
    name = printable(str(function.get("name") or "without a name"), _NAME_CHARACTERS)
    return f"{kind} {name!r} ({function.get('id')})"


def _allowed(result: Check, target: Target) -> Check:
    options = target.request.options
    if (result.name, result.level) != (DESTINATION, "stop") or not (options.allow_firing or options.pause_functions):
        return result
    why = "it is turned off during the import" if options.pause_functions else "allowed by --allow-firing"
    return replace(result, level="warning", detail=f"{result.detail}; {why}")
