"""Requests with events of one person do not overtake each other, and no id is sent faster than it may be."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pipeline
from pipeline.delivery.apply import SendLimits
from pipeline.delivery.lanes import WINDOW, Lanes, first_ready
from pipeline.ledger import BatchKey
from pipeline.options import PlanOptions
from pipeline.plan.requests.store import NO_LANE
from tests.support.deliveries import AT_ONCE, COLUMNS, Asked, Reply, in_ledger, run, serving, uuid

PEOPLE, OF_EACH, BATCH = 24, 14, 10


class Request(NamedTuple):
    """One request, from its arrival to its answer: the numbers of its rows by person."""

    begun: float
    ended: float
    rows: dict[str, list[int]]
    status: int


def planned(folder: Path, *, mixed: bool = True, persons: str = "all", decides: bool = True) -> Path:
    """A plan of rows whose numbers rise in the export: person after person, or `mixed` so that requests share them.

    With `persons` "identified" none of them gets a profile: their ids are those of visitors. If the order `decides`,
    events have a property that the service copies to their person.
    """
    folder.mkdir(exist_ok=True)
    with (folder / "export.jsonl").open("w") as file:
        for number in range(PEOPLE * OF_EACH):
            person = number * 7 % 10 % PEOPLE if mixed else number // OF_EACH
            row = {"event": "Step", "distinct_id": f"person-{person}", "timestamp": "2023-01-02T03:04:05Z"}
            row |= {"number": number, "uuid": uuid(number), "user": None}
            file.write(json.dumps(row | ({"$browser": "Firefox"} if decides else {})) + "\n")
    visitors = {"distinct_id": "user", "anonymous_id": "distinct_id"} if persons == "identified" else {}
    asked = {"mapping": "generic", "settings": COLUMNS | visitors, "persons": persons}
    options = PlanOptions(**asked, workers=0, max_batch_events=BATCH)
    plan = pipeline.plan_export(str(folder / "export.jsonl"), folder / "plan", options)
    assert plan.order_decides == decides
    return folder / "plan"


def sent(directory: Path, order: str, poison: frozenset[int] = frozenset()) -> list[Request]:
    """The requests of a run with eight at a time, by their arrival. One with a row of `poison` is refused."""
    requests: list[Request] = []
    lock = threading.Lock()

    def answer(asked: Asked) -> Reply:
        begun = time.monotonic()
        rows: dict[str, list[int]] = {}
        for event in asked.events:
            rows.setdefault(event["properties"]["distinct_id"], []).append(event["properties"]["number"])
        numbers = sorted(number for some in rows.values() for number in some)
        time.sleep(numbers[0] * 13 % 7 / 500)
        status = 400 if poison & set(numbers) else 200
        with lock:
            requests.append(Request(begun, time.monotonic(), rows, status))
        return Reply(status)

    with serving(answer) as server:
        outcome = run(directory, server.url, send_limits=SendLimits(8, AT_ONCE), order=order)
    assert outcome.balanced
    assert outcome.counts.refused == len(poison)
    return sorted(requests)


def overtaking(requests: list[Request]) -> int:
    """How often a request arrived before an earlier one with events of the same person was answered, or out of
    order."""
    found = 0
    for number, one in enumerate(requests):
        for later in requests[number + 1 :]:
            for person in one.rows.keys() & later.rows.keys():
                again = one.status != 200 and set(later.rows[person]) <= set(one.rows[person])
                found += later.begun < one.ended or not (again or max(one.rows[person]) < min(later.rows[person]))
    return found


@pytest.mark.parametrize(("poison", "persons"), [(frozenset({3, 77, 255}), "all"), (frozenset(), "identified")])
def test_nothing_of_a_person_overtakes(poison: frozenset[int], persons: str, tmp_path: Path) -> None:
    """Also if a batch is halved down to the refused event; requests of other people are in flight at the same time, and
    without lanes overtaking does happen."""
    directory = planned(tmp_path, persons=persons)
    requests = sent(directory, "auto", poison)
    assert overtaking(requests) == 0
    together = Counter(sum(other.begun <= one.begun < other.ended for other in requests) for one in requests)
    assert max(together) > 2
    if poison:
        assert overtaking(sent(planned(tmp_path / "again"), "any", poison)) > 0


def test_a_plan_without_lanes_is_sent_one_request_after_the_other_if_order_is_asked_for(tmp_path: Path) -> None:
    """No order of its events decides anything about a person; the ledger shows that no batch began before the previous
    one ended."""
    directory = planned(tmp_path, decides=False)
    assert overtaking(sent(directory, "person")) == 0
    rows = in_ledger(directory, "select begun, ended from batches order by request, first")
    assert all(before[1] <= after[0] for before, after in pairwise(rows))


@given(
    st.lists(st.dictionaries(st.integers(0, 3), st.integers(1, 70), min_size=1), min_size=1, max_size=30),
    st.integers(20, 100),
)
def test_no_id_is_sent_faster_than_it_may_be(batches: list[dict[int, int]], per_id: int) -> None:
    """In any minute an id has at most this many events, unless a single batch has more; and everything is sent in the
    end. Batches without a fast id continue."""
    now = 0.0
    lanes = Lanes(lambda: now, per_id=per_id)
    queue = [BatchKey("events", number, 0, 0) for number in range(len(batches))]
    sent_at: list[tuple[float, dict[int, int]]] = []
    for key, batch in zip(queue, batches, strict=True):
        lanes.add(key, NO_LANE, list(batch.items()))
    while queue:
        number = first_ready(lanes, queue)
        if number is None:
            assert lanes.wait_until > now
            now = lanes.wait_until
            continue
        key = queue.pop(number)
        lanes.begin(key)
        lanes.end(key)
        sent_at.append((now, batches[key.request]))
        now += 0.5
    for end, _ in sent_at:
        window = [batch for at, batch in sent_at if end - WINDOW < at <= end]
        for id in range(4):
            counted = [batch[id] for batch in window if id in batch]
            assert sum(counted) <= per_id or len(counted) == 1
