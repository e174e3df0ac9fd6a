"""The capture endpoint over HTTP: the routes that accept events, and the feature flags that SDKs also ask for.

Capture requests are judged one after another, in the order in which their bodies end
(docs/know/service.md#routes-and-hosts).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from pipeline.local_service.capture import per_event
from pipeline.local_service.capture.decoding import PER_EVENT, RequestRefused, decode_body, too_large
from pipeline.local_service.capture.validation import OK, AcceptedRequest, accept_request
from pipeline.local_service.http import allow_origin, read_body, run_in
from pipeline.local_service.keys import Keyring
from pipeline.local_service.settings import Settings
from pipeline.local_service.store.database import Store, Unavailable

EVENT_ROUTES = ("/batch", "/i/v0/e", "/e", "/capture", "/track", "/engage")
FLAG_ROUTES = ("/flags", "/decide")
REJECTED_CHARACTERS = 500
"""How many characters of a refused body are stored."""

_KEY_MEMBER = re.compile(r'("(?:api_key|\$?token)"\s*:\s*)"[^"]*"?')
_KEY_LIKE = re.compile(r"ph[a-z]_[A-Za-z0-9_-]+")


class CaptureEndpoint:
    """The capture endpoint over one store. It has its own thread until it is closed."""

    def __init__(self, store: Store, keys: Keyring, settings: Settings) -> None:
        self._store = store
        self._keys = keys
        self._settings = settings
        self._worker = ThreadPoolExecutor(1, "service-capture")

    def close(self) -> None:
        self._worker.shutdown()

    def routes(self) -> list[Route]:
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
        check = partial(per_event.judge_request, headers=request.headers, keys=self._keys, settings=self._settings)
        result = await self._stored(request, limit, check)
        headers = {name: request.headers[name] for name in ("posthog-request-id",) if name in request.headers}
        if not isinstance(result, RequestRefused):
            return JSONResponse({"results": result.results}, headers=headers)
        if result.status == 408:
            return Response(status_code=408)
        if result.status in (429, 500, 503):
            headers["retry-after"] = "1"
        return JSONResponse(per_event.error_body(result), result.status, headers)

    async def _capture(self, request: Request) -> Response:
        """One capture request, accepted as a whole or not at all."""
        if request.method == "OPTIONS":
            return allow_origin(request, Response(OK, media_type="application/json"))
        path, query, settings = request.url.path, request.query_params, self._settings
        limit = settings.batch_wire_limit if path.rstrip("/") == "/batch" else settings.event_wire_limit
        asked: dict[str, Any] = {"path": path, "query": query, "headers": request.headers}
        result = await self._stored(
            request, limit, partial(accept_request, **asked, keys=self._keys, settings=settings)
        )
        if isinstance(result, RequestRefused):
            answer: Response = PlainTextResponse(result.text, result.status)
            return answer if result.status == 408 else allow_origin(request, answer)
        if query.get("beacon") == "1":
            return allow_origin(request, Response(status_code=204))
        return allow_origin(request, Response(OK, media_type="application/json"))

    async def _stored(
        self, request: Request, limit: int, check: Callable[[bytes], AcceptedRequest]
    ) -> AcceptedRequest | RequestRefused:
        """What `check` accepts from a request, once it is stored, or why nothing is stored."""
        try:
            body = await read_body(request, limit)
        except ClientDisconnect:
            return RequestRefused(408, "client stopped sending data")

        def work() -> AcceptedRequest | RequestRefused:
            try:
                if body is None:
                    raise too_large(f"request body over {limit} bytes")
                accepted = check(body)
                if accepted.project is not None:
                    self._store.append(accepted.project, accepted.events)
                elif accepted.events.uuid:
                    self._add_rejection(request, body, 200, "unknown token")
                if accepted.refusal is not None:
                    raise accepted.refusal
                return accepted
            except RequestRefused as refusal:
                self._add_rejection(request, body or b"", refusal.status, refusal.text)
                return refusal
            except Unavailable:
                return RequestRefused(503, "transient error, please retry", "service_unavailable")

        return await run_in(self._worker, work)

    def _add_rejection(self, request: Request, body: bytes, status: int, reason: str) -> None:
        try:
            text = decode_body(body, request.query_params, request.headers, self._settings.decoded_limit)
        except RequestRefused:  # keys inside base64 and gzip could not be masked
            text = body if body.lstrip().startswith((b"{", b"[")) else b""
        shown = without_keys(text[: 8 * REJECTED_CHARACTERS], self._keys)
        self._store.add_rejection(self._settings.clock(), status, reason, shown)


def without_keys(body: bytes, keys: Keyring) -> str:
    """The start of a refused body as text, with every key replaced."""
    text = body.decode("utf-8", "replace")
    for key in keys.texts():
        text = text.replace(key, "***")
    return _KEY_LIKE.sub("***", _KEY_MEMBER.sub(r'\1"***"', text))[:REJECTED_CHARACTERS]


async def _flags(request: Request) -> Response:
    """The empty feature flags of a project, for `/flags` (its second version) and the older `/decide`.

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
