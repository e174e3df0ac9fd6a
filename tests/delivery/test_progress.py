"""Progress is one line that can be trusted: live on a terminal, every 30 s elsewhere, none when quiet."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import sys
import threading
import time
from pathlib import Path

import pytest
from rich.cells import cell_len

from pipeline.cli.progress import EVERY, Sending, _whole_parts
from pipeline.delivery.outcome import RunCounts, SendLimits
from pipeline.delivery.retry import RetryPolicy
from pipeline.local_service import LocalService
from tests.support import terminals
from tests.support.commands import in_process
from tests.support.deliveries import KEY, Asked, Reply, forget, planned, run, serving

ENV = {"BACKCAST_PROJECT_KEY": KEY}


class Clock:
    """Seconds that pass only on request."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def counted(**counts: object) -> RunCounts:
    return RunCounts(limit=8, **counts)  # type: ignore[arg-type]


def test_a_plain_line_comes_every_thirty_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    """Ninety updates a second apart are three lines, however often it is updated."""
    clock = Clock()
    with Sending(1_000, quiet=False, clock=clock) as progress:
        for second in range(1, 92):
            clock.now = 100.0 + second
            progress(counted(accepted=second * 5))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["Sending 15%", "Sending 30%", "Sending 45%"]
    assert EVERY == 30.0


def test_the_line_says_everything_with_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    """What ended and how, both rates, bytes, retries, the limit, the time left, and what the service asks for and
    answers."""
    clock = Clock()
    with Sending(10_000, quiet=False, clock=clock) as progress:
        progress(counted(already_settled=1_000, refused=2))
        clock.now = 120.0
        progress(counted(already_settled=1_000, refused=2, accepted=2_000))
        clock.now = 130.0
        progress(
            counted(
                already_settled=1_000, accepted=2_998, refused=4, in_doubt=30, bytes_sent=12_345_678, in_flight=3,
                batches_retried=7, paused=12.4, last_failure="429 slow \x1b[31mdown",
            )
        )  # fmt: skip
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "Sending 40%: 3,998 settled, 4 refused, 59s left, waits 12s as asked, last failure: 429 slow \\x1b[31mdown,"
        " 100/s now, 100/s on average, 30 in doubt, 3 in flight, limit 8, 12.3 MB, 7 retried"
    )


def test_the_rate_of_now_is_not_the_average(capsys: pytest.CaptureFixture[str]) -> None:
    """After a fast hour and a silent minute the current rate is 0/s, and the average still counts the hour."""
    clock = Clock()
    with Sending(10_000_000, quiet=False, clock=clock) as progress:
        for second in range(0, 3601, 10):
            clock.now = 100.0 + second
            progress(counted(accepted=second * 1_000))
        for second in range(1, 61):
            clock.now = 3700.0 + second
            progress(counted(accepted=3_600_000, last_failure="503 maintenance"))
    last = capsys.readouterr().err.splitlines()[-1]
    assert "0/s now, 984/s on average" in last
    assert "1h48m left" in last
    assert "last failure: 503 maintenance" in last


def test_even_a_quiet_run_says_that_it_waits(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing while something settles. After ten seconds with nothing but failures one line says why and until when;
    another comes ten minutes later."""
    clock = Clock()
    with Sending(10, quiet=True, clock=clock) as progress:
        clock.now += 1_000
        progress(counted(accepted=5))
    assert capsys.readouterr().err == ""
    last_failure = "no connection: [Errno 111] Connection refused \x1b[31m"
    with Sending(10, quiet=True, clock=clock) as progress:
        for second in range(1_300):
            clock.now = 100.0 + second
            progress(counted(last_failure=last_failure, idle=float(second), gives_up_in=3600.0 - second))
        first, *others = capsys.readouterr().err.splitlines()
        progress(counted(idle=4_000.0))
        progress(counted(last_failure=last_failure, accepted=5, idle=1.0))
    assert re.fullmatch(
        r"No progress for 10s; last failure: no connection: \[Errno 111\] Connection refused \\x1b\[31m\."
        r" Trying on until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+ \(--retry-for\)",
        first,
    )
    assert [line.split(";")[0] for line in others] == ["No progress for 10m10s", "No progress for 20m10s"]
    assert capsys.readouterr().err == ""


def test_a_run_knows_how_long_it_waited_and_will(tmp_path: Path) -> None:
    """Progress gets the failure, the seconds without anything settled, and the seconds left of the budget."""
    seen: list[tuple[str, float, float]] = []
    send_limits = SendLimits(2, RetryPolicy(seconds=0.6, first=0.05, most=0.1))
    directory = planned(tmp_path, 10, files=1)
    run(
        directory, "http://127.0.0.1:1", send_limits=send_limits, target_known=True,
        progress=lambda counts: seen.append((counts.last_failure, counts.idle, counts.gives_up_in)),
    )  # fmt: skip
    failing = [(idle, patience) for last_failure, idle, patience in seen if last_failure]
    assert failing
    assert all("no connection" in last_failure for last_failure, _, _ in seen if last_failure)
    assert max(idle for idle, _ in failing) > 0.3
    assert all(abs(idle + patience - 0.6) < 0.01 for idle, patience in failing if idle < 0.6)


def test_a_terminal_shows_it_live_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """The line is redrawn with growing counts, and is gone at the end; --quiet writes nothing, and without a terminal
    nothing is written in under 30 s, so that cron sends no mail."""
    directory = planned(tmp_path, 40, files=1, batch=2)
    one_by_one = threading.Lock()

    def answer(asked: Asked) -> Reply:
        with one_by_one:
            time.sleep(0.05 if asked.number < 21 else 0)
        return Reply(503, b"busy now", {"Retry-After": "1"}) if asked.number == 9 else Reply()

    with serving(answer) as server:
        words = ["apply", directory, "--to", server.url, "--max-concurrency", "2"]
        code, said, _ = terminals.on_a_terminal(*words, columns=200, env=ENV, errors=True)
        forget(directory)
        quiet = terminals.on_a_terminal(*words, "--quiet", columns=200, env=ENV, errors=True)
        forget(directory)
        elsewhere = in_process(*words, env=ENV)
    assert (code, quiet[:2], elsewhere.returncode, elsewhere.stderr) == (0, (0, ""), 0, "")
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said)
    settled = [int(found) for found in re.findall(r"(\d+) settled", plain)]
    assert len(set(settled)) > 2
    assert settled == sorted(settled)
    for text in ("/s now", "on average", "in doubt", ", limit ", " left", "last failure: 503 busy now"):
        assert text in " ".join(plain.split())
    assert said.rstrip().endswith("\x1b[2K")


@pytest.mark.parametrize("columns", [12, 40])
def test_the_line_never_wraps(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However narrow the terminal and however long and wide the strings: one line, drawn over itself."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with Sending(1_000_000, quiet=False, title="Sending 2024-01-01") as progress:
            progress(counted(accepted=1_234, phase="identities", last_failure="503 本日はメンテナンス中です " * 9))
            progress.step("events at the target", 12_345_678, 23_456_789)
            progress._progress.refresh()  # type: ignore[union-attr]
    with os.fdopen(ours, "rb", buffering=0) as screen:
        pieces = []
        with contextlib.suppress(OSError):  # the other end is closed
            while piece := screen.read(65_536):
                pieces.append(piece)
    said = b"".join(pieces).decode().partition("\x1b[?25h")[0]
    assert "\x1b[1A" not in said  # rich moves up to draw over a line that has wrapped
    drawn = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", one) for one in re.split(r"[\r\n]+", said)]
    assert max(map(cell_len, drawn)) <= columns
    assert any("Sen" in one for one in drawn)


def test_a_narrow_line_leaves_out_whole_parts() -> None:
    """No part is cut; if not even the first fits, the terminal cuts it."""
    detail = "3,038 settled, 9s left, 6,487/s now, 6,487/s on average"
    shown = [_whole_parts(detail, room) for room in range(5, len(detail) + 1)]
    parts = detail.split(", ")
    assert set(shown) == {", ".join(parts[:count]) for count in range(1, len(parts) + 1)}
    assert all(len(one) <= room for room, one in enumerate(shown, 5) if room >= len(parts[0]))


def test_a_verification_shows_how_far_it_is(tmp_path: Path) -> None:
    """Each step up to the comparison of values; with --quiet neither this nor a result."""
    directory = planned(tmp_path, 20, files=1)
    with LocalService() as service:
        run(directory, service.url, key=service.capture_key)
        command = ["verify", directory, "--to", service.url]
        env = {"BACKCAST_PERSONAL_KEY": service.personal_key}
        code, said, shown = terminals.on_a_terminal(*command, columns=100, env=env, errors=True)
        quiet = terminals.on_a_terminal(*command, "--quiet", columns=100, env=env, errors=True)
    assert (code, shown.splitlines()[0], quiet) == (0, "State: verified", (0, "", ""))
    assert "Verifying: values 100%" in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said)


@pytest.mark.parametrize(("env", "colored"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_a_terminal_has_colors_unless_it_asks_for_none(tmp_path: Path, env: dict[str, str], colored: bool) -> None:
    directory = planned(tmp_path, 2, files=1)
    _, said, _ = terminals.on_a_terminal("status", directory, columns=80, env=env)
    assert ("\x1b[1;33m" in said, "State: ready" in said) == (colored, True)
