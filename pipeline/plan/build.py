"""Make a plan: walk the source once, decide on duplicates and identities, write the tables, check, seal.

Nothing is sent. The only effects are the files of the plan directory; plan.json is written last.
"""

from __future__ import annotations

import importlib.metadata
import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from msgspec import UNSET, UnsetType

from pipeline.encoder.event import Encoder
from pipeline.extractors.fetched import days_without_events
from pipeline.identity.event_ids import EVENTS_PER_MINUTE
from pipeline.identity.kinds import PLACE_SHIFT
from pipeline.mapper.inspection.field_uses import FieldUses
from pipeline.models import Step
from pipeline.plan.blocks import planned_tasks
from pipeline.plan.canary.choose import ChosenCanary, choose_canary
from pipeline.plan.canary.lines import put_first
from pipeline.plan.check_rules import unused_acceptances
from pipeline.plan.checks import CHECKS, CopiedRows, KeyConflicts, PlanFacts, run_checks, verdict_of
from pipeline.plan.deduplication import Deduplication
from pipeline.plan.fact_tables import FactTables
from pipeline.plan.lookup_rows import find_unjoined
from pipeline.plan.mapping_fit import compare_with_tracking_plan, coverage_of, other_mapping
from pipeline.plan.people import PeopleBuilder
from pipeline.plan.request import Request
from pipeline.plan.requests.store import digest_of_requests
from pipeline.plan.requests.write import RequestPlan, write_requests
from pipeline.plan.samples.examples import Place, SourceExamples
from pipeline.plan.samples.pair_sample import PairSample, choose_pairs, read_pairs
from pipeline.plan.samples.source_pairs import Shown, SourcePairs
from pipeline.plan.sealed.digests import BackgroundDigests
from pipeline.plan.sealed.directory import LinesWriter
from pipeline.plan.sealed.manifest import EventCounts, PartSeal, PeopleSeal, Plan, RowCounts, order_decides, save, seal
from pipeline.plan.sealed.unfinished import digest_of
from pipeline.plan.settled import Settled
from pipeline.plan.settled_events import SettledEvents
from pipeline.plan.statistics.activity import find_activity
from pipeline.plan.statistics.daily_counts import DailyCounts, day_name, sorted_counts
from pipeline.plan.statistics.drift import examine
from pipeline.plan.statistics.history import read_history
from pipeline.plan.statistics.hour_profile import clock_in_words
from pipeline.plan.statistics.hours import HourHistory
from pipeline.plan.walk import Progress, Walk
from pipeline.plan.zone import judge_zone
from pipeline.timestamps import format_utc
from pipeline.transform.block import observe_promoted
from pipeline.transform.staged import make_folders
from pipeline.transform.tasks import SEALING_LIBRARIES
from pipeline.validator.codes import UNCONVERTED

IMPORT_PLAN_DIGITS = 12


def build(
    request: Request,
    progress: Progress = lambda rows, length: None,
    notice: Callable[[str], None] = lambda line: None,
    step: Step = lambda name, done, total: None,
) -> Plan:
    """Read every part and write every file of the plan directory. Returns the plan, which may not be ready.

    The directory has no older plan in it (`pipeline.plan.sealed.commit.staged_plan` provides one).
    Raises UnreadableExport.
    """
    directory = request.directory
    make_folders(directory.staged)
    try:
        with request.engine, closing(_PlanBuilder(request, progress, step)) as builder:
            plan = builder.build()
            if builder.source.code_cost is not None:
                notice(builder.source.code_cost)
            return plan
    finally:
        shutil.rmtree(directory.scratch, ignore_errors=True)


class _PlanBuilder:
    def __init__(self, request: Request, progress: Progress, step: Step) -> None:
        config = request.config
        paths = [part.path for part in config.parts]
        self.request = request
        self.step = step
        self.replayed: SettledEvents | None = None
        self.settled: Settled | None = None if request.series is None else request.series.settled
        if request.replay is not None:
            scratch = request.directory.scratch / "settled"
            self.settled = self.replayed = request.replay.read(scratch)
        self.directory = request.directory
        self.config = config
        self.mapper = config.compile(config.options)
        self.people = PeopleBuilder(
            self.directory, self.mapper, config, request.identity_inputs, request.series, self.settled
        )
        self.source = Walk(request, self.people, progress)
        self.duplicates = Deduplication(request, self.source, self.settled)
        self.source_examples = SourceExamples(self.directory, paths)
        self.files = dict(request.files)
        self.shown = Shown(request.thresholds.show_values, request.thresholds.show_ids)
        self.tables: FactTables | None = None
        self.sample: PairSample | None = None

    def close(self) -> None:
        """Release memory and files."""
        self.source.sample.close()
        self.people.close()
        if self.tables is not None:
            self.tables.close()
        if self.replayed is not None:
            self.replayed.close()

    def build(self) -> Plan:
        with BackgroundDigests(self.config.parts) as digests:
            self.source.run(self.files)
            self.step("done; comparing events and ids", self.source.events, self.source.events)
            self.tables = FactTables(self.directory, earliest=self.mapper.keeps_earliest)
            self.write_duplicates(self.tables)
            daily = DailyCounts(self.tables, self.source.cells)
            self.count(self.tables, daily)
            if self.duplicates.other_copies and self.people.has_effects:
                self.people.leave_out(self.duplicates.without_effect())
            people = self.resolve()
            self.write_daily_counts(daily)
            self.history = read_history(self.tables)
            self.unjoined = find_unjoined(self.tables, self.request.joined, self.directory)
            self.show_replaced()
            counted = zip(self.source.parts, self.config.parts, digests.of_unchanged(self.step), strict=True)
            parts = [counts.seal(part, digest) for counts, part, digest in counted]
            self.pairs = self.source_pairs()
            self.choose_canary(self.tables, people)
            self.tables.close()
            self.import_plan = self.digest_of_import(parts) if "plan" in self.config.options.marks else ""
            self.write_requests(people)
        self.step("done; running the checks", self.source.events, self.source.events)
        plan = seal(self.manifest(parts, people))
        save(self.directory, plan)
        return plan

    def warn_of_hot_ids(self) -> None:
        if not self.hot or self.events <= EVENTS_PER_MINUTE:  # ids count duplicates too
            return
        most = self.hot[0]
        self.source.warnings["hot_distinct_id"] = len(self.hot)
        self.source.examples["hot_distinct_id"] = self.source_examples.at(
            most.place >> PLACE_SHIFT, most.place & ((1 << PLACE_SHIFT) - 1),
            f"{most.events:,} of {self.events:,} events have the same id; sending them takes at least"
            f" {most.minutes:,} minutes",
        )  # fmt: skip

    # -- copies and identities -----------------------------------------------------------------------

    def resolve(self) -> PeopleSeal:
        """Decide on identities, groups and persons."""
        self.hot = self.people.find_hot_ids()
        self.warn_of_hot_ids()
        promoted = self.config.options.promoted_properties == "final"
        if promoted:
            self.write_promoted()
        warnings, engine, judge = self.source.warnings, self.request.engine, self.duplicates.judge_strangers
        return self.people.seal(warnings, self.files, engine, promoted=promoted, judge=judge)

    def write_requests(self, people: PeopleSeal) -> None:
        """Make the requests, once everything is decided."""
        ordered = order_decides(people, self.source.warnings)
        encoder = Encoder(self.mapper.tool, self.config.options)
        plan = RequestPlan(self.config, encoder, self.events, ordered, self.hot, self.canary, self.import_plan)
        write_requests(self.directory, plan, self.request.engine, self.files, self.step)

    def digest_of_import(self, parts: list[PartSeal]) -> str:
        """A short digest of what the plan is made of: the mapping, the options, the files by path and content.

        The plan's own digest covers the events, so no event can carry it. The plan's instant is left out: it is the
        clock's unless `--as-of` is given, and the same export planned again tomorrow is the same import, with the same
        uuids.
        """
        request = self.request
        files = [(part.path, part.digest, part.table) for part in parts]
        options = replace(self.config.options, as_of=0)
        return digest_of((
            request.mapping.text, request.mapping.python, sorted(request.files.items()), request.plugins,
            options, files,
        ))[:IMPORT_PLAN_DIGITS]  # fmt: skip

    def choose_canary(self, tables: FactTables, people: PeopleSeal) -> None:
        """Choose the sample that can be sent before the rest, and put its lines first."""
        self.canary: ChosenCanary | None = None
        if self.request.thresholds.canary and sum(self.phases(people).values()):
            paths = [part.path for part in self.config.parts]
            self.canary = choose_canary(tables, self.directory, self.request.thresholds.canary, paths)
            put_first(self.directory, self.canary.lines, self.files)

    def phases(self, people: PeopleSeal) -> dict[str, int]:
        """How many events each phase has."""
        return {
            "identities": people.identities.links,
            "groups": people.groups.groups + people.initials,
            "events": self.events,
            "persons": people.persons.persons,
        }

    def write_promoted(self) -> None:
        """Write the properties that the events to be sent promote to persons, if the plan decides them."""
        work = (
            task
            for block, task in planned_tasks(self.directory)
            if block.events > sum(bool(copy.code) for copy in task.duplicates)
        )
        for _ in self.request.engine.map(observe_promoted, work):
            pass

    def write_duplicates(self, tables: FactTables) -> None:
        """Decide on duplicates and write their tables."""
        self.duplicates.run(tables)
        if self.duplicates.identical is not None:
            self.source.examples["identical_rows"] = self.source_examples.at(
                *self.duplicates.identical,
                "equal to another row",
            )

    def show_replaced(self) -> None:
        """Add the first superseded event to the examples, with what differs from the one that is sent."""
        replaced = self.duplicates.replaced
        if replaced is None:
            return
        event, winner = Place(*replaced.event), Place(*replaced.winner)
        row = self.source_examples.row_at(winner.block << PLACE_SHIFT | winner.row)
        differ = self.source_examples.differences(event, winner, self.shown)
        self.source.examples["superseded"] = self.source_examples.at(
            event.block, event.row,
            f"replaced by {row}, which has the same source key: {replaced.reason}" + (differ and f"; {differ}"),
        )  # fmt: skip

    def count(self, tables: FactTables, daily: DailyCounts) -> None:
        """Count the events to send."""
        self.events, self.first, self.last = daily.events, daily.first, daily.last
        self.hours = HourHistory(self.config.options.zones, *daily.quarters())
        self.activity = find_activity(tables, self.request.thresholds)
        if self.request.document is not None:
            self.sample = choose_pairs(tables, self.request.thresholds.pairs)

    def write_daily_counts(self, daily: DailyCounts) -> None:
        """Write cells.jsonl."""
        with LinesWriter(self.directory.cells) as writer:
            for event, day, outcome, count in daily.cells():
                writer.write({"event": event, "day": day_name(day), "outcome": outcome, "count": count})
            self.files["cells.jsonl"] = writer.close()

    def source_pairs(self) -> SourcePairs | UnsetType:
        """Some rows next to the events that they become; UNSET without a mapping file."""
        request, sample = self.request, self.sample
        if sample is None or request.document is None:
            return UNSET
        uses = FieldUses(request.document, self.config.options, request.lookups)
        pairs = read_pairs(
            sample, self.source.rules, self.directory, self.config, request.document, uses, self.shown,
            request.thresholds.pairs,
        )  # fmt: skip
        with LinesWriter(self.directory.source_pairs) as writer:
            writer.write_all(pairs)
            self.files["source-pairs.jsonl"] = writer.close()
        return SourcePairs(sample.kinds, *self.shown, len(pairs))

    @property
    def event_bytes(self) -> int:
        """The bytes of the events to send. A replay sends few of those that were read, so its bytes are their share."""
        read = self.source.event_bytes
        return read if self.replayed is None else read * self.events // max(self.source.events, 1)

    # -- check and seal ------------------------------------------------------------------------------

    def manifest(self, parts: list[PartSeal], people: PeopleSeal) -> Plan:
        """The plan, not yet sealed."""
        source, request, options = self.source, self.request, self.config.options
        counted = ((part.rows, part.mapped, part.skipped, part.rejected) for part in parts)
        rows = RowCounts(*map(sum, zip((0, 0, 0, 0), *counted, strict=True)))
        phases = self.phases(people)
        if not rows.mapped and rows.rejected and (other := other_mapping(request)):
            remedy = f"they look like rows of {other}; plan with -m {other}"
            source.remedies[remedy] += rows.rejected - source.rejects["cut_off"]
        zone = judge_zone(source.zone, options.zones)
        coverage, references = coverage_of(request, source)
        drift, drift_facts, self.files["drift.jsonl"] = examine(source.sample, self.directory.drift)
        tracking = compare_with_tracking_plan(request, source, self.shown, self.source_examples.row_at)
        codes = [code for code in source.warnings if code.startswith(UNCONVERTED)]
        unconverted = {code: (source.warnings.pop(code), source.examples.pop(code)) for code in codes}
        findings = run_checks(
            PlanFacts(
                rows=rows,
                phases=phases,
                options=options,
                remedies=source.remedies,
                rejects=source.rejects.total(),
                rejected_bytes=source.rejected_bytes,
                bytes_read=source.bytes_read,
                codes=source.reject_codes(),
                skips=source.skips,
                keyless=self.duplicates.keyless,
                key_conflicts=KeyConflicts(
                    self.duplicates.clashes, self.source_examples.pairs(self.duplicates.clash_examples)
                ),
                references=references,
                unjoined=self.unjoined,
                people=people,
                float_ids=self.people.float_ids,
                zone=zone if getattr(self.mapper, "zone_evidence", False) and rows.mapped else None,
                open_choices={} if request.document is None else request.document.open,
                coverage=coverage,
                scope=source.coverage.scope if source.coverage is not None else None,
                warnings=source.warnings,
                examples=source.examples,
                drift=drift_facts,
                tracking=tracking,
                unsafe=source.unsafe,
                counted=source.warnings + source.rejects + source.skips,
                unconverted={code: one for code, one in unconverted.items() if one[0]},
                row_at=self.source_examples.row_at,
                copies={
                    part.path: CopiedRows(self.duplicates.copies[number], part.mapped)
                    for number, part in enumerate(parts)
                    if self.duplicates.copies[number]
                },
                history=self.history,
                hours=self.hours,
                activity=self.activity,
                paths=(paths := [part.path for part in self.config.parts]),
                without_events=days_without_events((note.where for note in request.source.notes), paths),
                unread=request.source.unread,
                thresholds=request.thresholds,
                in_series=request.series is not None,
                max_merges=request.series.max_merges if request.series is not None else None,
                replay=request.replay.facts(self.replayed) if request.replay and self.replayed else None,
            )
        )
        for name in {one.name for one in findings} & {one.name for one in CHECKS}:  # a check reports these already
            source.warnings.pop(name, None)
            source.examples.pop(name, None)
        return Plan(
            verdict=verdict_of(findings, source.warnings),
            tool=self.mapper.tool,
            zone=zone.zone,
            first=None if self.first is None else format_utc(self.first),
            last=None if self.last is None else format_utc(self.last),
            rows=rows,
            events=EventCounts(sum(phases.values()), phases),
            people=people,
            coverage=UNSET if coverage is None else coverage,
            drift=drift,
            tracking_plan=tracking,
            source_pairs=self.pairs,
            parts=parts,
            skips=sorted_counts(source.skips),
            rejects=sorted_counts(source.rejects),
            warnings=sorted_counts(source.warnings),
            examples=dict(sorted(source.examples.items())),
            gates=findings,
            names=sorted_counts({name: span.events for name, span in self.history.spans.items()}),
            hours=self.hours.seal(clock_in_words(self.hours, zone.zone)),
            zone_evidence=list(zone.months),
            mapping=request.mapping,
            options=options,
            limits=self.config.limits,
            target=request.thresholds.target,
            version=importlib.metadata.version("backcast"),
            libraries={name: importlib.metadata.version(name) for name in SEALING_LIBRARIES},
            blocks=len(source.block_parts),
            event_bytes=self.event_bytes,
            files=dict(sorted(self.files.items())),  # sorted, because two threads write them
            requests=digest_of_requests(self.directory),
            plugins=list(request.plugins) or UNSET,
            replays=UNSET if request.replay is None else request.replay.seal,
            canary=UNSET if self.canary is None else self.canary.seal,
            import_plan=self.import_plan or UNSET,
            notices=[
                *request.notices,
                *((n.code, n.where, n.detail) for n in request.source.notes),
                *unused_acceptances(request.thresholds, findings),
            ],
        )
