"""Cases in which the product differs from the models of instants and values, smallest first. They are not collected:
each moves into its test file when the product is corrected."""

from __future__ import annotations

from typing import Any

from tests.models.values import Row
from tests.support.modelled import HEAD, sent

SEEN: Row = [("name", '"Seen"'), ("user", '"u-1"'), ("at", "1600000000")]
KEPT: dict[str, Any] = {"rest": "keep", "drop": ["name", "user", "at"]}


def test_25_a_name_twice_in_an_object_is_counted() -> None:
    """In an object of JSON with a member that a reference names."""
    content = b'{"name":"Seen","user":"u-1","at":1600000000,"p":{"x":1,"x":2}}'
    plan, _ = sent(HEAD | {"properties": {"rest": "drop", "set": {"x": "/p/x"}}}, {"rows.jsonl": content})
    assert plan.warnings.get("duplicate_key", 0)
