"""The options of downloading an export, of looking at it and of planning it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.option_types import (
    Checked,
    FirstLive,
    Instant,
    PathText,
    option,
    read_engine,
    read_instant,
    read_names,
    read_report,
    read_seconds,
    read_settings,
    read_until,
)
from pipeline.options import shared


@dataclass(frozen=True, kw_only=True)
class FetchOptions(Checked):
    """The options of a fetch. `host` is a region of the tool or a URL, `window` and `retry_for` are seconds; the pauses
    between tries, in seconds too, have no flag."""

    host: str = option(
        "us", "--from", metavar="us|eu|in|URL", shown=True,
        help="The region that the project is in, or the address of the API.",
    )  # fmt: skip
    project: str | None = option(
        None, "--project", metavar="ID", help="The project's id, for Mixpanel and PostHog.",
    )  # fmt: skip
    window: float | None = option(
        None, "--window", metavar="TIME", read=read_seconds,
        help="How much to ask for at once; what is too large for the tool is divided.  [default: 1d]",
    )  # fmt: skip
    count: bool = option(
        True, "--no-count", help="Do not compare with the tool's own counts of events, which costs it a query a window."
    )
    retry_for: float = option(
        7200.0, "--retry-for", least=0, metavar="TIME", read=read_seconds, shown="2h",
        help="How long one request is tried again that the tool does not answer for now.",
    )  # fmt: skip
    timeout: float = shared.timeout(300.0)
    ca_file: str | None = shared.ca_file()
    first_pause: float = option(1.0)
    longest_pause: float = option(300.0)


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a request may be (docs/know/service.md#encodings-and-sizes says why: every known limit of the service
    holds)."""

    batch_events: int = 5_000
    batch_bytes: int = 5 * 1024 * 1024
    event_bytes: int = 900 * 1024


DEFAULT_PAIRS = 32
FILE_SETTINGS = (
    "How files are read, as for `plan`: header=yes|no|ROW, columns=A,B, sheet=NAME, rows=NAME, folders=yes|no,"
    " escape=C, integers=COLUMN, nan=null|reject."
)


@dataclass(frozen=True, kw_only=True)
class SurveyOptions(Checked):
    """The options of a survey."""

    rows: int = option(200_000, "--rows", least=1, metavar="N", help="How many rows to read.  [default: 200,000]")
    every: bool = option(False, "--all", help="Read every row.")
    settings: Mapping[str, str] = option(
        dict,
        "--set",
        many=True,
        read=read_settings,
        metavar="NAME=VALUE",
        help=FILE_SETTINGS,
    )
    report: PathText | None = option(None, "--report", metavar="FILE", help="Also write it as a page with pictures.")


@dataclass(frozen=True, kw_only=True)
class EstimateOptions(Checked):
    """The options of an estimate, beside those of a plan."""

    estimate: bool = option(
        False, "--estimate",
        help="Only estimate hours, machines and bytes from a sample; nothing is written, and --output is not needed.",
    )  # fmt: skip
    rate: float | None = option(
        None, "--rate", metavar="N", above=0, help="With --estimate: the maximum events per second of `apply --rate`.",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PlanOptions(Checked):
    """The options of a plan. None leaves a value to the mapping or to the export, as the help of each says.

    `timezone` is one text or several, `ZONE` or `ZONE@DATE`. `since` and `until` are a half-open window of event time.
    """

    mapping: PathText | None = option(
        None, "--mapping", "-m", metavar="NAME|FILE", complete="mappings",
        help="A shipped mapping or a file.  [default: recognised from the export]",
        job="mapping", job_help="a shipped mapping, or a file relative to the job file",
    )  # fmt: skip
    target: str = option(
        "", "--for", metavar="us|eu|URL|file:DIR|s3://…", complete="targets",
        help="The intended target; decides which spelling of events (dialect) is written.",
    )  # fmt: skip
    dialect: str | None = option(
        None, "--dialect", choices=("contract", "posthog"), help="Override that spelling.", without="that of --for",
        job="dialect", job_help="contract or posthog: the spelling of events, if not that of `to`",
    )  # fmt: skip
    since: Instant | None = option(
        None, "--since", metavar="TIME", read=read_instant, help="Only events at or after this time (UTC).",
        without="the first event",
    )  # fmt: skip
    until: Instant | FirstLive | None = option(
        None, "--until", metavar="TIME|first-live", read=read_until,
        help="Only events before this time (UTC), or before the target's first live event.", without="the last event",
    )  # fmt: skip
    timezone: str | Sequence[str] = option(
        (), "--timezone", many=True, metavar="ZONE[@DATE]", complete="zones",
        help="IANA zone of a tool that writes local times; repeat with @DATE where it changed.",
        job="timezone", job_help="the zone of a tool that writes local times; a list with ZONE@DATE where it changed",
    )  # fmt: skip
    settings: Mapping[str, str] = option(
        dict, "--set", many=True, read=read_settings, metavar="KEY=VALUE", help="A setting of the mapping.",
        job="set", job_help="settings of the mapping, name: value",
    )  # fmt: skip
    exclude_ids: Path | str | None = option(
        None, "--exclude-ids", path="file", metavar="FILE",
        help="Ids to leave out, one a line: people who asked to be forgotten.",
        job="exclude_ids", job_help="a file of ids to leave out, one a line",
    )  # fmt: skip
    limit: int | None = option(
        None, "--limit", least=1, metavar="N", help="Read only the first N rows.", without="every row"
    )
    max_rejects: str = option(
        "0", "--max-rejects", metavar="N|P%", shown=True, help="Maximum rejected rows.",
        job="gates.max_rejects", job_help="rows that may be rejected, such as 100 or 0.1%",
    )  # fmt: skip
    allow_ignored: int = option(
        0, "--allow-ignored", least=0, metavar="N", shown=True,
        help="Maximum files without rows that are left out although they are named like files that are read.",
        job="gates.allow_ignored", job_help="files that may be left out although they are named like files with rows",
    )  # fmt: skip
    max_unmapped: str | None = option(
        None, "--max-unmapped", metavar="N|P%",
        help="Maximum fields and event names that are kept and that the mapping does not name.  [default: any number]",
        job="gates.max_unmapped", job_help="fields and event names that the mapping need not name, such as 0 or 10%",
    )  # fmt: skip
    spike: float = option(
        5.0, "--spike", above=1, metavar="TIMES", shown="5",
        help="Warn of a day with more than this many times the median events of the 28 days before and after.",
        job="gates.spike", job_help="a warning where a day has more than so many times its median, such as 8",
    )  # fmt: skip
    level: float = option(
        1.8, "--level", above=1, metavar="TIMES", shown=True,
        help="Warn where the events a day become this many times more or fewer at once, and stay so for four weeks.",
        job="gates.level", job_help="a warning where events a day become this many times more or fewer, such as 2.5",
    )  # fmt: skip
    gap: int | None = option(
        None, "--gap", least=1, metavar="DAYS",
        help="Warn of this many days without events where events are usual, or without a file among dated files."
        "  [default: 1; 3 where weekends have none, and for a single event name]",
        job="gates.gap", job_help="a warning of so many days without events",
    )  # fmt: skip
    hour_events: int = option(
        1_000, "--hour-events", least=1_000, metavar="N", shown=True,
        help="Compare hours of day, to find a wrong time zone, where a history or a month has so many events.",
        job="gates.hour_events", job_help="events that a month needs for its hours of day to be compared",
    )  # fmt: skip
    per_second: int = option(
        100, "--per-second", least=1, metavar="N", shown=True,
        help="Warn of an id with more events than this within a second.",
    )  # fmt: skip
    per_minute: int = option(
        600, "--per-minute", least=1, metavar="N", shown=True,
        help="Warn of an id with more events than this within a minute.",
    )  # fmt: skip
    per_day: int = option(
        20_000, "--per-day", least=1, metavar="N", shown=True,
        help="Warn of an id with more events than this within a UTC day.",
    )  # fmt: skip
    repeated: float = option(
        0.1, "--repeated", above=0, metavar="PERCENT", shown=True,
        help="Warn where more than this share of the events, in percent, equal an earlier event of the same person and"
        " second in all but their uuid.",
    )  # fmt: skip
    one_day: float = option(
        50.0, "--one-day", above=0, metavar="PERCENT", shown="50",
        help="Say where more than this share of the events, in percent, are of people who are seen on one day alone.",
    )  # fmt: skip
    mixed_types: float = option(
        1.0, "--mixed-types", least=0, most=100, metavar="PERCENT", shown="1",
        help="Warn of a property of which more than this percentage of the values are of another type than most, or are"
        " numbers as texts beside numbers.",
    )  # fmt: skip
    null_jump: float = option(
        30.0, "--null-jump", least=0, most=100, metavar="POINTS", shown="30",
        help="Warn of a property that is missing, null or blank in this many percentage points more of the events than"
        " in the month before.",
    )  # fmt: skip
    cut_values: int = option(
        10, "--cut-values", least=1, metavar="N", shown=True,
        help="Warn where so many texts of a property end at the same usual limit, as 255 characters.",
    )  # fmt: skip
    property_names: int = option(
        100, "--property-names", least=1, metavar="N", shown=True,
        help="Warn of an event name with so many properties that three of its events or fewer have.",
    )  # fmt: skip
    show_values: bool = shared.show_values(" in pairs of row and event")
    show_ids: bool = shared.show_ids(" in pairs of row and event")
    pairs: int = option(
        DEFAULT_PAIRS, "--pairs", least=4, most=10_000, metavar="N", shown=True,
        help="Keep this many rows, chosen over event names and years, beside their events: `explain` and the report"
        " show them with the rule of each property. More than 32 also show other days.",
    )  # fmt: skip
    allow_recent: bool = option(False, "--allow-recent", help="Also send events under 48 hours old, billed as live.")
    collapse_identical: bool = option(
        False, "--collapse-identical", help="Identical rows without a source id become one event.",
        job="collapse", job_words=("none", "identical"), job_help="none, or identical where rows have no source key",
    )  # fmt: skip
    allow_key_conflicts: bool = option(
        False, "--allow-key-conflicts",
        help="Rows of one source id are one event even where their event names or UTC days differ.",
        job="gates.key_conflicts", job_words=("stop", "allow"), job_help="rows of one key that are different events",
    )  # fmt: skip
    name: str = option(
        "", "--name", metavar="TEXT", help="A name for this import, carried by every event.",
        job="name", job_help="a name for this import, carried by every event",
    )  # fmt: skip
    provenance: bool = option(True, "--no-provenance", help="Leave the import's own properties off the events.")
    max_batch_events: int = option(
        Limits().batch_events, "--max-batch-events", least=1, most=100_000, metavar="N", shown=True,
        help="Maximum events of a request.",
    )  # fmt: skip
    max_batch_bytes: int = option(
        Limits().batch_bytes, "--max-batch-bytes", least=1000, most=9 * 1024 * 1024, metavar="N", shown=True,
        help="Maximum bytes of a request, before compression.",
    )  # fmt: skip
    person_properties: str | None = option(
        None, "--person-properties", choices=("none", "final"),
        help="Each person's last values, sent once, or none.  [default: the mapping's, else final]",
        job="persons.properties", job_help="none, or final where the files are profiles alone",
    )  # fmt: skip
    profile_policy: str | None = option(
        None, "--profile-policy", metavar="fill-only|overwrite|prefix=TEXT", complete="policies",
        help="How existing profile values are handled.  [default: the mapping's, else fill-only]",
    )  # fmt: skip
    promoted_properties: str | None = option(
        None, "--promoted-properties", choices=("leave", "final"),
        help="Event properties that the service copies to persons ($browser, utm_source, …): leave whatever arrives"
        " last, or send final values: first ones before all events, as $set_once of $initial_…, and last ones after"
        " them, as $set under every policy, since events overwrite these anyway. Reads the export twice."
        "  [default: the mapping's, else leave]",
    )  # fmt: skip
    persons: str = option(
        "all", "--persons", choices=("all", "identified"), shown=True,
        help="Whose events make profiles; merges and groups need one.",
    )  # fmt: skip
    max_ids_per_person: int = option(
        50, "--max-ids-per-person", least=1, metavar="N", shown=True,
        help="A user with more anonymous ids than this is not merged with them.",
    )  # fmt: skip
    identities: Path | str | None = option(
        None, "--identities", path="file", metavar="FILE",
        help="Pairs of ids of your own: CSV with anonymous_id,user_id, or the same as JSON lines.",
    )  # fmt: skip
    group_types: Sequence[str] = option(
        (), "--group-types", metavar="A,B,C", read=read_names,
        help="Up to five group types, in the order of their numbers.",
        job="group_types", job_help="up to five group types, in the order of their numbers",
    )  # fmt: skip
    earlier: Sequence[PathText] | None = option(
        None, "--earlier", many=True, path="folder", exists=False, metavar="DIR",
        help="An earlier plan whose merges are already applied; repeat."
        "  [default: those beside -o for the same target]",
        job="earlier", job_help="plans of the same target that were sent before: nothing of them is sent again",
    )  # fmt: skip
    canary: int = option(
        500, "--canary", least=0, most=100_000, metavar="N", shown=True,
        help="Put a sample of at most N events first, whole people that show each event name, year, rule, merge and"
        " profile update: `apply --canary` sends it alone.  0 for none.",
        job="canary",
        job_help="a sample of at most N events of each window is sent first and read back, then the rest",
    )  # fmt: skip
    replay: PathText | None = option(
        None, "--replay", path="folder", exists=False, metavar="DIR",
        help="Plan only what this plan, which was sent, did not deliver: refused events and rejected rows, after the"
        " mapping or the rows were corrected. Its options apply where none is given.",
    )  # fmt: skip
    as_of: Instant | None = option(
        None, "--as-of", metavar="TIME", read=read_instant,
        help="The plan's instant, to repeat an earlier plan exactly.  [default: now]",
    )  # fmt: skip
    report: Path | None = option(
        None, "--report", metavar="junit=FILE", read=read_report,
        help="Also write the checks for a pipeline, as JUnit XML.",
    )  # fmt: skip
    workers: int | None = shared.workers()
    engine: str = option(
        "local", "--engine", metavar="NAME[=ADDRESS]", read=read_engine, shown=True,
        help="Where rows are read and encoded: local, dask or spark; dask=tcp://HOST:8786 is a cluster that runs.",
    )  # fmt: skip

    @property
    def limits(self) -> Limits:
        return Limits(batch_events=self.max_batch_events, batch_bytes=self.max_batch_bytes)
