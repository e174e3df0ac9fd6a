"""What is kept of a request that was turned away: its first words, however it was packed, and no key."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from pipeline.local_service import Keyring, LocalService, Settings
from pipeline.local_service.keys import Project
from tests.support.capture_service import CLIENT, NOW_TEXT
from tests.support.services import NOW, running

pytestmark = pytest.mark.slow

KEY = "phc_test_a_key_to_be_hidden"
KEYS = Keyring((Project(1, "A", KEY),), {"phx_test_all": frozenset({"*"})})
BODY = json.dumps({"api_key": KEY, "batch": [{"event": "Bought <b>", "properties": {"note": "x" * 3000}}]}).encode()
PACKED = base64.b64encode(BODY)
FORM = {"content-type": "application/x-www-form-urlencoded"}
START = '{"api_key": "***", "batch": [{"event": "Bought <b>", '


@pytest.fixture(scope="module")
def service() -> Iterator[LocalService]:
    with running(KEYS, Settings(clock=lambda: NOW)) as service:
        yield service


def kept(service: LocalService) -> str:
    """The start of the last refused body."""
    return str(service.select("SELECT payload FROM rejections")[-1][0])


WAYS: dict[str, dict[str, Any]] = {
    "as it is": {"content": BODY},
    "gzip": {"content": gzip.compress(BODY)},
    "base64": {"content": PACKED},
    "base64 in lines": {"content": b"\n".join(PACKED[at : at + 76] for at in range(0, len(PACKED), 76))},
    "base64 of gzip": {"content": base64.b64encode(gzip.compress(BODY))},
    "a form": {"content": b"data=" + quote(BODY).encode(), "headers": FORM},
    "a form of base64": {"content": b"data=" + quote(PACKED).encode(), "headers": FORM},
    "a form of base64, plus signs bare": {"content": b"data=" + PACKED, "headers": FORM},
    "a large one": {"content": gzip.compress(BODY + b" " * 2_000_000)},
}


def test_the_start_is_shown_however_it_was_packed(service: LocalService) -> None:
    """Its key is masked in every packing; so it is on the page. 500 characters are kept, with time, status and text."""
    for way, request in WAYS.items():
        answer = CLIENT.post(service.url + "/batch/", **request)
        found = service.select("SELECT time, status, reason, length(payload) FROM rejections")[-1]
        assert found == (NOW_TEXT, 400, answer.text, 500), way
        assert kept(service).startswith(START), way
    page = CLIENT.get(service.url + "/rejected").text
    assert page.count("Bought &lt;b&gt;") >= len(WAYS)
    assert KEY not in page


HIDDEN: dict[str, dict[str, Any]] = {
    "base64 that breaks off": {"content": base64.b64encode(BODY)[:-1001] + b"=", "params": {"compression": "gzip"}},
    "gzip that is none": {"content": b"\x1f\x8b\x08" + BODY},
    "gzip that breaks off": {"content": gzip.compress(BODY)[:40]},
    "a form without data": {"content": b"x=" + PACKED, "headers": FORM},
    "text before it": {"content": b"?" + BODY},
}


def test_no_key_is_kept_of_a_body_that_cannot_be_read(service: LocalService) -> None:
    """Neither as it stands nor as base64 of it."""
    for way, request in HIDDEN.items():
        assert CLIENT.post(service.url + "/batch/", **request).status_code == 400
        assert [text for text in (KEY, PACKED[:40].decode()) if text in kept(service)] == [], way


def test_a_key_that_nobody_owns_is_masked_too(service: LocalService) -> None:
    """It is answered with 200, and may be the key of somebody's real project."""
    other = json.dumps({"api_key": "another-projects-key", "batch": [{"event": "e", "properties": {"distinct_id": 1}}]})
    assert CLIENT.post(service.url + "/batch/", content=base64.b64encode(other.encode())).status_code == 200
    assert kept(service).startswith('{"api_key": "***", "batch"')
