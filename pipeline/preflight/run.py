"""Whether a target is ready for an import: the registered checks, run over its facts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from pipeline.config import Secret
from pipeline.options import PreflightOptions
from pipeline.targets import address_of

if TYPE_CHECKING:
    from pipeline.plan.sealed.directory import Directory
    from pipeline.plan.sealed.manifest import Plan
    from pipeline.preflight.target import Target
    from pipeline.report.records import Check, PreflightResult


class PreflightRequest(msgspec.Struct, frozen=True):
    """Which target to check, with which keys. `personal_key` may be "" and `project_key` None; then the checks that
    need them are `unknown`."""

    to: str
    project_key: Secret | None
    personal_key: Secret
    options: PreflightOptions = PreflightOptions()


class Preflight(msgspec.Struct, frozen=True):
    """The results in the order of the report, and the project's name and id, "" if they cannot be read.

    `reused`: an earlier preflight already knew what the target has.
    """

    checks: tuple[Check, ...]
    project: str = ""
    project_id: str = ""
    reused: bool = False

    @property
    def stops(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.level == "stop")

    @property
    def key_proved(self) -> bool:
        """Whether the capture key is proved to be the project's."""
        return any(check.name == "capture_key_project" and check.level == "ok" for check in self.checks)

    def sure_project(self, options: PreflightOptions | None) -> str:
        """The id of the project that the capture key sends to, "" if neither the key nor the options show it."""
        named = options is not None and options.project is not None
        return self.project_id if named or self.key_proved else ""


REUSED = 3_600.0
"""For this many seconds, an earlier preflight of the same plan without a stop says what the target already has."""


def check_target(
    request: PreflightRequest,
    plan: Plan | None = None,
    directory: Directory | None = None,
    recorded: PreflightResult | None = None,
) -> Preflight:
    """Check a target without sending an event; a plan and its directory say what would be sent.

    If an earlier preflight, `recorded`, says for the same plan and project what the target has, that is not asked
    again.

    Raises UsageError for addresses, certificates and key files that cannot be used, StalePlan for a changed plan.
    """
    from pipeline.plan.checks import parse_limit
    from pipeline.preflight.check import registered_checks
    from pipeline.preflight.target import Target

    parse_limit(request.options.max_already_there, "--max-already-there")
    with Target(request, plan, directory) as target:
        checks: list[Check] = []
        reused = False
        for registered in registered_checks():
            if registered.needs == "events" and not request.options.events:
                continue
            known = _known(registered.names, recorded, target) if registered.needs == "events" else []
            checks += known or registered.results(target)
            reused = reused or bool(known)
        target.forget_answers()
        if target.client is None or not target.project.known:
            return Preflight(tuple(checks))
        name = str((target.project.record or {}).get("name") or "")
        return Preflight(tuple(checks), name, target.client.project_id or "", reused)


def _known(names: tuple[str, ...], recorded: PreflightResult | None, target: Target) -> list[Check]:
    """What an earlier preflight found, if it holds for this target and nothing in it must be asked again."""

    if recorded is None or target.plan is None or target.client is None or not target.project.known:
        return []
    about = target.plan.digest, address_of(target.request.to), target.client.project_id
    most = target.request.options.max_already_there
    if (*about, most) != (recorded.digest, recorded.to, recorded.project, recorded.most):
        return []
    if not 0 <= recorded.age(datetime.now(UTC)) < REUSED:
        return []
    found = [check for check in recorded.checks if check.name in names]
    if any(check.level not in ("ok", "warning") for check in found):
        return []
    return found
