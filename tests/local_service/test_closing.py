"""The local service ends when it is asked to, also in the middle of making persons, and its store is whole."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import httpx
import pytest

from pipeline.local_service import LocalService
from pipeline.local_service.store.database import Store

pytestmark = pytest.mark.slow

MANY = 200_000
"""Persons that take many times longer to make than the service may take to end."""
ENDS_WITHIN = 4.0
QUERY = {"query": {"kind": "HogQLQuery", "query": "select count(*) from persons"}}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store with that many accepted events, each of another person, none of them folded."""
    path = tmp_path_factory.mktemp("many") / "store.duckdb"
    store = Store(path)
    store._writer.execute(
        "insert into accepted select 1, i, gen_random_uuid(), '$set', 'd' || i, timestamp '2023-01-01',"
        f""" '{{"$set": {{"number": ' || i || '}}}}', true, timestamp '2023-01-01' from range(1, {MANY + 1}) t(i)"""
    )
    store.close()
    return path.read_bytes()


def folded(path: Path) -> int:
    """Up to which receipt persons are made, and there is one for each."""
    store = Store(path)
    try:
        count = store._number("select coalesce(max(receipt), 0) from folded")
        assert store._number("select count(*) from people") == count
        assert store._number("select count(distinct person) from people_ids") == count
        assert store.raw_count() == MANY
        return count
    finally:
        store.close()


@pytest.mark.parametrize("path", ["query", "page"])
def test_a_query_that_makes_persons_ends_with_the_service(stored: bytes, tmp_path: Path, path: str) -> None:
    """Whoever waits is told so with a 503, whole runs stay, and a later service makes the rest."""
    store = tmp_path / "store.duckdb"
    store.write_bytes(stored)
    said: list[int] = []
    service = LocalService(store).start()
    key, url = service.personal_key, service.url

    def ask() -> None:
        with httpx.Client(base_url=url, trust_env=False, verify=False, timeout=60) as client:
            if path == "page":
                said.append(client.get("/people").status_code)
            else:
                headers = {"Authorization": f"Bearer {key}"}
                said.append(client.post("/api/projects/1/query/", json=QUERY, headers=headers).status_code)

    asking = threading.Thread(target=ask)
    asking.start()
    until_it_folds(service)
    began = time.monotonic()
    service.close()
    took = time.monotonic() - began
    asking.join()
    assert took < ENDS_WITHIN
    assert said in ([[503]] if path == "query" else [[200], [503]])  # a page says that persons are being made
    assert 0 < folded(store) < MANY


def until_it_folds(service: LocalService) -> None:
    """A first run of receipts is folded."""
    until = time.monotonic() + 60
    while not service.store._number("select coalesce(max(receipt), 0) from folded"):
        assert time.monotonic() < until
        time.sleep(0.01)
