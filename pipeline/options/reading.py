"""The options of reading a plan back: what landed, what was rejected, how two plans differ."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline.option_types import Checked, option
from pipeline.options import shared


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(Checked):
    """The options of a verification. `whole`: events of the project that are not of this plan count as extra."""

    project: str | None = shared.project("1 on this machine")
    source_root: Path | str | None = shared.source_root()
    workers: int | None = shared.workers()
    whole: bool = option(False)


@dataclass(frozen=True, kw_only=True)
class RejectsOptions(Checked):
    """The options of listing rejected rows and refused events."""

    code: str | None = option(None, "--code", metavar="CODE", complete="codes", help="Only those with this code.")
    source_root: Path | str | None = shared.source_root()


@dataclass(frozen=True, kw_only=True)
class DiffOptions(Checked):
    """The options of comparing two plans."""

    counts: bool = option(
        False, "--counts",
        help="Compare only what the plans recorded: counts, settings and digests. Needs no export.",
    )  # fmt: skip
    show_values: bool = shared.show_values()
    show_ids: bool = shared.show_ids()
    source_root: Path | str | None = option(
        None, "--source-root", path="folder", exists=False, metavar="DIR",
        help="Where an export is now that is no longer where a plan read it.",
    )  # fmt: skip
    workers: int | None = shared.workers()
