"""The capture destination: what each answer means, and where the key may go."""

from __future__ import annotations

import gc
import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline
from pipeline.delivery.capture import response_of
from pipeline.delivery.destination import Response, ResponseKind
from pipeline.errors import UsageError
from pipeline.http import retry_after
from pipeline.options import PlanOptions
from pipeline.targets import address_of, is_loopback, region_of
from tests.support import deliveries
from tests.support.deliveries import BODY, COLUMNS, KEY, Asked, Reply, planned, row, run, scripted, serving

NOW = datetime(2024, 1, 31, 12, tzinfo=UTC)


def send(answer: Callable[[Asked], Reply], **options: object) -> tuple[Response, list[Asked]]:
    """One request to a server with these answers."""
    with serving(answer) as server:
        return deliveries.send(server.url, **options), server.asked


def test_a_body_that_was_sent_is_free_at_once() -> None:
    """Python collects cycles so rarely that an apply would otherwise have all bodies of a plan in memory."""
    with serving(scripted(Reply())) as server:
        deliveries.send(server.url)
        gc.collect()
        gc.disable()
        try:
            deliveries.send(server.url)
            assert [one for one in gc.get_objects() if type(one).__name__ in ("Request", "ByteStream")] == []
        finally:
            gc.enable()


@pytest.mark.parametrize(
    ("statuses", "kind", "taken"),
    [
        ([400], ResponseKind.POISON, False),
        ([413], ResponseKind.TOO_LARGE, True),
        ([408, 500, 502, 503, 504, 599], ResponseKind.RETRY, True),
        ([429], ResponseKind.RETRY, False),
        ([401, 402, 403, 404, 405], ResponseKind.STOP, False),
        ([304], ResponseKind.STOP, True),
    ],
)
def test_a_status_means_what_the_table_says(statuses: list[int], kind: ResponseKind, taken: bool) -> None:
    """Each status other than 2xx has one meaning, and says whether the events may have been taken."""
    for status in statuses:
        assert response_of(status, b"why") == Response(kind, status, "why", 0.0, taken)


SUCCESS = [
    b'{"status":"Ok"}',
    b'{"status":1}',
    b' {"status": "Ok", "more": [1, null]} \n',
    b'{"status":"Ok","error":null}',
]
SILENT = [b"", b" \n", b"{}", b'{"accepted":12}', b'{"quota_limited":[]}', b'{"errors":[]}']
"""Answers without a status or an error: the contract shows no such answer, and the service itself never gives one."""
DOUBTFUL = [
    *[b"null", b"[]", b"true", b"1", b'"Ok"', b'[{"status":"Ok"}]'],
    *[b'{"status":"ok"}', b'{"status":"OK"}', b'{"status":"Ok "}', b'{"Status":"Ok","status":null}'],
    *[b'{"status":0}', b'{"status":2}', b'{"status":1.0}', b'{"status":true}', b'{"status":"1"}', b'{"status":[1]}'],
    *[b'{"status":"Error","error":"nope"}', b'{"status":"Ok","error":"nope"}', b'{"error":{"code":1}}'],
    *[b'{"errors":["a"]}', b'{"Error_Code":7}', b'{"type":"authentication_error","detail":"Not found."}'],
    *[b'{"status":"Error","status":"Ok"}', b'{"status":"Ok","status":"Ok"}', b'{"status":"Ok","a":{"b":1,"b":2}}'],
    *[b"<html>welcome</html>", b'{"status":"Ok"', b'{"status":"Ok"}{"status":"Ok"}', b'{"status":"Ok","a":NaN}'],
    *[b"\xff\xfe", b'{"status":"Ok","a":"\xff"}', '{"status":"Ok"}'.encode("utf-16"), b'\xef\xbb\xbf{"status":"Ok"}'],
    *[b"[" * 100_000, b'{"status":"Ok"}' + b" " * 70_000 + b"and so on", b'{"a":' + b"1" * 5_000 + b"}"],
    b" " * 70_000,
]
DIALECTS = ["contract", "posthog"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_body_that_says_success_settles(dialect: str) -> None:
    """A 2xx whose body has the status Ok or 1 and no error settles in both dialects, whatever else the body
    contains."""
    for status, body in product([200, 201, 202, 299], SUCCESS):
        assert response_of(status, body, dialect=dialect) == Response(ResponseKind.SETTLED, status), body


def test_silence_settles_in_the_dialect_of_the_contract_alone() -> None:
    """The contract shows no answer, so in its dialect an empty 200 or an object without status and error settles; in
    the other it does not."""
    for body in SILENT:
        assert response_of(200, body, dialect="contract").kind is ResponseKind.SETTLED, body
        assert response_of(200, body, dialect="posthog").kind is ResponseKind.DOUBT, body


@pytest.mark.parametrize("dialect", DIALECTS)
def test_success_with_anything_else_is_in_doubt(dialect: str) -> None:
    """A 2xx that does not say success settles nothing: another status, an error, not an object, not UTF-8, two
    meanings. In no dialect does capture answer such a request with a 204 or an empty 202."""
    for status, body in [*((200, body) for body in DOUBTFUL), *((status, b"") for status in (201, 202, 204, 205))]:
        response = response_of(status, body, dialect=dialect)
        assert (response.kind, response.taken) == (ResponseKind.DOUBT, True), (status, body[:40])


def test_an_answer_after_a_redirect_is_judged_alike() -> None:
    """The answer of the last address decides, in the same dialect."""
    moved = Reply(307, b"", {"Location": "/elsewhere"})
    for dialect, kind in (("contract", ResponseKind.SETTLED), ("posthog", ResponseKind.DOUBT)):
        assert send(scripted(moved, Reply(200, b"{}")), dialect=dialect)[0].kind is kind


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_used_up_quota_stops_though_the_status_is_200(dialect: str) -> None:
    """`quota_limited` says that events were dropped; if it names only other quotas, some may have been taken."""
    quotas = (["events"], False), (["recordings", "events"], False), (["exceptions"], True)
    for status, (limited, taken) in product(["Ok", "Error", 1], quotas):
        body = json.dumps({"status": status, "quota_limited": limited}).encode()
        response = response_of(200, body, dialect=dialect)
        assert (response.kind, response.taken) == (ResponseKind.STOP, taken)
    assert response_of(200, b'{"status":"Ok","quota_limited":[]}', dialect=dialect).kind is ResponseKind.SETTLED


@given(st.integers(100, 999), st.binary(max_size=400), st.sampled_from(["contract", "posthog"]))
def test_every_answer_has_a_meaning(status: int, body: bytes, dialect: str) -> None:
    """response_of accepts any status and body, and only a 2xx settles."""
    response = response_of(status, body, dialect=dialect)
    assert response.kind is not ResponseKind.SETTLED or 200 <= status < 300
    assert len(response.detail) < 500


@pytest.mark.parametrize(
    ("seconds", "texts"),
    [
        (0.0, ["", "0", "-3", "nan", "inf", "1e9", "soon"]),
        (1.5, ["1.5"]),
        (12.0, [" 12 "]),
        (120.0, ["Wed, 31 Jan 2024 12:02:00 GMT", "Wed, 31 Jan 2024 13:02:00 +0100"]),
        (0.0, ["Wed, 31 Jan 2024 11:59:00 GMT", "Wed, 31 Feb 2024 11:59:00 GMT"]),
    ],
)
def test_retry_after_reads_seconds_and_dates(seconds: float, texts: list[str]) -> None:
    """Seconds, or a date compared with now; anything else, the past, and NaN ask for no wait."""
    assert [retry_after(text, NOW) for text in texts] == [seconds] * len(texts)


@settings(max_examples=40)
@given(st.text(max_size=40))
def test_any_retry_after_is_read(text: str) -> None:
    """No header makes it fail or ask for a negative wait."""
    assert retry_after(text, NOW) >= 0


def test_gzip_is_declared_and_is_what_is_sent(tmp_path: Path) -> None:
    """Content-Encoding names the packing of the body, and its length is that of the packed bytes; on a retry too. The
    project key is only in the body."""
    directory = planned(tmp_path, 10, files=1)
    with serving(scripted(Reply(503), Reply())) as server:
        run(directory, server.url)
    assert len(server.asked) == 2
    for one in server.asked:
        assert (one.method, one.target, one.headers["content-encoding"]) == ("POST", "/batch/", "gzip")
        assert one.headers["content-type"] == "application/json"
        assert int(one.headers["content-length"]) == len(one.body)
        whole = json.loads(gzip.decompress(one.body))
        assert set(whole) == {"api_key", "historical_migration", "batch"}
        assert (whole["historical_migration"], whole["api_key"]) == (True, KEY)
        assert KEY not in one.target + json.dumps(one.headers)


def test_times_with_an_offset_become_utc_and_look_alikes_stay(tmp_path: Path) -> None:
    """The timestamp becomes the same instant in UTC; a string of the same form in a property does not change."""
    look_alike = "2021-03-04T05:06:07+05:30"
    event = row(1) | {"timestamp": look_alike, "also": look_alike, "day": "2021-03-04"}
    (tmp_path / "export.jsonl").write_text(json.dumps(event) + "\n", "utf-8")
    options = PlanOptions(mapping="generic", workers=0, settings=COLUMNS)
    pipeline.plan_export(tmp_path / "export.jsonl", tmp_path / "plan", options)
    with serving(scripted(Reply())) as server:
        assert run(tmp_path / "plan", server.url).balanced
    (event,) = server.asked[0].events
    assert event["timestamp"] == "2021-03-03T23:36:07Z"
    assert (event["properties"]["also"], event["properties"]["day"]) == (look_alike, "2021-03-04")


@pytest.mark.parametrize(
    ("reply", "status", "kind", "taken"),
    [
        (Reply(0), 0, ResponseKind.RETRY, True),
        (Reply(200, b'{"status":"Ok"}', {"Content-Encoding": "gzip"}), 0, ResponseKind.DOUBT, True),
        (Reply(200, b'{"status":"Ok"}', {"Content-Type": "text/html"}), 200, ResponseKind.SETTLED, True),
        (Reply(200, b"<p>Ok</p>", {"Content-Type": "application/json"}), 200, ResponseKind.DOUBT, True),
        (Reply(200, b'{"a":"' + b"x" * 5_000_000 + b'"}'), 200, ResponseKind.DOUBT, True),
        (Reply(429, b"slow down", {"Retry-After": "7"}), 429, ResponseKind.RETRY, False),
    ],
    ids=["lost", "truncated", "other-type", "only-the-type", "endless", "limited"],
)
def test_an_answer_may_have_taken_the_events_unless_it_says_otherwise(
    reply: Reply, status: int, kind: ResponseKind, taken: bool
) -> None:
    """A connection cut after the request, an answer that ends early, and one of which only the first bytes are read.
    The content type does not matter. The header of a 429 becomes the minimum of the next wait."""
    response, _ = send(scripted(reply))
    assert (response.kind, response.status, response.taken) == (kind, status, taken)
    assert response.retry_after == (7.0 if reply.headers.get("Retry-After") else 0.0)


def test_an_echo_of_the_key_is_blotted_out() -> None:
    """If an answer quotes the request, the key is never shown, not even where the quoted part is cut off."""
    with serving(lambda asked: Reply(400, b"." * (280 + asked.number) + KEY.encode())) as server:
        assert not [number for number in range(21) if "phc_t" in deliveries.send(server.url).detail]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_posted_again_with_its_body(status: int) -> None:
    """Every redirect keeps method and body, to a real second server that is allowed."""
    with serving(scripted(Reply())) as second:
        elsewhere = scripted(Reply(status, b"", {"Location": f"{second.url}/other/batch/"}))
        response, asked = send(elsewhere, redirect_hosts=(f"127.0.0.1:{second.port}",))
        assert response.kind is ResponseKind.SETTLED
        assert [(one.target, one.body) for one in second.asked] == [("/other/batch/", BODY)]
        assert len(asked) == 1


def test_five_redirects_are_followed_and_a_sixth_is_not() -> None:
    """Five hops at most; then the run stops, and nothing was taken."""
    hops = [Reply(307, b"", {"Location": f"/{number}"}) for number in range(6)]
    response, asked = send(scripted(*hops[:5], Reply()))
    assert (response.kind, len(asked), asked[1].target) == (ResponseKind.SETTLED, 6, "/0")
    response, asked = send(scripted(*hops, Reply()))
    assert (response.kind, response.status, response.taken, len(asked)) == (ResponseKind.STOP, 307, False, 6)


def test_the_key_goes_to_no_other_host() -> None:
    """localhost is a different name from 127.0.0.1: the second server is never asked, unless that host, in upper or
    lower case, was named on the command line."""
    with serving(scripted(Reply())) as second:
        elsewhere = scripted(Reply(308, b"", {"Location": f"http://LOCALHOST:{second.port}/batch/"}))
        response, _ = send(elsewhere)
        assert (response.kind, response.taken, second.asked) == (ResponseKind.STOP, False, [])
        assert "--allow-redirect-host localhost" in response.detail
        assert send(elsewhere, redirect_hosts=("LocalHost",))[0].kind is ResponseKind.SETTLED
        assert len(second.asked) == 1


@pytest.mark.parametrize("location", ["", "/batch/", "ftp://127.0.0.1/", "http://", "http://[", "mailto:a@b"])
def test_a_redirect_that_leads_nowhere_stops(location: str) -> None:
    """No location, the same address, another scheme or nonsense: asked once, then stopped."""
    response, asked = send(scripted(Reply(302, b"", {"Location": location})))
    assert (response.kind, len(asked)) == (ResponseKind.STOP, 1)


def test_a_target_is_a_region_or_a_url() -> None:
    """A region's name or an http(s) URL, without a slash at its end; the URL of a region's host is that region."""
    regions = {"us": "https://us.i.posthog.com", "eu": "https://eu.i.posthog.com"}
    urls = {"http://127.0.0.1:8100/": "http://127.0.0.1:8100", "https://a.example/base": "https://a.example/base"}
    for target, address in (regions | urls).items():
        assert (address_of(target), address_of(address)) == (address, address)
    assert [region_of(one) for one in ("us", "https://eu.i.posthog.com/", "http://127.0.0.1:1")] == ["us", "eu", ""]


@pytest.mark.parametrize(
    "target",
    [
        *["", "uk", "example.com", "ftp://a.example", "http://", "http://a:99999", "http://a b"],
        *["http://u:secret@a", "http://a?b=secret", "http://a#b", "ftp://u:secret@a", "s3://b/c?sig=secret"],
    ],
)
def test_a_wrong_target_is_a_usage_error(target: str) -> None:
    """A target may contain neither a password nor a query, and no message repeats one."""
    with pytest.raises(UsageError) as raised:
        address_of(target)
    assert "secret" not in str(raised.value)


def test_loopback_is_this_machine_only() -> None:
    """A host name that begins like loopback is not loopback."""
    here = ["http://127.0.0.1:1", "http://127.8.0.1", "http://localhost", "http://[::1]:80"]
    elsewhere = ["http://127.0.0.1.example", "http://10.0.0.1", "http://localhost.example"]
    assert [one for one in (*here, *elsewhere) if is_loopback(one)] == here
