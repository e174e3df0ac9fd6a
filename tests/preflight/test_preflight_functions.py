"""Preflight names the hog functions that would fire on imported events, or change them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.config import Secret
from pipeline.local_service.page.functions import would_fire
from pipeline.options import PreflightOptions
from pipeline.plan.sealed.freshness import open_plan
from pipeline.preflight.firing import matched
from pipeline.preflight.run import PreflightRequest, check_target
from tests.support.management_service import ALL, LIST, Asking, asking
from tests.support.preflight import HOG, A, function
from tests.support.scripted_api import answering
from tests.support.scripted_server import Asked, Canned


def on(*names: str | None, **more: Any) -> dict[str, Any]:
    """Filters of these event names."""
    return {"events": [{"id": name, "type": "events"} for name in names], **more}


@pytest.fixture(scope="module")
def shared() -> Iterator[Asking]:
    with asking() as found:
        yield found


@pytest.fixture
def ask(shared: Asking) -> Iterator[Asking]:
    """A service without functions."""
    yield shared
    for one in shared("GET", f"{LIST}?limit=1000").json()["results"]:
        assert shared("PATCH", f"{LIST}{one['id']}/", {"deleted": True}).status_code == 200


def checks_of(url: str, plan: Path | None) -> list[tuple[str, str, str]]:
    """Every check about functions of that service."""
    loaded, place = open_plan(plan) if plan else (None, None)
    request = PreflightRequest(url, Secret(A), Secret(ALL), PreflightOptions(reach=False))
    found = check_target(request, loaded, place).checks
    return [(c.name, c.level, c.detail) for c in found if c.name in ("functions", "destination", "transformation")]


@pytest.mark.parametrize(
    ("fields", "level", "words"),
    [
        ({}, "stop", "would fire on all 37 events of this plan"),
        ({"filters": on("Step 1")}, "stop", "would fire on 10 events of this plan (Step 1)"),
        ({"filters": on("Step 1", "Step 2")}, "stop", "would fire on 20 events"),
        ({"filters": on("$identify")}, "stop", "would fire on 7 events of this plan ($identify)"),
        ({"filters": on(None)}, "stop", "would fire on all 37 events"),
        ({"filters": on("Elsewhere")}, None, ""),
        ({"filters": on("step 1")}, None, ""),
        ({"filters": on("Step 1", properties=[{"key": "a"}])}, "warning", "may fire on 10 events"),
        ({"filters": {"actions": [{"id": "1"}]}}, "warning", "may fire on all 37 events"),
        ({"filters": on("Step 1", actions=[{"id": "1"}])}, "stop", "would fire on 10 events"),
        ({"filters": on("Step 1", filter_test_accounts=True)}, "warning", "may fire on 10 events"),
        ({"filters": {"source": "data-warehouse-table"}}, None, ""),
        ({"filters": {"source": "person-updates"}}, "warning", "may fire on"),
        ({"mappings": [{"filters": on("Step 0")}]}, "stop", "would fire on 10 events of this plan (Step 0)"),
        ({"mappings": [{"name": "m", "filters": on("Elsewhere")}]}, None, ""),
        ({"type": "internal_destination"}, None, ""),
        ({"type": "site_app"}, None, ""),
        ({"enabled": False}, None, ""),
    ],
)
def test_functions_that_would_fire_are_named(
    ask: Asking, thirty: Path, fields: dict[str, Any], level: str | None, words: str
) -> None:
    """Their event names decide; other filters make it uncertain; without event filters every event counts."""
    made = ask.made(**function(**fields))
    found = checks_of(ask.service.url, thirty)
    if level is None:
        enabled = 1 if fields.get("enabled", True) else 0
        said = f"none of {enabled} enabled hog functions would fire on an event of this plan"
        assert found == [("functions", "ok", said)]
        return
    ((name, said, detail),) = found
    assert (name, said) == ("destination", level)
    assert words in detail
    assert "'Hook'" in detail
    assert made["id"] in detail


def test_transformations_are_distinguished(ask: Asking, thirty: Path) -> None:
    """They change or drop what is imported: a warning; GeoIP as in its template does not change imported events."""
    ask.made(**function(type="transformation", name="Scrub", filters=on("Step 1")))
    ask.made(template_id="template-geoip", name="As made", enabled=True)
    ask.made(template_id="template-geoip", name="Edited", enabled=True, hog=HOG)
    ask.made(**function(name="Chat", filters=on("Elsewhere")))
    found = checks_of(ask.service.url, thirty)
    by_name = {detail.split("'")[1]: (name, level, detail) for name, level, detail in found}
    assert {name: one[:2] for name, one in by_name.items()} == {
        "Scrub": ("transformation", "warning"),
        "As made": ("transformation", "ok"),
        "Edited": ("transformation", "warning"),
    }
    assert "would change or drop 10 events of this plan (Step 1)" in by_name["Scrub"][2]
    assert "differs from its template" in by_name["Edited"][2]


def test_functions_are_judged_without_a_plan_and_beyond_a_page(ask: Asking, thirty: Path) -> None:
    """Without a plan any event may come; the one function that fires is on the second page of the list."""
    ask.made(**function(name="All"))
    ask.made(**function(name="Some", filters=on("Step 1")))
    found = checks_of(ask.service.url, None)
    assert {(detail.split("'")[1], level) for _, level, detail in found} == {("All", "stop"), ("Some", "warning")}
    for one in ask("GET", f"{LIST}?limit=1000").json()["results"]:
        ask("PATCH", f"{LIST}{one['id']}/", {"deleted": True})
    for number in range(120):
        ask.made(**function(name=f"F{number}", filters=on("Step 1" if number == 0 else "Elsewhere")))
    found = checks_of(ask.service.url, thirty)
    assert [(name, level) for name, level, _ in found] == [("destination", "stop")]
    assert "'F0'" in found[0][2]


def test_a_function_that_changes_meanwhile_is_judged_as_it_is_now(thirty: Path) -> None:
    """Between the list and the record it was turned off, changed or deleted: it is named, and no stop remains."""
    ids = ["01900000-0000-0000-0000-00000000000" + digit for digit in "123"]
    listed = [function(id=id, name=f"N{id[-1]}", updated_at="2026-01-01T00:00:00Z") for id in ids]
    records = {
        ids[0]: Canned(200, listed[0] | {"enabled": False, "updated_at": "2026-01-02T00:00:00Z"}),
        ids[1]: Canned(404, {"detail": "Not found."}),
        ids[2]: Canned(200, listed[2] | {"updated_at": "2026-01-02T00:00:00Z"}),
    }

    def answer(call: Asked) -> Canned:
        id = call.path.rstrip("/").rpartition("/")[2]
        if id in records:
            return records[id]
        found = listed if "hog_functions" in call.path else [{"id": 7, "name": "P", "api_token": A}]
        return Canned(200, {"count": len(found), "next": None, "previous": None, "results": found})

    with answering(answer) as service:
        found = checks_of(service.url, thirty)
    told = {detail.split("'")[1]: (level, detail) for _, level, detail in found}
    assert {name: level for name, (level, _) in told.items()} == {"N1": "ok", "N2": "ok", "N3": "stop"}
    assert "changed" in told["N1"][1]
    assert "deleted" in told["N2"][1]
    assert "changed" in told["N3"][1]


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"status": {"state": 3}}, "may"),
        ({"status": {"state": 1}}, "would"),
        ({"type": "transformation_log"}, "may"),
        ({"type": None}, "would"),
        ({"filters": {"events": [{"id": "", "type": "events"}]}}, "would"),
        ({"filters": {"events": [{"id": "a", "type": "actions"}]}}, "may"),
        ({"filters": {"events": "a", "properties": 7}}, "may"),
        ({"filters": [], "mappings": "m", "status": "ok", "type": ["x"]}, "may"),
        ({"deleted": True}, "no"),
    ],
)
def test_odd_records_are_judged_with_care(fields: dict[str, Any], verdict: str) -> None:
    """One that the service stopped, one of an unknown type, one of an unusual form: it may fire, and preflight never
    crashes."""
    assert matched(function(**fields), ["a"]).verdict == verdict


NAMES = st.sampled_from(["a", "b", "c", None])
ENTRIES = st.fixed_dictionaries({"id": NAMES}, optional={"properties": st.sampled_from([[], [{"key": "k"}]])})
FILTERS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "events": st.lists(ENTRIES, max_size=3),
        "actions": st.sampled_from([[], [{"id": "1"}]]),
        "properties": st.sampled_from([[], [{"key": "k"}]]),
        "filter_test_accounts": st.booleans(),
        "source": st.sampled_from(["events", "data-warehouse-table"]),
    },
)
FUNCTIONS = st.fixed_dictionaries(
    {
        "enabled": st.booleans(),
        "type": st.sampled_from(["destination", "transformation", "site_app"]),
        "filters": FILTERS,
        "mappings": st.lists(st.fixed_dictionaries({"filters": FILTERS}), max_size=2),
    }
)


@settings(max_examples=60)
@given(record=FUNCTIONS, name=st.sampled_from(["a", "b", "d"]))
def test_the_local_service_agrees_on_what_would_fire(record: dict[str, Any], name: str) -> None:
    """Two rules written apart give the same verdict for every function and name."""
    service = {"yes": "would", "may": "may", "no": "no"}[would_fire(record, name)]
    assert matched(record, [name]).verdict == service


@settings(max_examples=60)
@given(record=FUNCTIONS)
def test_without_a_plan_nothing_is_ruled_out_that_some_event_sets_off(record: dict[str, Any]) -> None:
    """A function that fires for at least one name may fire if no names are known."""
    some = {matched(record, [name]).verdict for name in ("a", "b", "c", "d")}
    blind = matched(record, None).verdict
    assert (blind == "no") == (some == {"no"})
