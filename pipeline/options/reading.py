"""The options of reading a plan back: what landed, what was rejected, how two plans differ."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline.option_types import Checked, option, read_seconds
from pipeline.options import shared


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(Checked):
    """The options of a verification. `whole`: events of the project that are not of this plan count as extra. `settle`
    is seconds; None is `pipeline.verify.settle.SETTLE_SECONDS`, and none for this machine."""

    fields: str = option(
        "sample", "--fields", choices=("sample", "all", "none"), shown=True,
        help="Compare every property, and merges, profiles and groups: of some events of each name and year, of all"
        " events, or of none.",
    )  # fmt: skip
    uuids: str = option(
        "all", "--uuids", choices=("all", "differing"), shown=True,
        help="Compare events one by one: all, or those of days whose counts differ. Only all of them are a proof.",
    )  # fmt: skip
    settle: float | None = option(
        None, "--settle", least=0, metavar="TIME", read=read_seconds,
        help="Begin this long after the last event was accepted, since the service needs time to show it."
        "  [default: 10m; none on this machine]",
    )  # fmt: skip
    repair: bool = option(
        False, "--repair",
        help="Send the missing events again, with the same uuids, and compare once more; their number is asked for.",
    )  # fmt: skip
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
