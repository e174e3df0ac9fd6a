"""The receipt of a job: what each plan of its windows states, their sums, and a check that notices every change."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pipeline import api
from pipeline.errors import UsageError
from pipeline.jobs.receipt import check_any_receipt
from pipeline.local_service import LocalService
from pipeline.options import ReceiptOptions
from tests.proof.test_receipt import edited, keys
from tests.support.commands import in_process
from tests.support.jobs import KEYS, OWN, days, put, row, run, write_job

CHECKS = (
    "file", "signature", "rows", "events", "verification", "inputs", "plan", "ledger", "results", "sums", "job",
    "uuids",
)  # fmt: skip


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a job: two windows, a late file with one new row, and a window all of whose rows were settled."""
    folder = tmp_path_factory.mktemp("done")
    rows = days(folder, 1, 2)
    put(folder, 3, rows[:5])
    with LocalService(keys=KEYS) as service:
        job = write_job(folder, service.url, until="2024-01-04", lookback="2")
        run(job, personal_key=OWN)
        put(folder, 2, [row(2, 0), row(2, 77)], "late.jsonl")
        run(job, personal_key=OWN)
    return folder


@pytest.fixture
def state(done: Path, tmp_path: Path) -> Iterator[Path]:
    """The state of that job; each test finds it as it was, whatever the previous one did."""
    shutil.copytree(done, tmp_path / "kept")
    yield done / "state/nightly"
    shutil.rmtree(done)
    shutil.move(tmp_path / "kept", done)


def failed(file: Path, **options: Any) -> set[str]:
    return {check for check, result in results(file, **options).items() if result == "failed"}


def results(file: Path, **options: Any) -> dict[str, str]:
    return {check.name: check.result for check in check_any_receipt(file, **options).checks}


def test_a_receipt_of_a_job_is_checked_against_all_that_it_names(tmp_path: Path, done: Path, state: Path) -> None:
    """Each plan against its ledger, the export by its paths from the job file, the uuids against the state."""
    key, public = keys(tmp_path / "keys")
    receipt = api.write_job_receipt(state, ReceiptOptions(sign=key))
    assert [(one.window, one.number, one.proof) for one in receipt.plans] == [
        ("2024-01-01", 1, "proved"), ("2024-01-02", 1, "proved"), ("2024-01-03", 1, ""), ("2024-01-02", 2, "proved"),
    ]  # fmt: skip
    sums = receipt.sums
    assert (sums.rows, sums.mapped, sums.skipped, sums.settled, receipt.uuids) == (27, 21, 6, 21, 21)
    assert (sums.plans, sums.proved) == (4, 4)
    assert receipt.plans[0].inputs[0].path == "exports/2024/01/01/a.jsonl"
    every = dict.fromkeys(CHECKS, "ok")
    file = state / "receipt.json"
    assert results(file, source_root=done, public_key=public) == every
    assert results(file) == every | {"inputs": "not checked", "signature": "not checked"}
    alone = tmp_path / "alone.json"
    alone.write_bytes(file.read_bytes())
    beside = ("inputs", "plan", "ledger", "results", "job", "uuids")
    assert results(alone, public_key=public) == every | dict.fromkeys(beside, "not checked")


def test_every_change_of_a_job_is_noticed(done: Path, state: Path) -> None:
    """A change of the receipt, an export, a ledger, or the state."""
    file = state / "receipt.json"
    said = in_process("receipt", "write", state)
    assert said.returncode == 0, said.stderr
    assert "3 windows, 4 plans, 27 rows: 21 of 21 planned events settled" in " ".join(said.stdout.split())
    assert in_process("receipt", "check", file, "--source-root", done).returncode == 0
    whole = file.read_text()
    edits: list[tuple[set[str], Callable[[dict[str, Any]], Any]]] = [
        ({"events", "ledger"}, lambda content: content["plans"][1]["sending"]["phases"]["events"].update(planned=11)),
        ({"results", "sums", "job"}, lambda content: content["plans"][1].update(verification=None)),
        ({"plan"}, lambda content: content["plans"][1]["plan"].update(digest="0" * 64)),
        ({"plan"}, lambda content: content["plans"][1]["inputs"][0].update(path="exports/b.jsonl")),
        ({"ledger"}, lambda content: content["plans"][1]["sending"].update(digest="0" * 64)),
        ({"plan", "job"}, lambda content: content["plans"][1].update(window="../../plan")),
        ({"job"}, lambda content: content.update(target="http://127.0.0.1:9")),
        ({"job"}, lambda content: content["plans"][0].update(ended="2024-01-01T00:00:00Z")),
        ({"job"}, lambda content: content["windows"][0].update(state="open")),
        ({"job"}, lambda content: content["windows"].clear()),
        ({"job"}, lambda content: content["plans"][2].update(proof="proved")),
        ({"job"}, lambda content: content["unproved"].clear()),
        ({"rows", "plan", "sums"}, lambda content: content["plans"][1]["plan"]["rows"].pop("read")),
        ({"ledger"}, lambda content: content["plans"][1]["sending"]["resolved_doubts"].clear()),
        ({"job", "sums"}, lambda content: content["plans"].pop()),
        ({"sums"}, lambda content: content["sums"].update(refused=1)),
        ({"uuids"}, lambda content: content.update(uuids_sha256="0" * 64)),
    ]
    for failing, change in edits:
        edited(file, change)
        assert failed(file) - {"sums"} == failing - {"sums"}
        assert "sums" not in failing or "sums" in failed(file)
        file.write_text(whole)
    file.write_text(whole)
    (done / "exports/2024/01/02/late.jsonl").write_text("{}\n")
    with closing(sqlite3.connect(state / "state.sqlite")) as database, database:
        database.execute("delete from settled where uuid = (select min(uuid) from settled)")
    assert failed(file, source_root=done) == {"inputs", "uuids"}


def test_a_job_that_ran_again_has_more_than_its_receipt(tmp_path: Path) -> None:
    """A run that sends nothing new fails no check; what it may have changed is not checked. The same holds for a moved
    job."""
    days(tmp_path, 1)
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url, until="2024-01-04")
        run(job, personal_key=OWN)
        file = tmp_path / "state/nightly/receipt.json"
        api.write_job_receipt(file.parent)
        edited(file, lambda content: content.update(written="2024-01-01T00:00:00Z"))
        assert failed(file) == set()
        assert [name for name, result in results(file).items() if result == "not checked"] == [
            "signature", "inputs", "job",
        ]  # fmt: skip
        put(tmp_path, 2, [row(2, 5)])
        run(job, personal_key=OWN)
    assert failed(file) == {"uuids"}
    api.write_job_receipt(file.parent)
    (tmp_path / "state/nightly").rename(tmp_path / "moved")
    assert set(results(tmp_path / "moved/receipt.json", source_root=tmp_path).values()) == {"ok", "not checked"}
    (tmp_path / "moved/windows").rename(tmp_path / "windows")
    (tmp_path / "moved/windows").symlink_to(tmp_path / "windows")
    assert "is a symlink" in next(
        one.detail for one in check_any_receipt(tmp_path / "moved/receipt.json").checks if one.name == "plan"
    )


def test_an_event_that_two_plans_settled_fails_the_sums(state: Path) -> None:
    """The number of settled events equals the number of uuids, or the receipt says that it does not."""
    with closing(sqlite3.connect(state / "state.sqlite")) as database, database:
        database.execute("delete from settled where uuid = (select min(uuid) from settled)")
    api.write_job_receipt(state)
    (found,) = (one for one in check_any_receipt(state / "receipt.json").checks if one.name == "sums")
    assert (found.result, found.detail) == ("failed", "21 events were settled, under 20 uuids")


def test_what_a_job_cannot_prove_is_stated_with_its_windows(tmp_path: Path, service: LocalService) -> None:
    """A window without files, a stopped one, and one that was not read back; a folder without a job has no receipt."""
    with pytest.raises(UsageError, match="contains no state of a job"):
        api.write_job_receipt(tmp_path)
    days(tmp_path, 1)
    put(tmp_path, 3, [row(3, 1, distinct_id="")])
    run(write_job(tmp_path, service.url, until="2024-01-04"))
    unproved = api.write_job_receipt(tmp_path / "state/nightly").unproved
    assert unproved[:2] == [
        "That anything of them was exported: they have no files. 1 window: 2024-01-02.",
        "That all of them was sent: they are stopped. 1 window: 2024-01-03.",
    ]
    assert "That anything landed: the target was not compared with the ledger." in unproved
