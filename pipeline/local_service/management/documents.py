"""The documents of the management API: JSON by kind, project and id, in the same database as the events.

All are in memory. Each change is written to the database before it is visible, so a database file has them after a
restart. A deleted document leaves its id behind, so that a seed does not restore it.
"""

from __future__ import annotations

import json
from typing import Literal

from pipeline.local_service.management.requests import Json
from pipeline.local_service.store.database import Store

DocumentKind = Literal["hog_function", "session_recording", "sharing", "definition"]

_TABLE = "CREATE TABLE IF NOT EXISTS documents (kind VARCHAR, project BIGINT, id VARCHAR, body VARCHAR)"


class Documents:
    """The documents of one database. One thread at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._documents: dict[tuple[str, int], dict[str, Json | None]] = {}
        with store.transaction() as connection:
            connection.execute(_TABLE)
            for kind, project, id, body in connection.execute("SELECT * FROM documents ORDER BY rowid").fetchall():
                self._documents.setdefault((kind, project), {})[id] = None if body is None else json.loads(body)

    def all(self, kind: DocumentKind, project: int) -> list[Json]:
        """Every document of a kind, in the order of creation. The caller must not change them."""
        return [document for document in self._documents.get((kind, project), {}).values() if document is not None]

    def get(self, kind: DocumentKind, project: int, id: str) -> Json | None:
        """One document, or None. The caller must not change it."""
        return self._documents.get((kind, project), {}).get(id)

    def existed(self, kind: DocumentKind, project: int, id: str) -> bool:
        return id in self._documents.get((kind, project), {})

    def put(self, kind: DocumentKind, project: int, *documents: Json) -> None:
        """Store documents under their `id`, all or none. Raises Unavailable."""
        self._write(kind, project, {str(document["id"]): document for document in documents})

    def remove(self, kind: DocumentKind, project: int, id: str) -> None:
        """Remove a document, but remember that there was one. Raises Unavailable."""
        self._write(kind, project, {id: None})

    def _write(self, kind: DocumentKind, project: int, changed: dict[str, Json | None]) -> None:
        rows = [(kind, project, id, None if body is None else json.dumps(body)) for id, body in changed.items()]
        if not rows:
            return
        with self._store.transaction() as connection:
            keys = [row[:3] for row in rows]
            connection.executemany("DELETE FROM documents WHERE kind = ? AND project = ? AND id = ?", keys)
            connection.executemany("INSERT INTO documents VALUES (?, ?, ?, ?)", rows)
        self._documents.setdefault((kind, project), {}).update(changed)
