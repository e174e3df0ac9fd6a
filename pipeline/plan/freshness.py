"""A sealed plan on this machine: everything it needs found, nothing changed, and the target its own."""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pipeline.errors import MappingError, StalePlan, UnsafePlan, UsageError
from pipeline.mapper import Compile
from pipeline.mapper import load as load_mapping
from pipeline.models import Part
from pipeline.plan.directory import Directory, digest_file
from pipeline.plan.manifest import Plan, load

if TYPE_CHECKING:
    from pipeline.transform.tasks import TransformConfig


EXCLUDED = Directory(Path()).excluded.name


def read_ids(path: Path) -> frozenset[str]:
    """One id a line; only a line feed ends a line, since an id may hold what else looks like an end."""
    lines = path.read_text(encoding="utf-8-sig").split("\n")
    return frozenset(line.removesuffix("\r") for line in lines) - {""}


def workers_for(asked: int | None, parts: Sequence[Part]) -> int:
    """How many worker processes to start for these parts, unless somebody asked for a number."""
    from pipeline.transform.workers import count_for

    return count_for(asked, sum(part.bytes for part in parts))


def open_plan(path: str | Path) -> tuple[Plan, Directory]:
    """A plan and its directory. Raises UsageError, UnsafePlan."""
    directory = Directory(Path(path))
    return load(directory), directory


def transform_config_for(plan: Plan, directory: Directory, source_root: Path | None = None) -> TransformConfig:
    """The plan's config on this machine, after everything it needs was found. Raises UnreadableExport, StalePlan."""
    from pipeline.plan.contents import check_tables, config_of, find_parts

    check_tables(plan, directory)
    excluded: frozenset[str] = frozenset()
    if plan.options.excluded_ids:
        path = directory.path / EXCLUDED
        if not path.exists() or digest_file(path) != plan.options.excluded_ids:
            raise StalePlan(
                f"{path} is missing or was changed after the plan was sealed",
                differences=[f"{EXCLUDED}: not as it was sealed"], hint="plan again",
            )  # fmt: skip
        excluded = read_ids(path)
    parts = find_parts(_with_spooled(plan, directory), source_root)
    return config_of(plan, parts, Compile(plan.mapping.name, plan.mapping.text), excluded, directory)


def _with_spooled(plan: Plan, directory: Directory) -> Plan:
    """The plan, knowing where its standard input lies now: in its own directory, wherever that was moved to."""
    if not directory.stdin.exists():
        return plan
    spooled = directory.stdin.resolve()
    parts = [msgspec.structs.replace(part, file=str(spooled)) if part.path == "stdin" else part for part in plan.parts]
    return msgspec.structs.replace(plan, parts=parts)


def differences(plan: Plan, config: TransformConfig) -> tuple[list[str], list[str]]:
    """What changed since the plan was sealed: reasons to refuse, and mere warnings; a line each."""
    from pipeline.plan.contents import stale_parts

    stale = stale_parts(plan, config.parts)
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
    except MappingError as error:
        return [f"mapping {plan.mapping.name}: {error.message}"]
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


def check_fresh(plan: Plan, config: TransformConfig) -> list[str]:
    """Raise StalePlan, naming each difference, if what would be sent is not what was sealed. Returns warnings."""
    stale, warnings = differences(plan, config)
    if stale:
        raise StalePlan(
            f"the plan is stale: {'; '.join(stale)}", differences=stale, hint="plan again, then apply the new plan"
        )
    return warnings


def dialect_of(target: str) -> str:
    """`posthog` for the service's own regions, by name or URL, else `contract` (docs/know/service.md#two-spellings).
    Raises UsageError."""
    if not target:
        return "contract"
    from pipeline.targets import region_of

    return "posthog" if region_of(target) else "contract"


def check_applicable(plan: Plan, target: str) -> None:
    """Raise UnsafePlan unless the plan is ready and made for this target's dialect."""
    if not plan.ready:
        stops = "; ".join(gate.detail for gate in plan.gates if gate.level == "stop")
        raise UnsafePlan(
            f"the plan is not ready: {stops}", hint="mend that and plan again; it can be rehearsed as it is"
        )
    spoken, planned = dialect_of(target), plan.options.dialect
    if planned != spoken and not _chosen(plan, target, planned):
        raise UnsafePlan(
            f"the plan speaks the dialect {planned!r}, {target} speaks {spoken!r}",
            hint=f"plan again with --for {target}, or rehearse this one",
        )


def _chosen(plan: Plan, target: str, dialect: str) -> bool:
    """Whether the plan's dialect was named by a person, who knows better: for this target, or without one."""
    from pipeline.targets import address_of

    if plan.target:
        return address_of(plan.target) == address_of(target)
    return dialect != "contract"  # no target and no --dialect would have given that
