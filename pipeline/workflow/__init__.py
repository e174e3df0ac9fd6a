"""The steps of a migration, composed: what the commands call, and what `pipeline.workflow.library` offers to scripts.

plan_export(PlanRequest(["exports/"], Path("plan"), "mixpanel"))         planning
apply_plan(plan, directory, ApplyRequest("eu", key))                     sending; rehearse and verify_plan too
"""

from __future__ import annotations

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
