"""The README's blocks run as they stand, in `sh`, in an empty directory; tests/docs does the same for docs/use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline.mapper import available
from tests.support import doc_blocks
from tests.support.doc_blocks import README, ROOT


@pytest.mark.slow
def test_the_readme_runs_as_it_stands(tmp_path: Path) -> None:
    """The quick start plans, rehearses, applies and verifies, and prints what it should."""
    ran = doc_blocks.run(README, tmp_path / "empty")
    assert ran.exit_code == 0, ran.errors
    assert doc_blocks.differing_outputs(README, ran) == []
    (printed,) = ran.printed.values()
    assert "Plan: 3 events to send, from 3 of 4 rows in 1 file; 1 skipped, 0 rejected." in printed
    assert printed.count("Proved: every event that was settled was found once.") == 2
    assert re.search(r"^State: rehearsed.*^State: sent$.*^State: verified$", printed, re.M | re.S)


def test_the_readme_is_short_and_complete() -> None:
    """Each block says whether it runs, each link leads somewhere, every shipped mapping is named; what needs more room
    has a page."""
    assert doc_blocks.unclear(README) == []
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", README.read_text(encoding="utf-8"))
    assert len(links) > 10
    assert [link for link in links if not link.startswith("https://") and not (ROOT / link).exists()] == []
    text = README.read_text(encoding="utf-8")
    assert [name for name in available() if f"`{name}`" not in text] == []
