"""What the documentation shows, runs: each page of docs/use from top to bottom, in one shell, in an empty directory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import doc_blocks
from tests.support.doc_blocks import ROOT

PRINTS = {
    "docs/use/quick-start.md": [
        r"looks like mixpanel",
        r"^State: rehearsed.*^Proved: ",
        r"^Dry run: .*4 events in 1 request.* 4 sent, 0 refused.* 0 sent, 0 refused, 4 sent before",
    ],
    "docs/use/jobs.md": [r"2024-01-01.*2024-01-02"],
}
"""What the blocks of a page print beside what the page shows."""


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
    printed = "".join(ran.printed.values())
    assert [text for text in PRINTS.get(name(page), ()) if not re.search(text, printed, re.M | re.S)] == []


@pytest.mark.parametrize("page", doc_blocks.pages(), ids=name)
def test_each_block_says_whether_it_runs(page: Path) -> None:
    """A page's shell and Python blocks run, or say why they do not; and no mark is misspelt."""
    assert doc_blocks.unclear(page) == []
