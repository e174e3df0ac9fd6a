"""Events on the local service's page: paged, filtered, each shown exactly and with its copies."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from pipeline.local_service import LocalService
from tests.support.page_service import CAPTURE, CLIENT, event, get, make, read, send, uuid, uuids


def test_values_are_shown_exactly(seeded: LocalService) -> None:
    """Numbers keep their digits and objects their order."""
    text = '{"distinct_id":"u","a":1.10,"b":12345678901234567890123,"c":-0.0,"d":{"z":1,"y":2},"e":"\\ud83d\\ude00"}'
    body = f'{{"api_key":"{CAPTURE}","batch":[{{"event":"x","uuid":"{uuid(1)}","properties":{text}}}]}}'
    assert CLIENT.post(seeded.url + "/batch/", content=body).status_code == 200
    shown = read(seeded, f"/events/{uuid(1)}").text
    for value in ("a 1.10", "b 12345678901234567890123", "c -0.0", 'd {"z":1,"y":2}', "e 😀"):
        assert value in shown


@pytest.mark.parametrize("order", ["", "oldest"])
def test_pages_have_every_event_once(seeded: LocalService, order: str) -> None:
    """Following the pages forward and back shows each event once and in order, also if times are equal."""
    events = [event(n, time=f"2023-01-{1 + n % 7:02}T00:00:00Z") for n in range(1, 131)]
    send(seeded, *events)
    wanted = [one["uuid"] for one in sorted(events, key=lambda one: (one["timestamp"], one["uuid"]))]
    wanted = wanted if order else wanted[::-1]
    pages, path = [], f"/events?order={order}"
    while path:
        page = read(seeded, path)
        pages.append((path, uuids(page)))
        path = next((link for link in page.links if "after=" in link), "")
    assert [len(found) for _, found in pages] == [50, 50, 30]
    assert [one for _, found in pages for one in found] == wanted
    back = next(link for link in read(seeded, pages[2][0]).links if "before=" in link)
    assert uuids(read(seeded, back)) == pages[1][1]
    first = next(link for link in read(seeded, back).links if "before=" in link)
    page = read(seeded, first)
    assert uuids(page) == pages[0][1]
    assert not [link for link in page.links if "before=" in link]


def test_paper_has_the_beginning_of_a_list_and_says_so(seeded: LocalService) -> None:
    """The style sheet hides the rest; a short list is whole."""
    send(seeded, *(event(n, time="2023-01-01T00:00:00Z") for n in range(1, 10)))
    assert "On paper: the first 9 events of this list" in read(seeded, "/events").text
    send(seeded, *(event(n, time="2023-01-01T00:00:00Z") for n in range(10, 41)))
    most = int(re.findall(r"\.events tbody tr:nth-child\(n\+([0-9]+)\)", get(seeded, "/style.css").text)[0]) - 1
    assert f"On paper: the first {most} events of this list" in read(seeded, "/events").text


def test_a_page_stays_where_it_is(seeded: LocalService) -> None:
    """Events that land meanwhile do not shift later pages."""
    send(seeded, *(event(n, time=f"2023-01-01T00:{n % 60:02}:00Z") for n in range(1, 111)))
    second = next(link for link in read(seeded, "/events").links if "after=" in link)
    before = uuids(read(seeded, second))
    send(seeded, *(event(n, time="2023-02-01T00:00:00Z") for n in range(200, 240)))
    assert uuids(read(seeded, second)) == before


FILTERED = [
    ({"event": "Paid"}, {2}),
    ({"id": "u2"}, {2, 3}),
    ({"since": "2023-01-03"}, {3, 4}),
    ({"until": "2023-01-02"}, {1, 2, 5}),
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
    with make(None) as fresh:
        send(fresh, event(1, time="2023-01-01T12:00:00Z", dessert="crème"))
        send(fresh, event(2, "Paid", "u2", time="2023-01-02T23:59:59Z"))
        send(fresh, event(3, "Seen", "u2", time="2023-01-03T00:00:00Z", colour="Blau"))
        send(fresh, event(4, time="2023-01-04T00:00:00Z", answer='say "yes"'), historical=False)
        send(fresh, event(5, "nul\x00name", time="2022-12-31T00:00:00Z", id="u5"))
        yield fresh


@pytest.mark.parametrize(("params", "numbers"), FILTERED, ids=lambda one: str(one)[:40])
def test_filters(searched: LocalService, params: dict[str, str], numbers: set[int]) -> None:
    """A list has exactly the events that match every filter; strings match in any case and spelling."""
    page = read(searched, "/events", **params)
    assert set(uuids(page)) == {uuid(number) for number in numbers}
    assert (f"{len(numbers)} event" if numbers else "No event found") in page.text


def test_odd_questions_are_answered(searched: LocalService) -> None:
    """A bad filter is 400, a missing thing 404, both as pages; none is a server error."""
    wanted = {
        400: ["/events?since=2023-13-01", "/events?since=20230101", "/?until=yesterday", "/events?flag=odd",
              "/events?person=odd"],
        404: ["/events/odd", f"/events/{uuid(99)}", "/people/odd", f"/people/{uuid(99)}", "/people/of?id=nobody",
              "/people/of", "/?project=3", "/?project=x"],
        200: ["/people?page=0", "/people?page=99999999999999999999", "/people?page=-1", "/groups?type=9",
              "/warnings?type=%27", "/events?after=odd&before=1.x", "/events?after=-999999999999999999.1",
              "/events?after=999999999999999999.1", "/events?text=%ED%A0%80%FF",
              "/events?until=9999-12-31&since=0001-01-01", "/events?text=" + "x" * 20_000],
    }  # fmt: skip
    for status, paths in wanted.items():
        for path in paths:
            answer = get(searched, path)
            assert (answer.status_code, answer.text.rstrip()[-7:]) == (status, "</html>"), path[:80]


def test_an_event_with_its_copies(seeded: LocalService) -> None:
    """All accepted copies of a uuid are shown, with which one counts, what was dropped and what would fire."""
    send(seeded, event(1, "Paid", at=1))
    send(seeded, event(1, "Paid", at=2))
    send(seeded, event(1, "Paid", at=3, time="2023-01-09T00:00:00Z"), historical=False)
    dropped = event(2, "$groupidentify", **{"$group_type": "t", "$group_key": "k" * 500})
    send(seeded, dropped, event(3, "Plain"))
    page = read(seeded, f"/events/{uuid(1)}")
    assert "3 copies were accepted" in page.text
    assert re.findall(r"(?:does not count|counts)(?= )", page.text) == ["counts", "counts", "does not count"]
    assert page.text.index("at 3") < page.text.index("at 2") < page.text.index("at 1")
    assert "not historical" in page.text
    assert "(would fire)" in page.text
    assert "Narrow (may fire)" in page.text
    rows = read(seeded, "/events", event="Paid").cells()
    listed = {tuple(row[:2]): row[3] for row in rows if row[1:2] == ["Paid"]}
    first, second = ("2023-01-02 03:04:05", "Paid"), ("2023-01-09 00:00:00", "Paid")
    assert listed == {first: "historical 2 copies", second: "not historical"}
    gone = read(seeded, f"/events/{uuid(2)}").text
    assert "Dropped: group_key_too_long" in gone
    assert "does not count" in gone
    assert "would fire" not in read(seeded, f"/events/{uuid(3)}").text


def test_an_event_shows_what_became_of_its_merge(seeded: LocalService) -> None:
    """Warnings that are found only when persons are computed are there on the first view."""
    send(seeded, event(1, "$create_alias", alias="null"))
    assert "cannot_merge_with_illegal_distinct_id" in read(seeded, f"/events/{uuid(1)}").text
