"""Runs the local service: in a thread next to a program, or until it is stopped.

It listens on 127.0.0.1 only. Requests are not logged, so no log contains a key.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import uvicorn

from pipeline.local_service.app import create_app
from pipeline.local_service.capture.decoding import PER_EVENT
from pipeline.local_service.capture.endpoint import EVENT_ROUTES
from pipeline.local_service.faults import FaultCounts, read_script
from pipeline.local_service.faults.middleware import CuttableConnection, FaultMiddleware, counts_of
from pipeline.local_service.keys import Keyring, generate_keys
from pipeline.local_service.landed import Landed
from pipeline.local_service.query.runner import QueryRunner
from pipeline.local_service.settings import Settings
from pipeline.local_service.store.database import Store

HOST = "127.0.0.1"
SENDING_GRACE = 0.5
"""Seconds after the stop in which a client may finish sending a request; then its connection is closed."""
SHUTDOWN_TIMEOUT = 5
"""Seconds after the stop in which a running request may end."""


class _Server(uvicorn.Server):
    """A server with an event that is set when it is ready; it calls `closing` when it is asked to end."""

    def __init__(self, config: uvicorn.Config, closing: Callable[[], None]) -> None:
        super().__init__(config)
        self.ready = threading.Event()
        self._closing = closing

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._closing()
        deadline = asyncio.get_running_loop().call_later(SENDING_GRACE, self._close_connections)
        await super().shutdown(sockets)
        deadline.cancel()

    def _close_connections(self) -> None:
        for connection in tuple(self.server_state.connections):
            connection.transport.close()


class LocalService(Landed):
    """The local service; a context manager that starts and stops it.

        with LocalService() as service:
            ...service.url, service.capture_key, service.personal_key, service.count()

    `store` is the file of the database, None for one in memory; `port` 0 takes a free one; `keys` None means project 1
    with new keys; `faults` is a script of simulated failures (see `pipeline.local_service.faults`), drawn by
    `fault_seed`; `seed` has the hog functions and recordings that exist from the start. Raises OSError if the port is
    taken, BadFault, BadSeed.
    """

    def __init__(
        self,
        store: Path | str | None = None,
        *,
        port: int = 0,
        keys: Keyring | None = None,
        settings: Settings | None = None,
        faults: Sequence[str] = (),
        fault_seed: int = 0,
        seed: Mapping[str, Any] | None = None,
    ) -> None:
        self._faults = read_script(faults, fault_seed)
        self.keys = keys if keys is not None else generate_keys()
        settings = settings or Settings()
        with ExitStack() as undone:
            self.store = Store(None if store is None else Path(store), settings)
            undone.callback(self.store.close)
            self._queries = QueryRunner(self.store, settings)
            self._socket = undone.enter_context(_listening(port))
            app: Any = create_app(self.store, self._queries, self.keys, settings, seed or {})
            undone.pop_all()
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://{HOST}:{self.port}"
        if self._faults:
            routes = (*EVENT_ROUTES, PER_EVENT) if settings.per_event == "on" else EVENT_ROUTES
            app = FaultMiddleware(app, self._faults, fault_seed, routes, lambda: self._server.should_exit)
        self._server = _Server(
            uvicorn.Config(
                app,
                http=CuttableConnection if self._faults else "auto",
                log_config=None,
                log_level="warning",
                access_log=False,
                lifespan="on",
                ws="none",
                loop="asyncio",
                timeout_graceful_shutdown=SHUTDOWN_TIMEOUT,
            ),
            self._interrupt,
        )
        self._thread: threading.Thread | None = None

    def __enter__(self) -> LocalService:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.close()

    def start(self) -> LocalService:
        """Serve from a thread; returns once requests are answered."""
        self._thread = threading.Thread(target=self._run, name="local-service", daemon=True)
        self._thread.start()
        self._server.ready.wait()
        return self

    def serve(self) -> None:
        """Serve from this thread until interrupted (SIGINT or SIGTERM), then close."""
        try:
            self._run()
        finally:
            self.close()

    def close(self) -> None:
        """Finish the capture requests, end the queries, stop listening, close the database.

        May be called twice.
        """
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._socket.close()
        self._queries.close()
        self.store.close()

    def _interrupt(self) -> None:
        self._queries.stop()
        self.store.interrupt()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._server.ready.set()

    @property
    def capture_key(self) -> str:
        return self.keys.projects[0].capture_key

    @property
    def personal_key(self) -> str:
        return next(iter(self.keys.personal))

    @property
    def faults(self) -> list[FaultCounts]:
        """How many requests reached each fault of the script, and how many it acted on."""
        return counts_of(self._faults)


def _listening(port: int) -> socket.socket:
    """A listener with an explicit protocol: only then does asyncio turn off Nagle's algorithm for connections.

    With the algorithm, every answer on an open connection would be delayed by 40 ms.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener
