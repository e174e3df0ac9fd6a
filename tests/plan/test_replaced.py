"""A plan replaces its directory whole or not at all, and never touches anything else."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pipeline.api import plan_export
from pipeline.errors import Busy, UnreadableExport, UsageError
from pipeline.extractors import open_source
from pipeline.extractors.plan_detection import FINISHED, UNFINISHED
from pipeline.ledger.opening import lock_file, unlock
from pipeline.models import BLOCK_BYTES
from pipeline.options import PlanOptions
from pipeline.plan.sealed.commit import LOCK, staged_plan
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import load
from tests.support.commands import generic, in_process
from tests.support.deliveries import COLUMNS, export
from tests.support.tiny_tool import make_plan, row, write

ROOT = Path(__file__).parent.parent.parent


def contents(folder: Path) -> dict[str, bytes]:
    """Every file under a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


FOREIGN: list[dict[str, str]] = [
    {"rejects.jsonl": '{"mine":1}\n'},
    {"report.html": "<h1>Mine</h1>"},
    {"plan.json": '{"trip":"to the sea"}'},
    {"plan.json": "not JSON"},
    {"notes.txt": "Mine"},
    {f"{UNFINISHED}/work.txt": "Mine"},
    {f"{FINISHED}/work.txt": "Mine"},
    {"scratch/a": "Mine"},
]


@pytest.mark.parametrize("files", FOREIGN, ids=lambda files: "".join(files))
def test_what_is_not_ours_is_never_planned_over(call: Any, tmp_path: Path, files: dict[str, str]) -> None:
    """Exit 2, and every file stays as it was."""
    place = tmp_path / "plan"
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(content)
    before = contents(place)
    said = call("plan", export(tmp_path / "export", 3), *generic(), "-o", place)
    assert said.code == 2
    assert "contains files that backcast did not write" in said.two_lines[0]
    assert contents(place) == before


def test_an_empty_directory_and_an_older_plan_are_taken(call: Any, tmp_path: Path) -> None:
    """What a person added to the older plan is kept; the older plan's own files are removed."""
    source = export(tmp_path / "export", 3)
    (tmp_path / "ids").write_text("nobody\n")
    place = tmp_path / "plan"
    place.mkdir()
    (place / ".gitkeep").touch()
    assert call("plan", source, *generic(), "-o", place, "--exclude-ids", tmp_path / "ids").code == 0
    (place / "notes.txt").write_text("Mine")
    assert (place / "excluded-ids.txt").exists()
    assert call("plan", source, *generic(), "-o", place).code == 0
    assert (place / "notes.txt").read_text() == "Mine"
    assert not (place / "excluded-ids.txt").exists()
    assert not (place / UNFINISHED).exists()
    assert call("rehearse", place).code == 0


def test_a_plan_that_fails_leaves_the_older_one_whole(tmp_path: Path) -> None:
    """It leaves no files of its own: if there was no directory, not even an empty one."""
    made = make_plan(tmp_path / "plan", [write(tmp_path / "a.jsonl", [row(key="k")])])
    before = contents(made.directory.path)
    whole = gzip.compress(b"".join(b'{"event":"Seen","id":"u","key":"%d"}\n' % number for number in range(20_000)))
    broken = tmp_path / "b.jsonl.gz"
    broken.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UnreadableExport):
        make_plan(made.directory.path, [broken])
    assert contents(made.directory.path) == before
    with pytest.raises(UnreadableExport):
        make_plan(tmp_path / "new", [broken])
    assert not (tmp_path / "new").exists()


STOPPED = """
import json, os, shutil, sys
from pathlib import Path
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.commit import LOCK, staged_plan
from pipeline.plan.sealed.manifest import load

start, new, place = map(Path, sys.argv[1:])
CHANGES = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree")

def die_before(step):
    def look(event, arguments):
        nonlocal step
        if event in CHANGES and str(place) in str(arguments[0]) and (event != "open" or "w" in str(arguments[1])):
            step -= 1
            if step < 0:
                os._exit(9)
    sys.addaudithook(look)

def plan_until(step):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    die_before(step)
    with staged_plan(Directory(place)) as work:
        shutil.copytree(new, work.path, dirs_exist_ok=True)
        (work.path / "plan.lock").unlink()
    os._exit(0)

step, ended = 0, False
while not ended:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(start, place)
    code = plan_until(step)
    assert code in (0, 9), code
    ended = code == 0
    if step % 3 == 0:  # killed again while the next one finishes it
        again = os.fork()
        if again == 0:
            die_before(step % 7)
            load(Directory(place))
            os._exit(0)
        os.waitpid(again, 0)
    load(Directory(place))
    print(json.dumps({str(one.relative_to(place)): one.read_bytes().decode(errors="replace")
                      for one in sorted(place.rglob("*")) if one.is_file() and one.name != "plan.lock"}))
    step += 1
"""


def test_whenever_planning_is_killed_the_old_plan_or_the_new_one_is_there(tmp_path: Path) -> None:
    """Before each of its file operations in turn; whichever plan it is, it is whole: next to the new one nothing of the
    old one is left except a person's own file and what it had read from a pipe."""
    old = make_plan(tmp_path / "old", [write(tmp_path / "old.jsonl", [row("Old", key="k"), row("Old", key="k"), "{"])])
    new = make_plan(tmp_path / "new", [write(tmp_path / "new.jsonl", [row("New", key="n")])])
    old.directory.rehearsal.mkdir()
    for name in ("rehearsal/store.duckdb", "report.json", "report.html", "excluded-ids.txt", "notes.txt", "stdin"):
        (old.directory.path / name).write_text("old")
    words = [sys.executable, "-c", STOPPED, str(old.directory.path), str(new.directory.path), str(tmp_path / "plan")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    before, after = (
        {name: text.decode(errors="replace") for name, text in contents(one.directory.path).items() if name != LOCK}
        for one in (old, new)
    )
    after |= {"notes.txt": "old", "stdin": "old"}
    left = [
        {name: text for name, text in json.loads(line).items() if not name.startswith(UNFINISHED)}
        for line in done.stdout.splitlines()
    ]
    kinds = ["old" if one == before else "new" if one == after else sorted(one) for one in left]
    assert kinds == ["old"] * kinds.count("old") + ["new"] * kinds.count("new")
    assert kinds.count("new") > 20, "the swap itself was stopped before each of its steps"


def test_a_directory_in_which_no_plan_was_finished_says_so_and_can_be_used(call: Any, tmp_path: Path) -> None:
    """After a kill the message says clearly what is there."""
    place = tmp_path / "plan"
    with staged_plan(Directory(place)) as work:
        left = contents(work.path)
        work.plan.write_text("{}")
    shutil.rmtree(place)
    for name, content in left.items():
        (place / UNFINISHED).mkdir(parents=True)
        (place / UNFINISHED / name).write_bytes(content)
    said = call("status", place)
    assert said.code == 2
    assert said.two_lines == (
        f"Error: the plan in {place} was stopped before it was finished",
        "Try: run the same `backcast plan` command again; it resumes where it stopped",
    )
    assert b"was stopped" in left["not-finished.txt"]
    assert make_plan(place, [write(tmp_path / "a.jsonl", [row("New", key="n")])]).plan.events.made == 1
    assert not (place / UNFINISHED).exists()


def interrupt(running: subprocess.Popen[bytes], file: Path) -> None:
    """Press Ctrl-C once a file is there; a minute is enough for it."""
    end = time.monotonic() + 60
    while not file.exists():
        assert running.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)


def test_ctrl_c_leaves_the_older_plan(tmp_path: Path) -> None:
    """Interrupted while it reads: exit 130, and the older plan is still sealed."""
    source = export(tmp_path / "export", 3)
    assert in_process("plan", source, *generic(), "-o", tmp_path / "plan", "--workers", "0").returncode == 0
    before = contents(tmp_path / "plan")
    words = [sys.executable, "-m", "pipeline", "plan", "-", *generic(), "-o", str(tmp_path / "plan")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        interrupt(running, tmp_path / "plan" / UNFINISHED / "stdin.partial")
        _, said = running.communicate(timeout=60)
    assert running.returncode == 130, said
    assert contents(tmp_path / "plan") == before


def test_ctrl_c_works_while_a_huge_file_is_digested(tmp_path: Path) -> None:
    """Background work ends soon, too: there is no wait for 64 GiB of which five rows were asked for."""
    source = tmp_path / "huge.csv"
    line = "Seen,u-1,2024-03-01T12:00:00Z,," + "x" * 500 + "\n"
    source.write_text("event,distinct_id,timestamp,uuid,more\n" + line * (2 * BLOCK_BYTES // len(line)))
    os.truncate(source, 64 << 30)
    words = ["plan", source, *generic(), "--limit", "5", "-o", tmp_path / "plan"]
    with subprocess.Popen([sys.executable, "-m", "pipeline", *map(str, words)], stderr=subprocess.PIPE) as running:
        interrupt(running, tmp_path / "plan" / UNFINISHED / "identities.jsonl")
        try:
            _, said = running.communicate(timeout=20)
        finally:
            running.kill()
    assert running.returncode == 130, said
    assert not (tmp_path / "plan" / "plan.json").exists()


@pytest.mark.parametrize("change", ["grown", "touched", "gone"])
def test_a_file_that_changes_while_it_is_read_makes_no_plan(tmp_path: Path, change: str) -> None:
    """The file that was walked and the one that is digested must be the same, or rows could be missed silently."""
    source = sorted(export(tmp_path / "export", 3).iterdir())[0]
    size = source.stat().st_size
    request = source, tmp_path / "plan", PlanOptions(mapping="generic", settings=COLUMNS)
    plan_export(*request)
    before = contents(tmp_path / "plan")

    def changes(rows: int, length: int) -> None:
        if change == "gone":
            source.unlink(missing_ok=True)
        elif change == "touched":
            os.utime(source, (1, 1))
        elif source.stat().st_size == size:
            with source.open("a") as file:
                file.write("{}\n")

    with pytest.raises(UnreadableExport, match=r"changed while it was read|does not exist"):
        plan_export(*request, progress=changes)
    assert contents(tmp_path / "plan") == before


def test_an_apply_that_began_meanwhile_keeps_its_plan(tmp_path: Path) -> None:
    """The ledger is checked again before the old plan is replaced."""
    made = make_plan(tmp_path / "plan", [write(tmp_path / "a.jsonl", [row(key="k")])])
    before = contents(made.directory.path)

    def plan_while_applying() -> None:
        with staged_plan(made.directory) as work:
            work.plan.write_text("{}")
            made.directory.ledger.write_bytes(b"a ledger")

    with pytest.raises(Busy, match="does not replace it"):
        plan_while_applying()
    assert contents(made.directory.path) == {**before, "ledger.sqlite": b"a ledger"}


def test_two_plans_are_never_made_in_one_directory_at_once(tmp_path: Path) -> None:
    """The second says which process makes the first; while another process finishes one, reading it is refused, not
    wrong."""
    source = write(tmp_path / "a.jsonl", [row(key="k")])
    with staged_plan(Directory(tmp_path / "plan")) as work:
        with pytest.raises(Busy, match=f"process {os.getpid()}"):
            make_plan(tmp_path / "plan", [source])
        assert work.path.exists()
        work.plan.write_text("{}")
    made = make_plan(tmp_path / "made", [source])
    (made.directory.path / FINISHED).mkdir()
    lock = lock_file(made.directory.path / "plan", "it")
    try:
        with pytest.raises(Busy):
            load(made.directory)
    finally:
        unlock(lock)
    assert load(made.directory) == made.plan


def test_plans_among_an_export_are_left_out_with_a_notice(call: Any, tmp_path: Path) -> None:
    """Planning a folder twice gives the same plan; a plan given as an export is an error."""
    source = export(tmp_path / "export", 3, files=1)
    words = ("plan", source, *generic(), "-o", source / "plan", "--as-of", "2024-01-01", "--json")
    first, again = call(*words), call(*words)
    assert (first.code, first.json) == (0, again.json)
    assert [part["path"] for part in again.json["parts"]] == ["part-0.jsonl"]
    notes = [(note.code, Path(note.where).name) for note in open_source([str(source)]).notes]
    assert notes == [("ignored_file", "plan")]
    with pytest.raises(UsageError, match="is a plan of backcast"):
        open_source([str(source / "plan")])
