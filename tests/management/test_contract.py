"""The written contract (docs/know/service.md#management-api), row by row of `contract_table`, through the commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli import run
from pipeline.local_service import Settings
from tests.support import management_service
from tests.support.contract_table import FILTERS, MODELS, OPERATIONS, WRITABLE, contains
from tests.support.management_service import ALL, RECORDING, Asking, asking, key_without


@pytest.fixture(scope="session")
def ask() -> Asking:
    """A service that answers as the contract states."""
    return management_service.shared()


NO_FILE = {"type", "kind", "name", "description", "enabled", "deleted", "icon_url", "template_id", "execution_order",
           "_create_in_folder"}  # fmt: skip
"""Writable fields whose option is the value itself."""


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command against a service; its exit code, stdout and stderr."""

    def calling(ask: Asking, line: str, id: str = "", *, key: str = ALL) -> tuple[int, str, str]:
        monkeypatch.setenv("BACKCAST_PERSONAL_KEY", key)
        words = [word.replace("ID", id, 1) if word.startswith("ID") else word for word in line.split()]
        capfd.readouterr()
        code = run([*words, "--to", ask.service.url, "--project", "1", "--json"])
        return code, *capfd.readouterr()

    return calling


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_row_of_the_contract_through_its_command(ask: Asking, command: Any, name: str) -> None:
    """Exit 0 and the object that the contract names, all fields with their types; or exit 2 and the refusal's
    status."""
    row = OPERATIONS[name]
    if name == "delete recording":
        with asking() as fresh:
            code, out, err = command(fresh, row.command)
        assert (code, json.loads(out), err) == (0, {"id": RECORDING, "deleted": True}, "")
        return
    code, out, err = command(ask, row.command, ask.made(name="n", hog="return event")["id"])
    if row.status >= 400:
        assert (code, out, f"answered {row.status}" in err) == (2, "", True)
        return
    assert (code, err) == (0, "")
    said, kind = json.loads(out), MODELS[row.answer]
    if kind is not None:
        assert kind.model_validate(said).plain() == said
        assert {"id", "access_token", "results"} & set(said)


def test_the_installed_command_prints_the_same(ask: Asking, command: Any) -> None:
    """In a separate process, with the same exit code."""
    line, id = OPERATIONS["delete hog function"].command, ask.made(name="n", hog="return event")["id"]
    ran = subprocess.run(
        [sys.executable, "-m", "pipeline", *line.replace("ID", id).split(), "--to", ask.service.url, "--project", "1",
         "--json"],
        env=os.environ | {"BACKCAST_PERSONAL_KEY": ALL}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == command(ask, line, id)


def test_a_key_without_access_is_explained(ask: Asking, command: Any) -> None:
    """Which scope is missing, that it is wrong, or that it reaches another project: three errors of exit 5."""
    row = OPERATIONS["retrieve hog function"]
    id = ask.made(name="n")["id"]
    keys = (key_without(row.scope), "phx_test_no", "phx_test_b")
    found = [command(ask, row.command, id, key=key) for key in keys]
    assert [(code, out) for code, out, _ in found] == [(5, "")] * 3
    missing, wrong, elsewhere = (err for _, _, err in found)
    assert row.scope in missing.splitlines()[1]
    assert "answered 401" in wrong
    assert row.scope not in elsewhere
    assert "project" in elsewhere.splitlines()[1]


def test_every_writable_field_is_written_by_command(ask: Asking, command: Any, tmp_path: Path) -> None:
    """By create and by update, read back by get."""
    words = []
    for field, value in WRITABLE.items():
        option = value if isinstance(value, str) else json.dumps(value)
        (tmp_path / field).write_text(option, "utf-8")
        words.append(f"--{field} {option if field in NO_FILE else f'@{tmp_path}/{field}'}")
    for verb in ("create", "update ID"):
        code, out, err = command(ask, f"hog-functions {verb} {' '.join(words)}", ask.made(name="n")["id"])
        assert (code, err) == (0, "")
        read = json.loads(command(ask, "hog-functions get ID", json.loads(out)["id"])[1])
        assert [field for field, value in WRITABLE.items() if not contains(read[field], value)] == []


def test_every_filter_of_the_list_is_an_option(ask: Asking, command: Any) -> None:
    """The ten of 4.1, each alone and all together, select the one matching function."""
    one = ask.made(name="one", type="site_app", kind="only", enabled=True)
    two = ask.made(name="two", type="destination", kind="b", enabled=False)
    values = (
        one["created_at"], one["created_by"]["id"], "true", "b,c", one["id"], "only,x", 500, 0, "site_app,x",
        one["updated_at"],
    )  # fmt: skip
    words = {name: f"--{name} {value}" for name, value in zip(FILTERS, values, strict=True)}

    def found(*names: str) -> set[str]:
        code, out, err = command(ask, " ".join(["hog-functions list", *(words[name] for name in names)]))
        assert (code, err) == (0, "")
        return {item["id"] for item in json.loads(out)["results"]}

    assert found(*FILTERS) == {one["id"]}
    for name in FILTERS:
        seen = found(name, "limit")
        assert one["id"] in seen
        assert (two["id"] in seen) is (name in ("created_by", "limit", "offset")), name
    assert json.loads(command(ask, "hog-functions list --created_by 999")[1])["results"] == []


def test_other_shapes_of_the_service_as_it_was_seen_are_printed(command: Any) -> None:
    """Forms that its source has where the contract shows none (docs/know/service.md#hog-functions,
    #session-recordings)."""
    wanted = {
        "hog-functions broadcast ID --yes": {"success": True},
        f'recordings update {RECORDING} --data {{"viewed":true}}': {"success": True},
        "hog-functions logs ID": {"count": 0, "next": None, "previous": None, "results": []},
        "hog-functions totals ID": {"totals": {}},
    }
    with asking(Settings(behaviour="observed", broadcast="success")) as real:
        id = real.made(hog="h", type="transformation")["id"]
        assert {line: json.loads(command(real, line, id)[1]) for line in wanted} == wanted
        (moved,) = json.loads(command(real, "hog-functions rearrange ID=4", id)[1])
    assert (moved["id"], moved["execution_order"]) == (id, 4)
