"""Networks and services that fail: what is tried again, for how long, and what the person sees."""

from __future__ import annotations

import json
import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import httpx
import pytest

from pipeline.delivery.apply import RunCounts, SendLimits
from pipeline.delivery.destination import Response, ResponseKind
from pipeline.delivery.retry import CONNECT_TRIES, RetryPolicy
from pipeline.delivery.transport import without_answer
from pipeline.errors import Refused, Unfinished
from pipeline.http import failed
from pipeline.plan.sealed.freshness import open_plan
from tests.support.commands import in_process
from tests.support.deliveries import (
    KEY,
    OK,
    ONE_AT_A_TIME,
    Asked,
    CallDestination,
    Reply,
    balances,
    in_ledger,
    planned,
    run,
    run_to,
    scripted,
    send,
    serving,
)
from tests.support.raw_server import raw, read_request
from tests.support.tls_servers import Authority, serving_tls


def unused_url() -> str:
    with serving(scripted(Reply())) as server:
        return server.url


@pytest.mark.parametrize(
    ("url", "words"),
    [("https://backcast-nowhere.invalid", "host backcast-nowhere.invalid"), (None, "refused")],
    ids=["no-name", "refused"],
)
def test_a_host_that_never_answered_is_tried_five_times(tmp_path: Path, url: str | None, words: str) -> None:
    """If no connection was ever made, each batch is tried five times, not for an hour; exit 6, and nothing in doubt."""
    directory = planned(tmp_path, 10, files=1)
    outcome = run(directory, url or unused_url(), send_limits=ONE_AT_A_TIME)
    assert isinstance(outcome.problem, Unfinished)
    assert words in str(outcome.problem)
    assert "cannot reach" in str(outcome.problem)
    assert "check the" in outcome.problem.hint
    assert (outcome.counts.in_doubt, outcome.unsent) == (0, 10)
    assert in_ledger(directory, "select count(*) from tries") == [(CONNECT_TRIES,)]


@pytest.mark.parametrize(
    "error",
    [
        httpx.ConnectError("[Errno 113] No route to host"),
        httpx.ConnectError("[Errno 101] Network is unreachable"),
        httpx.ConnectTimeout(""),
        httpx.ProxyError("502 Bad Gateway"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_connection_that_was_never_made_leaves_nothing_in_doubt(error: httpx.RequestError) -> None:
    """No route, no answer to a connection, a proxy that connects to nothing: all count as a refused connection."""
    response = without_answer(failed(error, "a.example"))
    assert (response.kind, response.status, response.taken) == (ResponseKind.UNREACHABLE, 0, False)
    assert response.detail == f"no connection: {str(error) or 'ConnectTimeout'}"


GONE = Response(ResponseKind.UNREACHABLE, 0, "no connection: refused", taken=False)


@pytest.mark.parametrize(
    "first",
    [
        OK,
        Response(ResponseKind.RETRY, 503),
        Response(ResponseKind.RETRY, 429, taken=False),
        Response(ResponseKind.RETRY, 0),
    ],
    ids=["settled", "503", "429", "lost"],
)
def test_a_host_that_answered_once_is_waited_for(tmp_path: Path, first: Response) -> None:
    """After any answer, and after a request that may have arrived, an outage is waited out until the time is up."""
    directory = planned(tmp_path, 30, files=1)
    answers = iter([first, *[GONE] * (CONNECT_TRIES * 3)])
    assert run_to(directory, CallDestination(lambda body: next(answers, OK)), send_limits=ONE_AT_A_TIME).balanced


def test_a_host_that_answered_an_earlier_run_is_waited_for(tmp_path: Path) -> None:
    """The ledger shows that the host answered before, so a run that begins during an outage waits for its end. A job
    whose earlier windows were taken waits in the next window too, though its ledger is new."""
    directory = planned(tmp_path, 30, files=1)
    first = iter([OK, Response(ResponseKind.STOP, 401, "no such key", taken=False)])
    assert not run_to(directory, CallDestination(lambda body: next(first)), send_limits=ONE_AT_A_TIME).balanced
    for plan, known in ((directory, False), (planned(tmp_path / "next", 10, files=1), True)):
        answers = iter([GONE] * (CONNECT_TRIES * 3))
        destination = CallDestination(lambda body, answers=answers: next(answers, OK))
        assert run_to(plan, destination, send_limits=ONE_AT_A_TIME, target_known=known).balanced


def test_an_untrusted_certificate_stops_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One try, exit 5, and the message names the certificate. With its authority given the run finishes, also if the
    environment names it, on this machine as well."""
    authority = Authority(tmp_path)
    directory = planned(tmp_path, 10, files=1)
    with serving_tls(scripted(Reply()), authority) as server:
        outcome = run(directory, server.url, send_limits=ONE_AT_A_TIME)
        assert isinstance(outcome.problem, Refused)
        assert "its certificate is not trusted" in str(outcome.problem)
        assert "--ca-file" in outcome.problem.hint
        assert (server.asked, outcome.counts.in_doubt, outcome.unsent) == ([], 0, 10)
        assert send(server.url, ca_file=authority.file).kind is ResponseKind.SETTLED
        monkeypatch.setenv("SSL_CERT_FILE", authority.file)
        assert send(server.url).kind is ResponseKind.SETTLED


def test_https_to_a_server_of_plain_http_is_reported(tmp_path: Path) -> None:
    """The server has no TLS: a few tries, then exit 6 with a message about https, nothing in doubt."""
    directory = planned(tmp_path, 10, files=1)
    with raw(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" + b"x" * 100)) as url:
        outcome = run(directory, url.replace("http", "https"), send_limits=ONE_AT_A_TIME)
    assert isinstance(outcome.problem, Unfinished)
    assert "no TLS" in str(outcome.problem)
    assert "https" in outcome.problem.hint
    assert (outcome.counts.in_doubt, outcome.unsent) == (0, 10)


def test_a_service_that_goes_away_and_comes_back_is_waited_for(tmp_path: Path) -> None:
    """It answers, then refuses connections for a while, then answers again: everything settles, and nothing is in doubt
    meanwhile."""
    directory = planned(tmp_path, 40)
    doubts: list[int] = []
    limited, refused = threading.Event(), threading.Event()

    def progress(counts: RunCounts) -> None:
        doubts.append(counts.in_doubt)
        if counts.last_failure:
            (refused if "no connection" in counts.last_failure else limited).set()

    outcomes = []
    # One sender, which waits while the service goes: a request cut off at that moment would rightly be in doubt.
    send_limits = SendLimits(1, RetryPolicy(first=0.02))
    with serving(scripted(Reply(429, b"slow down", headers={"Retry-After": "1"}))) as server:
        url, port = server.url, server.port
        running = threading.Thread(
            target=lambda: outcomes.append(run(directory, url, send_limits=send_limits, progress=progress))
        )
        running.start()
        assert limited.wait(30)
    assert refused.wait(30)
    with serving(scripted(Reply(200, b"")), port=port):
        running.join(60)
    assert outcomes[0].balanced
    assert set(doubts) == {0}


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200",
        b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"status"',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"s',
        b"\x16\x03\x01 what is this",
        b"SSH-2.0-OpenSSH_9.6\r\n",
    ],
    ids=["nothing", "cut-status", "cut-body", "cut-chunk", "bytes", "ssh"],
)
def test_an_answer_that_breaks_off_is_in_doubt(answer: bytes) -> None:
    """The whole request left: whatever came back, it may have been taken, and is sent again."""

    def talk(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(answer)

    with raw(talk) as url:
        response = send(url, timeout=10)
    assert (response.kind, response.status, response.taken) == (ResponseKind.RETRY, 0, True)


def test_a_reset_while_sending_is_tried_again(tmp_path: Path) -> None:
    """A connection reset in the middle of the request body counts as doubtful and settles at the next try."""
    directory = planned(tmp_path, 40, files=1, batch=40)
    resets: list[int] = []

    def talk(connection: socket.socket) -> None:
        if len(resets) < 2:
            resets.append(1)
            connection.recv(100)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            return
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    with raw(talk) as url:
        outcome = run(directory, url, send_limits=ONE_AT_A_TIME)
    assert outcome.balanced
    assert outcome.counts.batches_retried == 1


def test_the_budget_counts_from_the_last_thing_that_settled(tmp_path: Path) -> None:
    """One batch fails for longer than --retry-for while others settle: the run goes on, and the batch settles."""
    directory = planned(tmp_path, 150, files=1, batch=1)
    began = time.monotonic()
    first: list[bytes] = []
    lock = threading.Lock()

    def send(body: bytes) -> Response:
        with lock:
            first[:] = first or [body]
        if body == first[0] and time.monotonic() - began < 0.9:
            return Response(ResponseKind.RETRY, 500)
        time.sleep(0.01)
        return OK

    send_limits = SendLimits(2, RetryPolicy(seconds=0.4, first=0.02, most=0.1))
    outcome = run_to(directory, CallDestination(send), send_limits=send_limits)
    assert outcome.balanced
    assert outcome.problem is None


def test_the_run_stops_when_nothing_settled_for_the_budget(tmp_path: Path) -> None:
    """A service that is down for good: exit 6 soon after the budget, everything in doubt or unsent, and the run
    balances."""
    directory = planned(tmp_path, 200)
    began = time.monotonic()
    with serving(scripted(Reply(), Reply(), Reply(503, b"maintenance"))) as server:
        outcome = run(directory, server.url, send_limits=SendLimits(4, RetryPolicy(seconds=0.4, first=0.05, most=0.2)))
    assert isinstance(outcome.problem, Unfinished)
    assert "503: maintenance" in str(outcome.problem)
    assert time.monotonic() - began < 20
    assert balances(outcome, open_plan(directory)[0])


@pytest.mark.parametrize("kind", ["seconds", "date"])
def test_a_pause_longer_than_the_budget_ends_the_run_at_once(tmp_path: Path, kind: str) -> None:
    """A service that asks for a pause of a week: exit 6 now, with the reason, not after an hour of waiting."""
    directory = planned(tmp_path, 10, files=1)
    week = 7 * 86_400
    text = str(week) if kind == "seconds" else format_datetime(datetime.now(UTC) + timedelta(seconds=week), True)
    began = time.monotonic()
    with serving(scripted(Reply(429, b"slow down", {"Retry-After": text}))) as server:
        outcome = run(directory, server.url)
        assert len(server.asked) == 1
    assert isinstance(outcome.problem, Unfinished)
    assert "asks for a pause of 604," in str(outcome.problem)
    assert time.monotonic() - began < 10
    assert (outcome.counts.in_doubt, outcome.unsent) == (0, 10)


def test_the_run_ends_in_order_when_its_time_is_over(tmp_path: Path) -> None:
    """--max-duration: nothing new begins, what is in flight settles, exit 6; another run does the rest, once."""
    directory = planned(tmp_path, 100, files=1, batch=1)

    def answer(asked: Asked) -> Reply:
        time.sleep(0.08)
        return Reply()

    with serving(answer) as server:
        words = ["apply", directory, "--to", server.url, "--json", "--max-concurrency", "2"]
        done = in_process(*words, "--quiet", "--max-duration", "2s", env={"BACKCAST_PROJECT_KEY": KEY})
        events = json.loads(done.stdout)["events"]
        assert (done.returncode, events["in_doubt"]) == (6, 0)
        assert done.stderr.startswith("Error: the run reached its time limit (--max-duration, 2 s)")
        assert len(done.stderr.splitlines()) == 2
        assert 0 < events["accepted"] == len(server.asked) < 100
        assert run(directory, server.url).balanced
        assert len(server.asked) == len({one.body for one in server.asked}) == 100


def test_the_time_of_a_run_ends_a_long_wait(tmp_path: Path) -> None:
    """A pause that the service asked for does not outlast --max-duration."""
    directory = planned(tmp_path, 10, files=1)
    held = CallDestination(lambda body: Response(ResponseKind.RETRY, 429, "", 600.0, False))
    began = time.monotonic()
    outcome = run_to(directory, held, send_limits=SendLimits(1, RetryPolicy(), max_seconds=0.3))
    assert time.monotonic() - began < 10
    assert isinstance(outcome.problem, Unfinished)
    assert (outcome.counts.in_doubt, outcome.unsent) == (0, 10)


def test_every_try_that_settles_nothing_is_a_row(tmp_path: Path) -> None:
    """The row has status, number, time and message, in order; a batch that settles at once leaves no row."""
    directory = planned(tmp_path, 20, files=1)
    replies = scripted(Reply(503, b"busy"), Reply(0), Reply(429, b"slow"), Reply())
    with serving(replies) as server:
        run(directory, server.url, send_limits=ONE_AT_A_TIME)
    found = in_ledger(directory, "select first, last, run, try, status, detail, seconds from tries")
    times = [at for (at,) in in_ledger(directory, "select at from tries")]
    assert [row[:5] for row in found] == [(0, 9, 1, 1, 503), (0, 9, 1, 2, None), (0, 9, 1, 3, 429)]
    assert [row[5] for row in found][::2] == ["busy", "slow"]
    assert all(0 <= row[6] < 60 for row in found)
    assert times == sorted(times)
    assert times[0][-1] == "Z"


@pytest.mark.parametrize(
    ("status", "variable"), [(404, ""), (451, ""), (401, "BACKCAST_PROJECT_KEY"), (403, "BACKCAST_")]
)
def test_any_other_status_shows_address_and_body(tmp_path: Path, status: int, variable: str) -> None:
    """Exit 5 with the address and its message, the key blotted out; for a refused key the hint names the variable."""
    directory = planned(tmp_path, 10, files=1)
    with serving(scripted(Reply(status, b"you sent " + KEY.encode() + b", who are you?"))) as server:
        outcome = run(directory, server.url, send_limits=ONE_AT_A_TIME)
        assert len(server.asked) == 1
        assert isinstance(outcome.problem, Refused)
        assert str(outcome.problem) == f"{server.url} answered {status}: you sent ***, who are you?"
    assert variable in outcome.problem.hint
    assert KEY not in outcome.problem.hint
    assert outcome.problem.exit_code == 5
    assert (outcome.counts.in_doubt, outcome.unsent) == (0, 10)
