"""The addresses of the page, what each shows, and who may see it.

Only a browser on this machine that requested the page by a loopback name may see it. The page needs no key, so a site
elsewhere must not read it through the browser of somebody who runs the service. A name of that site that resolves to
127.0.0.1 (DNS rebinding) is refused by the Host header. Another origin cannot read the answers, put them in a frame or
load them as images and scripts. The page changes nothing, so there is no request to forge.
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
from pipeline.local_service.page.overview import Fired, derived_counts, event_names, fired, firing_for, overview
from pipeline.local_service.page.reader import MOST_PAGES, PAGE, Cache, ProjectReader
from pipeline.local_service.page.rendering import Links, PageRenderer, PlainText, asset
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


class PageNotFound(Exception):
    """What was requested is not in the store; the message is a sentence for people."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What a request asks for, of which project."""

    project: int
    links: Links
    params: Mapping[str, str]
    path: Mapping[str, str]
    address: str

    @property
    def page(self) -> int:
        """The number of the page of a list, from 1."""
        value = self.params.get("page", "")
        return min(max(int(value), 1), MOST_PAGES) if value.isascii() and value.isdigit() else 1


@dataclass(frozen=True, slots=True)
class View:
    """A template with its values, for one section."""

    template: str
    section: str
    values: Mapping[str, Any]
    status: int = 200


class Page:
    """The page over one store. It has two threads until it is closed.

    It waits `patience` seconds until persons and groups are processed; after that it shows that they are being
    processed.
    """

    def __init__(self, store: Store, keys: Keyring, hog_functions: Functions, *, patience: float = 0.5) -> None:
        self._patience = patience
        self._store = store
        self._keys = keys
        self._hog_functions = hog_functions
        self._plain = PlainText(keys.texts())
        self._rendering = PageRenderer(self._plain)
        self._cache = Cache()
        self._reader = ThreadPoolExecutor(1, "service-page")
        self._processor = ThreadPoolExecutor(1, "service-page-people")
        self._processing: Future[Any] | None = None

    def close(self) -> None:
        """End the threads."""
        self._reader.shutdown(cancel_futures=True)
        self._processor.shutdown(cancel_futures=True)

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
        routes = [Route(path, self._endpoint(view)) for path, view in shown.items()]
        for path, kind in (("style.css", "text/css"), ("icon.svg", "image/svg+xml")):
            routes.append(Route("/" + path, _file(path, kind)))
        return routes

    def _endpoint(self, view: Callable[[PageRequest], Awaitable[View | Response]]) -> Endpoint:
        async def answered(request: Request) -> Response:
            page_request = self._asked(request)
            try:
                if page_request.project not in await self._projects():
                    page_request = replace(page_request, project=self._keys.projects[0].id, links=Links(None))
                    raise PageNotFound("There is no such project.")
                found = await view(page_request)
            except PageNotFound as error:
                found = View("problem", "", {"title": "Not found", "text": str(error)}, 404)
            except BadFilter as error:
                found = View("problem", "", {"title": "The filter is not understood", "text": str(error)}, 400)
            except SlowQuery:
                message = "The answer took too long and was stopped. Choose fewer days, or one event or id."
                found = View("problem", "", {"title": "Too many events at once", "text": message}, 503)
            except (BadQuery, Unavailable) as error:
                message = f"The store cannot answer now: {error}"
                found = View("problem", "", {"title": "No answer", "text": message}, 503)
            return found if isinstance(found, Response) else await self._rendered(page_request, found)

        return guarded(answered)

    async def _rendered(self, page_request: PageRequest, view: View) -> Response:
        values = {
            "project": page_request.project,
            "projects": await self._projects(),
            "address": page_request.address,
            "per_page": PAGE,
            **view.values,
        }
        rendering = self._rendering
        html = await self._read(lambda: rendering.page(view.template, page_request.links, view.section, values))
        return HTMLResponse(html, view.status)

    def _asked(self, request: Request) -> PageRequest:
        params = {name: value[:LONGEST_PARAMETER] for name, value in request.query_params.items() if value}
        first = self._keys.projects[0].id
        value = params.get("project", "")
        project = int(value) if value.isascii() and value.isdigit() and len(value) < 11 else 0 if value else first
        links = Links(None if project == first else project)
        return PageRequest(project, links, params, request.path_params, f"http://{request.headers['host']}")

    async def _projects(self) -> dict[int, str]:
        """The projects by id with their names: those that have a key, and those that the store has events of."""
        stored = await self._read(
            lambda: self._reading(0).cached(
                "projects", lambda: self._reading(0).rows("SELECT DISTINCT project FROM accepted ORDER BY project")
            )
        )
        named = {project.id: project.name for project in self._keys.projects}
        return named | {id: "without a key" for (id,) in stored if id not in named}

    def _reading(self, project: int) -> ProjectReader:
        return ProjectReader(self._store, project, self._cache)

    async def _read(self, work: Callable[[], Value]) -> Value:
        return await asyncio.get_running_loop().run_in_executor(self._reader, work)

    async def _people_ready(self, project: int) -> bool:
        """Whether persons and groups include every event; where they do not, a thread processes them."""
        end = time.monotonic() + self._patience
        for _ in range(2):  # one that was begun before may not know of the last events
            others = self._processing is not None and not self._processing.done()
            if self._processing is None or not others:
                self._processing = self._processor.submit(self._store.select, "SELECT count(*) FROM persons", project)
            waiting = asyncio.wrap_future(self._processing)
            done, _ = await asyncio.wait([waiting], timeout=max(0, end - time.monotonic()))
            if not done:
                waiting.add_done_callback(lambda late: late.cancelled() or late.exception())
                return False
            waiting.result()
            if not others:
                break
        return True

    async def _overview(self, page_request: PageRequest) -> View:
        reader = self._reading(page_request.project)
        wanted = read_filter({name: page_request.params.get(name, "") for name in ("since", "until")})
        found = await self._read(lambda: overview(reader, wanted))
        judged = await self._fired(page_request.project)
        ready = await self._people_ready(page_request.project)
        values = {
            "wanted": wanted,
            "found": found,
            "derived": await self._read(lambda: derived_counts(reader)) if ready else None,
            "rejected": await self._read(lambda: warnings.rejected_count(reader)),
            "functions": judged,
        }
        return View("overview", "/", values)

    async def _events(self, page_request: PageRequest) -> View:
        reader, params = self._reading(page_request.project), page_request.params
        wanted, oldest = read_filter(params), params.get("order") == "oldest"
        if wanted.person and not await self._people_ready(page_request.project):
            return View("waiting", "/events", {"title": "Events"})
        found = await self._read(
            lambda: events.listed(
                reader,
                wanted,
                self._plain,
                oldest=oldest,
                after=params.get("after", ""),
                before=params.get("before", ""),
            )
        )
        names = await self._read(lambda: self._names(reader))
        return View("events", "/events", {"wanted": wanted, "oldest": oldest, "found": found, "names": names})

    def _names(self, reader: ProjectReader) -> list[str]:
        """The most frequent event names that can be typed."""
        condition = EventFilter().condition(reader.project)
        found, _ = reader.cached("offered", lambda: event_names(reader, condition, _OFFERED_NAMES))
        return [name for name, _ in found if self._plain.line(name, len(name)) == name]

    async def _event(self, page_request: PageRequest) -> View:
        reader, uuid = self._reading(page_request.project), page_request.path["uuid"].lower()
        if not is_uuid(uuid):
            raise PageNotFound("That is no uuid of an event.")
        ready = await self._people_ready(page_request.project)
        copies, total = await self._read(lambda: events.copies_of(reader, uuid, self._plain))
        if not copies:
            raise PageNotFound("No event with this uuid has landed.")
        there = await self._hog_functions(page_request.project)
        firing = {name: firing_for(there, name) for name in {copy.row.event for copy in copies if copy.counts}}
        values = {"uuid": uuid, "copies": copies, "total": total, "ready": ready, "firing": firing}
        return View("event", "/events", values)

    async def _people(self, page_request: PageRequest) -> View:
        text = page_request.params.get("text", "")
        if not await self._people_ready(page_request.project):
            return View("waiting", "/people", {"title": "People"})
        reader = self._reading(page_request.project)
        rows, total = await self._read(lambda: people.listed(reader, text, page_request.page, self._plain))
        return View("people", "/people", {"text": text, "rows": rows, "total": total, "page": page_request.page})

    async def _person_of(self, page_request: PageRequest) -> View | Response:
        distinct_id = page_request.params.get("id", "")
        if not await self._people_ready(page_request.project):
            return View("waiting", "/people", {"title": "Person"})
        reader = self._reading(page_request.project)
        found = await self._read(lambda: people.person_of(reader, distinct_id))
        if found is None:
            message = f"No person has the id “{distinct_id}”. An event that asks for no person profile creates none."
            raise PageNotFound(message)
        return RedirectResponse(page_request.links("/people", found), 303)

    async def _person(self, page_request: PageRequest) -> View:
        reader, id, params = self._reading(page_request.project), page_request.path["id"].lower(), page_request.params
        if not is_uuid(id):
            raise PageNotFound("That is no id of a person.")
        if not await self._people_ready(page_request.project):
            return View("waiting", "/people", {"title": "Person"})
        person = await self._read(lambda: people.person(reader, id, self._plain))
        if person is None:
            raise PageNotFound("There is no such person. It may have become part of another one.")
        wanted = EventFilter(person=id)
        after, before = params.get("after", ""), params.get("before", "")
        found = await self._read(
            lambda: events.listed(reader, wanted, self._plain, oldest=True, after=after, before=before)
        )
        return View("person", "/people", {"person": person, "found": found, "wanted": wanted})

    async def _groups(self, page_request: PageRequest) -> View:
        text, value = page_request.params.get("text", ""), page_request.params.get("type", "")
        index = int(value) if value in tuple("01234") else None
        if not await self._people_ready(page_request.project):
            return View("waiting", "/groups", {"title": "Groups"})
        reader = self._reading(page_request.project)
        types = await self._read(lambda: people.group_types(reader))
        rows, total = await self._read(lambda: people.groups(reader, index, text, page_request.page, self._plain))
        values = {"types": types, "index": index, "text": text, "rows": rows, "total": total, "page": page_request.page}
        return View("groups", "/groups", values)

    async def _functions(self, page_request: PageRequest) -> View:
        return View("functions", "/functions", {"found": await self._fired(page_request.project)})

    async def _fired(self, project: int) -> Fired:
        reader, there = self._reading(project), await self._hog_functions(project)
        return await self._read(lambda: fired(reader, there))

    async def _warnings(self, page_request: PageRequest) -> View:
        kind = page_request.params.get("type", "")
        if not await self._people_ready(page_request.project):
            return View("waiting", "/warnings", {"title": "Warnings"})
        reader = self._reading(page_request.project)
        kinds = await self._read(lambda: warnings.kinds(reader))
        rows, total = await self._read(lambda: warnings.warnings(reader, kind, page_request.page, self._plain))
        values = {"kinds": kinds, "kind": kind, "rows": rows, "total": total, "page": page_request.page}
        return View("warnings", "/warnings", values)

    async def _rejected(self, page_request: PageRequest) -> View:
        reader = self._reading(page_request.project)
        rows, total = await self._read(lambda: warnings.rejected(reader, page_request.page))
        return View("rejected", "/rejected", {"rows": rows, "total": total, "page": page_request.page})


def _file(name: str, kind: str) -> Endpoint:
    content = asset(name)

    async def answered(request: Request) -> Response:
        return Response(content, media_type=kind)

    return guarded(answered)
