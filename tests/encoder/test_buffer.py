"""Events written in runs equal the events written one by one, and only the encoder reads and changes them."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.encoder.buffer import MICROSECONDS, MILLISECONDS, SECONDS, EventBuffer, split_events
from pipeline.encoder.encoded import has_profile, read_event, read_properties, replace_uuid, uuid_of
from pipeline.encoder.event import Encoder, provenance
from pipeline.extractors.jsonl_rows import JsonlRows
from pipeline.extractors.line_blocks import row_starts
from pipeline.models import SealedOptions, UnvalidatedEvent
from pipeline.options import Limits
from pipeline.timestamps import DAY, format_utc
from pipeline.transform.rows import RowTransformer
from pipeline.uuids import Hasher, namespace
from pipeline.validator.rules import ValidationContext
from tests.support.tiny_tool import AS_OF, THEN, TinyMapper

HASHER = Hasher(namespace("tiny"))
OWN = "0187b0c7-7c9f-7e4d-bf5e-2a0f1d3c4b5a"
TIMES = st.integers(0, 80_000 * DAY).map(lambda us: us - us % random.Random(us).choice((1, 1_000, 1_000_000)))


def written(times: list[int], *, run: int = 3, cut: int | None = None) -> EventBuffer:
    """Events `{"n":N,"t":"…`, every fourth with a uuid of its own, `run` in a run; the last is cut back."""
    texts = EventBuffer(HASHER)
    for number, time in enumerate(times):
        texts.open += b'{"n":%d,"t":"' % number
        texts.open += SECONDS if not time % 1_000_000 else MILLISECONDS if not time % 1_000 else MICROSECONDS
        if number % 4 == 3:
            texts.own[len(texts.ends)] = OWN
        texts.ends.append(len(texts.open))
        texts.keys.append("" if number % 4 == 3 else f"key {number}")
        texts.times.append(time)
        if number % run == run - 1:
            texts.close_run()
    if cut is not None:
        texts.cut_back(cut)
    texts.close_run()
    return texts


@given(st.lists(TIMES, max_size=12), st.integers(1, 5))
def test_time_and_uuid_are_those_of_the_slow_way(times: list[int], run: int) -> None:
    """What is filled in at the end of a run is format_utc and the key's uuid, whatever the times have in common."""
    texts = written(times, run=run)
    assert split_events(texts.runs, texts.sizes) == [
        f'{{"n":{number},"t":"{format_utc(time)}","uuid":"'.encode()
        + (OWN if number % 4 == 3 else HASHER(f"key {number}")).encode()
        + b'"}'
        for number, time in enumerate(times)
    ]


def test_a_seal_does_not_depend_on_where_runs_end() -> None:
    """The same events in other runs have the same seal, and other events a different one."""
    times = [number * 1_000_000 for number in range(9)]
    assert written(times, run=2).seal == written(times, run=7).seal
    assert written(times).seal != written(times[:-1]).seal


def test_cutting_back_leaves_the_events_before() -> None:
    """A rejected row removes only its own events from the open run."""
    texts = written([0, 1, 2], run=9)
    whole = split_events(texts.runs, texts.sizes)
    again = written([0, 1, 2, 3], run=9, cut=3)
    assert (split_events(again.runs, again.sizes), again.count) == (whole, 3)


@given(st.lists(st.sampled_from([b"", b" ", b"{}", b'{"a":1}', b"\t\r", b"x" * 30])))
def test_rows_are_the_lines_that_are_not_blank(lines: list[bytes]) -> None:
    """Where rows begin."""
    edges = [0]
    for line in lines:
        edges.append(edges[-1] + len(line) + 1)
    assert row_starts(b"\n".join(lines)) == [start for start, line in zip(edges, lines, strict=False) if line.strip()]


def made_of(*rows: bytes) -> tuple[list[int], list[int], list[bytes]]:
    """The row, place in its row and bytes of each event that the tiny mapper makes."""
    options = SealedOptions(as_of=AS_OF)
    context = ValidationContext.of(options, Limits())
    found = RowTransformer(JsonlRows(b"\n".join(rows)), TinyMapper(options), Encoder("tiny", options), context).run()
    return found.row_of, found.positions, found.events


ONE = b'{"event":"e","id":"u","at":%d,"key":"k%d"%s}'


def test_rows_of_one_and_of_many_events_are_numbered_alike() -> None:
    """A row of several events does not change the numbers of the rows after it."""
    one = [ONE % (THEN, number, b"") for number in range(5)]
    many = b'{"many":[' + ONE % (THEN, 8, b"") + b"," + ONE % (THEN, 9, b"") + b"]}"
    row_of, nth, events = made_of(one[0], one[1], many, one[2], many, one[3])
    assert (row_of, nth) == ([0, 1, 2, 2, 3, 4, 4, 5], [0, 0, 0, 1, 0, 0, 1, 0])
    assert len(events) == 8


@pytest.mark.parametrize(
    "own", [b"", b',"$ip":"1.2.3.4"', b',"$ip":null', b',"$ip":"1.2.3.4","$geoip_disable":false', b',"import_name":1']
)
def test_a_repeated_event_is_written_like_a_first_one(own: bytes) -> None:
    """The common case, inlined in the walk, gives what the encoder gives (which writes the first event of a name)."""
    row = ONE % (THEN, 1, b',"p":1.10' + own)
    _, _, events = made_of(row, row, row)
    assert events == [events[0]] * 3
    assert (b'"$ip":"1.2.3.4"' if b"1.2.3.4" in own else b'"$ip":"127.0.0.1"') in events[0]


OLD, NEW = "0829736a-b140-570d-ac78-774cecf956e2", "0829736a-b140-570d-ac78-774cecf956e3"


def encoded(**properties: object) -> bytes:
    """An event with these properties."""
    draft = UnvalidatedEvent("Seen", "u-1", 0, properties, uuid=OLD)
    return Encoder("tiny", SealedOptions(as_of=0, name="first")).encode(draft)


def test_an_encoded_event_is_read_back() -> None:
    """Its identity and its properties, each value as the JSON that is sent."""
    found = read_event(encoded(a=1.5))
    assert (found.event, found.properties.distinct_id, found.uuid) == ("Seen", "u-1", OLD)
    assert found.timestamp == "1970-01-01T00:00:00Z"
    assert bytes(read_properties(encoded(a=1.5))["a"]) == b"1.5"
    for flag in (True, False):  # only `false` stops the service from making a profile
        assert has_profile(read_properties(encoded(**{"$process_person_profile": flag}))) is flag


def test_a_replaced_uuid_changes_nothing_else() -> None:
    """So a duplicate that is sent as an event of its own keeps its content."""
    event = encoded(a='"}')
    assert uuid_of(event) == OLD
    assert replace_uuid(event, NEW) == event.replace(OLD.encode(), NEW.encode())


def test_every_event_carries_the_provenance() -> None:
    """The encoder writes the marks by which an import is found again."""
    options = SealedOptions(as_of=0, name="first")
    written = json.loads(encoded())["properties"]
    assert provenance("tiny", options).items() <= written.items()
    assert provenance("tiny", SealedOptions(as_of=0, provenance=False)) == {}
