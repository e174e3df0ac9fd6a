"""The index of what is settled: exact, and right about which events of a plan were sent."""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import BrokenLedger, UsageError
from pipeline.id_hash import hash_id
from pipeline.jobs.state import State, read_history
from pipeline.ledger import BatchKey
from pipeline.plan.duplicates import cells_of
from pipeline.plan.requests.query import every_batch
from pipeline.plan.requests.store import read_events
from pipeline.plan.sealed.directory import PHASES, Directory
from pipeline.plan.settled_facts import SETTLED, settled_facts
from pipeline.timestamps import read_iso
from tests.support.phased_plans import planned_in_phases

BELONGS = {"job": "a", "target": "http://127.0.0.1:1"}
HALF = st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 1])
UUIDS = st.lists(st.tuples(HALF, HALF), unique=True)


def sent(uuids: list[tuple[int, int]], content: int = 7) -> Any:
    found = np.zeros(len(uuids), SETTLED)
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
    """All 128 bits count; each uuid keeps the content it was first sent with; a dry run's index knows both."""
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


def test_exactly_what_the_ledger_settled_is_found(tmp_path: Path) -> None:
    """In each phase, whatever parts of its requests are settled; each event with what identifies it."""
    place = Directory(planned_in_phases(tmp_path, batch=7))
    rng = random.Random(1)
    settled, expected = list[BatchKey](), dict[UUID, dict[str, Any] | None]()
    for phase in PHASES:
        for request, events in read_events(place, phase):
            first = rng.randrange(request.events)
            last = rng.randrange(first, request.events)
            settled.append(BatchKey(phase, request.number, first, last))
            for event in map(json.loads, events[first : last + 1]):
                expected[UUID(event["uuid"])] = event if phase == "events" else None
    records = np.concatenate([*settled_facts(place, settled)])
    found = {UUID(int=int(one["hi"]) << 64 | int(one["lo"])): one for one in records}
    assert found.keys() == expected.keys()
    for uuid, event in expected.items():
        person, cell = 0, 0
        if event is not None:
            person = hash_id(event["properties"]["distinct_id"])
            time = np.array([read_iso(event["timestamp"]).us])
            cell = int(cells_of(np.array([hash_id(event["event"])], np.uint64), time)[0])
        assert (int(found[uuid]["person"]), int(found[uuid]["cell"])) == (person, cell)
    assert len(np.concatenate([*settled_facts(place, every_batch(place))])) == 7 + 12 + 40 + 7


def test_a_state_that_is_damaged_or_of_another_job_or_version_is_not_written(tmp_path: Path) -> None:
    """It says that it can be built again, or whose it is, and does not change it."""
    path = tmp_path / "state.sqlite"
    path.write_bytes(b"not a database, but long enough to be read as the head of one" * 20)
    for look in (lambda: State.open(path, BELONGS), lambda: read_history(path)):
        with pytest.raises(BrokenLedger) as caught:
            look()
        assert "rebuilt" in caught.value.hint
    path = tmp_path / "whole.sqlite"
    State.open(path, BELONGS).close()
    with pytest.raises(UsageError, match="belongs to the job 'a', not to 'b'"):
        State.open(path, BELONGS | {"job": "b"})
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("update meta set value = '9' where key = 'version'")
    with pytest.raises(BrokenLedger, match="has schema 9"):
        State.open(path, BELONGS)
