"""The operator's own limits: events and bytes a second by time of day, and hours in which nothing is sent."""

from __future__ import annotations

import math
import threading
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from pipeline.delivery.pace import Allowed, Pace
from pipeline.delivery.throttle import RateController, Throttle
from pipeline.errors import UsageError
from pipeline.local_service import LocalService
from pipeline.options import ApplyOptions
from pipeline.options.pace import RateLimit, read_hours, read_limits, read_rate
from tests.support.commands import in_process
from tests.support.deliveries import OK, identities, landed, planned


def at(text: str) -> datetime:
    """An instant in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def allowed(rate: str, quiet: str, zone: str, moment: str) -> Allowed:
    """What is allowed at a moment in UTC."""
    return Pace(read_limits(rate), read_hours(quiet) if quiet else (), zone, lambda: at(moment)).allowed()


def test_a_rate_of_some_hours_takes_the_place_of_the_other_of_its_unit() -> None:
    """Events by day and by night, bytes always; the first minute belongs to the hours, the last does not."""
    rate = "5000,2MB,500@08:00-18:00"
    assert allowed(rate, "", "UTC", "2026-03-01T07:59:59") == (5_000, 2_000_000, 0)
    assert allowed(rate, "", "UTC", "2026-03-01T08:00:00") == (500, 2_000_000, 0)
    assert allowed(rate, "", "UTC", "2026-03-01T18:00:00") == (5_000, 2_000_000, 0)
    assert allowed("500@22:00-06:00", "", "UTC", "2026-03-01T03:00:00").events == 500
    assert allowed("500@22:00-06:00", "", "UTC", "2026-03-01T12:00:00").events is None


def test_quiet_hours_are_those_of_their_zone() -> None:
    """Summer time too, and past midnight; what is left of them is known."""
    assert allowed("1", "09:00-10:00", "Europe/Berlin", "2026-01-05T08:15:00").quiet == 45 * 60
    assert allowed("1", "09:00-10:00", "Europe/Berlin", "2026-07-06T08:15:00").quiet == 0
    assert allowed("1", "09:00-10:00", "Europe/Berlin", "2026-07-06T07:15:00").quiet == 45 * 60
    assert allowed("1", "22:00-06:00", "UTC", "2026-01-05T23:00:00").quiet == 7 * 3600
    assert allowed("1", "22:00-06:00,12:00-13:00", "UTC", "2026-01-05T12:30:00").quiet == 30 * 60


@pytest.mark.parametrize(
    "text",
    ["", "0", "-5", "fast", "5000@", "5000@8-18", "5000@08:00-08:00", "5TB", "5000,6000", "1e9", "2MB@25:00-26:00"],
)
def test_a_text_that_is_no_rate_is_an_error(text: str) -> None:
    """Each says what may be written."""
    with pytest.raises(UsageError) as raised:
        ApplyOptions(rate=text)
    assert raised.value.hint


@pytest.mark.parametrize(
    "text", ["", "8-18", "08:00", "24:00-25:00", "08:00-08:00", "00:00-24:00", "00:00-12:00,12:00-24:00"]
)
def test_hours_that_leave_no_time_or_are_none_are_an_error(text: str) -> None:
    """A run that may never send would wait for ever."""
    with pytest.raises(UsageError):
        ApplyOptions(quiet_hours=text)


def test_a_plain_number_stays_a_number() -> None:
    """So that an older program which reads the option finds what it did."""
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


def test_no_request_leaves_in_quiet_hours_and_they_are_no_lack_of_progress() -> None:
    """A request that comes in them leaves after them, and its first failure does not end the run."""
    moment = [at("2026-01-05T08:30:00")]
    clock = [0.0]
    pace = Pace((), read_hours("08:00-18:00"), "UTC", lambda: moment[0])
    throttle, stop = Throttle(RateController(2, pace.allowed), lambda: clock[0]), threading.Event()
    entered: list[float | None] = []
    waiting = threading.Thread(target=lambda: entered.append(throttle.enter(1, 10, stop)))
    waiting.start()
    try:
        waiting.join(0.1)
        assert entered == []
        assert throttle.controller.quiet() == 9.5 * 3600
        clock[0] = 34_000.0
        waiting.join(0.1)
        assert throttle.idle(0.0) == 0.0
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
    """By the command: everything lands, in requests of no more than a second's worth of the lowest rate."""
    directory = planned(tmp_path, 60, batch=60, files=1)
    with LocalService() as service:
        words = ("apply", directory, "--to", service.url, "--workers", "0", "--hours-timezone", "UTC")
        env = {"BACKCAST_PROJECT_KEY": service.capture_key}
        wrong = in_process(*words, "--quiet-hours", "8 to 6", env=env)
        assert (wrong.returncode, "--quiet-hours: not hours of a day: '8 to 6'" in wrong.stderr) == (2, True)
        done = in_process(*words, "--rate", "100000,50MB,25@00:00-23:59", "--json", env=env)
        assert done.returncode == 0
        assert landed(service) == identities(60)
    assert '"sent": 3' in done.stdout
