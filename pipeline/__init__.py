"""backcast: move product-analytics history into PostHog, or any service that speaks its capture API.

    import pipeline
    from pipeline.options import PlanOptions, VerifyOptions

    plan = pipeline.plan_export("exports/", "plan", PlanOptions(mapping="mixpanel", timezone="America/New_York"))
    if plan.ready and pipeline.rehearse_plan("plan").verification.proved:
        outcome = pipeline.apply_plan("plan", "eu")            # the key: BACKCAST_PROJECT_KEY
        found = pipeline.verify_plan("plan", "eu", VerifyOptions(project="12345"))
        print(plan.sentence, outcome.counts.accepted, found.proved)

Importing this costs nothing: each name is loaded when it is first used. The exceptions are in `pipeline.errors`, the
steps' options in `pipeline.options`, the local service in `pipeline.local_service`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline import errors as errors
    from pipeline import options as options
    from pipeline.api import (
        apply_plan,
        diff_plans,
        discard_plan,
        explain_plan,
        list_sent,
        load_plan,
        plan_export,
        plan_status,
        read_rejects,
        rehearse_plan,
        run_job,
        survey_export,
        verify_plan,
        write_job_receipt,
        write_receipt,
    )
    from pipeline.fetch.database import fetch_database
    from pipeline.fetch.query import fetch_query
    from pipeline.fetch.run import fetch_export

__all__ = [
    "apply_plan",
    "diff_plans",
    "discard_plan",
    "explain_plan",
    "fetch_database",
    "fetch_export",
    "fetch_query",
    "list_sent",
    "load_plan",
    "plan_export",
    "plan_status",
    "read_rejects",
    "rehearse_plan",
    "run_job",
    "survey_export",
    "verify_plan",
    "write_job_receipt",
    "write_receipt",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in ("errors", "options"):
        return import_module(f"pipeline.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    homes = {"fetch_database": "database", "fetch_export": "run", "fetch_query": "query"}
    home = f"pipeline.fetch.{homes[name]}" if name in homes else "pipeline.api"
    found = globals()[name] = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
