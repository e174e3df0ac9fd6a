"""No file of a plan can be changed behind its seal: whoever reads it says which one, before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest

import pipeline
from pipeline import cli
from pipeline.errors import StalePlan
from pipeline.options import RehearseOptions
from pipeline.plan.sealed.freshness import open_plan
from tests.support.deliveries import planned, run
from tests.support.management_service import ALL, asking

pytestmark = pytest.mark.slow

A = "phc_test_a"
FILES = (
    "blocks.jsonl", "copies.jsonl", "identities.jsonl", "identities.parquet", "groups.jsonl", "persons.jsonl",
    "cells.jsonl", "drift.jsonl", "source-pairs.jsonl", "rejects.jsonl", "excluded-ids.txt",
)  # fmt: skip
READ_BY_THE_REPORT = ("cells.jsonl", "identities.parquet", "rejects.jsonl", "source-pairs.jsonl")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan with merges and with people who asked to be forgotten."""
    folder = tmp_path_factory.mktemp("sealed")
    forgotten = folder / "forgotten.txt"
    forgotten.write_text("nobody\n")
    return planned(folder, 30, links=True, exclude_ids=forgotten)


def changed(made: Path, tmp_path: Path, name: str, gone: bool = False) -> Path:
    """A copy of the plan in which one file is another, or is missing."""
    copytree(made, tmp_path / "plan")
    path = tmp_path / "plan" / name
    path.unlink() if gone else path.write_bytes(path.read_bytes() + b"\n")
    return tmp_path / "plan"


def test_these_are_all_the_files_that_are_sealed(made: Path) -> None:
    """A new one has to come into this list."""
    plan, _ = open_plan(made)
    assert {*plan.files, "excluded-ids.txt"} == set(FILES)


@pytest.mark.parametrize("gone", [False, True], ids=["changed", "gone"])
@pytest.mark.parametrize("name", FILES)
def test_apply_refuses_it_and_names_the_file(made: Path, tmp_path: Path, name: str, gone: bool) -> None:
    """Exit 4, with the file in the message and among the differences, and nothing is sent."""
    directory = changed(made, tmp_path, name, gone)
    with asking() as ask:
        with pytest.raises(StalePlan) as told:
            run(directory, ask.service.url, key=A)
        assert ask.service.count() == 0
    assert str(directory / name) in told.value.message
    assert [one.split(":")[0] for one in told.value.differences] == [name]
    assert not (directory / "ledger.sqlite").exists()


@pytest.mark.parametrize("name", ["cells.jsonl", "identities.jsonl"])
def test_preflight_believes_no_changed_file(
    made: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither as a command nor before an apply does it count days or merges of a file that is not the sealed one."""
    directory = changed(made, tmp_path, name)
    monkeypatch.setenv("BACKCAST_PROJECT_KEY", A)
    monkeypatch.setenv("BACKCAST_PERSONAL_KEY", ALL)
    with asking() as ask:
        for command in ("preflight", "apply"):
            assert cli.run([command, str(directory), "--to", ask.service.url]) == 4
            assert f"{directory / name} was changed" in capsys.readouterr().err


@pytest.mark.parametrize("look", ["verify", "rehearse"])
@pytest.mark.parametrize("name", ["identities.jsonl", *READ_BY_THE_REPORT])
def test_what_writes_the_report_refuses_it_too(made: Path, tmp_path: Path, name: str, look: str) -> None:
    """Verify and rehearse look at every seal first; the report that a person signs off stays as it was."""
    directory = changed(made, tmp_path, name)
    before = (directory / "report.html").read_bytes()
    looks: dict[str, Callable[[], object]] = {
        "verify": lambda: pipeline.verify_plan(directory, "http://127.0.0.1:1", personal_key="phx_test"),
        "rehearse": lambda: pipeline.rehearse_plan(directory, RehearseOptions(workers=0)),
    }
    with pytest.raises(StalePlan, match=name):
        looks[look]()
    assert (directory / "report.html").read_bytes() == before
