"""Turns an HTTP request into an operation of the management API, and its result into a response.

Checks are made in this order: the key (401), the project (404, 403), the method (405), the scope (403), the rate (429),
the body (413, 415, 400). Then the operation runs.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import quote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from pipeline.local_service.http import read_body, run_in
from pipeline.local_service.keys import Keyring
from pipeline.local_service.management import (  # noqa: F401
    definitions,
    function_runs,
    hog_functions,
    projects,
    recordings,
)
from pipeline.local_service.management.access import Throttle, caller_of, check_scope, project_for
from pipeline.local_service.management.documents import Documents
from pipeline.local_service.management.requests import (
    HANDLERS,
    ApiError,
    Json,
    ManagementState,
    OperationCall,
    format_instant,
    not_allowed,
    not_found,
    read_json_body,
)
from pipeline.local_service.management.seeds import store_seed
from pipeline.local_service.query.endpoint import answer_query
from pipeline.local_service.query.runner import QueryRunner
from pipeline.local_service.settings import Settings
from pipeline.local_service.store.database import Store, Unavailable
from pipeline.management.operations import PROJECTS, QUERY, Endpoint, operations

Result = TypeVar("Result")
ALIAS = "/api/environments"
"""Another name for `/api/projects` (docs/know/service.md#management-api)."""
QUERY_LIMIT = 1024 * 1024
"""The most bytes of a query's body."""
_HOST = re.compile(r"[A-Za-z0-9.\-]+(?::[0-9]+)?|\[[0-9A-Fa-f:.]+\](?::[0-9]+)?")


class ManagementApi:
    """The management API over one store. It has a thread until it is closed.

    Raises BadSeed, and Unavailable if the store cannot write the seed.
    """

    def __init__(
        self, store: Store, keys: Keyring, settings: Settings, queries: QueryRunner, seed: Mapping[str, Any]
    ) -> None:
        self.state = ManagementState(Documents(store), store, keys, settings)
        store_seed(self.state, seed, format_instant(settings.clock()))
        self._throttle = Throttle()
        self._queries = queries
        self._worker = ThreadPoolExecutor(1, "service-management")

    def close(self) -> None:
        self._worker.shutdown()

    def routes(self) -> list[Route]:
        """Every path with and without a final slash, under both names, and a 404 for the rest of `/api`."""
        paths: dict[str, dict[str, Endpoint]] = {}
        for operation in operations(observed=self.state.observed):
            paths.setdefault(operation.path, {})[operation.method] = operation
        routes = [
            Route(spelling + slash, _PathEndpoint(self, methods))
            for path, methods in paths.items()
            for spelling in (path, path.replace(PROJECTS, ALIAS, 1))
            for slash in ("", "/")
        ]
        return [*routes, Route("/api/{rest:path}", _PathEndpoint(self, {}))]

    async def hog_functions(self, project: int) -> list[Json]:
        """The full records of a project's hog functions, including deleted ones. They must not be changed."""
        return await run_in(self._worker, lambda: self.state.documents.all("hog_function", project))

    async def respond(self, request: Request, methods: Mapping[str, Endpoint]) -> Response:
        """The answer to a request for a path that has these methods."""
        allowed = ", ".join(sorted({*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])}))
        if methods and request.method == "OPTIONS":
            return Response(headers={"Allow": allowed})
        try:
            return await self._run(request, methods, allowed)
        except ApiError as error:
            return error.response()
        except ClientDisconnect:
            return Response(status_code=400)

    async def _run(self, request: Request, methods: Mapping[str, Endpoint], allowed: str) -> Response:
        settings = self.state.settings
        body = await read_body(request, QUERY_LIMIT if QUERY in methods.values() else settings.management_body_limit)
        if not methods:
            raise not_found("Endpoint not found.")
        caller = caller_of(request.headers.get("authorization"), self.state.keys)
        project_name = request.path_params.get("project_id")
        project = None if project_name is None else project_for(caller, project_name, self.state.keys)
        operation = methods.get("GET" if request.method == "HEAD" else request.method)
        if operation is None:
            raise not_allowed(request.method, allowed)
        check_scope(caller, operation, observed=self.state.observed)
        if settings.management_rates == "on" and operation is not QUERY:
            analytics = operation.scope.startswith("session_recording:")
            self._throttle.check(project.id if project else 0, analytics, settings.clock())
        if body is None:
            raise ApiError(413, "invalid_request", "payload_too_large", "The request body is too large.")
        if operation is QUERY:
            assert project is not None
            answer = await _served(answer_query(request, body, project.id, self._queries, settings))
            return Response(answer, media_type="application/json")

        def work() -> Response:
            call = OperationCall(
                state=self.state,
                caller=caller,
                project=project,
                ids=request.path_params,
                query=request.query_params.multi_items(),
                body=read_json_body(body, request.headers.get("content-type", "")) if operation.has_body else {},
                address=_address(request),
                now=format_instant(settings.clock()),
            )
            return HANDLERS[operation.id](call)

        return await _served(run_in(self._worker, work))


async def _served(work: Awaitable[Result]) -> Result:
    try:
        return await work
    except Unavailable:
        raise ApiError(503, "server_error", "error", "The service cannot store now; try again.") from None


class _PathEndpoint:
    def __init__(self, management: ManagementApi, methods: Mapping[str, Endpoint]) -> None:
        self._management = management
        self._methods = methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await self._management.respond(request, self._methods)
        await response(scope, receive, send)


def _address(request: Request) -> str:
    """The URL of a request without its query, with the host that the client names."""
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        name, port = request.scope.get("server") or ("localhost", None)
        host = f"{name}:{port}" if port else str(name)
    return f"{request.url.scheme if host else 'http'}://{host}{quote(request.scope['path'])}"
