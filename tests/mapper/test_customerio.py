"""Customer.io over whole exports: metrics have the person of their delivery, however the two come together."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from sample_data.generator import customerio
from tests.support.sent_events import planned


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
