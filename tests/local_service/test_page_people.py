"""People and groups on the local service's page, and its notice while they are being processed."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette

from pipeline.local_service import LocalService
from pipeline.local_service.page.routes import Page
from pipeline.local_service.store.database import EventColumns, Store
from tests.support.page_service import KEYS, NOW, Read, event, get, read, send, uuid, uuids


def test_a_person_with_ids_properties_and_events(seeded: LocalService) -> None:
    """A person is found by each of its ids; its events are in the order of time."""
    send(seeded, event(1, "Third", "device", time="2023-01-03T00:00:00Z"))
    send(seeded, event(2, "First", "ada", time="2023-01-01T00:00:00Z"), event(9, "Other", "bob"))
    send(seeded, event(3, "$identify", "ada", "2023-01-02T00:00:00Z", **{"$anon_distinct_id": "device"}))
    send(seeded, event(4, "$set", "ada", "2023-01-04T00:00:00Z", **{"$set": {"email": "ada@example.com"}}))
    for id in ("ada", "device"):
        answer = get(seeded, "/people/of", id=id)
        assert re.fullmatch(r"/people/[0-9a-f-]{36}", answer.url.path)
        page = Read(answer.text)
        assert "email ada@example.com" in page.text
        assert "2 ids" in page.text
        assert ", identified" not in page.text
        assert uuids(page) == [uuid(2), uuid(3), uuid(1), uuid(4)]
    person = answer.url.path.rpartition("/")[2]
    assert set(uuids(read(seeded, "/events", person=person, text="first"))) == {uuid(2)}
    assert [row[0] for row in read(seeded, "/people", text="ADA@").cells()[1:]] == ["ada, device"]
    assert [row[0] for row in read(seeded, "/people", text="bo").cells()[1:]] == ["bob"]


def test_people_are_paged(seeded: LocalService) -> None:
    """Each person is on one page, and a long list of ids is cut and counted."""
    send(seeded, *(event(n, id=f"u{n:03}") for n in range(1, 121)))
    links = [{"$anon_distinct_id": f"anon{n:03}"} for n in range(600)]
    send(seeded, *(event(1000 + n, "$identify", "u001", **link) for n, link in enumerate(links)))
    found = [row[0] for page in (1, 2, 3) for row in read(seeded, "/people", page=page).cells()[1:]]
    assert len(found) == len(set(found)) == 120
    assert "Page 3 of 3" in read(seeded, "/people", page=3).text
    assert [one for one in found if "anon000" in one] == ["anon000, anon001, anon002 and 598 more"]
    person = read(seeded, "/people/of", id="u001")
    assert "601 ids" in person.text
    assert "The first 500 are shown" in person.text


def test_groups_by_type(seeded: LocalService) -> None:
    """Types with the number of groups, and the groups with their properties, found by key, type and content."""
    for number, (kind, key) in enumerate([("company", "acme"), ("company", "globex"), ("team", "red")]):
        given = {"$group_type": kind, "$group_key": key, "$group_set": {"seats": number}}
        send(seeded, event(10 + number, "$groupidentify", **given))
    rows = read(seeded, "/groups").cells()
    assert ["company", "0", "2"] in rows
    assert ["team", "1", "1"] in rows
    assert {row[1] for row in rows if len(row) == 5} == {"key", "acme", "globex", "red"}
    assert {row[1] for row in read(seeded, "/groups", type="1").cells() if len(row) == 5} == {"key", "red"}
    assert {row[1] for row in read(seeded, "/groups", text="GLOB").cells() if len(row) == 5} == {"key", "globex"}


def test_a_store_opened_without_its_keys(tmp_path: Path) -> None:
    """A project without a key can be viewed nevertheless."""
    with LocalService(tmp_path / "store.duckdb", keys=KEYS) as before:
        send(before, event(1, "Only second"), key="phc_testsecond")
    with LocalService(tmp_path / "store.duckdb") as after:
        assert "2: without a key" in read(after, "/").text
        assert uuids(read(after, "/events", project=2)) == [uuid(1)]


class Unhurried(Store):
    """A store that computes persons only when released."""

    def __init__(self) -> None:
        super().__init__()
        self.let = threading.Event()

    def select(
        self, sql: str, project: int, *, seconds: float | None = None, people: bool | None = None
    ) -> list[tuple[Any, ...]]:
        if people is None:
            self.let.wait(60)
        return super().select(sql, project, seconds=seconds, people=people)


def test_persons_may_take_their_time() -> None:
    """While persons are being processed a page says so and reloads itself; events are there at once."""
    store = Unhurried()
    store.append(1, EventColumns(NOW, [uuid(1)], ["Seen"], ["u1"], [NOW], [b"{}"], [True]))

    async def no_functions(project: int) -> list[Any]:
        return []

    async def look() -> tuple[list[str], str]:
        page = Page(store, KEYS, no_functions, patience=0.2)
        transport = httpx.ASGITransport(Starlette(routes=page.routes()))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            seen = [(await client.get(path)).text for path in ("/people", "/", "/events")]
            store.let.set()
            for _ in range(150):  # each view waits for as long as the page's patience
                answer = (await client.get("/people")).text
                if "refresh" not in answer:
                    break
        page.close()
        return seen, answer

    (people, overview, events), at_last = asyncio.run(look())
    store.close()
    assert '<meta http-equiv="refresh"' in people
    assert "u1" not in people
    assert "still being processed" in overview
    assert "1 event<" in events
    assert "1 person<" in at_last
