"""Make a plan: walk the source once, decide on duplicates and identities, write the tables, check, seal.

Nothing is sent. The only effects are the files of the plan directory; plan.json is written last.
"""

from __future__ import annotations

import importlib.metadata
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing

from msgspec import UNSET, UnsetType

from pipeline.engines import Rest
from pipeline.errors import BackcastError
from pipeline.identity.aggregator import PLACE_SHIFT
from pipeline.identity.columns import PropertyColumns
from pipeline.identity.event_ids import EventIds, hot_ids
from pipeline.mapper.inspection.field_uses import FieldUses
from pipeline.models import Block, Step
from pipeline.plan.checks import CopiedRows, KeyConflicts, PlanFacts, run_checks, verdict_of
from pipeline.plan.decisions import CODES
from pipeline.plan.deduplication import Deduplication
from pipeline.plan.duplicates import Settled
from pipeline.plan.people import PeopleBuilder
from pipeline.plan.request import Request
from pipeline.plan.samples.events import Place
from pipeline.plan.samples.examples import SourceExamples
from pipeline.plan.samples.pair_sample import read_pairs
from pipeline.plan.samples.source_pairs import Shown, SourcePairs
from pipeline.plan.samples.superseded import differences
from pipeline.plan.sealed.contents import PlannedBlock, planned_blocks, tasks
from pipeline.plan.sealed.digests import BackgroundDigests
from pipeline.plan.sealed.directory import LinesWriter
from pipeline.plan.sealed.facts import Coverage
from pipeline.plan.sealed.manifest import EventCounts, PartSeal, PeopleSeal, Plan, RowCounts, save, seal
from pipeline.plan.settled_events import SettledEvents
from pipeline.plan.statistics.activity_facts import activity_facts
from pipeline.plan.statistics.daily_counts import day_name, sorted_counts
from pipeline.plan.statistics.history import HistoryBuilder
from pipeline.plan.statistics.hour_profile import clock_in_words
from pipeline.plan.statistics.unmatched import MissingReferences, ReferenceUsage
from pipeline.plan.walk import Progress, Walk
from pipeline.plan.zone import judge_zone
from pipeline.timestamps import format_utc
from pipeline.transform.block import observe_people, observe_promoted, take_identities, take_promoted
from pipeline.transform.tasks import SEALING_LIBRARIES, Task


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
    directory.scratch.mkdir(parents=True)
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
            self.settled = self.replayed = request.replay.read(scratch, request.engine.count, step)
        self.directory = request.directory
        self.config = config
        self.mapper = config.compile(config.options)
        self.people = self.new_people("people")
        self.source = Walk(request, self.people, progress)
        self.duplicates = Deduplication(request, self.source, self.settled)
        self.source_examples = SourceExamples(self.directory, paths)
        self.files = dict(request.files)
        self.history = HistoryBuilder()

    def new_people(self, name: str) -> PeopleBuilder:
        request = self.request
        return PeopleBuilder(
            self.directory, self.mapper, self.config, request.identity_inputs, request.series, self.settled, name
        )

    def close(self) -> None:
        """Release memory and files."""
        self.source.keys.close()
        self.people.close()
        if self.replayed is not None:
            self.replayed.close()

    def build(self) -> Plan:
        with BackgroundDigests(self.config.parts) as digests:
            self.source.run(self.files)
            self.step("done; comparing events and ids", self.source.events, self.source.events)
            self.write_duplicates()
            if self.duplicates.other_copies and self.people.has_effects:
                self.observe_people_again()
            people = self.resolve()
            names = self.write_daily_counts()
            self.show_replaced()
            counted = zip(self.source.parts, self.config.parts, digests.of_unchanged(self.step), strict=True)
            parts = [counts.seal(part, digest) for counts, part, digest in counted]
        self.step("done; running the checks", self.source.events, self.source.events)
        plan = seal(self.manifest(parts, people, names))
        save(self.directory, plan)
        return plan

    def warn_of_hot_ids(self, ids: EventIds) -> None:
        hot, events = hot_ids(ids), self.source.events
        if hot is None:
            return
        self.source.warnings["hot_distinct_id"] = hot.ids
        self.source.examples["hot_distinct_id"] = self.source_examples.at(
            hot.block, hot.row,
            f"{hot.events:,} of {events:,} events are of one id; sending them takes at least {hot.minutes:,} minutes",
        )  # fmt: skip

    # -- copies and identities -----------------------------------------------------------------------

    def resolve(self) -> PeopleSeal:
        """Decide on identities, groups and persons."""
        ids = self.people.ids.finish()
        self.warn_of_hot_ids(ids)
        self.people.aggregate_pairs(self.request.engine)
        promoted = self.promoted_updates if self.config.options.promoted_properties == "final" else None
        judge = self.duplicates.judge_strangers
        return self.people.seal(ids, self.source.warnings, self.files, self.request.engine, promoted, judge=judge)

    def observe_people_again(self) -> None:
        """Read the source once more, without the copies: what they state about ids and people has no effect."""
        self.people.close()
        self.people = self.new_people("people again")
        engine, rest = self.request.engine, Rest(take_identities, self.people.add_identities)
        tasks = self.duplicates.without_effect(task for _, task in self.planned_tasks())
        blocks = (planned.sealed for planned in planned_blocks(self.directory))
        for block, (_, stats) in zip(blocks, engine.walk(observe_people, tasks, rest), strict=True):
            self.people.add_block(block.number, block.part, block.first_row, stats)
            if stats.identities is not None:
                self.people.add_identities(stats.identities)

    def promoted_updates(self) -> Iterator[PropertyColumns]:
        """The properties that the events to be sent promote to persons."""
        taken: list[PropertyColumns] = []
        engine = self.request.engine

        def choose(planned: PlannedBlock) -> Task | None:
            sealed = planned.sealed
            block = Block(sealed.part, sealed.index, sealed.offset, sealed.length)
            return Task(sealed.number, block, seal=sealed.digest, duplicates=planned.copies) if planned.events else None

        work = tasks(self.directory, choose)
        for _, updates in engine.walk(observe_promoted, work, Rest(take_promoted, taken.append)):
            if updates is not None:
                yield updates
            yield from taken
            taken.clear()
        yield from taken

    def planned_tasks(self) -> Iterator[tuple[PlannedBlock, Task]]:
        """All blocks, with the decisions on their copies."""
        limited = self.config.options.limit is not None
        with closing(self.source.tasks()) as tasks:
            for task, planned in zip(tasks, planned_blocks(self.directory), strict=False):
                yield planned, task._replace(limit=planned.sealed.rows if limited else None, duplicates=planned.copies)

    def write_duplicates(self) -> None:
        """Decide on duplicates, and write their tables."""
        self.duplicates.run(self.files)
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
        shown = Shown(self.request.thresholds.show_values, self.request.thresholds.show_ids)
        differ = differences(self.directory, self.config, event, winner, shown)
        self.source.examples["superseded"] = self.source_examples.at(
            event.block, event.row,
            f"sent instead is {row} of the same source key: {replaced.reason}" + (differ and f"; {differ}"),
        )  # fmt: skip

    def write_daily_counts(self) -> Counter[str]:
        """Write cells.jsonl. Returns how many events of each name are sent."""
        names: Counter[str] = Counter()
        with LinesWriter(self.directory.cells) as writer:
            for (event, day, outcome), count in self.source.cells.items():
                writer.write({"event": event, "day": day_name(day), "outcome": outcome, "count": count})
                if outcome == "mapped":
                    names[event] += count
                    self.history.add(event, day, count)
            self.files["cells.jsonl"] = writer.close()
        return names

    def other_tool(self) -> str:
        """The mapping that recognises the rows, "" if it is the plan's own, or none."""
        from pipeline.survey.recognition import guess_mapping

        try:
            found = guess_mapping(self.request.source)
        except BackcastError:
            return ""
        return "" if found == self.request.mapping.name else found

    def coverage(self) -> tuple[Coverage | None, MissingReferences | None]:
        """What becomes of each field and event's name, and the references that no row has; None without a mapping
        file."""
        counts, mapping = self.source.coverage, self.request.document
        if counts is None or mapping is None:
            return None, None
        uses = FieldUses(mapping, self.config.options, self.request.lookups)
        references = ReferenceUsage(self.request.references)
        duplicates = sum(self.source.skips[code] for code in CODES.values())
        coverage = counts.coverage(uses, references, items=mapping.decoder is not None, duplicates=duplicates)
        return coverage, references.missing() if coverage.rows else None

    def source_pairs(self) -> SourcePairs | UnsetType:
        """Some rows beside the events that they become; UNSET without a mapping file."""
        request, sample = self.request, self.duplicates.sample
        if sample is None or request.document is None:
            return UNSET
        uses = FieldUses(request.document, self.config.options, request.lookups)
        shown = Shown(request.thresholds.show_values, request.thresholds.show_ids)
        pairs = read_pairs(
            sample,
            list(self.source.names),
            self.source.rules,
            self.directory,
            self.config,
            request.document,
            uses,
            shown,
        )
        with LinesWriter(self.directory.source_pairs) as writer:
            writer.write_all(pairs)
            self.files["source-pairs.jsonl"] = writer.close()
        return SourcePairs(sample.kinds, *shown, len(pairs))

    @property
    def event_bytes(self) -> int:
        """Bytes of the events; of a replay, which sends few of those that were read, as many as its share of them."""
        read = self.source.event_bytes
        return read if self.replayed is None else read * self.duplicates.events // max(self.source.events, 1)

    # -- check and seal ------------------------------------------------------------------------------

    def manifest(self, parts: list[PartSeal], people: PeopleSeal, names: Counter[str]) -> Plan:
        """The plan, not yet sealed."""
        source, request, options = self.source, self.request, self.config.options
        rows = RowCounts(
            sum(part.rows for part in parts),
            sum(part.mapped for part in parts),
            sum(part.skipped for part in parts),
            sum(part.rejected for part in parts),
        )
        phases = {
            "identities": people.identities.links,
            "groups": people.groups.groups + people.initials,
            "events": self.duplicates.events,
            "persons": people.persons.persons,
        }
        if not rows.mapped and rows.rejected and (other := self.other_tool()):
            remedy = f"they look like rows of {other}; plan with -m {other}"
            source.remedies[remedy] += rows.rejected - source.rejects["cut_off"]
        zone = judge_zone(source.zone, options.zones)
        coverage, references = self.coverage()
        source_pairs = self.source_pairs()
        drift, drift_facts, self.files["drift.jsonl"] = source.drift.finish(self.directory.drift)
        findings = run_checks(
            PlanFacts(
                rows=rows,
                phases=phases,
                options=options,
                reject_limit=request.reject_limit,
                remedies=source.remedies,
                rejects=source.rejects.total(),
                rejected_bytes=source.rejected_bytes,
                bytes_read=source.bytes_read,
                codes=source.reject_codes(),
                skips=source.skips,
                keyless=source.keyless,
                key_conflicts=KeyConflicts(
                    self.duplicates.clashes,
                    self.source_examples.pairs(self.duplicates.clash_examples, list(source.names)),
                    request.allow_key_conflicts,
                ),
                references=references,
                people=people,
                float_ids=self.people.float_ids,
                zone=zone if getattr(self.mapper, "zone_evidence", False) and rows.mapped else None,
                open_choices=request.open_choices,
                unmapped_limit=request.unmapped_limit,
                coverage=coverage,
                drift=drift_facts,
                row_at=self.source_examples.row_at,
                copies={
                    part.path: CopiedRows(self.duplicates.copies[number], part.mapped)
                    for number, part in enumerate(parts)
                    if self.duplicates.copies[number]
                },
                history=self.history.history(),
                hours=self.duplicates.hours,
                activity=activity_facts(
                    self.duplicates.activity, self.source_examples, self.config, list(source.names)
                ),
                paths=[part.path for part in self.config.parts],
                unread=request.source.unread,
                thresholds=request.thresholds,
                in_series=request.series is not None,
                max_merges=request.series.max_merges if request.series is not None else None,
                replay=request.replay.facts(self.replayed) if request.replay and self.replayed else None,
            )
        )
        for name in {one.name for one in findings}:  # what a check reports is not a warning, too
            source.warnings.pop(name, None)
            source.examples.pop(name, None)
        return Plan(
            verdict=verdict_of(findings, source.warnings),
            tool=self.mapper.tool,
            zone=zone.zone,
            first=format_utc(self.duplicates.first) if self.duplicates.events else None,
            last=format_utc(self.duplicates.last) if self.duplicates.events else None,
            rows=rows,
            events=EventCounts(sum(phases.values()), phases),
            people=people,
            coverage=UNSET if coverage is None else coverage,
            drift=drift,
            source_pairs=source_pairs,
            parts=parts,
            skips=sorted_counts(source.skips),
            rejects=sorted_counts(source.rejects),
            warnings=sorted_counts(source.warnings),
            examples=dict(sorted(source.examples.items())),
            gates=findings,
            names=sorted_counts(names),
            hours=self.duplicates.hours.seal(clock_in_words(self.duplicates.hours, zone.zone)),
            zone_evidence=list(zone.months),
            mapping=request.mapping,
            options=options,
            limits=self.config.limits,
            target=request.target,
            version=importlib.metadata.version("backcast"),
            libraries={name: importlib.metadata.version(name) for name in SEALING_LIBRARIES},
            blocks=len(source.block_parts),
            event_bytes=self.event_bytes,
            files=dict(sorted(self.files.items())),  # sorted, because two threads write them
            plugins=list(request.plugins) or UNSET,
            replays=UNSET if request.replay is None else request.replay.seal,
            notices=[*request.notices, *((n.code, n.where, n.detail) for n in request.source.notes)],
        )
