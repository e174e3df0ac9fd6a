"""Make a plan: walk everything once, send nothing, seal what was found.

The only effects are the files of the plan directory. Memory does not grow with the input: key records, cells and
rejects go to disk as they come (docs/know/promises.md#constant-memory).
"""

from __future__ import annotations

import importlib.metadata
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec
import numpy as np

from pipeline.extractors import blocks as read_blocks
from pipeline.identity.aggregator import IdentityColumns
from pipeline.identity.event_ids import EventIdAggregator, EventIds
from pipeline.identity.hot_ids import hot_ids
from pipeline.identity.promotion import PromotedUpdate
from pipeline.models import Finding
from pipeline.plan import checks as rule
from pipeline.plan.contents import planned_blocks
from pipeline.plan.daily_counts import DailyCounts, day_name, sorted_counts
from pipeline.plan.digests import Digests
from pipeline.plan.directory import LinesWriter
from pipeline.plan.duplicates import MAX_CLASHES, REMAINING, Clash, Decisions, copies_of, decide, rows_out
from pipeline.plan.event_uuids import write_uuids
from pipeline.plan.examples import Examples
from pipeline.plan.key_records import KeyRecords
from pipeline.plan.manifest import EventCounts as EventTotals
from pipeline.plan.manifest import Example, PartSeal, PeopleSeal, Plan, RowCounts, SealedBlock, save, seal
from pipeline.plan.part_counts import PartCount
from pipeline.plan.people import PeopleBuilder
from pipeline.plan.request import Request
from pipeline.plan.unmatched import ReferenceUsage
from pipeline.plan.zone import ZoneVerdict, evidence_of, judge_zone
from pipeline.timestamps import format_utc
from pipeline.transform.block import (
    KEY,
    KEYLESS,
    NAME,
    BlockStats,
    Task,
    observe_block,
    observe_promoted,
    take_aggregate,
    take_promoted,
)
from pipeline.transform.workers import Workers

SEALING_LIBRARIES = ("msgspec", "tzdata", "pyarrow", "ua-parser", "ua-parser-builtins")
"""Libraries whose version can change an event; recorded, and named when a block's digest differs."""


SAME_FILE = "same_file"
"""The one notice of the reader's that is a warning: somebody gave the same bytes twice."""


Progress = Callable[[int, int], None]
"""Called with rows and bytes read so far."""


def build(request: Request, progress: Progress = lambda rows, length: None) -> Plan:
    """Plan: read every part, write every file of the directory, plan.json last. Returns the plan, ready or not.

    The directory holds no older plan: `plan.making` gives one. Raises UnreadableExport.
    """
    directory = request.directory
    directory.scratch.mkdir(parents=True)
    builder = _Builder(request, progress)
    try:
        return builder.run()
    finally:
        builder.close()
        shutil.rmtree(directory.scratch, ignore_errors=True)


class _Builder:
    def __init__(self, request: Request, progress: Progress) -> None:
        self.request = request
        self.progress = progress
        self.directory = request.directory
        self.config = request.config
        self.options = request.config.options
        self.mapper = self.config.compile(self.options)
        self.counts = [PartCount() for _ in self.config.parts]
        self.skips: Counter[str] = Counter()
        self.rejects: Counter[str] = Counter()
        self.remedies: Counter[str] = Counter()
        self.warnings: Counter[str] = Counter(note.code for note in request.source.notes if note.code == SAME_FILE)
        self.examples: dict[str, Example] = {}
        self.zone: Counter[tuple[int, int]] = Counter()
        self.names: dict[str, int] = {}
        self.given_up = False  # Ctrl-C or an error elsewhere: what runs beside it ends soon
        self.part_of: list[int] = []
        self.events = 0
        self.keyless = 0
        self.unmatched = ReferenceUsage(self.config.wanted)
        self.clashes = 0
        self.clashing: list[Clash] = []
        self.event_bytes = 0
        self.bytes_read = 0
        self.first = 2**62
        self.last = -(2**62)
        self.keys = KeyRecords(self.directory.scratch / "keys")
        self.ids = EventIdAggregator(self.directory.scratch / "ids-of-events")
        self.cells = DailyCounts(self.directory.scratch)
        self.files: dict[str, str] = {}
        self.examples_of = Examples(self.directory, [part.path for part in self.config.parts])
        self.people = PeopleBuilder(
            self.directory,
            self.mapper,
            self.options,
            self.config.limits,
            [part.path for part in self.config.parts],
            request.identity_inputs,
            request.series,
        )

    def close(self) -> None:
        """Give memory and files back."""
        self.keys.close()
        self.people.close()

    def run(self) -> Plan:
        with Digests(self.config.parts) as digests:
            self.walk()
            ids = self.ids.finish()
            self.warn_of_hot_ids(ids)
            people = self.decide(ids)
            self.write_cells()
            found = digests.of_unchanged()
            parts = [
                count.seal(part, digest)
                for count, part, digest in zip(self.counts, self.config.parts, found, strict=True)
            ]
        return self.finish(parts, people)

    def decide(self, ids: EventIds) -> PeopleSeal:
        """Which of copies are sent and who is who, side by side where neither needs the other."""
        if self.options.promoted_properties == "final":  # what copies promote does not count
            return self.people.seal(ids, self.warnings, self.files, self.promoted)
        if self.request.series is not None:  # what that settled is asked for one after the other
            people = self.people.seal(ids, self.warnings, self.files)
            self.write_copies()
            return people
        with ThreadPoolExecutor(1, "copies") as pool:
            copies = pool.submit(self.write_copies)
            try:
                people = self.people.seal(ids, self.warnings, self.files)
                copies.result()
            except BaseException:
                self.given_up = True
                raise
        return people

    # -- the walk ------------------------------------------------------------------------------------

    def walk(self) -> None:
        limit = self.options.limit
        with (
            LinesWriter(self.directory.blocks) as blocks,
            LinesWriter(self.directory.rejects) as rejects,
            self.request.workers as workers,
        ):
            if limit is None:
                for task, notes in workers.walk(observe_block, self.tasks()):
                    self.take(task, notes, blocks, rejects)
            else:
                for task in self.tasks():
                    left = limit - sum(count.rows for count in self.counts)
                    if left <= 0:
                        break
                    for _, notes in workers.walk(observe_block, [task._replace(limit=left)]):
                        self.take(task, notes, blocks, rejects)
            for identities in workers.ask_each(take_aggregate):
                self.gather(identities)
            self.files["blocks.jsonl"] = blocks.close()
            self.files["rejects.jsonl"] = rejects.close()

    def promoted(self) -> Iterator[list[tuple[str, list[PromotedUpdate]]]]:
        """What the events that are sent promote to persons. Of copies only one is sent: so they are decided first."""
        self.write_copies()
        with Workers(self.request.workers.count, self.config) as workers:
            for _, said in workers.walk(observe_promoted, self.tasks_again()):
                if said is not None:
                    yield said
            yield from workers.ask_each(take_promoted)

    def tasks_again(self) -> Iterator[Task]:
        limited = self.options.limit is not None
        for planned, task in zip(planned_blocks(self.directory), self.tasks(), strict=False):
            sealed = planned.sealed
            if planned.events:
                yield task._replace(limit=sealed.rows if limited else None, seal=sealed.digest, copies=planned.copies)

    def tasks(self) -> Iterator[Task]:
        number = 0
        for part in self.config.parts:
            for block in read_blocks(part):
                yield Task(number, block)
                number += 1

    def take(self, task: Task, notes: BlockStats, blocks: LinesWriter, rejects: LinesWriter) -> None:
        block = task.block
        count = self.counts[block.part]
        path = self.config.parts[block.part].path
        first_row = count.rows + 1
        blocks.write(
            SealedBlock(
                task.number, block.part, block.index, block.offset, block.length, first_row,
                notes.rows, notes.events, notes.digest,
            )
        )  # fmt: skip
        for reject in notes.rejects:
            rejects.write(msgspec.structs.replace(reject, row=first_row + reject.row - 1))
            self.rejects[reject.code] += 1
            if remedy := rule.remedy_of(reject.code, reject.detail):
                self.remedies[remedy] += 1
        for code, (row, offset, detail) in notes.examples.items():
            self.examples.setdefault(code, Example(path, first_row + row, offset, detail))
        count.rows += notes.rows
        count.mapped += notes.mapped
        count.skipped += notes.skips.total()
        count.rejected += len(notes.rejects)
        self.skips.update(notes.skips)
        self.warnings.update(notes.warnings)
        self.zone.update(notes.zone)
        self.cells.add(notes.cells)
        self.unmatched.add(notes.found, notes.good_rows)
        self.people.take(task.number, block.part, first_row, notes)
        if notes.identities is not None:
            self.gather(notes.identities)
        self.take_keys(notes)
        self.part_of.append(block.part)
        self.events += notes.events
        self.event_bytes += notes.event_bytes
        self.bytes_read += block.length
        self.progress(sum(one.rows for one in self.counts), self.bytes_read)

    def gather(self, identities: IdentityColumns) -> None:
        self.ids.add(identities.ids)
        self.people.gather(identities)

    def take_keys(self, notes: BlockStats) -> None:
        keys = np.frombuffer(bytearray(notes.keys), KEY)
        if not len(keys):
            return
        table = np.array([self.names.setdefault(name, len(self.names)) for name in notes.names], np.uint32)
        self.keyless += int(np.count_nonzero(keys["name"] & KEYLESS))
        keys["name"] = table[keys["name"] & NAME] | (keys["name"] & ~NAME)
        self.keys.add(keys)

    # -- the tables ----------------------------------------------------------------------------------

    def warn_of_hot_ids(self, ids: EventIds) -> None:
        hot = hot_ids(ids)
        if hot is None:
            return
        self.warnings["hot_distinct_id"] = hot.ids
        self.examples["hot_distinct_id"] = self.examples_of.at(
            hot.block, hot.row,
            f"{hot.events:,} of {self.events:,} events are of one id; at --rate {hot.rate(self.events)} it stays below",
        )  # fmt: skip

    def keys_gate(self) -> Finding | None:
        pairs = self.examples_of.pairs(self.clashing, list(self.names))
        return rule.keys_gate(self.clashes, pairs, accepted=self.request.key_conflicts)

    def write_copies(self) -> None:
        decisions = Decisions(self.directory.scratch / "decisions")
        series = self.request.series
        settled, remaining = None, None
        if series is not None:
            settled = series.settled
            remaining = Decisions(self.directory.scratch / "remaining", record=REMAINING)
        names = list(self.names)
        identical: list[tuple[int, int]] = []
        self.events = 0
        collapse = self.options.collapse_identical
        for decided in decide(self.keys, decisions, collapse=collapse, settled=settled, remaining=remaining):
            if self.given_up:
                return
            self.events += decided.events
            self.warnings["changed_since_settled"] += decided.changed
            self.warnings["identical_rows"] += decided.identical
            self.clashes += decided.clashes
            self.clashing = sorted([*self.clashing, *decided.clashing])[:MAX_CLASHES]
            if decided.first_identical is not None:
                identical.append(decided.first_identical)
            self.first = min(self.first, decided.first)
            self.last = max(self.last, decided.last)
            for (name, day, code), count in decided.dropped.items():
                self.cells.move(names[name], day, code, count)
        with LinesWriter(self.directory.copies) as writer:
            for number, found in decisions.by_block():
                if self.given_up:
                    return
                writer.write_all((number, *copy) for copy in copies_of(found))
                out, partly = rows_out(found)
                part = self.counts[self.part_of[number]]
                part.mapped -= out.total()
                part.skipped += out.total()
                self.skips.update(out)
                self.warnings["partly_duplicate_row"] += partly
            self.files["copies.jsonl"] = writer.close()
        if identical:
            self.examples["identical_rows"] = self.examples_of.at(
                *min(identical),
                "an event of its own, though another row is the same; --collapse-identical makes one of them",
            )
        if remaining is not None:
            self.files["uuids.bin"] = write_uuids(self.directory.uuids, remaining)
        self.keys.remove()

    def write_cells(self) -> None:
        with LinesWriter(self.directory.cells) as writer:
            self.totals: Counter[str] = Counter()
            for (event, day, outcome), count in self.cells.items():
                writer.write({"event": event, "day": day_name(day), "outcome": outcome, "count": count})
                if outcome == "mapped":
                    self.totals[event] += count
            self.files["cells.jsonl"] = writer.close()

    # -- the end -------------------------------------------------------------------------------------

    def finish(self, parts: list[PartSeal], people: PeopleSeal) -> Plan:
        rows = RowCounts(
            sum(part.rows for part in parts),
            sum(part.mapped for part in parts),
            sum(part.skipped for part in parts),
            sum(part.rejected for part in parts),
        )
        verdict = judge_zone(self.zone, self.options.zones)
        phases = {
            "identities": people.identities.links,
            "groups": people.groups.groups + people.initials,
            "events": self.events,
            "persons": people.persons.persons,
        }
        gates = self.gates(rows, verdict, sum(phases.values()), people)
        plan = Plan(
            verdict=rule.verdict_of(gates, self.warnings),
            tool=self.mapper.tool,
            zone=verdict.zone,
            first=format_utc(self.first) if self.events else None,
            last=format_utc(self.last) if self.events else None,
            rows=rows,
            events=EventTotals(sum(phases.values()), phases),
            people=people,
            parts=parts,
            skips=sorted_counts(self.skips),
            rejects=sorted_counts(self.rejects),
            warnings=sorted_counts(self.warnings),
            examples=dict(sorted(self.examples.items())),
            gates=gates,
            names=sorted_counts(self.totals),
            zone_evidence=evidence_of(verdict),
            mapping=self.request.mapping,
            options=self.options,
            limits=self.config.limits,
            target=self.request.target,
            version=importlib.metadata.version("backcast"),
            libraries={name: importlib.metadata.version(name) for name in SEALING_LIBRARIES},
            blocks=len(self.part_of),
            event_bytes=self.event_bytes,
            files=dict(sorted(self.files.items())),  # they are written side by side
            notices=[*self.request.notices, *((n.code, n.where, n.detail) for n in self.request.source.notes)],
        )
        plan = seal(plan)
        save(self.directory, plan)
        return plan

    def gates(self, rows: RowCounts, verdict: ZoneVerdict, made: int, people: PeopleSeal) -> list[Finding]:
        duplicates = self.skips["duplicate_event"] + self.skips["superseded"]
        series = self.request.series
        found = [rule.rejects_gate(rows.rejected, rows.read, self.request.allowed, self.remedies)]
        if series is None:
            found.append(rule.zero_events_gate(made))
        else:
            keyless = 0 if self.options.collapse_identical else self.keyless
            found += [rule.keyless_gate(keyless), rule.merges_gate(people.identities.links, series.most_merges)]
        found.append(rule.duplicates_gate(duplicates, self.events))
        found += [self.keys_gate(), self.unmatched.gate()]
        found.append(self.people.types_gate())
        found.append(rule.profiles_gate(people.profiles, identified=self.options.persons == "identified"))
        if getattr(self.mapper, "zone_evidence", False) and rows.mapped:
            found.append(rule.zone_gate(verdict, named=bool(self.options.zones)))
        return [gate for gate in found if gate is not None]
