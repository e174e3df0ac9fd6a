"""No file of a plan can be changed unnoticed: every reader says which one was, before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

import pipeline
from pipeline.errors import StalePlan
from pipeline.options import RehearseOptions
from pipeline.plan.sealed.freshness import open_plan
from tests.support.deliveries import planned, run
from tests.support.verification import PERSONAL, empty

FILES = (
    "identities.jsonl", "identities.parquet", "groups.jsonl", "persons.jsonl",
    "cells.jsonl", "drift.jsonl", "source-pairs.jsonl", "rejects.jsonl", "excluded-ids.txt",
    "requests.jsonl", "requests/identities.pack", "requests/events-00000.pack", "facts/00000.parquet",
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
    """A copy of the plan in which one file was changed or removed."""
    directory = tmp_path / f"{name.replace('/', '-')}-{gone}"
    copytree(made, directory)
    path = directory / name
    path.unlink() if gone else path.write_bytes(path.read_bytes() + b"\n")
    return directory


def test_apply_refuses_a_changed_file_and_names_it(made: Path, tmp_path: Path) -> None:
    """Exit 4, with the file in the message and among the differences, and nothing is sent. The list has all sealed
    files: a new one has to be added."""
    plan, _ = open_plan(made)
    assert {*plan.files, "excluded-ids.txt"} == set(FILES)
    room = empty()
    for name, gone in product(plan.files, (False, True)):
        directory = changed(made, tmp_path, name, gone)
        with pytest.raises(StalePlan) as told:
            run(directory, room.url, key=room.key())
        assert str(directory / name) in told.value.message
        assert [one.split(":")[0] for one in told.value.differences] == [name]
        assert not (directory / "ledger.sqlite").exists()
    assert room.count() == 0


@pytest.mark.parametrize("name", ["cells.jsonl", "identities.jsonl"])
def test_preflight_believes_no_changed_file(
    made: Path, tmp_path: Path, name: str, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the command nor an apply counts days or merges from a file that is not the sealed one."""
    directory, room = changed(made, tmp_path, name), empty()
    monkeypatch.setenv("BACKCAST_PROJECT_KEY", room.key())
    monkeypatch.setenv("BACKCAST_PERSONAL_KEY", PERSONAL)
    for command in ("preflight", "apply"):
        said = call(command, directory, "--to", room.url)
        assert said.code == 4
        assert f"{directory / name} was changed" in said.err


def test_what_writes_the_report_refuses_it_too(made: Path, tmp_path: Path) -> None:
    """Verify and rehearse check every seal first; the report that a person signs off does not change."""
    room, sent = empty(), tmp_path / "sent"
    copytree(made, sent)
    run(sent, room.url, key=room.key())
    for number, name in enumerate(["identities.jsonl", *READ_BY_THE_REPORT]):
        directory = changed(sent, tmp_path, name)
        before = (directory / "report.html").read_bytes()
        looks: tuple[Callable[[], object], ...] = (
            lambda: pipeline.rehearse_plan(directory, RehearseOptions()),  # noqa: B023
            lambda: pipeline.verify_plan(directory, room.url, personal_key=PERSONAL),  # noqa: B023
        )
        with pytest.raises(StalePlan, match=name):
            looks[number % 2]()
        assert (directory / "report.html").read_bytes() == before
