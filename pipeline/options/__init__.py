"""The options of every step, each declared once: type, default, help, spelling on the command line, key in a job file.

    fetching  FetchOptions
    planning  SurveyOptions  EstimateOptions  PlanOptions
    sending   KeyOptions  PreflightOptions  RehearseOptions  ApplyOptions  PauseOptions  RunOptions
    reading   VerifyOptions  RejectsOptions  DiffOptions  UndoListOptions  ReceiptOptions  ReceiptCheckOptions

A step of `pipeline.api` takes one of these objects; the command of the step builds it from its flags
(`pipeline.cli.flags`) and a job from its file (`pipeline.jobs.loading`). A new option is a field here, and its use; one
that several steps have is a function in `shared`. What of the options of a plan decides what is sent is sealed in it,
resolved, as `pipeline.models.SealedOptions`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.options.fetching import FetchOptions
    from pipeline.options.planning import EstimateOptions, Limits, PathText, PlanOptions, SurveyOptions
    from pipeline.options.reading import (
        DiffOptions,
        ReceiptCheckOptions,
        ReceiptOptions,
        RejectsOptions,
        UndoListOptions,
        VerifyOptions,
    )
    from pipeline.options.sending import (
        ApplyOptions,
        FaultOptions,
        KeyOptions,
        PauseOptions,
        PreflightOptions,
        RehearseOptions,
        RunOptions,
    )

__all__ = [
    "ApplyOptions",
    "DiffOptions",
    "EstimateOptions",
    "FaultOptions",
    "FetchOptions",
    "KeyOptions",
    "Limits",
    "PathText",
    "PauseOptions",
    "PlanOptions",
    "PreflightOptions",
    "ReceiptCheckOptions",
    "ReceiptOptions",
    "RehearseOptions",
    "RejectsOptions",
    "RunOptions",
    "SurveyOptions",
    "UndoListOptions",
    "VerifyOptions",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in ("planning", "sending", "reading", "fetching"):  # each loaded only as far as a step needs it
            found = getattr(import_module(f"{__name__}.{module}"), name, None)
            if found is not None:
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
