"""What a worker records about each event of a block agrees with the event."""

from __future__ import annotations

import io
import json
from pathlib import Path
from uuid import UUID

import pyarrow.parquet as pq
import pytest
import xxhash

from pipeline.extractors import blocks, open_source
from pipeline.models import Note, PersonUpdate, SealedOptions
from pipeline.options import Limits
from pipeline.transform.block import BlockTransformer, observe_unit
from pipeline.transform.events import KeyedRow
from pipeline.transform.facts import SCHEMA, facts_file
from pipeline.transform.staged import make_folders
from pipeline.transform.tasks import Task, TransformConfig, Unit
from tests.support.tiny_tool import AS_OF, THEN, TinyCompile, row, write

ROWS = [
    row("Seen", "ü-1", key="a", got=THEN + 5),
    {"many": [row("Bought", "u-2"), {"skip": "not_wanted"}, row("Seen", "u-2", at=THEN + 7)]},
    {"skip": "not_wanted"},
    row("Seen", "ü-1"),
]


def facts(place: Path) -> tuple[BlockTransformer, Task, bytes]:
    """The transformer and the only task of the rows, and their facts as a worker leaves them."""
    folder = place / "staged"
    make_folders(folder)
    source = open_source([str(write(place / "rows.jsonl", ROWS))])
    config = TransformConfig(TinyCompile(), SealedOptions(AS_OF), Limits(), source.parts, staging=folder)
    transformer = BlockTransformer(config)
    (block,) = blocks(source.parts[0])
    task = Task(3, block)
    assert observe_unit(transformer, Unit(0, [task])) == 4
    left = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    assert left == ["events/00000003.pack", "facts/00000003.parquet", "units/00000000"]
    return transformer, task, facts_file(folder / "facts", 3).read_bytes()


def test_the_facts_of_a_block_are_those_of_its_events(tmp_path: Path) -> None:
    """Ids, names, times, sizes and digests, in the order of the events."""
    transformer, task, content = facts(tmp_path)
    table = pq.read_table(io.BytesIO(content))
    assert table.schema.names == SCHEMA.names
    events = transformer.transform(task).events
    assert len(events) == 4
    for event, fact in zip(events, table.to_pylist(), strict=True):
        said = json.loads(event)
        content = xxhash.xxh3_128_digest(event)
        assert (fact["name"], fact["distinct_id"]) == (said["event"], said["properties"]["distinct_id"])
        assert UUID(int=fact["hi"] << 64 | fact["lo"]) == UUID(said["uuid"])
        assert (fact["content_hi"], fact["content_lo"]) == tuple(
            int.from_bytes(half, "little") for half in (content[:8], content[8:])
        )
        assert (fact["block"], fact["kind"], fact["bytes"]) == (3, "event", len(event))
    assert table["row"].to_pylist() == [0, 1, 1, 3]
    assert table["position"].to_pylist() == [0, 0, 2, 0]
    assert table["row_events"].to_pylist() == [1, 2, 2, 1]
    assert table["keyless"].to_pylist() == [False, True, True, True]
    assert table["time"].to_pylist() == [THEN, THEN, THEN + 7, THEN]
    assert table["received"].to_pylist() == [THEN + 5, 0, 0, 0]
    assert len(set(table["person"].to_pylist())) == 2


@pytest.mark.parametrize(("placeholder", "flag"), [("", b"false"), ("null", b"true")])
def test_rows_without_an_event_are_compared_as_in_earlier_versions(placeholder: str, flag: bytes) -> None:
    """Byte for byte: this digest decides which of two copies of equal rank is sent."""
    update = PersonUpdate(None, THEN, Note(set={"plan": "pro"}), THEN + 5, placeholder, row_key="k")
    keyed = KeyedRow.of(0, 0, [update], skipped=False)
    assert keyed is not None
    assert keyed.content == (
        b'[{"distinct_id":null,"time":%d,"note":{"user":null,"anonymous":null,"set":{"plan":"pro"},"set_once":null,'
        b'"unset":[]},"received":null,"placeholder_id":%b,"warnings":[],"row_key":null}]' % (THEN, flag)
    )
    assert (update.received, update.placeholder_id, update.row_key) == (THEN + 5, placeholder, "k")
