"""A capture key leads to its project, or nowhere; the local service makes keys, reads them, and never shows one."""

from __future__ import annotations

import re
import uuid as uuids
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.local_service import Keyring, LocalService, Settings
from pipeline.local_service.keys import BadKeys, Project, load_keys
from tests.support.capture_service import KEY, KEYS, NOW_TEXT, batch, event, make, post


@pytest.fixture
def service() -> Iterator[LocalService]:
    with make() as fresh:
        yield fresh


def test_an_unknown_key_is_answered_ok_and_dropped(service: LocalService) -> None:
    """By default a key that no project owns gets 200, stores nothing and is remembered as a rejection."""
    assert post(service, batch(api_key="phc_somebody_else")).text == '{"status":"Ok"}'
    assert service.store.raw_count() == 0
    assert service.select("SELECT status, reason FROM rejections") == [(200, "unknown token")]


def test_an_unknown_key_is_refused_where_keys_are_enforced() -> None:
    """With `token_validation` enforced, a key that no project owns is 401."""
    with make(Settings(token_validation="enforce")) as service:
        assert post(service, batch(api_key="phc_somebody_else")).status_code == 401
        assert post(service, batch()).status_code == 200
        assert service.count() == 1


def test_each_project_has_its_own_events() -> None:
    """A capture key leads to its project only."""
    keys = Keyring((Project(1, "A", "phc_a"), Project(2, "B", "phc_b")), KEYS.personal)
    with LocalService(keys=keys) as service:
        assert post(service, batch(api_key="phc_b")).status_code == 200
        assert post(service, batch(event(), event(uuid=str(uuids.uuid4())), api_key="phc_a")).status_code == 200
        assert (len(service.events(1)), len(service.events(2)), service.count()) == (2, 1, 3)


def test_remembers_refused_bodies_without_keys(service: LocalService) -> None:
    """A rejection keeps time, status, text and the first 500 characters, with every key replaced."""
    body = batch(event(properties={"note": f"{KEY} phx_personal phc_other " + "x" * 900}), api_key=KEY)
    refused = post(service, body)
    [(time, status, reason, payload)] = service.select("SELECT time, status, reason, payload FROM rejections")
    assert (time, status, reason) == (NOW_TEXT, 400, refused.text)
    assert len(payload) == 500
    assert payload.startswith('{"api_key": "***", "historical_migration": true')
    assert "phc_" not in payload
    assert "phx_" not in payload


def test_remembers_no_key_of_any_shape() -> None:
    """A key that does not look like one is replaced too, wherever it stands in a refused body."""
    keys = Keyring((Project(1, "A", "plain"),), {})
    with LocalService(keys=keys) as service:
        assert post(service, b"[not json, plain, of course]").status_code == 400
        assert service.select("SELECT payload FROM rejections") == [("[not json, ***, of course]",)]


def test_keys_are_in_no_repr_and_no_log(service: LocalService, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither an object's repr nor the output of the process shows a key."""
    post(service, batch())
    post(service, b"no json" + KEY.encode())
    seen = repr(service) + repr(service.keys) + repr(service.keys.projects) + "".join(capfd.readouterr())
    assert KEY not in seen
    assert "phx_personal" not in seen


def test_makes_keys_of_its_own() -> None:
    """Without a keys file there is project 1, with new keys of each kind."""
    with LocalService() as one, LocalService() as other:
        assert (one.project_id, one.url != other.url) == (1, True)
        assert re.fullmatch(r"phc_[0-9a-f]{40}", one.capture_key)
        assert re.fullmatch(r"phx_[0-9a-f]{40}", one.personal_key)
        assert one.capture_key != other.capture_key
        assert post(one, batch(api_key=one.capture_key)).status_code == 200
        assert (one.count(), other.count()) == (1, 0)


def test_reads_a_keys_file(tmp_path: Path) -> None:
    """The keys file of the command line is read."""
    file = tmp_path / "keys.json"
    file.write_text('{"projects": [{"id": 7, "name": "P", "capture_key": "phc_x"}], "keys": {"phx_y": ["query:read"]}}')
    keys = load_keys(file)
    assert (keys.project_of("phc_x"), keys.project_of("phc_z")) == (7, None)
    assert keys.personal == {"phx_y": frozenset({"query:read"})}


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        '{"projects": []}',
        '{"projects": [{"id": "1", "capture_key": "phc_secret"}]}',
        '{"projects": [{"id": 1, "capture_key": "phx_secret"}]}',
        '{"projects": [{"id": 1, "capture_key": "phc_secret"}, {"id": 2, "capture_key": "phc_secret"}]}',
        '{"projects": [{"id": 1, "capture_key": "phc_a"}], "keys": {"phc_secret": ["*"]}}',
        '{"projects": [{"id": 1, "capture_key": "phc_a"}], "keys": {"phx_secret": "*"}}',
    ],
)
def test_refuses_a_bad_keys_file(tmp_path: Path, text: str) -> None:
    """A keys file that cannot be used is named, without any of its keys."""
    file = tmp_path / "keys.json"
    file.write_text(text)
    with pytest.raises(BadKeys) as caught:
        load_keys(file)
    assert str(file) in str(caught.value)
    assert "secret" not in str(caught.value)
