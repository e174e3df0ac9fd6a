"""The web application of the local service: routes, bodies, answers; no rule of its own.

Routes (docs/know/service.md#routes-and-hosts): the batch and event routes with and without a final slash, the readiness
texts, the management API with the query endpoint, the OpenAPI document with a page of it, and two looks at what
landed: `/` for people and `/_stats` for programs.
Capture requests are judged one after another, in the order their bodies end; the others run beside them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from pipeline.local_service.capture import flags
from pipeline.local_service.capture.decoding import Refusal, beginning, too_large
from pipeline.local_service.capture.validation import OK, received
from pipeline.local_service.http import whole_body
from pipeline.local_service.keys import Keyring
from pipeline.local_service.management.routes import Management
from pipeline.local_service.openapi.document import document
from pipeline.local_service.openapi.html import HEADERS, rendered
from pipeline.local_service.page.routes import Page, guarded
from pipeline.local_service.query.runner import Queries
from pipeline.local_service.settings import Settings
from pipeline.local_service.store.database import Store, Unavailable

EVENT_ROUTES = ("/batch", "/i/v0/e", "/e", "/capture", "/track", "/engage")
KEPT = 500
"""Characters of a refused body that are remembered."""

_KEY_MEMBER = re.compile(r'("(?:api_key|\$?token)"\s*:\s*)"[^"]*"?')
_KEY_LIKE = re.compile(r"ph[a-z]_[A-Za-z0-9_-]+")

Result = TypeVar("Result")


def create_app(store: Store, queries: Queries, keys: Keyring, settings: Settings, seed: Mapping[str, Any]) -> Starlette:
    """The application over a store. It holds its worker threads until its lifespan ends. Raises BadSeed."""
    service = _Service(store, queries, keys, settings, seed)
    routes = [
        Route(path + slash, service.capture, methods=["GET", "POST", "OPTIONS"])
        for path in EVENT_ROUTES
        for slash in ("", "/")
    ]
    routes += [Route(path, _ready) for path in ("/_readiness", "/_liveness")]
    routes += [*service.page.routes(), Route("/_stats", guarded(service.stats))]
    routes += [Route("/openapi.json", service.openapi), Route("/docs", service.docs)]
    routes += flags.routes() + service.management.routes()
    app = Starlette(routes=routes, lifespan=service.lifespan)
    app.router.redirect_slashes = False  # the real service answers both spellings and redirects neither
    return app


async def _ready(request: Request) -> Response:
    return PlainTextResponse("capture")


class _Service:
    """The endpoints over one store."""

    def __init__(
        self, store: Store, queries: Queries, keys: Keyring, settings: Settings, seed: Mapping[str, Any]
    ) -> None:
        self._store = store
        self._keys = keys
        self._settings = settings
        self._judge = ThreadPoolExecutor(1, "service-capture")
        self._reader = ThreadPoolExecutor(1, "service-stats")
        self.management = Management(store, keys, settings, queries, seed)
        self.page = Page(store, keys, self.management.hog_functions)

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            self._judge.shutdown()
            self._reader.shutdown()
            self.management.close()
            self.page.close()

    async def capture(self, request: Request) -> Response:
        """One capture request, whole or not at all."""
        if request.method == "OPTIONS":
            return _shared(request, Response(OK, media_type="application/json"))
        path = request.url.path
        is_batch = path.rstrip("/") == "/batch"
        limit = self._settings.batch_wire_limit if is_batch else self._settings.event_wire_limit
        try:
            body = await whole_body(request, limit)
        except ClientDisconnect:
            return PlainTextResponse("client stopped sending data", 408)
        status, text = await _in(self._judge, lambda: self._judged(request, path, body, limit))
        if status != 200:
            return _shared(request, PlainTextResponse(text, status))
        if request.query_params.get("beacon") == "1":
            return _shared(request, Response(status_code=204))
        return _shared(request, Response(text, media_type="application/json"))

    def _judged(self, request: Request, path: str, body: bytes | None, limit: int) -> tuple[int, str]:
        self._store.requests += 1
        query, headers = dict(request.query_params), dict(request.headers)
        try:
            if body is None:
                raise too_large(f"request body over {limit} bytes")
            landing = received(body, path=path, query=query, headers=headers, keys=self._keys, settings=self._settings)
            if landing.project is not None:
                self._store.append(landing.project, landing.rows)
            elif landing.rows.uuid:
                self._remember(200, "unknown token", beginning(body, query, headers, 8 * KEPT))
            if landing.problem is not None:
                raise landing.problem
        except Refusal as refusal:
            self._remember(refusal.status, refusal.text, beginning(body or b"", query, headers, 8 * KEPT))
            return refusal.status, refusal.text
        except Unavailable:
            return 503, "transient error, please retry"
        return 200, OK

    def _remember(self, status: int, reason: str, body: bytes) -> None:
        self._store.reject(self._settings.clock(), status, reason, readable(body, self._keys))

    async def openapi(self, request: Request) -> Response:
        """The description of this service for programs."""
        return JSONResponse(document(self._settings))

    async def docs(self, request: Request) -> Response:
        """The same description for people."""
        return HTMLResponse(rendered(document(self._settings)), headers=HEADERS)

    async def stats(self, request: Request) -> Response:
        """What landed, as counts."""
        try:
            return JSONResponse(await _in(self._reader, self._stats))
        except Unavailable as error:
            return PlainTextResponse(str(error), 503)

    def _stats(self) -> dict[str, Any]:
        store = self._store
        return {
            "events": store.count(),
            "raw_events": store.raw_count(),
            "requests": store.requests,
            "rejected": store.rejected_count(),
            "by_event": store.tally("event"),
            "by_day": store.tally('CAST("timestamp" AS DATE)'),
        }


def readable(body: bytes, keys: Keyring) -> str:
    """The start of what a refused request said, for a person, every key in it replaced."""
    text = body.decode("utf-8", "replace")
    for key in keys.texts():
        text = text.replace(key, "***")
    return _KEY_LIKE.sub("***", _KEY_MEMBER.sub(r'\1"***"', text))[:KEPT]


async def _in(worker: ThreadPoolExecutor, work: Callable[[], Result]) -> Result:
    return await asyncio.get_running_loop().run_in_executor(worker, work)


def _shared(request: Request, response: Response) -> Response:
    """Headers for browsers: any origin, mirrored, with credentials (docs/know/service.md#routes-and-hosts)."""
    origin = request.headers.get("origin")
    if origin is not None:
        response.headers["access-control-allow-origin"] = origin
        response.headers["access-control-allow-credentials"] = "true"
        asked = request.headers.get("access-control-request-headers")
        if asked is not None:
            response.headers["access-control-allow-headers"] = asked
            response.headers["access-control-allow-methods"] = "GET, POST, OPTIONS"
    return response
