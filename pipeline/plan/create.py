"""Create a plan from an export: check the options, choose the mapping, start the engine, and build."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Mapping as Map
from dataclasses import fields, replace
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from pipeline.engines import open_engine
from pipeline.engines.agreement import versions
from pipeline.engines.engine import Engine
from pipeline.errors import UsageError
from pipeline.extractors import choose_parts, open_source, refuse_unnamed
from pipeline.extractors.file_rules import refuse_unused
from pipeline.files import private
from pipeline.mapper import Compile, Mapping
from pipeline.mapper import load as load_mapping
from pipeline.mapper.inspection.field_uses import nested_levels
from pipeline.mapper.inspection.ineffective import check_mapping
from pipeline.mapper.program.references import required_references
from pipeline.mapper.registry import file_rules, of_tool, shipped
from pipeline.models import SealedOptions, Source, Step
from pipeline.option_types import PathText, marks_of, micros, zones_of
from pipeline.options import PlanOptions
from pipeline.plan.check_rules import with_rules
from pipeline.plan.checks import levels_by_name, parse_limit
from pipeline.plan.in_bucket import directory_at
from pipeline.plan.lookups import read_lookups, save_lookups
from pipeline.plan.plugins import broken_plugins, used_plugins
from pipeline.plan.precheck import check_first_rows, detect_settings, with_tables_apart
from pipeline.plan.replay import Replay, inherited, open_replay
from pipeline.plan.sealed.directory import Directory, digest_file
from pipeline.plan.sealed.freshness import dialect_of, read_ids
from pipeline.plan.sealed.manifest import MappingSeal, Plan
from pipeline.plan.sealed.unfinished import Begun, begin, begun, blocks_of, digest_of, remove
from pipeline.survey.recognition import guess_mapping, opened_pages
from pipeline.targets import address_of
from pipeline.text import pluralize
from pipeline.timestamps import format_utc
from pipeline.transform.field_counts import Counted

if TYPE_CHECKING:
    from pipeline.plan.request import Request
    from pipeline.plan.series import Series

Progress = Callable[[int, int], None]
Notice = Callable[[str], None]


@private()
def create_plan(
    sources: Sequence[str],
    directory: Path,
    options: PlanOptions,
    *,
    progress: Progress = lambda rows, length: None,
    notice: Notice = lambda line: None,
    step: Step = lambda name, done, total: None,
    series: Series | None = None,
) -> Plan:
    """Read everything, send nothing, write the sealed plan. Returns the plan, which may not be ready: see its gates.

    `series` are the earlier windows of a job. `notice` is called with a line about the cost of the mapping's own code;
    `step` is called before and after the rows are read, with what is being done and how far it is.

    Raises UsageError, MappingError, UnreadableExport, and Busy if the directory has the ledger of a plan that was
    applied.

    """
    from pipeline.plan.sealed.commit import staged_plan

    replay = open_replay(options)
    if replay is not None:
        options = inherited(options, replay.plan, replay.directory)
    _check_options(options)
    options = with_rules(options, levels_by_name())
    target_directory = Directory(directory)
    with staged_plan(target_directory) as work:
        name, mapping, source = _open_export(sources, options, work, step)
        with open_engine(options.engine, options.workers, sum(part.bytes for part in source.parts)) as engine:
            request = prepare_request(source, (name, mapping), options, target_directory, work, engine, series, replay)
            if finished := blocks_of(work):
                blocks = pluralize(finished, "block")
                notice(f"Resuming a plan of the same export that was stopped: {blocks} need not be read again")
            from pipeline.plan.build import build  # while its processes prepare

            return build(request, progress, notice, step)


def open_export(sources: Sequence[str], options: PlanOptions, work: Directory) -> tuple[str, Mapping, Source]:
    """The mapping with its name or path, and the files of an export; `work` takes input that must be spooled.

    Raises UsageError, MappingError, UnreadableExport.
    """
    _check_options(options)
    return _open_export(sources, options, work, lambda name, done, total: None)


def _open_export(
    sources: Sequence[str], options: PlanOptions, work: Directory, step: Step
) -> tuple[str, Mapping, Source]:
    name = fspath(options.mapping or "")
    mapping = _load(name) if name else None
    rules = file_rules(mapping, options.settings)
    source = open_source(sources, spool=work.path, rules=rules, step=step)
    refuse_unnamed(source)
    refuse_unused(options.settings, source.parts)
    source = opened_pages(source, sources, work.path, rules, mapping, options.settings)
    if mapping is None:
        name = guess_mapping(source)
        mapping = _load(name)
        rules = file_rules(mapping, options.settings)
    return name, mapping, choose_parts(with_tables_apart(source, mapping), rules)


def _load(name: str) -> Mapping:
    """The mapping. It is not checked with `backcast mapping check` here: tests check the shipped ones, so no plan
    spends time on it."""
    mapping = load_mapping(name)
    if name not in shipped():
        check_mapping(mapping)
    return mapping


def _check_options(options: PlanOptions) -> None:
    """Raise UsageError for options that are wrong whatever the export is.

    If the plan's instant lay in the future, no event would count as recent.
    """
    from pipeline.identity.settings import choose_types, parse_policy

    parse_limit(options.max_rejects)
    if options.max_unmapped is not None:
        parse_limit(options.max_unmapped, "--max-unmapped")
    choose_types(Counter(), options.group_types)
    parse_policy(options.profile_policy or SealedOptions(0).profile_policy)
    if options.target:
        address_of(options.target)
    if options.types is not None:
        from pipeline.plan.statistics.tracking_plan import TrackingPlan

        TrackingPlan(options.types)
    zones_of(options.timezone)
    as_of, since, until = (micros(getattr(options, name), name) for name in ("as_of", "since", "until"))
    if as_of is not None and as_of > _now():
        raise UsageError(
            f"--as-of {format_utc(as_of)} is in the future",
            hint="leave --as-of out, or give that of the plan that you repeat",
        )
    if since is not None and until is not None and since >= until:
        raise UsageError(
            f"--since {format_utc(since)} is not before --until {format_utc(until)}",
            hint="give a later --until: the plan has the events from --since up to, but not including, --until",
        )


def prepare_request(
    source: Source,
    named: tuple[str, Mapping],
    options: PlanOptions,
    directory: Directory,
    work: Directory,
    engine: Engine,
    series: Series | None,
    replay: Replay | None = None,
) -> Request:
    """Seal the options and configure the engine. Returns what `plan.build` needs.

    `named` is the mapping with its name or path. The plan is written in `work` before it replaces the one in
    `directory`.
    """
    from pipeline.transform.sample import most_events
    from pipeline.transform.tasks import TransformConfig

    name, mapping = named
    excluded = _excluded_ids(options.exclude_ids, work)
    stopped = begun(work)
    instant = stopped.as_of if stopped is not None else _now()
    sealed = _seal(options, mapping, digest_file(work.excluded) if excluded else "", instant)
    notices: list[tuple[str, str, str]] = []
    if series is None:  # a window does not see the other files, so the job names such a setting
        sealed, notices = detect_settings(source.parts, mapping, sealed)
    notices += broken_plugins(mappings=not options.mapping)
    parts = check_first_rows(source.parts, mapping, sealed)
    if series is not None:
        new = (part for part in parts if part.file in series.files)
        parts = tuple(replace(part, index=index) for index, part in enumerate(new))
    whole = options.limit is None and replay is None and len(parts) == len(source.parts)
    lookups = read_lookups(source, mapping, sealed, work)
    files = save_lookups(work, mapping, lookups)
    references = required_references(mapping, sealed, of_tool(mapping.tool))
    config = TransformConfig(
        Compile(mapping.file, mapping.text, lookups.tables, mapping.code),
        sealed,
        options.limits,
        parts,
        excluded,
        counted=_counted(mapping, sealed),
        sampled=most_events(sum(part.bytes for part in parts)),
        staging=work.staged,
    )
    plugins = used_plugins(name, mapping, parts)
    made_of = digest_of((
        versions(), mapping.text, mapping.code, sorted(files.items()), sealed, options.limits, parts,
        plugins, config.sampled,
    ))  # fmt: skip
    if stopped is None:
        begin(work, Begun(made_of, sealed.as_of))
    elif stopped.made_of != made_of:
        remove(work)
        return prepare_request(source, named, options, directory, work, engine, series, replay)
    engine.configure(config)
    from pipeline.plan.earlier import earlier_links, left_out, plans_beside
    from pipeline.plan.people import IdentityInputs
    from pipeline.plan.request import Request

    earlier = [directory_at(path) for path in options.earlier or ()]
    if options.earlier is None:
        earlier = plans_beside(directory, options.target)
    notices += left_out(earlier)
    if replay is not None:
        known = {one.path.resolve() for one in earlier}
        earlier += [one for _, one in replay.chain if one.path.resolve() not in known]
    identities = None if options.identities is None else Path(options.identities)
    return Request(
        source=source,
        config=config,
        mapping=MappingSeal(
            name, hashlib.sha256(mapping.text.encode()).hexdigest(), mapping.text, mapping.code or UNSET
        ),
        directory=work,
        engine=engine,
        thresholds=options,
        document=mapping,
        lookups=lookups.tables,
        joined=lookups.files if whole else (),
        references=references,
        notices=[*notices, *lookups.notices, *(replay.notices if replay is not None else ())],
        files=files,
        series=series,
        replay=replay,
        identity_inputs=IdentityInputs(identities, earlier_links(earlier), bool(earlier)),
        plugins=plugins,
    )


def _seal(options: PlanOptions, mapping: Mapping, excluded: str, instant: int) -> SealedOptions:
    """The options that decide what is sent, completed from the mapping and the clock. Raises UsageError.

    An option that has the same name in both classes is sealed unchanged; resolved options are listed here.
    """
    from pipeline.identity.settings import parse_policy

    defaults = SealedOptions(0)
    names = {field.name for field in fields(SealedOptions)} & {field.name for field in fields(PlanOptions)}
    as_of = micros(options.as_of, "as_of")
    promoted, provenance = options.promoted_properties or mapping.persons.promoted, options.provenance
    resolved = {
        "as_of": instant if as_of is None else as_of,
        "zones": zones_of(options.timezone),
        "since": micros(options.since, "since"),
        "until": micros(options.until, "until"),
        "settings": dict(options.settings),
        "dialect": options.dialect or dialect_of(options.target),
        "provenance": provenance if isinstance(provenance, bool) else marks_of(provenance),
        "excluded_ids": excluded,
        "person_properties": options.person_properties or mapping.persons.properties or defaults.person_properties,
        "profile_policy": options.profile_policy or mapping.persons.policy or defaults.profile_policy,
        "identities": _digest(options.identities),
        "group_types": tuple(options.group_types),
        "promoted_properties": "final" if promoted == "final" else UNSET,
        "scope": _scope(options.scope),
    }
    sealed = SealedOptions(**{**{name: getattr(options, name) for name in names}, **resolved})
    parse_policy(sealed.profile_policy)
    return sealed


def _counted(mapping: Mapping, options: SealedOptions) -> Counted:
    """What the workers count in fields for the plan's coverage."""
    changing = (
        number
        for number, rule in enumerate(mapping.events.values(), 1)
        if rule.set or rule.fill or rule.rename or rule.drop
    )
    ruled = frozenset(mapping.events)
    nested, decoded = nested_levels(mapping, options), mapping.decoder is not None
    return Counted(nested, ruled, frozenset(changing), mapping.code is not None, decoded)


def _now() -> int:
    """The current instant in µs UTC, in whole milliseconds."""
    return time.time_ns() // 1_000_000 * 1_000


def _digest(path: Path | str | None) -> str:
    if path is None:
        return ""
    try:
        return digest_file(Path(path))
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", hint="check the path that --identities names"
        ) from None


def _scope(given: PathText | Map[str, bool] | None) -> Map[str, bool] | UnsetType:
    if not given:  # a plan that is replayed may have none
        return UNSET
    from pipeline.plan.scope import read_scope

    return dict(given) if isinstance(given, Map) else read_scope(given)


def _excluded_ids(path: Path | str | None, directory: Directory) -> frozenset[str]:
    if path is None:
        return frozenset()
    try:
        shutil.copyfile(path, directory.excluded)
        return read_ids(directory.excluded)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read the ids in {path}: {error}", hint="give --exclude-ids a UTF-8 file with one id per line"
        ) from None
