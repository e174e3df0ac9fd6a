"""The steps of a migration, composed: what the commands call, and what `pipeline.library` offers to scripts.

plan_export(PlanRequest(["exports/"], Path("plan"), "mixpanel"))         planning
apply_plan(plan, directory, ApplyRequest("eu", key))                     sending; rehearse and verify_plan too

Each name is loaded when it is first used: to plan takes nothing that sends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.delivery.phases import choose_phases
    from pipeline.plan.export import PlanRequest, plan_export
    from pipeline.plan.freshness import (
        check_applicable,
        check_fresh,
        dialect_of,
        differences,
        load_plan,
        transform_config_for,
    )
    from pipeline.preflight.run import Preflight, PreflightRequest, check_target
    from pipeline.report.rejects import count_refused, refusal, rejected
    from pipeline.sending import (
        ApplyRequest,
        Rehearsal,
        apply_plan,
        capture_key,
        check_request,
        rehearse,
        status,
        verify_plan,
    )
    from pipeline.survey.recognition import guess_mapping, no_rows, starting_mapping

__all__ = [
    "ApplyRequest",
    "PlanRequest",
    "Preflight",
    "PreflightRequest",
    "Rehearsal",
    "apply_plan",
    "capture_key",
    "check_applicable",
    "check_fresh",
    "check_request",
    "check_target",
    "choose_phases",
    "count_refused",
    "dialect_of",
    "differences",
    "guess_mapping",
    "load_plan",
    "no_rows",
    "plan_export",
    "refusal",
    "rehearse",
    "rejected",
    "starting_mapping",
    "status",
    "transform_config_for",
    "verify_plan",
]

_HOMES = {
    "ApplyRequest": "sending",
    "PlanRequest": "plan.export",
    "Preflight": "preflight.run",
    "PreflightRequest": "preflight.run",
    "Rehearsal": "sending",
    "apply_plan": "sending",
    "capture_key": "sending",
    "check_applicable": "plan.freshness",
    "check_fresh": "plan.freshness",
    "check_request": "sending",
    "check_target": "preflight.run",
    "choose_phases": "delivery.phases",
    "count_refused": "report.rejects",
    "dialect_of": "plan.freshness",
    "differences": "plan.freshness",
    "guess_mapping": "survey.recognition",
    "load_plan": "plan.freshness",
    "no_rows": "survey.recognition",
    "plan_export": "plan.export",
    "transform_config_for": "plan.freshness",
    "refusal": "report.rejects",
    "rehearse": "sending",
    "rejected": "report.rejects",
    "starting_mapping": "survey.recognition",
    "status": "sending",
    "verify_plan": "sending",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(f"pipeline.{_HOMES[name]}"), name)
    return found
