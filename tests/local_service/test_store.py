"""The store of the local service counts what landed, loses nothing, and is whole whenever the service ends."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid as uuids
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from pipeline.local_service import LocalService
from pipeline.local_service.store.database import BadStore, Store
from tests.support.capture_service import KEYS, batch, event, post
from tests.support.services import running, wait_for


def test_counts_what_landed(service: LocalService) -> None:
    """Events are counted after copies collapse, and copies as they came."""
    post(service, batch(event(), event(), event(event="Paid", timestamp="2023-01-03T23:59:59.999999Z")))
    post(service, b"?")
    assert (service.count(), service.store.raw_count()) == (2, 3)


def test_takes_many_requests_at_once(service: LocalService) -> None:
    bodies = [batch(*(event(uuid=str(uuids.uuid4())) for _ in range(20))) for _ in range(24)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda body: post(service, body).status_code, bodies))
    assert answers == [200] * 24
    assert (service.count(), service.store.raw_count()) == (480, 480)


def test_a_file_keeps_what_landed(tmp_path: Path) -> None:
    """A store in a file is there again for the next service, and numbering continues."""
    file = tmp_path / "landed.duckdb"
    with running(KEYS, store=file) as service:
        assert post(service, batch(event(properties={"distinct_id": "u1", "n": 1}))).status_code == 200
    with running(KEYS, store=file) as service:
        assert service.count() == 1
        assert post(service, batch(event(properties={"distinct_id": "u1", "n": 2}))).status_code == 200
        assert [json.loads(one.properties)["n"] for one in service.events()] == [2]


@pytest.mark.parametrize("folder", ["a#b", "a%41b", "a'b c", "a[b]*c"])
def test_a_store_in_a_folder_of_any_name(tmp_path: Path, folder: str) -> None:
    """It keeps what landed, and leaves no other file."""
    file = tmp_path / folder / "landed.duckdb"
    file.parent.mkdir()
    for _ in range(2):
        with running(KEYS, store=file) as service:
            assert post(service, batch(event())).status_code == 200
    with closing(Store(file)) as store:
        assert store.raw_count() == 2
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.parametrize("name", ["a?b/landed.duckdb", "landed?.duckdb"])
def test_a_store_that_duckdb_cannot_name_is_refused(tmp_path: Path, name: str) -> None:
    """DuckDB would keep the log under another name, so nothing is written."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    with pytest.raises(BadStore, match=r"its path contains a \?"):
        Store(tmp_path / name)
    assert os.listdir((tmp_path / name).parent) in ([], ["a?b"])


MANY = 200_000
"""Persons that take much longer to make than the service may take to end."""
ENDS_WITHIN = 4.0
FOLDED = "select coalesce(max(receipt), 0) from folded"
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
    """The receipt number up to which persons are made, each with one person."""
    with closing(Store(path)) as store:
        count = store._number(FOLDED)
        assert store._number("select count(*) from people") == count
        assert store._number("select count(distinct person) from people_ids") == count
        assert store.raw_count() == MANY
        return count


@pytest.mark.parametrize("path", ["query", "page"])
def test_a_query_that_makes_persons_ends_with_the_service(stored: bytes, tmp_path: Path, path: str) -> None:
    """A waiting client gets a 503, completed runs stay, and a later service makes the rest."""
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
    wait_for(lambda: service.store._number(FOLDED))
    began = time.monotonic()
    service.close()
    took = time.monotonic() - began
    asking.join()
    assert took < ENDS_WITHIN
    assert said in ([[503]] if path == "query" else [[200], [503]])  # a page says that persons are being made
    assert 0 < folded(store) < MANY
