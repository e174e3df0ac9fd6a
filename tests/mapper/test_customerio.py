"""Customer.io over whole exports: metrics have the person of their delivery, however the two come together."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from sample_data.generator import customerio
from tests.support.sent_events import planned

PAGE = Path(__file__).parents[2] / "docs/use/sources/customerio.md"


def bucket(folder: Path) -> Path:
    folder.mkdir()
    for name, table in customerio.tables().items():
        pq.write_table(table, folder / name)
    return folder


def test_the_latest_row_of_a_step_counts(tmp_path: Path) -> None:
    """Of two rows of one id the one with the greater seq_num, whatever file it is in."""
    plan, events = planned(tmp_path / "plan", [bucket(tmp_path / "customerio")])
    assert plan.skips == {"deleted_person": 1, "duplicate_event": 1, "superseded": 1}
    assert [e["properties"]["explanation"] for e in events if "explanation" in e["properties"]] == ["The wait is over"]


def test_tables_that_are_joined_before_give_the_same_events(tmp_path: Path) -> None:
    """By the statements that the documentation shows, where there are too many rows to look up."""
    source = bucket(tmp_path / "customerio")
    _, expected = planned(tmp_path / "expected", [source])
    statements = re.search(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert statements is not None
    joined = tmp_path / "joined"
    joined.mkdir()
    duckdb.sql(statements[1].replace("'customerio/", f"'{source}/").replace("'joined/", f"'{joined}/"))
    for path in source.iterdir():
        if path.name.startswith(("people", "attributes", "campaigns")):
            path.rename(joined / path.name)
    _, events = planned(tmp_path / "plan", [joined])
    assert events == expected
