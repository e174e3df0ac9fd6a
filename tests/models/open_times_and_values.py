"""Cases in which the product differs from the models of instants and values, smallest first. Not collected: each moves
into its test file when the product is corrected."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.models.test_values import compare
from tests.models.values import Items, Row
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


@pytest.mark.parametrize(
    ("decoder", "row"),
    [
        ({"nest": ["p"]}, [*SEEN, ("p", [("x", "1")]), ("p.x", "2")]),
        (
            {"loaded": "yes", "into": "p", "stay": ["name", "user", "at"], "names": ["$os"]},
            [*SEEN, ("p", [("x", "1")]), ("x", "2")],
        ),
        ({"lower_names": ["ID"]}, [*SEEN, ("ID", "1"), ("id", "2")]),
        ({"explode": "items"}, [*SEEN, ("x", "1"), ("items", Items([[("x", "2")]]))]),
        ({"explode": "items", "prefix": "s_"}, [("x", "1"), ("items", Items([[*SEEN, ("s_x", "2")]]))]),
    ],
    ids=["nest", "loaded", "lower_names", "explode", "prefix"],
)
def test_25_of_two_members_with_one_name_none_goes_uncounted(decoder: dict[str, Any], row: Row) -> None:
    """Both are sent, or the loss is a warning."""
    opened = {"open": "/p", "rest": "drop"} if decoder.keys() & {"nest", "loaded"} else KEPT
    compare({"decoder": decoder, "properties": opened}, [row])


@pytest.mark.parametrize("opened", [{"open": "/p", "rest": "drop"}, {"rest": "drop", "set": {"x": "/p/x"}}])
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_25_a_name_twice_in_an_object_is_counted(opened: dict[str, Any], form: str) -> None:
    """In an object of JSON, and in a struct of Parquet."""
    content = b'{"name":"Seen","user":"u-1","at":1600000000,"p":{"x":1,"x":2}}'
    if form == "parquet":
        struct = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
        table = pa.table([["Seen"], ["u-1"], [1600000000], struct], ["name", "user", "at", "p"])
        pq.write_table(table, made := io.BytesIO())
        content = made.getvalue()
    plan, events = sent(HEAD | {"properties": opened}, {f"rows.{form}": content})
    both = {"1", "2"} <= {*events[0].own_properties().values()}
    assert both or plan.warnings.get("duplicate_key", 0) + plan.warnings.get("name_collision", 0)
