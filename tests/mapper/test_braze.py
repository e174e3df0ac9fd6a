"""Braze over whole sources: a folder tells the type of its files, and both forms give the same events."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import UnfitExport
from sample_data.generator import braze
from tests.support.sent_events import planned


def buckets(folder: Path) -> Path:
    """The Avro files of the sample in their folders."""
    for kind, table in braze.rows().items():
        path = folder / braze.path_of(kind)
        path.parent.mkdir(parents=True)
        path.write_bytes(braze.avro(kind, table))
    return folder


def test_both_forms_give_the_same_events(tmp_path: Path) -> None:
    """Lines of the connector, its pages and the Avro files: every event with its uuid, and every merge."""
    made = braze.rows()
    lines, page = tmp_path / "lines.jsonl", tmp_path / "page.json"
    lines.write_text("\n".join(braze.connector(made)), encoding="utf-8")
    page.write_text('{"events": [\n' + ",\n".join(braze.connector(made)) + "\n]}", encoding="utf-8")
    expected, events = planned(tmp_path / "avro", [buckets(tmp_path / "bucket")])
    assert expected.skips == {"duplicate_event": 1}
    assert expected.events.phases["identities"] == 10
    for source, settings in ((lines, {}), (page, {"rows": "events"})):
        plan, found = planned(tmp_path / source.stem, [source], **settings)
        assert (found, plan.events.phases) == (events, expected.events.phases)


def test_a_file_without_its_folder_stops_the_plan(tmp_path: Path) -> None:
    """Its events would have no name."""
    kind = "users.behaviors.Purchase"
    (tmp_path / "a.avro").write_bytes(braze.avro(kind, braze.rows()[kind]))
    with pytest.raises(UnfitExport, match="cannot recognise the table"):
        planned(tmp_path / "plan", [tmp_path / "a.avro"])
    _, events = planned(tmp_path / "other", [tmp_path / "a.avro"], table=kind)
    assert {event["event"] for event in events} == {"purchase"}
