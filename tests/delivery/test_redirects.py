"""Redirects keep method and body, but never go down to http, never far, and never with the key to another host."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from pipeline.config import Secret
from pipeline.delivery.capture import CaptureDestination
from pipeline.delivery.destination import ResponseKind
from pipeline.delivery.transport import redirect_refusal
from pipeline.errors import Refused
from pipeline.plan.sealed.freshness import open_plan
from pipeline.report.state import read_status
from tests.support.deliveries import (
    BODY,
    KEY,
    ONE_AT_A_TIME,
    Asked,
    Reply,
    identities,
    planned,
    request_of,
    run,
    scripted,
    send,
    serving,
)
from tests.support.tls_servers import Authority, serving_tls


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def to(address: str, status: int = 307) -> Callable[[Asked], Reply]:
    return scripted(Reply(status, b"", {"Location": address}))


def test_https_is_redirected_to_https_with_method_and_body(authority: Authority) -> None:
    """A second TLS server on another port of the host gets the POST with the same bytes and headers."""
    with serving_tls(scripted(Reply()), authority) as second:
        with serving_tls(to(f"{second.url}/onward", 308), authority) as first:
            response = send(first.url, ca_file=authority.file, redirect_hosts=(f"127.0.0.1:{second.port}",))
            assert [one.body for one in first.asked] == [BODY]
        assert response.kind is ResponseKind.SETTLED
        assert [(one.target, one.body, one.headers["content-encoding"]) for one in second.asked] == [
            ("/onward", BODY, "gzip")
        ]


@pytest.mark.parametrize("status", [301, 307])
def test_https_is_never_redirected_down_to_http(authority: Authority, status: int) -> None:
    """The plain server is never asked, neither on the same host nor if its host was allowed by name."""
    with serving(scripted(Reply())) as plain, serving_tls(to(plain.url + "/batch/", status), authority) as first:
        response = send(first.url, ca_file=authority.file, redirect_hosts=("127.0.0.1", "localhost"))
        assert (response.kind, response.status, response.taken) == (ResponseKind.STOP, status, False)
        assert response.detail == f"a redirect from https to http: {plain.url}/batch/"
        assert plain.asked == []


def test_http_is_redirected_up_to_https(authority: Authority) -> None:
    """The redirect is followed, and the certificate is checked as usual."""
    with serving_tls(scripted(Reply()), authority) as second, serving(to(second.url + "/batch/")) as first:
        allowed = (f"127.0.0.1:{second.port}",)
        assert send(first.url, ca_file=authority.file, redirect_hosts=allowed).kind is ResponseKind.SETTLED
        untrusted = send(first.url, redirect_hosts=allowed)
        assert (untrusted.kind, untrusted.taken) == (ResponseKind.STOP, False)
        assert "certificate is not trusted" in untrusted.detail
        assert len(second.asked) == 1


def test_a_chain_may_not_end_below_where_it_began(authority: Authority) -> None:
    """From http up to https and down again: the last step is refused."""
    with serving(scripted(Reply())) as plain, serving_tls(to(plain.url), authority) as middle:
        with serving(to(middle.url)) as first:
            response = send(first.url, ca_file=authority.file, redirect_hosts=("127.0.0.1",))
        assert "from https to http" in response.detail
        assert plain.asked == []


def test_an_allowed_host_may_not_send_on_to_another_one() -> None:
    """Only the named host is allowed: if it redirects to a third, the third is not asked."""
    with serving(scripted(Reply())) as third, serving(to(f"http://127.0.0.2:{third.port}/")) as second:
        with serving(to(f"http://localhost:{second.port}/batch/")) as first:
            response = send(first.url, redirect_hosts=("localhost",))
        assert (response.kind, len(second.asked), third.asked) == (ResponseKind.STOP, 1, [])
        assert "--allow-redirect-host 127.0.0.2" in response.detail


def test_a_certificate_of_another_name_is_not_trusted(authority: Authority) -> None:
    """A redirect to a server with another host's certificate ends there."""
    with serving_tls(scripted(Reply()), authority, "other.example") as second:
        with serving_tls(to(second.url), authority) as first:
            response = send(first.url, ca_file=authority.file, redirect_hosts=("127.0.0.1",))
        assert "its certificate is not trusted" in response.detail
        assert second.asked == []


def test_a_redirect_that_is_refused_is_exit_5_and_resumable(tmp_path: Path) -> None:
    """The run stops, names the option that would allow it, and leaves nothing in doubt; with that option it
    finishes."""
    directory = planned(tmp_path, 20)
    with serving(scripted(Reply())) as second, serving(to(f"http://localhost:{second.port}/batch/")) as first:
        outcome = run(directory, first.url, send_limits=ONE_AT_A_TIME)
        assert isinstance(outcome.problem, Refused)
        assert "--allow-redirect-host localhost" in str(outcome.problem)
        assert (outcome.problem.exit_code, outcome.counts.in_doubt, outcome.unsent) == (5, 0, 20)
        assert second.asked == []
        assert run(directory, first.url, redirect_hosts=("localhost",)).balanced
    assert read_status(*open_plan(directory)).state == "sent"


HOST = ("127.0.0.1",)
HERE = frozenset({"a.example:80", "a.example:443", "b.example", "c.example:8443"})
"""What the address http://a.example may be redirected to, if b.example and c.example:8443 are allowed."""


@pytest.mark.parametrize(
    ("location", "refused"),
    [
        ("/onward", ""), ("http://a.example:80/", ""), ("https://a.example/", ""), ("http://A.example/x", ""),
        ("http://a.example:8080/", "another port: a.example:8080; allow it with --allow-redirect-host a.example:8080"),
        ("https://a.example:444/", "another port: a.example:444;"), ("https://a.example.evil/", "another host:"),
        ("http://b.example:1234/", ""), ("https://c.example:8443/", ""), ("https://c.example/", "c.example:443;"),
        ("http://a.example:99999/", "not valid"), ("http://user@a.example:81/", "another port: a.example:81;"),
    ],
)  # fmt: skip
def test_an_origin_is_a_scheme_a_host_and_a_port(location: str, refused: str) -> None:
    """Another port of a host may be another person's server."""
    assert refused in (found := redirect_refusal("http://a.example/batch/", location, HERE))
    assert bool(found) == bool(refused)


def test_another_port_gets_no_key() -> None:
    """The other port is never asked unless it was allowed."""
    with serving(scripted(Reply())) as second, serving(to(f"{second.url}/batch/")) as first:
        response = send(first.url)
        assert (response.kind, response.taken, second.asked) == (ResponseKind.STOP, False, [])
        assert f"--allow-redirect-host 127.0.0.1:{second.port}" in response.detail
        assert send(first.url, redirect_hosts=(f"127.0.0.1:{second.port}",)).kind is ResponseKind.SETTLED


REQUESTS = 3


@pytest.mark.parametrize(("status", "asked"), [(301, 1), (308, 1), (302, REQUESTS), (307, REQUESTS)])
def test_a_permanent_redirect_is_asked_for_once_a_run(tmp_path: Path, status: int, asked: int) -> None:
    """Three batches: the first 301 or 308 is remembered for the others; every other redirect is asked for again."""
    directory = planned(tmp_path, 10 * REQUESTS, files=1)
    with serving(scripted(Reply())) as there, serving(to(f"{there.url}/new", status)) as here:
        outcome = run(directory, here.url, send_limits=ONE_AT_A_TIME, redirect_hosts=HOST)
        assert (len(here.asked), len(there.asked)) == (asked, REQUESTS)
        sent = {event["uuid"] for one in there.asked for event in one.events}
    assert outcome.balanced
    assert sent == {one[0] for one in identities(10 * REQUESTS)}


def test_the_next_run_asks_the_first_address_again(tmp_path: Path) -> None:
    """Nothing is kept: the ledger belongs to the address that was given."""
    with serving(scripted(Reply())) as there, serving(to(f"{there.url}/new", 308)) as here:
        for name in ("one", "two"):
            assert run(
                planned(tmp_path / name, 20, files=1), here.url, send_limits=ONE_AT_A_TIME, redirect_hosts=HOST
            ).balanced
        assert (len(here.asked), len(there.asked)) == (2, 4)
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and there.url.encode() in path.read_bytes()]
    assert kept == []


def test_a_chain_is_remembered_hop_by_hop() -> None:
    """Its permanent hops are skipped; the temporary one in the middle is asked every time."""
    with (
        serving(scripted(Reply())) as last,
        serving(to(f"{last.url}/c", 301)) as third,
        serving(to(f"{third.url}/b", 307)) as second,
        serving(to(f"{second.url}/a", 308)) as first,
        closing(CaptureDestination(first.url, key=Secret(KEY), redirect_hosts=HOST)) as destination,
    ):
        assert [destination.send(request_of(b"{}")).kind for _ in range(3)] == [ResponseKind.SETTLED] * 3
        assert [len(one.asked) for one in (first, second, third, last)] == [1, 3, 1, 3]


def test_a_permanent_redirect_that_is_refused_is_refused_every_time() -> None:
    """Two addresses that redirect to each other permanently are more than five redirects, also for the second request.
    Another host, to which redirects are not allowed, is not remembered: it never gets a request."""
    urls: list[str] = []
    with (
        serving(scripted(Reply())) as elsewhere,
        serving(lambda asked: to(f"{urls[1]}/batch/", 301)(asked)) as first,
        serving(to(f"{first.url}/batch/", 301)) as second,
        serving(to(elsewhere.url.replace("127.0.0.1", "localhost"), 308)) as away,
    ):
        urls += [first.url, second.url]
        for url, reason in ((first.url, "more than 5 redirects"), (away.url, "localhost")):
            with closing(CaptureDestination(url, key=Secret(KEY), redirect_hosts=HOST)) as destination:
                for _ in range(2):
                    response = destination.send(request_of(b"{}"))
                    assert (response.kind, response.taken) == (ResponseKind.STOP, False)
                    assert reason in response.detail
        assert (len(away.asked), elsewhere.asked) == (2, [])


def test_if_the_new_address_is_gone_the_first_is_asked_again(tmp_path: Path) -> None:
    """The new address goes away: the old one is asked again, and nothing is lost."""
    directory = planned(tmp_path, 30, files=1)
    with serving(scripted(Reply())) as there, serving(lambda asked: Reply(0 if asked.number else 200)) as gone:
        with serving(lambda asked: to(f"{(there if asked.number else gone).url}/batch/", 301)(asked)) as here:
            outcome = run(directory, here.url, send_limits=ONE_AT_A_TIME, redirect_hosts=HOST)
        assert (len(here.asked), len(gone.asked), len(there.asked)) == (2, 2, 2)
    plan, _ = open_plan(directory)
    assert (outcome.balanced, outcome.counts.accepted) == (True, plan.events.made)
