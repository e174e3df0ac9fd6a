"""Who may see the page: a browser on this machine that was asked for it by a loopback name.

The page needs no key, so a site elsewhere must not read it through the browser of somebody who runs the service. A
name of that site that suddenly means 127.0.0.1 (DNS rebinding) is refused by the Host header. Another origin cannot
read the answers, put them in a frame or load them as images and scripts. The page changes nothing, so there is no
request to forge.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from pipeline.local_service.keys import Keyring
from pipeline.local_service.page import events, people, warnings
from pipeline.local_service.page.events import BadFilter, EventFilter, is_uuid, read_filter
from pipeline.local_service.page.overview import Fired, event_names, fired, firing_for, made, overview
from pipeline.local_service.page.reader import MOST_PAGES, PAGE, Reading, Remembered
from pipeline.local_service.page.rendering import Links, PlainText, Rendering, asset
from pipeline.local_service.store.database import BadQuery, SlowQuery, Store, Unavailable

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""On every answer of the page."""

_LOOPBACK = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)
"""Any port: a tunnel to the service has another one than the service."""


Endpoint = Callable[[Request], Awaitable[Response]]


def guarded(endpoint: Endpoint) -> Endpoint:
    """The endpoint for those who may see the page, 403 for others."""

    async def answered(request: Request) -> Response:
        refused = refusal(request)
        response = await endpoint(request) if refused is None else PlainTextResponse(refused + "\n", 403)
        response.headers.update(HEADERS)
        return response

    return answered


def refusal(request: Request) -> str | None:
    """Why this request may not see the page, or None."""
    hosts = request.headers.getlist("host")
    if len(hosts) != 1 or not _LOOPBACK.fullmatch(hosts[0]):
        return "This page is for this machine alone. Open it as http://127.0.0.1 or http://localhost, with the port."
    site, mode = request.headers.get("sec-fetch-site"), request.headers.get("sec-fetch-mode")
    if site in ("cross-site", "same-site") and mode != "navigate":
        return "This page cannot be loaded into a page of another origin."
    return None


LONGEST_PARAMETER = 1_000
_OFFERED_NAMES = 50

Value = TypeVar("Value")
Functions = Callable[[int], Awaitable[Sequence[Mapping[str, Any]]]]
"""The hog functions of a project."""


class NotThere(Exception):
    """What was asked for is not in the store; the message says so in a sentence."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks for, of which project."""

    project: int
    links: Links
    params: Mapping[str, str]
    path: Mapping[str, str]
    address: str

    @property
    def page(self) -> int:
        """The number of the page of a list, from 1."""
        given = self.params.get("page", "")
        return min(max(int(given), 1), MOST_PAGES) if given.isascii() and given.isdigit() else 1


@dataclass(frozen=True, slots=True)
class View:
    """A template with its values, for one section."""

    template: str
    section: str
    values: Mapping[str, Any]
    status: int = 200


class Page:
    """The page over one store. It holds two threads until it is closed.

    It waits `patience` seconds for persons and groups to be worked out before it says that they are.
    """

    def __init__(self, store: Store, keys: Keyring, hog_functions: Functions, *, patience: float = 0.5) -> None:
        self._patience = patience
        self._store = store
        self._keys = keys
        self._hog_functions = hog_functions
        self._plain = PlainText(keys.texts())
        self._rendering = Rendering(self._plain)
        self._remembered = Remembered()
        self._reader = ThreadPoolExecutor(1, "service-page")
        self._folder = ThreadPoolExecutor(1, "service-page-people")
        self._folding: Future[Any] | None = None

    def close(self) -> None:
        """Let go of the threads."""
        self._reader.shutdown(cancel_futures=True)
        self._folder.shutdown(cancel_futures=True)

    def routes(self) -> list[Route]:
        """Every address of the page."""
        shown = {
            "/": self._overview,
            "/events": self._events,
            "/events/{uuid}": self._event,
            "/people": self._people,
            "/people/of": self._person_of,
            "/people/{id}": self._person,
            "/groups": self._groups,
            "/functions": self._functions,
            "/warnings": self._warnings,
            "/rejected": self._rejected,
        }
        routes = [Route(path, self._door(view)) for path, view in shown.items()]
        for path, kind in (("style.css", "text/css"), ("icon.svg", "image/svg+xml")):
            routes.append(Route("/" + path, _file(path, kind)))
        return routes

    def _door(self, view: Callable[[Asked], Awaitable[View | Response]]) -> Endpoint:
        async def answered(request: Request) -> Response:
            asked = self._asked(request)
            try:
                if asked.project not in await self._projects():
                    asked = replace(asked, project=self._keys.projects[0].id, links=Links(None))
                    raise NotThere("There is no such project.")
                found = await view(asked)
            except NotThere as error:
                found = View("trouble", "", {"title": "Not found", "text": str(error)}, 404)
            except BadFilter as error:
                found = View("trouble", "", {"title": "The filter is not understood", "text": str(error)}, 400)
            except SlowQuery:
                told = "The answer took too long and was given up. Ask for fewer days, or for one event or id."
                found = View("trouble", "", {"title": "Too much at once", "text": told}, 503)
            except (BadQuery, Unavailable) as error:
                told = f"The store cannot answer now: {error}"
                found = View("trouble", "", {"title": "No answer", "text": told}, 503)
            return found if isinstance(found, Response) else await self._rendered(asked, found)

        return guarded(answered)

    async def _rendered(self, asked: Asked, view: View) -> Response:
        values = {
            "project": asked.project,
            "projects": await self._projects(),
            "address": asked.address,
            "per_page": PAGE,
            **view.values,
        }
        rendering = self._rendering
        html = await self._read(lambda: rendering.page(view.template, asked.links, view.section, values))
        return HTMLResponse(html, view.status)

    def _asked(self, request: Request) -> Asked:
        params = {name: value[:LONGEST_PARAMETER] for name, value in request.query_params.items() if value}
        first = self._keys.projects[0].id
        given = params.get("project", "")
        project = int(given) if given.isascii() and given.isdigit() and len(given) < 11 else 0 if given else first
        links = Links(None if project == first else project)
        return Asked(project, links, params, request.path_params, f"http://{request.headers['host']}")

    async def _projects(self) -> dict[int, str]:
        """The projects by id with their names: those that have a key, and those that the store holds events of."""
        held = await self._read(
            lambda: self._reading(0).remembered(
                "projects", lambda: self._reading(0).rows("SELECT DISTINCT project FROM accepted ORDER BY project")
            )
        )
        named = {project.id: project.name for project in self._keys.projects}
        return named | {id: "without a key" for (id,) in held if id not in named}

    def _reading(self, project: int) -> Reading:
        return Reading(self._store, project, self._remembered)

    async def _read(self, work: Callable[[], Value]) -> Value:
        return await asyncio.get_running_loop().run_in_executor(self._reader, work)

    async def _people_ready(self, project: int) -> bool:
        """Whether persons and groups count every event; where they do not they are worked out, beside the page."""
        end = time.monotonic() + self._patience
        for _ in range(2):  # one that was begun before may not know of the last events
            others = self._folding is not None and not self._folding.done()
            if self._folding is None or not others:
                self._folding = self._folder.submit(self._store.select, "SELECT count(*) FROM persons", project)
            waiting = asyncio.wrap_future(self._folding)
            done, _ = await asyncio.wait([waiting], timeout=max(0, end - time.monotonic()))
            if not done:
                waiting.add_done_callback(lambda late: late.cancelled() or late.exception())
                return False
            waiting.result()
            if not others:
                break
        return True

    async def _overview(self, asked: Asked) -> View:
        reading = self._reading(asked.project)
        wanted = read_filter({name: asked.params.get(name, "") for name in ("since", "until")})
        found = await self._read(lambda: overview(reading, wanted))
        judged = await self._fired(asked.project)
        ready = await self._people_ready(asked.project)
        values = {
            "wanted": wanted,
            "found": found,
            "made": await self._read(lambda: made(reading)) if ready else None,
            "rejected": await self._read(lambda: warnings.rejected_count(reading)),
            "functions": judged,
        }
        return View("overview", "/", values)

    async def _events(self, asked: Asked) -> View:
        reading, params = self._reading(asked.project), asked.params
        wanted, oldest = read_filter(params), params.get("order") == "oldest"
        if wanted.person and not await self._people_ready(asked.project):
            return View("waiting", "/events", {"title": "Events"})
        found = await self._read(
            lambda: events.listed(
                reading,
                wanted,
                self._plain,
                oldest=oldest,
                after=params.get("after", ""),
                before=params.get("before", ""),
            )
        )
        names = await self._read(lambda: self._names(reading))
        return View("events", "/events", {"wanted": wanted, "oldest": oldest, "found": found, "names": names})

    def _names(self, reading: Reading) -> list[str]:
        """The most frequent event names that can be typed."""
        condition = EventFilter().condition(reading.project)
        found, _ = reading.remembered("offered", lambda: event_names(reading, condition, _OFFERED_NAMES))
        return [name for name, _ in found if self._plain.line(name, len(name)) == name]

    async def _event(self, asked: Asked) -> View:
        reading, uuid = self._reading(asked.project), asked.path["uuid"].lower()
        if not is_uuid(uuid):
            raise NotThere("That is no uuid of an event.")
        ready = await self._people_ready(asked.project)
        copies, total = await self._read(lambda: events.copies_of(reading, uuid, self._plain))
        if not copies:
            raise NotThere("No event with this uuid has landed.")
        there = await self._hog_functions(asked.project)
        firing = {name: firing_for(there, name) for name in {copy.row.event for copy in copies if copy.counts}}
        values = {"uuid": uuid, "copies": copies, "total": total, "ready": ready, "firing": firing}
        return View("event", "/events", values)

    async def _people(self, asked: Asked) -> View:
        text = asked.params.get("text", "")
        if not await self._people_ready(asked.project):
            return View("waiting", "/people", {"title": "People"})
        reading = self._reading(asked.project)
        rows, total = await self._read(lambda: people.listed(reading, text, asked.page, self._plain))
        return View("people", "/people", {"text": text, "rows": rows, "total": total, "page": asked.page})

    async def _person_of(self, asked: Asked) -> View | Response:
        distinct_id = asked.params.get("id", "")
        if not await self._people_ready(asked.project):
            return View("waiting", "/people", {"title": "Person"})
        reading = self._reading(asked.project)
        found = await self._read(lambda: people.person_of(reading, distinct_id))
        if found is None:
            told = f"No person has the id “{distinct_id}”. An event that asks for no person profile makes none."
            raise NotThere(told)
        return RedirectResponse(asked.links("/people", found), 303)

    async def _person(self, asked: Asked) -> View:
        reading, id, params = self._reading(asked.project), asked.path["id"].lower(), asked.params
        if not is_uuid(id):
            raise NotThere("That is no id of a person.")
        if not await self._people_ready(asked.project):
            return View("waiting", "/people", {"title": "Person"})
        person = await self._read(lambda: people.person(reading, id, self._plain))
        if person is None:
            raise NotThere("There is no such person. It may have become part of another one.")
        wanted = EventFilter(person=id)
        after, before = params.get("after", ""), params.get("before", "")
        found = await self._read(
            lambda: events.listed(reading, wanted, self._plain, oldest=True, after=after, before=before)
        )
        return View("person", "/people", {"person": person, "found": found, "wanted": wanted})

    async def _groups(self, asked: Asked) -> View:
        text, given = asked.params.get("text", ""), asked.params.get("type", "")
        index = int(given) if given in tuple("01234") else None
        if not await self._people_ready(asked.project):
            return View("waiting", "/groups", {"title": "Groups"})
        reading = self._reading(asked.project)
        types = await self._read(lambda: people.group_types(reading))
        rows, total = await self._read(lambda: people.groups(reading, index, text, asked.page, self._plain))
        values = {"types": types, "index": index, "text": text, "rows": rows, "total": total, "page": asked.page}
        return View("groups", "/groups", values)

    async def _functions(self, asked: Asked) -> View:
        return View("functions", "/functions", {"found": await self._fired(asked.project)})

    async def _fired(self, project: int) -> Fired:
        reading, there = self._reading(project), await self._hog_functions(project)
        return await self._read(lambda: fired(reading, there))

    async def _warnings(self, asked: Asked) -> View:
        kind = asked.params.get("type", "")
        if not await self._people_ready(asked.project):
            return View("waiting", "/warnings", {"title": "Warnings"})
        reading = self._reading(asked.project)
        kinds = await self._read(lambda: warnings.kinds(reading))
        rows, total = await self._read(lambda: warnings.warnings(reading, kind, asked.page, self._plain))
        values = {"kinds": kinds, "kind": kind, "rows": rows, "total": total, "page": asked.page}
        return View("warnings", "/warnings", values)

    async def _rejected(self, asked: Asked) -> View:
        reading = self._reading(asked.project)
        rows, total = await self._read(lambda: warnings.rejected(reading, asked.page))
        return View("rejected", "/rejected", {"rows": rows, "total": total, "page": asked.page})


def _file(name: str, kind: str) -> Endpoint:
    content = asset(name)

    async def answered(request: Request) -> Response:
        return Response(content, media_type=kind)

    return guarded(answered)
