"""Compiled page templates are stored beside them, and used only for what they were compiled from."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from jinja2 import Environment, FileSystemLoader

from pipeline.report.page.template_cache import TemplateCache


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


def test_stored_code_is_used_until_the_template_or_the_options_change(folder: Path) -> None:
    """What is stored is rendered; another text or other options are compiled again; so is what is damaged."""
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


def test_a_page_is_rendered_where_nothing_may_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a Python that writes no bytecode nor a folder that cannot be made is an error."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert render(folder) == "first"
    assert not list(folder.rglob("*.pyc"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (folder / "__pycache__").write_text("no folder")
    assert render(folder) == "first"
