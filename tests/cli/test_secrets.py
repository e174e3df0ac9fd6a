"""After everything was run, a marked key is searched for everywhere: it is in request bodies and nowhere else."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline import cli
from tests.support.commands import generic
from tests.support.deliveries import Asked, Reply, in_ledger, planned, scripted, serving

KEY = "phc_testMARKEDcapture9f3a"
PERSONAL = "phx_testMARKEDmanagement7c1d"
MARKS = (KEY, PERSONAL, KEY[4:], PERSONAL[4:])
ENVIRONMENT = {"BACKCAST_PROJECT_KEY": KEY, "BACKCAST_PERSONAL_KEY": PERSONAL}
ECHO = KEY.encode()
"""What the capture service records of a request: the key that was in its body."""


def has_key(content: bytes) -> bool:
    """Whether it contains a key: as it is, as UTF-16, in hex or packed."""
    kinds = [content, gzip.decompress(content)] if content[:2] == b"\x1f\x8b" else [content]
    return any(spelt in kind for kind in kinds for mark in MARKS for spelt in spellings(mark))


def spellings(mark: str) -> tuple[bytes, bytes, bytes]:
    return mark.encode(), mark.encode("utf-16-le"), mark.encode().hex().encode()


class Everything:
    """Runs commands in one folder and records all their output and how `ps` showed them; `here` runs in this process,
    which is quicker and shows nothing to `ps`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.lines: list[bytes] = []
        self.codes: list[int] = []

    def __call__(self, *words: object) -> int:
        process = subprocess.Popen(
            [sys.executable, "-m", "pipeline", *map(str, words)],
            env=os.environ | ENVIRONMENT | {"BACKCAST_TRACEBACK": "1", "HOME": str(self.folder)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
        )  # fmt: skip
        over = threading.Event()
        watching = threading.Thread(target=self._watch, args=(process.pid, over))
        watching.start()
        try:
            out, err = process.communicate(timeout=120)
        finally:
            over.set()
            watching.join()
        self.said += [out, err]
        self.codes.append(process.returncode)
        return process.returncode

    def here(self, *words: object, environment: dict[str, str] | None = None) -> int:
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            for name, text in (ENVIRONMENT | (environment or {})).items():
                patch.setenv(name, text)
            code = cli.run([*map(str, words)])
        self.said += [out.getvalue(), err.getvalue()]
        self.codes.append(code)
        return code

    def _watch(self, pid: int, over: threading.Event) -> None:
        """The command lines of the process and its children, while it lives."""
        while not over.wait(0.02):
            try:
                pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
                self.lines += [Path(f"/proc/{one}/cmdline").read_bytes() for one in pids]
            except OSError:
                continue

    def leaks(self) -> list[str]:
        """Everything that contains a key: files by name, outputs and command lines by number."""
        found = [str(path) for path in self.folder.rglob("*") if path.is_file() and has_key(path.read_bytes())]
        found += [f"output {number}" for number, text in enumerate(self.said) if has_key(text.encode())]
        found += [f"command line {number}" for number, line in enumerate(self.lines) if has_key(line)]
        return found


REPLIES: dict[str, Callable[[Asked], Reply]] = {
    "401": scripted(Reply(401, b"API key is not valid: " + ECHO)),
    "402": scripted(Reply(402, ECHO)),
    "418": scripted(Reply(418, b"you sent " + ECHO)),
    "quota": scripted(Reply(200, b'{"status":"Ok","quota_limited":["' + ECHO + b'"]}')),
    "500": scripted(Reply(500, b"Traceback (most recent call last): api_key=" + ECHO)),
    "garbage": scripted(Reply(200, b"<html>" + ECHO)),
    "poison": scripted(Reply(400, b"failed to parse request: " + ECHO), Reply()),
    "413": scripted(Reply(413, ECHO), Reply()),
    "cut off": scripted(Reply(0)),
    "redirect": scripted(Reply(307, b"", {"Location": f"http://elsewhere.invalid/{KEY}?api_key={KEY}#{KEY}"})),
    "redirect to a path": scripted(*[Reply(307, b"", {"Location": f"/{KEY}/{number}"}) for number in range(9)]),
    "odd redirect": scripted(Reply(307, b"", {"Location": f"http://{KEY}:x@["})),
    "header": scripted(Reply(429, b"", {"Retry-After": KEY, "X-Key": KEY})),
}


def run_all(folder: Path) -> tuple[Everything, list[Asked]]:
    """Everything once: a plan, applies that fail in every way, one that settles, and the commands that read
    afterwards."""
    every = Everything(folder)
    first = planned(folder / "first", 40, batch=8, links=True)
    every.here("plan", folder / "first" / "export", *generic(), "-o", folder / "second", "--workers", "1")
    asked: list[Asked] = []
    answers = [*REPLIES.values(), scripted(Reply())]
    for number, answer in enumerate(answers):
        with serving(answer) as server:
            # One ledger is used throughout: the address of each server is what a proxy in front would keep.
            if (first / "ledger.sqlite").exists():
                in_ledger(first, f"update meta set value = '{server.url}' where key = 'target'")
            last = number == len(answers) - 1
            run = every if number == 10 else every.here
            run(
                "apply", first, "--to", server.url, "--max-retries", "1", "--max-refused", "0" if not last else "100",
                *(["--json"] if number % 2 else []),
            )  # fmt: skip
            every.here("status", first, *(["--json"] if number % 2 else []))
            asked += server.asked
    every.here("apply", first, "--to", "http://127.0.0.1:9", "--project-key-file", folder / "none")
    every.here("apply", first, "--to", "https://127.0.0.1:9", "--rotated-key", "--max-retries", "0")
    for wrong in (PERSONAL, KEY * 9):
        every.here("apply", first, "--to", "http://127.0.0.1:9", environment={"BACKCAST_PROJECT_KEY": wrong})
    every.here("rejects", first, "--format", "jsonl")
    for answer in (scripted(Reply(403, PERSONAL.encode())), scripted(Reply(200, b"<html>" + PERSONAL.encode()))):
        with serving(answer) as server:
            every.here("verify", first, "--to", server.url)
    return every, asked


def test_no_file_no_output_and_no_command_line_has_a_key(tmp_path: Path) -> None:
    """Plans, ledgers, locks, reports, stdout, stderr with tracebacks allowed, and `ps`: none contains it, plain,
    packed, in hex or in wide characters, though the failures did happen, the last apply settled, and the key was in
    every request body."""
    for spelt in spellings(KEY):
        assert has_key(b"..." + spelt + b"...")
    assert has_key(gzip.compress(PERSONAL.encode()))
    assert not has_key(b"phc_test")
    every, asked = run_all(tmp_path)
    assert every.leaks() == []
    assert len(every.lines) > 5
    assert {0, 2, 5, 6} <= set(every.codes)
    assert len(asked) >= 15
    assert all(json.loads(gzip.decompress(one.body))["api_key"] == KEY for one in asked)
    said = "\n".join(every.said)
    assert "***" in said
    assert '"state": "sent"' in said or "State: sent" in said
