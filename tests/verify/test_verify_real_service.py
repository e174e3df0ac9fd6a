"""Verify, preflight and fetch at a service that reads queries by the real grammar and has only the real columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline
from pipeline import api
from pipeline.fetch.run import fetch_export
from pipeline.options import FetchOptions, PlanOptions, UndoListOptions
from pipeline.report.results import verify_result
from pipeline.report.verification_words import done_about
from pipeline.verify import Verification
from pipeline.verify.landed import quoted
from tests.support.deliveries import uuid
from tests.support.hogql import LOCAL, TABLES, like_the_real_service, refusal, tree_of
from tests.support.management_service import asking, key_with
from tests.support.people import amplitude
from tests.support.people import planned as planned_people
from tests.support.phased_plans import TYPES, planned_in_phases
from tests.support.preflight import look
from tests.support.preflight import send as send_live
from tests.support.rehearsal import Room, event, send
from tests.support.relays import relay
from tests.support.scripted_server import Canned
from tests.support.verification import PERSONAL, Sent, empty, sent

PHASES = {"merges": 7, "profiles": 7, "groups": 12}


def compared(one: Sent, asked: list[str], **options: Any) -> Verification:
    """The result of verify at such a service."""
    with like_the_real_service(one.room.url, asked) as url:
        return one.verify(**{"api": url, "fields": "all"} | options)


def refused(asked: list[str]) -> list[str]:
    """The queries that the real service would not run, except those about tables of the local service that are
    optional."""
    own = tuple(f"Unknown table `{table}`" for table in LOCAL)
    return [sql for sql in asked if refusal(sql) and refusal(sql) not in own]


def test_groups_are_verified_by_the_numbers_of_their_types(tmp_path: Path) -> None:
    """Types that others created have numbers that the plan does not know; two types may have groups with the same
    key."""
    room, asked = empty(), list[str]()
    send(room, event("u", _groups={"plane": "key-0", TYPES[2]: "key-9"}))
    one = sent(planned_in_phases(tmp_path, 40), room)
    send(room, event("$plane_key-1", "$groupidentify", _group_type="plane", _group_key="key-1", _group_set={"name": 7}))
    found = compared(one, asked)
    assert (found.proved, found.people.compared, found.people.wrong, found.people.unknown) == (True, PHASES, {}, "")
    assert refused(asked) == []
    one.change(
        "delete from group_records where key = 'key-5'",
        "update group_records set properties = '{\"name\":\"other\"}' where key = 'key-1' and type != 'plane'",
    )
    wrong = compared(one, asked)
    differences = {each.kind: each.ids for each in wrong.people.differences}
    assert differences == {"group_missing": [TYPES[2], "key-5"], "group_overwritten": [TYPES[1], "key-1"]}
    assert [each["ids"] for each in one.named()] == [each.ids for each in wrong.people.differences]


@contextmanager
def answering(room: Room, status: int) -> Iterator[str]:
    """The service of a room with this answer to the question for the group types."""
    detail = "API key missing required scope 'group:read'"
    own = Canned(status, {"type": "x", "code": "x", "detail": detail, "attr": None})
    with relay(room.url, instead=lambda asked: own if asked.path.endswith("/groups_types/") else None) as url:
        yield url


@pytest.mark.parametrize(("status", "why"), [(403, "lacks the scope group:read"), (404, "does not list the group typ")])
def test_groups_that_cannot_be_compared_are_unknown(tmp_path: Path, status: int, why: str) -> None:
    """With the true cause; merges and profiles are compared nevertheless, also after an interruption."""
    one = sent(planned_in_phases(tmp_path, 40))
    with answering(one.room, status) as url:
        found = one.verify(api=url, fields="all")
        assert why in found.people.unknown
        assert (found.proved, found.people.compared) == (True, {"merges": 7, "profiles": 7})

        class Stopped(Exception):
            pass

        def stop(name: str, done: int, total: int) -> None:
            if name == "merges, profiles and groups" and done >= 3 * 200:
                raise Stopped

        with pytest.raises(Stopped):
            one.verify(api=url, fields="all", progress=stop)
        assert why in one.verify(api=url, fields="all").people.unknown


def test_the_local_tables_and_group_types_are_those_of_the_service() -> None:
    """No column that the service does not have; the types with their numbers, for a key with the scope."""
    with asking() as ask:
        for table, columns in TABLES.items():
            query = {"kind": "HogQLQuery", "query": f"select * from {table}"}
            assert set(ask("POST", "/api/projects/1/query/", {"query": query}).json()["columns"]) <= columns
        send_live(ask, *(event("u", _groups={one: "key"}) for one in TYPES))
        path = "/api/projects/1/groups_types/"
        types = ask("GET", path, key=key_with("group:read")).json()
        assert [(one["group_type"], one["group_type_index"]) for one in types] == [*zip(TYPES, range(3), strict=True)]
        assert ask("GET", path, key=key_with("query:read")).status_code == 403


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_the_date_of_a_person_is_compared(tmp_path: Path, zone: str) -> None:
    """A date later than all merges of a person is a difference if the import made it; a person that existed before
    keeps its date, and is counted."""
    # The devices of u-1 are seen in another order than that of their ids, in which merges are sent.
    rows = [amplitude(60 - one, user, f"d-{one}") for one in range(12) for user in (None, f"u-{one % 4}")]
    planned_people(tmp_path, "amplitude", rows)
    room = empty(project_timezone=zone)
    one = sent(tmp_path / "plan", room)
    well = one.verify(fields="all", whole=True)
    merges = well.people.compared["merges"]
    assert (well.proved, well.people.there_before, merges > 4) == (True, 0, True)
    room.select("select * from persons")  # persons are computed when they are first read
    person = f"where id = (select person from people_ids where distinct_id = 'u-1' and project = {room.project})"
    one.change(f"update people set created_at = created_at + interval 300 day {person}")
    there = one.verify(fields="all")
    assert (there.proved, there.people.there_before) == (True, merges // 4)
    alone = one.verify(fields="all", whole=True)
    assert (alone.proved, alone.people.wrong) == (False, {"created_later": merges // 4})
    now = datetime.now(UTC) + timedelta(minutes=1)
    one.change(f"update people set created_at = '{now:%Y-%m-%d %H:%M:%S}' {person}")
    imported = one.verify(fields="all")
    assert (imported.proved, imported.people.wrong) == (False, {"created_later": merges // 4})
    assert f"{merges // 4} merge or profile updates of a person" in " ".join(done_about(verify_result(imported)))
    told = imported.people.differences[0]
    assert (told.ids[0], told.part, told.properties) == ("u-1", "identities.jsonl", ["created_at"])
    one.change(f"update people set created_at = '2001-01-01' {person}")  # the older date stays, as the service does it
    assert one.verify(fields="all").proved


def asked_by_verify(folder: Path) -> list[str]:
    """The queries of verifications in each depth, for a target where something of each kind is wrong."""
    one, asked = sent(planned_in_phases(folder, 40, name="It's {2023}")), list[str]()
    one.lose(1, 2)
    one.change(
        f"update accepted set event = 'It''s renamed' where uuid = '{uuid(3)}'",
        f"""update accepted set properties = replace(properties, '"number":', '"number":1') where uuid = '{uuid(4)}'""",
    )
    for fields in ("none", "sample", "all"):
        for uuids in ("all", "differing"):
            assert not compared(one, asked, fields=fields, uuids=uuids).proved
    return asked


def asked_by_preflight(folder: Path) -> list[str]:
    """The queries of a preflight for a plan whose people the target knows already, with live events."""
    directory, asked = planned_in_phases(folder, 40), list[str]()
    with asking() as ask:
        live = [event(f"person-{one % 7}", "Step 1", _browser="Chrome", _set={"plan": "x"}) for one in range(20)]
        send_live(ask, *live)
        with like_the_real_service(ask.service.url, asked) as url:
            look(url, directory, project="1")
    return asked


def asked_by_fetch(folder: Path) -> list[str]:
    """The queries of a fetch of more than a page."""
    room, asked = empty(), list[str]()
    send(room, *(event(f"it's {one}", "Seen", one % 3 + 1, uuid(one), _elements_chain="a:b") for one in range(30)))
    with like_the_real_service(room.url, asked) as url:
        fetch_posthog(folder / "fetched", url, room)
    return asked


def fetch_posthog(folder: Path, url: str, room: Room) -> None:
    options = FetchOptions(host=url, project=str(room.project), first_pause=0)
    fetch_export(
        "posthog", ("2023-01-01", "2023-01-04"), folder, options, environment={"BACKCAST_POSTHOG_KEY": PERSONAL}
    )


def asked_by_undo_list(folder: Path) -> list[str]:
    """The queries that an undo list gives to people."""
    asked: list[str] = []
    for number, more in enumerate(({"name": "It's {2023}"}, {}, {"provenance": False})):
        (folder / str(number)).mkdir()
        one = sent(planned_in_phases(folder / str(number), 40, **more))
        api.list_sent(one.directory, UndoListOptions(out=str(folder / str(number) / "undo")))
        text = (folder / str(number) / "undo" / "queries.sql").read_text("utf-8")
        asked += [sql for sql in re.sub("(?m)^--.*", "", text).split(";") if sql.strip()]
    return asked


@pytest.mark.parametrize("ask", [asked_by_verify, asked_by_preflight, asked_by_fetch, asked_by_undo_list])
def test_every_query_is_one_that_the_real_service_runs(tmp_path: Path, ask: Any) -> None:
    asked = ask(tmp_path)
    assert len(asked) > 5
    assert refused(asked) == []


@settings(max_examples=300)
@given(st.lists(st.text(st.characters(exclude_characters="\\", exclude_categories=["Cs"])), min_size=1, max_size=3))
def test_any_string_is_read_as_it_is(texts: list[str]) -> None:
    """Quotes, braces, line ends and everything else in an id stay inside the strings of a list."""
    where = tree_of(f"select key from groups where index = 0 and key in ({quoted(texts)})")["where"]["exprs"][1]
    read = where["right"]["exprs"] if len(texts) > 1 else [where["right"]]
    assert [one["value"] for one in read] == texts


def test_what_landed_is_fetched_and_planned_again(tmp_path: Path) -> None:
    """The posthog fetch from the local service: every event with its person, and the clicked elements as a column."""
    room = empty()
    send(room, event("u", "$autocapture", 2, uuid(1), _elements_chain='a.link:href="/x"', price=1))
    send(room, event("v", "Seen", 3, uuid(2)))
    fetch_posthog(tmp_path / "fetched", room.url, room)
    plan = pipeline.plan_export(tmp_path / "fetched", tmp_path / "plan", PlanOptions(workers=0))
    assert (plan.tool, plan.rows.mapped) == ("posthog", 2)
    again = sent(tmp_path / "plan")
    assert again.verify(fields="all").proved
    clicked = {one.uuid: json.loads(one.properties) for one in again.room.service.events(again.room.project)}[uuid(1)]
    assert (clicked["$elements_chain"], clicked["price"]) == ('a.link:href="/x"', 1)
    chains = "select elements_chain from events order by timestamp"
    assert [chain for (chain,) in again.room.select(chains)] == ['a.link:href="/x"', ""]
