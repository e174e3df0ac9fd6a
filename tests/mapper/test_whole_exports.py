"""Tools over whole exports: every way out of a tool gives the same events, and what cannot be told stops the plan."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline.errors import UnfitExport
from sample_data.generator import braze, clevertap, mixpanel_warehouse, mparticle, snowplow
from sample_data.generator.spelling import lines, row
from tests.support.sent_events import planned


def buckets(folder: Path) -> Path:
    """The Avro files of the sample in their folders."""
    for kind, table in braze.rows().items():
        path = folder / braze.path_of(kind)
        path.parent.mkdir(parents=True)
        path.write_bytes(braze.avro(kind, table))
    return folder


def test_both_forms_of_braze_give_the_same_events(tmp_path: Path) -> None:
    """Lines of the connector, its pages and the Avro files: every event with its uuid, and every merge."""
    made = braze.rows()
    text, page = tmp_path / "lines.jsonl", tmp_path / "page.json"
    text.write_text("\n".join(braze.connector(made)), encoding="utf-8")
    page.write_text('{"events": [\n' + ",\n".join(braze.connector(made)) + "\n]}", encoding="utf-8")
    expected, events = planned(tmp_path / "avro", [buckets(tmp_path / "bucket")])
    assert expected.skips == {"duplicate_event": 1}
    assert expected.events.phases["identities"] == 10
    for source, settings in ((text, {}), (page, {"rows": "events"})):
        plan, found = planned(tmp_path / source.stem, [source], **settings)
        assert (found, plan.events.phases) == (events, expected.events.phases)


def test_a_file_of_braze_without_its_folder_stops_the_plan(tmp_path: Path) -> None:
    """Its events would have no name."""
    kind = "users.behaviors.Purchase"
    (tmp_path / "a.avro").write_bytes(braze.avro(kind, braze.rows()[kind]))
    with pytest.raises(UnfitExport, match="cannot recognise the table"):
        planned(tmp_path / "plan", [tmp_path / "a.avro"])
    _, events = planned(tmp_path / "other", [tmp_path / "a.avro"], table=kind)
    assert {event["event"] for event in events} == {"purchase"}


@pytest.mark.parametrize(("zone", "ready"), [("Asia/Kolkata", True), ("UTC", False)])
def test_the_zone_of_clevertap_is_held_against_the_starts_of_sessions(tmp_path: Path, zone: str, ready: bool) -> None:
    """The id of a session is its start in UTC, so a zone that the account did not have is not believed."""
    (tmp_path / "events.csv.gz").write_bytes(gzip.compress(clevertap.table_text()))
    plan, _ = planned(tmp_path / "plan", [tmp_path / "events.csv.gz"], zone=zone)
    assert (plan.verdict != "not-ready") == ready
    assert [gate.name for gate in plan.gates] == ([] if ready else ["zone"])


def as_input(batch: dict[str, Any]) -> dict[str, Any]:
    """The batch with its identities in the form of the input."""
    identities = {one["identity_type"]: one["identity"] for one in batch["user_identities"]}
    return {**batch, "user_identities": identities}


def test_every_form_of_mparticle_gives_the_same_events(tmp_path: Path) -> None:
    """Lines, one document with a list of all batches, and the identities of the input."""
    text, document, inputs = tmp_path / "a.jsonl", tmp_path / "b.json", tmp_path / "c.jsonl"
    text.write_text("\n".join(mparticle.batches()), encoding="utf-8")
    document.write_text(json.dumps(mparticle.rows(), indent=1), encoding="utf-8")
    inputs.write_text("\n".join(json.dumps(as_input(one)) for one in mparticle.rows()), encoding="utf-8")
    expected, events = planned(tmp_path / "plan", [text])
    assert Counter(event["event"] for event in events) == {
        "Application Opened": 8, "$screen": 8, "Lamp Switched": 8, "purchase": 6,
    }  # fmt: skip
    assert expected.events.phases["identities"] == 6
    for source in (document, inputs):
        plan, found = planned(tmp_path / f"plan-{source.stem}", [source])
        assert (found, plan.events.phases) == (events, expected.events.phases)


def archive(folder: Path, made: list[snowplow.Event]) -> Path:
    """The file of the stream archive in its folders."""
    path = folder / snowplow.PATH
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(snowplow.archive(made)))
    return folder


def test_every_form_of_snowplow_gives_the_first_of_its_copies(
    tmp_path: Path,
) -> None:
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


def test_a_row_of_snowplow_with_a_cell_too_few_is_rejected_by_itself(tmp_path: Path) -> None:
    """The layout of a file without a header is that of almost all of its rows."""
    found = snowplow.archive(snowplow.events()).splitlines(keepends=True)
    found.insert(3, found[3].partition(b"\t")[2])
    (tmp_path / "part-00000").write_bytes(b"".join(found))
    plan, events = planned(tmp_path / "plan", [tmp_path / "part-00000"])
    assert (plan.rejects, len(events)) == ({"bad_csv_row": 1}, 20)


NEW_YORK = "America/New_York"


def identity(event: dict[str, Any]) -> tuple[str, ...]:
    return (event["uuid"], event["event"], event["properties"]["distinct_id"], event["timestamp"])


def test_a_copy_of_mixpanels_export_is_the_same_events(tmp_path: Path) -> None:
    """Names, uuids, people and times of a project in New York agree, over the days on which its clock changes.

    Not of rows without $insert_id, whose uuids are of their whole content, nor of one with a property `properties`.
    """
    found = [
        one
        for one in mixpanel_warehouse.records()
        if one["properties"].keys() >= {"distinct_id", "$insert_id"} and "properties" not in one["properties"]
    ]
    raw = tmp_path / "raw.jsonl"
    raw.write_bytes(lines([row(one) for one in found]))
    _, expected = planned(tmp_path / "plan", [raw], zone=NEW_YORK)
    assert len(expected) > 50
    copies: tuple[Callable[[Any], Any], ...] = (
        mixpanel_warehouse.fivetran, mixpanel_warehouse.airbyte, mixpanel_warehouse.service
    )  # fmt: skip
    for copy in copies:
        text, file = copy(found), tmp_path / f"{copy.__name__}.data"
        file.write_bytes(text if isinstance(text, bytes) else lines(text))
        plan, events = planned(tmp_path / copy.__name__, [file], zone=NEW_YORK)
        assert plan.mapping.name == "mixpanel-warehouse"
        assert sorted(map(identity, events)) == sorted(map(identity, expected)), copy


def test_a_copy_without_its_zone_is_not_ready(tmp_path: Path) -> None:
    """The receive times show that a loader's UTC is the project's clock."""
    file = tmp_path / "copy.jsonl"
    file.write_bytes(lines(mixpanel_warehouse.airbyte(mixpanel_warehouse.records())))
    plan, _ = planned(tmp_path / "plan", [file])
    assert plan.verdict == "not-ready"
    assert "zone" in [gate.name for gate in plan.gates if gate.level == "stop"]
