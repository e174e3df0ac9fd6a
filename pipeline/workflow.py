"""The steps of a migration, composed: what the commands call and what `import pipeline` offers.

plan_export(["exports/"], "plan", mapping="mixpanel", zones=["America/New_York"])
rehearse("plan")
apply_plan("plan", to="us", project_key=...)
verify_plan("plan", to="us", personal_key=...)
"""

from __future__ import annotations

import hashlib
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config import Secret
from pipeline.errors import Busy, StalePlan, UnsafePlan, UsageError
from pipeline.extract import blocks as read_blocks
from pipeline.extract import open_source
from pipeline.extract import rows as read_rows
from pipeline.ledger import Ledger, Totals, is_held, read_totals
from pipeline.mapping import compile as compile_mapping
from pipeline.mapping import load as load_mapping
from pipeline.mapping import recognise
from pipeline.mapping.loader import parse as parse_mapping
from pipeline.plan import gates as gate_rules
from pipeline.plan.directory import Directory, digest_file
from pipeline.plan.sealed import MappingSeal, Plan, load
from pipeline.schema import Limits, Options, Part, Source

if TYPE_CHECKING:
    from pipeline.deliver.apply import Counts, Outcome, Pace
    from pipeline.events import Mapper
    from pipeline.make import Recipe
    from pipeline.verify import Verification

SMALL = 8 * 1024 * 1024
"""An export smaller than this is read in this process: starting others would take longer."""
EXCLUDED = "excluded-ids.txt"


@dataclass(frozen=True, slots=True)
class Compile:
    """A mapping's text as something that can travel to a worker and become a mapper there."""

    name: str
    text: str

    def __call__(self, options: Options) -> Mapper:
        return compile_mapping(parse_mapping(self.text, self.name), options)


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


Progress = Callable[[int, int], None]


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
            _workers(request.workers, source.parts),
            request.target,
            allowed,
        ),
        progress,
    )


def dialect_of(target: str) -> str:
    """`posthog` for the service's own regions, else `contract` (DESIGN 8)."""
    return "posthog" if target in ("us", "eu") else "contract"


def guess_mapping(source: Source) -> str:
    """The mapping whose rows these look like. Two candidates are an error, never a guess."""
    seen: list[set[str]] = []
    for part in source.parts[:20]:
        for block in read_blocks(part):
            for number, record in enumerate(read_rows(part, block, observe=False)):
                if isinstance(record, dict):
                    seen.append(set(recognise(record)))
                if number >= 20:
                    break
            break
    counts: dict[str, int] = {}
    for names in seen:
        for name in names:
            counts[name] = counts.get(name, 0) + 1
    candidates = [name for name, count in counts.items() if count * 2 > len(seen)]
    if len(candidates) == 1:
        return candidates[0]
    found = f"it could be any of {', '.join(sorted(candidates))}" if candidates else "it looks like none we know"
    raise UsageError(
        f"the mapping of this export is not plain: {found}",
        hint="name it with -m MAPPING; `backcast mapping list` shows them, `backcast survey` the fields",
    )


def _excluded_ids(path: Path | None, directory: Directory) -> frozenset[str]:
    if path is None:
        (directory.path / EXCLUDED).unlink(missing_ok=True)
        return frozenset()
    try:
        shutil.copyfile(path, directory.path / EXCLUDED)
        return _read_ids(directory.path / EXCLUDED)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the ids in {path}: {error}", hint="give a UTF-8 file, one id a line") from None


def _read_ids(path: Path) -> frozenset[str]:
    return frozenset(line for line in path.read_text(encoding="utf-8-sig").splitlines() if line)


def _workers(asked: int | None, parts: Sequence[Part]) -> int:
    from pipeline.workers import default_workers

    if asked is not None:
        return asked
    return 0 if sum(part.bytes for part in parts) < SMALL else default_workers()


def load_plan(path: str | Path) -> tuple[Plan, Directory]:
    """A plan and its directory. Raises UsageError, UnsafePlan."""
    directory = Directory(Path(path))
    return load(directory), directory


def recipe_for(plan: Plan, directory: Directory, source_root: Path | None = None) -> Recipe:
    """The plan's recipe on this machine, after everything it needs was found. Raises UnreadableExport, UnsafePlan."""
    from pipeline.plan.reading import check_tables, find_parts, recipe_of

    check_tables(plan, directory)
    excluded: frozenset[str] = frozenset()
    if plan.options.excluded_ids:
        path = directory.path / EXCLUDED
        if not path.exists() or digest_file(path) != plan.options.excluded_ids:
            raise UnsafePlan(f"{path} is missing or was changed after the plan was sealed", hint="plan again")
        excluded = _read_ids(path)
    parts = find_parts(plan, source_root)
    return recipe_of(plan, parts, Compile(plan.mapping.name, plan.mapping.text), excluded)


def differences(plan: Plan, recipe: Recipe) -> tuple[list[str], list[str]]:
    """What changed since the plan was sealed: reasons to refuse, and mere warnings; a line each."""
    import importlib.metadata

    from pipeline.plan.reading import stale_parts

    stale = stale_parts(plan, recipe.parts)
    stale.extend(_mapping_differences(plan))
    warnings = []
    version = importlib.metadata.version("backcast")
    if version != plan.version:
        warnings.append(f"planned with backcast {plan.version}, this is {version}")
    for name, planned in plan.libraries.items():
        now = importlib.metadata.version(name)
        if now != planned:
            warnings.append(f"planned with {name} {planned}, this is {now}")
    return stale, warnings


def _mapping_differences(plan: Plan) -> list[str]:
    """Lines of the mapping file that are no longer as they were; a file that is gone does not matter."""
    try:
        text = load_mapping(plan.mapping.name).text
    except UsageError:
        return []
    if hashlib.sha256(text.encode()).hexdigest() == plan.mapping.digest:
        return []
    before, after = plan.mapping.text.splitlines(), text.splitlines()
    for number in range(max(len(before), len(after))):
        old = before[number] if number < len(before) else ""
        new = after[number] if number < len(after) else ""
        if old != new:
            return [f"mapping {plan.mapping.name}, line {number + 1}: sealed {old.strip()!r}, now {new.strip()!r}"]
    return [f"mapping {plan.mapping.name}: line ends differ"]


def check_fresh(plan: Plan, recipe: Recipe) -> list[str]:
    """Raise StalePlan, naming each difference, if what would be sent is not what was sealed. Returns warnings."""
    stale, warnings = differences(plan, recipe)
    if stale:
        raise StalePlan(
            "the plan is stale:\n  " + "\n  ".join(stale), differences=stale, hint="plan again, then apply the new plan"
        )
    return warnings


def check_applicable(plan: Plan, target: str) -> None:
    """Raise UnsafePlan unless the plan is ready and made for this target's dialect."""
    if not plan.ready:
        stops = "; ".join(gate.detail for gate in plan.gates if gate.level == "stop")
        raise UnsafePlan(
            f"the plan is not ready: {stops}", hint="mend that and plan again; it can be rehearsed as it is"
        )
    if target in ("us", "eu") and plan.options.dialect != "posthog":
        raise UnsafePlan(
            f"the plan speaks the dialect {plan.options.dialect!r}, {target} speaks 'posthog'",
            hint=f"plan again with --for {target}",
        )


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """What `backcast apply` is asked."""

    to: str
    project_key: Secret
    dry_run: bool = False
    source_root: Path | None = None
    pace: Pace | None = None
    workers: int | None = None
    timeout: float = 60.0
    ca_file: str | None = None
    redirect_hosts: tuple[str, ...] = ()


def apply_plan(
    plan: Plan,
    directory: Directory,
    request: ApplyRequest,
    *,
    interrupted: threading.Event | None = None,
    progress: Callable[[Counts], None] = lambda counts: None,
    warn: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Send exactly the plan, or resume doing so. Raises what `pipeline.errors` draws; see DESIGN 4 for the exit codes."""
    check_applicable(plan, request.to)
    return _run(plan, directory, request, interrupted, progress, warn)


def _run(
    plan: Plan,
    directory: Directory,
    request: ApplyRequest,
    interrupted: threading.Event | None,
    progress: Callable[[Counts], None],
    warn: Callable[[str], None],
) -> Outcome:
    from pipeline.deliver.apply import Apply, Pace
    from pipeline.deliver.capture import CaptureSink, address_of
    from pipeline.deliver.sink import NowhereSink, Sink

    recipe = recipe_for(plan, directory, request.source_root)
    for line in check_fresh(plan, recipe):
        warn(line)
    pace = request.pace or Pace()
    sink: Sink
    if request.dry_run:
        sink = NowhereSink()
    else:
        sink = CaptureSink(
            request.to,
            dialect=plan.options.dialect if request.to in ("us", "eu") else "contract",
            timeout=request.timeout,
            ca_file=request.ca_file,
            redirect_hosts=request.redirect_hosts,
            connections=pace.concurrency,
        )
    ledger = Ledger(None if request.dry_run else directory.ledger)
    try:
        ledger.open(plan.digest, plan.version, address_of(request.to) if not request.dry_run else "nowhere")
        run = Apply(
            plan,
            directory,
            recipe,
            sink,
            ledger,
            project_key=request.project_key.reveal(),
            workers=_workers(request.workers, recipe.parts),
            pace=pace,
            dry_run=request.dry_run,
            interrupted=interrupted,
            progress=progress,
        )
        try:
            return run.run()
        finally:
            ledger.close()
    finally:
        sink.close()


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A whole run against the local service, and what was read back there."""

    outcome: Outcome
    verification: Verification
    store: Path


def rehearse(
    plan: Plan,
    directory: Directory,
    *,
    workers: int | None = None,
    source_root: Path | None = None,
    progress: Callable[[Counts], None] = lambda counts: None,
    warn: Callable[[str], None] = lambda line: None,
) -> Rehearsal:
    """Apply the plan to a fresh local service, read everything back, compare. A plan that is not ready can be rehearsed.

    What landed stays in `rehearsal/store.duckdb` in the plan directory; `backcast service --store` shows it.
    """
    from pipeline.service import LocalService

    place = directory.path / "rehearsal"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for name in plan.files:
        (place / name).symlink_to(Path("..") / name)
    if plan.options.excluded_ids:
        (place / EXCLUDED).symlink_to(Path("..") / EXCLUDED)
    inner = Directory(place)
    with LocalService(place / "store.duckdb") as service:
        request = ApplyRequest(service.url, Secret(service.capture_key), source_root=source_root, workers=workers)
        outcome = _run(plan, inner, request, None, progress, warn)
        verification = verify_plan(
            plan, inner, to=service.url, personal_key=Secret(service.personal_key),
            project_id=str(service.project_id), workers=workers, source_root=source_root,
        )  # fmt: skip
    return Rehearsal(outcome, verification, place / "store.duckdb")


def verify_plan(
    plan: Plan,
    directory: Directory,
    *,
    to: str,
    personal_key: Secret,
    project_id: str = "1",
    workers: int | None = None,
    source_root: Path | None = None,
) -> Verification:
    """Compare what landed with the ledger. Raises Refused, Unfinished, UnreadableExport, StalePlan."""
    from pipeline.management import ManagementClient
    from pipeline.verify import verify

    recipe = recipe_for(plan, directory, source_root)
    with ManagementClient(to, personal_key, project_id) as client:
        return verify(plan, directory, recipe, client, workers=_workers(workers, recipe.parts))


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a plan stands. `state` is planned, running, stopped or done."""

    state: str
    planned: int
    totals: Totals

    @property
    def unsent(self) -> int:
        return self.planned - self.totals.settled - self.totals.refused - self.totals.in_doubt


def status(plan: Plan, directory: Directory) -> Standing:
    """Read the ledger, also while a run is writing it. Raises BrokenLedger."""
    totals = read_totals(directory.ledger)
    if not directory.ledger.exists():
        state = "planned"
    elif is_held(directory.ledger):
        state = "running"
    elif totals.settled + totals.refused == plan.events.made and not totals.in_doubt:
        state = "done"
    else:
        state = "stopped"
    return Standing(state, plan.events.made, totals)
