"""The steps of a migration, composed: what the commands call, and what `pipeline.workflow.library` offers to scripts.

plan_export(PlanRequest(["exports/"], Path("plan"), "mixpanel"))         planning
apply_plan(plan, directory, ApplyRequest("eu", key))                     sending; rehearse and verify_plan too

Each name is loaded when it is first used: to plan takes nothing that sends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.workflow.choosing import guess_mapping, starting_mapping
    from pipeline.workflow.phases import choose_phases
    from pipeline.workflow.planning import PlanRequest, plan_export
    from pipeline.workflow.preflight import Preflight, PreflightRequest, check_target
    from pipeline.workflow.sealed import check_applicable, check_fresh, dialect_of, differences, load_plan, recipe_for
    from pipeline.workflow.sending import (
        ApplyRequest,
        Rehearsal,
        Standing,
        apply_plan,
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
    "Standing",
    "apply_plan",
    "check_applicable",
    "check_fresh",
    "check_request",
    "check_target",
    "choose_phases",
    "dialect_of",
    "differences",
    "guess_mapping",
    "load_plan",
    "plan_export",
    "recipe_for",
    "rehearse",
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
    "Standing": "sending",
    "apply_plan": "sending",
    "check_applicable": "sealed",
    "check_fresh": "sealed",
    "check_request": "sending",
    "check_target": "preflight",
    "choose_phases": "phases",
    "dialect_of": "sealed",
    "differences": "sealed",
    "guess_mapping": "choosing",
    "load_plan": "sealed",
    "plan_export": "planning",
    "recipe_for": "sealed",
    "rehearse": "sending",
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
