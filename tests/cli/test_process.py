"""`backcast` as a process: signals, closed pipes, exit codes, and what a defect looks like."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli import main, run
from pipeline.local_service import LocalService
from tests.support.commands import generic, in_process
from tests.support.deliveries import KEY, Reply, planned, serving, uuid


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_service_prints_its_keys_and_stops_when_asked(tmp_path: Path, number: int) -> None:
    """Address and keys on stdout; SIGTERM and Ctrl-C end it with 0, the store whole."""
    store = tmp_path / "store.duckdb"
    service = subprocess.Popen(
        [sys.executable, "-m", "pipeline", "service", "--port", "0", "--store", str(store)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert service.stdout is not None
    try:
        address = service.stdout.readline().split()[-1]
        keys = dict(service.stdout.readline().strip().split("=") for _ in range(2))
        done = in_process("apply", planned(tmp_path, 10), "--to", address, "--quiet", env=keys)
        assert done.returncode == 0, done.stderr
        done = in_process("verify", tmp_path / "plan", "--to", address, "--json", env=keys)
        assert json.loads(done.stdout)["proved"] is True
        service.send_signal(number)
        _, told = service.communicate(timeout=30)
    finally:
        service.kill()
        service.communicate()
    assert (service.returncode, told) == (0, "Press Ctrl-C to stop.\n")
    with LocalService(store) as again:
        assert again.count() == 10


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    """`backcast rejects … | head` ends quietly."""
    source = tmp_path / "broken.jsonl"
    source.write_bytes(b"{broken\n" * 20_000)
    in_process("plan", source, *generic(), "-o", tmp_path / "plan", "--workers", "0")
    for form in ("jsonl", "csv", "table"):
        reader, writer = os.pipe()
        rejects = subprocess.Popen(
            [sys.executable, "-m", "pipeline", "rejects", str(tmp_path / "plan"), "--format", form],
            stdout=writer, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        os.close(writer)
        os.read(reader, 10)
        os.close(reader)
        _, told = rejects.communicate(timeout=30)
        assert (form, rejects.returncode, told) == (form, 0, "")


def unread(*words: object, stream: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    """A command one of whose streams nobody reads: its exit code, and what it printed to the other one."""
    reader, writer = os.pipe()
    os.close(reader)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | {stream: writer}
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", *map(str, words)],
        **streams, text=True, env=os.environ | (env or {}), timeout=60, check=False,
    )  # type: ignore[call-overload]  # fmt: skip
    os.close(writer)
    return done.returncode, done.stderr if stream == "stdout" else done.stdout


@pytest.mark.parametrize(
    ("words", "code"), [(["--help"], 0), (["plan", "--help"], 0), (["--version"], 0), (["mapping", "list"], 0), ([], 2)]
)
def test_help_into_a_closed_pipe_is_quiet(words: list[str], code: int) -> None:
    """What click itself prints ends as other commands do: without a word, and with the code that it has anyway."""
    assert unread(*words, stream="stdout") == (code, "")


def test_nobody_reading_the_messages_stops_no_run(tmp_path: Path) -> None:
    """`apply 2>&1 | head -1`: a warning that cannot be written ends nothing, and an error keeps its code."""
    directory = planned(tmp_path, 20)
    plan = directory / "plan.json"
    with serving(lambda asked: Reply()) as server:
        words = ["apply", directory, "--to", server.url, "--workers", "0"]
        (directory / "report.json").unlink()
        (directory / "report.json").mkdir()  # a warning
        assert unread(*words, stream="stderr", env={"BACKCAST_PROJECT_KEY": KEY})[0] == 0
        assert sum(len(asked.events) for asked in server.asked) == 20
    plan.unlink()
    assert unread("status", directory, stream="stderr") == (2, "")


def test_the_exit_code_survives_a_closed_pipe(tmp_path: Path) -> None:
    """Whoever does not read the result still gets the exit code: 5 for a refused event."""
    directory = planned(tmp_path, 20)
    reader, writer = os.pipe()
    os.close(reader)
    with serving(lambda asked: Reply(400) if uuid(7) in str(asked.events) else Reply()) as server:
        applying = subprocess.Popen(
            [sys.executable, "-m", "pipeline", "apply", str(directory), "--to", server.url, "--json"],
            stdout=writer, stderr=subprocess.PIPE, text=True, env=os.environ | {"BACKCAST_PROJECT_KEY": KEY},
        )  # fmt: skip
        os.close(writer)
        _, told = applying.communicate(timeout=30)
    assert (applying.returncode, "Traceback" in told) == (5, False)


def test_a_defect_is_exit_1_in_two_lines(call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What nobody foresaw is our bug, and says how to report it."""
    from pipeline.plan.sealed import freshness

    def fail(*_: object) -> None:
        raise ZeroDivisionError("surprise")

    monkeypatch.setattr(freshness, "open_plan", fail)
    said = call("status", tmp_path)
    assert (said.code, said.two_lines[0]) == (1, "Error: a bug in backcast: ZeroDivisionError: surprise")


def test_main_exits_with_the_code(tmp_path: Path) -> None:
    """The console script ends with the command's exit code."""
    with pytest.raises(SystemExit) as leaving:
        main(["status", str(tmp_path)])
    assert leaving.value.code == 2


def test_an_error_is_two_lines_whatever_a_name_holds(capsys: pytest.CaptureFixture[str]) -> None:
    """A control sequence or a line end in a file's name is shown, never obeyed."""
    assert run(["survey", "no\x1b\nsuch"]) == 3
    said = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in said] == ["Error", "Try"]
    assert "\x1b" not in "".join(said)
    assert "no\\x1b\\nsuch" in said[0]
