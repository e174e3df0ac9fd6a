"""The local service has the limits of the real one: of a body as sent, as decoded, and of one event as queued."""

from __future__ import annotations

import gzip
import uuid as uuids
from typing import Any

from pipeline.local_service import LocalService, Settings
from tests.support.capture_service import UUID, batch, event, make, post


def test_default_limits_are_the_services() -> None:
    """The limits are those of docs/know/service.md#encodings-and-sizes: 20 MiB and 2 MiB as sent, 100 MiB decoded,
    1,000,000 bytes queued."""
    limits = Settings()
    assert limits.batch_wire_limit == 20 * 1024 * 1024
    assert limits.event_wire_limit == 2 * 1024 * 1024
    assert limits.decoded_limit == 100 * 1024 * 1024
    assert limits.stored_event_limit == 1_000_000


def test_refuses_bodies_over_the_limits() -> None:
    """A body too large as sent, or once decoded, is 413; at the limit it is taken. The event routes have their own."""
    body = batch()
    with make(batch_wire_limit=len(body), decoded_limit=len(body), event_wire_limit=len(body) - 1) as service:
        assert post(service, body, "/batch").status_code == 200
        wire = post(service, body + b" ")
        assert (wire.status_code, wire.text.partition(": ")[0]) == (413, "maximum event size exceeded")
        packed = post(service, gzip.compress(body + b" "))
        assert (packed.status_code, packed.text) == (
            413,
            f"maximum event size exceeded: Decompressed payload would exceed {len(body)} bytes"
            f" (got {len(body) + 1} bytes)",
        )
        assert post(service, body, "/e").status_code == 413


def large(text: str) -> dict[str, Any]:
    return event(properties={"distinct_id": "u1", "text": text})


def test_an_event_is_measured_as_it_is_queued(service: LocalService) -> None:
    """Quotes count twice and more: an event well under 1,000,000 bytes as sent can be over it once queued."""
    assert post(service, batch(large("x" * 990_000))).status_code == 200
    for text in ("x" * 1_000_000, '"' * 300_000):
        answer = post(service, batch(event(uuid=str(uuids.uuid4())), large(text)))
        assert answer.status_code == 413
        assert answer.text == "maximum event size exceeded: Event rejected by kafka during send"
    assert service.store.raw_count() == 1


def test_earlier_events_of_an_oversize_batch_may_be_kept() -> None:
    """With `oversize_event` set so, what stood before the large event is stored although the answer is 413."""
    with make(oversize_event="keep_earlier") as service:
        body = batch(event(), large("x" * 1_000_000), event(uuid=str(uuids.uuid4())))
        assert post(service, body).status_code == 413
        assert [one.uuid for one in service.events()] == [UUID]
