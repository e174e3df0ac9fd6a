"""The local service: an offline stand-in for the service, against which a whole migration can be rehearsed.

It speaks the capture endpoint and the query endpoint of the real service, only on 127.0.0.1, backed by a DuckDB
database. It checks what the other packages send, so it imports nothing from them: it decodes, validates, stores and
collapses with its own code, written from docs/know/service.md.

    with LocalService() as service:
        httpx.post(f"{service.url}/batch/", json={"api_key": service.capture_key, "batch": [...]})
        service.count()

Importing this package is cheap: the web server and the database are loaded when a service starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.local_service.keys import Keyring
    from pipeline.local_service.server import LocalService
    from pipeline.local_service.settings import Settings

__all__ = ["Keyring", "LocalService", "Settings"]

_HOMES = {"Keyring": "keys", "LocalService": "server", "Settings": "settings"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
