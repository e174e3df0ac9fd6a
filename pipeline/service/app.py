"""The web application of the local service: routes, bodies, answers; no rule of its own.

Routes (service-behaviour 1.1): the batch and event routes with and without a final slash, the readiness
texts, the query endpoint, and two looks at what landed: `/` for people and `/_stats` for programs.
Requests are judged one after another, in the order their bodies end; queries run beside them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from .capture import OK, received
from .keys import Keyring
from .query import SCOPE, ApiError, answer, authorised
from .refusal import Refusal, too_large
from .settings import Settings
from .store import Store, Unavailable

EVENT_ROUTES = ("/batch", "/i/v0/e", "/e", "/capture", "/track", "/engage")
KEPT = 500
"""Characters of a refused body that are remembered."""

_QUERY_LIMIT = 1024 * 1024
_KEY_MEMBER = re.compile(r'("(?:api_key|\$?token)"\s*:\s*)"[^"]*"?')
_KEY_LIKE = re.compile(r"ph[a-z]_[A-Za-z0-9_-]+")

Result = TypeVar("Result")


def create_app(store: Store, keys: Keyring, settings: Settings | None = None) -> Starlette:
    """The application over a store. It holds two worker threads until its lifespan ends."""
    service = _Service(store, keys, settings or Settings())
    routes = [
        Route(path + slash, service.capture, methods=["GET", "POST", "OPTIONS"])
        for path in EVENT_ROUTES
        for slash in ("", "/")
    ]
    routes += [Route(path, _ready) for path in ("/_readiness", "/_liveness")]
    routes += [Route("/", service.summary), Route("/_stats", service.stats)]
    routes += [Route("/api/projects/{project}/query" + slash, service.query, methods=["POST"]) for slash in ("", "/")]
    app = Starlette(routes=routes, lifespan=service.lifespan)
    app.router.redirect_slashes = False  # the real service answers both spellings and redirects neither
    return app


async def _ready(request: Request) -> Response:
    return PlainTextResponse("capture")


class _Service:
    """The endpoints over one store."""

    def __init__(self, store: Store, keys: Keyring, settings: Settings) -> None:
        self._store = store
        self._keys = keys
        self._settings = settings
        self._judge = ThreadPoolExecutor(1, "service-capture")
        self._reader = ThreadPoolExecutor(1, "service-query")

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            self._judge.shutdown()
            self._reader.shutdown()

    async def capture(self, request: Request) -> Response:
        """One capture request, whole or not at all."""
        if request.method == "OPTIONS":
            return _shared(request, Response(OK, media_type="application/json"))
        path = request.url.path
        is_batch = path.rstrip("/") == "/batch"
        limit = self._settings.batch_wire_limit if is_batch else self._settings.event_wire_limit
        try:
            body = await _body(request, limit)
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
                self._remember(200, "unknown token", body)
            if landing.problem is not None:
                raise landing.problem
        except Refusal as refusal:
            self._remember(refusal.status, refusal.text, body or b"")
            return refusal.status, refusal.text
        except Unavailable:
            return 503, "transient error, please retry"
        return 200, OK

    def _remember(self, status: int, reason: str, body: bytes) -> None:
        self._store.reject(self._settings.clock(), status, reason, readable(body, self._keys))

    async def query(self, request: Request) -> Response:
        """One read-only query over a project."""
        try:
            project = authorised(
                request.headers.get("authorization"), request.path_params["project"], self._keys, SCOPE
            )
            body = await _body(request, _QUERY_LIMIT)
            if body is None:
                raise ApiError(413, "invalid_request", "payload_too_large", "The query is too large.")
            found = await _in(self._reader, lambda: answer(body, project, self._store))
        except ApiError as error:
            return JSONResponse(error.envelope, error.status)
        return Response(found, media_type="application/json")

    async def summary(self, request: Request) -> Response:
        """What landed, in three lines for a person."""
        stats = await _in(self._reader, self._stats)
        return PlainTextResponse(
            "capture\n"
            f"{stats['events']} events ({stats['raw_events']} copies accepted, "
            f"{stats['requests']} requests, {stats['rejected']} rejected)\n"
            "Counts by event and day: /_stats\n"
        )

    async def stats(self, request: Request) -> Response:
        """What landed, as counts."""
        return JSONResponse(await _in(self._reader, self._stats))

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
    """The start of a refused body for a person, every key in it replaced."""
    text = body[: 8 * KEPT].decode("utf-8", "replace")
    for key in keys.texts():
        text = text.replace(key, "***")
    return _KEY_LIKE.sub("***", _KEY_MEMBER.sub(r'\1"***"', text))[:KEPT]


async def _in(worker: ThreadPoolExecutor, work: Callable[[], Result]) -> Result:
    return await asyncio.get_running_loop().run_in_executor(worker, work)


async def _body(request: Request, limit: int) -> bytes | None:
    """The body as it travelled; None when over the limit. It is read to its end, so that the client, who is
    still sending, can hear the answer."""
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size <= limit:
            pieces.append(piece)
        else:
            pieces.clear()
    return b"".join(pieces) if size <= limit else None


def _shared(request: Request, response: Response) -> Response:
    """Headers for browsers: any origin, mirrored, with credentials (service-behaviour 1.1)."""
    origin = request.headers.get("origin")
    if origin is not None:
        response.headers["access-control-allow-origin"] = origin
        response.headers["access-control-allow-credentials"] = "true"
        asked = request.headers.get("access-control-request-headers")
        if asked is not None:
            response.headers["access-control-allow-headers"] = asked
            response.headers["access-control-allow-methods"] = "GET, POST, OPTIONS"
    return response
