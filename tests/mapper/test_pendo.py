"""Pendo over whole exports: a day delivered again, matched events, forms of the same rows, times of profiles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec import Raw

from pipeline.mapper import compile, load
from pipeline.models import PersonUpdate, SealedOptions
from sample_data.generator import pendo
from tests.support.sent_events import planned

FIRST, SECOND = (f"{pendo.ROOT}/{export}" for export in pendo.EXPORTS[:2])


def written(folder: Path, *names: str) -> Path:
    """The files of the sample, or those whose paths have one of these texts in them."""
    for name, content in pendo.files().items():
        if not names or any(part in name for part in names):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return folder


def identities(days: list[tuple[str, bool]], skipped: tuple[str, ...] = ("focus", "meta", "identify")) -> int:
    return sum(row["eventType"] not in skipped for day, final in days for row in pendo.events(day, final=final))


def test_without_a_manifest_each_event_is_sent_once(tmp_path: Path) -> None:
    """Of both deliveries of the day: also the event that Pendo took out."""
    plan, events = planned(tmp_path / "plan", [written(tmp_path / "export", "allevents", "alltracktypes")])
    assert len(events) == identities([(pendo.DAYS[0], True), (pendo.DAYS[1], False)]) + 1
    assert plan.skips["duplicate_event"] == identities([(pendo.DAYS[0], True)]) - 1


def test_matched_events_alone_have_the_names_of_their_features(tmp_path: Path) -> None:
    """And keys of their own: two features may have one event."""
    plan, events = planned(tmp_path / "plan", [written(tmp_path / "export", "matchedEvents", f"{FIRST}/allfeatures")])
    assert plan.mapping.name == "pendo"
    assert {(event["event"], event["properties"]["feature_name"]) for event in events} == {("Buy button", "Buy button")}


def test_avro_and_lines_of_json_are_the_same_events(tmp_path: Path) -> None:
    """Times as milliseconds, and an object in place of its text."""
    avro = written(tmp_path / "avro", f"{SECOND}/all")
    lines = tmp_path / "json" / "allevents.jsonl"
    written(tmp_path / "json", f"{SECOND}/alltracktypes", f"{FIRST}/allguides")
    lines.write_text("\n".join(json.dumps(_plain(row)) for row in _rows()), encoding="utf-8")
    written(tmp_path / "avro", f"{FIRST}/allguides")
    _, expected = planned(tmp_path / "two", [avro])
    _, found = planned(tmp_path / "three", [tmp_path / "json"])
    assert found == expected


def _rows() -> list[dict[str, Any]]:
    return [*pendo.events(pendo.DAYS[0], final=True), *pendo.events(pendo.DAYS[1], final=False)]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    at = round(row["browserTimestamp"].timestamp() * 1000)
    text = row.get("propertiesJson")
    return {**row, "periodId": str(row["periodId"]), "browserTimestamp": at} | (
        {"propertiesJson": json.loads(text)} if text else {}
    )


def test_a_profile_has_the_time_of_its_last_change() -> None:
    """In every form; without one the plan dates it."""
    mapper = compile(load("pendo"), SealedOptions(as_of=0, settings={"table": "visitors"}))
    forms = [
        '{"visitorId":"u","metadata":{"auto":{"lastupdated":1685611800123}}}',
        '{"visitorId":"u","metadata_auto":{"x":1},"lastupdated":"2023-06-01T09:30:00.123Z"}',
        '{"id":"u","auto__lastupdated":"2023-06-01T09:30:00.123Z"}',
        '{"id":"u","auto":{"lastupdated":1685611800123}}',
        '{"id":"u","agent__plan":"pro"}',
    ]
    found = []
    for form in forms:
        outcome = mapper.map_row({name: Raw(json.dumps(value)) for name, value in json.loads(form).items()}, True)
        assert isinstance(outcome, PersonUpdate)
        found.append(outcome.time)
    assert found == [*[1685611800123000] * 4, None]
