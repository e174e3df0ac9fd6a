"""backcast: move product-analytics history into PostHog, or any service that speaks its capture API.

    import pipeline

    plan = pipeline.plan_export("exports/", "plan", mapping="mixpanel", timezone="America/New_York", target="eu")
    if plan.ready and pipeline.rehearse_plan("plan").verification.proved:
        outcome = pipeline.apply_plan("plan", "eu")            # the key: BACKCAST_PROJECT_KEY
        found = pipeline.verify_plan("plan", "eu", project="12345")
        print(plan.sentence, outcome.counts.accepted, found.proved)

Importing this costs nothing: each name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.errors import (
        BackcastError,
        BrokenLedger,
        Busy,
        Differences,
        Interrupted,
        MappingError,
        Refused,
        StalePlan,
        Unfinished,
        UnreadableExport,
        UnsafePlan,
        UsageError,
    )
    from pipeline.extractors import open_source
    from pipeline.library import (
        apply_plan,
        load_plan,
        plan_export,
        plan_status,
        read_rejects,
        rehearse_plan,
        survey_export,
        verify_plan,
    )
    from pipeline.local_service import LocalService
    from pipeline.mapper import compile as compile_mapping
    from pipeline.mapper import load as load_mapping

__all__ = [
    "BackcastError",
    "BrokenLedger",
    "Busy",
    "Differences",
    "Interrupted",
    "LocalService",
    "MappingError",
    "Refused",
    "StalePlan",
    "Unfinished",
    "UnreadableExport",
    "UnsafePlan",
    "UsageError",
    "apply_plan",
    "compile_mapping",
    "load_mapping",
    "load_plan",
    "open_source",
    "plan_export",
    "plan_status",
    "read_rejects",
    "rehearse_plan",
    "survey_export",
    "verify_plan",
]

_ELSEWHERE = {
    "LocalService": "pipeline.local_service:LocalService",
    "compile_mapping": "pipeline.mapper:compile",
    "load_mapping": "pipeline.mapper:load",
    "open_source": "pipeline.extractors:open_source",
}
"""Names that neither `pipeline.library` nor `pipeline.errors` holds."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = "errors" if name[0].isupper() else "library"
    module, attribute = _ELSEWHERE.get(name, f"pipeline.{home}:{name}").split(":")
    found = getattr(import_module(module), attribute)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
