"""Runs the code blocks of a Markdown page as a reader would: top to bottom, in one shell, in an empty directory.

Blocks in `sh` and `python` run. A comment on the line before a block says where that is different:

    <!-- not run: REASON -->    the block is only shown
    <!-- file: NAME -->         the block is written to the file NAME
    <!-- exit: N -->            the block ends with exit code N
    <!-- output -->             the block is what the block before it prints; `...` stands for any text

Blocks in any other language are only shown.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support import forked

ROOT = Path(__file__).parent.parent.parent
README = ROOT / "README.md"
RUNNABLE = ("sh", "python")
PORTS = ("8100", "8200")
"""The ports in the pages; each run uses free ones instead."""
BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[a-z ]+)(?:: (?P<value>[^\n]*))? -->\n)?^```(?P<language>\S*)\n(?P<text>.*?)^```$", re.M | re.S
)
END = "END_OF_BLOCK"
MARKS = {"": False, "output": False, "exit": True, "file": True, "not run": True}
"""Each mark, and whether it needs a value."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page. `line` counts from 1; `mark` is "" if no comment precedes the block."""

    line: int
    language: str
    text: str
    mark: str
    value: str

    @property
    def runs(self) -> bool:
        return self.language in RUNNABLE and self.mark in ("", "exit")


@dataclass(frozen=True, slots=True)
class Ran:
    """A page that was run: what each block printed to stdout, by the line of the block, and the whole of stderr."""

    exit_code: int
    printed: dict[int, str]
    errors: str


def pages() -> list[Path]:
    """Every page of docs/use."""
    return sorted((ROOT / "docs" / "use").rglob("*.md"))


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            text.count("\n", 0, found.start("language")) + 1,
            found["language"],
            found["text"],
            found["mark"] or "",
            found["value"] or "",
        )
        for found in BLOCK.finditer(text)
    ]


def unclear(page: Path) -> list[str]:
    """Each block for which a page does not say whether it runs, or says it in a way that is not understood."""
    found = []
    for block in blocks(page):
        place = f"{page}:{block.line}"
        if block.mark not in MARKS:
            found.append(f"{place}: there is no mark {block.mark!r}")
        elif bool(block.value) != MARKS[block.mark]:
            found.append(f"{place}: the mark {block.mark!r} needs a value, or takes none")
        if block.language in ("", "bash", "shell", "console", "py"):
            found.append(f"{place}: call it sh or python if it runs, else text")
    return found


def run(page: Path, directory: Path) -> Ran:
    """Run a page's blocks in one `sh` in `directory`, which must not exist yet. It stops at the first that fails."""
    directory.mkdir()
    programs = forked.programs(directory.parent / "bin")
    script = "set -eu\n" + "".join(_shell(block) for block in blocks(page))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BACKCAST")}
    environment = {**kept, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    output, errors = directory.parent / "stdout", directory.parent / "stderr"
    with output.open("w") as stdout, errors.open("w") as stderr:  # files, so that a service left running blocks nothing
        for port in PORTS:
            script = script.replace(f"127.0.0.1:{port}", f"127.0.0.1:{(free := _free_port())}")
            script = script.replace(f"--port {port}", f"--port {free}")
        shell = subprocess.Popen(
            ["sh", "-c", script],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            shell.wait(timeout=300)
        finally:
            # What a page starts in the background ends with it: `jobs -p` of some shells prints nothing in a trap.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGTERM)
    _, *parts = re.split(r"^\x01(\d+)\n", output.read_text(encoding="utf-8"), flags=re.M)
    printed = {int(line): text for line, text in zip(parts[::2], parts[1::2], strict=True)}
    return Ran(shell.returncode, printed, errors.read_text(encoding="utf-8"))


def differing_outputs(page: Path, ran: Ran) -> list[str]:
    """Each output that a page shows and that its block did not print, as a line for the person who reads the test."""
    differing = []
    before = 0
    for block in blocks(page):
        if block.runs:
            before = block.line
        elif block.mark == "output":
            wanted = "".join(
                ".*?" if piece == "..." else re.escape(piece) for piece in re.split(r"(\.\.\.)", block.text)
            )
            printed = "".join(f"{line.rstrip()}\n" for line in ran.printed.get(before, "").splitlines())
            if not re.fullmatch(wanted, printed, re.S):
                differing.append(f"{page}:{block.line} shows\n{block.text}and it prints\n{printed}")
    return differing


def _shell(block: Block) -> str:
    """The commands that run a block, after a line that says which block begins."""
    if block.mark == "file":
        return (
            f"mkdir -p $(dirname {shlex.quote(block.value)})\n{_here(f'cat > {shlex.quote(block.value)}', block.text)}"
        )
    if not block.runs:
        return ""
    commands = _here("python -", block.text) if block.language == "python" else block.text
    if block.mark == "exit":
        commands = (
            f"set +e\n{commands}code=$?\nset -e\n[ $code = {block.value} ] || {{ echo exit $code >&2; exit 99; }}\n"
        )
    return f"printf '\\001{block.line}\\n'\n{commands}"


def _here(command: str, text: str) -> str:
    return f"{command} <<'{END}'\n{text}{END}\n"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
