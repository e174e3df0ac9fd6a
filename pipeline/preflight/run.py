"""Whether a target is ready for an import: the registered checks, run over its facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.config import Secret
from pipeline.options import PreflightOptions

if TYPE_CHECKING:
    from pipeline.plan.directory import Directory
    from pipeline.plan.manifest import Plan
    from pipeline.preflight.check import Check


@dataclass(frozen=True, slots=True)
class PreflightRequest:
    """Which target to check, with which keys. `personal_key` may be "" and `project_key` None; the checks that
    need them are `unknown` then."""

    to: str
    project_key: Secret | None
    personal_key: Secret
    options: PreflightOptions = PreflightOptions()


@dataclass(frozen=True, slots=True)
class Preflight:
    """The results in the order of the report, and the project's name, "" where it cannot be read."""

    checks: tuple[Check, ...]
    project: str = ""

    @property
    def stops(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.level == "stop")

    @property
    def key_proved(self) -> bool:
        """Whether the capture key is proved to be the project's."""
        return any(check.name == "capture_key_project" and check.level == "ok" for check in self.checks)


def check_target(request: PreflightRequest, plan: Plan | None = None, directory: Directory | None = None) -> Preflight:
    """Check a target without sending an event; a plan and its directory say what would be sent.

    Raises UsageError for addresses, certificates and key files that cannot be used, StalePlan for a changed plan.
    """
    from pipeline.preflight.check import registered_checks
    from pipeline.preflight.target import Target

    with Target(request, plan, directory) as target:
        checks = tuple(result for registered in registered_checks() for result in registered.results(target))
        project = target.project.record if target.client is not None and target.project.known else None
        return Preflight(checks, str((project or {}).get("name") or ""))
