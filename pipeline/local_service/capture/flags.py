"""The feature flags of a project that has none: what SDKs ask for beside sending events.

The shapes are those of the two routes that SDKs use, `/flags` (its second version) and the older `/decide`; an SDK that
gets no good answer here retries, logs errors and may send events late.
"""

from __future__ import annotations

import uuid

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipeline.local_service.http import whole_body

PATHS = ("/flags", "/decide")


def routes() -> list[Route]:
    """The routes, with and without a final slash."""
    return [Route(path + slash, _answer, methods=["GET", "POST", "OPTIONS"]) for path in PATHS for slash in ("", "/")]


async def _answer(request: Request) -> Response:
    try:
        await whole_body(request, 0)  # what is asked about makes no difference
    except ClientDisconnect:
        return Response(status_code=400)
    newer = request.url.path.startswith("/flags") and request.query_params.get("v", "") >= "2"
    flags: dict[str, object] = {"flags": {}} if newer else {"featureFlags": {}, "featureFlagPayloads": {}}
    answer = JSONResponse(
        {
            **flags,
            "errorsWhileComputingFlags": False,
            "requestId": str(uuid.uuid4()),
            "supportedCompression": ["gzip", "gzip-js"],
            "sessionRecording": False,
            "config": {"enable_collect_everything": True},
        }
    )
    origin = request.headers.get("origin")
    if origin is not None:
        answer.headers["access-control-allow-origin"] = origin
        answer.headers["access-control-allow-credentials"] = "true"
        answer.headers["access-control-allow-headers"] = request.headers.get("access-control-request-headers", "*")
    return answer
