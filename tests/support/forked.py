"""Processes of a warm Python: forked by a server that has loaded backcast, so that none of them loads it again.

Each is a process of its own, with its own arguments, environment, folder, streams, signals and exit code, and ends as
Python ends. What a test says of how backcast starts needs a Python that starts.
"""

from __future__ import annotations

import atexit
import gc
import os
import runpy
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import IO

from tests.support import forked_client

ROOT = Path(__file__).parents[2]
BACKCAST, PYTHON = "backcast", "python"


class Forked:
    """One process: `backcast` with these words, or `python` with its program on stdin."""

    def __init__(
        self, *words: object, program: str = BACKCAST, env: Mapping[str, str] | None = None, cwd: Path | None = None,
        stdin: IO[bytes] | int = subprocess.DEVNULL, stdout: IO[bytes] | int = subprocess.DEVNULL,
        stderr: IO[bytes] | int = subprocess.DEVNULL,
    ) -> None:  # fmt: skip
        nothing = os.open(os.devnull, os.O_RDWR)
        streams = [one if isinstance(one, int) else one.fileno() for one in (stdin, stdout, stderr)]
        self._connection, self.pid = forked_client.ask(
            server(), program, [str(word) for word in words], str(cwd or Path.cwd()), os.environ | (env or {}),
            [nothing if one == subprocess.DEVNULL else one for one in streams],
        )  # fmt: skip
        os.close(nothing)
        self.returncode: int | None = None

    def wait(self, seconds: float = 60) -> int:
        """The exit code; if it is negative, the signal that ended it."""
        if self.returncode is None:
            self._connection.settimeout(seconds)
            self.returncode = forked_client.number(self._connection)
            self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


def run(*words: object, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> tuple[int, str, str]:
    """The exit code of `backcast` with these words, and what it prints to its two streams."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        code = Forked(*words, env=env, cwd=cwd, stdout=out, stderr=err).wait()
        printed = []
        for stream in (out, err):
            stream.seek(0)
            printed.append(stream.read().decode())
    return code, printed[0], printed[1]


def programs(folder: Path) -> Path:
    """A folder with `backcast` and `python` for a shell."""
    folder.mkdir()
    for name in (BACKCAST, PYTHON):
        program = folder / name
        command = f'"{sys.executable}" -IS "{forked_client.__file__}" "{server()}" {name} "$@"'
        program.write_text(f"#!/bin/sh\nexec {command}\n", encoding="utf-8")
        program.chmod(0o755)
    return folder


@cache
def server() -> str:
    """The address of this process's server, which ends with it."""
    folder = tempfile.mkdtemp(prefix="forks-")
    address = f"{folder}/socket"
    words = [sys.executable, "-c", "from tests.support import forked; forked.serve()", address]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    running = subprocess.Popen(
        words, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert running.stdin is not None
    assert running.stdout is not None
    assert running.stdout.readline() == b"ready\n"
    atexit.register(running.communicate)  # which ends it
    return address


def serve() -> None:
    """Fork on request, until stdin ends."""
    import pipeline

    for module in walk_packages(pipeline.__path__, "pipeline."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    gc.collect()
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen()
    wake, waking = socket.socketpair()
    waking.setblocking(False)
    signal.set_wakeup_fd(waking.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    waiting = selectors.DefaultSelector()
    for readable in (0, listener, wake):
        waiting.register(readable, selectors.EVENT_READ)
    running: dict[int, socket.socket] = {}
    os.write(1, b"ready\n")
    while True:
        for key, _ in waiting.select():
            if key.fileobj is listener:
                asker = listener.accept()[0]
                request, streams = _request(asker)
                process = os.fork()
                if not process:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    waiting.close()
                    for one in (listener, wake, waking, asker, *running.values()):
                        one.close()
                    _become(request, streams)
                for stream in streams:
                    os.close(stream)
                asker.sendall(b"%d\n" % process)
                running[process] = asker
                waiting.register(asker, selectors.EVENT_READ, process)
            elif key.fileobj is wake:
                wake.recv(4096)
                with suppress(ChildProcessError):
                    while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                        asker = running.pop(ended[0])
                        waiting.unregister(asker)
                        with suppress(BrokenPipeError):
                            asker.sendall(b"%d\n" % os.waitstatus_to_exitcode(ended[1]))
                        asker.close()
            elif key.fileobj == 0:
                for process in running:
                    os.kill(process, signal.SIGKILL)
                shutil.rmtree(Path(sys.argv[1]).parent)
                os._exit(0)
            else:  # the requesting process is gone
                os.kill(key.data, signal.SIGKILL)
                waiting.unregister(key.fileobj)
                running[key.data] = key.fileobj  # type: ignore[assignment]


def _request(asker: socket.socket) -> tuple[list[bytes], list[int]]:
    length, streams, _, _ = socket.recv_fds(asker, 8, 3)
    text = b""
    while len(text) < int.from_bytes(length, "big"):
        text += asker.recv(1 << 16)
    return text.split(b"\0"), streams


def _become(request: list[bytes], streams: list[int]) -> None:
    """Become the requested process."""
    program, folder, count, *texts = request
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environb.clear()
    os.environb.update(one.partition(b"=")[::2] for one in texts[int(count) :])
    words = [os.fsdecode(text) for text in texts[: int(count)]]
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", 1 if os.isatty(1) else -1, encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
    more = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [os.fsdecode(folder), *(path for path in more if path and path not in sys.path)]
    code: object = 0
    try:
        sys.argv = [program.decode(), *words] if program == BACKCAST.encode() else words
        if program == BACKCAST.encode():
            runpy.run_module("pipeline", run_name="__main__", alter_sys=True)
        else:
            exec(compile(sys.stdin.read(), "<stdin>", "exec"), {"__name__": "__main__"})
    except SystemExit as leaving:
        code = leaving.code
    except BaseException:
        traceback.print_exc()
        code = 1
    _end(code)


def _end(code: object) -> None:
    """End as Python does, but without its pass over every module: everything loaded would be taken apart."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = 120
    os._exit(code or 0)
