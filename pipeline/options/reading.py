"""The options of the steps after planning: verify, list rejects, compare plans, write receipts, discard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.option_types import Checked, Instant, PathText, option, read_seconds
from pipeline.options import shared


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(Checked):
    """The options of a verification. `whole`: events of the project that the plan does not have count as extra.
    `settle` is seconds; None is `pipeline.verify.settle.SETTLE_SECONDS`, or 0 for a target on this machine."""

    fields: str = option(
        "sample", "--fields", choices=("sample", "all", "none"), shown=True,
        help="Compare every property, and merges, profiles and groups: for some events of each name and year (sample),"
        " for all events, or for none.",
        job="verify.fields", job_help="sample, all or none: for which events of a window every property is compared",
    )  # fmt: skip
    uuids: str = option(
        "all", "--uuids", choices=("all", "differing"), shown=True,
        help="Compare events one by one: all, or only those of days whose counts differ. A proof needs all.",
    )  # fmt: skip
    settle: float | None = option(
        None, "--settle", least=0, metavar="TIME", read=read_seconds,
        help="Wait this long after the last event was accepted, since the service needs time to show it."
        "  [default: 10m; none on this machine]",
    )  # fmt: skip
    repair: bool = option(
        False, "--repair",
        help="Send the missing events again, with the same uuids, and compare again. Asks you to confirm their number.",
    )  # fmt: skip
    continuity: bool = shared.continuity()
    cut_over: Instant | None = shared.cut_over()
    metrics: bool = option(
        False, "--metrics",
        help="Compare events and users by day, week, month, name, platform and country, too, as charts show them.",
    )  # fmt: skip
    against: PathText | None = option(
        None, "--against", path="file", metavar="FILE",
        help="Compare the plan with these numbers of the old tool's charts (CSV), and explain what differs. Implies"
        " --metrics.",
    )  # fmt: skip
    against_timezone: str | None = option(
        None, "--against-timezone", metavar="ZONE", complete="zones",
        help="The zone of the days in FILE.  [default: the plan's or UTC, whichever fits better]",
    )  # fmt: skip
    source: str | None = option(
        None, "--source", metavar="us|eu|URL", complete="targets",
        help="Also compare with the project of PostHog that was exported: events, persons, groups and charts of both"
        " sides. Its key is in BACKCAST_POSTHOG_KEY.",
    )  # fmt: skip
    source_project: str | None = option(
        None, "--source-project", metavar="ID", help="The id of the project at --source."
    )
    earlier: Sequence[PathText] | None = option(
        None, "--earlier", many=True, path="folder", exists=False, metavar="DIR",
        help="With --source: an earlier plan of the same move; repeat for more."
        "  [default: the applied plans next to this one with the same target]",
    )  # fmt: skip
    api: str | None = shared.api()
    project: str | None = shared.project("the one to which apply sent, or that of the keys")
    whole: bool = option(False)


@dataclass(frozen=True, kw_only=True)
class RejectsOptions(Checked):
    """The options of listing rejected rows and refused events."""

    code: str | None = option(None, "--code", metavar="CODE", complete="codes", help="Only those with this code.")


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(Checked):
    """The options of explaining rows."""

    show_values: bool = shared.show_values()
    show_ids: bool = shared.show_ids()


@dataclass(frozen=True, kw_only=True)
class UndoListOptions(Checked):
    """The options of listing what was sent."""

    out: PathText | None = option(
        None, "--out", "-o", path="folder", exists=False, metavar="DIR",
        help="The folder for the lists.  [default: undo-list in the plan's directory]",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ReceiptOptions(Checked):
    """The options of writing a receipt."""

    out: PathText | None = option(
        None, "--out", "-o", metavar="FILE", help="The file.  [default: receipt.json in the plan's directory]"
    )
    sign: PathText | None = option(
        None, "--sign", path="file", metavar="KEY",
        help="Sign it with the Ed25519 key in this file, PEM or OpenSSH without a passphrase.",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ReceiptCheckOptions(Checked):
    """The options of checking a receipt."""

    source_root: PathText | None = option(
        None, "--source-root", path="folder", exists=False, metavar="DIR",
        help="The folder of the export, whose files are read and compared.",
    )  # fmt: skip
    public_key: PathText | None = option(
        None, "--public-key", path="file", metavar="FILE",
        help="The public key of whoever signed it, PEM or OpenSSH. Without it, nothing proves who wrote the receipt.",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class DiffOptions(Checked):
    """The options of comparing two plans."""

    counts: bool = option(
        False, "--counts",
        help="Compare only what the plans recorded: counts, settings and digests.",
    )  # fmt: skip
    show_values: bool = shared.show_values()
    show_ids: bool = shared.show_ids()


@dataclass(frozen=True, kw_only=True)
class DiscardOptions(Checked):
    """What to discard from a plan, and whether an unfinished plan may be discarded."""

    unsent: bool = option(
        False, "--unsent",
        help="Discard the events even if some are not sent and verified; they can never be sent then.",
    )  # fmt: skip
    keep_merges: bool = option(
        False,
        "--keep-merges",
        help="Keep the merged ids, so that later plans for the target do not contradict them.",
    )
