"""Preflight: each check in each of its states, against the real local service and real servers that are not it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from answers import Call, Said, answering
from deliveries import Reply, planned, serving
from hypothesis import given
from hypothesis import strategies as st
from management_service import ALL, Asking, asking, key_with
from tls_servers import Authority, serving_tls

from pipeline import workflow
from pipeline.cli import run
from pipeline.config import Secret
from pipeline.management.preflight.addresses import check_address
from pipeline.management.preflight.clock import check_clock
from pipeline.management.preflight.firing import matched
from pipeline.service import Settings
from pipeline.service.management.firing import would_fire
from pipeline.workflow import Preflight, PreflightRequest, check_target

pytestmark = pytest.mark.slow

HOG = "return event"
A = "phc_test_a"
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
Found = dict[str, tuple[str, str]]


def states(found: Preflight) -> Found:
    """By name of a check: its level and its detail. The names of functions come more than once; the first counts."""
    seen: Found = {}
    for check in found.checks:
        seen.setdefault(check.name, (check.level, check.detail))
    return seen


def look(to: str, directory: Path | None = None, *, key: str | None = A, personal: str = ALL, **more: Any) -> Found:
    """What preflight says of a target."""
    request = PreflightRequest(to, None if key is None else Secret(key), Secret(personal), timeout=20, **more)
    plan, place = workflow.load_plan(directory) if directory else (None, None)
    return states(check_target(request, plan, place))


def function(**fields: Any) -> dict[str, Any]:
    return {"type": "destination", "name": "Hook", "hog": HOG, "enabled": True} | fields


def on(*names: str | None, **more: Any) -> dict[str, Any]:
    """Filters of these event names."""
    return {"events": [{"id": name, "type": "events"} for name in names], **more}


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan of 30 events, 10 each of Step 0, 1 and 2, of the first of January to March 2023, and 7 merges."""
    return planned(tmp_path_factory.mktemp("plan"), 30, links=True)


@pytest.fixture
def ask() -> Iterator[Asking]:
    with asking() as found:
        yield found


# --- a ready target ------------------------------------------------------------------------------------------


def test_a_ready_target_is_ok_and_what_cannot_be_told_is_unknown(ask: Asking, plan: Path) -> None:
    """Everything that the service shows is proved; a paid plan and workflows are never assumed."""
    found = look(ask.service.url, plan)
    assert {name for name, (level, _) in found.items() if level == "unknown"} == {"paid_plan", "workflows"}
    assert {level for level, _ in found.values()} == {"ok", "unknown"}
    assert found["project"][1] == "A (1)"
    assert set(found) == {
        "address", "capture_key", "capture_host", "clock", "project", "capture_key_project", "paid_plan",
        "dropped_events", "functions", "workflows", "plan", "dialect", "recent_events", "size",
    }  # fmt: skip


def test_preflight_lands_nothing(ask: Asking, plan: Path) -> None:
    """No event, no person, no function: a look changes nothing, and sends no key to capture."""
    before = ask("GET", "/api/projects/1/hog_functions/").json()
    look(ask.service.url, plan)
    assert ask.service.count() == 0
    assert ask.service.select("select count(*) from raw_events") == [(0,)]
    assert ask.service.persons() == []
    assert ask("GET", "/api/projects/1/hog_functions/").json() == before
    with serving(lambda asked: Reply(400, b"request holds no event")) as server:
        look(server.url, personal="")
    (asked,) = server.asked
    assert A.encode() not in asked.body
    assert asked.events == []


@pytest.mark.parametrize("directory", [True, False])
def test_the_command_prints_the_object(
    ask: Asking, plan: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, directory: bool
) -> None:
    """`--json` is the documented object and nothing else; exit 0 without a stop, 4 with one; no key in either."""
    monkeypatch.setenv("BACKCAST_PROJECT_KEY", A)
    monkeypatch.setenv("BACKCAST_PERSONAL_KEY", ALL)
    words = ["preflight", *([str(plan)] if directory else []), "--to", ask.service.url]
    assert run([*words, "--json"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found["format"] == "backcast.preflight/1"
    assert set(found) == {"format", "checks"}
    assert all(set(check) == {"name", "level", "detail"} for check in found["checks"])
    assert {check["level"] for check in found["checks"]} <= {"ok", "warning", "stop", "unknown"}
    ask.made(**function(name="Chat [red]\x1b[31m"))
    assert run(words) == 4
    shown = capsys.readouterr().out
    assert "Chat [red]" in shown
    assert "\x1b" not in shown
    assert "Not ready: 1 stop" in shown
    for text in (said.out, said.err, shown):
        assert A not in text
        assert ALL not in text


# --- the capture key -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "level", "word"),
    [
        ("phx_test_personal", "stop", "personal key"),
        ("", "stop", "no project key"),
        ("phc_two words", "stop", "shape"),
        ('"phc_test_a"', "stop", "quotes"),
        ("'phc_test_a'", "stop", "quotes"),
        ("phc_" + "a" * 61, "stop", "shape"),
        ("phc_tést", "stop", "shape"),
        ("test_a", "warning", "phc_"),
        ("phc_test_a", "ok", "shape"),
        (None, "unknown", "no capture key"),
    ],
)
def test_the_shape_of_a_capture_key(ask: Asking, key: str | None, level: str, word: str) -> None:
    """What capture refuses, and what it would take for an unknown key, is told before anything is sent."""
    found = look(ask.service.url, key=key, project_id="1")["capture_key"]
    assert found[0] == level
    assert word in found[1]
    assert not key or key not in found[1]


@pytest.mark.parametrize("text", ['"phc_test_a"', "'phc_test_a'", "phx_test", "  \n"])
def test_the_command_stops_at_a_bad_key(
    ask: Asking, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """A key file as people make it, with quotes around the key, is a stop, exit 4; `apply` refuses it too."""
    file = tmp_path / "key"
    file.write_text(text)
    assert run(["preflight", "--to", ask.service.url, "--project-key-file", str(file), "--json"]) == 4
    checks = {check["name"]: check["level"] for check in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["capture_key"] == "stop"
    directory = planned(tmp_path, 3)
    assert run(["apply", str(directory), "--to", ask.service.url, "--project-key-file", str(file)]) == 2
    assert ask.service.count() == 0


def test_a_key_of_no_project_is_a_stop_where_it_can_be_told(ask: Asking) -> None:
    """The service answers 200 to a key that nobody has; only the project's own key proves one."""
    found = look(ask.service.url, key="phc_test_nobody", project_id="1")["capture_key_project"]
    assert found == ("stop", "the capture key is not that of project A (1)")


def test_a_key_of_another_project_is_named(ask: Asking) -> None:
    """The right service and the wrong project: both are named."""
    found = look(ask.service.url, key="phc_test_b", project_id="1")["capture_key_project"]
    assert found == ("stop", "the capture key is that of project B (2), not of project A (1)")


def test_the_project_is_the_one_of_the_capture_key(ask: Asking) -> None:
    """A personal key that reaches two projects, and no project named: the capture key says which."""
    assert look(ask.service.url, key="phc_test_b")["project"] == ("ok", "B (2)")
    level, detail = look(ask.service.url, key="phc_test_nobody")["project"]
    assert level == "unknown"
    assert "A (1), B (2)" in detail


# --- scopes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("behaviour", ["contract", "observed"])
def test_a_missing_scope_is_named(plan: Path, behaviour: Any) -> None:
    """What a key may not read is unknown, with the scope; the checks that it may make are made."""
    with asking(Settings(behaviour=behaviour)) as ask:
        ask.made(**function())
        none = look(ask.service.url, plan, personal="phx_test_none", project_id="1")
        functions = look(ask.service.url, plan, personal=key_with("hog_function:read"), project_id="1")
        project = look(ask.service.url, plan, personal=key_with("project:read"), project_id="1")
    assert none["functions"] == ("unknown", "the personal key lacks the scope hog_function:read")
    assert none["capture_key_project"][0] == "unknown"
    assert functions["destination"][0] == "stop"
    assert functions["capture_key_project"][0] == "unknown"
    assert project["capture_key_project"][0] == "ok"
    assert project["functions"] == ("unknown", "the personal key lacks the scope hog_function:read")
    if behaviour == "observed":
        assert none["project"] == ("unknown", "the personal key lacks the scope project:read")
    assert not {level for level, _ in none.values()} & {"stop"}


@pytest.mark.parametrize("personal", ["phx_test_unknown", "phx_test_b", ""])
def test_a_personal_key_that_opens_nothing(ask: Asking, personal: str) -> None:
    """Refused: a stop. Of another project: unknown. None: unknown, and nothing is asked."""
    found = look(ask.service.url, personal=personal, project_id="1")
    expected = {"phx_test_unknown": "stop", "phx_test_b": "unknown", "": "unknown"}
    assert found["project"][0] == expected[personal]
    assert found["capture_key_project"][0] == "unknown"


def test_a_project_that_is_not_there_is_a_stop(ask: Asking) -> None:
    """A wrong id, or the other region."""
    assert look(ask.service.url, project_id="77")["project"] == ("stop", "there is no project 77")


# --- settings and history ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("days", "level", "word"),
    [(None, "ok", "no event"), (30, "stop", "up to 30 of 30 events"), (365 * 100, "ok", "the plan has none")],
)
def test_a_project_that_drops_old_events(plan: Path, days: int | None, level: str, word: str) -> None:
    """Such events are dropped after the 200, historical or not: the plan's are counted by their days."""
    settings = Settings(drop_events_older_than=None if days is None else days * 86400)
    with asking(settings) as ask:
        found = look(ask.service.url, plan)["dropped_events"]
        without = look(ask.service.url)["dropped_events"]
        hidden = look(ask.service.url, plan, personal="phx_test_none", project_id="1")["dropped_events"]
    assert found[0] == level
    assert word in found[1]
    assert without[0] == ("ok" if days is None else "warning")
    assert hidden[0] == "unknown"


def test_only_the_events_that_are_too_old_count(tmp_path: Path) -> None:
    """The edge of the setting lies in the middle of the plan."""
    source = tmp_path / "export.jsonl"
    days = [datetime.now(UTC) - timedelta(days=number) for number in (5, 50, 500, 501)]
    source.write_text(
        "".join(
            json.dumps({"event": "e", "distinct_id": "p", "timestamp": day.isoformat(), "n": number}) + "\n"
            for number, day in enumerate(days)
        )
    )
    columns = {name: name for name in ("event", "distinct_id", "timestamp")}
    workflow.plan_export(workflow.PlanRequest([str(source)], tmp_path / "plan", "generic", settings=columns, workers=0))
    with asking(Settings(drop_events_older_than=100 * 86400)) as ask:
        found = look(ask.service.url, tmp_path / "plan")
    assert "up to 2 of 4 events" in found["dropped_events"][1]
    assert found["recent_events"][0] == "ok"


def test_events_that_are_too_young_are_counted(tmp_path: Path) -> None:
    """--allow-recent lets them into a plan; they may be billed."""
    source = tmp_path / "export.jsonl"
    moment = datetime.now(UTC) - timedelta(hours=1)
    source.write_text(json.dumps({"event": "e", "distinct_id": "p", "timestamp": moment.isoformat()}) + "\n")
    columns = {name: name for name in ("event", "distinct_id", "timestamp")}
    request = workflow.PlanRequest(
        [str(source)], tmp_path / "plan", "generic", settings=columns, workers=0, allow_recent=True
    )
    workflow.plan_export(request)
    with asking() as ask:
        found = look(ask.service.url, tmp_path / "plan")
    assert found["recent_events"][0] == "warning"
    assert "1 events are younger than 48 hours" in found["recent_events"][1]


@pytest.mark.parametrize(
    ("billing", "organization", "level"),
    [
        (Said(200, {"products": [{"type": "product_analytics", "subscribed": True}]}), "o1", "ok"),
        (Said(200, {"products": [{"type": "product_analytics", "subscribed": False}]}), "o1", "warning"),
        (Said(200, {"products": [{"type": "product_analytics", "subscribed": True}]}), "o2", "unknown"),
        (Said(200, {"products": [{"type": "session_replay", "subscribed": True}]}), "o1", "unknown"),
        (Said(200, {"has_active_subscription": True}), "o1", "unknown"),
        (Said(200, []), "o1", "unknown"),
        (Said(403, {"detail": "API key missing required scope 'billing:read'"}), "o1", "unknown"),
        (Said(401, {"detail": "no"}), "o1", "unknown"),
        (Said(404, {"detail": "Not found."}), "o1", "unknown"),
        (Said(500), "o1", "unknown"),
    ],
)
def test_a_paid_plan_is_never_assumed(billing: Said, organization: str, level: str) -> None:
    """It is ok only where the service says so, of the organization that owns the project."""

    def answer(call: Call) -> Said:
        if call.path == "/api/billing/":
            return billing
        if call.path == "/api/projects/":
            return Said(200, {"count": 1, "next": None, "previous": None, "results": [{"id": 7, "name": "P"}]})
        if call.path in ("/api/projects/7/", "/api/projects/@current/"):
            return Said(200, {"id": 7, "organization": "o1" if "7" in call.path else organization, "name": "P"})
        return Said(200, {"count": 0, "next": None, "previous": None, "results": []})

    with answering(answer) as service:
        found = look(service.url, reach=False)
    assert found["paid_plan"][0] == level
    assert found["dropped_events"][0] == "unknown"
    assert found["capture_key_project"][0] == "unknown"


# --- hog functions -------------------------------------------------------------------------------------------


def checks_of(ask: Asking, plan: Path | None) -> list[tuple[str, str, str]]:
    """Every check about functions."""
    request = PreflightRequest(ask.service.url, Secret(A), Secret(ALL), reach=False)
    loaded, place = workflow.load_plan(plan) if plan else (None, None)
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
        (
            {"mappings": [{"name": "m", "filters": on("Step 0")}]},
            "stop",
            "would fire on 10 events of this plan (Step 0)",
        ),
        ({"mappings": [{"name": "m", "filters": on("Elsewhere")}]}, None, ""),
        ({"type": "internal_destination"}, None, ""),
        ({"type": "site_app"}, None, ""),
        ({"enabled": False}, None, ""),
    ],
)
def test_functions_that_would_fire_are_named(plan: Path, fields: dict[str, Any], level: str | None, words: str) -> None:
    """By their event names; other filters only make it uncertain; without event filters every event counts."""
    with asking(Settings(behaviour="contract")) as ask:
        made = ask.made(**function(**fields))
        found = checks_of(ask, plan)
    if level is None:
        assert [(name, one) for name, one, _ in found] == [("functions", "ok")]
        return
    ((name, said, detail),) = found
    assert (name, said) == ("destination", level)
    assert words in detail
    assert "'Hook'" in detail
    assert made["id"] in detail


def test_transformations_are_told_apart(plan: Path) -> None:
    """They change or drop what is imported: a warning; GeoIP as its template has it leaves imported events alone."""
    with asking() as ask:
        ask.made(**function(type="transformation", name="Scrub", filters=on("Step 1")))
        ask.made(template_id="template-geoip", name="As made", enabled=True)
        ask.made(template_id="template-geoip", name="Edited", enabled=True, hog=HOG)
        ask.made(**function(name="Chat", filters=on("Elsewhere")))
        found = checks_of(ask, plan)
    by_name = {detail.split("'")[1]: (name, level, detail) for name, level, detail in found}
    assert {name: one[:2] for name, one in by_name.items()} == {
        "Scrub": ("transformation", "warning"),
        "As made": ("transformation", "ok"),
        "Edited": ("transformation", "warning"),
    }
    assert "would change or drop 10 events of this plan (Step 1)" in by_name["Scrub"][2]
    assert "not that of its template" in by_name["Edited"][2]


def test_without_a_plan_any_event_may_come() -> None:
    """A function without event filters would fire; one with names may."""
    with asking() as ask:
        ask.made(**function(name="All"))
        ask.made(**function(name="Some", filters=on("Step 1")))
        found = checks_of(ask, None)
    assert {(detail.split("'")[1], level) for _, level, detail in found} == {("All", "stop"), ("Some", "warning")}


def test_more_functions_than_a_page_holds(plan: Path) -> None:
    """The one that fires is on the second page."""
    with asking() as ask:
        for number in range(120):
            ask.made(**function(name=f"F{number}", filters=on("Step 1" if number == 0 else "Elsewhere")))
        found = checks_of(ask, plan)
    assert [(name, level) for name, level, _ in found] == [("destination", "stop")]
    assert "'F0'" in found[0][2]


def test_a_function_that_somebody_changes_meanwhile_is_judged_as_it_is_now(plan: Path) -> None:
    """Between the list and the record it was turned off, changed or deleted: it is named, and no stop stays behind."""
    ids = ["01900000-0000-0000-0000-00000000000" + digit for digit in "123"]
    listed = [function(id=id, name=f"N{id[-1]}", updated_at="2026-01-01T00:00:00Z") for id in ids]
    records = {
        ids[0]: Said(200, listed[0] | {"enabled": False, "updated_at": "2026-01-02T00:00:00Z"}),
        ids[1]: Said(404, {"detail": "Not found."}),
        ids[2]: Said(200, listed[2] | {"updated_at": "2026-01-02T00:00:00Z"}),
    }

    def answer(call: Call) -> Said:
        id = call.path.rstrip("/").rpartition("/")[2]
        if id in records:
            return records[id]
        found = listed if "hog_functions" in call.path else [{"id": 7, "name": "P", "api_token": A}]
        return Said(200, {"count": len(found), "next": None, "previous": None, "results": found})

    with answering(answer) as service:
        request = PreflightRequest(service.url, Secret(A), Secret(ALL), reach=False)
        found = check_target(request, *workflow.load_plan(plan)).checks
    told = {c.detail.split("'")[1]: (c.level, c.detail) for c in found if c.name in ("functions", "destination")}
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
    """One that the service stopped, one of a type nobody knows, one in a shape of its own: it may fire, never crash."""
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


@given(record=FUNCTIONS, name=st.sampled_from(["a", "b", "d"]))
def test_the_local_service_agrees_on_what_would_fire(record: dict[str, Any], name: str) -> None:
    """Two rules written apart give the same verdict for every function and name."""
    service = {"yes": "would", "may": "may", "no": "no"}[would_fire(record, name)]
    assert matched(record, [name]).verdict == service


@given(record=FUNCTIONS)
def test_without_a_plan_nothing_is_ruled_out_that_some_event_sets_off(record: dict[str, Any]) -> None:
    """What fires for one name at least may fire when no names are known."""
    some = {matched(record, [name]).verdict for name in ("a", "b", "c", "d")}
    blind = matched(record, None).verdict
    assert (blind == "no") == (some == {"no"})


# --- hosts, TLS and clocks -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "api", "level"),
    [
        ("us", None, "ok"),
        ("eu", None, "ok"),
        ("https://eu.i.posthog.com", None, "ok"),
        ("eu", "https://eu.posthog.com", "ok"),
        ("eu", "us", "stop"),
        ("us", "https://eu.posthog.com", "stop"),
        ("https://us.posthog.com", None, "stop"),
        ("https://app.posthog.com", None, "stop"),
        ("https://events.example.com", None, "ok"),
        ("https://events.example.com", "eu", "unknown"),
        ("https://events.example.com", "https://app.example.com", "unknown"),
        ("eu", "https://app.example.com", "unknown"),
    ],
)
def test_capture_and_management_belong_together(to: str, api: str | None, level: str) -> None:
    """The wrong region and the application's host are stops; a host of one's own proves nothing."""
    assert check_address(to, api).level == level


def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_nobody_there_is_a_stop() -> None:
    """No connection: the capture host is a stop, and what management would tell is unknown; exit 4 in the end."""
    found = look(f"http://127.0.0.1:{closed_port()}")
    assert found["capture_host"][0] == "stop"
    assert found["clock"][0] == "unknown"
    assert {found[name][0] for name in ("project", "capture_key_project", "paid_plan", "functions")} == {"unknown"}


def test_no_tls_where_https_was_asked_for(ask: Asking) -> None:
    """https to a port that speaks http."""
    level, detail = look(ask.service.url.replace("http://", "https://"))["capture_host"]
    assert level == "stop"
    assert "TLS" in detail


def test_a_certificate_that_nobody_vouches_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop for capture and for management, and no key leaves; trusted by --ca-file or SSL_CERT_FILE it is fine."""
    authority = Authority(tmp_path)
    with serving_tls(lambda asked: Reply(400, b"request holds no event"), authority) as server:
        distrusted = look(server.url)
        assert server.asked == []
        trusted = look(server.url, ca_file=authority.file)
        monkeypatch.setenv("SSL_CERT_FILE", authority.file)
        by_environment = look(server.url)
    assert distrusted["capture_host"][0] == "stop"
    assert "not trusted" in distrusted["capture_host"][1]
    assert distrusted["project"][0] == "stop"
    assert "not trusted" in distrusted["project"][1]
    for found in (trusted, by_environment):
        assert found["capture_host"][0] == "ok"
        assert "not trusted" not in found["project"][1]


@pytest.mark.parametrize(
    ("reply", "level"),
    [
        (Reply(400, b"request holds no event"), "ok"),
        (Reply(200, b'{"status": "Ok"}'), "ok"),
        (Reply(200, b""), "ok"),
        (Reply(401, b"API key is not valid: empty"), "ok"),
        (Reply(503, b"transient error, please retry"), "warning"),
        (Reply(429, b"rate limited"), "warning"),
        (Reply(404, b"<h1>nginx</h1>"), "stop"),
        (Reply(405, b""), "stop"),
        (Reply(200, b"<h1>Welcome</h1>"), "stop"),
        (Reply(200, b'{"status": "Ok", "quota_limited": ["events"]}'), "stop"),
        (Reply(307, b"", {"Location": "http://elsewhere.example/batch/"}), "stop"),
    ],
)
def test_what_answers_at_the_capture_host(reply: Reply, level: str) -> None:
    """An answer of capture is ok; a captive portal, a wrong host, or a redirect that apply would refuse is a stop."""
    with serving(lambda asked: reply) as server:
        assert look(server.url, personal="")["capture_host"][0] == level


@pytest.mark.parametrize(
    ("ahead", "level"), [(0, "ok"), (-59, "ok"), (61, "warning"), (-7200, "warning"), (90000, "stop"), (-90000, "stop")]
)
def test_a_clock_that_is_wrong(ahead: int, level: str) -> None:
    """By how much, in both directions; beyond the window for history it is a stop."""
    check = check_clock(format_datetime(NOW, usegmt=True), NOW + timedelta(seconds=ahead))
    assert check.level == level
    if ahead:
        assert level == "ok" or ("ahead of" if ahead > 0 else "behind") in check.detail


@pytest.mark.parametrize("date", ["", "yesterday", "Sat, 31 Foo 2026"])
def test_no_time_is_unknown(date: str) -> None:
    """An answer without a readable Date proves nothing."""
    assert check_clock(date, NOW).level == "unknown"


def test_a_service_with_another_clock() -> None:
    """The Date of the capture host counts, and without one that of management."""
    behind = format_datetime(datetime.now(UTC) - timedelta(hours=3), usegmt=True)
    with serving(lambda asked: Reply(400, b"", {"Date": behind})) as server:
        level, detail = look(server.url, personal="")["clock"]
    assert (level, "3 hours ahead of" in detail) == ("warning", True)
    projects = {"count": 1, "next": None, "previous": None, "results": [{"id": 7, "name": "P"}]}
    with answering(lambda call: Said(200, projects, {"Date": behind})) as service:
        assert look(service.url, reach=False)["clock"][0] == "warning"


# --- the plan ------------------------------------------------------------------------------------------------


def test_a_plan_in_the_other_dialect_is_a_stop(plan: Path, tmp_path: Path) -> None:
    """Made for `posthog`, held against a URL that speaks the contract."""
    other = planned(tmp_path, 5, target="eu")
    with asking() as ask:
        assert look(ask.service.url, other)["dialect"][0] == "stop"
        assert look(ask.service.url, other)["plan"][0] == "warning"
        assert look(ask.service.url, plan)["dialect"][0] == "ok"


def test_a_plan_that_is_not_ready_is_a_stop(tmp_path: Path) -> None:
    """As `apply` would say."""
    (tmp_path / "export").mkdir()
    source = tmp_path / "bad.jsonl"
    source.write_text('{"event": "e"}\n')
    columns = {name: name for name in ("event", "distinct_id", "timestamp")}
    workflow.plan_export(workflow.PlanRequest([str(source)], tmp_path / "plan", "generic", settings=columns, workers=0))
    with asking() as ask:
        found = look(ask.service.url, tmp_path / "plan")
    assert found["plan"][0] == "stop"


# --- apply ---------------------------------------------------------------------------------------------------


def applied(directory: Path, to: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    own = {name: text for name, text in os.environ.items() if not name.startswith("BACKCAST_")}
    command = [sys.executable, "-m", "pipeline", "apply", str(directory), "--to", to, "--workers", "0", *words]
    return subprocess.run(command, env=own | environment, capture_output=True, text=True, check=False, timeout=120)


def afar(ask: Asking) -> str:
    """The service by an address that is not plainly this machine's."""
    return f"http://0.0.0.0:{ask.service.port}"


def test_apply_says_first_that_nobody_proved_the_key(tmp_path: Path) -> None:
    """Without a personal key it is the first line, on stderr; there is none to say on this machine itself."""
    directory = planned(tmp_path, 5)
    with asking() as ask:
        done = applied(directory, afar(ask), "--yes", "--json", BACKCAST_PROJECT_KEY=A)
        assert ask.service.count() == 5
        home = applied(planned(tmp_path / "other", 5), ask.service.url, BACKCAST_PROJECT_KEY=A)
    assert (done.returncode, home.returncode) == (0, 0)
    assert json.loads(done.stdout)["events"]["accepted"] == 5
    assert done.stderr.startswith("The capture key could not be proved: no personal key was given")
    assert home.stderr == ""


def test_apply_names_the_project_when_it_can(tmp_path: Path) -> None:
    """With a personal key the first line is whose the capture key is, and what could not be checked follows."""
    directory = planned(tmp_path, 5)
    keys = {"BACKCAST_PROJECT_KEY": A, "BACKCAST_PERSONAL_KEY": ALL}
    with asking() as ask:
        asked = applied(directory, afar(ask), **keys)
        assert ask.service.count() == 0
        done = applied(directory, afar(ask), "--yes", **keys)
        assert ask.service.count() == 5
    assert (asked.returncode, done.returncode) == (2, 0)
    assert "project A" in asked.stderr
    assert done.stderr.splitlines()[0] == "The capture key is that of project A (1)."
    assert "could not check: paid_plan" in done.stderr


@pytest.mark.parametrize("case", ["function", "key", "old"])
def test_apply_sends_nothing_to_a_target_that_is_not_ready(tmp_path: Path, case: str) -> None:
    """A function that would fire, a key of another project, a project that drops old events: exit 4, nothing landed."""
    directory = planned(tmp_path, 5)
    with asking(Settings(drop_events_older_than=86400 if case == "old" else None)) as ask:
        if case == "function":
            ask.made(**function())
        personal = "phx_test_b" if case == "key" else ALL  # it reaches the other project alone
        keys = {"BACKCAST_PROJECT_KEY": A, "BACKCAST_PERSONAL_KEY": personal}
        done = applied(directory, ask.service.url, **keys)
        dry = applied(directory, ask.service.url, "--dry-run", **keys)
        assert ask.service.count() == 0
    assert done.returncode == 4
    lines = done.stderr.splitlines()
    assert [line.split(":")[0] for line in lines] == ["Error", "Try"]
    assert "nothing was sent" in lines[0]
    assert dry.returncode == 0


@contextmanager
def broken(status: int) -> Iterator[tuple[str, list[str]]]:
    """A service whose management answers a status and whose capture works."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _say(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            seen.append(self.path)
            self._say(status, b"{}")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            seen.append(self.path)
            self._say(200, b'{"status": "Ok"}')

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("status", [500, 404, 302])
def test_apply_goes_on_where_management_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """What nobody can tell keeps nobody from sending."""
    directory = planned(tmp_path, 5)
    monkeypatch.setenv("BACKCAST_PROJECT_KEY", A)
    monkeypatch.setenv("BACKCAST_PERSONAL_KEY", ALL)
    with broken(status) as (url, seen):
        assert run(["apply", str(directory), "--to", url, "--workers", "0"]) == 0
    assert seen[-1] == "/batch/"
    assert "/api/projects/" in seen[0]
