"""The options of every step, each declared once: type, default, help, spelling on the command line, key in a job file.

    planning  FetchOptions  SurveyOptions  EstimateOptions  PlanOptions
    sending   KeyOptions  PreflightOptions  RehearseOptions  ApplyOptions  PauseOptions  RunOptions
    reading   VerifyOptions  RejectsOptions  ExplainOptions  DiffOptions  UndoListOptions  ReceiptOptions
              ReceiptCheckOptions  DiscardOptions

A step of `pipeline.api` takes one of these objects; the command of the step builds it from its flags
(`pipeline.cli.flags`) and a job from its file (`pipeline.jobs.loading`). To add an option, add a field here and use it;
an option that several steps have is a function in `shared`. The plan options that decide what is sent are sealed in the
plan, resolved, as `pipeline.models.SealedOptions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.lazily import lazily

if TYPE_CHECKING:
    from pipeline.options.planning import EstimateOptions as EstimateOptions
    from pipeline.options.planning import FetchOptions as FetchOptions
    from pipeline.options.planning import Limits as Limits
    from pipeline.options.planning import PlanOptions as PlanOptions
    from pipeline.options.planning import SurveyOptions as SurveyOptions
    from pipeline.options.reading import DiffOptions as DiffOptions
    from pipeline.options.reading import DiscardOptions as DiscardOptions
    from pipeline.options.reading import ExplainOptions as ExplainOptions
    from pipeline.options.reading import ReceiptCheckOptions as ReceiptCheckOptions
    from pipeline.options.reading import ReceiptOptions as ReceiptOptions
    from pipeline.options.reading import RejectsOptions as RejectsOptions
    from pipeline.options.reading import UndoListOptions as UndoListOptions
    from pipeline.options.reading import VerifyOptions as VerifyOptions
    from pipeline.options.sending import ApplyOptions as ApplyOptions
    from pipeline.options.sending import KeyOptions as KeyOptions
    from pipeline.options.sending import PauseOptions as PauseOptions
    from pipeline.options.sending import PreflightOptions as PreflightOptions
    from pipeline.options.sending import RehearseOptions as RehearseOptions
    from pipeline.options.sending import RunOptions as RunOptions

__getattr__ = lazily(
    __name__,
    {
        "planning": "EstimateOptions FetchOptions Limits PlanOptions SurveyOptions",
        "reading": "DiffOptions DiscardOptions ExplainOptions ReceiptCheckOptions ReceiptOptions RejectsOptions"
        " UndoListOptions VerifyOptions",
        "sending": "ApplyOptions KeyOptions PauseOptions PreflightOptions RehearseOptions RunOptions",
    },
)
