"""What a plan is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline.models import Source
from pipeline.plan.checks import RejectLimit
from pipeline.plan.directory import Directory
from pipeline.plan.manifest import MappingSeal
from pipeline.plan.people import IdentityInputs
from pipeline.plan.series import Series
from pipeline.transform.tasks import TransformConfig
from pipeline.transform.workers import Workers


@dataclass(frozen=True, slots=True)
class Request:
    """What a plan is made from. `config` decides the events, the rest what a person wants to know or allow.

    `workers` have been started and told the config; they are ended when everything was read. With `key_conflicts`, rows
    of one key are one event whatever they say.
    """

    source: Source
    config: TransformConfig
    mapping: MappingSeal
    directory: Directory
    workers: Workers
    target: str = ""
    allowed: RejectLimit = field(default_factory=RejectLimit)
    key_conflicts: bool = False
    notices: Sequence[tuple[str, str, str]] = ()
    series: Series | None = None
    identity_inputs: IdentityInputs = field(default_factory=IdentityInputs)
