"""What `pipeline.plan.build` needs to build a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from pipeline.engines.engine import Engine
from pipeline.mapper import Mapping as MappingFile
from pipeline.mapper.program.builder import NO_TABLES, Tables
from pipeline.mapper.program.references import Reference
from pipeline.models import Source
from pipeline.options import PlanOptions
from pipeline.plan.people import IdentityInputs
from pipeline.plan.replay import Replay
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.facts import PluginSeal
from pipeline.plan.sealed.manifest import MappingSeal
from pipeline.plan.series import Series
from pipeline.transform.tasks import TransformConfig


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A source, the `config` that decides its events, and what a person allows.

    `engine` is started and configured; it is shut down after everything is read. `notices` are (code, file, sentence).
    `files` are the digests of plan files that are already written. `plugins` are what the plan uses from installed
    packages. `document` is the mapping file, None for a mapper written by hand; `lookups` has the entries of its lookup
    files, and `joined` the table and the path of each of these, by number, if all rows of the export are read.
    `references` are those that some row should match. `replay` is the earlier plan whose rest is planned.
    """

    source: Source
    config: TransformConfig
    mapping: MappingSeal
    directory: Directory
    engine: Engine
    thresholds: PlanOptions = msgspec.field(default_factory=PlanOptions)
    notices: Sequence[tuple[str, str, str]] = ()
    files: Mapping[str, str] = msgspec.field(default_factory=dict)
    series: Series | None = None
    replay: Replay | None = None
    document: MappingFile | None = None
    lookups: Tables = msgspec.field(default_factory=lambda: NO_TABLES)
    joined: Sequence[tuple[str, str]] = ()
    references: Sequence[Reference] = ()
    identity_inputs: IdentityInputs = msgspec.field(default_factory=IdentityInputs)
    plugins: Sequence[PluginSeal] = ()
