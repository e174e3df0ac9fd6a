"""The rate controller depends only on answers and time, and stays near what the service admits."""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.delivery.apply import SendLimits
from pipeline.delivery.destination import Response, ResponseKind
from pipeline.delivery.pace import Allowed, Pace
from pipeline.delivery.throttle import RateController, Throttle
from pipeline.errors import UsageError
from pipeline.local_service import LocalService
from pipeline.options import ApplyOptions
from pipeline.options.pace import RateLimit, read_hours, read_limits, read_rate
from tests.support.commands import in_process
from tests.support.deliveries import AT_ONCE, OK, Asked, Reply, identities, landed, planned, run, serving
from tests.support.services import wait_for

LIMITED = Response(ResponseKind.RETRY, 429, taken=False)
DOWN = Response(ResponseKind.RETRY, 503)
Service = Callable[[float, int], tuple[float, Response]]
"""What a service does with a request at this time, with this many in flight: seconds until its answer, the answer."""


class Log(NamedTuple):
    """One answer of a simulated run: when, what, and the limit after it."""

    at: float
    response: Response
    limit: int


def simulate(pacing: RateController, service: Service, seconds: float, *, events: int = 1) -> list[Log]:
    """An endless run over a scripted clock: a request leaves whenever the pacing allows one."""
    now, number = 0.0, 0
    flying: list[tuple[float, int, float, Response]] = []
    log: list[Log] = []
    while now < seconds:
        wait = pacing.wait(now)
        if wait <= 0:
            pacing.leave(now, events)
            number += 1
            latency, response = service(now, pacing.in_flight)
            heapq.heappush(flying, (now + latency, number, now, response))
            continue
        now = min(now + wait, flying[0][0] if flying else math.inf)
        while flying and flying[0][0] <= now:
            _, _, left, response = heapq.heappop(flying)
            pacing.answer(now, left, response)
            log.append(Log(now, response, pacing.limit))
    return log


class Admitting:
    """A service that admits `rate` requests a second, saves up as many, and answers 429 to the rest."""

    def __init__(self, rate: float, latency: float) -> None:
        self.rate, self.latency = rate, latency
        self.tokens, self.last = max(rate, 1.0), 0.0

    def __call__(self, now: float, flying: int) -> tuple[float, Response]:
        self.tokens = min(max(self.rate, 1.0), self.tokens + (now - self.last) * self.rate)
        self.last = now
        if self.tokens < 1:
            return self.latency, LIMITED
        self.tokens -= 1
        return self.latency, OK


@settings(max_examples=15)
@given(st.floats(2, 300), st.floats(0.001, 0.3), st.integers(1, 32))
def test_a_run_settles_near_what_a_service_admits(rate: float, latency: float, most: int) -> None:
    """After twenty seconds at least 85 % of what is possible settles, with few 429s: at most one in eight requests."""
    seconds = 20 + min(40, 20_000 / rate)
    late = [one for one in simulate(RateController(most), Admitting(rate, latency), seconds) if one.at > 20]
    settled = sum(one.response is OK for one in late) / (seconds - 20)
    possible = min(rate, most / latency)
    assert settled > possible * 0.85 - 1
    assert sum(one.response is LIMITED for one in late) <= len(late) / 8 + 2


def test_a_slow_trickle_is_found_too() -> None:
    """A service that admits one request in ten seconds is not asked hundreds of times for each."""
    log = simulate(RateController(8), Admitting(0.1, 0.01), 1800)
    late = [one for one in log if one.at > 900]
    assert sum(one.response is OK for one in late) > 0.7 * 90
    assert sum(one.response is LIMITED for one in late) < 90


def test_a_healthy_service_gets_all_that_is_allowed() -> None:
    """Without trouble the limit reaches its maximum within three rounds and stays there, also if latencies jump between
    5 and 60 ms."""
    log = simulate(RateController(8), lambda now, flying: (0.01, OK), 2)
    assert all(one.limit == 8 for one in log if one.at > 0.03)
    assert len(log) > 0.97 * 2 * 8 / 0.01
    log = simulate(RateController(8), lambda now, flying: (0.005 + (now * 7919 % 1) * 0.055, OK), 3)
    assert min(one.limit for one in log if one.at > 1) == 8


def test_the_limit_grows_by_one_a_round_after_a_failure() -> None:
    """Additive increase: after a cut to 0.7, one more request a round trip."""
    limits: dict[int, int] = {}
    failed: list[float] = []

    def service(now: float, flying: int) -> tuple[float, Response]:
        if now >= 10 and not failed:
            failed.append(now)
            return 1.0, DOWN
        return 1.0, OK

    for one in simulate(RateController(20), service, 30):
        limits[int(one.at)] = one.limit
    assert limits[10] == 20
    assert limits[11] == 14
    assert [limits[second + 1] - limits[second] in (0, 1) for second in range(11, 17)] == [True] * 6
    assert limits[17] in (18, 19, 20)


def test_of_requests_in_flight_together_the_first_failure_counts() -> None:
    """Eight requests that fail at the same moment do not cut the limit eight times, only once."""
    pacing = RateController(8)
    simulate(pacing, lambda now, flying: (0.01, OK), 1)
    while pacing.wait(1.5) <= 0:
        pacing.leave(1.5, 1)
    while pacing.in_flight:
        pacing.answer(2.0, 1.5, DOWN)
    assert pacing.limit == 5


def test_while_a_service_is_down_one_request_at_a_time_is_left() -> None:
    """Multiplicative decrease to one in flight, and back to the full limit once the service is well."""
    log = simulate(RateController(8), lambda now, flying: (0.05, DOWN if 5 <= now < 10 else OK), 30)
    assert {one.limit for one in log if 6 < one.at < 10} == {1}
    assert {one.limit for one in log if one.at > 12} == {8}


def test_answers_that_grow_slow_lower_the_limit() -> None:
    """A service whose latency goes from 10 ms to a second gets fewer requests at once, until that latency is usual."""
    log = simulate(RateController(16), lambda now, flying: (0.01 if now < 5 else 1.0, OK), 60)
    assert min(one.limit for one in log if 5.5 < one.at < 15) <= 14
    assert log[-1].limit == 16


def test_a_pause_that_is_asked_for_stops_all_requests() -> None:
    """After Retry-After: 7 on one request, no other leaves for seven seconds."""
    pacing = RateController(8)
    pacing.leave(100.0, 1)
    pacing.leave(100.0, 1)
    pacing.answer(101.0, 100.0, Response(ResponseKind.RETRY, 429, "", 7.0, False))
    assert pacing.paused(101.0) == 7.0
    assert pacing.wait(101.0) == 7.0
    assert pacing.wait(107.5) == pytest.approx(0.5)
    pacing.answer(108.0, 100.0, OK)
    assert pacing.paused(108.0) == 0.0


@settings(max_examples=12)
@given(st.floats(10, 20_000), st.integers(1, 5_000), st.floats(0.001, 0.5))
def test_the_operator_s_rate_is_kept(rate: float, events: int, latency: float) -> None:
    """Never more events than the rate allows, a tenth of a second and one batch apart; and no fewer."""
    seconds = max(5.0, 20 * events / rate)
    log = simulate(
        RateController(64, lambda: Allowed(events=rate)), lambda now, flying: (latency, OK), seconds, events=events
    )
    sent = len(log) * events
    assert sent <= rate * (seconds + 0.1) + events + 1e-6
    assert sent >= min(rate, events * 64 / latency) * (seconds - latency - 1) * 0.95 - 65 * events


@given(st.lists(st.tuples(st.floats(0, 3), st.sampled_from([OK, LIMITED, DOWN]), st.booleans()), max_size=200))
def test_whatever_is_answered_the_limit_stays_in_bounds(steps: list[tuple[float, Response, bool]]) -> None:
    """At least one request, at most `most`; and after a bounded wait a request may leave."""
    pacing, now = RateController(6), 0.0
    left: list[float] = []
    for pause, response, leaves in steps:
        now += pause
        if leaves and pacing.wait(now) <= 0:
            pacing.leave(now, 1)
            left.append(now)
        elif left:
            pacing.answer(now, left.pop(0), response)
        assert 1 <= pacing.limit <= 6
    while left:
        pacing.answer(now, left.pop(0), OK)
    assert pacing.wait(now) <= 120


def test_no_request_leaves_once_the_run_is_stopping() -> None:
    """A sender that waits for a pause of an hour is released without sending."""
    throttle, stop = Throttle(RateController(1)), threading.Event()
    left = throttle.enter(1, 0, stop)
    assert left is not None
    throttle.leave(left, Response(ResponseKind.RETRY, 429, "", 3600.0, False))
    found: list[float | None] = []
    waiting = threading.Thread(target=lambda: found.append(throttle.enter(1, 0, stop)))
    waiting.start()
    stop.set()
    waiting.join(10)
    assert found == [None]


def test_a_pause_asked_of_one_batch_is_kept_by_the_run(tmp_path: Path) -> None:
    """A 429 with Retry-After: 1 on the third request: for a second no request of any batch comes."""
    directory = planned(tmp_path, 40, files=1, batch=2)
    times: list[float] = []
    lock = threading.Lock()

    def answer(asked: Asked) -> Reply:
        with lock:
            times.append(time.monotonic())
            return Reply(429, b"", {"Retry-After": "1"}) if len(times) == 3 else Reply()

    with serving(answer) as server:
        outcome = run(directory, server.url, send_limits=SendLimits(2, AT_ONCE))
    assert outcome.balanced
    # One more may have been on its way when the pause began.
    assert max(later - earlier for earlier, later in pairwise(times)) > 0.8


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def allowed(rate: str, quiet: str, zone: str, moment: str) -> Allowed:
    """What is allowed at this moment in UTC."""
    return Pace(read_limits(rate), read_hours(quiet) if quiet else (), zone, lambda: at(moment)).allowed()


def test_a_rate_of_some_hours_takes_the_place_of_the_other_of_its_unit() -> None:
    """Events by day and by night, bytes always; the hours include their first minute and not their last."""
    rate = "5000,2MB,500@08:00-18:00"
    assert allowed(rate, "", "UTC", "2026-03-01T07:59:59") == (5_000, 2_000_000, 0)
    assert allowed(rate, "", "UTC", "2026-03-01T08:00:00") == (500, 2_000_000, 0)
    assert allowed(rate, "", "UTC", "2026-03-01T18:00:00") == (5_000, 2_000_000, 0)
    assert allowed("500@22:00-06:00", "", "UTC", "2026-03-01T03:00:00").events == 500
    assert allowed("500@22:00-06:00", "", "UTC", "2026-03-01T12:00:00").events is None


def test_quiet_hours_are_those_of_their_zone() -> None:
    """Summer time too, and past midnight; the time left is known."""
    assert allowed("1", "09:00-10:00", "Europe/Berlin", "2026-01-05T08:15:00").quiet == 45 * 60
    assert allowed("1", "09:00-10:00", "Europe/Berlin", "2026-07-06T08:15:00").quiet == 0
    assert allowed("1", "09:00-10:00", "Europe/Berlin", "2026-07-06T07:15:00").quiet == 45 * 60
    assert allowed("1", "22:00-06:00", "UTC", "2026-01-05T23:00:00").quiet == 7 * 3600
    assert allowed("1", "22:00-06:00,12:00-13:00", "UTC", "2026-01-05T12:30:00").quiet == 30 * 60


@pytest.mark.parametrize(
    "text",
    ["", "0", "-5", "fast", "5000@", "5000@8-18", "5000@08:00-08:00", "5TB", "5000,6000", "1e9", "2MB@25:00-26:00"],
)
def test_a_wrong_rate_is_an_error(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        ApplyOptions(rate=text)
    assert raised.value.hint


@pytest.mark.parametrize(
    "text", ["", "8-18", "08:00", "24:00-25:00", "08:00-08:00", "00:00-24:00", "00:00-12:00,12:00-24:00"]
)
def test_hours_that_leave_no_time_or_are_invalid_are_an_error(text: str) -> None:
    """A run that may never send would wait for ever."""
    with pytest.raises(UsageError):
        ApplyOptions(quiet_hours=text)


def test_a_plain_number_stays_a_number() -> None:
    """An older program that reads the option finds what it did before."""
    assert (read_rate("5000"), read_rate("5_000"), read_rate("2MB")) == (5000.0, 5000.0, "2MB")
    assert read_limits(5000) == (RateLimit(5000),)


def test_bytes_are_paced_as_events_are_and_the_slower_of_both_decides() -> None:
    """1,000 events and 10,000 bytes a second: requests of 500 events and 20,000 bytes leave every two seconds."""
    pacing = RateController(8, lambda: Allowed(1_000, 10_000))
    times = []
    now = 0.0
    for _ in range(5):
        now += pacing.wait(now)
        times.append(now)
        pacing.leave(now, 500, 20_000)
        pacing.answer(now, now, OK)
    gaps = [later - earlier for earlier, later in pairwise(times[1:])]
    assert gaps == pytest.approx([2.0, 2.0, 2.0])


def test_no_request_leaves_in_quiet_hours_which_do_not_count_as_missing_progress() -> None:
    """A request that is due in quiet hours leaves after them, and its first failure does not end the run."""
    moment = [at("2026-01-05T08:30:00")]
    clock = [0.0]
    pace = Pace((), read_hours("08:00-18:00"), "UTC", lambda: moment[0])
    throttle, stop = Throttle(RateController(2, pace.allowed), lambda: clock[0]), threading.Event()
    entered: list[float | None] = []
    waiting = threading.Thread(target=lambda: entered.append(throttle.enter(1, 10, stop)))
    waiting.start()
    try:
        wait_for(lambda: throttle.controller.quiet() == 9.5 * 3600)
        clock[0] = 34_000.0
        wait_for(lambda: throttle.idle(0.0) == 0.0)
        assert entered == []
        moment[0] = at("2026-01-05T18:00:00")
        clock[0] = 34_200.0
        waiting.join(10)
        assert entered == [34_200.0]
        assert throttle.idle(0.0) <= 200.0
    finally:
        stop.set()
        waiting.join()
    assert throttle.controller.wait(clock[0]) < math.inf


def test_a_plan_is_sent_under_limits_of_all_kinds(tmp_path: Path) -> None:
    """By the command: everything lands, in requests of at most a second's worth at the lowest rate."""
    directory = planned(tmp_path, 60, batch=60, files=1)
    with LocalService() as service:
        words = ("apply", directory, "--to", service.url, "--hours-timezone", "UTC")
        env = {"BACKCAST_PROJECT_KEY": service.capture_key}
        wrong = in_process(*words, "--quiet-hours", "8 to 6", env=env)
        assert (wrong.returncode, "--quiet-hours: '8 to 6' is not a span of hours" in wrong.stderr) == (2, True)
        done = in_process(*words, "--rate", "100000,50MB,25@00:00-23:59", "--json", env=env)
        assert done.returncode == 0
        assert landed(service) == identities(60)
    assert '"sent": 3' in done.stdout
