"""Preflight looks up the plan's people: whose values would change, and whom merges would affect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline import api
from pipeline.options import PlanOptions, UndoListOptions
from pipeline.plan.sealed.freshness import open_plan
from tests.support.deliveries import run
from tests.support.management_service import Asking
from tests.support.preflight import A, look, planned_rows, send


def live(event: str, person: str, **properties: Any) -> dict[str, Any]:
    return {"event": event, "properties": {"distinct_id": person} | properties, "timestamp": "2024-05-01T00:00:00Z"}


def people(tmp_path: Path, policy: str) -> Path:
    """A plan of 20 Mixpanel profiles, u-0 to u-19, each with a plan and a city."""
    source = tmp_path / "people.jsonl"
    said = {"plan": "old", "city": "Ulm", "$last_seen": "2023-01-01T00:00:00"}
    rows = [{"$distinct_id": f"u-{number}", "$properties": said} for number in range(20)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    options = PlanOptions(mapping="mixpanel", timezone="UTC", profile_policy=policy, workers=0)
    plan = api.plan_export(source, tmp_path / "plan", options)
    assert plan.events.phases["persons"] == 20
    return tmp_path / "plan"


@pytest.mark.parametrize(
    ("policy", "level", "changed"),
    [("overwrite", "warning", {"plan": 2}), ("fill-only", "ok", {}), ("prefix=mp_", "ok", {})],
)
def test_values_of_live_persons_are_counted_by_policy(
    ask: Asking, tmp_path: Path, policy: str, level: str, changed: dict[str, int]
) -> None:
    """Three persons are live there; two have another value, one has the plan's. Their former values are in the undo
    list of what is sent afterwards, by the names that the plan writes."""
    for number, value in ((0, "new"), (1, "new"), (2, "old")):
        send(ask, live("$set", f"u-{number}", **{"$set": {"plan": value}}))
    directory = people(tmp_path, policy)
    found = look(ask.service.url, directory)["live_profiles"]
    assert found[0] == level
    assert "3 of 20 profiles are of live persons" in found[1]
    assert ("2 persons would get other values: plan (2)" in found[1]) == bool(changed)
    assert run(directory, ask.service.url, key=A).balanced
    assert look(ask.service.url, directory)
    undo = api.list_sent(directory, UndoListOptions())
    before = [json.loads(line) for line in (directory / "undo-list/profiles-before.jsonl").read_text().splitlines()]
    name = "mp_" if policy.startswith("prefix") else ""
    had = {one["distinct_id"]: (one["properties"], f"{name}city" in one["absent"]) for one in before}
    values = [{}, {}, {}] if name else [{"plan": "new"}, {"plan": "new"}, {"plan": "old"}]
    assert had == {f"u-{number}": (value, True) for number, value in enumerate(values)}
    assert (undo.profiles, undo.profiles_before) == (20, 3)
    assert "the earlier values of 3 of 20 profiles" in (directory / "undo-list/README.txt").read_text()


def test_merges_and_values_of_live_persons_are_reported(ask: Asking, tmp_path: Path) -> None:
    """One merge would add history to a person with live events, one would be refused; the service copies some
    properties of events to their persons, whatever the time of the event."""
    rows = [
        {"event": "Seen", "timestamp": f"2023-01-02T00:00:0{n}Z", "distinct_id": user, "anonymous_id": f"d-{n}"}
        for n in range(5)
        for user in ("", f"u-{n}")
    ]
    directory = planned_rows(tmp_path / "merges", *rows)
    assert open_plan(directory)[0].events.phases["identities"] == 5
    assert look(ask.service.url, directory)["live_merges"][0] == "ok"
    send(ask, live("$identify", "u-0", **{"$anon_distinct_id": "other-0"}), live("Seen", "u-0"),
         live("$identify", "d-1", **{"$anon_distinct_id": "other-1"}), live("Seen", "u-2"))  # fmt: skip
    level, detail = look(ask.service.url, directory)["live_merges"]
    assert level == "warning"
    assert "1 of 5 merges would add history to identified persons with live events" in detail
    assert "1 of 5 merges would be refused by the service" in detail
    rows = [
        {"event": "Seen", "distinct_id": f"v-{number}", "timestamp": "2023-01-02T00:00:00Z", "$browser": "Old"}
        for number in range(5)
    ]
    directory = planned_rows(tmp_path / "values", *rows)
    assert look(ask.service.url, directory)["promoted_values"][0] == "ok"
    send(ask, live("$set", "v-1", **{"$set": {"$browser": "New"}}), live("$set", "v-2", **{"$set": {"plan": "p"}}))
    level, detail = look(ask.service.url, directory)["promoted_values"]
    assert level == "warning"
    assert "2 of 5 ids of events that were looked up have a person at the target; on 1 of them" in detail
