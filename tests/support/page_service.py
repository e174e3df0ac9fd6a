"""The page of a local service as its reader sees it, and events to send there."""

from __future__ import annotations

import atexit
import re
import time
from contextlib import AbstractContextManager
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import httpx

from pipeline.local_service import Keyring, LocalService, Settings
from pipeline.local_service.keys import Project
from tests.support.plain_http import PLAIN
from tests.support.services import NOW, running

CAPTURE, PERSONAL = "phc_testcapture", "phx_testpersonal"
KEYS = Keyring((Project(1, "First <b>", CAPTURE), Project(2, "Second", "phc_testsecond")), {PERSONAL: frozenset({"*"})})
SCRIPT, TURN, NUL = "<script>alert('x')</script>\"'", "a\u202etxt.exe", "nul\x00here"
PROCESSING = "are still being processed"
"""The notice of a page about persons and groups that do not count every event yet."""
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
CLIENT = httpx.Client(timeout=30, **PLAIN)
atexit.register(CLIENT.close)


def make(seed: dict[str, Any] | None = SEED) -> AbstractContextManager[LocalService]:
    """A service of two projects with a fixed clock."""
    return running(KEYS, Settings(clock=lambda: NOW), seed=seed)


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
    """The page at a path, loaded again for up to 30 s while it says that persons and groups are being processed."""
    address = service.url + path + ("?" + urlencode(params) if params else "")
    end = time.monotonic() + 30
    while PROCESSING in (answer := CLIENT.get(address, follow_redirects=True)).text and time.monotonic() < end:
        time.sleep(0.02)
    return answer


class Read(HTMLParser):
    """The content of a page: its text, the cells of its rows, its links."""

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
        """The rows of all tables, with single spaces."""
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
