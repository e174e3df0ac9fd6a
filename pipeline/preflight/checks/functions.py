"""Enabled hog functions that an import would trigger: destinations, which notify others, and transformations, which
change or drop what is being imported.

The list leaves out the mappings of a function (docs/know/service.md#hog-functions), so each one that its list item does
not rule out is retrieved. One that somebody changed in between is judged as it is now, and named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pipeline.management.operations import RETRIEVE_FUNCTION
from pipeline.management.problems import NotFound, ServiceProblem
from pipeline.preflight.check import Check, Level, check, could_not_ask
from pipeline.preflight.firing import Matched, matched
from pipeline.preflight.target import PlannedEvents, Target
from pipeline.text import pluralize, printable

if TYPE_CHECKING:
    from pipeline.management.client import ManagementClient

FUNCTIONS = "functions"
DESTINATION = "destination"
TRANSFORMATION = "transformation"
GEOIP = "template-geoip"
_SHOWN = 5
_WIDE = 60


@check(90, "workflows")
def check_workflows(target: Target) -> Check | None:
    """Workflows match imported events, too (docs/know/service.md#historical-migration), and no operation of the
    contract lists them."""
    if target.client is None or not target.found.known:
        return None
    detail = "workflows fire on imported events as functions do, and the management API does not show them"
    return Check("workflows", "unknown", detail, "look at the project's workflows, and turn off those that would fire")


@check(80, FUNCTIONS, needs="project")
def check_functions(target: Target) -> list[Check]:
    """One result for each function that would or may fire, else one that says that none would.

    With `allow_firing` those that would are a warning.
    """
    client, planned = target.client, target.planned
    assert client is not None
    names = None if planned is None else planned.names.keys()
    found: list[Check] = []
    enabled = 0
    try:
        for item in client.hog_functions.list(enabled=True):
            enabled += 1
            listed = item.plain()
            if matched(listed, names).verdict != "no":
                found.extend(_allowed(one, target) for one in _judged(client, listed, planned))
    except ServiceProblem as error:
        return [*found, could_not_ask(FUNCTIONS, error)]
    if any(check.level != "ok" for check in found):
        return found
    on = "an imported event" if planned is None else "an event of this plan"
    return [*found, Check(FUNCTIONS, "ok", f"none of {enabled:,} enabled hog functions would tell others of {on}")]


def _judged(client: ManagementClient, listed: Mapping[str, Any], planned: PlannedEvents | None) -> Iterator[Check]:
    who = _named(listed)
    try:
        record = client.call(RETRIEVE_FUNCTION, str(listed.get("id"))).json()
    except NotFound:
        yield Check(FUNCTIONS, "ok", f"{who} was deleted while this was looked at, and is left out")
        return
    if not isinstance(record, dict):
        record = dict(listed)
    names = None if planned is None else planned.names.keys()
    on = matched(record, names)
    changed = record.get("updated_at") != listed.get("updated_at")
    note = "; it was changed while this was looked at" if changed else ""
    if on.verdict == "no":
        if changed:
            yield Check(FUNCTIONS, "ok", f"{who} was changed while this was looked at, and would not fire now")
        return
    if record.get("type") == TRANSFORMATION:
        yield _transformation(who, record, on, planned, note)
        return
    level: Level = "stop" if on.verdict == "would" else "warning"
    detail = (
        f"{who} {on.verdict if on.verdict == 'may' else 'would'} fire on {_on(on, planned)}{_why(on, record)}{note}"
    )
    hint = f"turn it off while the import runs: backcast hog-functions update {record.get('id')} --enabled false --to …"
    yield Check(DESTINATION, level, detail, f"{hint}; or accept that with --allow-firing" if level == "stop" else hint)


def _transformation(
    who: str, record: Mapping[str, Any], on: Matched, planned: PlannedEvents | None, note: str
) -> Check:
    hint = f"turn it off unless history is to go through it: backcast hog-functions update {record.get('id')}"
    template = record.get("template")
    template = template if isinstance(template, Mapping) else {}
    if GEOIP in (template.get("id"), record.get("template_id")):
        if record.get("hog") and record.get("hog") == template.get("hog"):
            if planned is None or not planned.sets_geoip:
                detail = f"{who} leaves imported events alone: they carry $geoip_disable unless a row says otherwise"
                return Check(TRANSFORMATION, "ok", detail + note)
        else:
            note = f"; its code is not that of its template, so that $geoip_disable may not keep it away{note}"
    verb = "would" if on.verdict == "would" else "may"
    detail = f"{who} {verb} change or drop {_on(on, planned)}{_why(on, record)}{note}"
    return Check(TRANSFORMATION, "warning", detail, f"{hint} --enabled false --to …")


def _on(on: Matched, planned: PlannedEvents | None) -> str:
    """`12 events (a, b)`: those that would trigger it, else those that may."""
    names = [name for name in (on.would or on.may) if name is not None]
    if planned is None:
        return "imported events" if on.would else "imported events of some names"
    if not names:
        return "events of this plan"
    names.sort(key=lambda name: (-planned.names[name], name))
    shown = [printable(name, _WIDE) for name in names[:_SHOWN]] + ["…"] * (len(names) > _SHOWN)
    count = sum(planned.names[name] for name in names)
    every = "all " if count == planned.events else ""
    return f"{every}{pluralize(count, 'event')} of this plan ({', '.join(shown)})"


def _why(on: Matched, record: Mapping[str, Any]) -> str:
    if on.verdict == "would":
        filters = record.get("filters")
        narrow = isinstance(filters, Mapping) and (filters.get("events") or filters.get("actions"))
        return "" if narrow or record.get("mappings") else ": it has no event filters"
    return ": its filters hold more than event names, or its state is unclear"


def _named(function: Mapping[str, Any]) -> str:
    kind = printable(str(function.get("type") or "function"), _WIDE)
    name = printable(str(function.get("name") or "without a name"), _WIDE)
    return f"{kind} {name!r} ({function.get('id')})"


def _allowed(found: Check, target: Target) -> Check:
    if not target.request.options.allow_firing or (found.name, found.level) != (DESTINATION, "stop"):
        return found
    return replace(found, level="warning", detail=f"{found.detail}; --allow-firing says that it may")
