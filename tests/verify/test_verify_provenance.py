"""Verify tells an import from what others send to the same project, which it counts apart and explains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from pipeline import api, cli
from pipeline.local_service import LocalService
from pipeline.options import RehearseOptions, VerifyOptions
from pipeline.plan.sealed.freshness import open_plan
from pipeline.verify import Verification
from pipeline.verify.provenance import having
from tests.support.deliveries import Asked, Reply, passed_on, planned, run, serving, tamper, uuid

pytestmark = pytest.mark.slow


def verify(directory: Path, service: LocalService, **more: Any) -> Verification:
    options = VerifyOptions(workers=0, **more)
    return api.verify_plan(directory, service.url, options, personal_key=service.personal_key)


def live(service: LocalService, number: int, **properties: Any) -> None:
    """Events that the project's own SDK sends, of days and names of the import and of others."""
    batch = [
        {
            "event": f"Step {one % 4}",
            "properties": {"distinct_id": f"person-{one}"} | properties,
            "timestamp": f"2023-0{1 + one % 4}-02T11:00:00Z",
            "uuid": uuid(1_000_000 + one),
        }
        for one in range(number)
    ]
    said = httpx.post(
        service.url + "/batch/", json={"api_key": service.capture_key, "batch": batch}, trust_env=False, verify=False
    )
    assert said.status_code == 200


def applied(directory: Path, service: LocalService) -> None:
    assert run(directory, service.url, key=service.capture_key).balanced


@pytest.mark.parametrize("asked", [{}, {"name": "O'Brien's \"import\""}, {"name": "back\\slash"}, {"links": True}])
def test_what_others_send_is_no_difference(tmp_path: Path, asked: dict[str, Any]) -> None:
    """Live events on the same days, with the same names, with a mark that is another's or no text: the proof stands."""
    directory = planned(tmp_path, 60, **asked)
    with LocalService() as service:
        applied(directory, service)
        live(service, 8)
        live(service, 4, analytics_source="another tool")
        live(service, 4, analytics_source=["generic"])
        live(service, 4, nested={"analytics_source": "generic"})
        found = verify(directory, service)
        whole = verify(directory, service, whole=True)
    made = open_plan(directory)[0].events.made
    assert found.proved
    assert (found.events["found"], found.events["extra"], found.events["copies"]) == (made, 0, 0)
    assert found.scope["analytics_source"] == "generic"
    assert (whole.proved, whole.events["extra"], whole.scope) == (False, 8, {})


def test_others_with_the_mark_are_counted_by_name_and_day(tmp_path: Path) -> None:
    """Another import of the same tool: each name and day with its count, the most first."""
    directory = planned(tmp_path, 30)
    with LocalService() as service:
        applied(directory, service)
        live(service, 6, analytics_source="generic")
        found = verify(directory, service)
    assert found.proved
    assert (found.events["found"], found.events["others"], found.events["extra"]) == (30, 6, 0)
    assert found.cells["match"] == 3
    assert [(one.event, one.day, one.count) for one in found.extras] == [
        ("Step 0", "2023-01-02", 2), ("Step 1", "2023-02-02", 2), ("Step 2", "2023-03-02", 1),
        ("Step 3", "2023-04-02", 1),
    ]  # fmt: skip


def test_two_imports_of_one_tool_are_told_apart_by_their_names(tmp_path: Path) -> None:
    """`plan --name` is the mark that another import of the same tool does not carry."""
    first = planned(tmp_path / "first", 30, name="first")
    second = planned(tmp_path / "second", 20, name="second", settings=OTHER)
    with LocalService() as service:
        for one in (first, second):
            applied(one, service)
        assert (verify(first, service).proved, verify(second, service).proved) == (True, True)


@pytest.mark.parametrize(
    ("marks", "others"), [({}, 50), ({"provenance": False}, 57), ({"name": "first"}, 0)], ids=["tool", "none", "named"]
)
def test_a_second_import_of_the_same_tool_is_no_difference(
    tmp_path: Path, marks: dict[str, Any], others: int, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Other events of the same days and names, sent by another plan, beside live ones and copies of ours: exit 0."""
    first = planned(tmp_path / "first", 60, batch=10, **marks)
    second = planned(tmp_path / "second", 50, settings=OTHER)
    with LocalService() as service:
        lost: list[bytes] = []

        def answer(asked: Asked) -> Reply:
            reply = passed_on(service.url, asked.body)
            if lost:
                return reply
            lost.append(asked.body)
            return Reply(0)

        with serving(answer) as server:
            assert run(first, server.url, key=service.capture_key).balanced
        applied(second, service)
        live(service, 7)
        monkeypatch.setenv("BACKCAST_PERSONAL_KEY", service.personal_key)
        words = ["verify", str(first), "--to", server.url, "--api", service.url, "--workers", "0"]
        assert cli.run([*words, "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert cli.run(words) == 0
        shown = " ".join(capsys.readouterr().out.split())
        tamper(service, f"delete from accepted where uuid = '{uuid(3)}'")
        assert cli.run(words) == 7
    assert (said["events"]["found"], said["events"]["others"], said["events"]["copies"]) == (60, others, 10)
    assert "Proved: every event that was settled was found once." in shown
    assert "10 more copies were accepted, equal to another in uuid" in shown
    assert (f"{others} events are there that this plan did not send" in shown) == bool(others)


OTHER = {"event": "event", "distinct_id": "distinct_id", "timestamp": "timestamp"}
"""No uuid column: the same rows become other events."""


def test_an_event_of_the_import_that_lost_its_mark_is_altered(tmp_path: Path) -> None:
    """What bears no provenance cannot be filtered out later, and is not what was sent; it is there, so not missing."""
    directory = planned(tmp_path, 20)
    with LocalService() as service:
        applied(directory, service)
        tamper(service, f"update accepted set properties = '{{}}' where uuid = '{uuid(3)}'")
        found = verify(directory, service)
    assert [(one.kind, one.uuid) for one in found.differences] == [("altered", uuid(3))]
    assert "analytics_source" in found.differences[0].changed
    assert (found.events["missing"], found.events["altered"], found.proved) == (0, 1, False)


def test_without_provenance_the_whole_project_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command says so, and whose the other events may be; its object has the same."""
    directory = planned(tmp_path, 20, provenance=False)
    with LocalService() as service:
        applied(directory, service)
        live(service, 1)
        monkeypatch.setenv("BACKCAST_PERSONAL_KEY", service.personal_key)
        words = ["verify", str(directory), "--to", service.url, "--workers", "0"]
        assert cli.run(words) == 0
        shown = capsys.readouterr().out
        assert cli.run([*words, "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
    assert "not of this plan" in shown
    assert "2023-01-02" in shown
    assert "The whole project was compared, with what others sent to it." in " ".join(shown.split())
    assert (said["scope"], said["extras"]) == ({}, [{"event": "Step 0", "day": "2023-01-02", "count": 1}])


def test_a_rehearsal_looks_at_all_that_landed(tmp_path: Path) -> None:
    """Its store is its own: whatever is there that nobody planned is a difference."""
    directory = planned(tmp_path, 10)
    found = api.rehearse_plan(directory, RehearseOptions(workers=0)).verification
    assert (found.proved, found.scope) == (True, {})


@pytest.mark.parametrize("value", ['"generic"', '" generic"', "1", "true", "null", '["generic"]', '{"a":"generic"}'])
def test_the_service_reads_a_property_as_the_query_language_does(value: str) -> None:
    """JSONExtractString gives the text of a text, and nothing of any other value."""
    with LocalService() as service:
        live(service, 1, **{"analytics_source": json.loads(value), "a/b~c": "x"})
        found = service.select(f"select count(*) from events where {having({'analytics_source': 'generic'})}")
        other = service.select(f"select count(*) from events where {having({'a/b~c': 'x'})}")
    assert (found, other) == ([(int(value == '"generic"'),)], [(1,)])
