"""The options of everything that talks to a target: rehearsing, checking it, sending, and a scheduled job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import fspath

from pipeline.option_types import Checked, PathText, option, read_names, read_seconds, read_zone
from pipeline.options import shared
from pipeline.options.pace import checked_hours, read_hours, read_limits, read_rate


@dataclass(frozen=True, kw_only=True)
class KeyOptions(Checked):
    """The files of the keys that a command uses. A key is never on the command line itself."""

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
    """The options of a look at the target.

    `reach`: also send the capture host a batch without events. `events`: also query what landed in the project.
    `pause_functions`: functions that would fire are turned off before anything is sent.
    """

    api: str | None = shared.api()
    project: str | None = shared.project("the one of the capture key")
    allow_firing: bool = shared.allow_firing()
    max_already_there: str = option(
        "0.1%", "--max-already-there", metavar="N|P%", shown=True,
        help="Maximum events of the plan that the target may have already.",
        job="gates.max_already_there", job_help="events that the target may have already, such as 0.1%",
    )  # fmt: skip
    allow_already_there: bool = option(
        False, "--allow-already-there", help="Go on although the target has more events of the plan already than that."
    )
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
    """The same before sending, where hog functions can be turned off meanwhile. `settle` is seconds; None is
    `pipeline.verify.settle.SETTLE_SECONDS`, and none for this machine."""

    pause_functions: bool = option(
        False, "--pause-functions",
        help="Turn off the hog functions that would fire on these events, until all are sent.",
        job="functions", job_words=("stop", "pause"),
        job_help="stop, or pause: turn off the hog functions that would fire while a run sends",
    )  # fmt: skip
    settle: float | None = option(
        None, "--settle", least=0, metavar="TIME", read=read_seconds,
        help="Turn them on, and read a canary back, this long after the last event was accepted, since the service acts"
        " with a delay."
        "  [default: 10m; none on this machine]",
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
        help="Seed of the faults that happen by chance: the same seed and requests give the same faults.",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ApplyOptions(Checked):
    """The options of sending a plan. `retry_for`, `timeout` and `max_duration` are seconds; `phases` None is all.

    `approve_merges` is the number of merges that a person looked at and approved. The first retry of
    a batch waits up to `first_pause` seconds, later ones longer, up to `longest_pause`.
    """

    dry_run: bool = option(False, "--dry-run", help="Build every request that is left, and send none.")
    phases: Sequence[str] | None = option(
        None, "--phases", metavar="LIST", complete="phases", read=read_names,
        help="Send only these, as identities,groups; always in the order of the plan."
        "  [default: identities,groups,events,persons]",
    )  # fmt: skip
    approve_merges: int | None = option(
        None, "--approve-merges", least=0, metavar="N",
        help="The number of merges in the plan, which cannot be undone; a target on this machine needs none.",
    )  # fmt: skip
    require_rehearsal: bool = option(
        False,
        "--require-rehearsal",
        help="Refuse a plan that was not rehearsed whole, without anything refused or missing.",
        job="rehearse",
        job_words=("none", "each"),
        job_help="none, or each: rehearse each window before it is sent, and stop one whose rehearsal is not proved",
    )
    require_canary: bool = option(
        False, "--require-canary", help="Refuse a plan without a canary that landed at this target as it was sent."
    )
    canary: bool = option(
        False, "--canary",
        help="Send the plan's canary alone, read it back, compare it and stop. The next apply sends the rest.",
    )  # fmt: skip
    rotated_key: bool = option(
        False, "--rotated-key", help="The key of the same project was changed since the plan was first applied."
    )
    rate: float | str | None = option(
        None, "--rate", metavar="LIMIT", read=read_rate, without="no limit", job="rate",
        help="Maximum events per second, as 5000, or bytes, as 2MB; in some hours of the day, as 500@08:00-18:00."
        " Several have commas between.",
        job_help="maximum events per second (5000), or bytes (2MB), also for some hours (5000,500@08:00-18:00)",
    )  # fmt: skip
    quiet_hours: str | None = option(
        None, "--quiet-hours", metavar="HOURS", read=checked_hours, job="quiet_hours",
        help="Send nothing in these hours of the day, as 08:00-18:00, and go on after them.",
        job_help="hours of the day in which nothing is sent, as 08:00-18:00",
    )  # fmt: skip
    hours_timezone: str | None = option(
        None, "--hours-timezone", metavar="ZONE", read=read_zone, job="hours_timezone",
        help="The zone of the hours of --rate and --quiet-hours.", without="that of this machine",
        job_help="the zone of the hours of rate and quiet_hours [default: that of this machine]",
    )  # fmt: skip
    order: str = option(
        "auto", "--order", choices=("auto", "person", "any"), shown=True, job="order",
        help="person: requests with events of one person go one after the other, in the order of the export; any: none"
        " waits for another; auto: person where events set what the service keeps of a person.",
        job_help="person, any or auto: whether requests with events of one person go one after the other",
    )  # fmt: skip
    per_id: int | None = option(
        None, "--per-id", least=1, metavar="N", job="per_id",
        help="Maximum events a minute of one id; others go on. The service updates no person of a faster one."
        "  [default: 5,000; none on this machine]",
        job_help="maximum events a minute of one id [default: 5,000; none on this machine]",
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
        help="Tries of a request after the first.",
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
        False, "--allow-beside", help="Send although another run sends to the same project now."
    )
    max_duration: float | None = option(
        None, "--max-duration", metavar="TIME", read=read_seconds,
        help="Stop cleanly after this long, as 30m or 6h; run again to resume.",
    )  # fmt: skip
    ca_file: PathText | None = shared.ca_file()
    redirect_hosts: Sequence[str] = option(
        (), "--allow-redirect-host", many=True, metavar="HOST[:PORT]", help="A host the key may be redirected to."
    )
    transport: str = option(
        "auto", "--transport", choices=("auto", "v1", "batch"), shown=True,
        help="v1 has an answer for each event, batch one for each request; auto takes v1 in dialect posthog where the"
        " target offers it, and never changes within a plan.",
        job="transport", job_help="auto, v1 (an answer for each event) or batch (one for each request)",
    )  # fmt: skip
    metrics: PathText | None = option(
        None, "--metrics", metavar="FILE",
        help="Keep counts of the run in this file, in the OpenMetrics text format, for monitoring.",
        job="metrics", job_help="a file that keeps counts of the run, in the OpenMetrics text format", path="file",
        exists=False,
    )  # fmt: skip
    metrics_port: int | None = option(
        None, "--metrics-port", least=1, most=65_535, metavar="PORT",
        help="Serve the same counts on this port of this machine while the run goes on.",
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
