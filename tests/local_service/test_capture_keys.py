"""A capture key leads to its project, or nowhere, and the local service never shows one."""

from __future__ import annotations

import re
import uuid as uuids

import pytest

from pipeline.local_service import Keyring, LocalService
from pipeline.local_service.keys import Project
from tests.support import capture_service
from tests.support.capture_service import KEY, KEYS, batch, event, post
from tests.support.services import running


def rejection(service: LocalService) -> tuple[str, int, str, str]:
    """The last one: time, status, reason and payload."""
    return service.select("SELECT time, status, reason, payload FROM rejections")[-1]  # type: ignore[return-value]


def test_an_unknown_key_is_answered_ok_and_dropped(shared: LocalService) -> None:
    """By default a key that no project owns gets 200, stores nothing and is remembered as a rejection."""
    before = shared.store.raw_count()
    assert post(shared, batch(api_key="phc_somebody_else")).text == '{"status":"Ok"}'
    assert shared.store.raw_count() == before
    assert rejection(shared)[1:3] == (200, "unknown token")


def test_an_unknown_key_is_refused_where_keys_are_enforced() -> None:
    """With `token_validation` enforced, a key that no project owns is 401."""
    service = capture_service.shared(token_validation="enforce")
    assert post(service, batch(api_key="phc_somebody_else")).status_code == 401
    assert service.count() == 0
    assert post(service, batch()).status_code == 200


def test_each_project_has_its_own_events() -> None:
    """A capture key leads to its project only."""
    keys = Keyring((Project(1, "A", "phc_a"), Project(2, "B", "phc_b")), KEYS.personal)
    with running(keys) as service:
        assert post(service, batch(api_key="phc_b")).status_code == 200
        assert post(service, batch(event(), event(uuid=str(uuids.uuid4())), api_key="phc_a")).status_code == 200
        assert (len(service.events(1)), len(service.events(2)), service.count()) == (2, 1, 3)


def test_remembers_no_key_of_any_shape() -> None:
    """A key that does not look like one is replaced too, wherever it stands in a refused body."""
    with running(Keyring((Project(1, "A", "plain"),), {})) as service:
        assert post(service, b"[not json, plain, of course]").status_code == 400
        assert rejection(service)[3] == "[not json, ***, of course]"


def test_keys_are_in_no_repr_and_no_log(shared: LocalService, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither an object's repr nor the output of the process shows a key."""
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
