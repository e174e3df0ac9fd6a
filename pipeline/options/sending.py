"""The options of everything that talks to a target: rehearsal, preflight, sending and scheduled jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import fspath

from pipeline.option_types import Checked, Instant, PathText, option, read_names, read_seconds, read_zone
from pipeline.options import shared
from pipeline.options.pace import checked_hours, read_hours, read_limits, read_rate


@dataclass(frozen=True, kw_only=True)
class KeyOptions(Checked):
    """The files of the keys that a command uses. A key itself never appears on the command line."""

    project_key_file: str | None = option(
        None, "--project-key-file", metavar="FILE", help="A file with the capture key.", without="BACKCAST_PROJECT_KEY"
    )
    personal_key_file: str | None = option(
        None,
        "--personal-key-file",
        metavar="FILE",
        help="A file with the personal key.",
        without="BACKCAST_PERSONAL_KEY",
    )


@dataclass(frozen=True, kw_only=True)
class PreflightOptions(Checked):
    """The options of a preflight.

    `reach`: also send an empty batch to the capture host. `events`: also query what landed in the project.
    `pause_functions`: functions that would fire will be turned off before anything is sent.
    """

    api: str | None = shared.api()
    project: str | None = shared.project("the capture key's")
    allow_firing: bool = shared.allow_firing()
    max_already_there: str = option(
        "0.1%", "--max-already-there", metavar="N|P%", shown=True,
        help="Stop if the target already has more of the plan's events than this.",
        job="gates.max_already_there", job_help="events that the target may already have, such as 0.1%",
    )  # fmt: skip
    allow_already_there: bool = option(
        False, "--allow-already-there", help="Continue even if the target has more than --max-already-there."
    )
    continuity: bool = shared.continuity()
    cut_over: Instant | None = shared.cut_over()
    timeout: float = shared.timeout(20.0)
    ca_file: PathText | None = shared.ca_file()
    redirect_hosts: Sequence[str] = option(())
    reach: bool = option(True)
    events: bool = option(True)
    pause_functions: bool = option(False)

    @property
    def ca_path(self) -> str | None:
        return None if self.ca_file is None else fspath(self.ca_file)


@dataclass(frozen=True, kw_only=True)
class PauseOptions(PreflightOptions):
    """The options of the preflight before sending, which can turn off hog functions. `settle` is seconds; None is
    `pipeline.verify.settle.SETTLE_SECONDS`, or 0 for a target on this machine."""

    pause_functions: bool = option(
        False, "--pause-functions",
        help="Turn off the hog functions that would fire on these events, until all are sent.",
        job="functions", job_words=("stop", "pause"),
        job_help="stop, or pause: turn off the hog functions that would fire while a run sends",
    )  # fmt: skip
    settle: float | None = option(
        None, "--settle", least=0, metavar="TIME", read=read_seconds,
        help="How long after the last accepted event to turn them on again and to read a canary back, since the"
        " service acts with a delay.  [default: 10m; none on this machine]",
        job="settle", job_help="how long after the last event paused functions are turned on again, such as 10m",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RehearseOptions(Checked):
    """Failures that the local service simulates, written as `pipeline.local_service.faults` lists them."""

    faults: Sequence[str] = option(
        (), "--fault", many=True, metavar="FAULT", complete="faults",
        help="Simulate this failure; several are applied in the order given. See below.",
    )  # fmt: skip
    fault_seed: int = option(
        0, "--fault-seed", metavar="N", shown=True,
        help="Seed of random faults: the same seed and requests give the same faults.",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ApplyOptions(Checked):
    """The options of sending a plan. `retry_for`, `timeout` and `max_duration` are seconds; `phases` None means all.

    `approve_merges` is the number of merges that a person reviewed and approved. The first retry of a batch waits up to
    `first_pause` seconds, later ones longer, up to `longest_pause`.
    """

    dry_run: bool = option(False, "--dry-run", help="Build every remaining request, but send none.")
    phases: Sequence[str] | None = option(
        None, "--phases", metavar="LIST", complete="phases", read=read_names,
        help="Send only these phases, such as identities,groups; always in the order of the plan."
        "  [default: identities,groups,events,persons]",
    )  # fmt: skip
    approve_merges: int | None = option(
        None, "--approve-merges", least=0, metavar="N",
        help="The number of merges in the plan, to approve them: they cannot be undone. Not needed on this machine.",
    )  # fmt: skip
    require_rehearsal: bool = option(
        False,
        "--require-rehearsal",
        help="Refuse a plan unless all of it was rehearsed with nothing refused or missing.",
        job="rehearse",
        job_words=("none", "each"),
        job_help="none, or each: rehearse each window before it is sent, and stop if the rehearsal is not proved",
    )
    require_canary: bool = option(
        False, "--require-canary", help="Refuse a plan unless its canary landed at this target exactly as sent."
    )
    canary: bool = option(
        False, "--canary",
        help="Send only the plan's canary, read it back and compare it. The next apply sends the rest.",
    )  # fmt: skip
    rotated_key: bool = option(
        False,
        "--rotated-key",
        help="The project's key was changed since the plan was first applied: accept the new one.",
    )
    rate: float | str | None = option(
        None, "--rate", metavar="LIMIT", read=read_rate, without="no limit", job="rate",
        help="Maximum events per second, such as 5000, or bytes, such as 2MB; for some hours of the day,"
        " 500@08:00-18:00. Separate several with commas.",
        job_help="maximum events per second (5000), or bytes (2MB), also for some hours (5000,500@08:00-18:00)",
    )  # fmt: skip
    quiet_hours: str | None = option(
        None, "--quiet-hours", metavar="HOURS", read=checked_hours, job="quiet_hours",
        help="Send nothing in these hours of the day, such as 08:00-18:00; continue after them.",
        job_help="hours of the day in which nothing is sent, such as 08:00-18:00",
    )  # fmt: skip
    hours_timezone: str | None = option(
        None, "--hours-timezone", metavar="ZONE", read=read_zone, job="hours_timezone",
        help="The zone of the hours of --rate and --quiet-hours.", without="this machine's",
        job_help="the zone of the hours of rate and quiet_hours [default: this machine's]",
    )  # fmt: skip
    order: str = option(
        "auto", "--order", choices=("auto", "person", "any"), shown=True, job="order",
        help="person: send requests with events of one person one after the other, in the order of the export; any: no"
        " request waits for another; auto: person, if events set what the service keeps about a person.",
        job_help="person, any or auto: whether requests with events of one person are sent one after the other",
    )  # fmt: skip
    per_id: int | None = option(
        None, "--per-id", least=1, metavar="N", job="per_id",
        help="Maximum events per minute for one id; others continue. The service does not update people who are faster."
        "  [default: 5,000; none on this machine]",
        job_help="maximum events per minute for one id [default: 5,000; none on this machine]",
    )  # fmt: skip
    max_concurrency: int = option(
        8, "--max-concurrency", least=1, most=256, metavar="N", shown=True,
        help="Maximum requests in flight; fewer while the service is slow or returns errors.",
    )  # fmt: skip
    max_retries: int | None = option(
        None,
        "--max-retries",
        least=0,
        metavar="N",
        help="Maximum retries per request.",
        without="as many as --retry-for allows",
    )
    retry_for: float = option(
        3600.0, "--retry-for", metavar="TIME", read=read_seconds, shown="1h",
        help="Give up after this long without progress.",
    )  # fmt: skip
    first_pause: float = option(0.5, least=0)
    longest_pause: float = option(60.0, least=0)
    timeout: float = shared.timeout(60.0)
    max_refused: int = option(
        100, "--max-refused", least=0, metavar="N", shown=True,
        help="Events the service may refuse before the run stops.",
    )  # fmt: skip
    allow_beside: bool = option(
        False, "--allow-beside", help="Send even if another run is sending to the same project."
    )
    max_duration: float | None = option(
        None, "--max-duration", metavar="TIME", read=read_seconds,
        help="Stop cleanly after this long, such as 30m or 6h; run again to resume.",
    )  # fmt: skip
    ca_file: PathText | None = shared.ca_file()
    redirect_hosts: Sequence[str] = option(
        (), "--allow-redirect-host", many=True, metavar="HOST[:PORT]", help="A host to which the key may be redirected."
    )
    transport: str = option(
        "auto", "--transport", choices=("auto", "v1", "batch"), shown=True,
        help="v1: one answer per event; batch: one per request; auto: v1 in the dialect posthog if the target offers"
        " it, never changed within a plan.",
        job="transport", job_help="auto, v1 (an answer for each event) or batch (one for each request)",
    )  # fmt: skip
    metrics: PathText | None = option(
        None, "--metrics", metavar="FILE",
        help="Write the run's counts to this file in the OpenMetrics text format, for monitoring.",
        job="metrics", job_help="a file for the run's counts, in the OpenMetrics text format", path="file",
        exists=False,
    )  # fmt: skip
    metrics_port: int | None = option(
        None, "--metrics-port", least=1, most=65_535, metavar="PORT",
        help="Serve the same counts on this port of this machine during the run.",
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate is not None:
            read_limits(self.rate)
        if self.quiet_hours is not None:
            read_hours(self.quiet_hours)
        if self.hours_timezone is not None:
            read_zone(self.hours_timezone)


@dataclass(frozen=True, kw_only=True)
class RunOptions(Checked):
    """The options of one run of a scheduled job."""

    dry_run: bool = option(False, "--dry-run", help="Plan what is due in a temporary folder; send and record nothing.")
    allow_firing: bool = shared.allow_firing()
    workers: int | None = shared.workers()
