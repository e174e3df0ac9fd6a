"""Identities, groups and persons of a plan: decided and sealed from what workers wrote during the walk.

What grows with the number of people is on disk (docs/know/promises.md#constant-memory). Nothing depends on the order of
rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.encoder.event import Encoder
from pipeline.encoder.identified_ids import IdentifiedIds
from pipeline.encoder.updates import SealedGroup, SealedPerson, encode_group, encode_profile
from pipeline.engines.engine import Engine
from pipeline.id_hash import hash_id
from pipeline.identity.database import Database
from pipeline.identity.event_ids import (
    FloatIds,
    HotId,
    IdActivity,
    PersonNumbers,
    count_people,
    count_without_events,
    find_activity,
    find_floats,
    hot_ids,
    sightings,
    write_identified,
)
from pipeline.identity.groups import GroupCounts, group_updates
from pipeline.identity.identities import Identities
from pipeline.identity.last_values import last_values_in
from pipeline.identity.observed_pairs import EarlierLink, ObservedPairs, add_pair_file
from pipeline.identity.persons import PersonCounts, Wanted, initial_persons
from pipeline.identity.policies import UserPolicies
from pipeline.identity.resolve import resolve
from pipeline.identity.settings import choose_types, parse_policy
from pipeline.identity.summary import MergeSummary
from pipeline.mapper.compiler import Mapper
from pipeline.plan.profiles import ProfileTask, Updates, fitting, profiles_of, write_profiles
from pipeline.plan.sealed.directory import Directory, LinesWriter, digest_file, read_lines
from pipeline.plan.sealed.manifest import (
    GroupsSeal,
    GroupTypeSeal,
    InitialsSeal,
    PeopleSeal,
    PersonsSeal,
    ProfilesSeal,
)
from pipeline.plan.series import Series, group_history, new_links, unsettled
from pipeline.plan.settled import Settled
from pipeline.plan.statements import Statements, pieces
from pipeline.plan.window_index import EARLIER, earlier_pairs, write_window_index
from pipeline.transform.tasks import BlockStats, TransformConfig
from pipeline.validator.rules import ValidationContext

if TYPE_CHECKING:
    import pyarrow as pa

MAX_NAMES = 200
"""A plan lists this many property names: the most frequent ones."""


class _Id(msgspec.Struct):
    """The id in a line of identities.jsonl or persons.jsonl."""

    distinct_id: str


T = TypeVar("T", SealedGroup, SealedPerson)


class IdentityInputs(msgspec.Struct, frozen=True):
    """Pairs of ids that do not come from the export: the operator's file of pairs, and the links of earlier plans.

    `follows`: there are earlier plans.
    """

    pair_file: Path | None = None
    earlier: Iterable[EarlierLink] = ()
    follows: bool = False


class PeopleBuilder:
    """Decides on ids, groups and persons from what workers wrote about blocks; `seal` writes the tables."""

    def __init__(
        self,
        directory: Directory,
        mapper: Mapper,
        config: TransformConfig,
        identity_inputs: IdentityInputs,
        series: Series | None,
        settled: Settled | None,
    ) -> None:
        self._scratch = directory.scratch / "people"
        self._scratch.mkdir()
        self._directory = directory
        self._mapper = mapper
        self._options = config.options
        self._encoder = Encoder(mapper.tool, config.options)
        self._rules = ValidationContext.of(config.options, config.limits)
        self._parts = [part.path for part in config.parts]
        self._inputs = identity_inputs
        self._series = series
        self._settled = settled
        self._blocks: list[tuple[int, int]] = []
        self._promoted: Counter[str] = Counter()
        self.float_ids: FloatIds | None = None

    @cached_property
    def _database(self) -> Database:
        return Database(self._scratch)

    @cached_property
    def _statements(self) -> Statements:
        return Statements(self._database, self._directory.block_facts)

    @cached_property
    def _observed(self) -> ObservedPairs:
        return ObservedPairs(self._database)

    def close(self) -> None:
        """Free memory and disk."""
        if "_database" in vars(self):
            self._database.close()

    @property
    def has_effects(self) -> bool:
        """Whether any row states more than an event."""
        return self._statements.stated("pairs") or self._statements.stated("updates")

    def add_block(self, part: int, first_row: int, stats: BlockStats) -> None:
        """Add the next block. `first_row` is the number of its first row in the part, from 1."""
        self._blocks.append((part, first_row))
        self._promoted.update(stats.promoted)

    def leave_out(self, copies: Iterable[tuple[int, NDArray[np.uint32], NDArray[np.uint16]]]) -> None:
        """Ignore the events at these rows and positions of blocks, and what their rows state."""
        self._statements.leave_out(copies)

    def find_hot_ids(self) -> list[HotId]:
        """Find the ids of events. Returns the hot ones. Called before `seal`."""
        pairs = self._statements.stated("pairs")
        if pairs:
            self._statements.add_pairs(self._observed, self._blocks)
        self._statements.add_event_ids(pairs=pairs)
        return hot_ids(self._database)

    def seal(
        self,
        warnings: Counter[str],
        files: dict[str, str],
        engine: Engine,
        *,
        promoted: bool,
        judge: Callable[[PersonNumbers], None],
    ) -> PeopleSeal:
        """Write the tables of identities, groups and persons, and of identified ids.

        `judge` is called once identities are decided.
        `promoted`: the properties that the events to be sent promote were written (`pipeline.identity.promotion`);
        otherwise the service promotes them. `warnings` receives counts by code, and `files` the digests of the tables.
        """
        if self._inputs.pair_file is not None:
            add_pair_file(self._observed, self._inputs.pair_file)
        series = self._series
        if series is not None:
            write_window_index(self._directory, self._observed, files)
            pending_merges = series.max_merges is not None
            self._observed.add(
                len(self._parts), earlier_pairs(self._directory, series.ids, pending_merges=pending_merges)
            )

        def activity_of(hashed: NDArray[np.uint64], order: NDArray[np.int32]) -> IdActivity:
            earlier = () if series is None else series.ids.sightings(hashed)
            return find_activity(hashed, order, chain(sightings(self._database), earlier))

        with resolve(
            self._observed, activity_of, self._directory.scratch,
            most=self._options.max_ids_per_person, earlier=self._inputs.earlier, per_event=self._rules.per_event,
            policies=UserPolicies(self._options.shared_devices, self._options.joined_users),
        ) as resolved:  # fmt: skip
            merges = self._seal_identities(resolved, warnings, files)
            profiles = self._seal_profiles(resolved, files)
            counts = PersonCounts()
            initials = self._initials(resolved, counts) if promoted else None
            groups, before = self._seal_groups(initials, warnings, files)
            persons = self._seal_persons(resolved, counts, warnings, files, engine, promoted=promoted)
            self._add_sent_ids()
            self.float_ids = find_floats(self._database)
            profiles = msgspec.structs.replace(profiles, without_events=count_without_events(self._database))
            if promoted:
                persons = msgspec.structs.replace(persons, initials=InitialsSeal(before, counts.initials))
            judge(resolved.person_numbers)
        return PeopleSeal(merges, groups, persons, profiles)

    # -- one table each ------------------------------------------------------------------------------

    def _seal_identities(self, identities: Identities, warnings: Counter[str], files: dict[str, str]) -> MergeSummary:
        with LinesWriter(self._directory.identities) as writer:
            links = identities.links(self._mapper.hasher, self._options.as_of)
            if self._settled is not None:
                withhold = self._series is not None and self._series.max_merges is None
                links = new_links(links, self._settled, warnings, withhold=withhold)
            writer.write_all(links)
            files["identities.jsonl"] = writer.close()
        named = self._inputs.pair_file.name if self._inputs.pair_file is not None else ""
        identities.write(self._directory.pairs, [*self._parts, EARLIER], named)
        files["identities.parquet"] = digest_file(self._directory.pairs)
        summary = msgspec.structs.replace(identities.summary(), links=writer.count)
        identities.release()
        return summary

    def _initials(self, identities: Identities, counts: PersonCounts) -> Iterator[SealedPerson]:
        """Properties to set once on persons before all events. An event belongs to the person of its id."""
        finals = last_values_in(self._updates(identities, promoted=True))
        policy = parse_policy(self._options.profile_policy)
        initials = initial_persons(
            finals, policy, self._mapper.hasher, counts, wanted=self._wanted(), per_event=self._rules.per_event
        )
        return fitting(
            initials, encode_profile, counts.left_out, "large_person", self._encoder, self._options, self._rules
        )

    def _seal_groups(
        self, initials: Iterator[SealedPerson] | None, warnings: Counter[str], files: dict[str, str]
    ) -> tuple[GroupsSeal, int]:
        """Write the groups and, after them, `initials`. Returns the groups' seal and the number of `initials`."""
        options, counts = self._options, GroupCounts()
        stated = self._statements.groups()
        rows = stated.types
        known = () if self._series is None else self._series.groups.types()
        types = choose_types(rows, options.group_types, known)
        with LinesWriter(self._directory.groups) as writer:
            follows = self._series is not None or self._inputs.follows
            with group_history(self._directory, self._series, files) as history:
                groups = group_updates(stated, types, self._mapper.hasher, counts, by_content=follows, history=history)
                left_out = counts.left_out
                small = fitting(groups, encode_group, left_out, "large_group", self._encoder, options, self._rules)
                writer.write_all(self._new(small, "settled_group", warnings))
            if counts.unchanged:
                warnings["settled_group"] += counts.unchanged
            count = writer.count
            writer.write_all(self._new(initials, "settled_person", warnings) if initials is not None else ())
            files["groups.jsonl"] = writer.close()
        shown = [GroupTypeSeal(type_, rows[type_], True) for type_ in types.chosen]
        shown += [GroupTypeSeal(type_, rows[type_], False) for type_ in types.left_out]
        sealed = GroupsSeal(count, counts.properties, shown, dict(sorted(counts.left_out.items())))
        return sealed, writer.count - count

    def _seal_profiles(self, identities: Identities, files: dict[str, str]) -> ProfilesSeal:
        """Count who is identified. The table is kept only with `--persons identified`."""
        chosen = self._options.persons == "identified"
        path = self._directory.identified if chosen else self._directory.scratch / "identified.bin"
        counts = write_identified(self._database, path, identities.identified())
        if chosen:
            files["identified.bin"] = digest_file(path)
        sampled = self._promoted.pop("", 0)
        promoted = dict(sorted(self._promoted.items(), key=lambda item: (-item[1], item[0])))
        people = count_people(self._database, identities.numbers())
        return ProfilesSeal(**counts._asdict(), **people._asdict(), looked_at=sampled, promoted=promoted)

    def _add_sent_ids(self) -> None:
        """Make the table of the ids for which merges and profile updates are sent."""
        self._database.run("CREATE TABLE sent_ids (person UBIGINT)")
        for path in (self._directory.identities, self._directory.persons):
            self._database.insert("sent_ids", ((hash_id(one.distinct_id),) for one in read_lines(path, _Id)))

    def _seal_persons(
        self,
        identities: Identities,
        counts: PersonCounts,
        warnings: Counter[str],
        files: dict[str, str],
        engine: Engine,
        *,
        promoted: bool,
    ) -> PersonsSeal:
        options = self._options
        updates = self._updates(identities, promoted=promoted)
        with LinesWriter(self._directory.persons) as writer:
            if self._settled is None:
                tasks = self._profile_tasks(updates)
                for _, written in engine.map(write_profiles, tasks):
                    writer.write_lines(written.lines)
                    counts.add(written.counts)
            else:  # settled updates are looked up one person at a time
                finals = last_values_in(updates)
                persons = profiles_of(
                    finals, counts, self._mapper, self._encoder, options, self._rules, wanted=self._wanted()
                )
                writer.write_all(self._new(persons, "settled_person", warnings))
            files["persons.jsonl"] = writer.close()
        return PersonsSeal(
            options.person_properties,
            options.profile_policy,
            writer.count,
            counts.properties,
            dict(counts.names.most_common(MAX_NAMES)),
            dict(sorted(counts.left_out.items())),
            examples=counts.examples or msgspec.UNSET,
        )

    def _updates(self, identities: Identities, *, promoted: bool) -> Iterator[pa.RecordBatch]:
        moves = identities.owners if identities.moves else None
        return self._statements.person_updates(moves, promoted=promoted)

    def _profile_tasks(self, updates: Iterator[pa.RecordBatch]) -> Iterator[ProfileTask]:
        """A task for each piece of the updates."""
        wanted = self._wanted()
        for piece in pieces(updates):
            unwanted: frozenset[str] = frozenset()
            if wanted is not None:
                owners = list(dict.fromkeys(one for batch in piece for one in batch.column("owner").to_pylist()))
                unwanted = frozenset(owner for owner, good in zip(owners, wanted(owners), strict=True) if not good)
            yield ProfileTask(Updates.of(piece), unwanted)

    def _wanted(self) -> Wanted | None:
        """A predicate of who gets a profile; None if everyone does. Called after `_seal_profiles`."""
        if self._options.persons != "identified":
            return None
        identified = IdentifiedIds(self._directory.identified)
        return lambda ids: identified.holds(ids).tolist()

    def _new(self, updates: Iterator[T], code: str, warnings: Counter[str]) -> Iterator[T]:
        """The updates that no earlier plan settled."""
        return updates if self._settled is None else unsettled(updates, self._settled, code, warnings)
