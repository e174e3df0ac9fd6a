"""Make a plan: open the export, choose the mapping, read everything, seal."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET

from pipeline.errors import UsageError
from pipeline.extractors import open_source, refuse_unnamed
from pipeline.extractors.header import asked
from pipeline.files import private
from pipeline.mapper import Compile
from pipeline.mapper import load as load_mapping
from pipeline.mapper.registry import of_tool
from pipeline.mapper.required_fields import wanted_references
from pipeline.models import Limits, Source
from pipeline.options import SealedOptions
from pipeline.plan import checks as gate_rules
from pipeline.plan.directory import Directory, digest_file
from pipeline.plan.freshness import dialect_of, read_ids, workers_for
from pipeline.plan.manifest import MappingSeal, Plan
from pipeline.plan.precheck import found_settings, look_first
from pipeline.survey.recognition import guess_mapping
from pipeline.timestamps import format_utc
from pipeline.transform.workers import Workers

if TYPE_CHECKING:
    from pipeline.plan.series import Series

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What `backcast plan` is asked. Times are µs UTC; `zones` are (name, local date or "").

    `person_properties`, `profile_policy` and `promoted_properties` None leave it to the mapping. `earlier` are
    directories of plans whose merges are in; None looks for them beside the new one.
    """

    sources: Sequence[str]
    directory: Path
    mapping: str | None = None
    target: str = ""
    dialect: str | None = None
    zones: tuple[tuple[str, str], ...] = ()
    since: int | None = None
    until: int | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    provenance: bool = True
    allow_recent: bool = False
    collapse_identical: bool = False
    allow_key_conflicts: bool = False
    exclude_ids: Path | None = None
    limit: int | None = None
    max_rejects: str = "0"
    limits: Limits = field(default_factory=Limits)
    workers: int | None = None
    as_of: int | None = None
    series: Series | None = None
    person_properties: str | None = None
    profile_policy: str | None = None
    promoted_properties: str | None = None
    persons: str = "all"
    max_ids_per_person: int = SealedOptions(0).max_ids_per_person
    identities: Path | None = None
    group_types: tuple[str, ...] = ()
    earlier: Sequence[Path] | None = None


@private()
def plan_export(
    request: PlanRequest, progress: Progress = lambda rows, length: None, ready: Workers | None = None
) -> Plan:
    """Read everything, send nothing, write the sealed plan. The plan may come back not ready: see its gates.

    `ready` are processes that may have been started already (`pipeline.plan.prestart`), as many as `workers` asks for.
    Raises UsageError, MappingError, UnreadableExport, and Busy where the directory holds a run's ledger.
    """
    from pipeline.identity.settings import choose_types, parse_policy
    from pipeline.plan.commit import staged_plan

    directory = Directory(request.directory)
    allowed = gate_rules.parse_reject_limit(request.max_rejects)
    choose_types(Counter(), request.group_types)
    parse_policy(request.profile_policy or SealedOptions(0).profile_policy)
    _check_times(request)
    with staged_plan(directory) as work:
        return _plan(request, directory, work, allowed, ready or Workers(0), progress)


def _plan(
    request: PlanRequest,
    directory: Directory,
    work: Directory,
    allowed: gate_rules.RejectLimit,
    ready: Workers,
    progress: Progress,
) -> Plan:
    """The plan for `directory`, made in `work`."""
    source = open_source(request.sources, spool=work.path, header=asked(request.settings))
    refuse_unnamed(source)
    with ready if ready.count else Workers(workers_for(request.workers, source.parts)) as workers:
        return _plan_source(request, source, directory, work, allowed, workers, progress)


def _plan_source(
    request: PlanRequest,
    source: Source,
    directory: Directory,
    work: Directory,
    allowed: gate_rules.RejectLimit,
    workers: Workers,
    progress: Progress,
) -> Plan:
    """The same once the source is open and processes are starting."""
    from pipeline.identity.settings import parse_policy
    from pipeline.transform.block import TransformConfig

    name = request.mapping or guess_mapping(source)
    mapping = load_mapping(name)
    excluded = _excluded_ids(request.exclude_ids, work)
    promoted = request.promoted_properties or mapping.persons.promoted
    options = SealedOptions(
        as_of=request.as_of if request.as_of is not None else _now(),
        zones=request.zones,
        since=request.since,
        until=request.until,
        settings=dict(request.settings),
        dialect=request.dialect or dialect_of(request.target),
        name=request.name,
        provenance=request.provenance,
        allow_recent=request.allow_recent,
        collapse_identical=request.collapse_identical,
        limit=request.limit,
        excluded_ids=digest_file(work.excluded) if excluded else "",
        person_properties=request.person_properties or mapping.persons.properties or SealedOptions(0).person_properties,
        profile_policy=request.profile_policy or mapping.persons.policy or SealedOptions(0).profile_policy,
        persons=request.persons,
        max_ids_per_person=request.max_ids_per_person,
        identities=_digest(request.identities),
        group_types=request.group_types,
        promoted_properties="final" if promoted == "final" else UNSET,
    )
    parse_policy(options.profile_policy)
    notices: list[tuple[str, str, str]] = []
    if request.series is None:
        options, notices = found_settings(source.parts, mapping, options)
    parts = look_first(source.parts, mapping, options)
    wanted = wanted_references(mapping, options, of_tool(mapping.tool))
    config = TransformConfig(
        Compile(mapping.file, mapping.text), options, request.limits, parts, excluded, wanted=wanted
    )
    workers.brief(config)  # they make themselves ready while this process loads what decides
    from pipeline.plan.build import build
    from pipeline.plan.earlier import earlier_links, plans_beside
    from pipeline.plan.people import IdentityInputs
    from pipeline.plan.request import Request

    earlier = plans_beside(directory, request.target) if request.earlier is None else map(Directory, request.earlier)
    seal = MappingSeal(name, hashlib.sha256(mapping.text.encode()).hexdigest(), mapping.text)
    return build(
        Request(
            source,
            config,
            seal,
            work,
            workers,
            request.target,
            allowed,
            request.allow_key_conflicts,
            notices,
            series=request.series,
            identity_inputs=IdentityInputs(request.identities, earlier_links(list(earlier))),
        ),
        progress,
    )


def _now() -> int:
    """This instant in µs UTC, of whole milliseconds."""
    return time.time_ns() // 1_000_000 * 1_000


def _check_times(request: PlanRequest) -> None:
    """Refuse an instant that is still to come, by which no event would be recent, and a window that holds nothing."""
    if request.as_of is not None and request.as_of > _now():
        raise UsageError(
            f"the plan's instant {format_utc(request.as_of)} lies in the future (--as-of)",
            hint="leave --as-of out, or give the instant of the plan that is made again",
        )
    if request.since is not None and request.until is not None and request.since >= request.until:
        raise UsageError(
            f"--since {format_utc(request.since)} is not before --until {format_utc(request.until)}",
            hint="a window holds the events from --since on that come before --until",
        )


def _digest(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        return digest_file(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint="give --identities a file that exists") from None


def _excluded_ids(path: Path | None, directory: Directory) -> frozenset[str]:
    if path is None:
        return frozenset()
    try:
        shutil.copyfile(path, directory.excluded)
        return read_ids(directory.excluded)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the ids in {path}: {error}", hint="give a UTF-8 file, one id a line") from None
