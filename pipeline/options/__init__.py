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

from typing import TYPE_CHECKING

from pipeline.lazily import lazily

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
__getattr__ = lazily(
    __name__,
    fetching="FetchOptions",
    planning="EstimateOptions Limits PathText PlanOptions SurveyOptions",
    reading="DiffOptions ReceiptCheckOptions ReceiptOptions RejectsOptions UndoListOptions VerifyOptions",
    sending="ApplyOptions FaultOptions KeyOptions PauseOptions PreflightOptions RehearseOptions RunOptions",
)
