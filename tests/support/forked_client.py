"""Asks a server of `tests/support/forked.py` for a process, as a program: its streams, its signals, its exit code.

It is started with `-I -S` for each command of a page, and so imports next to nothing.
"""

from __future__ import annotations

import os
import signal
import socket
import sys


def ask(
    address: str, program: str, words: list[str], folder: str, environment: os._Environ[str] | dict[str, str],
    streams: list[int],
) -> tuple[socket.socket, int]:  # fmt: skip
    """The connection to the server, and the process that it has forked."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    variables = [b"%s=%s" % (os.fsencode(name), os.fsencode(value)) for name, value in environment.items()]
    texts = [program, folder, str(len(words)), *words]
    said = b"\0".join([*map(os.fsencode, texts), *variables])
    socket.send_fds(connection, [len(said).to_bytes(8, "big")], streams)
    connection.sendall(said)
    return connection, number(connection)


def number(connection: socket.socket) -> int:
    """The next number from the server, each on a line: the process, later its exit code; -9 if the server has ended."""
    said = b""
    while (byte := connection.recv(1)) not in (b"", b"\n"):
        said += byte
    return int(said or b"-9")


def main() -> None:
    address, program, *words = sys.argv[1:]
    connection, process = ask(address, program, words, os.getcwd(), os.environ, [0, 1, 2])
    for one in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda received, _: os.kill(process, received))
    code = number(connection)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
