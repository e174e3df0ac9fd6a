"""A smaller request size is learned from a 413 only if both halves then settle, and is kept for later runs."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.batcher import ENVELOPE_ROOM, Envelope, batch_ranges, even_ranges, pack, seal_batch, unpack
from pipeline.delivery.destination import Response, ResponseKind
from pipeline.delivery.size import KeyedBatch, RequestSize, cut
from pipeline.ledger import BatchKey
from pipeline.options import Limits
from pipeline.plan.sealed.freshness import open_plan
from tests.support.deliveries import (
    KEY,
    OK,
    ONE_AT_A_TIME,
    Asked,
    CallDestination,
    Reply,
    balances,
    in_ledger,
    planned,
    run,
    run_to,
    serving,
    uuid,
    uuids,
)

TOO_LARGE = Response(ResponseKind.TOO_LARGE, 413)
ENVELOPE = Envelope(KEY)
BATCH = seal_batch([b"{}"], 0, ENVELOPE)
HALVES = [KeyedBatch(BatchKey("events", 0, first, first + 4), BATCH) for first in (0, 5)]


def learned(directory: Path) -> int | None:
    found = in_ledger(directory, "select value from meta where key = 'batch_bytes'")
    return int(found[0][0]) if found else None


def at_most(bytes_: int, sizes: list[int]) -> Callable[[bytes], Response]:
    """A service that takes requests of at most this many bytes before gzip; it records the sizes of requests."""
    lock = threading.Lock()

    def send(body: bytes) -> Response:
        size = len(ENVELOPE.seal(unpack(body)))
        with lock:
            sizes.append(size)
        return TOO_LARGE if size > bytes_ else OK

    return send


def test_later_batches_are_cut_to_the_size_that_was_learned(tmp_path: Path) -> None:
    """After a 413 whose halves settle, only batches begun by then are refused for their size; all of it settles."""
    directory = planned(tmp_path, 320, files=4, batch=20)
    sizes: list[int] = []
    outcome = run_to(directory, CallDestination(at_most(4_000, sizes)), send_limits=ONE_AT_A_TIME)
    refused = [number for number, size in enumerate(sizes) if size > 4_000]
    assert outcome.balanced
    assert len(refused) <= 3
    assert learned(directory) == max(size for size in sizes if size <= 4_000)
    assert balances(outcome, open_plan(directory)[0])


@pytest.mark.parametrize("limit", [2_100, 3_900])
def test_a_learned_size_is_used_well(tmp_path: Path, limit: int) -> None:
    """Later blocks are sent in as few requests as the learned size allows, all of about the same size, so none has only
    a few events."""
    directory = planned(tmp_path, 640, files=8, batch=20)
    sizes: list[int] = []
    assert run_to(directory, CallDestination(at_most(limit, sizes)), send_limits=ONE_AT_A_TIME).balanced
    size = learned(directory)
    assert size is not None
    settled = "from batches where state = 'settled' and request > 5 group by 1"
    cut = f"select request, count(*), sum(bytes), min(bytes) {settled}"
    for _, requests, total, smallest in in_ledger(directory, cut):
        assert requests <= -(-total // size) + 1
        assert smallest > size / 2
    assert in_ledger(directory, "select count(*) from batches where request > 5 and state = 'split'") == [(0,)]


def test_a_larger_request_that_settles_raises_what_was_learned() -> None:
    """A batch that was begun before is sent unchanged: if it settles, that size is proved, below the size that was
    refused."""
    size = RequestSize(None)
    size.refused(1_000, HALVES)
    assert [size.settled(half.key, 500) for half in HALVES] == [None, 500]
    assert [size.settled(BatchKey("events", 1, 0, 0), bytes_) for bytes_ in (400, 700, 600, 1_000, 1_200)] == [
        None, 700, None, None, None,
    ]  # fmt: skip
    assert size.learned_bytes == 700


@settings(max_examples=40)
@given(st.lists(st.integers(2, 400), min_size=1, max_size=60), st.integers(600, 4000))
def test_even_cuts_are_as_few_and_evener(sizes: list[int], most: int) -> None:
    """As many batches as the greedy cut makes, all within the limit, the largest no larger than there."""
    limits = Limits(40, 5_000)
    most = max(most, ENVELOPE.length + 2)
    even = even_ranges(sizes, ENVELOPE, limits, most)
    greedy = list(batch_ranges(sizes, Limits(40, most + 1 - ENVELOPE.length + ENVELOPE_ROOM)))
    assert len(even) == len(greedy)
    assert [number for first, last in even for number in range(first, last + 1)] == list(range(len(sizes)))

    def largest(ranges: list[tuple[int, int]]) -> int:
        return max(sum(sizes[first : last + 1]) + last - first for first, last in ranges)

    assert largest(even) <= largest(greedy)
    assert all(
        ENVELOPE.length + sum(sizes[first : last + 1]) + last - first <= most or first == last for first, last in even
    )


@settings(max_examples=40)
@given(st.data())
def test_what_is_left_of_a_block_is_cut_by_itself(data: st.DataObject) -> None:
    """Whatever was begun under other limits: begun batches come again unchanged, ended ones never, and the rest
    once."""
    events = [b'{"n":%d}' % number for number in range(data.draw(st.integers(1, 40)))]
    edges = sorted(data.draw(st.sets(st.integers(1, len(events)), max_size=8)) | {0, len(events)})
    ranges = [(first, last - 1) for first, last in pairwise(edges)]
    kinds = data.draw(st.lists(st.sampled_from("ebf"), min_size=len(ranges), max_size=len(ranges)))
    ended, again = ([one for one, kind in zip(ranges, kinds, strict=True) if kind == own] for own in "eb")
    most = data.draw(st.none() | st.integers(100, 300))
    limits = Limits(data.draw(st.integers(1, 10)), 500)
    batches = list(pack(events, ENVELOPE, limits, ended, again, most=most))
    places = [(batch.first, batch.last) for batch in batches]
    assert places == sorted(places)
    assert set(again) <= set(places)
    sent = [number for first, last in places for number in range(first, last + 1)]
    over = {number for first, last in ended for number in range(first, last + 1)}
    assert sorted([*sent, *over]) == list(range(len(events)))


@pytest.mark.parametrize("at", [8, 10])
def test_a_resumed_run_knows_the_size(tmp_path: Path, at: int) -> None:
    """The next run sends nothing new that is too large; batches that were cut and not sent are sent in pieces."""
    directory = planned(tmp_path, 320, files=4, batch=20)
    sizes: list[int] = []
    taken: Counter[str] = Counter()
    interrupted = threading.Event()
    limited = at_most(4_000, sizes)

    def send(body: bytes) -> Response:
        response = limited(body)
        if response is OK:
            taken.update(json.loads(event)["uuid"] for event in unpack(body))
        if len(sizes) == at:
            interrupted.set()
        return response

    first = run_to(directory, CallDestination(send), send_limits=ONE_AT_A_TIME, interrupted=interrupted)
    assert not first.balanced
    assert learned(directory) is not None
    before = len(sizes)
    again = "select count(*) from batches where state in ('begun', 'waiting') and bytes > 4000"
    ((begun_before,),) = in_ledger(directory, again)
    second = run_to(directory, CallDestination(send), send_limits=ONE_AT_A_TIME)
    assert second.balanced
    # Batches begun before the size was known are sent again unchanged; nothing else may be too large.
    assert sum(size > 4_000 for size in sizes[before:]) == begun_before < 4
    assert len(sizes) > before + 10
    assert taken == Counter(uuid(number) for number in range(320))


def test_a_single_event_too_large_teaches_nothing(tmp_path: Path) -> None:
    """If one event is refused, its neighbours' requests stay as large as they were. A half that settles after a retry
    settled without being split, and teaches."""
    directory = planned(tmp_path, 80, files=1, batch=16)

    def answer(asked: Asked) -> Reply:
        return Reply(413) if uuid(3) in [event["uuid"] for event in asked.events] else Reply()

    with serving(answer) as server:
        outcome = run(directory, server.url, send_limits=ONE_AT_A_TIME)
        sizes = Counter(len(batch) for batch in uuids(server.asked))
    assert (outcome.counts.accepted, outcome.counts.refused) == (79, 1)
    assert in_ledger(directory, "select uuid, status from refused_events") == [(uuid(3), 413)]
    assert learned(directory) is None
    assert sizes[16] == 5

    other = planned(tmp_path / "other", 40, files=1, batch=20)
    sent: list[int] = []

    def send(body: bytes) -> Response:
        sent.append(len(unpack(body)))
        return {1: TOO_LARGE, 3: Response(ResponseKind.RETRY, 503)}.get(len(sent), OK)

    assert run_to(other, CallDestination(send), send_limits=ONE_AT_A_TIME).balanced
    assert learned(other) is not None
    assert sorted(sent) == [10, 10, 10, 10, 10, 20]  # a half is sent twice; the second batch is cut before it leaves


def test_the_first_of_two_halves_proves_nothing() -> None:
    """One half that settles and one that is split again teach nothing."""
    size = RequestSize(None)
    size.refused(1_000, HALVES)
    assert size.settled(HALVES[0].key, 500) is None
    size.ended(HALVES[1].key)
    assert size.settled(HALVES[1].key, 500) is None
    assert size.learned_bytes is None


def test_the_largest_request_that_settled_is_the_size() -> None:
    """A size that settled before counts if it is smaller than what was refused; a larger one does not disprove the
    refusal."""
    for before, expected in ((900, 900), (1_200, 500)):
        size = RequestSize(None)
        size.settled(BatchKey("events", 9, 0, 0), before)
        size.refused(1_000, HALVES)
        assert size.settled(HALVES[0].key, 480) is None
        assert size.settled(HALVES[1].key, 500) == expected


@settings(max_examples=40)
@given(st.lists(st.integers(2, 400), min_size=2, max_size=40), st.integers(0, 3000), st.integers(0, 1000))
def test_a_cut_batch_has_the_same_events_in_smaller_requests(lengths: list[int], most: int, first: int) -> None:
    """Pieces follow each other, have every event once and in order, and fit unless a single event does not."""
    events = [b'"' + b"x" * (length - 2) + b'"' for length in lengths]
    batch = seal_batch(events, first, ENVELOPE)
    place = BatchKey("events", 3, batch.first, batch.last)
    most = min(most, batch.bytes - 1)
    pieces = cut(place, batch, most, ENVELOPE)
    assert len(pieces) > 1
    assert [event for piece in pieces for event in unpack(piece.batch.body)] == events
    assert [piece.key.first for piece in pieces][1:] == [piece.key.last + 1 for piece in pieces][:-1]
    assert (pieces[0].key.first, pieces[-1].key.last) == (place.first, place.last)
    assert all(batch.bytes <= most or batch.events == 1 for _, batch, *_ in pieces)
    assert all((batch.first, batch.last) == (key.first, key.last) for key, batch, *_ in pieces)
