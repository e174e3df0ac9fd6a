"""The routes of the local service outside its API answer themselves, and read a body packed in every way that the real
one reads (docs/know/service.md#event-fields)."""

from __future__ import annotations

import base64
import gzip
import socket

import httpx
import pytest

from pipeline.local_service import LocalService
from tests.support import capture_service
from tests.support.capture_service import CLIENT, KEY, UUID, batch, post, taken


def test_every_route_answers_itself(shared: LocalService) -> None:
    """With and without the final slash, and never by a redirect, which would lose a body; `beacon=1` gets an empty
    answer."""
    for path in ("/batch", "/batch/", "/i/v0/e", "/i/v0/e/", "/e/", "/capture", "/track/", "/engage"):
        assert post(shared, batch(), path).text == '{"status":"Ok"}', path
    assert CLIENT.get(shared.url + "/_readiness/").status_code == 404
    answer = post(shared, batch(), "/batch/?beacon=1")
    assert (answer.status_code, answer.content) == (204, b"")
    answer = CLIENT.get(shared.url + "/_readiness")
    assert (answer.status_code, answer.text) == (200, "capture")


def test_browsers_are_let_in(shared: LocalService) -> None:
    """OPTIONS answers the Ok body, and mirrors origin and headers."""
    asked = {"origin": "https://app.example", "access-control-request-headers": "content-type"}
    answer = CLIENT.options(shared.url + "/batch/", headers=asked)
    assert (answer.status_code, answer.text) == (200, '{"status":"Ok"}')
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert answer.headers["access-control-allow-headers"] == "content-type"
    assert answer.headers["access-control-allow-credentials"] == "true"


def test_listens_on_this_machine_only(shared: LocalService) -> None:
    """It listens on the loopback address, on no other, and a port that is in use is an error."""
    assert shared.url == f"http://127.0.0.1:{shared.port}"
    with pytest.raises(OSError):  # noqa: PT011
        socket.create_connection(("127.0.0.2", shared.port), timeout=5)
    with pytest.raises(OSError, match="in use"):
        LocalService(port=shared.port)


@pytest.mark.parametrize("path", ["/flags", "/flags/", "/flags/?v=2", "/decide/", "/decide/?v=3"])
def test_answers_sdks_that_ask_for_flags(shared: LocalService, path: str) -> None:
    """There are no feature flags, and the answer says so in the form of its route."""
    answer = CLIENT.post(shared.url + path, json={"token": KEY, "distinct_id": "u"}, headers={"origin": "http://x"})
    told = answer.json()
    assert (answer.status_code, told["errorsWhileComputingFlags"]) == (200, False)
    assert (told["flags"] if path.endswith("v=2") else told["featureFlags"]) == {}
    assert answer.headers["access-control-allow-origin"] == "http://x"


GZIPPED = gzip.compress(batch())
FORM = {"content-type": "application/x-www-form-urlencoded"}
ENCODED: dict[str, tuple[bytes, str, dict[str, str]]] = {
    "gzip by header": (GZIPPED, "", {"content-encoding": "gzip"}),
    "gzip by query": (GZIPPED, "?compression=gzip-js", {}),
    "gzip by its first bytes": (GZIPPED, "", {}),
    "gzip with bytes behind it": (GZIPPED + b"more", "", {}),
    "a header that is not so": (batch(), "", {"content-encoding": "zstd"}),
    "base64": (base64.b64encode(batch()), "", {}),
    "base64 by query": (base64.b64encode(batch()), "?compression=BASE64", {}),
    "base64 of gzip": (base64.b64encode(GZIPPED), "", {}),
    "a form": (str(httpx.QueryParams({"data": batch().decode()})).encode(), "", FORM),
    "a form with base64": (b"data=" + base64.b64encode(GZIPPED), "", FORM),
    "a form that names gzip": (b"compression=gzip&data=" + base64.b64encode(GZIPPED).replace(b"+", b"%2B"), "", FORM),
}


@pytest.mark.parametrize(("body", "query", "headers"), ENCODED.values(), ids=ENCODED.keys())
def test_takes_every_encoding(shared: LocalService, body: bytes, query: str, headers: dict[str, str]) -> None:
    assert [one.uuid for one in taken(shared, body, "/batch/" + query, headers)] == [UUID]


UNDECODABLE: dict[str, tuple[bytes, str, dict[str, str], str]] = {
    "plain text named gzip": (batch(), "", {"content-encoding": "gzip"}, "invalid GZIP data"),
    "gzip cut off": (GZIPPED[:-9], "", {}, "invalid GZIP data"),
    "gzip of no text": (gzip.compress(b"\xff\xfe"), "", {}, "invalid gzip data"),
    "zstd": (b"\x28\xb5\x2f\xfd\x04\x00", "", {"content-encoding": "zstd"}, "invalid UTF8 in request payload"),
    "surrogates in UTF-8": (batch().replace(b"u1", b"\xed\xa0\x80"), "", {}, "invalid UTF8 in request payload"),
    "no base64": (b"{}", "?compression=b64", {}, "invalid base64 data"),
    "a form without data": (b"x=1", "", FORM, "expected form data in POST request payload"),
    "lz64": (batch(), "?compression=lz64", {}, "lz64 is not supported by the local service"),
}


@pytest.mark.parametrize(("body", "query", "headers", "text"), UNDECODABLE.values(), ids=UNDECODABLE.keys())
def test_refuses_what_it_cannot_decode(
    shared: LocalService, body: bytes, query: str, headers: dict[str, str], text: str
) -> None:
    answer = post(shared, body, "/batch/" + query, headers)
    assert (answer.status_code, answer.text) == (400, f"failed to decode request: {text}")


def test_takes_data_in_the_query_of_a_get(shared: LocalService) -> None:
    """GET is allowed, with the body as `?data=`; without it a resent GET is a missing payload."""
    before = shared.store.raw_count()
    assert CLIENT.get(shared.url + "/batch/", params={"data": batch().decode()}).status_code == 200
    bare = CLIENT.get(shared.url + "/batch/")
    assert (bare.status_code, bare.text) == (400, "request missing data payload")
    assert shared.store.raw_count() == before + 1


@pytest.mark.parametrize("given", ["text/plain", "application/json5", ""])
def test_expects_json(shared: LocalService, given: str) -> None:
    """A batch without the JSON content type is taken and noted, or refused by a switch; a form is neither."""
    strict, odd = capture_service.shared(content_type="json"), {"content-type": given}
    before = len(shared.warnings())
    assert post(shared, batch(), headers=odd).status_code == 200
    refused = post(strict, batch(), headers=odd)
    assert (refused.status_code, refused.text) == (415, "expected Content-Type: application/json")
    form = b"data=" + base64.urlsafe_b64encode(batch()).replace(b"-", b"%2B").replace(b"_", b"/")
    for service in (shared, strict):
        assert post(service, batch(), headers={"content-type": "application/json; charset=utf-8"}).status_code == 200
        assert post(service, batch(), "/e/", odd).status_code == 200
        assert post(service, form, headers=FORM).status_code == 200
    assert [warning.type for warning in shared.warnings()[before:]] == ["unexpected_content_type"]
