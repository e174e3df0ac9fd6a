"""Preflight checks hosts: which belong together, what answers there, TLS, and clocks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from pipeline.config import Secret
from pipeline.options import PreflightOptions
from pipeline.preflight.checks.hosts import check_address, compare_clocks
from pipeline.preflight.run import PreflightRequest
from pipeline.preflight.target import ServiceClock, Target
from tests.support.deliveries import Reply, planned, serving
from tests.support.management_service import Asking, asking
from tests.support.preflight import look
from tests.support.scripted_api import answering
from tests.support.scripted_server import Canned
from tests.support.tls_servers import Authority, serving_tls

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def ask() -> Iterator[Asking]:
    with asking() as found:
        yield found


@pytest.mark.parametrize(
    ("to", "api", "level"),
    [
        ("us", None, "ok"),
        ("eu", None, "ok"),
        ("https://eu.i.posthog.com", None, "ok"),
        ("eu", "https://eu.posthog.com", "ok"),
        ("eu", "us", "stop"),
        ("us", "https://eu.posthog.com", "stop"),
        ("https://us.posthog.com", None, "stop"),
        ("https://app.posthog.com", None, "stop"),
        ("https://events.example.com", None, "ok"),
        ("https://events.example.com", "eu", "unknown"),
        ("https://events.example.com", "https://app.example.com", "unknown"),
        ("eu", "https://app.example.com", "unknown"),
    ],
)
def test_capture_and_management_belong_together(to: str, api: str | None, level: str) -> None:
    """The wrong region and the application's host are stops; another host proves nothing."""
    assert check_address(Target(PreflightRequest(to, None, Secret(""), PreflightOptions(api=api)))).level == level


def test_a_host_that_does_not_speak_is_a_stop(ask: Asking) -> None:
    """No connection, or no TLS although the URL has https; what management would answer is unknown."""
    found = look("http://127.0.0.1:9")
    assert found["capture_host"][0] == "stop"
    assert found["clock"][0] == "unknown"
    assert {found[name][0] for name in ("project", "capture_key_project", "paid_plan", "functions")} == {"unknown"}
    level, detail = look(ask.service.url.replace("http://", "https://"))["capture_host"]
    assert level == "stop"
    assert "TLS" in detail


def test_an_untrusted_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop for capture and for management, and no key is sent; trusted by --ca-file or SSL_CERT_FILE it is ok."""
    authority = Authority(tmp_path)
    with serving_tls(lambda asked: Reply(400, b"request holds no event"), authority) as server:
        distrusted = look(server.url)
        assert server.asked == []
        trusted = look(server.url, ca_file=authority.file)
        monkeypatch.setenv("SSL_CERT_FILE", authority.file)
        by_environment = look(server.url)
    for name in ("capture_host", "project"):
        assert distrusted[name][0] == "stop"
        assert "not trusted" in distrusted[name][1]
    for found in (trusted, by_environment):
        assert found["capture_host"][0] == "ok"
        assert "not trusted" not in found["project"][1]


@pytest.mark.parametrize(
    ("reply", "level"),
    [
        (Reply(400, b"request holds no event"), "ok"),
        (Reply(200, b'{"status": "Ok"}'), "ok"),
        (Reply(200, b""), "ok"),
        (Reply(401, b"API key is not valid: empty"), "ok"),
        (Reply(503, b"transient error, please retry"), "warning"),
        (Reply(429, b"rate limited"), "warning"),
        (Reply(404, b"<h1>nginx</h1>"), "stop"),
        (Reply(405, b""), "stop"),
        (Reply(200, b"<h1>Welcome</h1>"), "stop"),
        (Reply(200, b'{"status": "Error", "error": "nope"}'), "stop"),
        (Reply(204, b""), "stop"),
        (Reply(200, b'{"status": "Ok", "quota_limited": ["events"]}'), "stop"),
        (Reply(307, b"", {"Location": "http://elsewhere.example/batch/"}), "stop"),
    ],
)
def test_what_answers_at_the_capture_host(reply: Reply, level: str) -> None:
    """An answer of capture is ok; a captive portal, a wrong host, or a redirect that apply would refuse is a stop."""
    with serving(lambda asked: reply) as server:
        assert look(server.url, personal="")["capture_host"][0] == level


def test_what_answers_is_judged_by_the_dialect_of_the_plan(tmp_path: Path) -> None:
    """An empty 200 is enough for a plan of the contract, but not for one of `posthog` at the same address."""
    with serving(lambda asked: Reply(200, b"")) as server:
        for dialect, level in (("contract", "ok"), ("posthog", "stop")):
            directory = planned(tmp_path / dialect, 3, files=1, dialect=dialect)
            assert look(server.url, directory, personal="")["capture_host"][0] == level


@pytest.mark.parametrize(
    ("ahead", "level"), [(0, "ok"), (-59, "ok"), (61, "warning"), (-7200, "warning"), (90000, "stop"), (-90000, "stop")]
)
def test_a_clock_that_is_wrong(ahead: int, level: str) -> None:
    """By how much, in both directions; beyond the window for history it is a stop."""
    check = compare_clocks(ServiceClock(format_datetime(NOW, usegmt=True), NOW + timedelta(seconds=ahead)))
    assert check.level == level
    if ahead:
        assert level == "ok" or ("ahead of" if ahead > 0 else "behind") in check.detail


def test_a_service_with_another_clock() -> None:
    """The Date of the capture host counts, and without one that of management; if none can be read, nothing is
    proved."""
    for date in ("", "yesterday", "Sat, 31 Foo 2026"):
        assert compare_clocks(ServiceClock(date, NOW)).level == "unknown"
    behind = format_datetime(datetime.now(UTC) - timedelta(hours=3), usegmt=True)
    with serving(lambda asked: Reply(400, b"", {"Date": behind})) as server:
        level, detail = look(server.url, personal="")["clock"]
    assert (level, "3 hours ahead of" in detail) == ("warning", True)
    projects = {"count": 1, "next": None, "previous": None, "results": [{"id": 7, "name": "P"}]}
    with answering(lambda call: Canned(200, projects, {"Date": behind})) as service:
        assert look(service.url, reach=False)["clock"][0] == "warning"
