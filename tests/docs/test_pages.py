"""What the documentation shows, runs: each page of docs/use from top to bottom, in one shell, in an empty directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import doc_blocks
from tests.support.doc_blocks import ROOT

MARKS = {"": False, "output": False, "exit": True, "file": True, "not run": True}
"""Each mark, and whether it needs a value."""


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


RUNNING = [page for page in doc_blocks.pages() if any(block.runs for block in doc_blocks.blocks(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNNING, ids=name)
def test_the_commands_of_a_page_run(page: Path, tmp_path: Path) -> None:
    """Each command ends with the code that the page says, and prints what the page shows."""
    ran = doc_blocks.run(page, tmp_path / "empty")
    assert ran.exit_code == 0, f"after line {max(ran.printed, default=0)} of {page}:\n{ran.errors}"
    assert doc_blocks.differing_outputs(page, ran) == []


@pytest.mark.parametrize("page", doc_blocks.pages(), ids=name)
def test_each_block_says_whether_it_runs(page: Path) -> None:
    """A page's shell and Python blocks run, or say why they do not; and no mark is misspelt."""
    for block in doc_blocks.blocks(page):
        assert block.mark in MARKS, f"{page}:{block.line}: unknown mark {block.mark!r}"
        assert bool(block.value) == MARKS[block.mark], f"{page}:{block.line}: {block.mark!r} needs a value, or has one"
        assert block.language not in ("", "bash", "shell", "console", "py"), f"{page}:{block.line}: name it sh or text"
