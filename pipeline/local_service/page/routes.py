"""The addresses of the page, what each shows, and which requests are allowed.

Only a browser on this machine that requested the page by a loopback name may see it. The page needs no key, so a site
elsewhere must not read it through the browser of a person with a running service. A name of that site that resolves to
127.0.0.1 (DNS rebinding) is refused by the Host header. Another origin cannot read the answers, put them in a frame or
load them as images and scripts. The page changes nothing, so there is no request to forge.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from pipeline.local_service.http import run_in
from pipeline.local_service.keys import Keyring
from pipeline.local_service.management.requests import natural_number
from pipeline.local_service.page.events import BadFilter
from pipeline.local_service.page.reader import PAGE, ProjectReader, cached_select
from pipeline.local_service.page.rendering import Links, PlainText, asset, templates
from pipeline.local_service.page.views import VIEWS, PageNotFound, PageRequest, View
from pipeline.local_service.store.database import BadQuery, SlowQuery, Store, Unavailable

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""On every answer of the page."""
DOCUMENT_HEADERS = HEADERS | {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

_LOOPBACK = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)
"""Any port: a tunnel to the service has another one than the service."""


Endpoint = Callable[[Request], Awaitable[Response]]


def guarded(endpoint: Endpoint) -> Endpoint:
    """The endpoint for the allowed requests, 403 for others."""

    async def answered(request: Request) -> Response:
        refused = refusal(request)
        response = await endpoint(request) if refused is None else PlainTextResponse(refused + "\n", 403)
        response.headers.update(HEADERS)
        return response

    return answered


def refusal(request: Request) -> str | None:
    """Why this request is refused, or None."""
    hosts = request.headers.getlist("host")
    if len(hosts) != 1 or not _LOOPBACK.fullmatch(hosts[0]):
        return "This page is for this machine alone. Open it as http://127.0.0.1 or http://localhost, with the port."
    site, mode = request.headers.get("sec-fetch-site"), request.headers.get("sec-fetch-mode")
    if site in ("cross-site", "same-site") and mode != "navigate":
        return "This page cannot be loaded into a page of another origin."
    return None


LONGEST_PARAMETER = 1_000

Functions = Callable[[int], Awaitable[Sequence[Mapping[str, Any]]]]
"""The hog functions of a project."""


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
        self._templates = templates(self._plain)
        self._cached = cached_select(store)
        self._reader = ThreadPoolExecutor(1, "service-page")
        self._processor = ThreadPoolExecutor(1, "service-page-people")
        self._processing: Future[Any] | None = None

    def close(self) -> None:
        self._reader.shutdown(cancel_futures=True)
        self._processor.shutdown(cancel_futures=True)

    def routes(self) -> list[Route]:
        routes = [Route(view.path, self._endpoint(view)) for view in VIEWS]
        for path, kind in (("style.css", "text/css"), ("icon.svg", "image/svg+xml")):
            routes.append(Route("/" + path, _file(path, kind)))
        return routes

    def _endpoint(self, view: View) -> Endpoint:
        async def answer(request: Request) -> Response:
            asked = self._page_request(request)
            try:
                await self._add_projects(asked)
                return await self._show(view, asked)
            except PageNotFound as error:
                title, message, status = "Not found", str(error), 404
            except BadFilter as error:
                title, message, status = "The filter is not understood", str(error), 400
            except SlowQuery:
                title, status = "Too many events at once", 503
                message = "The answer took too long and was stopped. Choose fewer days, or one event or id."
            except (BadQuery, Unavailable) as error:
                title, message, status = "No answer", f"The store cannot answer now: {error}", 503
            return await self._rendered(asked, "problem", "", {"title": title, "text": message}, status)

        return guarded(answer)

    async def _show(self, view: View, request: PageRequest) -> Response:
        """The view, or a page with the notice that persons and groups are still being processed."""
        waits = view.waits if isinstance(view.waits, bool) else bool(request.param(view.waits))
        if waits or view.people:
            request.people_ready = await self._people_ready(request.project)
        if waits and not request.people_ready:
            return await self._rendered(request, "waiting", view.section, {"title": view.title})
        if view.functions:
            request.functions = await self._hog_functions(request.project)
        shown = await run_in(self._reader, lambda: view.show(request))
        if isinstance(shown, Response):
            return shown
        return await self._rendered(request, view.template, view.section, shown)

    async def _rendered(
        self, request: PageRequest, template: str, section: str, values: Mapping[str, Any], status: int = 200
    ) -> Response:
        shown = {
            "project": request.project,
            "projects": request.projects,
            "address": request.address,
            "per_page": PAGE,
            "url": request.links,
            "section": section,
            "sections": [(view.path, view.navigation) for view in VIEWS if view.navigation],
            **values,
        }
        page = self._templates.get_template(f"{template}.html.j2")
        return HTMLResponse(await run_in(self._reader, lambda: page.render(shown)), status)

    def _page_request(self, request: Request) -> PageRequest:
        params = {name: value[:LONGEST_PARAMETER] for name, value in request.query_params.items() if value}
        projects = {project.id: project.name for project in self._keys.projects}
        first, text = self._keys.projects[0].id, params.get("project", "")
        project = natural_number(text, 10) or 0 if text else first
        return PageRequest(
            project,
            Links(None if project == first else project),
            params,
            request.path_params,
            f"http://{request.headers['host']}",
            ProjectReader(self._store, project, self._cached),
            self._plain,
            projects,
        )

    async def _add_projects(self, request: PageRequest) -> None:
        """Add the projects without a key that the store has events of. Raises PageNotFound for a project that is not
        among all these, Unavailable."""
        sql = "SELECT DISTINCT project FROM accepted ORDER BY project"
        for (id,) in await run_in(self._reader, lambda: request.reader.cached_rows(sql, project=0)):
            request.projects.setdefault(id, "without a key")
        if request.project not in request.projects:
            request.project, request.links = self._keys.projects[0].id, Links(None)
            raise PageNotFound("This project does not exist.")

    async def _people_ready(self, project: int) -> bool:
        """Whether persons and groups include every event; if they do not, a thread processes them."""
        end = time.monotonic() + self._patience
        for _ in range(2):  # processing that was already running may miss the last events
            others = self._processing is not None and not self._processing.done()
            if self._processing is None or not others:
                self._processing = self._processor.submit(self._store.select, "SELECT count(*) FROM persons", project)
            waiting = asyncio.wrap_future(self._processing)
            done, _ = await asyncio.wait([waiting], timeout=max(0, end - time.monotonic()))
            if not done:
                waiting.add_done_callback(lambda future: future.cancelled() or future.exception())
                return False
            waiting.result()
            if not others:
                break
        return True


def _file(name: str, kind: str) -> Endpoint:
    content = asset(name)

    async def answered(request: Request) -> Response:
        return Response(content, media_type=kind)

    return guarded(answered)
