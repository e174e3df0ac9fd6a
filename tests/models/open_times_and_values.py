"""Cases in which the product differs from the models of instants and values, smallest first. Not collected: each moves
into its test file when the product is corrected."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.models.values import Row
from tests.support.modelled import HEAD, sent

SEEN: Row = [("name", '"Seen"'), ("user", '"u-1"'), ("at", "1600000000")]
KEPT: dict[str, Any] = {"rest": "keep", "drop": ["name", "user", "at"]}


def shipped(mapping: str, row: dict[str, Any], **options: Any) -> list[tuple[str, dict[str, str]]]:
    """The times and properties that a shipped mapping makes of a row."""
    made = sent(mapping, {"rows.json": json.dumps([row]).encode()}, **options)
    return [(event.timestamp, event.own_properties()) for event in made.events]


@pytest.mark.parametrize("named", [True, False])
def test_20_a_gap_of_a_quarter_of_an_hour_is_not_the_offset_of_the_site(named: bool) -> None:
    """Where the first action of a visit is missing, the named zone gives the time, and without one there is none."""
    start = 1_705_280_700  # 01:05 UTC; the site is in Berlin, an hour ahead, and the action is 15 minutes after
    visit: dict[str, Any] = {"idSite": "3", "idVisit": "7", "visitorId": "8f4d3e27dda1494c", "siteCurrency": "EUR"}
    visit |= {"firstActionTimestamp": start, "lastActionTimestamp": start + 900}
    visit["actionDetails"] = [{"timestamp": start + 4500, "type": "action", "url": "https://a.example/", "pageId": "9"}]
    zone = ("Europe/Berlin",) if named else ()
    made = shipped("matomo", visit, timezone=zone, max_rejects="100%")
    assert [time for time, _ in made] == (["2024-01-15T01:20:00Z"] if named else [])


def test_25_a_name_twice_in_an_object_is_counted() -> None:
    """In an object of JSON of which a reference names a member."""
    content = b'{"name":"Seen","user":"u-1","at":1600000000,"p":{"x":1,"x":2}}'
    plan, _ = sent(HEAD | {"properties": {"rest": "drop", "set": {"x": "/p/x"}}}, {"rows.jsonl": content})
    assert plan.warnings.get("duplicate_key", 0)
