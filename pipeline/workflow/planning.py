"""Make a plan: open the export, choose the mapping, read everything, seal."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import Busy, UsageError
from pipeline.extract import open_source
from pipeline.mapping import Compile
from pipeline.mapping import load as load_mapping
from pipeline.plan import gates as gate_rules
from pipeline.plan.directory import Directory, digest_file
from pipeline.plan.sealed import MappingSeal, Plan
from pipeline.schema import Limits, Options
from pipeline.workflow.choosing import guess_mapping
from pipeline.workflow.sealed import EXCLUDED, dialect_of, read_ids, workers_for

if TYPE_CHECKING:
    from pipeline.plan.series import Series

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What `backcast plan` is asked. Times are µs UTC; `zones` are (name, local date or "")."""

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
    exclude_ids: Path | None = None
    limit: int | None = None
    max_rejects: str = "0"
    limits: Limits = field(default_factory=Limits)
    workers: int | None = None
    as_of: int | None = None
    series: Series | None = None


def plan_export(request: PlanRequest, progress: Progress = lambda rows, length: None) -> Plan:
    """Read everything, send nothing, write the sealed plan. The plan may come back not ready: see its gates.

    Raises UsageError, MappingError, UnreadableExport, and Busy where the directory holds a run's ledger.
    """
    from pipeline.make import Recipe
    from pipeline.plan.build import Request, build

    directory = Directory(request.directory)
    if directory.ledger.exists():
        raise Busy(
            f"{directory.path} holds the ledger of a plan that was applied; it is never planned over",
            hint="choose another directory with -o, or remove this one if what it sent does not matter",
        )
    allowed = gate_rules.parse_allowed(request.max_rejects)
    try:
        directory.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {directory.path}: {error.strerror}", hint="choose another -o DIR") from None
    source = open_source(request.sources, spool=directory.path)
    mapping = load_mapping(request.mapping or guess_mapping(source))
    excluded = _excluded_ids(request.exclude_ids, directory)
    options = Options(
        as_of=request.as_of if request.as_of is not None else time.time_ns() // 1_000_000 * 1_000,
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
        excluded_ids=digest_file(directory.path / EXCLUDED) if excluded else "",
    )
    recipe = Recipe(Compile(mapping.file, mapping.text), options, request.limits, source.parts, excluded)
    seal = MappingSeal(request.mapping or mapping.tool, hashlib.sha256(mapping.text.encode()).hexdigest(), mapping.text)
    return build(
        Request(
            source,
            recipe,
            seal,
            directory,
            workers_for(request.workers, source.parts),
            request.target,
            allowed,
            series=request.series,
        ),
        progress,
    )


def _excluded_ids(path: Path | None, directory: Directory) -> frozenset[str]:
    if path is None:
        (directory.path / EXCLUDED).unlink(missing_ok=True)
        return frozenset()
    try:
        shutil.copyfile(path, directory.path / EXCLUDED)
        return read_ids(directory.path / EXCLUDED)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the ids in {path}: {error}", hint="give a UTF-8 file, one id a line") from None
