"""Definitions are planned, applied and undone at a target; nothing of others is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.local_service.settings import preset
from tests.support import management_service
from tests.support.commands import Printed, calling
from tests.support.management_service import ALL, Asking, asking
from tests.support.relays import relay
from tests.support.services import wait_for

TABLE = """kind,event,name,description,tags,verified,type,hidden
event,,$mp_web_page_view,A page,"Web, kpi",yes,,
event,,$identify,ids,,,,
event,,Never Seen,x,,,,
event,,Signed Up,New description,,,,
property,Signed Up,plan,First,,,text,
property,Bought,plan,Second,,,number,
property,,total,,,,text,
property,,distinct_id,who,,,,
person property,,$email,Mail,pii,yes,,yes
"""
EVENTS: list[dict[str, Any]] = [
    {"event": "$pageview", "properties": {"distinct_id": "u-1"}},
    {"event": "Signed Up", "properties": {"distinct_id": "u-1", "plan": "pro", "total": 1, "a/b~c": "2023-01-02"}},
    {"event": "$set", "properties": {"distinct_id": "u-1", "$set": {"email": "a@example.com", "age": 7}}},
]
PATHS = {
    "event": "event_definitions/?",
    "property": "property_definitions/?",
    "person": "property_definitions/?type=person&",
}


class Target:
    """A service with a few events, and the commands for it."""

    def __init__(self, ask: Asking, call: Callable[..., Printed], folder: Path) -> None:
        self.ask, self.call, self.folder = ask, call, folder
        self.url = ask.service.url
        batch = {"api_key": "phc_test_a", "batch": EVENTS}
        assert ask("POST", "/batch/", batch, key=None).status_code == 200
        self.file = folder / "definitions.json"
        (folder / "table.csv").write_text(TABLE, "utf-8")
        (folder / "key").write_text(ALL)

    def run(self, *words: object, to: str = "") -> Printed:
        options = ("--to", to or self.url, "--project", "1", "--personal-key-file", self.folder / "key")
        return self.call("definitions", *words, *options)

    def plan(self, *words: object) -> dict[str, Any]:
        done = self.run("plan", self.folder / "table.csv", "-m", "mixpanel", "-o", self.file, "--json", *words)
        assert done.code == 0, done.err
        return dict(done.json)

    def listed(self) -> dict[str, Any]:
        """All definitions by kind and name, without who changed them and when."""
        found = {}
        for kind, path in PATHS.items():
            for one in self.ask("GET", f"/api/projects/1/{path}limit=999").json()["results"]:
                found[f"{kind} {one['name']}"] = {k: v for k, v in one.items() if not k.startswith("updated")}
        return found

    def change(self, name: str, **fields: Any) -> None:
        kind = name.partition(" ")[0]
        path = f"/api/projects/1/{PATHS[kind].partition('?')[0]}{self.listed()[name]['id']}/"
        assert self.ask("PATCH", path, fields).status_code == 200


@pytest.fixture
def target(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    with asking(preset("observed", management_rates="off")) as ask:
        yield Target(ask, calling(capfd, monkeypatch), tmp_path)


def test_a_plan_renames_fills_what_is_empty_and_says_what_it_leaves_out(target: Target) -> None:
    """Names are the mapping's, an existing value stays unless it may be overwritten, and the first source counts."""
    target.change("event Signed Up", description="Theirs")
    target.change("person email", verified=True)
    made = target.plan()
    assert {f"{one['kind']} {one['name']}": one["set"] for one in made["changes"]} == {
        "event $pageview": {"description": "A page", "tags": ["kpi", "web"], "verified": True},
        "person email": {"description": "Mail", "tags": ["pii"]},
        "property plan": {"description": "First"},
    }
    assert [(one["why"], one["name"], one["field"]) for one in made["left_out"]] == [
        ("dropped", "$identify", ""), ("conflict", "plan", "description"), ("conflict", "plan", "type"),
        ("dropped", "distinct_id", ""), ("missing", "Never Seen", ""), ("kept", "Signed Up", "description"),
        ("conflict", "email", "verified"), ("kept", "email", "hidden"), ("kept", "total", "type"),
    ]  # fmt: skip
    assert [one["detail"] for one in made["left_out"][-2:]] == ["it is verified there", "the target has 'Numeric'"]
    assert made["unchanged"] == 1
    target.file.unlink()
    over = {one["name"]: one["set"] for one in target.plan("--overwrite", "type,description")["changes"]}
    assert over["Signed Up"] == {"description": "New description"}
    assert over["total"] == {"type": "String"}


def test_a_plan_takes_the_settings_of_the_mapping(target: Target) -> None:
    """A column that is an id or a time is no property; settings without a mapping are an error."""
    (target.folder / "t.csv").write_text("kind,name,description\nevent,Signed Up,A\nproperty,plan,B\n", "utf-8")
    settings = [word for one in ("event=Name", "distinct_id=plan", "timestamp=at") for word in ("--set", one)]
    words = ("plan", target.folder / "t.csv", "-o", target.file, *settings)
    made = target.run(*words, "-m", "generic", "--json").json
    assert [(one["name"], one["set"]) for one in made["changes"]] == [("Signed Up", {"description": "A"})]
    assert [(one["why"], one["name"]) for one in made["left_out"]] == [("dropped", "plan")]
    target.file.unlink()
    assert target.run(*words).two_lines[0] == "Error: --set is for the settings of a mapping"
    assert "no setting 'event'" in target.run(*words, "-m", "mixpanel").err


def test_undo_restores_everything(target: Target) -> None:
    """Byte by byte, also flags that the service clears by itself; apply and undo may be repeated."""
    target.change("person email", verified=True)
    before = target.listed()
    target.plan("--overwrite", "type,hidden")
    dry = target.run("apply", target.file, "--dry-run", "--json")
    assert (dry.json["changed"], target.listed()) == (5, before)
    assert target.run("apply", target.file, "--json").json["changed"] == 5
    after = target.listed()
    assert after["event $pageview"] | {"verified": True, "description": "A page"} == after["event $pageview"]
    assert (after["person email"]["hidden"], after["person email"]["verified"]) == (True, False)
    again = target.run("apply", target.file, "--json").json
    assert (again["changed"], again["already"]) == (0, 5)
    for changed in (5, 0):
        assert target.run("undo", target.file, "--json").json["changed"] == changed
    restored = target.listed()
    restored["person email"]["verified_at"] = before["person email"]["verified_at"]  # verified again
    assert json.dumps(restored) == json.dumps(before)


@pytest.mark.parametrize("how", ["no answer", "killed"])
def test_an_apply_that_stops_between_two_changes_is_resumed_and_undone(target: Target, how: str) -> None:
    """The second change is made, and its answer is lost: it is in the journal already."""
    before, seen, stopped = target.listed(), [], False

    def drop(method: str, path: str) -> None:
        if method == "PATCH" and not stopped:
            seen.append(path)
            if len(seen) > 1:
                wait_for(lambda: how == "no answer" or process.poll() is not None)
                raise ConnectionError

    target.plan()
    with relay(target.url, after=drop) as address:
        plan = json.loads(target.file.read_text())
        target.file.write_text(json.dumps(plan | {"target": address}))
        words = ["definitions", "apply", target.file, "--to", address, "--project", "1", "--personal-key-file"]
        process = subprocess.Popen(
            [sys.executable, "-m", "pipeline", *map(str, words), str(target.folder / "key")], stderr=subprocess.PIPE
        )
        if how == "killed":
            wait_for(lambda: len(seen) > 1)
            os.kill(process.pid, signal.SIGKILL)
        _, err = process.communicate()
        assert process.returncode == (-signal.SIGKILL if how == "killed" else 6), err
        stopped = True
        changed = target.listed()
        assert sum(changed[name] != before[name] for name in before) == 2
        resumed = target.run("apply", target.file, "--json", to=address)
        assert (resumed.code, resumed.json["changed"], resumed.json["already"]) == (0, 2, 2)
        assert target.run("undo", target.file, to=address).code == 0
    assert target.listed() == before


def test_what_somebody_changes_is_neither_overwritten_nor_undone(target: Target) -> None:
    """Before the apply it stops everything (exit 4), afterwards the undo leaves that field and lists it (exit 7)."""
    target.plan()
    for text in ("A page", "Theirs"):  # the plan's own value too: an undo would remove what somebody wrote
        target.change("event $pageview", description=text)
        theirs = target.listed()
        done = target.run("apply", target.file)
        assert (done.code, target.listed()) == (4, theirs)
        assert f"description is now {text!r}" in done.err
    target.change("event $pageview", description="")
    assert target.run("apply", target.file).code == 0
    target.change("event $pageview", description="Theirs")
    target.change("event Signed Up", tags=["new"])
    done = target.run("undo", target.file, "--json")
    assert done.code == 7
    assert [(one["name"], one["field"]) for one in done.json["refused"]] == [("$pageview", "description")]
    assert target.run("undo", target.file, "--json").json == {**done.json, "changed": 0, "already": 3}
    left = target.listed()
    assert (left["event $pageview"]["description"], left["event $pageview"]["tags"]) == ("Theirs", [])
    assert left["event Signed Up"]["tags"] == ["new"]
    assert left["person email"] == theirs["person email"]


def test_a_field_that_is_not_paid_for_is_reported_and_the_rest_is_set(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """402 for some fields of properties; tags of events are ignored without an error."""
    with asking(preset("observed", management_rates="off", definitions="free")) as ask:
        target = Target(ask, calling(capfd, monkeypatch), tmp_path)
        before = target.listed()
        target.plan("--overwrite", "type")
        done = target.run("apply", target.file, "--json")
        assert (done.code, done.json["changed"]) == (5, 3)
        assert [(one["name"], one["field"], one["why"]) for one in done.json["refused"]] == [
            ("$pageview", "tags", "ignored"), ("email", "description", "refused"), ("email", "tags", "refused"),
            ("email", "hidden", "refused"), ("plan", "description", "refused"),
        ]  # fmt: skip
        after = target.listed()
        assert (after["property total"]["property_type"], after["event $pageview"]["verified"]) == ("String", True)
        assert target.run("undo", target.file).code == 0
        assert target.listed() == before


@pytest.mark.parametrize("text", ["", "{}", '{"format": "backcast.definitions/2"}', "\x00", "[1]"])
def test_a_file_that_is_no_plan_is_an_error(target: Target, text: str) -> None:
    """So is the plan of another project."""
    target.plan()
    plan = json.loads(target.file.read_text())
    target.file.write_text(text)
    assert target.run("apply", target.file).two_lines[0].startswith("Error: cannot read")
    plan["changes"][0]["set"]["owner"] = 3
    target.file.write_text(json.dumps(plan))
    assert target.run("undo", target.file).code == 2
    del plan["changes"][0]
    target.file.write_text(json.dumps(plan | {"project": "2"}))
    assert target.run("apply", target.file).code == 4


def test_the_contract_has_no_definitions(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is that for any unknown path, and the command says so."""
    target = Target(management_service.shared(), calling(capfd, monkeypatch), tmp_path)
    assert target.ask("GET", "/api/projects/1/event_definitions/").status_code == 404
    done = target.run("plan", tmp_path / "table.csv", "-o", tmp_path / "plan.json")
    assert (done.code, done.two_lines[0][:36]) == (2, "Error: the target has no definitions")
    done = target.run("plan", tmp_path / "table.csv", "-o", tmp_path / "plan.json", to=f"file:{tmp_path}")
    assert (done.code, done.two_lines[0][-37:]) == (2, "takes files and has no management API")


def test_definitions_arise_from_what_landed(target: Target) -> None:
    """With the type of the first value; a page is a page of the list, and an unknown id is 404."""
    types = {name: one.get("property_type") for name, one in target.listed().items()}
    assert types["property a/b~c"] == "DateTime"
    assert (types["property plan"], types["property total"], types["person age"]) == ("String", "Numeric", "Numeric")
    assert "property $set" not in types
    assert [name for name in types if name.startswith("event")] == ["event $pageview", "event $set", "event Signed Up"]
    page = target.ask("GET", "/api/projects/1/event_definitions/?limit=2").json()
    assert (page["count"], len(page["results"])) == (3, 2)
    path = "/api/projects/1/property_definitions/"
    (one, *_) = target.ask("GET", path).json()["results"]
    assert target.ask("PATCH", f"{path}0190a2c4-0000-0000-0000-000000000001/", {"tags": []}).status_code == 404
    target.change("event Signed Up", verified=True)
    target.change("event Signed Up", hidden=True)
    assert target.listed()["event Signed Up"]["verified"] is False
    target.change("event Signed Up", verified=True)
    assert target.listed()["event Signed Up"]["hidden"] is False
    for body in ({"property_type": "Text"}, {"tags": "a"}, {"verified": None}, {"hidden": True, "verified": True}):
        assert target.ask("PATCH", f"{path}{one['id']}/", body).status_code == 400, body
