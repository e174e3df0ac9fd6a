"""The page of the local service shows what landed, all of it bounded, plain and escaped, to this machine alone."""

from __future__ import annotations

import asyncio
import atexit
import re
import socket
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin
from uuid import UUID

import httpx
import pytest
from starlette.applications import Starlette

from pipeline.service import Keyring, LocalService, Settings
from pipeline.service.keys import Project
from pipeline.service.page.chart import chart, day_text
from pipeline.service.page.routes import Page
from pipeline.service.store import Answer, Rows, Store

pytestmark = pytest.mark.slow

NOW = 1_700_000_000_000_000
"""2023-11-14T22:13:20Z, in microseconds."""
CAPTURE, PERSONAL = "phc_testcapture", "phx_testpersonal"
KEYS = Keyring((Project(1, "First <b>", CAPTURE), Project(2, "Second", "phc_testsecond")), {PERSONAL: frozenset({"*"})})
SCRIPT, TURN, NUL = "<script>alert('x')</script>\"'", "a\u202etxt.exe", "nul\x00here"
HOSTILE = SCRIPT + TURN + NUL + "{{ 7 * 7777 }}"
SEED = {
    "hog_functions": [
        {"name": f"Pay {SCRIPT}", "type": "destination", "enabled": True, "filters": {"events": [{"id": "Paid"}]}},
        {
            "name": "Narrow",
            "type": "destination",
            "enabled": True,
            "filters": {"properties": [{"key": "plan", "value": "pro"}]},
            "inputs_schema": [{"key": "token", "type": "string", "secret": True}],
            "inputs": {"token": {"value": "TOPSECRET"}, "open": {"value": "OPENINPUT"}},
        },
        {"name": "Off", "type": "destination", "enabled": False},
    ],
    "session_recordings": [{"id": "rec", "sharing": {"enabled": True, "access_token": "SHARINGTOKEN"}}],
}


CLIENT = httpx.Client(timeout=30)
atexit.register(CLIENT.close)


def event(number: int, name: str = "Seen", id: str = "u1", time: str = "2023-01-02T03:04:05Z", **more: Any) -> Any:
    """An event with a uuid made of its number."""
    return {
        "event": name,
        "properties": {"distinct_id": id} | more,
        "timestamp": time,
        "uuid": str(UUID(int=number, version=4)),
    }


def uuid(number: int) -> str:
    return str(UUID(int=number, version=4))


def send(service: LocalService, *events: Any, key: str = CAPTURE, historical: bool = True) -> None:
    body = {"api_key": key, "historical_migration": historical, "batch": list(events)}
    assert CLIENT.post(service.url + "/batch/", json=body).status_code == 200


def get(service: LocalService, path: str, **params: Any) -> httpx.Response:
    address = service.url + path + ("?" + urlencode(params) if params else "")
    return CLIENT.get(address, follow_redirects=True)


class Read(HTMLParser):
    """What a page says: its text, the cells of its rows, its links."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.rows: list[list[str]] = []
        self.links: list[str] = []
        self._in_cell = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if tag == "tr":
            self.rows.append([])
        if tag == "br":
            self.handle_data(" ")
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = self._in_cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self._in_cell:
            self.rows[-1][-1] += data

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def cells(self) -> list[list[str]]:
        """The rows of all tables, spaces made one."""
        return [[" ".join(cell.split()) for cell in row] for row in self.rows]


def read(service: LocalService, path: str, status: int = 200, **params: Any) -> Read:
    answer = get(service, path, **params)
    assert answer.status_code == status, answer.text
    return Read(answer.text)


def totals(page: Read) -> dict[str, str]:
    """The big numbers of the overview."""
    found = re.findall(
        r"(Events|Not flagged historical|Persons|Groups|Warnings|Rejected requests|Functions that fire) ([\d,]+)",
        page.text.partition("What landed")[2],
    )
    return dict(reversed(found))


def uuids(page: Read) -> list[str]:
    """The events of a list, in its order."""
    return [link.split("/")[2][:36] for link in page.links if re.match(r"/events/[0-9a-f-]{36}", link)]


def crawl(service: LocalService, start: str = "/", most: int = 400) -> dict[str, httpx.Response]:
    """Every page that links lead to from one."""
    found: dict[str, httpx.Response] = {}
    waiting = [start]
    with httpx.Client(base_url=service.url, timeout=30, follow_redirects=True) as client:
        while waiting and len(found) < most:
            address = waiting.pop(0)
            if address in found:
                continue
            found[address] = client.get(address)
            if found[address].headers["content-type"].startswith("text/html") and address != "/docs":
                for link in Read(found[address].text).links:
                    there = urljoin(address, link).partition("#")[0]
                    if there not in found:
                        waiting.append(there)
    return found


@pytest.fixture
def service() -> Iterator[LocalService]:
    with LocalService(keys=KEYS, settings=Settings(clock=lambda: NOW), seed=SEED) as fresh:
        yield fresh


@pytest.fixture(scope="module")
def empty() -> Iterator[LocalService]:
    with LocalService(keys=KEYS, settings=Settings(clock=lambda: NOW)) as fresh:
        yield fresh


@pytest.fixture(scope="module")
def full() -> Iterator[LocalService]:
    """A service where everything that is hostile has landed everywhere that something can land."""
    with LocalService(keys=KEYS, settings=Settings(clock=lambda: NOW), seed=SEED) as fresh:
        send(
            fresh,
            event(1, HOSTILE, HOSTILE, **{HOSTILE: HOSTILE, "deep": {HOSTILE: [HOSTILE]}}),
            event(2, "Paid", "u1", token=CAPTURE, other="see " + PERSONAL, foreign="phc_" + "F" * 40),
            event(3, "$identify", "u1", **{"$anon_distinct_id": "device", "$set": {HOSTILE: HOSTILE}}),
            event(4, "$groupidentify", "g", **{"$group_type": HOSTILE, "$group_key": HOSTILE, "$group_set": {"n": 1}}),
            event(5, "$create_alias", "u1", alias="null"),
            event(6, "$groupidentify", "g", **{"$group_type": "t", "$group_key": HOSTILE * 50}),
            event(7, "Large", "u1", big="x" * 900_000),
            event(8, "Wide", "u1", **{f"p{place}": place for place in range(3000)}),
        )
        CLIENT.post(fresh.url + "/batch/", content=f'{{"api_key":"{CAPTURE}","batch":[{{"event":"{SCRIPT}"')
        yield fresh


def test_the_overview_counts_what_landed(service: LocalService) -> None:
    """Totals, events by day and by name, each with the right number."""
    send(service, event(1), event(2, "Paid"), event(3, time="2023-01-05T00:00:00Z", id="u2"))
    send(service, event(1), event(4, "$identify", "u1", **{"$anon_distinct_id": "device"}))
    send(service, event(5, id="u3"), historical=False)
    send(service, event(6, "$groupidentify", "u1", **{"$group_type": "company", "$group_key": "acme"}))
    send(service, event(7, "$create_alias", "u1", alias="null"))
    CLIENT.post(service.url + "/batch/", content=b"?")
    page = read(service, "/")
    assert totals(page) == {
        "Events": "7",
        "Not flagged historical": "1",
        "Persons": "3",
        "Groups": "1",
        "Warnings": "1",
        "Rejected requests": "1",
        "Functions that fire": "2",
    }
    assert "8 copies accepted" in page.text
    rows = page.cells()
    assert ["2023-01-02", "6"] in rows
    assert ["2023-01-03", "0"] in rows
    assert ["2023-01-05", "1"] in rows
    assert ["Seen", "3", "42.9 %"] in rows
    assert ["Paid", "1", "14.3 %"] in rows
    assert "2023-01-02 03:04:05 to 2023-01-05 00:00:00" in page.text


def test_the_overview_of_some_days(service: LocalService) -> None:
    """Days bound every count of events; both ends are included."""
    for day in range(1, 6):
        send(service, event(day, f"On {day}", time=f"2023-01-0{day}T23:59:59.999999Z"))
    page = read(service, "/", since="2023-01-02", until="2023-01-04")
    assert totals(page)["Events"] == "3"
    assert [row[0] for row in page.cells() if row[0].startswith("On ")] == ["On 2", "On 3", "On 4"]


def test_what_landed_since_is_shown_at_once(service: LocalService) -> None:
    """Nothing that is remembered outlives the next event."""
    for number in range(1, 4):
        send(service, event(number, id=f"u{number}"))
        assert (totals(read(service, "/"))["Events"], totals(read(service, "/"))["Persons"]) == (f"{number}",) * 2
        assert len(uuids(read(service, "/events"))) == number
    send(service, event(1, id="u1", later=True))
    assert "4 copies accepted" in read(service, "/").text
    assert len(uuids(read(service, "/events"))) == 3


@pytest.mark.parametrize("path", ["/", "/events", "/people", "/groups", "/functions", "/warnings", "/rejected"])
def test_an_empty_store_has_every_page(empty: LocalService, path: str) -> None:
    """Where nothing landed, a page says so."""
    assert re.search(r"Nothing has landed|No \w+|no hog function", read(empty, path).text)


@pytest.mark.parametrize("project", [1, 2])
def test_every_link_leads_somewhere(full: LocalService, project: int) -> None:
    """All that can be reached from the overview answers, and stays in its project."""
    send(full, event(900, "Only second", "s1"), key="phc_testsecond")
    found = crawl(full, "/" if project == 1 else "/?project=2")
    assert len(found) > 12
    bad = {path: answer.status_code for path, answer in found.items() if answer.status_code != 200}
    assert {status for path, status in bad.items() if not path.startswith("/people/of")} == set()
    for path, answer in found.items():
        if path not in ("/docs", "/_stats", "/openapi.json"):
            assert ("Only second" in answer.text) <= (project == 2), path


def test_hostile_text_stays_text(full: LocalService) -> None:
    """Markup, marks that turn a line round and NUL are nowhere as they came."""
    shown = 0
    for path, answer in crawl(full).items():
        if path == "/_stats":
            continue
        assert "<script" not in answer.text, path
        assert not {"\u202e", "\x00"} & set(answer.text), path
        assert "54439" not in answer.text, path
        shown += "&lt;script&gt;" in answer.text
    assert shown >= 7


def test_no_page_shows_a_secret(full: LocalService) -> None:
    """Keys, those inside of events too, tokens and inputs of functions are on no page."""
    for path, answer in crawl(full).items():
        for secret in (CAPTURE, PERSONAL, "F" * 40, "TOPSECRET", "OPENINPUT", "SHARINGTOKEN"):
            assert secret not in answer.text, (path, secret)
    assert "see ***" in get(full, f"/events/{uuid(2)}").text


def test_large_events_are_cut_and_counted(full: LocalService) -> None:
    """No page grows with a value or the number of properties; what is left out is said."""
    listed = get(full, "/events")
    assert len(listed.text) < 100_000
    assert "bytes: see the event" in listed.text
    large = get(full, f"/events/{uuid(7)}")
    assert len(large.text) < 30_000
    assert "890,000 more characters" in large.text
    wide = Read(get(full, f"/events/{uuid(8)}").text).text
    assert "2,001 more are left out" in wide
    assert "p998 998" in wide
    assert "p1000" not in wide


def test_values_are_shown_exactly(service: LocalService) -> None:
    """Numbers keep their digits and objects their order."""
    text = '{"distinct_id":"u","a":1.10,"b":12345678901234567890123,"c":-0.0,"d":{"z":1,"y":2},"e":"\\ud83d\\ude00"}'
    body = f'{{"api_key":"{CAPTURE}","batch":[{{"event":"x","uuid":"{uuid(1)}","properties":{text}}}]}}'
    assert CLIENT.post(service.url + "/batch/", content=body).status_code == 200
    shown = read(service, f"/events/{uuid(1)}").text
    for value in ("a 1.10", "b 12345678901234567890123", "c -0.0", 'd {"z":1,"y":2}', "e 😀"):
        assert value in shown


@pytest.mark.parametrize("order", ["", "oldest"])
def test_pages_hold_every_event_once(service: LocalService, order: str) -> None:
    """Going on, and back again, shows each event once and in order, also where times are equal."""
    events = [event(n, time=f"2023-01-{1 + n % 7:02}T00:00:00Z") for n in range(1, 131)]
    send(service, *events)
    wanted = [one["uuid"] for one in sorted(events, key=lambda one: (one["timestamp"], one["uuid"]))]
    wanted = wanted if order else wanted[::-1]
    pages, path = [], f"/events?order={order}"
    while path:
        page = read(service, path)
        pages.append((path, uuids(page)))
        path = next((link for link in page.links if "after=" in link), "")
    assert [len(found) for _, found in pages] == [50, 50, 30]
    assert [one for _, found in pages for one in found] == wanted
    back = next(link for link in read(service, pages[2][0]).links if "before=" in link)
    assert uuids(read(service, back)) == pages[1][1]
    first = next(link for link in read(service, back).links if "before=" in link)
    page = read(service, first)
    assert uuids(page) == pages[0][1]
    assert not [link for link in page.links if "before=" in link]


def test_a_page_stays_where_it_is(service: LocalService) -> None:
    """Events that land meanwhile move no later page."""
    send(service, *(event(n, time=f"2023-01-01T00:{n % 60:02}:00Z") for n in range(1, 111)))
    second = next(link for link in read(service, "/events").links if "after=" in link)
    before = uuids(read(service, second))
    send(service, *(event(n, time="2023-02-01T00:00:00Z") for n in range(200, 240)))
    assert uuids(read(service, second)) == before


FILTERED = [
    ({"event": "Paid"}, {2}),
    ({"id": "u2"}, {2, 3}),
    ({"since": "2023-01-03"}, {3, 4}),
    ({"until": "2023-01-02"}, {1, 2}),
    ({"since": "2023-01-03", "until": "2023-01-03"}, {3}),
    ({"flag": "live"}, {4}),
    ({"flag": "historical", "id": "u2"}, {2, 3}),
    ({"text": "PAID"}, {2}),
    ({"text": "blau"}, {3}),
    ({"text": "crème"}, {1}),
    ({"text": 'say "yes"'}, {4}),
    ({"text": "u2"}, {2, 3}),
    ({"text": uuid(3)}, {3}),
    ({"text": "%"}, set()),
    ({"text": "' OR true --"}, set()),
    ({"event": "x' OR '1'='1"}, set()),
    ({"text": "\x00"}, {5}),
    ({"event": "nul\x00name"}, {5}),
]


@pytest.fixture(scope="module")
def searched() -> Iterator[LocalService]:
    with LocalService(keys=KEYS, settings=Settings(clock=lambda: NOW)) as fresh:
        send(fresh, event(1, time="2023-01-01T12:00:00Z", dessert="crème"))
        send(fresh, event(2, "Paid", "u2", time="2023-01-02T23:59:59Z"))
        send(fresh, event(3, "Seen", "u2", time="2023-01-03T00:00:00Z", colour="Blau"))
        send(fresh, event(4, time="2023-01-04T00:00:00Z", answer='say "yes"'), historical=False)
        send(fresh, event(5, "nul\x00name", time="2022-12-31T00:00:00Z", id="u5"))
        yield fresh


@pytest.mark.parametrize(("params", "numbers"), FILTERED, ids=lambda one: str(one)[:40])
def test_filters(searched: LocalService, params: dict[str, str], numbers: set[int]) -> None:
    """A list holds exactly the events that every filter takes; text is found whatever its case and spelling."""
    page = read(searched, "/events", **params)
    expected = numbers | ({5} if params == {"until": "2023-01-02"} else set())
    assert set(uuids(page)) == {uuid(number) for number in expected}
    assert (f"{len(expected)} event" if expected else "No event found") in page.text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/events?since=2023-13-01", 400),
        ("/events?since=20230101", 400),
        ("/?until=yesterday", 400),
        ("/events?flag=odd", 400),
        ("/events?person=odd", 400),
        ("/events/odd", 404),
        (f"/events/{uuid(99)}", 404),
        ("/people/odd", 404),
        (f"/people/{uuid(99)}", 404),
        ("/people/of?id=nobody", 404),
        ("/people/of", 404),
        ("/?project=3", 404),
        ("/?project=x", 404),
        ("/people?page=0", 200),
        ("/people?page=99999999999999999999", 200),
        ("/people?page=-1", 200),
        ("/groups?type=9", 200),
        ("/warnings?type=%27", 200),
        ("/events?after=odd&before=1.x", 200),
        ("/events?after=-999999999999999999.1", 200),
        ("/events?after=999999999999999999.1", 200),
        ("/events?text=%ED%A0%80%FF", 200),
        ("/events?until=9999-12-31&since=0001-01-01", 200),
        ("/events?text=" + "x" * 20_000, 200),
    ],
    ids=lambda one: str(one)[:40],
)
def test_odd_questions_are_answered(searched: LocalService, path: str, status: int) -> None:
    """A bad filter is 400, what is not there 404, both as pages; nothing is an error of the service."""
    answer = get(searched, path)
    assert answer.status_code == status
    assert answer.text.rstrip().endswith("</html>")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_the_page_changes_nothing(empty: LocalService, method: str) -> None:
    """It can be read only."""
    assert CLIENT.request(method, empty.url + "/events").status_code == 405


GOOD_HOSTS = ["127.0.0.1", "127.0.0.1:8100", "localhost", "LOCALHOST:1", "[::1]:8100"]
BAD_HOSTS = [
    "evil.example", "evil.example:8100", "127.0.0.1.evil.example", "localhost.evil.example", "127.0.0.2", "",
    "a@127.0.0.1", "127.0.0.1:x", "0.0.0.0",
]  # fmt: skip
PAGES = [
    "/", "/events", f"/events/{uuid(1)}", "/people", "/people/of?id=u1", "/groups", "/functions", "/warnings",
    "/rejected", "/style.css", "/_stats",
]  # fmt: skip


@pytest.mark.parametrize("host", GOOD_HOSTS)
def test_loopback_names_see_the_page(searched: LocalService, host: str) -> None:
    """Whatever the port: a tunnel has its own."""
    assert CLIENT.get(searched.url + "/events", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", BAD_HOSTS)
def test_other_names_do_not(searched: LocalService, host: str) -> None:
    """A name that was made to mean this machine (DNS rebinding) is told nothing."""
    for path in PAGES:
        answer = CLIENT.get(searched.url + path, headers={"host": host})
        assert (answer.status_code, "Paid" in answer.text) == (403, False), path


def test_two_host_headers_are_refused(searched: LocalService) -> None:
    """Neither is believed."""
    with socket.create_connection(("127.0.0.1", searched.port), timeout=30) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.split(b" ", 2)[1] in (b"400", b"403")
    assert b"Paid" not in answer


@pytest.mark.parametrize(
    ("site", "mode", "status"),
    [
        ("none", "navigate", 200),
        ("same-origin", "navigate", 200),
        ("same-origin", "no-cors", 200),
        ("cross-site", "navigate", 200),
        ("cross-site", "no-cors", 403),
        ("same-site", "cors", 403),
        ("cross-site", "cors", 403),
    ],
)
def test_other_origins_cannot_load_it(searched: LocalService, site: str, mode: str, status: int) -> None:
    """A link leads here; nothing else of another origin is answered."""
    headers = {"sec-fetch-site": site, "sec-fetch-mode": mode}
    assert CLIENT.get(searched.url + "/events", headers=headers).status_code == status


@pytest.mark.parametrize("path", [*PAGES, "/events/odd", "/?since=x"])
def test_every_answer_has_its_fences(searched: LocalService, path: str) -> None:
    """No scripts, no frames, no sniffing, no other origin, nothing kept by the browser."""
    answer = CLIENT.get(searched.url + path, headers={"origin": "https://evil.example"})
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "script-src" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in answer.headers


def test_a_person_with_ids_properties_and_events(service: LocalService) -> None:
    """Found by each of its ids; its events are in the order of their time."""
    send(service, event(1, "Third", "device", time="2023-01-03T00:00:00Z"))
    send(service, event(2, "First", "ada", time="2023-01-01T00:00:00Z"), event(9, "Other", "bob"))
    send(service, event(3, "$identify", "ada", "2023-01-02T00:00:00Z", **{"$anon_distinct_id": "device"}))
    send(service, event(4, "$set", "ada", "2023-01-04T00:00:00Z", **{"$set": {"email": "ada@example.com"}}))
    for id in ("ada", "device"):
        answer = get(service, "/people/of", id=id)
        assert re.fullmatch(r"/people/[0-9a-f-]{36}", answer.url.path)
        page = Read(answer.text)
        assert "email ada@example.com" in page.text
        assert "2 ids" in page.text
        assert ", identified" not in page.text
        assert uuids(page) == [uuid(2), uuid(3), uuid(1), uuid(4)]
    person = answer.url.path.rpartition("/")[2]
    assert set(uuids(read(service, "/events", person=person, text="first"))) == {uuid(2)}
    assert [row[0] for row in read(service, "/people", text="ADA@").cells()[1:]] == ["ada, device"]
    assert [row[0] for row in read(service, "/people", text="bo").cells()[1:]] == ["bob"]


def test_people_are_paged(service: LocalService) -> None:
    """Each person is on one page, and many ids of one are cut and counted."""
    send(service, *(event(n, id=f"u{n:03}") for n in range(1, 121)))
    links = [{"$anon_distinct_id": f"anon{n:03}"} for n in range(600)]
    send(service, *(event(1000 + n, "$identify", "u001", **link) for n, link in enumerate(links)))
    found = [row[0] for page in (1, 2, 3) for row in read(service, "/people", page=page).cells()[1:]]
    assert len(found) == len(set(found)) == 120
    assert "Page 3 of 3" in read(service, "/people", page=3).text
    assert [one for one in found if "anon000" in one] == ["anon000, anon001, anon002 and 598 more"]
    person = read(service, "/people/of", id="u001")
    assert "601 ids" in person.text
    assert "The first 500 are shown" in person.text


def test_an_event_with_its_copies(service: LocalService) -> None:
    """All accepted copies of a uuid are shown; which one counts, what was dropped and what would fire is said."""
    send(service, event(1, "Paid", at=1))
    send(service, event(1, "Paid", at=2))
    send(service, event(1, "Paid", at=3, time="2023-01-09T00:00:00Z"), historical=False)
    dropped = event(2, "$groupidentify", **{"$group_type": "t", "$group_key": "k" * 500})
    send(service, dropped, event(3, "Plain"))
    page = read(service, f"/events/{uuid(1)}")
    assert "3 copies were accepted" in page.text
    assert re.findall(r"(?:does not count|counts)(?= )", page.text) == ["counts", "counts", "does not count"]
    assert page.text.index("at 3") < page.text.index("at 2") < page.text.index("at 1")
    assert "not historical" in page.text
    assert "(would fire)" in page.text
    assert "Narrow (may fire)" in page.text
    listed = {tuple(row[:2]): row[3] for row in read(service, "/events", event="Paid").cells()[1:]}
    assert listed == {
        ("2023-01-02 03:04:05", "Paid"): "historical 2 copies",
        ("2023-01-09 00:00:00", "Paid"): "not historical",
    }
    gone = read(service, f"/events/{uuid(2)}").text
    assert "Dropped: group_key_too_long" in gone
    assert "does not count" in gone
    assert "would fire" not in read(service, f"/events/{uuid(3)}").text


def test_groups_by_type(service: LocalService) -> None:
    """Types with how many groups each has, and the groups with their properties, found by key, type and text."""
    for number, (kind, key) in enumerate([("company", "acme"), ("company", "globex"), ("team", "red")]):
        given = {"$group_type": kind, "$group_key": key, "$group_set": {"seats": number}}
        send(service, event(10 + number, "$groupidentify", **given))
    rows = read(service, "/groups").cells()
    assert ["company", "0", "2"] in rows
    assert ["team", "1", "1"] in rows
    assert {row[1] for row in rows if len(row) == 5} == {"key", "acme", "globex", "red"}
    assert {row[1] for row in read(service, "/groups", type="1").cells() if len(row) == 5} == {"key", "red"}
    assert {row[1] for row in read(service, "/groups", text="GLOB").cells() if len(row) == 5} == {"key", "globex"}


def test_functions_with_what_they_would_meet(service: LocalService) -> None:
    """Each function with the number of events that it would or may fire for."""
    send(service, event(1, "Paid"), event(2, "Paid"), event(3))
    rows = {row[0].split(" ")[0]: row[2:5] for row in read(service, "/functions").cells()[1:]}
    assert rows == {"Pay": ["yes", "2", "0"], "Narrow": ["yes", "0", "3"], "Off": ["no", "0", "0"]}


def test_a_deleted_function_is_gone(service: LocalService) -> None:
    """It fires for nothing, and is not shown."""
    send(service, event(1, "Paid"))
    address = f"{service.url}/api/projects/1/hog_functions/"
    headers = {"authorization": f"Bearer {PERSONAL}"}
    pay = next(one for one in CLIENT.get(address, headers=headers).json()["results"] if one["name"].startswith("Pay"))
    assert CLIENT.patch(f"{address}{pay['id']}/", headers=headers, json={"deleted": True}).status_code == 200
    assert [row[0].split()[0] for row in read(service, "/functions").cells()[1:]] == ["Narrow", "Off"]
    assert "would fire" not in read(service, f"/events/{uuid(1)}").text
    assert totals(read(service, "/"))["Functions that fire"] == "1"


def test_an_event_tells_what_became_of_its_merge(service: LocalService) -> None:
    """Warnings that are found only when persons are worked out are there at the first look."""
    send(service, event(1, "$create_alias", alias="null"))
    assert "cannot_merge_with_illegal_distinct_id" in read(service, f"/events/{uuid(1)}").text


def test_warnings_and_rejected_requests_are_paged(service: LocalService) -> None:
    """The warnings of a type, and the requests that were turned away with reason and body, the last first."""
    send(service, *(event(n, "$create_alias", alias="null") for n in range(1, 61)))
    send(service, event(99, id="i" * 300))
    page = read(service, "/warnings", type="cannot_merge_with_illegal_distinct_id")
    assert "60 warnings" in page.text
    assert "Page 1 of 2" in page.text
    assert len(set(uuids(page))) == 50
    assert set(uuids(read(service, "/warnings", type="distinct_id_shortened"))) == {uuid(99)}
    for number in range(55):
        CLIENT.post(service.url + "/batch/", content=f"not json {number}")
    first, second = read(service, "/rejected"), read(service, "/rejected", page=2)
    assert "55 requests rejected" in first.text
    bodies = [row[3] for page in (first, second) for row in page.cells()[1:]]
    assert sorted(bodies) == sorted(f"not json {number}" for number in range(55))


def test_a_store_opened_without_its_keys(tmp_path: Path) -> None:
    """A project that nobody has a key for can be looked at all the same."""
    with LocalService(tmp_path / "store.duckdb", keys=KEYS) as before:
        send(before, event(1, "Only second"), key="phc_testsecond")
    with LocalService(tmp_path / "store.duckdb") as after:
        assert "2: without a key" in read(after, "/").text
        assert uuids(read(after, "/events", project=2)) == [uuid(1)]


class Unhurried(Store):
    """A store that works out persons when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.let = threading.Event()

    def select(self, sql: str, project: int, *, tree: Any = None, **more: Any) -> Answer:
        if tree is None:
            self.let.wait(60)
        return super().select(sql, project, tree=tree, **more)


def test_persons_may_take_their_time() -> None:
    """While persons are worked out a page says so and loads again; events are there at once."""
    store = Unhurried()
    rows = Rows(NOW, [uuid(1)], ["Seen"], ["u1"], [NOW], [b"{}"], [True])
    store.append(1, rows)

    async def no_functions(project: int) -> list[Any]:
        return []

    async def look() -> tuple[list[str], str]:
        page = Page(store, KEYS, no_functions, patience=0.2)
        transport = httpx.ASGITransport(Starlette(routes=page.routes()))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            seen = [(await client.get(path)).text for path in ("/people", "/", "/events")]
            store.let.set()
            answer = (await client.get("/people")).text
            while "refresh" in answer:
                answer = (await client.get("/people")).text
        page.close()
        return seen, answer

    (people, overview, events), at_last = asyncio.run(look())
    store.close()
    assert '<meta http-equiv="refresh"' in people
    assert "u1" not in people
    assert "still being worked out" in overview
    assert "1 event<" in events
    assert "1 person<" in at_last


@pytest.mark.parametrize(
    ("days", "unit", "bars", "gaps"),
    [
        ([0], "day", 1, 0),
        ([0, 9], "day", 10, 8),
        ([0, 1199], "day", 1200, 1198),
        ([0, 1200], "month", 40, 38),
        ([-1, 365 * 101], "year", 2, 0),
        ([-719_528, 0], "year", 2, 0),
    ],
)
def test_the_chart_chooses_its_unit(days: list[int], unit: str, bars: int, gaps: int) -> None:
    """By day as long as bars can be told apart, then by month, then by year; nothing is left out of the sum."""
    found = chart((day, day % 7 + 1) for day in days)
    assert found is not None
    assert (found.unit, len(found.bars), found.gaps) == (unit, bars, gaps)
    assert sum(bar.count for bar in found.bars) == sum(day % 7 + 1 for day in days)
    assert max(bar.height for bar in found.bars) == 160
    assert found.bars[-1].x < 1000


def test_days_of_every_year_have_a_name() -> None:
    """The year 0 too, which the calendar of Python lacks."""
    assert [day_text(day) for day in (-719_528, -719_162, 0, 2_932_896)] == [
        "0000-01-01",
        "0001-01-01",
        "1970-01-01",
        "9999-12-31",
    ]


def test_times_at_the_ends_of_the_calendar(service: LocalService) -> None:
    """Events of the year 0 and of long ago are counted and listed."""
    send(service, event(1, "Old", time="0000-01-01T00:00:00Z"), event(2, "Young", time="2023-01-01T00:00:00Z"))
    assert ["0000", "1"] in read(service, "/").cells()
    assert len(uuids(read(service, "/events"))) == 2
