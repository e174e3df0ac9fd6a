"""The steps of a migration, composed: what the commands call, and what `pipeline.workflow.library` offers to scripts.

plan_export(PlanRequest(["exports/"], Path("plan"), "mixpanel"))         planning
apply_plan(plan, directory, ApplyRequest("eu", key))                     sending; rehearse and verify_plan too

Each name is loaded when it is first used: to plan takes nothing that sends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.workflow.choosing import guess_mapping, no_rows, starting_mapping
    from pipeline.workflow.phases import choose_phases
    from pipeline.workflow.planning import PlanRequest, plan_export
    from pipeline.workflow.preflight import Preflight, PreflightRequest, check_target
    from pipeline.workflow.refusals import count_refused, refusal, rejected
    from pipeline.workflow.sealed import check_applicable, check_fresh, dialect_of, differences, load_plan, recipe_for
    from pipeline.workflow.sending import (
        ApplyRequest,
        Rehearsal,
        apply_plan,
        capture_key,
        check_request,
        rehearse,
        status,
        verify_plan,
    )

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
    "recipe_for",
    "refusal",
    "rehearse",
    "rejected",
    "starting_mapping",
    "status",
    "verify_plan",
]

_HOMES = {
    "ApplyRequest": "sending",
    "PlanRequest": "planning",
    "Preflight": "preflight",
    "PreflightRequest": "preflight",
    "Rehearsal": "sending",
    "apply_plan": "sending",
    "capture_key": "sending",
    "check_applicable": "sealed",
    "check_fresh": "sealed",
    "check_request": "sending",
    "check_target": "preflight",
    "choose_phases": "phases",
    "count_refused": "refusals",
    "dialect_of": "sealed",
    "differences": "sealed",
    "guess_mapping": "choosing",
    "load_plan": "sealed",
    "no_rows": "choosing",
    "plan_export": "planning",
    "recipe_for": "sealed",
    "refusal": "refusals",
    "rehearse": "sending",
    "rejected": "refusals",
    "starting_mapping": "choosing",
    "status": "sending",
    "verify_plan": "sending",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found
