"""The manifest of a plan: `plan.json`, with a format version, sealed by one digest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import PurePath

import msgspec

from pipeline.errors import UnsafePlan, UsageError
from pipeline.extractors.plan_detection import is_plan
from pipeline.files import write_json
from pipeline.identity.summary import MergeSummary
from pipeline.ledger import is_locked
from pipeline.models import Dialect, Finding, OwnCode, Part, SealedOptions
from pipeline.options import Limits
from pipeline.plan.samples.source_pairs import SourcePairs
from pipeline.plan.sealed.commit import finish_commit
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.facts import Canary, Coverage, Drift, HoursSeal, MonthEvidence, PluginSeal, TrackingSeal
from pipeline.text import pluralize

FORMAT = "backcast.plan/2"
_RESTORE = "restore it from a copy; plan again only if nothing was sent"
_NUL = "\0"
_LONE = re.compile("[\udc80-\udcff]")
_ESCAPE = re.compile(f"{_NUL}([89a-f][0-9a-f])")


def as_text(name: str) -> str:
    """A file name as a string that JSON can hold; a name that is UTF-8 stays as it is.

    A file name is bytes. Python reads a byte that is not UTF-8 as U+DC00 plus the byte (PEP 383); it is written as
    U+0000, which no file name contains, and two hexadecimal digits. (Names that people read have `\\xff` instead:
    `pipeline.extractors.discovery`.)
    """
    return _LONE.sub(lambda match: f"{_NUL}{ord(match[0]) - 0xDC00:02x}", name)


def as_name(text: str) -> str:
    """The file name that `as_text` wrote."""
    return _ESCAPE.sub(lambda match: chr(0xDC00 + int(match[1], 16)), text)


class PartSeal(msgspec.Struct, frozen=True):
    """One file as it was read: enough to open it again, and to notice that it has changed.

    `file` and `member` are names as `as_text` writes them. Only an object of a store has an `etag`.
    """

    path: str
    bytes: int
    digest: str
    rows: int
    mapped: int
    skipped: int
    rejected: int
    format: str
    codecs: tuple[str, ...]
    dialect: Dialect
    file: str
    member: str
    mtime_ns: int
    table: str = ""
    etag: str | msgspec.UnsetType = msgspec.UNSET

    def part(self, index: int) -> Part:
        return Part(
            index, self.path, as_name(self.file), as_name(self.member), self.codecs, self.format, self.dialect,
            self.bytes, self.mtime_ns, self.digest, self.table, self.etag or "",
        )  # fmt: skip


class RowCounts(msgspec.Struct, frozen=True):
    """`read` is the sum of the others (docs/know/promises.md#balance)."""

    read: int
    mapped: int
    skipped: int
    rejected: int

    @property
    def balanced(self) -> bool:
        return self.read == self.mapped + self.skipped + self.rejected


class EventCounts(msgspec.Struct, frozen=True):
    """How many events would be sent, in all and by phase."""

    made: int
    phases: Mapping[str, int]


class GroupTypeSeal(msgspec.Struct, frozen=True):
    """One group type, the rows that name it, and whether its groups are sent. Types are sent in this order."""

    type: str
    rows: int
    sent: bool


class GroupsSeal(msgspec.Struct, frozen=True):
    """The groups to be sent and their properties; `left_out` counts, by code, those that are not sent."""

    groups: int = 0
    properties: int = 0
    types: list[GroupTypeSeal] = []
    left_out: Mapping[str, int] = {}


class InitialsSeal(msgspec.Struct, frozen=True):
    """What is set once before all events, in the phase groups: for how many persons, and how many properties in all."""

    persons: int = 0
    properties: int = 0


class PersonsSeal(msgspec.Struct, frozen=True):
    """The profiles to be sent, and how: `kind` is final or none.

    `properties` counts what is written in all, `names` how often each name is; `left_out` counts, by code, what is not
    written, and `examples` describes some of that in words.
    `initials` is set with `--promoted-properties final`.
    """

    kind: str = "final"
    policy: str = "fill-only"
    persons: int = 0
    properties: int = 0
    names: Mapping[str, int] = {}
    left_out: Mapping[str, int] = {}
    initials: InitialsSeal | msgspec.UnsetType = msgspec.UNSET
    examples: Mapping[str, list[str]] | msgspec.UnsetType = msgspec.UNSET


class ProfilesSeal(msgspec.Struct, frozen=True):
    """Ids that occur on events, with and without identity, and their events, copies included. `one_day_ids` counts ids
    without identity that have events on a single UTC day, `one_day_events` their events. `people` counts all merged ids
    as one; `one_day_people` of them have events on a single UTC day, `one_day_people_events` counts these events.
    `resolved_events` are the events of people with a user's id.
    People `without_events` have a profile update or a merge that is sent, but no event.

    The service copies some event properties to persons by itself. `looked_at` events were sampled for them;
    `promoted` counts how many of these have each such property.

    """

    identified_ids: int = 0
    anonymous_ids: int = 0
    identified_events: int = 0
    anonymous_events: int = 0
    looked_at: int = 0
    promoted: Mapping[str, int] = {}
    one_day_ids: int = 0
    one_day_events: int = 0
    people: int = 0
    one_day_people: int = 0
    one_day_people_events: int = 0
    without_events: int = 0
    resolved_events: int = 0

    def persons(self, mode: str) -> int:
        """The number of persons once everything is sent to an empty target. With the mode `identified` (--persons), an
        anonymous id that is merged with no other does not become a person."""
        return self.people + self.without_events - (self.anonymous_ids if mode == "identified" else 0)


class PeopleSeal(msgspec.Struct, frozen=True):
    """Everything that a plan decided about ids, groups and persons."""

    identities: MergeSummary = MergeSummary()
    groups: GroupsSeal = GroupsSeal()
    persons: PersonsSeal = PersonsSeal()
    profiles: ProfilesSeal = ProfilesSeal()

    @property
    def promotes(self) -> bool:
        """Whether what the service copies from events to persons is made final."""
        return self.persons.initials is not msgspec.UNSET

    @property
    def initials(self) -> int:
        """How many events of the phase groups do not concern groups, but set something once for a person."""
        initials = self.persons.initials
        return 0 if initials is msgspec.UNSET else initials.persons


class MappingSeal(msgspec.Struct, frozen=True):
    """The mapping as it was used: its whole text, so that a plan needs no other file. `python` is its own code, absent
    if the plan has none."""

    name: str
    digest: str
    text: str
    python: OwnCode | msgspec.UnsetType = msgspec.UNSET


class Example(msgspec.Struct, frozen=True):
    """A row of the source as an example for a warning. `row` counts from 1."""

    part: str
    row: int
    offset: int
    detail: str


class ReplayedPlan(msgspec.Struct, frozen=True):
    """The earlier plan whose settled events are left out: its digest, the digest of its ledger (`ledger.state_digest`),
    how many events of all phases it settled, and its directory on this machine."""

    digest: str
    ledger: str
    settled: int
    directory: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A sealed plan: what was read, what would be sent, and everything that decides it.

    `digest` covers its content, and is the same for any engine, number of workers and processor; `seal` also covers the
    digests of all `files`. `requests` is `requests.store.digest_of_requests`. `plugins` are what it used from installed
    packages, absent if it used none. A plan without a mapping file has no `coverage` and no `source_pairs`.
    `replays` is set only with `--replay`, `tracking_plan` only with `--types`; `canary`, the sample in the first
    requests, is set unless nothing is sent or it was turned off. `import_plan` is the mark of every event with
    `--provenance plan`: a digest of what was planned, without the plan's instant.
    """

    format: str = FORMAT
    digest: str = ""
    seal: str = ""
    verdict: str
    tool: str
    zone: str
    first: str | None
    last: str | None
    rows: RowCounts
    events: EventCounts
    parts: list[PartSeal]
    skips: Mapping[str, int]
    rejects: Mapping[str, int]
    warnings: Mapping[str, int]
    examples: Mapping[str, Example]
    gates: list[Finding]
    names: Mapping[str, int]
    zone_evidence: list[MonthEvidence]
    mapping: MappingSeal
    options: SealedOptions
    limits: Limits
    target: str
    version: str
    libraries: Mapping[str, str]
    blocks: int
    event_bytes: int
    files: Mapping[str, str]
    requests: str
    notices: list[tuple[str, str, str]]
    people: PeopleSeal = PeopleSeal()
    plugins: list[PluginSeal] | msgspec.UnsetType = msgspec.UNSET
    coverage: Coverage | msgspec.UnsetType = msgspec.UNSET
    hours: HoursSeal | msgspec.UnsetType = msgspec.UNSET
    drift: Drift | msgspec.UnsetType = msgspec.UNSET
    tracking_plan: TrackingSeal | msgspec.UnsetType = msgspec.UNSET
    source_pairs: SourcePairs | msgspec.UnsetType = msgspec.UNSET
    replays: ReplayedPlan | msgspec.UnsetType = msgspec.UNSET
    canary: Canary | msgspec.UnsetType = msgspec.UNSET
    import_plan: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def ready(self) -> bool:
        return self.verdict != "not-ready"

    @property
    def accepted(self) -> dict[str, str]:
        """Why findings were accepted, by their check."""
        return {gate.name: str(gate.reason) for gate in self.gates if gate.level == "accepted"}

    @property
    def order_decides(self) -> bool:
        """Whether what the service makes of a person depends on the order of its events: if they set properties of the
        person, or have properties that the service copies (docs/know/service.md#persons) and nothing sends final
        values."""
        return order_decides(self.people, self.warnings)

    @property
    def to_send(self) -> str:
        """What the plan sends, with each phase under its own name: `2,998 events and 40 merges`."""
        events = self.events
        others = [
            pluralize(count, unit)
            for count, unit in (
                (events.phases.get("identities", 0), "merge"),
                (events.phases.get("groups", 0) - self.people.initials, "group"),
                (self.people.initials, "initial profile"),
                (events.phases.get("persons", 0), "profile"),
            )
            if count
        ]
        merges = "".join(f", {other}" for other in others[:-1]) + "".join(f" and {other}" for other in others[-1:])
        return pluralize(events.phases.get("events", 0), "event") + merges if events.made else "nothing"

    @property
    def marked(self) -> str:
        """The marks that every event carries, in words, or ""."""
        plan = f"import_plan {self.import_plan}" if self.import_plan else ""
        row = "import_row, its file and row" if "row" in self.options.marks else ""
        return " and ".join(filter(None, (plan, row)))

    @property
    def sentence(self) -> str:
        """What the plan would do, in one line with counts."""
        rows, sent = self.rows, self.to_send
        read = f"from {rows.mapped:,} of {pluralize(rows.read, 'row')} in {pluralize(len(self.parts), 'file')}"
        rejects = sum(self.rejects.values())
        items = f" ({pluralize(rejects, 'reject')} of rows and of items of rows)" if rejects > rows.rejected else ""
        of = "" if self.replays is msgspec.UNSET else f" of what plan {self.replays.digest[:12]} did not deliver"
        return f"Plan{of}: {sent} to send, {read}; {rows.skipped:,} skipped, {rows.rejected:,} rejected{items}."


def order_decides(people: PeopleSeal, warnings: Mapping[str, int]) -> bool:
    """`Plan.order_decides` for a plan with these people and warnings."""
    copied = bool(people.profiles.promoted) and not people.promotes
    return copied or bool(warnings.get("overwrites_person"))


class PlanHead(msgspec.Struct):
    """What every version of plan.json has."""

    format: str
    target: str = ""


def seal(plan: Plan) -> Plan:
    """The plan with its digest and its seal. Both leave out the paths and times of its files on this machine; the
    digest also leaves out the bytes of deflated requests."""
    parts = [msgspec.structs.replace(part, file="", mtime_ns=0) for part in plan.parts]
    mapping = msgspec.structs.replace(plan.mapping, name=PurePath(plan.mapping.name).name)
    replays = plan.replays
    if replays is not msgspec.UNSET:
        replays = msgspec.structs.replace(replays, directory="")
    bare = msgspec.structs.replace(plan, digest="", seal="", parts=parts, mapping=mapping, replays=replays)
    files = {name: digest for name, digest in plan.files.items() if not name.startswith("requests")}
    digest = _sha256(msgspec.structs.replace(bare, files=files))
    return msgspec.structs.replace(plan, digest=digest, seal=_sha256(msgspec.structs.replace(bare, digest=digest)))


def _sha256(plan: Plan) -> str:
    return hashlib.sha256(msgspec.json.encode(plan, order="sorted")).hexdigest()


def save(directory: Directory, plan: Plan) -> None:
    """Write plan.json, the last file of a plan to appear."""
    write_json(directory.plan, plan)


def load(directory: Directory) -> Plan:
    """Read a plan and verify its seal. Raises UsageError if there is none, UnsafePlan if it was changed."""
    finish_commit(directory)
    return read_plan(directory)


def read_head(directory: Directory) -> PlanHead:
    """What can be read of a plan of any version; empty if nothing can."""
    try:
        return msgspec.json.decode(directory.plan.read_bytes(), type=PlanHead)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return PlanHead("")


def read_plan(directory: Directory) -> Plan:
    """Like `load`, but changes nothing in the directory: a plan that waits there to be moved into place stays there."""
    try:
        text = directory.plan.read_bytes()
    except FileNotFoundError:
        if not is_plan(directory.path):
            hint = "create one with: backcast plan SOURCE -o DIR"
            raise UsageError(f"{directory.name} contains no plan.json", hint=hint) from None
        if is_locked(directory.path / "plan"):
            raise UsageError(
                f"the plan in {directory.name} is being made now", hint="wait until it is finished"
            ) from None
        raise UsageError(
            f"the plan in {directory.name} was stopped before it was finished",
            hint="run the same `backcast plan` command again; it resumes where it stopped",
        ) from None
    try:
        version = msgspec.json.decode(text, type=PlanHead).format
        if version != FORMAT:
            raise UnsafePlan(
                f"{directory.plan} has format {version}; this version reads {FORMAT}",
                hint="plan again; if some of it was sent, finish with the version of backcast that made it",
            )
        plan = msgspec.json.decode(text, type=Plan)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnsafePlan(f"{directory.plan} is damaged: {error}", hint=_RESTORE) from None
    if seal(plan) != plan:
        raise UnsafePlan(f"{directory.plan} was changed after it was sealed", hint=_RESTORE)
    return plan
