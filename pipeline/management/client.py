"""The management API over HTTP: `Authorization: Bearer <personal key>`, project-scoped, trailing slashes."""

from __future__ import annotations

from typing import Any, NamedTuple

import httpx

from pipeline.config import Secret
from pipeline.deliver.capture import address_of, is_loopback, region_of
from pipeline.errors import Refused, Unfinished, UsageError

REGIONS = {"us": "https://us.posthog.com", "eu": "https://eu.posthog.com"}
"""Hosts of the private API (service-behaviour 1.1)."""
_SHOWN = 300


class QueryAnswer(NamedTuple):
    """Rows of one query. `types` pairs each column with its type."""

    columns: list[str]
    types: list[Any]
    results: list[list[Any]]


class ManagementClient:
    """Speaks for one project. Use as a context manager, or `close` it.

    `base_url` is us, eu or a URL; a capture host of a region stands for that region. Raises UsageError.
    """

    def __init__(self, base_url: str, personal_key: Secret, project_id: str, *, timeout: float = 120.0) -> None:
        key = personal_key.reveal()
        if not key.isascii() or not key.isprintable() or " " in key:
            raise UsageError("the personal key has a shape that no key has", hint="copy it again: phx_ and letters")
        if not project_id.isascii() or not project_id.isalnum():
            raise UsageError(f"not a project id: {project_id!r}", hint="give the number that the project's URL shows")
        self.base_url = REGIONS.get(region_of(base_url)) or address_of(base_url)
        self.project_id = project_id
        self._client = httpx.Client(
            timeout=timeout,
            headers={"Authorization": f"Bearer {key}", "User-Agent": "backcast"},
            trust_env=not is_loopback(self.base_url),
        )

    def __enter__(self) -> ManagementClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of connections."""
        self._client.close()

    def query(self, sql: str) -> QueryAnswer:
        """Run one read-only SELECT. Raises Refused for an answer other than 200, Unfinished when it must wait."""
        url = f"{self.base_url}/api/projects/{self.project_id}/query/"
        try:
            response = self._client.post(url, json={"query": {"kind": "HogQLQuery", "query": sql}})
        except httpx.HTTPError as error:
            raise Unfinished(f"no answer from {self.base_url}: {error}", hint="run the same command again") from None
        if response.status_code == 429 or response.status_code >= 500:
            raise Unfinished(
                f"{url} answered {response.status_code}: {response.text[:_SHOWN]}",
                hint="wait a little and run the same command again",
            )
        if response.status_code != 200:
            raise Refused(
                f"{url} answered {response.status_code}: {response.text[:_SHOWN]}",
                status=response.status_code,
                hint="check the personal key, its scope query:read and the project",
            )
        try:
            said = response.json()
            return QueryAnswer(said["columns"], said["types"], said["results"])
        except (ValueError, KeyError, TypeError):
            raise Refused(
                f"{url} gave no result of a query: {response.text[:_SHOWN]}",
                status=response.status_code,
                hint="check the address: --to names the service itself",
            ) from None
