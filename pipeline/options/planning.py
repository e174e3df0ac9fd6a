"""The options of downloading, looking at and planning an export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.option_types import (
    Checked,
    CheckRule,
    FirstLive,
    Instant,
    PathText,
    option,
    read_engine,
    read_instant,
    read_names,
    read_provenance,
    read_report,
    read_seconds,
    read_settings,
    read_until,
)
from pipeline.options import shared


@dataclass(frozen=True, kw_only=True)
class FetchOptions(Checked):
    """The options of a fetch. `host` is a region of the tool or a URL; `window` and `retry_for` are seconds, and so are
    the pauses between tries, which have no flag."""

    host: str = option(
        "us", "--from", metavar="us|eu|in|URL", shown=True,
        help="The project's region, or the address of the API.",
    )  # fmt: skip
    project: str | None = option(
        None, "--project", metavar="ID", help="The project's id, for Mixpanel and PostHog.",
    )  # fmt: skip
    window: float | None = option(
        None, "--window", metavar="TIME", read=read_seconds,
        help="Time span to request at once; spans that are too large for the tool are split.  [default: 1d]",
    )  # fmt: skip
    count: bool = option(
        True, "--no-count", help="Do not compare with the tool's own event counts, which take a query per window."
    )
    extras: tuple[str, ...] = option(
        (), "--with", metavar="LIST", read=read_names,
        help="What to fetch besides events, with commas. Mixpanel: people, cohorts, annotations, group:KEY=ID; PostHog:"
        " people, groups.",
    )  # fmt: skip
    by: str = option(
        "event", "--by", choices=("event", "ingestion"), shown=True,
        help="Whose times the window has: those of events, or of their ingestion, so that no late event is missed.",
    )  # fmt: skip
    uuids: Path | None = option(
        None, "--uuids", path="file", metavar="FILE",
        help="Fetch only the events with these ids, one per line.", without="all events",
    )  # fmt: skip
    retry_for: float = option(
        7200.0, "--retry-for", least=0, metavar="TIME", read=read_seconds, shown="2h",
        help="How long to retry a request that the tool does not answer.",
    )  # fmt: skip
    timeout: float = shared.timeout(300.0)
    ca_file: str | None = shared.ca_file()
    first_pause: float = option(1.0)
    longest_pause: float = option(300.0)


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a request may be. The defaults stay within every known limit of the service
    (docs/know/service.md#encodings-and-sizes)."""

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
    report: PathText | None = option(None, "--report", metavar="FILE", help="Also write a page with charts.")
    scope: PathText | None = option(
        None, "--scope", metavar="FILE",
        help="Also read every row and write a table of all event names, in which you choose those to import.",
    )  # fmt: skip
    mapping: PathText | None = option(
        None, "--mapping", "-m", metavar="NAME|FILE", complete="mappings",
        help="With --scope: the mapping that reads the names; --set also takes its settings.  [default: recognised]",
    )  # fmt: skip
    definitions: Sequence[str] = option(
        (), "--definitions", many=True, metavar="FILE",
        help="With --scope: the tool's list of events, for the column `use` (queries, hidden). Repeat for more.",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class EstimateOptions(Checked):
    """The options of an estimate, in addition to those of a plan."""

    estimate: bool = option(
        False, "--estimate",
        help="Only estimate hours, machines and bytes from a sample; nothing is written, and --output is not needed.",
    )  # fmt: skip
    rate: float | None = option(
        None, "--rate", metavar="N", above=0, help="With --estimate: maximum events per second, as for `apply --rate`.",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PlanOptions(Checked):
    """The options of a plan. If one is None, the mapping or the export decides, as its help says.

    `timezone` is one string or several, `ZONE` or `ZONE@DATE`. `since` and `until` are a half-open window of time.
    """

    mapping: PathText | None = option(
        None, "--mapping", "-m", metavar="NAME|FILE", complete="mappings",
        help="A shipped mapping or a file.  [default: recognised from the export]",
        job="mapping", job_help="a shipped mapping, or a file relative to the job file",
    )  # fmt: skip
    target: str = option(
        "", "--for", metavar="us|eu|URL|file:DIR|s3://…", complete="targets",
        help="The intended target; decides how events are spelled (the dialect).",
    )  # fmt: skip
    dialect: str | None = option(
        None, "--dialect", choices=("contract", "posthog"), help="Override the dialect.", without="that of --for",
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
        help="IANA zone, if the tool writes local times; repeat with @DATE for each change.",
        job="timezone", job_help="the zone, if the tool writes local times; a list with ZONE@DATE if it changed",
    )  # fmt: skip
    settings: Mapping[str, str] = option(
        dict, "--set", many=True, read=read_settings, metavar="KEY=VALUE",
        help="A setting of the mapping, or header=3 …",
        job="set", job_help="settings of the mapping, name: value",
    )  # fmt: skip
    exclude_ids: Path | str | None = option(
        None, "--exclude-ids", path="file", metavar="FILE",
        help="Ids to leave out, one per line, such as people who asked to be forgotten.",
        job="exclude_ids", job_help="a file of ids to leave out, one per line",
    )  # fmt: skip
    scope: PathText | Mapping[str, bool] | None = option(
        None, "--scope", path="file", metavar="FILE",
        help="A table with `event` and `keep`: which event names to import. `survey --scope` makes it.",
        without="every name",
        job="scope", job_help="a table of event names with `keep`: yes or no, relative to the job file",
    )  # fmt: skip
    limit: int | None = option(
        None, "--limit", least=1, metavar="N", help="Read only the first N rows.", without="every row"
    )
    max_rejects: str = option(
        "0", "--max-rejects", metavar="N|P%", shown=True, help="Stop if more rows than this are rejected.",
        checks="rejects max_rejects",
        job="gates.max_rejects", job_help="rows that may be rejected, such as 100 or 0.1%",
    )  # fmt: skip
    allow_ignored: int = option(
        0, "--allow-ignored", least=0, metavar="N", shown=True,
        checks="ignored_files",
        help="Stop if more files than this have no rows although their names are like those of files with rows.",
        job="gates.allow_ignored", job_help="files without rows that may be named like files with rows",
    )  # fmt: skip
    max_unmapped: str | None = option(
        None, "--max-unmapped", metavar="N|P%",
        checks="max_unmapped",
        help="Stop if more fields and event names than this are kept but not in the mapping.  [default: any number]",
        job="gates.max_unmapped", job_help="kept fields and event names that the mapping may lack, such as 0 or 10%",
    )  # fmt: skip
    stop_on: Sequence[str] = option(
        (), "--stop-on", read=read_names, metavar="CHECK[,CHECK…]|all",
        help="Stop if one of these checks finds something, instead of warning.", without="the checks' own levels",
    )  # fmt: skip
    accept: Mapping[str, str] = option(
        dict, "--accept", many=True, read=read_settings, metavar="CHECK=REASON",
        help="Accept what this check finds; the reason is part of the plan and of its receipt.",
    )  # fmt: skip
    checks: PathText | Mapping[str, CheckRule] = option(
        dict, "--checks", path="file", metavar="FILE",
        help="YAML with what applies to each check: stop, warn, ignore, its limits, why it is accepted.",
        job="checks", job_help="what applies to each check of a plan, such as {spike: stop, mixed_types: ignore}",
    )  # fmt: skip
    types: PathText | None = option(
        None, "--types", path="file", metavar="FILE",
        help="A tracking plan (JSON, as Segment, RudderStack, Avo or Mixpanel export it): warn of events and properties"
        " that break it.",
        job="types", job_help="a tracking plan as JSON, relative to the job file, with which events are compared",
    )  # fmt: skip
    spike: float = option(
        5.0, "--spike", above=1, metavar="TIMES", shown="5",
        checks="spike spike_of_a_name",
        help="Warn of a day with more than this many times the median events of the 28 days before and after.",
        job="gates.spike", job_help="warn of a day with more than this many times its median, such as 8",
    )  # fmt: skip
    level: float = option(
        1.8, "--level", above=1, metavar="TIMES", shown=True,
        checks="level level_of_a_name",
        help="Warn if daily events suddenly rise or fall by this factor and stay there for four weeks.",
        job="gates.level", job_help="warn if daily events rise or fall by this factor, such as 2.5",
    )  # fmt: skip
    gap: int | None = option(
        None, "--gap", least=1, metavar="DAYS",
        checks="empty_days empty_days_of_a_name missing_files",
        help="Warn of this many days without events if events are usual on such days, or without a file among dated"
        " files.  [default: 1; 3 if weekends have none, and for a single event name]",
        job="gates.gap", job_help="warn of this many days without events",
    )  # fmt: skip
    hour_events: int = option(
        1_000, "--hour-events", least=1_000, metavar="N", shown=True,
        checks="night_by_day clock_jump",
        help="Look for a wrong time zone, by hour of day, if the history or a month has at least this many events.",
        job="gates.hour_events", job_help="events that a month needs before its hours of day are compared",
    )  # fmt: skip
    per_second: int = option(
        100, "--per-second", least=1, metavar="N", shown=True,
        checks="inhuman_rate",
        help="Warn of an id with more events than this within a second.",
    )  # fmt: skip
    per_minute: int = option(
        600, "--per-minute", least=1, metavar="N", shown=True,
        checks="inhuman_rate",
        help="Warn of an id with more events than this within a minute.",
    )  # fmt: skip
    per_day: int = option(
        20_000, "--per-day", least=1, metavar="N", shown=True,
        checks="inhuman_rate",
        help="Warn of an id with more events than this within a UTC day.",
    )  # fmt: skip
    repeated: float = option(
        0.1, "--repeated", above=0, metavar="PERCENT", shown=True,
        checks="near_duplicate",
        help="Warn if more than this percentage of the events equal an earlier event of the same person in the same"
        " second in all but their uuid.",
    )  # fmt: skip
    one_day: float = option(
        50.0, "--one-day", above=0, metavar="PERCENT", shown="50",
        checks="one_day_ids",
        help="Note if more than this percentage of the events belong to people seen on a single day.",
    )  # fmt: skip
    resolved: float = option(
        0.0, "--resolved", least=0, most=100, metavar="PERCENT", shown="0",
        checks="resolved_share",
        help="Warn if less than this percentage of the events belong to people with a user's id, once ids are merged.",
    )  # fmt: skip
    mixed_types: float = option(
        1.0, "--mixed-types", least=0, most=100, metavar="PERCENT", shown="1",
        checks="mixed_types numbers_as_text",
        help="Warn of a property if more than this percentage of its values have another type than most, or are"
        " numbers written as strings among real numbers.",
    )  # fmt: skip
    null_jump: float = option(
        30.0, "--null-jump", least=0, most=100, metavar="POINTS", shown="30",
        checks="null_rate",
        help="Warn of a property if the share of events in which it is missing, null or blank rises by this many"
        " percentage points from one month to the next.",
    )  # fmt: skip
    cut_values: int = option(
        10, "--cut-values", least=1, metavar="N", shown=True,
        checks="cut_values",
        help="Warn if this many strings of a property end at the same common limit, such as 255 characters.",
    )  # fmt: skip
    property_names: int = option(
        100, "--property-names", least=1, metavar="N", shown=True,
        checks="property_names",
        help="Warn of an event name with this many properties that occur in three of its events or fewer.",
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
        False, "--collapse-identical", help="Turn identical rows without a source id into one event.",
        job="collapse", job_words=("none", "identical"),
        job_help="none, or identical: identical rows without a source key become one event",
    )  # fmt: skip
    allow_key_conflicts: bool = option(
        False, "--allow-key-conflicts",
        help="Treat rows with one source id as one event even if their event names or UTC days differ.",
        job="gates.key_conflicts", job_words=("stop", "allow"),
        job_help="stop at, or allow, rows of one key that are different events",
    )  # fmt: skip
    name: str = option(
        "", "--name", metavar="TEXT", help="A name for this import, carried by every event.",
        job="name", job_help="a name for this import, carried by every event",
    )  # fmt: skip
    provenance: bool | Sequence[str] = option(
        True, "--provenance", metavar="plan,row", read=read_provenance,
        help="Also add to every event import_plan, a short digest of what the plan is made of, and import_row, its file"
        " and row.", without="the tool and --name alone",
        off=("--no-provenance", "Do not add the import's own properties to the events."),
        job="provenance", job_help="plan, row, or a list of both: marks that every event carries; or none",
    )  # fmt: skip
    max_batch_events: int = option(
        Limits().batch_events, "--max-batch-events", least=1, most=100_000, metavar="N", shown=True,
        help="Maximum events per request.",
    )  # fmt: skip
    max_batch_bytes: int = option(
        Limits().batch_bytes, "--max-batch-bytes", least=1000, most=9 * 1024 * 1024, metavar="N", shown=True,
        help="Maximum bytes per request, before compression.",
    )  # fmt: skip
    person_properties: str | None = option(
        None, "--person-properties", choices=("none", "final"),
        help="final sends each person's last values, once; none sends none.  [default: the mapping's, else final]",
        job="persons.properties", job_help="none; or final, if the files contain only profiles",
    )  # fmt: skip
    profile_policy: str | None = option(
        None, "--profile-policy", metavar="fill-only|overwrite|prefix=TEXT", complete="policies",
        help="What happens to existing profile values.  [default: the mapping's, else fill-only]",
    )  # fmt: skip
    promoted_properties: str | None = option(
        None, "--promoted-properties", choices=("leave", "final"),
        help="Event properties that the service copies to persons ($browser, utm_source, …). leave: whatever arrives"
        " last stays. final: send final values, the first ones before all events, as $set_once of $initial_…, and the"
        " last ones after them, as $set under every policy, since events overwrite these anyway; reads the export"
        " twice.  [default: the mapping's, else leave]",
    )  # fmt: skip
    persons: str = option(
        "all", "--persons", choices=("all", "identified"), shown=True,
        help="Whose events create profiles; merges and groups need one.",
    )  # fmt: skip
    max_ids_per_person: int = option(
        50, "--max-ids-per-person", least=1, metavar="N", shown=True,
        help="Do not merge a user who has more anonymous ids than this.",
    )  # fmt: skip
    shared_devices: str = option(
        "first", "--shared-devices", choices=("first", "latest", "none", "stop"), shown=True,
        help="Who keeps a device that several users have: its first user, its latest one or none; or stop.",
        job="shared_devices", job_help="who keeps a device of several users: first, latest or none; or stop",
    )  # fmt: skip
    joined_users: str = option(
        "stop", "--joined-users", choices=("first", "latest", "none", "stop"), shown=True,
        help="Records that make one person of several users: first and latest merge them, and the person keeps the id"
        " that the records keep, or the latest user's; none keeps users apart; or stop.",
        job="joined_users", job_help="records that make one person of several users: first, latest, none or stop",
    )  # fmt: skip
    identities: Path | str | None = option(
        None, "--identities", path="file", metavar="FILE",
        help="Your own pairs of ids: CSV or JSON lines with anonymous_id and user_id.",
    )  # fmt: skip
    group_types: Sequence[str] = option(
        (), "--group-types", metavar="A,B,C", read=read_names,
        help="Up to five group types, in the order of their numbers.",
        job="group_types", job_help="up to five group types, in the order of their numbers",
    )  # fmt: skip
    earlier: Sequence[PathText] | None = option(
        None, "--earlier", many=True, path="folder", exists=False, metavar="DIR",
        help="An earlier plan whose merges are already applied; repeat for more."
        "  [default: those next to -o for the same target]",
        job="earlier", job_help="plans for the same target that were sent before: nothing in them is sent again",
    )  # fmt: skip
    canary: int = option(
        500, "--canary", least=0, most=100_000, metavar="N", shown=True,
        help="Put a sample of at most N events first: all events of a few people, chosen to cover every event name,"
        " year, rule, merge and profile update. `apply --canary` sends it alone.  0 for none.",
        job="canary",
        job_help="at most N events of each window are sent first and read back, then the rest",
    )  # fmt: skip
    replay: PathText | None = option(
        None, "--replay", path="folder", exists=False, metavar="DIR",
        help="Plan only what this plan, already sent, did not deliver: its refused events and rejected rows, once the"
        " mapping or the rows are corrected. Its options apply unless you give others.",
    )  # fmt: skip
    as_of: Instant | None = option(
        None, "--as-of", metavar="TIME", read=read_instant,
        help="Plan as if it were this time, to repeat an earlier plan exactly.  [default: now]",
    )  # fmt: skip
    report: Path | None = option(
        None, "--report", metavar="junit=FILE", read=read_report,
        help="Also write the checks as JUnit XML, for a CI pipeline.",
    )  # fmt: skip
    workers: int | None = shared.workers()
    engine: str = option(
        "local", "--engine", metavar="NAME[=ADDRESS]", read=read_engine, shown=True,
        help="Where rows are read and encoded: local, dask or spark; dask=tcp://HOST:8786 uses a running cluster.",
    )  # fmt: skip

    @property
    def limits(self) -> Limits:
        return Limits(batch_events=self.max_batch_events, batch_bytes=self.max_batch_bytes)
