"""The routes of the local service outside of its API: each answers itself, to browsers and SDKs too."""

from __future__ import annotations

import socket

import pytest

from pipeline.local_service import LocalService
from tests.support.capture_service import CLIENT, KEY, batch, post


@pytest.mark.parametrize("path", ["/batch", "/batch/", "/i/v0/e", "/i/v0/e/", "/e/", "/capture", "/track/", "/engage"])
def test_every_route_answers_itself(shared: LocalService, path: str) -> None:
    """Each route is served with and without its last slash, without a redirect."""
    assert post(shared, batch(), path).text == '{"status":"Ok"}'


def test_redirects_nothing(shared: LocalService) -> None:
    """A path that is not served is 404; a slash too many is never a redirect, which would lose a body."""
    assert CLIENT.get(shared.url + "/_stats/").status_code == 404


def test_beacon_is_answered_empty(shared: LocalService) -> None:
    """`beacon=1` answers 204 without a body."""
    answer = post(shared, batch(), "/batch/?beacon=1")
    assert (answer.status_code, answer.content) == (204, b"")


def test_browsers_are_let_in(shared: LocalService) -> None:
    """OPTIONS answers the Ok body, and mirrors origin and headers."""
    asked = {"origin": "https://app.example", "access-control-request-headers": "content-type"}
    answer = CLIENT.options(shared.url + "/batch/", headers=asked)
    assert (answer.status_code, answer.text) == (200, '{"status":"Ok"}')
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert answer.headers["access-control-allow-headers"] == "content-type"
    assert answer.headers["access-control-allow-credentials"] == "true"


def test_says_that_it_is_ready(shared: LocalService) -> None:
    """`/_readiness` answers the text `capture`."""
    answer = CLIENT.get(shared.url + "/_readiness")
    assert (answer.status_code, answer.text) == (200, "capture")


def test_listens_on_this_machine_only(shared: LocalService) -> None:
    """The address is the loopback one, no other answers, and a port that is taken is an error."""
    assert shared.url == f"http://127.0.0.1:{shared.port}"
    with pytest.raises(OSError):  # noqa: PT011
        socket.create_connection(("127.0.0.2", shared.port), timeout=5)
    with pytest.raises(OSError, match="in use"):
        LocalService(port=shared.port)


@pytest.mark.parametrize("path", ["/flags", "/flags/", "/flags/?v=2", "/decide/", "/decide/?v=3"])
def test_answers_sdks_that_ask_for_flags(shared: LocalService, path: str) -> None:
    """There are no feature flags, and whoever asks is told so in the shape of its route."""
    answer = CLIENT.post(shared.url + path, json={"token": KEY, "distinct_id": "u"}, headers={"origin": "http://x"})
    told = answer.json()
    assert (answer.status_code, told["errorsWhileComputingFlags"]) == (200, False)
    assert (told["flags"] if path.endswith("v=2") else told["featureFlags"]) == {}
    assert answer.headers["access-control-allow-origin"] == "http://x"
