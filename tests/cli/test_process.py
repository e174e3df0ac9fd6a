"""`backcast` as a process: signals, closed pipes, exit codes, and what a bug looks like."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli import main, run
from pipeline.local_service import LocalService
from tests.support.commands import generic, in_process
from tests.support.deliveries import KEY, Reply, planned, serving, uuid
from tests.support.forked import Forked


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_service_prints_its_keys_and_stops_when_asked(tmp_path: Path, number: int) -> None:
    """stdout has the address and the keys; SIGTERM and Ctrl-C end it with 0 and leave the store whole."""
    store, told = tmp_path / "store.duckdb", tmp_path / "told"
    reader, writer = os.pipe()
    with told.open("wb") as errors, os.fdopen(reader) as said:
        service = Forked("service", "--port", "0", "--store", store, stdout=writer, stderr=errors)
        os.close(writer)
        address = said.readline().split()[-1]
        keys = dict(said.readline().strip().split("=") for _ in range(2))
        done = in_process("apply", planned(tmp_path, 10), "--to", address, "--quiet", env=keys)
        assert done.returncode == 0, done.stderr
        service.send_signal(number)
        assert (service.wait(30), told.read_text()) == (0, "Press Ctrl-C to stop.\n")
    with LocalService(store) as again:
        assert again.count() == 10


def unread(*words: object, stream: str, first: int = 0, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Run a command and stop reading one of its streams after its `first` bytes: its exit code, and what it printed to
    the other stream."""
    reader, writer = os.pipe()
    if not first:
        os.close(reader)
    with tempfile.TemporaryFile() as other:
        streams = {"stdout": other, "stderr": other} | {stream: writer}
        running = Forked(*words, env=env, **streams)  # type: ignore[arg-type]
        os.close(writer)
        if first:
            os.read(reader, first)
            os.close(reader)
        code = running.wait(30)
        other.seek(0)
        return code, other.read().decode()


def test_streams_without_a_reader_change_no_exit_code(tmp_path: Path) -> None:
    """`backcast rejects … | head` ends quietly. A warning that cannot be written ends nothing; an error keeps its exit
    code, and so does a refused event."""
    source = tmp_path / "broken.jsonl"
    source.write_bytes(b"{broken\n" * 20_000)
    in_process("plan", source, *generic(), "-o", tmp_path / "plan", "--workers", "0")
    for form in ("jsonl", "csv", "table"):
        told = unread("rejects", tmp_path / "plan", "--format", form, stream="stdout", first=10)
        assert (form, *told) == (form, 0, "")
    directory = planned(tmp_path / "unread", 20)
    plan = directory / "plan.json"
    with serving(lambda asked: Reply()) as server:
        words = ["apply", directory, "--to", server.url]
        (directory / "report.json").unlink()
        (directory / "report.json").mkdir()  # a warning
        assert unread(*words, stream="stderr", env={"BACKCAST_PROJECT_KEY": KEY})[0] == 0
        assert sum(len(asked.events) for asked in server.asked) == 20
    plan.unlink()
    assert unread("status", directory, stream="stderr") == (2, "")
    directory = planned(tmp_path / "refused", 20)
    with serving(lambda asked: Reply(400) if uuid(7) in str(asked.events) else Reply()) as server:
        words = ("apply", directory, "--to", server.url, "--json")
        code, told = unread(*words, stream="stdout", env={"BACKCAST_PROJECT_KEY": KEY})
    assert (code, "Traceback" in told) == (5, False)


@pytest.mark.parametrize(
    ("words", "code"), [(["--help"], 0), (["plan", "--help"], 0), (["--version"], 0), (["mapping", "list"], 0), ([], 2)]
)
def test_help_into_a_closed_pipe_is_quiet(words: list[str], code: int) -> None:
    """What click itself prints ends as other commands do: without a message, and with its usual exit code."""
    assert unread(*words, stream="stdout") == (code, "")


def test_a_defect_is_exit_1_in_two_lines(call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An unforeseen exception is our bug, and the error says how to report it."""
    from pipeline.plan.sealed import freshness

    def fail(*_: object, **_named: object) -> None:
        raise ZeroDivisionError("surprise")

    monkeypatch.setattr(freshness, "open_plan", fail)
    said = call("status", tmp_path)
    assert (said.code, said.two_lines[0]) == (1, "Error: a bug in backcast: ZeroDivisionError: surprise")


def test_errors_are_two_lines_with_the_code_of_the_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A control sequence in a file's name is shown, never obeyed; the console script exits with the command's code."""
    with pytest.raises(SystemExit) as leaving:
        main(["status", str(tmp_path)])
    assert leaving.value.code == 2
    capsys.readouterr()
    assert run(["survey", "no\x1b\nsuch"]) == 3
    said = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in said] == ["Error", "Try"]
    assert "\x1b" not in "".join(said)
    assert "no\\x1b\\nsuch" in said[0]
