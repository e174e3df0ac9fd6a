"""Tools of web analytics over whole sources: every form of the same rows gives the same events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sample_data.generator import matomo, openpanel, umami
from tests.support.sent_events import planned


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_umami_rows_are_the_same_events_in_every_form(tmp_path: Path) -> None:
    """Empty texts of JSON lines and typed times of Parquet mean what cells of CSV mean."""
    rows = [{"event_data": "", **row} for row in umami.events()]
    table, parquet = tmp_path / "website_event.csv", tmp_path / "website_event.parquet"
    table.write_bytes(umami.table_text(rows))
    made = pa.Table.from_pylist(rows)
    at = made.schema.get_field_index("created_at")
    times = made.column(at).cast(pa.timestamp("s")).cast(pa.timestamp("us"))
    pq.write_table(made.set_column(at, "created_at", times), parquet)
    plan, expected = planned(tmp_path / "plan", [table])
    assert (plan.mapping.name, len(expected)) == ("umami", len(rows))
    for other in (write_lines(tmp_path / "website_event.jsonl", rows), parquet):
        assert planned(tmp_path / f"plan{other.suffix}", [other])[1] == expected


def test_openpanel_rows_are_the_same_events_in_every_form(tmp_path: Path) -> None:
    """Properties are an object in JSON lines, a map in Parquet, and JSON text in CSV where the query makes it one."""
    rows = openpanel.events()
    table, parquet = tmp_path / "events.csv", tmp_path / "events.parquet"
    cells = [row | {name: json.dumps(row[name]) for name in ("properties", "groups")} for row in rows]
    table.write_bytes(umami.table_text(cells))
    maps = pa.array([list(row["properties"].items()) for row in rows], pa.map_(pa.string(), pa.string()))
    made = pa.Table.from_pylist([{key: row[key] for key in row if key != "properties"} for row in rows])
    pq.write_table(made.append_column("properties", maps), parquet)
    plan, expected = planned(tmp_path / "plan", [write_lines(tmp_path / "events.jsonl", rows)])
    assert (plan.mapping.name, plan.rejects, len(expected)) == ("openpanel", {}, 10)
    for other in (table, parquet):
        assert planned(tmp_path / f"plan{other.suffix}", [other])[1] == expected


def test_matomo_visits_are_the_same_events_in_both_forms_and_in_its_database(tmp_path: Path) -> None:
    """A list of actions in JSON and numbered columns of CSV in UTF-16 are the same actions, uuids included.

    What the API and the queries of the database both have is the same; uuids are not, so one of them is taken.
    """
    rows = matomo.visits()
    document, table, folder = tmp_path / "visits.json", tmp_path / "visits.csv", tmp_path / "queried"
    document.write_bytes(matomo.document(rows))
    table.write_bytes(matomo.table_text(rows))
    folder.mkdir()
    for name, queried in zip(("actions", "conversions"), matomo.queried(rows), strict=True):
        write_lines(folder / f"{name}.jsonl", queried)
    (_, expected), (plan, found) = planned(tmp_path / "one", [document]), planned(tmp_path / "two", [table])
    assert (plan.mapping.name, plan.rejects, plan.skips) == ("matomo", {}, {})
    assert len(found) == sum(len(row["actionDetails"]) for row in rows)
    assert [event["uuid"] for event in found] == [event["uuid"] for event in expected]
    assert [_texts(event) for event in found] == [_texts(event) for event in expected]
    plan, found = planned(tmp_path / "three", [folder])
    assert (plan.mapping.name, plan.rejects, plan.skips) == ("matomo-database", {}, {})
    assert len(found) == len(expected)
    assert {_seen(event) for event in found} == {_seen(event) for event in expected}


def _seen(event: dict[str, Any]) -> tuple[Any, ...]:
    """What both ways out have."""
    names = ("distinct_id", "$session_id", "$current_url", "title", "$referrer", "$os", "$browser", "$device_type")
    names += ("utm_campaign", "utm_medium", "siteSearchKeyword", "eventName", "revenue", "order_id")
    names += ("$geoip_country_code",)
    return (event["event"], event["timestamp"], *(event["properties"].get(name) for name in names))


def _texts(event: dict[str, Any]) -> dict[str, Any]:
    """The event with the numbers in its properties as texts, which all cells of CSV are."""
    return event | {"properties": {name: str(value) for name, value in event["properties"].items()}}


def test_a_visit_of_500_actions_is_a_warning(tmp_path: Path) -> None:
    """Matomo leaves out what comes after them, and its answer does not always say so."""
    (visit, *_) = matomo.visits()
    first = visit["actionDetails"][0]
    document = tmp_path / "visits.json"
    for count, warnings in ((499, {}), (500, {"actions_left_out": 1})):
        visit["actionDetails"] = [first | {"pageId": str(n), "timestamp": first["timestamp"] + n} for n in range(count)]
        document.write_bytes(matomo.document([visit]))
        plan, events = planned(tmp_path / f"plan-{count}", [document])
        assert (len(events), plan.warnings) == (count, warnings)
