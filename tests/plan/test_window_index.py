"""Windows that are planned one by one decide on ids as one plan over everything does, except for what is settled."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.identity.database import Database
from pipeline.identity.event_ids import IdActivity, find_activity
from pipeline.identity.kinds import KINDS
from pipeline.identity.numbering import hashes
from pipeline.identity.observed_pairs import EarlierLink, ObservedPair, ObservedPairs
from pipeline.identity.resolve import resolve
from pipeline.jobs.state import State
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.window_index import WindowIndex, earlier_pairs, write_window_index
from pipeline.uuids import Hasher, namespace
from tests.support.identity_pairs import (
    AS_OF,
    MergingService,
    Resolved,
    SeenId,
    event_ids,
    resolved,
    sightings_of,
)
from tests.support.identity_pairs import Seen as Rows
from tests.support.stated import add_seen

IDS = st.sampled_from(["u0", "u1", "u2", "d0", "d1", "d2", "d3"])
KIND = st.sampled_from(["row", "row", "identify", "alias", "merge"])
TIME = st.integers(0, 9).map(lambda at: at * 1_000)
PAIRS = st.tuples(IDS, IDS, TIME, KIND).map(lambda said: Rows(*said))
EVENTS = st.dictionaries(IDS, TIME)
WINDOWS = st.lists(st.tuples(st.lists(PAIRS, max_size=4), EVENTS), min_size=1, max_size=4)
Window = tuple[Sequence[Rows], dict[str, int]]


class Series:
    """Windows that are planned and settled one after the other."""

    def __init__(self, folder: Path, state: State) -> None:
        self.folder = folder
        self.state = state
        self.settled: list[EarlierLink] = []
        self.service = MergingService()

    def settle(self, pairs: Sequence[Rows], events: dict[str, int]) -> None:
        """Plan one window, and let the service take its merges."""
        place = Directory(self.folder / str(len(list(self.folder.iterdir()))))
        place.scratch.mkdir(parents=True)
        seen = event_ids(events, users_of(events))
        with Database(place.scratch) as database:
            add_seen(database, seen)
            observed = ObservedPairs(database)
            observed.add(
                0, (ObservedPair(p.anonymous, p.user, KINDS[p.kind], p.at or 0, p.at or 0, 1, 1) for p in pairs)
            )
            write_window_index(place, observed, {})
            observed.add(1, earlier_pairs(place, self.state.identities, pending_merges=False))

            def look(hashed: Any, order: Any) -> IdActivity:
                chunks = chain([sightings_of(seen)], self.state.identities.sightings(hashed))
                return find_activity(hashed, order, chunks)

            with resolve(observed, look, place.scratch, most=50, earlier=self.settled) as found:
                links = list(found.links(Hasher(namespace("tiny")), AS_OF))
        for link in links:
            self.service.merge(link.distinct_id, link.other)
        self.settled += [EarlierLink(one.distinct_id, one.other, one.kind, one.time, "settled") for one in links]
        with self.state.transaction():
            self.state.identities.add(WindowIndex(place))


@contextlib.contextmanager
def series_of(*windows: Window) -> Iterator[Series]:
    """A series of these windows, over a state of its own."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        with contextlib.closing(State.open(folder / "state.sqlite", {"job": "a"})) as state:
            series = Series(folder, state)
            for window in windows:
                series.settle(*window)
            yield series


def users_of(events: dict[str, int]) -> list[str]:
    """The ids that events name as a user's."""
    return [one for one in events if one.startswith("u")]


def whole(windows: Sequence[Window], earlier: Sequence[EarlierLink] = ()) -> Resolved:
    """One plan over all windows."""
    events: dict[str, int] = {}
    for _, mine in windows:
        for one, at in mine.items():
            events[one] = min(at, events.get(one, at))
    return resolved([pairs for pairs, _ in windows], events, users=users_of(events), earlier=earlier)


@settings(max_examples=6)
@given(WINDOWS)
def test_a_plan_over_everything_finds_nothing_that_the_windows_left(windows: list[Window]) -> None:
    """Given what they settled, and while no person comes near --max-ids-per-person. If their persons differ from those
    of a plan that knows nothing, each such person has a merge that was settled before the window that contradicts
    it."""
    with series_of(*windows) as series:
        assert whole(windows, series.settled).links == []
        assert series.service.refused == []
        early = {one for link in series.settled for one in link[:2]}
        for person in whole(windows).persons() ^ series.service.persons():
            assert person & early


@settings(max_examples=6)
@given(st.data(), WINDOWS)
def test_devices_of_one_user_each_come_to_the_same_persons(data: st.DataObject, windows: list[Window]) -> None:
    """No merge can be settled too early then, so nothing differs: neither persons nor the date that each merge
    needs."""
    owner = {f"d{number}": data.draw(st.sampled_from(["u0", "u1", "u2"])) for number in range(4)}
    windows = [
        ([one._replace(user=owner[one.anonymous], kind="row") for one in pairs if one.anonymous in owner], events)
        for pairs, events in windows
    ]
    with series_of(*windows) as series:
        fresh = whole(windows).links
        assert {link[:2] for link in series.settled} == {(link.distinct_id, link.other) for link in fresh}


def test_a_window_asks_only_for_those_that_it_meets() -> None:
    """Along every path of pairs, both ways, and no others."""
    pairs = [Rows(one, other, 1) for one, other in ("ab", "cb", "cd", "ef", ("null", "a"), ("null", "e"))]
    with series_of((pairs, {})) as series:
        found = [pair[:2] for pair in series.state.identities.pairs([hashes(["d", "x"])], pending_merges=False)]
        assert sorted(found) == [("a", "b"), ("c", "b"), ("c", "d")]


@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(-9, 9), st.booleans())))
def test_sightings_are_folded(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, bool]]) -> None:
    """Each id once, sorted, with its first event, and marked where any event marks it."""
    folder = tmp_path_factory.mktemp("seen")
    place = Directory(folder)
    place.scratch.mkdir()
    with Database(place.scratch) as database:
        add_seen(database, [SeenId(*row) for row in rows])
        write_window_index(place, ObservedPairs(database), {})
    found = [one for chunk in WindowIndex(place).sightings() for one in chunk.tolist()]
    expected = {
        id: (min(at for one, at, _ in rows if one == id), any(user for one, _, user in rows if one == id))
        for id, *_ in rows
    }
    assert found == [(id, *expected[id]) for id in sorted(expected)]
