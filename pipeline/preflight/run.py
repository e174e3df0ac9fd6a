"""Whether a target is ready for an import, composed of the checks of `pipeline.preflight`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from pipeline.config import Secret
from pipeline.encoder.updates import GROUP_EVENT, PROFILE_EVENT
from pipeline.errors import UnsafePlan
from pipeline.plan.directory import Directory, read_lines
from pipeline.plan.freshness import check_applicable, dialect_of
from pipeline.plan.manifest import Plan

if TYPE_CHECKING:
    from pipeline.management.client import ManagementClient
    from pipeline.preflight.check import Check
    from pipeline.preflight.planned import Planned

PLAN = "plan"
DIALECT = "dialect"


@dataclass(frozen=True, slots=True)
class PreflightRequest:
    """What `backcast preflight` is asked. `personal_key` may be empty; `project_key` None was not given at all.

    `reach`: ask the capture host, too. A run that sends does not: it is more patient with that host than a check is.
    `allow_firing`: hog functions that would fire are a warning, since somebody wants them to.
    """

    to: str
    project_key: Secret | None
    personal_key: Secret
    api: str | None = None
    project_id: str | None = None
    ca_file: str | None = None
    redirect_hosts: tuple[str, ...] = ()
    timeout: float = 20.0
    reach: bool = True
    allow_firing: bool = False


@dataclass(frozen=True, slots=True)
class Preflight:
    """Every check, in the order of asking, and the project's name, "" where it could not be told."""

    checks: tuple[Check, ...]
    project: str = ""

    @property
    def stops(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.level == "stop")

    @property
    def key_proved(self) -> bool:
        """Whether the capture key is known to be the project's."""
        return any(check.name == "capture_key_project" and check.level == "ok" for check in self.checks)


def check_target(request: PreflightRequest, plan: Plan | None = None, directory: Directory | None = None) -> Preflight:
    """Ask everything that can be asked without sending an event; a plan and its directory say what would be sent.

    Raises UsageError for addresses, certificates and key files that cannot be used, StalePlan for a changed plan.
    """
    from pipeline.preflight.addresses import check_address, check_reach
    from pipeline.preflight.capture_key import check_shape
    from pipeline.preflight.clock import check_clock, moment_of
    from pipeline.preflight.history import check_recent, check_size, service_now
    from pipeline.targets import region_of

    cloud = bool(region_of(request.to))
    planned = planned_of(plan, directory) if plan is not None and directory is not None else None
    checks = [check_address(request.to, request.api), check_shape(request.project_key, cloud=cloud)]
    told = ""
    if request.reach:
        reached = check_reach(
            request.to, dialect=dialect_of(request.to) if plan is None else plan.options.dialect,
            ca_file=request.ca_file, redirect_hosts=request.redirect_hosts, timeout=request.timeout,
        )  # fmt: skip
        checks.append(reached.check)
        told = reached.date
    asked = datetime.now(UTC)
    found, name, date = _management(request, planned, told)
    if date and not told:
        told, asked = date, datetime.now(UTC)
    checks += [check_clock(told, asked), *found]
    if plan is not None:
        checks += _plan(plan, request.to)
    if planned is not None:
        checks += [check_recent(planned, service_now(asked, moment_of(told))), check_size(planned)]
    return Preflight(tuple(map(_allowed, checks) if request.allow_firing else checks), name)


def _allowed(check: Check) -> Check:
    """A function that would fire, and may."""
    from pipeline.preflight.functions import DESTINATION

    if (check.name, check.level) != (DESTINATION, "stop"):
        return check
    return replace(check, level="warning", detail=f"{check.detail}; --allow-firing says that it may")


def _management(request: PreflightRequest, planned: Planned | None, date: str) -> tuple[list[Check], str, str]:
    """The checks that a personal key makes, the project's name, and the `Date` that the service told."""
    from pipeline.management import ManagementClient
    from pipeline.management.client import management_address
    from pipeline.management.retry import RetryPolicy
    from pipeline.preflight.capture_key import PROJECT as KEY_PROJECT
    from pipeline.preflight.check import Check
    from pipeline.preflight.functions import NAME as FUNCTIONS
    from pipeline.preflight.history import DROPPED
    from pipeline.preflight.paid_plan import NAME as PAID_PLAN
    from pipeline.preflight.project import NAME as PROJECT

    names = (PROJECT, KEY_PROJECT, PAID_PLAN, DROPPED, FUNCTIONS)
    if not request.personal_key:
        hint = "set BACKCAST_PERSONAL_KEY, or give --personal-key-file FILE; it begins with phx_"
        return [Check(one, "unknown", "no personal key was given to ask with", hint) for one in names], "", ""
    address = management_address(request.to, request.api)
    with ManagementClient(
        address, request.personal_key, request.project_id, timeout=request.timeout,
        retry=RetryPolicy(tries=1, most=5.0), ca_file=request.ca_file,
    ) as client:  # fmt: skip
        return _asked(client, request, planned, date, names[2:])


def _asked(
    client: ManagementClient, request: PreflightRequest, planned: Planned | None, date: str, rest: tuple[str, ...]
) -> tuple[list[Check], str, str]:
    from pipeline.preflight.capture_key import check_project
    from pipeline.preflight.check import Check
    from pipeline.preflight.clock import moment_of
    from pipeline.preflight.functions import check_functions, check_workflows
    from pipeline.preflight.history import check_dropped, service_now
    from pipeline.preflight.paid_plan import check_paid_plan
    from pipeline.preflight.project import find_project

    found = find_project(client, request.project_key)
    checks = [found.check, check_project(request.project_key, found.project, found.others)]
    if not found.known:
        checks += [Check(name, "unknown", "no project could be looked at", found.check.hint) for name in rest]
        return checks, "", found.date
    project = found.project or {}
    now = service_now(datetime.now(UTC), moment_of(date or found.date))
    checks += [
        check_paid_plan(client, project),
        check_dropped(project, planned, now),
        *check_functions(client, planned),
        check_workflows(),
    ]
    return checks, str(project.get("name") or ""), found.date


def _plan(plan: Plan, target: str) -> Iterator[Check]:
    """May the plan go to this target at all?"""
    from pipeline.preflight.check import Check
    from pipeline.targets import address_of

    if not plan.ready:
        stops = "; ".join(gate.detail for gate in plan.gates if gate.level == "stop")
        yield Check(PLAN, "stop", f"the plan is not ready: {stops}", "mend that and plan again")
    elif plan.target and address_of(plan.target) != address_of(target):
        yield Check(PLAN, "warning", f"the plan was made for {plan.target}", f"plan again with --for {target}")
    else:
        yield Check(PLAN, "ok", plan.sentence)
    spoken = dialect_of(target)
    try:
        if plan.ready:
            check_applicable(plan, target)
    except UnsafePlan as error:
        yield Check(DIALECT, "stop", error.message, error.hint)
    else:
        told = f"the plan speaks {plan.options.dialect!r}"
        yield Check(DIALECT, "ok", f"{told}, as the target does" if plan.options.dialect == spoken else told)


class _Cell(msgspec.Struct):
    event: str
    day: str
    outcome: str
    count: int


class _Link(msgspec.Struct):
    kind: str


def planned_of(plan: Plan, directory: Directory) -> Planned:
    """What the checks have to know of a plan. Raises StalePlan for files of it that are not as they were sealed."""
    from pipeline.encoder.updates import merge_event
    from pipeline.plan.contents import check_tables
    from pipeline.preflight.planned import Planned

    check_tables(plan, directory, (directory.cells.name, directory.identities.name))
    days: Counter[str] = Counter()
    names = Counter(plan.names)
    try:
        for cell in read_lines(directory.cells, _Cell):
            if cell.outcome == "mapped":
                days[cell.day] += cell.count
        if plan.events.phases.get("identities"):
            names.update(merge_event(link.kind) for link in read_lines(directory.identities, _Link))
    except (OSError, msgspec.MsgspecError) as error:
        raise UnsafePlan(f"a file of the plan cannot be read: {error}", hint="plan again") from None
    phases, dialect = plan.events.phases, plan.options.dialect
    if grouped := phases.get("groups", 0) - plan.people.initials:
        names[GROUP_EVENT[dialect]] += grouped
    if written := phases.get("persons", 0) + plan.people.initials:
        names[PROFILE_EVENT[dialect]] += written
    return Planned(dict(names), dict(days), plan.event_bytes, "$geoip_disable" in plan.mapping.text)
