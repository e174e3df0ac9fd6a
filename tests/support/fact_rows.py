"""Facts written out, and the tables of a plan that has them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.plan.fact_tables import FactTables
from pipeline.plan.sealed.directory import Directory
from pipeline.transform.facts import SCHEMA, facts_file

DEFAULTS: dict[str, Any] = {
    "block": 0, "row": 0, "position": 0, "row_events": 1, "kind": "event", "name": "Seen", "distinct_id": "u-1",
    "person": 1, "time": 0, "received": 0, "hi": 0, "lo": 0, "keyless": False, "content_hi": 0, "content_lo": 0,
    "same": 0, "bytes": 0,
}  # fmt: skip


def fact_tables(place: Path, facts: Iterable[dict[str, Any]], *, earliest: bool = False) -> FactTables:
    """The tables of a plan in `place` with these facts, by block; facts that are not given are as in DEFAULTS."""
    directory = Directory(place)
    directory.block_facts.mkdir(parents=True)
    whole = [DEFAULTS | fact for fact in facts]
    for block, some in groupby(whole, key=lambda fact: fact["block"]):
        pq.write_table(pa.Table.from_pylist(list(some), schema=SCHEMA), facts_file(directory.block_facts, block))
    return FactTables(directory, earliest=earliest)
