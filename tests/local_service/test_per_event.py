"""The per-event endpoint of the local service: refused as a whole, or a verdict for each event."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import httpx
import pytest

from pipeline.local_service import LocalService
from pipeline.local_service.settings import preset
from tests.support.capture_service import CLIENT, KEY, KEYS, NOW_TEXT, UUID, make, shared
from tests.support.services import running

PATH = "/i/v1/analytics/events"
OTHER = "0188a5eb-0000-7000-8000-000000000002"
HEADERS = {
    "authorization": f"Bearer {KEY}",
    "content-type": "application/json",
    "posthog-sdk-info": "backcast/1.0/",
    "posthog-attempt": "1",
    "posthog-request-id": UUID,
    "posthog-request-timestamp": "2023-11-14T22:13:20Z",
    "user-agent": "test",
}


@pytest.fixture(scope="module")
def service() -> LocalService:
    return shared(per_event="on")


def event(**changes: Any) -> dict[str, Any]:
    made = {"event": "a", "uuid": UUID, "distinct_id": "u1", "timestamp": "2023-01-02T03:04:05.678901Z"} | changes
    return {name: value for name, value in made.items() if value is not ...}


def batch(*events: Any, **changes: Any) -> bytes:
    made = {"created_at": "2023-11-14T00:00:00Z", "historical_migration": True, "batch": list(events)} | changes
    return json.dumps({name: value for name, value in made.items() if value is not ...}).encode()


def post(service: LocalService, body: bytes, path: str = PATH, **headers: str | None) -> httpx.Response:
    sent = HEADERS | {name.replace("_", "-"): value for name, value in headers.items()}
    return CLIENT.post(service.url + path, content=body, headers={k: v for k, v in sent.items() if v is not None})


def verdict(service: LocalService, **changes: Any) -> dict[str, str]:
    answer = post(service, batch(event(**changes)))
    assert answer.status_code == 200, answer.text
    (result,) = answer.json()["results"].values()
    return dict(result)


@pytest.mark.parametrize("path", [PATH, PATH + "/"])
def test_accepted_events_land_with_what_the_service_adds(service: LocalService, path: str) -> None:
    """The instant is not corrected if the event asks for that, and the properties stay as they were sent."""
    one = event(options={"disable_skew_correction": True}, properties={"n": 1.10, "$lib": "web"}, session_id="s")
    two = event(uuid=OTHER.upper(), distinct_id="  u2 ")
    answer = post(service, batch(one, two), path, posthog_request_timestamp="2023-11-14T22:13:30Z")
    assert answer.json() == {"results": {UUID: {"result": "ok"}, OTHER: {"result": "ok"}}}
    assert answer.headers["posthog-request-id"] == UUID
    assert "retry-after" not in answer.headers
    first, second = sorted(service.events(), key=lambda one: one.uuid)[:2]
    assert first.properties == '{"n": 1.1, "$lib": "web","$session_id":"s","$ignore_sent_at":true}'
    assert (first.timestamp, first.historical_migration) == ("2023-01-02T03:04:05.678901Z", True)
    assert (second.distinct_id, second.properties) == ("u2", "{}")
    assert second.timestamp == "2023-01-02T03:03:55.678901Z"  # the sender's clock is ten seconds ahead


def test_the_library_of_the_header_wins(service: LocalService) -> None:
    """A header with a name and a version overwrites the event's own."""
    post(service, batch(event(properties={"$lib": "web"})), posthog_sdk_info="posthog-rs/1.2")
    ((text,),) = service.select("select properties from raw_events order by receipt desc limit 1")
    assert text == '{"$lib": "web","$lib":"posthog-rs","$lib_version":"1.2"}'


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"event": ""}, "missing_event_name"),
        ({"event": "é" * 101}, "event_name_too_long"),
        ({"event": "$performance_event"}, "dropped_performance_event"),
        ({"distinct_id": " "}, "missing_distinct_id"),
        ({"distinct_id": "é" * 101}, "distinct_id_too_large"),
        ({"timestamp": "2023-01-02"}, "invalid_event_timestamp"),
        ({"timestamp": "2023-01-02T03:04:05"}, "invalid_event_timestamp"),
        ({"timestamp": "2023-13-02T03:04:05Z"}, "invalid_event_timestamp"),
        ({"properties": [1]}, "malformed_event_properties"),
        ({"options": 1}, "invalid_options"),
        ({"options": {"disable_skew_correction": "perhaps"}}, "invalid_options"),
        ({"options": {"product_tour_id": True}}, "invalid_options"),
        ({"properties": {"text": "x" * 1_000_000}}, "event_too_big"),
    ],
)
def test_a_bad_event_is_dropped_and_the_other_lands(service: LocalService, changes: Any, reason: str) -> None:
    """Each verdict has its reason; of two events one is stored."""
    before = service.store.raw_count()
    answer = post(service, batch(event(**changes), event(uuid=OTHER)))
    assert answer.json()["results"] == {UUID: {"result": "drop", "details": reason}, OTHER: {"result": "ok"}}
    assert service.store.raw_count() == before + 1


def test_at_the_limit_an_event_is_accepted_and_a_placeholder_id_with_a_remark(service: LocalService) -> None:
    """A name or an id of 200 bytes, unknown options; placeholders in upper or lower case."""
    for changes in ({"event": "é" * 100}, {"distinct_id": "é" * 100}, {"options": {"x": 1}}):
        assert verdict(service, **changes) == {"result": "ok"}, changes
    for id_ in ("User", "system", "0", "[object Object]"):
        assert verdict(service, distinct_id=id_) == {"result": "ok", "details": "person_processing_disabled"}, id_


@pytest.mark.parametrize(
    ("body", "headers", "status", "name"),
    [
        (batch(), {}, 400, "empty_batch"),
        (batch(event(), created_at="today"), {}, 400, "invalid_batch"),
        (batch(event(), created_at=...), {}, 400, "request_parsing_error"),
        (batch(event(uuid=" ")), {}, 400, "missing_event_uuid"),
        (batch(event(uuid="x")), {}, 400, "invalid_event_uuid"),
        (batch(event(), event(uuid=UUID.upper())), {}, 400, "duplicate_event_uuid"),
        (batch(event(event=...)), {}, 400, "request_parsing_error"),
        (batch(event(event=1)), {}, 400, "request_parsing_error"),
        (batch(event(distinct_id=1)), {}, 400, "request_parsing_error"),
        (b"{", {}, 400, "request_parsing_error"),
        (b"", {}, 400, "empty_body"),
        (b"{}", {"content_encoding": "gzip"}, 400, "request_decoding_error"),
        (b"{}", {"content_encoding": "lz4"}, 415, "unsupported_encoding"),
        (batch(event()), {"content_type": "text/plain"}, 415, "unsupported_content_type"),
        (batch(event()), {"authorization": None}, 401, "missing_authorization"),
        (batch(event()), {"authorization": f"Basic {KEY}"}, 400, "invalid_header_value"),
        (batch(event()), {"authorization": "Bearer phx_personal"}, 401, "invalid_api_token"),
        (batch(event()), {"posthog_sdk_info": None}, 400, "missing_required_headers"),
        (batch(event()), {"posthog_attempt": "0"}, 400, "invalid_header_value"),
        (batch(event()), {"posthog_request_id": "x"}, 400, "invalid_header_value"),
        (batch(event()), {"posthog_request_timestamp": "now"}, 400, "invalid_header_value"),
        (batch(event(), more="x" * (1 << 20)), {}, 413, "payload_too_large"),
        (gzip.compress(b" " * (3 << 20)), {"content_encoding": "gzip"}, 413, "payload_too_large"),
    ],
)
def test_a_request_is_refused_as_a_whole(body: bytes, headers: dict[str, Any], status: int, name: str) -> None:
    """The JSON has the name of the error; nothing is stored, and the rejection has no key."""
    service = shared(per_event="on", per_event_wire_limit=1 << 20, per_event_decoded_limit=2 << 20)
    answer = post(service, body, **headers)
    assert (answer.status_code, answer.json()["error"]) == (status, name)
    assert set(answer.json()) == {"error", "error_description", "error_uri"}
    assert KEY not in answer.text
    assert service.store.raw_count() == 0
    found, text = service.select("select status, payload from rejections")[-1]
    assert found == status
    assert KEY not in text


def test_bodies_may_be_packed(service: LocalService) -> None:
    before = service.store.raw_count()
    for encoding, pack in (("gzip", gzip.compress), ("deflate", zlib.compress)):
        assert post(service, pack(batch(event())), content_encoding=encoding).status_code == 200
    assert service.store.raw_count() == before + 2


def test_an_unknown_key_stores_nothing(service: LocalService) -> None:
    """As at /batch/: accepted and dropped, or 401 if keys are enforced."""
    before = service.store.raw_count()
    assert post(service, batch(event()), authorization="Bearer phc_other").json()["results"] == {UUID: {"result": "ok"}}
    assert service.store.raw_count() == before
    strict = shared(per_event="on", token_validation="enforce")
    assert post(strict, batch(event()), authorization="Bearer phc_other").status_code == 401


def test_a_time_ahead_becomes_now_unless_it_is_not_corrected(service: LocalService) -> None:
    """23 hours ahead of the service's clock."""
    verdict(service, timestamp="2024-01-01T00:00:00Z")
    verdict(service, timestamp="2024-01-01T00:00:00Z", options={"disable_skew_correction": "1"})
    rows = service.select("select timestamp from raw_events order by receipt desc limit 2")
    assert rows == [("2024-01-01T00:00:00.000000Z",), (NOW_TEXT,)]


def test_it_exists_where_the_behaviour_is_observed() -> None:
    """The contract does not know it: 404."""
    for behaviour, status in (("contract", 404), ("observed", 400)):
        with running(KEYS, preset(behaviour)) as service:  # type: ignore[arg-type]
            assert post(service, batch()).status_code == status


def test_faults_refuse_in_the_words_of_the_endpoint() -> None:
    wanted = {
        "before:503": (503, "service_unavailable"),
        "before:429,retry-after=1s": (429, "rate_limited"),
        "poison,event=a": (400, "request_parsing_error"),
        "large:1": (413, "payload_too_large"),
        "quota:1": (429, "billing_limit_exceeded"),
    }
    with make(tuple(f"{fault},times=1" for fault in wanted), per_event="on") as service:
        answers = [post(service, batch(event())) for _ in range(len(wanted) - 1)]
        assert post(service, batch(event())).status_code == 200
        answers.append(post(service, batch(event())))
    assert [(answer.status_code, answer.json()["error"]) for answer in answers] == list(wanted.values())
    with make(("quota:1,form=402",), per_event="on") as service:
        refused = [post(service, batch(event())) for _ in range(2)][1]
    assert (refused.status_code, refused.json()["error"]) == (402, "billing_limit_exceeded")


def test_verdicts_are_a_fault_of_single_events() -> None:
    """retry and drop do not store their events, warning does; the answer keeps the order of the request."""
    events = [event(uuid=UUID[:-1] + digit, event=digit) for digit in "12345"]
    faults = ["verdict:retry,event=2", "verdict:drop,event=4,reason=no", "verdict:warning,event=5"]
    with make(tuple(faults), per_event="on") as service:
        answer = post(service, gzip.compress(batch(*events)), content_encoding="gzip")
        assert answer.headers["retry-after"] == "1"
        assert list(answer.json()["results"].items()) == [
            (UUID[:-1] + "1", {"result": "ok"}),
            (UUID[:-1] + "2", {"result": "retry", "details": "not_persisted"}),
            (UUID[:-1] + "3", {"result": "ok"}),
            (UUID[:-1] + "4", {"result": "drop", "details": "no"}),
            (UUID[:-1] + "5", {"result": "warning", "details": "person_processing_disabled"}),
        ]
        assert sorted(one.event for one in service.events()) == ["1", "3", "5"]
        again = post(service, batch(events[1]))
        assert again.json()["results"] == {UUID[:-1] + "2": {"result": "ok"}}
        assert post(service, batch(event()), "/batch/").status_code == 400  # the fault does not affect /batch/
