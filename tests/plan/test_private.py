"""What backcast writes is readable only by its owner, whatever the umask: plans and ledgers have personal data."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.files import private
from tests.support.commands import generic
from tests.support.deliveries import Reply, export, passed_on, planned, row, serving
from tests.support.deliveries import run as apply
from tests.support.jobs import KEYS, PERSONAL_KEY, days, write_job
from tests.support.services import running


@pytest.fixture(autouse=True)
def lax() -> Iterator[None]:
    """The most permissive umask."""
    before = os.umask(0)
    yield
    assert os.umask(before) == 0


def open_to_others(folder: Path) -> list[str]:
    """What others may read or list of a folder, including itself."""
    found = []
    for path in (folder, *folder.rglob("*")):
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:  # of a run in progress
            continue
        if not path.is_symlink() and mode & 0o077:
            found.append(f"{path.name} {mode & 0o777:o}")
    return found


def test_a_plan_and_all_that_comes_of_it_is_private(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input, excluded ids, the plan, the rehearsal and its store, the ledger during and after a run."""
    monkeypatch.setenv("BACKCAST_PERSONAL_KEY", PERSONAL_KEY)
    (tmp_path / "ids.txt").write_text("person-3\n")
    directory = tmp_path / "plan"
    directory.mkdir()
    rows = "".join(json.dumps(row(number)) + "\n" for number in range(30)) + "broken\n"
    words = ["-o", directory, "--exclude-ids", tmp_path / "ids.txt", "--max-rejects", "1", "--workers", "0"]
    assert call("plan", "-", *generic(), *words, stdin=rows).code == 0
    assert (directory / "stdin").exists()
    assert open_to_others(directory) == []
    assert call("rehearse", directory).code == 0
    assert (directory / "rehearsal/store.duckdb").exists()
    during: list[str] = []
    with running(KEYS) as service:

        def answer(asked: Any) -> Reply:
            assert (directory / "ledger.sqlite-wal").exists()
            during.extend(open_to_others(directory))
            return passed_on(service.url, asked.body)

        with serving(answer) as server:
            assert call("apply", directory, "--to", server.url).code == 0
    assert (during, open_to_others(directory)) == ([], [])


def test_a_job_is_private(call: Any, tmp_path: Path) -> None:
    """The state, its windows, their plans and ledgers."""
    days(tmp_path, 1)
    with running(KEYS) as service:
        job = write_job(tmp_path, service.url, until="2024-01-02")
        assert call("run", job).code == 0
    assert (tmp_path / "state/nightly/state.sqlite").exists()
    assert open_to_others(tmp_path / "state") == []


def test_what_a_library_call_writes_is_private_too(tmp_path: Path) -> None:
    """`pipeline.plan_export` and `apply_plan` without a command; the caller's own umask is restored."""
    directory = planned(tmp_path, 10)
    with serving(lambda asked: Reply()) as server:
        apply(directory, server.url)
    assert open_to_others(directory) == []


def test_a_mapping_with_real_rows_in_its_cases_is_private(call: Any, tmp_path: Path) -> None:
    """`mapping new -o` copies a row of the export into the file."""
    export(tmp_path / "export", 5)
    assert call("mapping", "new", tmp_path / "export", "-o", tmp_path / "mine.yaml").code == 0
    assert open_to_others(tmp_path / "mine.yaml") == []


def test_the_umask_is_set_back_when_the_last_one_leaves() -> None:
    """Two threads inside at once: neither opens the other's files."""
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with private():
            entered.set()
            assert leave.wait(30)

    thread = threading.Thread(target=other)
    with private():
        thread.start()
        assert entered.wait(30)
    inside = os.umask(0o077)
    leave.set()
    thread.join()
    assert inside == 0o077
