"""The facts that checks share: the request, the plan, and the answers of the services.

Each fact is requested once, when the first check needs it.
"""

from __future__ import annotations

import email.utils
import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import NamedTuple

import msgspec

from pipeline.batcher import Batch, Envelope, gzip_body
from pipeline.delivery.capture import CaptureDestination
from pipeline.delivery.destination import Response
from pipeline.delivery.retry import RetryPolicy
from pipeline.encoder.updates import GROUP_EVENT, PROFILE_EVENT, merge_event
from pipeline.errors import Unfinished
from pipeline.ledger import Totals, read_totals
from pipeline.management import ManagementClient
from pipeline.management.client import management_address
from pipeline.plan.sealed.contents import check_tables, planned_days, sealed_lines
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.freshness import dialect_of
from pipeline.plan.sealed.manifest import Plan
from pipeline.preflight.live import ANY_IMPORT, MOST_CELLS, Cell, LiveEvents, TargetCells, read_cells, read_live
from pipeline.preflight.project import ProjectResult, find_project
from pipeline.preflight.questions import Questions, days_of
from pipeline.preflight.run import PreflightRequest
from pipeline.verify.provenance import having, provenance_of

_NO_EVENT = gzip_body(Envelope("").seal([]))


class PlannedEvents(msgspec.Struct, frozen=True):
    """The events that a plan would send: counts by name and by UTC day (`2023-01-31`); `bytes` is their size as JSON.

    Merges, groups and profiles are counted by name, not by day. `sets_geoip`: the mapping itself sets `$geoip_disable`.
    """

    names: Mapping[str, int] = msgspec.field(default_factory=dict)
    days: Mapping[str, int] = msgspec.field(default_factory=dict)
    bytes: int = 0
    sets_geoip: bool = False

    @property
    def events(self) -> int:
        return sum(self.names.values())


class CaptureHost(NamedTuple):
    """A capture host's response to a batch without events, its address, the `Date` header ("" if absent), and how
    many seconds it took."""

    response: Response
    address: str
    date: str
    seconds: float


class ServiceClock(NamedTuple):
    """The `Date` header of a response ("" if absent), and this machine's time when it arrived."""

    date: str
    local: datetime

    @property
    def service(self) -> datetime | None:
        """The time in the header; None if it is absent or cannot be read."""
        try:
            moment = email.utils.parsedate_to_datetime(self.date)
        except (TypeError, ValueError):
            return None
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)

    @property
    def now(self) -> datetime:
        """The service's time, else this machine's."""
        return (self.service or self.local).astimezone(UTC)


class Target:
    """The target of an import. A context manager. `planned` is None without a plan.

    Raises StalePlan if files of the plan changed after they were sealed.

    """

    def __init__(self, request: PreflightRequest, plan: Plan | None = None, directory: Directory | None = None) -> None:
        self.request = request
        self.plan = plan
        self.directory = directory
        self.interrupted = False
        """Whether queries were left unanswered; a later run asks them again."""
        self.planned = planned_events(plan, directory) if plan is not None and directory is not None else None

    def __enter__(self) -> Target:
        return self

    def __exit__(self, *_: object) -> None:
        if client := self.__dict__.get("client"):
            client.close()

    @cached_property
    def capture_host(self) -> CaptureHost | None:
        """The capture host's response to a request as `apply` sends them; None without `reach`. Raises UsageError.

        The batch has no event and no key. The service refuses it before it checks the key
        (docs/know/service.md#answers), and a host that accepts it has stored nothing.
        """
        request = self.request
        if not request.options.reach:
            return None
        host = CaptureDestination(
            request.to, dialect=dialect_of(request.to) if self.plan is None else self.plan.options.dialect,
            timeout=request.options.timeout, ca_file=request.options.ca_path,
            redirect_hosts=tuple(request.options.redirect_hosts),
        )  # fmt: skip
        try:
            began = time.monotonic()
            response = host.send(Batch(0, -1, len(_NO_EVENT), _NO_EVENT))
            return CaptureHost(response, host.address, host.date, time.monotonic() - began)
        finally:
            host.close()

    @cached_property
    def client(self) -> ManagementClient | None:
        """A client of the management API; None without a personal key. Raises UsageError."""
        request = self.request
        if not request.personal_key:
            return None
        return ManagementClient(
            management_address(request.to, request.options.api), request.personal_key, request.options.project,
            timeout=request.options.timeout, retry=RetryPolicy(tries=1, most=5.0), ca_file=request.options.ca_path,
        )  # fmt: skip

    @cached_property
    def project(self) -> ProjectResult:
        """The project. For checks that need the personal key: `client` is not None."""
        assert self.client is not None
        return find_project(self.client, self.request.project_key)

    @cached_property
    def questions(self) -> Questions:
        """Queries to the project. For checks that need its events: `client` is not None, and has a project."""
        client, plan = self.client, self.plan
        assert client is not None
        folder = self.directory.answers if self.directory is not None else None
        return Questions(client, folder, f"{client.base_url} {client.project_id} {plan.digest if plan else ''}")

    def forget_answers(self) -> None:
        """Remove the answers that were kept, unless unanswered queries are left for a later run to resume."""
        questions: Questions | None = self.__dict__.get("questions")
        if questions is not None and not self.interrupted:
            questions.forget()

    @cached_property
    def own(self) -> str:
        """The condition for events of this import, "" if they carry no provenance; without a plan, for any import."""
        return ANY_IMPORT if self.plan is None else having(provenance_of(self.plan))

    @cached_property
    def own_unknown(self) -> bool:
        """Whether the plan's own events cannot be distinguished from others, and some of them may have landed."""
        return not self.own and self.begun

    @cached_property
    def begun(self) -> bool:
        """Whether something of the plan was sent: then its own persons cannot be distinguished from others."""
        totals = Totals() if self.directory is None else read_totals(self.directory.ledger)
        return bool(totals.settled or totals.in_doubt)

    @cached_property
    def live(self) -> LiveEvents:
        """The live events of the project by name. Raises Refused, Unfinished."""
        return read_live(self.questions, self.own, self.clock.now)

    @cached_property
    def planned_cells(self) -> Mapping[Cell, int]:
        """The plan's events by name and UTC day. Raises Unfinished if there are too many to compare."""
        assert self.directory is not None
        cells: Counter[Cell] = Counter()
        for event, day, count in planned_days(self.directory):
            cells[event, day] += count
            if len(cells) > MOST_CELLS:
                raise Unfinished(f"the plan has more than {MOST_CELLS:,} counts by name and day")
        return cells

    @cached_property
    def cells(self) -> TargetCells:
        """The events of the project on the days of the plan. Raises Refused, Unfinished."""
        days = [day for _, day in self.planned_cells]
        return read_cells(self.questions, self.own, *days_of(min(days), max(days)))

    @cached_property
    def clock(self) -> ServiceClock:
        """The capture host's clock, else that of the management API."""
        date = self.capture_host.date if self.capture_host is not None else ""
        if not date and self.client is not None:
            date = self.project.date
        return ServiceClock(date, datetime.now(UTC))


class _Merge(msgspec.Struct):
    kind: str


def planned_events(plan: Plan, directory: Directory) -> PlannedEvents:
    """The events that a plan would send. Raises StalePlan if its files changed after they were sealed."""
    check_tables(plan, directory, (directory.cells.name, directory.identities.name))
    days: Counter[str] = Counter()
    names = Counter(plan.names)
    for _, day, count in planned_days(directory):
        days[day] += count
    if plan.events.phases.get("identities"):
        names.update(merge_event(merge.kind) for merge in sealed_lines(directory.identities, _Merge))
    phases, dialect = plan.events.phases, plan.options.dialect
    if grouped := phases.get("groups", 0) - plan.people.initials:
        names[GROUP_EVENT[dialect]] += grouped
    if written := phases.get("persons", 0) + plan.people.initials:
        names[PROFILE_EVENT[dialect]] += written
    return PlannedEvents(dict(names), dict(days), plan.event_bytes, "$geoip_disable" in plan.mapping.text)
