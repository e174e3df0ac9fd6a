"""The web application of the local service: which endpoint answers which path.

It has the capture endpoint, the management API with the query endpoint, the page for people (`/`), the OpenAPI document
with its page, and plain answers to probes of whether the service is ready.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from pipeline.local_service.capture.endpoint import CaptureEndpoint
from pipeline.local_service.keys import Keyring
from pipeline.local_service.management.routes import ManagementApi
from pipeline.local_service.page.rendering import render_document
from pipeline.local_service.page.routes import DOCUMENT_HEADERS, Page
from pipeline.local_service.query.runner import QueryRunner
from pipeline.local_service.settings import Settings
from pipeline.local_service.store.database import Store


def create_app(
    store: Store, queries: QueryRunner, keys: Keyring, settings: Settings, seed: Mapping[str, Any]
) -> Starlette:
    """The application over a store. Its worker threads run until its lifespan ends. Raises BadSeed."""
    capture = CaptureEndpoint(store, keys, settings)
    management = ManagementApi(store, keys, settings, queries, seed)
    page = Page(store, keys, management.hog_functions)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            capture.close()
            management.close()
            page.close()

    async def ready(request: Request) -> Response:
        return PlainTextResponse("capture")

    def described() -> dict[str, Any]:
        from pipeline.local_service.openapi_document import openapi_document

        return openapi_document(settings)

    async def openapi(request: Request) -> Response:
        return JSONResponse(described())

    async def docs(request: Request) -> Response:
        return HTMLResponse(render_document(described()), headers=DOCUMENT_HEADERS)

    routes = [
        *capture.routes(),
        Route("/_readiness", ready),
        Route("/_liveness", ready),
        *page.routes(),
        Route("/openapi.json", openapi),
        Route("/docs", docs),
        *management.routes(),
    ]
    app = Starlette(routes=routes, lifespan=lifespan)
    app.router.redirect_slashes = False  # the real service answers both spellings and redirects neither
    return app
