"""The capture destination: what each answer means, and where the key may go."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.delivery.capture import CaptureDestination, response_of
from pipeline.delivery.destination import Response, ResponseKind
from pipeline.delivery.transport import redirect_refusal, retry_after
from pipeline.errors import UsageError
from pipeline.targets import address_of, is_loopback, region_of
from tests.support import deliveries
from tests.support.deliveries import BODY, KEY, Asked, Reply, request_of, scripted, serving

NOW = datetime(2024, 1, 31, 12, tzinfo=UTC)


def send(answer: Callable[[Asked], Reply], **options: object) -> tuple[Response, list[Asked]]:
    """One request to a server that answers so."""
    with serving(answer) as server:
        return deliveries.send(server.url, **options), server.asked


# -- what an answer means --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "answer", "taken"),
    [
        (400, ResponseKind.POISON, False),
        (413, ResponseKind.TOO_LARGE, True),
        (408, ResponseKind.RETRY, True),
        (429, ResponseKind.RETRY, False),
        (500, ResponseKind.RETRY, True),
        (502, ResponseKind.RETRY, True),
        (503, ResponseKind.RETRY, True),
        (504, ResponseKind.RETRY, True),
        (599, ResponseKind.RETRY, True),
        (401, ResponseKind.STOP, False),
        (402, ResponseKind.STOP, False),
        (403, ResponseKind.STOP, False),
        (404, ResponseKind.STOP, False),
        (405, ResponseKind.STOP, False),
        (304, ResponseKind.STOP, True),
    ],
)
def test_a_status_means_what_the_table_says(status: int, answer: ResponseKind, taken: bool) -> None:
    """Each status other than 2xx has one meaning, and says whether the events may have been taken."""
    assert response_of(status, b"why") == Response(answer, status, "why", 0.0, taken)


SUCCESS = [
    b'{"status":"Ok"}',
    b'{"status":1}',
    b' {"status": "Ok", "more": [1, null]} \n',
    b'{"status":"Ok","error":null}',
]
SILENT = [b"", b" \n", b"{}", b'{"accepted":12}', b'{"quota_limited":[]}', b'{"errors":[]}']
"""Answers that name neither a status nor an error: the contract shows none, the service itself gives none of them."""
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
@pytest.mark.parametrize("status", [200, 201, 202, 299])
@pytest.mark.parametrize("body", SUCCESS)
def test_a_body_that_says_success_settles(status: int, body: bytes, dialect: str) -> None:
    """A 2xx whose body has the status Ok or 1 and no error settles in both dialects, whatever stands beside it."""
    assert response_of(status, body, dialect=dialect) == Response(ResponseKind.SETTLED, status)


@pytest.mark.parametrize("body", SILENT)
def test_silence_settles_in_the_dialect_of_the_contract_alone(body: bytes) -> None:
    """The contract shows no answer, so an empty 200 or an object without status and error will do; never elsewhere."""
    assert response_of(200, body, dialect="contract").kind is ResponseKind.SETTLED
    assert response_of(200, body, dialect="posthog").kind is ResponseKind.DOUBT


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("status", [201, 202, 204, 205])
def test_no_body_settles_with_the_status_200_alone(status: int, dialect: str) -> None:
    """A 204 or an empty 202 is no answer of capture to a request such as ours, in no dialect."""
    response = response_of(status, b"", dialect=dialect)
    assert (response.kind, response.taken) == (ResponseKind.DOUBT, True)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("body", DOUBTFUL, ids=lambda body: repr(body[:40]))
def test_success_with_anything_else_is_in_doubt(body: bytes, dialect: str) -> None:
    """A 2xx that does not say success settles nothing: another status, an error, no object, no UTF-8, two meanings."""
    response = response_of(200, body, dialect=dialect)
    assert (response.kind, response.taken) == (ResponseKind.DOUBT, True)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("content_type", ["text/html", "application/json; charset=latin-1", ""])
def test_the_content_type_decides_nothing(content_type: str, dialect: str) -> None:
    """The body says what was done, under whatever name it comes."""
    headers = {"Content-Type": content_type}
    assert send(scripted(Reply(200, b'{"status":"Ok"}', headers)), dialect=dialect)[0].kind is ResponseKind.SETTLED
    assert send(scripted(Reply(200, b"<p>Ok</p>", headers)), dialect=dialect)[0].kind is ResponseKind.DOUBT


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_answer_after_a_redirect_is_judged_alike(dialect: str) -> None:
    """What the last address answers to the request decides, in the same dialect."""
    moved = Reply(307, b"", {"Location": "/elsewhere"})
    assert send(scripted(moved, Reply(200, b"null")), dialect=dialect)[0].kind is ResponseKind.DOUBT
    silent, _ = send(scripted(moved, Reply(200, b"{}")), dialect=dialect)
    assert silent.kind is (ResponseKind.SETTLED if dialect == "contract" else ResponseKind.DOUBT)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("status", ["Ok", "Error", 1])
def test_a_used_up_quota_stops_though_the_status_is_200(status: object, dialect: str) -> None:
    """`quota_limited` says that events were dropped; where it names other quotas alone, some may have been taken."""
    for limited, taken in ((["events"], False), (["recordings", "events"], False), (["exceptions"], True)):
        body = json.dumps({"status": status, "quota_limited": limited}).encode()
        response = response_of(200, body, dialect=dialect)
        assert (response.kind, response.taken) == (ResponseKind.STOP, taken)
    assert response_of(200, b'{"status":"Ok","quota_limited":[]}', dialect=dialect).kind is ResponseKind.SETTLED


@given(st.integers(100, 999), st.binary(max_size=400), st.sampled_from(["contract", "posthog"]))
def test_every_answer_has_a_meaning(status: int, body: bytes, dialect: str) -> None:
    """No status and no body makes the response_of fail, and only 2xx settles."""
    response = response_of(status, body, dialect=dialect)
    assert response.kind is not ResponseKind.SETTLED or 200 <= status < 300
    assert len(response.detail) < 500


# -- Retry-After -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", 0.0),
        ("7", 7.0),
        (" 12 ", 12.0),
        ("1.5", 1.5),
        ("0", 0.0),
        ("-3", 0.0),
        ("nan", 0.0),
        ("inf", 0.0),
        ("1e9", 0.0),
        ("soon", 0.0),
        ("Wed, 31 Jan 2024 12:02:00 GMT", 120.0),
        ("Wed, 31 Jan 2024 13:02:00 +0100", 120.0),
        ("Wed, 31 Jan 2024 11:59:00 GMT", 0.0),
        ("Wed, 31 Feb 2024 11:59:00 GMT", 0.0),
    ],
)
def test_retry_after_reads_seconds_and_dates(text: str, seconds: float) -> None:
    """Seconds, or a date against now; what is neither, past or no number asks for nothing."""
    assert retry_after(text, NOW) == seconds


@given(st.integers(1, 10_000_000))
def test_a_date_in_the_future_is_its_distance(seconds: int) -> None:
    """A date is the number of seconds until it."""
    assert retry_after(format_datetime(NOW + timedelta(seconds=seconds), usegmt=True), NOW) == seconds


@given(st.text(max_size=40))
def test_any_retry_after_is_read(text: str) -> None:
    """No header makes it fail or ask for a negative wait."""
    assert retry_after(text, NOW) >= 0


# -- the request -----------------------------------------------------------------------------------------


def test_a_request_is_a_gzipped_post_to_batch() -> None:
    """POST /batch/ with the encoding declared and the very bytes given."""
    response, asked = send(scripted(Reply()))
    assert response == Response(ResponseKind.SETTLED, 200)
    assert [(one.target, one.body, one.headers["content-encoding"]) for one in asked] == [("/batch/", BODY, "gzip")]
    assert asked[0].headers["content-type"] == "application/json"


def test_retry_after_of_an_answer_reaches_the_receipt() -> None:
    """The header of a 429 becomes the floor of the next wait."""
    response, _ = send(scripted(Reply(429, b"slow down", {"Retry-After": "7"})))
    assert response == Response(ResponseKind.RETRY, 429, "slow down", 7.0, False)


def test_a_refused_connection_leaves_nothing_in_doubt() -> None:
    """Where nobody listens no byte left."""
    with serving(scripted(Reply())) as server:
        address = server.url
    destination = CaptureDestination(address)
    response = destination.send(request_of(BODY))
    destination.close()
    assert (response.kind, response.status, response.taken) == (ResponseKind.UNREACHABLE, 0, False)


def test_a_lost_answer_is_in_doubt() -> None:
    """A connection cut after the request may have been taken."""
    response, _ = send(scripted(Reply(0)))
    assert (response.kind, response.status, response.taken) == (ResponseKind.RETRY, 0, True)


def test_a_truncated_answer_is_in_doubt() -> None:
    """An answer that ends before its announced length settles nothing."""
    response, _ = send(scripted(Reply(200, b'{"status":"Ok"}', {"Content-Encoding": "gzip"})))
    assert (response.kind, response.taken) == (ResponseKind.DOUBT, True)


def test_an_endless_answer_is_cut_off() -> None:
    """Of an answer only its first bytes are read."""
    response, _ = send(scripted(Reply(200, b'{"a":"' + b"x" * 5_000_000 + b'"}')))
    assert response.kind is ResponseKind.DOUBT


def test_an_echo_of_the_key_is_blotted_out() -> None:
    """An answer that quotes the request back never shows the key, at the end of what is shown neither."""
    for filler in range(280, 301):
        response, _ = send(scripted(Reply(400, b"." * filler + KEY.encode())))
        assert "phc_t" not in response.detail


# -- redirects -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_posted_again_with_its_body(status: int) -> None:
    """Every redirect keeps method and body, to a real second server of the same host name."""
    with serving(scripted(Reply())) as second:
        response, asked = send(scripted(Reply(status, b"", {"Location": f"{second.url}/other/batch/"})))
        assert response.kind is ResponseKind.SETTLED
        assert [(one.target, one.body) for one in second.asked] == [("/other/batch/", BODY)]
        assert len(asked) == 1


def test_a_relative_redirect_stays_at_the_server() -> None:
    """A location without a host is resolved against the address asked."""
    response, asked = send(scripted(Reply(307, b"", {"Location": "/elsewhere"}), Reply()))
    assert response.kind is ResponseKind.SETTLED
    assert [one.target for one in asked] == ["/batch/", "/elsewhere"]


def test_five_redirects_are_followed_and_a_sixth_is_not() -> None:
    """Five hops at most; then the run stops, and nothing was taken."""
    hops = [Reply(307, b"", {"Location": f"/{number}"}) for number in range(6)]
    response, asked = send(scripted(*hops[:5], Reply()))
    assert (response.kind, len(asked)) == (ResponseKind.SETTLED, 6)
    response, asked = send(scripted(*hops, Reply()))
    assert (response.kind, response.status, response.taken, len(asked)) == (ResponseKind.STOP, 307, False, 6)


def test_the_key_goes_to_no_other_host() -> None:
    """localhost is another name than 127.0.0.1: the second server is never asked."""
    with serving(scripted(Reply())) as second:
        elsewhere = f"http://localhost:{second.port}/batch/"
        response, _ = send(scripted(Reply(307, b"", {"Location": elsewhere})))
        assert (response.kind, response.taken) == (ResponseKind.STOP, False)
        assert "--allow-redirect-host localhost" in response.detail
        assert second.asked == []


def test_the_key_goes_to_a_host_that_was_allowed() -> None:
    """A host named on the command line, in any case of letters, may be redirected to."""
    with serving(scripted(Reply())) as second:
        elsewhere = f"http://LOCALHOST:{second.port}/batch/"
        response, _ = send(scripted(Reply(308, b"", {"Location": elsewhere})), redirect_hosts=("LocalHost",))
        assert response.kind is ResponseKind.SETTLED
        assert len(second.asked) == 1


@pytest.mark.parametrize("location", ["", "/batch/", "ftp://127.0.0.1/", "http://", "http://[", "mailto:a@b"])
def test_a_redirect_that_leads_nowhere_stops(location: str) -> None:
    """No location, the same address, another scheme or nonsense: asked once, then stopped."""
    response, asked = send(scripted(Reply(302, b"", {"Location": location})))
    assert (response.kind, len(asked)) == (ResponseKind.STOP, 1)


def test_https_is_never_redirected_to_http() -> None:
    """A redirect from https down to http is refused before anything is sent."""
    reason = redirect_refusal("https://127.0.0.1:1/batch/", "http://127.0.0.1:1/batch/", {"127.0.0.1"})
    assert reason == "a redirect from https to http: http://127.0.0.1:1/batch/"


# -- targets ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "address"),
    [
        ("us", "https://us.i.posthog.com"),
        ("eu", "https://eu.i.posthog.com"),
        ("http://127.0.0.1:8100", "http://127.0.0.1:8100"),
        ("http://127.0.0.1:8100/", "http://127.0.0.1:8100"),
        ("https://a.example/base", "https://a.example/base"),
    ],
)
def test_a_target_is_a_region_or_a_url(target: str, address: str) -> None:
    """A region's name or an http(s) URL, without a slash at its end."""
    assert address_of(target) == address


@pytest.mark.parametrize(
    "target",
    [
        *["", "uk", "example.com", "ftp://a.example", "http://", "http://a:99999", "http://a b"],
        *["http://u:secret@a", "http://a?b=secret", "http://a#b", "ftp://u:secret@a", "s3://b/c?sig=secret"],
    ],
)
def test_what_is_no_target_is_a_usage_error(target: str) -> None:
    """Neither a password nor a query may stand in a target, and no message repeats one."""
    with pytest.raises(UsageError) as raised:
        address_of(target)
    assert "secret" not in str(raised.value)


def test_a_region_is_known_by_its_url_too() -> None:
    """The URL of a region's capture host is that region."""
    assert [region_of(target) for target in ("us", "https://eu.i.posthog.com/", "http://127.0.0.1:1")] == [
        "us",
        "eu",
        "",
    ]


HERE = ["http://127.0.0.1:1", "http://127.8.0.1", "http://localhost", "http://[::1]:80"]
ELSEWHERE = ["http://127.0.0.1.example", "http://10.0.0.1", "http://localhost.example"]


@pytest.mark.parametrize(("address", "here"), [(one, True) for one in HERE] + [(one, False) for one in ELSEWHERE])
def test_loopback_is_this_machine_only(address: str, here: bool) -> None:
    """A host name that begins like loopback is not loopback."""
    assert is_loopback(address) is here
