"""Compiled page templates are stored next to them, and used only for the source from which they were compiled."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from jinja2 import Environment, FileSystemLoader

from pipeline.report.page.html import TemplateCache


def render(folder: Path, options: str = "") -> str:
    engine = Environment(loader=FileSystemLoader(folder), bytecode_cache=TemplateCache(options), autoescape=True)
    return engine.get_template("one.html.j2").render()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a template, in a process that may write bytecode where it is looked for first."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    (tmp_path / "one.html.j2").write_text("first")
    return tmp_path


def test_stored_code_is_used_for_what_it_was_compiled_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored code is rendered; a changed source, other options or damage are compiled again; if nothing may be written,
    a page is rendered nevertheless."""
    assert render(folder) == "first"
    (stored,) = folder.rglob("*.pyc")
    stored.write_bytes(stored.read_bytes().replace(b"first", b"FIRST"))
    assert render(folder) == "FIRST"
    assert render(folder, "other options") == "first"
    stored.write_bytes(stored.read_bytes()[:90])
    assert render(folder, "other options") == "first"
    (folder / "one.html.j2").write_text("second")
    assert render(folder) == "second"
    assert list(folder.rglob("*.pyc")) == [stored]
    shutil.rmtree(folder / "__pycache__")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert (render(folder), list(folder.rglob("*.pyc"))) == ("second", [])
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (folder / "__pycache__").write_text("no folder")
    assert render(folder) == "second"
