"""Preflight checks keys: the form of the capture key, whose it is, and what the personal key may read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli import run
from pipeline.local_service import Settings
from tests.support.deliveries import planned
from tests.support.management_service import Asking, asking, key_with
from tests.support.preflight import function, look


@pytest.fixture(scope="module")
def ask() -> Iterator[Asking]:
    with asking() as found:
        yield found


@pytest.mark.parametrize(
    ("key", "level", "word"),
    [
        ("phx_test_personal", "stop", "personal key"),
        ("", "stop", "no capture key"),
        ("phc_two words", "stop", "shape"),
        ('"phc_test_a"', "stop", "quotes"),
        ("'phc_test_a'", "stop", "quotes"),
        ("phc_" + "a" * 61, "stop", "shape"),
        ("phc_tést", "stop", "shape"),
        ("test_a", "warning", "phc_"),
        ("phc_test_a", "ok", "shape"),
        (None, "unknown", "no capture key"),
    ],
)
def test_the_shape_of_a_capture_key(ask: Asking, key: str | None, level: str, word: str) -> None:
    """Keys that capture refuses, and keys that it would take as unknown, are reported before anything is sent."""
    found = look(ask.service.url, key=key, project="1")["capture_key"]
    assert found[0] == level
    assert word in found[1]
    assert not key or key not in found[1]


def test_the_command_stops_at_a_bad_key(ask: Asking, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key file with quotes around the key, as people often make it, is a stop, exit 4; `apply` refuses it too."""
    file, directory = tmp_path / "key", planned(tmp_path, 3)
    words = ["--to", ask.service.url, "--project-key-file", str(file)]
    for text in ('"phc_test_a"', "phx_test", "  \n"):
        file.write_text(text)
        assert run(["preflight", *words, "--json"]) == 4
        checks = {check["name"]: check["level"] for check in json.loads(capsys.readouterr().out)["checks"]}
        assert (checks["capture_key"], run(["apply", str(directory), *words])) == ("stop", 2)
    assert ask.service.count() == 0


def test_a_capture_key_is_shown_with_its_project(ask: Asking) -> None:
    """Of no project or of another one, as the project's own key proves; it says which of two projects is meant, and
    whether it exists."""
    found = look(ask.service.url, key="phc_test_nobody", project="1")["capture_key_project"]
    assert found == ("stop", "the capture key is not that of project A (1)")
    found = look(ask.service.url, key="phc_test_b", project="1")["capture_key_project"]
    assert found == ("stop", "the capture key is that of project B (2), not of project A (1)")
    assert look(ask.service.url, key="phc_test_b")["project"] == ("ok", "B (2)")
    level, detail = look(ask.service.url, key="phc_test_nobody")["project"]
    assert level == "unknown"
    assert "A (1), B (2)" in detail
    assert look(ask.service.url, project="77")["project"] == ("stop", "project 77 does not exist")


@pytest.mark.parametrize("behaviour", ["contract", "observed"])
def test_a_missing_scope_is_named(thirty: Path, behaviour: Any) -> None:
    """What a key may not read is unknown, with the scope; the other checks are made."""
    with asking(Settings(behaviour=behaviour)) as ask:
        ask.made(**function())
        none = look(ask.service.url, thirty, personal="phx_test_none", project="1")
        functions = look(ask.service.url, thirty, personal=key_with("hog_function:read"), project="1")
        project = look(ask.service.url, thirty, personal=key_with("project:read"), project="1")
    assert none["functions"] == ("unknown", "the personal key lacks the scope hog_function:read")
    assert none["capture_key_project"][0] == "unknown"
    assert functions["destination"][0] == "stop"
    assert functions["capture_key_project"][0] == "unknown"
    assert project["capture_key_project"][0] == "ok"
    assert project["functions"] == ("unknown", "the personal key lacks the scope hog_function:read")
    if behaviour == "observed":
        assert none["project"] == ("unknown", "the personal key lacks the scope project:read")
    assert not {level for level, _ in none.values()} & {"stop"}


@pytest.mark.parametrize("personal", ["phx_test_unknown", "phx_test_b", ""])
def test_a_personal_key_that_opens_nothing(ask: Asking, personal: str) -> None:
    """Refused: a stop. Of another project: unknown. Missing: unknown, and nothing is asked."""
    found = look(ask.service.url, personal=personal, project="1")
    expected = {"phx_test_unknown": "stop", "phx_test_b": "unknown", "": "unknown"}
    assert found["project"][0] == expected[personal]
    assert found["capture_key_project"][0] == "unknown"
