"""Which hog functions would fire for an event follows from their filters."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.local_service.page.functions import firing_for, would_fire

VIEW, PAY = {"id": "$pageview"}, {"id": "paid"}
NARROW = [{"key": "plan", "value": "pro"}]


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({}, "yes"),
        ({"filters": None}, "yes"),
        ({"filters": {"events": [], "actions": []}}, "yes"),
        ({"enabled": False}, "no"),
        ({"deleted": True}, "no"),
        ({"type": "transformation"}, "yes"),
        ({"type": "site_destination"}, "no"),
        ({"type": "source_webhook"}, "no"),
        ({"filters": {"events": [PAY]}}, "yes"),
        ({"filters": {"events": [VIEW]}}, "no"),
        ({"filters": {"events": [VIEW, PAY]}}, "yes"),
        ({"filters": {"events": [{"id": None, "name": "All events"}]}}, "yes"),
        ({"filters": {"events": [{"name": "paid"}]}}, "yes"),
        ({"filters": {"events": [PAY | {"properties": NARROW}]}}, "may"),
        ({"filters": {"events": [PAY | {"properties": NARROW}, PAY]}}, "yes"),
        ({"filters": {"events": [PAY], "properties": NARROW}}, "may"),
        ({"filters": {"events": [VIEW], "properties": NARROW}}, "no"),
        ({"filters": {"properties": NARROW}}, "may"),
        ({"filters": {"filter_test_accounts": True}}, "may"),
        ({"filters": {"actions": [{"id": "7"}]}}, "may"),
        ({"filters": {"actions": [{"id": "7"}], "events": [PAY]}}, "yes"),
        ({"filters": {"actions": [{"id": "7"}], "events": [VIEW]}}, "may"),
        ({"filters": {"source": "person-updates"}}, "may"),
        ({"filters": {"source": "data-warehouse-table"}}, "no"),
        ({"filters": {"events": [{"id": "", "name": "All events"}]}}, "yes"),
        ({"filters": {"events": [{"id": "7", "type": "actions"}]}}, "may"),
        ({"type": "novel"}, "may"),
        ({"type": "novel", "filters": {"events": [VIEW]}}, "no"),
        ({"type": ""}, "yes"),
        ({"status": {"state": 3}}, "may"),
        ({"status": {"state": 1}}, "yes"),
        ({"status": {"state": 3}, "filters": {"events": [VIEW]}}, "no"),
        ({"mappings": [{"filters": {"events": [PAY]}}, {"filters": {"events": [VIEW]}}]}, "yes"),
        ({"mappings": [{"filters": {"events": [VIEW]}}]}, "no"),
        ({"mappings": [{"filters": {"events": [PAY]}}], "filters": {"properties": NARROW}}, "may"),
        ({"mappings": [{"filters": {"events": [VIEW]}}], "filters": {"properties": NARROW}}, "no"),
        ({"mappings": [{}]}, "yes"),
        ({"filters": "odd"}, "yes"),
        ({"filters": {"events": ["odd"]}}, "no"),
    ],
)
def test_a_function_fires_by_its_filters(fields: dict[str, Any], verdict: str) -> None:
    """An event name decides; a filter that is not evaluated may fire."""
    assert would_fire({"enabled": True, "type": "destination"} | fields, "paid") == verdict


def test_the_functions_that_fire_keep_their_order() -> None:
    """The others are left out."""
    functions = [
        {"name": "a", "enabled": True},
        {"name": "b"},
        {"name": "c", "enabled": True, "filters": {"properties": NARROW}},
    ]
    assert firing_for(functions, "x") == [("a", "yes"), ("c", "may")]
