"""A capture key leads to its project, or nowhere; the beginning of a rejected request is kept, without its key."""

from __future__ import annotations

import base64
import gzip
import json
import re
import uuid as uuids
from typing import Any
from urllib.parse import quote

import pytest

from pipeline.local_service import Keyring, LocalService
from pipeline.local_service.keys import Project
from tests.support import capture_service
from tests.support.capture_service import CLIENT, KEY, KEYS, NOW_TEXT, batch, event, post
from tests.support.services import running


def rejection(service: LocalService) -> tuple[str, int, str, str]:
    """The last one: time, status, reason and payload."""
    return service.select("SELECT time, status, reason, payload FROM rejections")[-1]  # type: ignore[return-value]


def test_an_unknown_key_is_answered_ok_and_dropped(shared: LocalService) -> None:
    """It is recorded as a rejection. With `token_validation` enforced it is 401."""
    before = shared.store.raw_count()
    assert post(shared, batch(api_key="phc_somebody_else")).text == '{"status":"Ok"}'
    assert shared.store.raw_count() == before
    assert rejection(shared)[1:3] == (200, "unknown token")
    service = capture_service.shared(token_validation="enforce")
    assert post(service, batch(api_key="phc_somebody_else")).status_code == 401
    assert service.count() == 0
    assert post(service, batch()).status_code == 200


def test_each_project_has_its_own_events() -> None:
    keys = Keyring((Project(1, "A", "phc_a"), Project(2, "B", "phc_b")), KEYS.personal)
    with running(keys) as service:
        assert post(service, batch(api_key="phc_b")).status_code == 200
        assert post(service, batch(event(), event(uuid=str(uuids.uuid4())), api_key="phc_a")).status_code == 200
        assert (len(service.events(1)), len(service.events(2)), service.count()) == (2, 1, 3)


def test_remembers_no_key_of_any_shape() -> None:
    """A key of unusual form is masked too, wherever it is in a refused body."""
    with running(Keyring((Project(1, "A", "plain"),), {})) as service:
        assert post(service, b"[not json, plain, of course]").status_code == 400
        assert rejection(service)[3] == "[not json, ***, of course]"


def test_keys_are_in_no_repr_and_no_log(shared: LocalService, capfd: pytest.CaptureFixture[str]) -> None:
    post(shared, batch())
    post(shared, b"no json" + KEY.encode())
    seen = repr(shared) + repr(shared.keys) + repr(shared.keys.projects) + "".join(capfd.readouterr())
    assert KEY not in seen
    assert "phx_personal" not in seen


def test_makes_keys_of_its_own() -> None:
    """Without a keys file there is project 1, with new keys of each kind."""
    with running() as one, running() as other:
        assert (one.project_id, one.url != other.url) == (1, True)
        assert re.fullmatch(r"phc_[0-9a-f]{40}", one.capture_key)
        assert re.fullmatch(r"phx_[0-9a-f]{40}", one.personal_key)
        assert one.capture_key != other.capture_key
        assert post(one, batch(api_key=one.capture_key)).status_code == 200
        assert (one.count(), other.count()) == (1, 0)


BODY = json.dumps({"api_key": KEY, "batch": [{"event": "Bought <b>", "properties": {"note": "x" * 3000}}]}).encode()
PACKED = base64.b64encode(BODY)
FORM = {"content-type": "application/x-www-form-urlencoded"}
START = '{"api_key": "***", "batch": [{"event": "Bought <b>", '
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


def test_the_start_is_shown_however_it_was_packed(shared: LocalService) -> None:
    """Its key is masked in every packing, also on the page. 500 characters are kept, with time, status and content."""
    for way, request in WAYS.items():
        answer = CLIENT.post(shared.url + "/batch/", **request)
        time, status, reason, payload = rejection(shared)
        assert (time, status, reason, len(payload)) == (NOW_TEXT, 400, answer.text, 500), way
        assert payload.startswith(START), way
    page = CLIENT.get(shared.url + "/rejected").text
    assert page.count("Bought &lt;b&gt;") >= len(WAYS)
    assert KEY not in page


HIDDEN: dict[str, dict[str, Any]] = {
    "base64 that breaks off": {"content": base64.b64encode(BODY)[:-1001] + b"=", "params": {"compression": "gzip"}},
    "gzip that is none": {"content": b"\x1f\x8b\x08" + BODY},
    "gzip that breaks off": {"content": gzip.compress(BODY)[:40]},
    "a form without data": {"content": b"x=" + PACKED, "headers": FORM},
    "text before it": {"content": b"?" + BODY},
}


def test_no_key_is_kept_of_a_body_that_cannot_be_read(shared: LocalService) -> None:
    """Neither as it is nor as base64."""
    for way, request in HIDDEN.items():
        assert CLIENT.post(shared.url + "/batch/", **request).status_code == 400
        assert [text for text in (KEY, PACKED[:40].decode()) if text in rejection(shared)[3]] == [], way


def test_an_unknown_key_is_masked_too(shared: LocalService) -> None:
    """It is answered with 200, and may be the key of a real project."""
    other = json.dumps({"api_key": "another-projects-key", "batch": [{"event": "e", "properties": {"distinct_id": 1}}]})
    assert CLIENT.post(shared.url + "/batch/", content=base64.b64encode(other.encode())).status_code == 200
    assert rejection(shared)[3].startswith('{"api_key": "***", "batch"')
