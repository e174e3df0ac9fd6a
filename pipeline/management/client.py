"""The management API over HTTP: `Authorization: Bearer <personal key>`, project-scoped, trailing slashes."""

from __future__ import annotations

from typing import Any, NamedTuple

import httpx

from pipeline.config import Secret
from pipeline.errors import Refused, Unfinished

REGIONS = {"us": "https://us.posthog.com", "eu": "https://eu.posthog.com"}
"""Hosts of the private API (service-behaviour 1.1)."""


class QueryAnswer(NamedTuple):
    """Rows of one query. `types` pairs each column with its type."""

    columns: list[str]
    types: list[Any]
    results: list[list[Any]]


class ManagementClient:
    """Speaks for one project. Use as a context manager, or `close` it."""

    def __init__(self, base_url: str, personal_key: Secret, project_id: str, *, timeout: float = 120.0) -> None:
        self.base_url = REGIONS.get(base_url, base_url).rstrip("/")
        self.project_id = project_id
        self._client = httpx.Client(
            timeout=timeout,
            headers={"Authorization": f"Bearer {personal_key.reveal()}", "User-Agent": "backcast"},
            trust_env=not self.base_url.startswith("http://127.0.0.1"),
        )

    def __enter__(self) -> ManagementClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def query(self, sql: str) -> QueryAnswer:
        """Run one read-only SELECT. Raises Refused for an answer other than 200, Unfinished without one."""
        url = f"{self.base_url}/api/projects/{self.project_id}/query/"
        try:
            response = self._client.post(url, json={"query": {"kind": "HogQLQuery", "query": sql}})
        except httpx.TransportError as error:
            raise Unfinished(f"no answer from {self.base_url}: {error}", hint="run the same command again") from None
        if response.status_code != 200:
            raise Refused(
                f"{url} answered {response.status_code}: {response.text[:300]}",
                status=response.status_code,
                hint="check the personal key, its scope query:read and the project",
            )
        said = response.json()
        return QueryAnswer(said["columns"], said["types"], said["results"])
