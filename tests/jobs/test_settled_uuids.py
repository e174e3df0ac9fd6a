"""The index of what is settled: exact, and right about which events of a plan were sent."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.encoder.updates import SealedLink
from pipeline.errors import BrokenLedger, UsageError
from pipeline.jobs.state import State, read_history
from pipeline.ledger import BatchKey
from pipeline.plan import event_uuids
from pipeline.plan.decisions import REMAINING, Decisions
from pipeline.plan.event_uuids import SENT, all_uuids, settled_uuids, write_uuids
from pipeline.plan.sealed.directory import Directory, LinesWriter

BELONGS = {"job": "a", "target": "http://127.0.0.1:1"}
HALF = st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 1])
UUIDS = st.lists(st.tuples(HALF, HALF), unique=True)


def sent(uuids: list[tuple[int, int]], content: int = 7) -> Any:
    found = np.zeros(len(uuids), SENT)
    found["hi"], found["lo"] = [hi for hi, _ in uuids], [lo for _, lo in uuids]
    found["content"] = content
    return found


def halves(uuids: list[tuple[int, int]]) -> tuple[Any, Any]:
    """The two halves of uuids, ascending, as a plan asks for them."""
    ordered = sorted(uuids)
    return np.array([hi for hi, _ in ordered], np.uint64), np.array([lo for _, lo in ordered], np.uint64)


@settings(max_examples=30, deadline=None)
@given(UUIDS, UUIDS, UUIDS)
def test_the_index_knows_exactly_what_was_added(
    tmp_path_factory: pytest.TempPathFactory,
    earlier: list[tuple[int, int]],
    later: list[tuple[int, int]],
    asked: list[tuple[int, int]],
) -> None:
    """All 128 bits count; each keeps the content it was first sent with; a dry run's index knows both."""
    folder = tmp_path_factory.mktemp("index")
    state = State.open(folder / "state", BELONGS)
    with contextlib.closing(state), state.transaction():
        assert state.settled.add([sent(earlier, 2**64 - 1)], 1) == len(earlier)
    for where in (state.path, folder / "scratch"):
        opened = State.open(where, BELONGS) if where == state.path else State.scratch(state.path, where, BELONGS)
        with contextlib.closing(opened):
            if where != state.path:
                with opened.transaction():
                    opened.settled.add([sent(later)], 2)
            known, content, *_ = opened.settled.find(*halves(asked))
            expected = {**dict.fromkeys(later if where != state.path else [], 7), **dict.fromkeys(earlier, 2**64 - 1)}
            assert list(known) == [uuid in expected for uuid in sorted(asked)]
            assert list(content) == [expected[uuid] for uuid in sorted(asked) if uuid in expected]


@settings(max_examples=30, deadline=None)
@given(st.data(), st.lists(st.integers(0, 9), min_size=1, max_size=6), st.sampled_from([1, 3, 1000]))
def test_a_place_in_the_ledger_is_a_place_among_the_uuids(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, blocks: list[int], at_once: int
) -> None:
    """Whatever settled of each block, and however little is read at once, exactly its uuids come out."""
    place = Directory(tmp_path_factory.mktemp("plan"))
    gathered = Decisions(place.path / "gathered", record=REMAINING)
    expected, places = set[int](), list[BatchKey]()
    for block, count in enumerate(blocks):
        records = np.zeros(count, REMAINING)
        records["block"] = block
        records["row"] = np.arange(count)
        records["lo"] = block * 100 + np.arange(count)
        gathered.add(records[np.random.default_rng(block).permutation(count)])
        taken = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
        for event in range(count):
            if taken[event]:
                expected.add(block * 100 + event)
                if event and taken[event - 1] and event % 4:
                    places[-1] = places[-1]._replace(last=event)
                else:
                    places.append(BatchKey("events", block, event, event))
    write_uuids(place.uuids, gathered)
    with LinesWriter(place.identities):
        pass
    before, event_uuids.AT_ONCE = event_uuids.AT_ONCE, at_once
    try:
        found = [int(lo) for chunk in settled_uuids(place, places) for lo in chunk["lo"]]
        assert len(list(np.concatenate([*all_uuids(place), np.zeros(0, SENT)]))) == sum(blocks)
    finally:
        event_uuids.AT_ONCE = before
    assert sorted(found) == sorted(expected)


def test_settled_merges_are_found_by_their_place(tmp_path: Path) -> None:
    place = Directory(tmp_path)
    place.uuids.touch()
    with LinesWriter(place.identities) as writer:
        for number in range(5_003):
            uuid = f"00000000-0000-0000-0000-{number:012x}"
            writer.write(SealedLink("identify", "u", f"d-{number}", 0, uuid, 1))
    places = [BatchKey("identities", 0, 4, 5), BatchKey("identities", 1, 2, 2)]
    assert [int(lo) for chunk in settled_uuids(place, places) for lo in chunk["lo"]] == [4, 5, 5_002]


def test_a_state_that_is_damaged_or_of_another_job_or_version_is_not_written(tmp_path: Path) -> None:
    """It says that it can be built again, or whose it is, and is left as it is."""
    path = tmp_path / "state.sqlite"
    path.write_bytes(b"not a database, but long enough to be read as the head of one" * 20)
    for look in (lambda: State.open(path, BELONGS), lambda: read_history(path)):
        with pytest.raises(BrokenLedger) as caught:
            look()
        assert "built again" in caught.value.hint
    path = tmp_path / "whole.sqlite"
    State.open(path, BELONGS).close()
    with pytest.raises(UsageError, match="belongs to the job 'a', not to 'b'"):
        State.open(path, BELONGS | {"job": "b"})
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("update meta set value = '9' where key = 'version'")
    with pytest.raises(BrokenLedger, match="has schema 9"):
        State.open(path, BELONGS)
