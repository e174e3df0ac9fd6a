"""The store of the local service counts what landed, loses nothing of many requests, and outlives the service."""

from __future__ import annotations

import json
import uuid as uuids
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pipeline.local_service import LocalService
from tests.support.capture_service import CLIENT, KEYS, batch, event, post
from tests.support.services import running


def test_counts_what_landed(service: LocalService) -> None:
    """`/_stats` counts events after collapse, copies, requests and rejections, by event and by day."""
    post(service, batch(event(), event(), event(event="Paid", timestamp="2023-01-03T23:59:59.999999Z")))
    post(service, b"?")
    assert CLIENT.get(service.url + "/_stats").json() == {
        "events": 2,
        "raw_events": 3,
        "requests": 2,
        "rejected": 1,
        "by_event": {"Paid": 1, "Signed up": 1},
        "by_day": {"2023-01-02": 1, "2023-01-03": 1},
    }


def test_takes_many_requests_at_once(service: LocalService) -> None:
    """Requests from several threads all land, once each."""
    bodies = [batch(*(event(uuid=str(uuids.uuid4())) for _ in range(20))) for _ in range(24)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda body: post(service, body).status_code, bodies))
    assert answers == [200] * 24
    assert (service.count(), service.store.raw_count()) == (480, 480)


def test_a_file_keeps_what_landed(tmp_path: Path) -> None:
    """A store in a file is there again for the next service, and goes on numbering."""
    file = tmp_path / "landed.duckdb"
    with running(KEYS, store=file) as service:
        assert post(service, batch(event(properties={"distinct_id": "u1", "n": 1}))).status_code == 200
    with running(KEYS, store=file) as service:
        assert service.count() == 1
        assert post(service, batch(event(properties={"distinct_id": "u1", "n": 2}))).status_code == 200
        assert [json.loads(one.properties)["n"] for one in service.events()] == [2]
