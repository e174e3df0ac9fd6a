"""The local service's page is plain, shows no secret, changes nothing, and answers only this machine."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest

from pipeline.local_service import LocalService
from tests.support.page_service import CAPTURE, CLIENT, HOSTILE, PERSONAL, SCRIPT, Read, event, get, make, send, uuid
from tests.support.plain_http import PLAIN


def crawl(service: LocalService, start: str = "/") -> dict[str, httpx.Response]:
    """The pages that links lead to from this one, two of each kind: with these parameters at this place."""
    found: dict[str, httpx.Response] = {}
    kinds = Counter[tuple[Any, ...]]()
    waiting = [start]
    with httpx.Client(base_url=service.url, timeout=30, **PLAIN, follow_redirects=True) as client:
        while waiting:
            address = waiting.pop(0)
            url = httpx.URL(address)
            kind = (*url.path.split("/")[1:2], url.path.count("/"), *sorted(url.params))
            kinds[kind] += address not in found
            if address in found or kinds[kind] > 2:
                continue
            found[address] = client.get(address)
            if found[address].headers["content-type"].startswith("text/html") and address != "/docs":
                waiting += [urljoin(address, link).partition("#")[0] for link in Read(found[address].text).links]
    return found


@pytest.fixture(scope="module")
def full() -> Iterator[LocalService]:
    """A service with hostile content in every place that can have any."""
    with make() as fresh:
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
        send(fresh, event(900, "Only second", "s1"), key="phc_testsecond")
        yield fresh


@pytest.fixture(scope="module")
def crawled(full: LocalService) -> dict[str, httpx.Response]:
    """Pages of every kind of its first project."""
    return crawl(full)


@pytest.mark.parametrize("project", [1, 2])
def test_every_link_leads_somewhere(full: LocalService, crawled: dict[str, httpx.Response], project: int) -> None:
    """It stays in its project; from a missing project it leads to the first."""
    found = crawled if project == 1 else crawl(full, "/?project=2")
    assert len(found) > 12
    bad = {path: answer.status_code for path, answer in found.items() if answer.status_code != 200}
    assert {status for path, status in bad.items() if not path.startswith("/people/of")} == set()
    shown = {path for path, answer in found.items() if "Only second" in answer.text}
    assert bool(shown - {"/docs", "/openapi.json"}) is (project == 2)
    lost = get(full, "/events?project=9")
    assert (lost.status_code, 'href="/"' in lost.text, "project=9" in lost.text) == (404, True, False)


def test_hostile_text_stays_text(crawled: dict[str, httpx.Response]) -> None:
    """Markup, characters that reverse a line, and NUL never appear unescaped."""
    shown = 0
    for path, answer in crawled.items():
        assert "<script" not in answer.text, path
        assert not {"\u202e", "\x00"} & set(answer.text), path
        assert "54439" not in answer.text, path
        shown += "&lt;script&gt;" in answer.text
    assert shown >= 7


def test_no_page_shows_a_secret(full: LocalService, crawled: dict[str, httpx.Response]) -> None:
    """No page has keys (also inside events), tokens, or inputs of functions."""
    for path, answer in crawled.items():
        for secret in (CAPTURE, PERSONAL, "F" * 40, "TOPSECRET", "OPENINPUT", "SHARINGTOKEN"):
            assert secret not in answer.text, (path, secret)
    assert "see ***" in get(full, f"/events/{uuid(2)}").text


def test_large_events_are_cut_and_counted(full: LocalService) -> None:
    """No page grows with a value or the number of properties; it says what is left out."""
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


def test_the_page_changes_nothing(full: LocalService) -> None:
    for method in ("POST", "PUT", "DELETE"):
        assert CLIENT.request(method, full.url + "/events").status_code == 405


GOOD_HOSTS = ["127.0.0.1", "127.0.0.1:8100", "localhost", "LOCALHOST:1", "[::1]:8100"]
BAD_HOSTS = [
    "evil.example", "evil.example:8100", "127.0.0.1.evil.example", "localhost.evil.example", "127.0.0.2", "",
    "a@127.0.0.1", "127.0.0.1:x", "0.0.0.0",
]  # fmt: skip
PAGES = [
    "/", "/events", f"/events/{uuid(1)}", "/people", "/people/of?id=u1", "/groups", "/functions", "/warnings",
    "/rejected", "/style.css",
]  # fmt: skip


def test_only_loopback_names_see_the_page(full: LocalService) -> None:
    """Any port: a tunnel has its own. A name that was made to point to this machine (DNS rebinding) gets nothing."""
    for host in GOOD_HOSTS:
        assert CLIENT.get(full.url + "/events", headers={"host": host}).status_code == 200, host
    for host in BAD_HOSTS:
        for path in PAGES if host == BAD_HOSTS[0] else ("/events", "/style.css"):
            answer = CLIENT.get(full.url + path, headers={"host": host})
            assert (answer.status_code, "Paid" in answer.text) == (403, False), (host, path)


def test_two_host_headers_are_refused(full: LocalService) -> None:
    with socket.create_connection(("127.0.0.1", full.port), timeout=30) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.split(b" ", 2)[1] in (b"400", b"403")
    assert b"Paid" not in answer


def test_other_origins_cannot_load_it(full: LocalService) -> None:
    """A link leads here; nothing else of another origin is answered."""
    wanted = {
        ("none", "navigate"): 200, ("same-origin", "navigate"): 200, ("same-origin", "no-cors"): 200,
        ("cross-site", "navigate"): 200, ("cross-site", "no-cors"): 403, ("same-site", "cors"): 403,
        ("cross-site", "cors"): 403,
    }  # fmt: skip
    found = {
        (site, mode): CLIENT.get(full.url + "/events", headers={"sec-fetch-site": site, "sec-fetch-mode": mode})
        for site, mode in wanted
    }
    assert {asked: answer.status_code for asked, answer in found.items()} == wanted


def test_every_answer_has_its_fences(full: LocalService) -> None:
    """No scripts, no frames, no sniffing, no other origin, nothing cached by the browser."""
    for path in (*PAGES, "/events/odd", "/?since=x"):
        headers = CLIENT.get(full.url + path, headers={"origin": "https://evil.example"}).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'self'"), path
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "script-src" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers
