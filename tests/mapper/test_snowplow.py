"""Snowplow over whole sources: every way out gives the same events, and copies are one event."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow.parquet as pq

from sample_data.generator import snowplow
from tests.support.sent_events import planned


def archive(folder: Path, made: list[snowplow.Event]) -> Path:
    """The file of the stream archive in its folders."""
    path = folder / snowplow.PATH
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(snowplow.archive(made)))
    return folder


def test_every_form_gives_the_events_of_the_archive_and_of_copies_the_one_collected_first(tmp_path: Path) -> None:
    """Columns of a warehouse in either spelling, JSON of the SDKs and self-describing JSON in cells.

    A copy that was collected later has another derived time; one id with two fingerprints is two events.
    """
    made = snowplow.events()
    expected, events = planned(tmp_path / "one", [archive(tmp_path / "bucket", made)])
    (tmp_path / "events.csv").write_bytes(snowplow.table_text(made))
    (tmp_path / "events.jsonl").write_text("\n".join(snowplow.lines(made)), encoding="utf-8")
    pq.write_table(snowplow.table(made), tmp_path / "events.parquet")
    for form in ("csv", "jsonl", "parquet"):
        plan, found = planned(tmp_path / form, [tmp_path / f"events.{form}"])
        assert plan.mapping.name == expected.mapping.name == "snowplow"
        assert (found, plan.events.phases, plan.skips) == (events, expected.events.phases, expected.skips), form
    assert expected.skips == {"page_ping": 2, "duplicate_event": 1, "superseded": 1, "spider": 1}
    twice = [event for event in events if event["properties"]["event_id"] == events[0]["properties"]["event_id"]]
    assert [event["event"] for event in twice] == ["$pageview", "link_click"]
    assert twice[0]["properties"]["collector_tstamp"] == "2023-11-14T22:40:20.843Z"


def test_a_row_with_a_cell_too_few_is_rejected_by_itself(tmp_path: Path) -> None:
    """The layout of a file without a header is that of almost all of its rows."""
    lines = snowplow.archive(snowplow.events()).splitlines(keepends=True)
    lines.insert(3, lines[3].partition(b"\t")[2])
    (tmp_path / "part-00000").write_bytes(b"".join(lines))
    plan, events = planned(tmp_path / "plan", [tmp_path / "part-00000"])
    assert (plan.rejects, len(events)) == ({"bad_csv_row": 1}, 20)
