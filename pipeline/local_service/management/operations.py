"""Every operation of the management API, as the modules imported here register them.

Routes, scope checks and the OpenAPI document are derived from this table. A new operation is a function with its
declaration in one of these modules.
"""

from __future__ import annotations

from pipeline.local_service.management import function_runs, hog_functions, projects, recordings  # noqa: F401
from pipeline.local_service.management.requests import PROJECT, Operation, registered

WITH_BODY = ("POST", "PATCH", "PUT")
"""Methods whose requests have a body."""
_QUERY = Operation(
    "POST",
    PROJECT + "/query",
    "query:read",
    None,
    name="query",
    summary="Run one read-only SELECT",
    body="Query",
    answer="QueryAnswer",
)
OPERATIONS = sorted([*registered, _QUERY], key=lambda operation: operation.path.endswith("/{id}"))
"""In the order in which paths are tried: fixed names before ids."""


def operations(*, observed: bool) -> list[Operation]:
    """The operations of a behaviour."""
    return [operation for operation in OPERATIONS if observed or not operation.observed]


def paths(*, observed: bool) -> dict[str, dict[str, Operation]]:
    """The methods of every path, in the order in which paths are tried."""
    methods: dict[str, dict[str, Operation]] = {}
    for operation in operations(observed=observed):
        methods.setdefault(operation.path, {})[operation.method] = operation
    return methods
