"""The capture endpoint over HTTP: the routes that take events, and the feature flags that SDKs ask for beside them.

Capture requests are judged one after another, in the order in which their bodies end
(docs/know/service.md#routes-and-hosts).
"""

from __future__ import annotations

import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from pipeline.local_service.capture import per_event
from pipeline.local_service.capture.decoding import PER_EVENT, RequestRefused, decode_beginning, too_large
from pipeline.local_service.capture.validation import OK, accept_request
from pipeline.local_service.http import allow_origin, read_body, run_in
from pipeline.local_service.keys import Keyring
from pipeline.local_service.settings import Settings
from pipeline.local_service.store.database import Store, Unavailable

EVENT_ROUTES = ("/batch", "/i/v0/e", "/e", "/capture", "/track", "/engage")
FLAG_ROUTES = ("/flags", "/decide")
REJECTED_CHARACTERS = 500
"""Characters of a refused body that are stored."""

_KEY_MEMBER = re.compile(r'("(?:api_key|\$?token)"\s*:\s*)"[^"]*"?')
_KEY_LIKE = re.compile(r"ph[a-z]_[A-Za-z0-9_-]+")


class CaptureEndpoint:
    """The capture endpoint over one store. It has a thread of its own until it is closed."""

    def __init__(self, store: Store, keys: Keyring, settings: Settings) -> None:
        self._store = store
        self._keys = keys
        self._settings = settings
        self._worker = ThreadPoolExecutor(1, "service-capture")

    def close(self) -> None:
        """End the thread."""
        self._worker.shutdown()

    def routes(self) -> list[Route]:
        """Every route, with and without a final slash."""
        endpoints = dict.fromkeys(EVENT_ROUTES, self._capture) | dict.fromkeys(FLAG_ROUTES, _flags)
        if self._settings.per_event == "on":
            endpoints[PER_EVENT] = self._judge
        return [
            Route(path + slash, endpoint, methods=["POST"] if path == PER_EVENT else ["GET", "POST", "OPTIONS"])
            for path, endpoint in endpoints.items()
            for slash in ("", "/")
        ]

    async def _judge(self, request: Request) -> Response:
        """One request to the per-event endpoint, which has an answer for each event."""
        limit = self._settings.per_event_wire_limit
        try:
            body = await read_body(request, limit)
        except ClientDisconnect:
            return Response(status_code=408)
        status, answer = await run_in(self._worker, lambda: self._store_judged(request, body, limit))
        headers = {"retry-after": "1"} if status in (429, 500, 503) else {}
        if (request_id := request.headers.get("posthog-request-id")) is not None:
            headers["posthog-request-id"] = request_id
        return JSONResponse(answer, status, headers)

    def _store_judged(self, request: Request, body: bytes | None, limit: int) -> tuple[int, dict[str, Any]]:
        """The status and the answer, after the accepted events were stored."""
        self._store.requests += 1
        headers = dict(request.headers)
        try:
            if body is None:
                raise per_event.too_large(limit)
            judged = per_event.judge_request(body, headers=headers, keys=self._keys, settings=self._settings)
            if judged.project is not None:
                self._store.append(judged.project, judged.events)
            elif judged.events.uuid:
                self._add_rejection(request, body, 200, "unknown token")
        except per_event.PerEventRefused as refused:
            self._add_rejection(request, body or b"", refused.status, refused.text)
            return refused.status, refused.body
        except Unavailable:
            unavailable = per_event.PerEventRefused(503, "service_unavailable", "Service Unavailable")
            return unavailable.status, unavailable.body
        return 200, {"results": judged.results}

    def _add_rejection(self, request: Request, body: bytes, status: int, reason: str) -> None:
        query, headers = dict(request.query_params), dict(request.headers)
        beginning = decode_beginning(body, query, headers, 8 * REJECTED_CHARACTERS)
        self._store.add_rejection(self._settings.clock(), status, reason, without_keys(beginning, self._keys))

    async def _capture(self, request: Request) -> Response:
        """One capture request, taken as a whole or not at all."""
        if request.method == "OPTIONS":
            return allow_origin(request, Response(OK, media_type="application/json"))
        path = request.url.path
        is_batch = path.rstrip("/") == "/batch"
        limit = self._settings.batch_wire_limit if is_batch else self._settings.event_wire_limit
        try:
            body = await read_body(request, limit)
        except ClientDisconnect:
            return PlainTextResponse("client stopped sending data", 408)
        status, text = await run_in(self._worker, lambda: self._store_events(request, path, body, limit))
        if status != 200:
            return allow_origin(request, PlainTextResponse(text, status))
        if request.query_params.get("beacon") == "1":
            return allow_origin(request, Response(status_code=204))
        return allow_origin(request, Response(text, media_type="application/json"))

    def _store_events(self, request: Request, path: str, body: bytes | None, limit: int) -> tuple[int, str]:
        """The status and the text of the answer, after the events were stored."""
        self._store.requests += 1
        query, headers = dict(request.query_params), dict(request.headers)

        try:
            if body is None:
                raise too_large(f"request body over {limit} bytes")
            accepted = accept_request(
                body, path=path, query=query, headers=headers, keys=self._keys, settings=self._settings
            )
            if accepted.project is not None:
                self._store.append(accepted.project, accepted.events)
            elif accepted.events.uuid:
                self._add_rejection(request, body, 200, "unknown token")
            if accepted.refusal is not None:
                raise accepted.refusal
        except RequestRefused as refusal:
            self._add_rejection(request, body or b"", refusal.status, refusal.text)
            return refusal.status, refusal.text
        except Unavailable:
            return 503, "transient error, please retry"
        return 200, OK


def without_keys(body: bytes, keys: Keyring) -> str:
    """The start of a refused body as text, every key in it replaced."""
    text = body.decode("utf-8", "replace")
    for key in keys.texts():
        text = text.replace(key, "***")
    return _KEY_LIKE.sub("***", _KEY_MEMBER.sub(r'\1"***"', text))[:REJECTED_CHARACTERS]


async def _flags(request: Request) -> Response:
    """The feature flags of a project without any, for `/flags` (its second version) and the older `/decide`.

    An SDK that gets no good answer here retries, logs errors and may delay events.
    """
    try:
        await read_body(request, 0)  # the answer is the same whatever is asked
    except ClientDisconnect:
        return Response(status_code=400)
    is_second = request.url.path.startswith("/flags") and request.query_params.get("v", "") >= "2"
    flags: dict[str, object] = {"flags": {}} if is_second else {"featureFlags": {}, "featureFlagPayloads": {}}
    answer = {
        **flags,
        "errorsWhileComputingFlags": False,
        "requestId": str(uuid.uuid4()),
        "supportedCompression": ["gzip", "gzip-js"],
        "sessionRecording": False,
        "config": {"enable_collect_everything": True},
    }
    return allow_origin(request, JSONResponse(answer))
