"""Opens a sealed plan and checks that its files are complete, that nothing has changed, and that it fits its target."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import zip_longest
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pipeline.errors import MappingError, StalePlan, UnsafePlan, UsageError
from pipeline.ledger import read_totals, state_digest
from pipeline.models import OwnCode, Part, Step
from pipeline.options import PathText
from pipeline.plan.in_bucket import directory_at
from pipeline.plan.sealed.directory import EXCLUDED, Directory, digest_file
from pipeline.plan.sealed.manifest import Plan, load

if TYPE_CHECKING:
    from pipeline.transform.tasks import TransformConfig


def read_ids(path: Path) -> frozenset[str]:
    """The ids of a file, one a line. Only a line feed ends a line, since an id may contain other line separators."""
    lines = path.read_text(encoding="utf-8-sig").split("\n")
    return frozenset(line.removesuffix("\r") for line in lines) - {""}


def workers_for(requested: int | None, parts: Sequence[Part]) -> int:
    """The number of worker processes for these parts: `requested`, or one that fits their size."""
    from pipeline.engines.local import count_for

    return count_for(requested, sum(part.bytes for part in parts))


def open_plan(path: str | PathLike[str]) -> tuple[Plan, Directory]:
    """A plan and its directory, which of a URL is its working copy on this machine.

    Raises UsageError, UnsafePlan; for a URL Unfinished too, where the store does not answer.
    """
    directory = directory_at(path)
    return load(directory), directory


def transform_config_for(plan: Plan, directory: Directory, source_root: PathText | None = None) -> TransformConfig:
    """The plan's config on this machine. Raises UnreadableExport for a missing file of the export, and StalePlan for a
    missing or changed file of the plan."""
    from pipeline.mapper import Compile
    from pipeline.plan.lookups import load_lookups
    from pipeline.plan.sealed.contents import check_tables, config_of, find_parts

    check_tables(plan, directory)
    excluded: frozenset[str] = frozenset()
    if plan.options.excluded_ids:
        path = directory.excluded
        if not path.exists() or digest_file(path) != plan.options.excluded_ids:
            raise StalePlan(
                f"{path} is missing or was changed after the plan was sealed",
                differences=[f"{EXCLUDED}: not as it was sealed"], hint="plan again",
            )  # fmt: skip
        excluded = read_ids(path)
    parts = find_parts(_with_spooled(plan, directory), source_root)
    lookups = load_lookups(plan, directory)
    compile_ = Compile(plan.mapping.name, plan.mapping.text, lookups, plan.mapping.python or None)
    return config_of(plan, parts, compile_, excluded, directory)


def _with_spooled(plan: Plan, directory: Directory) -> Plan:
    """The plan with the path of its saved standard input, in its own directory, wherever that was moved to."""
    if not directory.stdin.exists():
        return plan
    spooled = directory.stdin.resolve()
    parts = [msgspec.structs.replace(part, file=str(spooled)) if part.path == "stdin" else part for part in plan.parts]
    return msgspec.structs.replace(plan, parts=parts)


def differences(
    plan: Plan, config: TransformConfig, step: Step = lambda name, done, total: None
) -> tuple[list[str], list[str]]:
    """What changed since the plan was sealed, a line each: reasons to refuse the plan, and warnings."""
    import importlib.metadata

    from pipeline.plan.plugins import plugin_differences
    from pipeline.plan.sealed.contents import stale_parts

    stale = stale_parts(plan, config.parts, step)
    stale.extend(_mapping_differences(plan))
    stale.extend(_code_differences(plan))
    stale.extend(replay_differences(plan))
    changed, warnings = plugin_differences(plan.plugins or ())
    stale.extend(changed)
    version = importlib.metadata.version("backcast")
    if version != plan.version:
        warnings.append(f"planned with backcast {plan.version}, this is {version}")
    for name, planned in plan.libraries.items():
        now = importlib.metadata.version(name)
        if now != planned:
            warnings.append(f"planned with {name} {planned}, this is {now}")
    return stale, warnings


def _mapping_differences(plan: Plan) -> list[str]:
    """The first line of the mapping file that has changed; a file that is gone does not matter."""
    from pipeline.mapper import load as load_mapping

    try:
        text = load_mapping(plan.mapping.name, with_code=False).text
    except MappingError as error:
        return [f"mapping {plan.mapping.name}: {error.message}"]
    except UsageError:
        return []
    if hashlib.sha256(text.encode()).hexdigest() == plan.mapping.digest:
        return []
    return [_first_difference(f"mapping {plan.mapping.name}", plan.mapping.text, text)]


def _code_differences(plan: Plan) -> list[str]:
    """The first line of the mapping's own code that has changed; a file that is gone does not matter."""
    code = plan.mapping.python
    if not isinstance(code, OwnCode):
        return []
    try:
        content = Path(plan.mapping.name).parent.joinpath(code.file).read_bytes()
    except OSError:
        return []
    if hashlib.sha256(content).hexdigest() == code.digest:
        return []
    return [_first_difference(f"code {code.file}", code.text, content.decode("utf-8-sig", "backslashreplace"))]


def replay_differences(plan: Plan) -> list[str]:
    """What changed since in the earlier plan whose settled events are left out of this one."""
    replayed = plan.replays
    if replayed is msgspec.UNSET:
        return []
    earlier = directory_at(replayed.directory)
    if not earlier.plan.exists():
        return [f"the plan {earlier.name} that it replays is gone"]
    if load(earlier).digest != replayed.digest:
        return [f"{earlier.name} has another plan than the one that it replays"]
    if state_digest(earlier.ledger) != replayed.ledger:
        return [f"the plan {earlier.name} that it replays was sent on since"]
    return []


def _first_difference(what: str, before: str, after: str) -> str:
    for number, (old, new) in enumerate(zip_longest(before.splitlines(), after.splitlines(), fillvalue=""), 1):
        if old != new:
            return f"{what}, line {number}: sealed {old.strip()!r}, now {new.strip()!r}"
    return f"{what}: line ends differ"


def check_fresh(
    plan: Plan, config: TransformConfig, directory: Directory, step: Step = lambda name, done, total: None
) -> list[str]:
    """Returns warnings; `step` is called while files are read again. Raises StalePlan, naming each difference, if what
    would be sent is not what was sealed; BrokenLedger."""
    stale, warnings = differences(plan, config, step)
    if stale:
        raise StalePlan(f"the plan is stale: {'; '.join(stale)}", differences=stale, hint=_way_out(directory))
    return warnings


def check_export(
    plan: Plan, config: TransformConfig, directory: Directory, step: Step = lambda name, done, total: None
) -> None:
    """Raise StalePlan, naming each file, where the export is not the one that was planned; BrokenLedger.

    The mapping may have changed: what was sent is computed again by the sealed one.
    """
    from pipeline.plan.sealed.contents import stale_parts

    stale = stale_parts(plan, config.parts, step)
    if stale:
        raise StalePlan(
            f"the export is not the one that was planned: {'; '.join(stale)}",
            differences=stale,
            hint=_way_out(directory),
        )


def _way_out(directory: Directory) -> str:
    """What to do about a plan whose inputs changed: a new plan makes other events beside those that were sent."""
    totals = read_totals(directory.ledger)
    if not (totals.settled or totals.refused or totals.in_doubt):
        return "plan again, then apply the new plan"
    return (
        "restore what changed, or name the folder of the planned export with --source-root. Do not plan again: that"
        f" would make other events beside the {totals.settled + totals.in_doubt:,} that were sent"
    )


_TAKES = {"contract": "a service that follows the written contract", "posthog": "PostHog itself"}
"""Who takes the events of a dialect."""


def dialect_of(target: str) -> str:
    """`posthog` for the service's own regions, by name or URL, and for files that its own importer sends, else
    `contract` (docs/know/service.md#two-spellings). Raises UsageError."""
    if not target:
        return "contract"
    from pipeline.targets import files_of, region_of

    return "posthog" if files_of(target) or region_of(target) else "contract"


def check_applicable(plan: Plan, target: str) -> None:
    """Raise UnsafePlan unless the plan is ready and in the dialect of this target."""
    if not plan.ready:
        stops = "; ".join(gate.detail for gate in plan.gates if gate.level == "stop")
        raise UnsafePlan(
            f"the plan is not ready: {stops}", hint="correct that and plan again; it can be rehearsed as it is"
        )
    needed, planned = dialect_of(target), plan.options.dialect
    if planned != needed and not _chosen(plan, target, planned):
        raise UnsafePlan(
            f"the plan is for {_TAKES[planned]} (dialect {planned!r}), and {target} needs {needed!r}",
            hint=f"plan again with --for {target}, or rehearse this one",
        )


def _chosen(plan: Plan, target: str, dialect: str) -> bool:
    """Whether a person chose the plan's dialect for this target, or chose it without a target."""
    from pipeline.targets import address_of

    if plan.target:
        return address_of(plan.target) == address_of(target)
    return dialect != "contract"  # the default without a target
