"""Verify distinguishes an import from other events in the same project, which it counts separately and explains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline import api
from pipeline.options import RehearseOptions
from pipeline.plan.sealed.freshness import open_plan
from pipeline.verify.provenance import having
from tests.support.deliveries import Asked, Reply, passed_on, planned, run, serving, uuid
from tests.support.rehearsal import Room, event, send
from tests.support.verification import PERSONAL, Sent, empty, sent_rows

OTHER = {"event": "event", "distinct_id": "distinct_id", "timestamp": "timestamp"}
"""Without a uuid column the same rows become other events."""


def live(room: Room, number: int, **properties: Any) -> None:
    """Events that the project's own SDK sends, of days and names of the import and of others."""
    for one in range(number):
        made = event(f"person-{one}", f"Step {one % 4}", uuid=uuid(1_000_000 + one), **properties)
        send(room, made | {"timestamp": f"2023-0{1 + one % 4}-02T11:00:00Z"})


@pytest.mark.parametrize("asked", [{"name": "O'Brien's \"import\""}, {"name": "back\\slash"}, {"links": True}])
def test_events_of_others_are_not_differences(tmp_path: Path, asked: dict[str, Any]) -> None:
    """Live events on the same days, with the same names, with a mark that is another's or not a string: verify
    succeeds."""
    one = sent_rows(tmp_path, 60, **asked)
    live(one.room, 8)
    live(one.room, 4, analytics_source="another tool")
    live(one.room, 4, analytics_source=["generic"])
    live(one.room, 4, nested={"analytics_source": "generic"})
    found, whole = one.verify(), one.verify(whole=True)
    made = open_plan(one.directory)[0].events.made
    assert found.proved
    assert (found.events.found, found.events.extra, found.events.copies) == (made, 0, 0)
    assert found.scope["analytics_source"] == "generic"
    assert (whole.proved, whole.events.extra, whole.scope) == (False, 8, {})


def test_others_with_the_mark_are_counted_by_name_and_day(tmp_path: Path) -> None:
    """Another import of the same tool: each name and day with its count, the largest first."""
    one = sent_rows(tmp_path, 30)
    live(one.room, 6, analytics_source="generic")
    found = one.verify()
    assert found.proved
    assert (found.events.found, found.events.others, found.events.extra) == (30, 6, 0)
    assert found.cells.match == 3
    assert [(each.event, each.day, each.count) for each in found.extras] == [
        ("Step 0", "2023-01-02", 2), ("Step 1", "2023-02-02", 2), ("Step 2", "2023-03-02", 1),
        ("Step 3", "2023-04-02", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("marks", "others"), [({}, 50), ({"provenance": False}, 57), ({"name": "first"}, 0)], ids=["tool", "none", "named"]
)
def test_a_second_import_of_the_same_tool_is_not_a_difference(
    call: Any, tmp_path: Path, marks: dict[str, Any], others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other events of the same days and names, sent by another plan, next to live ones and copies of ours: exit 0."""
    first, room = planned(tmp_path / "first", 60, batch=10, **marks), empty()
    lost: list[bytes] = []

    def answer(asked: Asked) -> Reply:
        reply = passed_on(room.url, asked.body)
        if lost:
            return reply
        lost.append(asked.body)
        return Reply(0)

    with serving(answer) as server:
        assert run(first, server.url, key=room.key()).balanced
    second = sent_rows(tmp_path / "second", 50, settings=OTHER, name="second" if "name" in marks else "", room=room)
    live(room, 7)
    monkeypatch.setenv("BACKCAST_PERSONAL_KEY", PERSONAL)
    words = ["verify", first, "--to", server.url, "--api", room.url, "--project", room.project]
    said, shown = call(*words, "--json"), call(*words)
    assert (said.code, shown.code) == (0, 0)
    assert second.verify().proved
    Sent(first, room).lose(3)
    assert call(*words).code == 7
    events, text = said.json["events"], " ".join(shown.out.split())
    assert (events["found"], events["others"], events["copies"]) == (60, others, 10)
    assert "Proved: every event that was settled was found once." in text
    assert "10 more copies were accepted, equal to another in uuid" in text
    assert (f"{others} events are there that this plan did not send" in text) == bool(others)


def test_an_event_of_the_import_that_lost_its_mark_is_altered(tmp_path: Path) -> None:
    """An event without provenance cannot be filtered out later, and is not what was sent; it is there, so not
    missing."""
    one = sent_rows(tmp_path, 20)
    one.change(f"update accepted set properties = '{{}}' where uuid = '{uuid(3)}'")
    found = one.verify()
    assert [(each.kind, each.uuid) for each in found.differences] == [("altered", uuid(3))]
    assert "analytics_source" in found.differences[0].changed
    assert (found.events.missing, found.events.altered, found.proved) == (0, 1, False)


def test_without_provenance_the_whole_project_is_compared(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command says so, and who may have sent the other events; its object has the same."""
    one = sent_rows(tmp_path, 20, provenance=False)
    live(one.room, 1)
    monkeypatch.setenv("BACKCAST_PERSONAL_KEY", PERSONAL)
    words = ("verify", one.directory, "--to", one.room.url, "--project", one.room.project)
    shown, said = call(*words), call(*words, "--json")
    assert (shown.code, said.code) == (0, 0)
    assert "not of this plan" in shown.out
    assert "2023-01-02" in shown.out
    assert "The whole project was compared, with what others sent to it." in " ".join(shown.out.split())
    assert (said.json["scope"], said.json["extras"]) == (
        {},
        [{"event": "Step 0", "day": "2023-01-02", "count": 1, "uuid": uuid(1_000_000)}],
    )


def test_a_rehearsal_looks_at_all_that_landed(tmp_path: Path) -> None:
    """The store belongs to the rehearsal: everything there that was not planned is a difference."""
    directory = planned(tmp_path, 10)
    found = api.rehearse_plan(directory, RehearseOptions()).verification
    assert (found.proved, found.scope) == (True, {})


def test_the_service_reads_a_property_as_the_query_language_does() -> None:
    """JSONExtractString gives the content of a string, and nothing for any other value."""
    room = empty()
    values: tuple[Any, ...] = ("generic", " generic", 1, True, None, ["generic"], {"a": "generic"})
    send(room, *(event("u", **{"analytics_source": value, "a/b~c": value}) for value in values))
    for name in ("analytics_source", "a/b~c"):
        ((text,),) = room.select(f"select properties from events where {having({name: 'generic'})}")
        assert json.loads(text)[name] == "generic"
