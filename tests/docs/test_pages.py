"""The commands and code in the documentation run, each page from top to bottom in one shell in an empty directory; and
it builds."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from pipeline.mapper import available
from tests.support import doc_blocks
from tests.support.doc_blocks import README, ROOT
from tests.support.required import require

PRINTS = {
    "docs/use/quick-start.md": [
        r"looks like mixpanel",
        r"^State: rehearsed.*^Proved: ",
        r"^Dry run: .*4 events in 1 request.* 4 sent, 0 refused.* 0 sent, 0 refused, 4 sent before",
    ],
    "docs/use/jobs.md": [r"2024-01-01.*2024-01-02"],
}
"""Lines that the blocks of a page print in addition to what the page shows."""


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


RUNNING = [page for page in doc_blocks.pages() if any(block.runs for block in doc_blocks.blocks(page))]


@pytest.mark.parametrize("page", RUNNING, ids=name)
def test_the_commands_of_a_page_run(page: Path, tmp_path: Path) -> None:
    """Each command ends with the exit code on the page, and prints what the page shows."""
    ran = doc_blocks.run(page, tmp_path / "empty")
    assert ran.exit_code == 0, f"after line {max(ran.printed, default=0)} of {page}:\n{ran.errors}"
    assert doc_blocks.differing_outputs(page, ran) == []
    printed = "".join(ran.printed.values())
    assert [text for text in PRINTS.get(name(page), ()) if not re.search(text, printed, re.M | re.S)] == []


@pytest.mark.parametrize("page", doc_blocks.pages(), ids=name)
def test_each_block_says_whether_it_runs(page: Path) -> None:
    """A page's shell and Python blocks run, or say why they do not; and no mark is misspelt."""
    assert doc_blocks.unclear(page) == []


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
    """Each block says whether it runs, every shipped mapping is named; longer explanations have a page of their own."""
    assert doc_blocks.unclear(README) == []
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    assert [name for name in available() if f"`{name}`" not in text] == []


def build(docs: Path, to: Path, builder: str) -> subprocess.CompletedProcess[str]:
    require(find_spec("sphinx") is not None, "Sphinx is not installed: pip install 'backcast[docs]'")
    command = [sys.executable, "-m", "sphinx", "-q", "-E", "-W", "--keep-going", "-b", builder, "-d", str(to / "trees")]
    command += [str(docs), str(to / "site")]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_every_page_is_read_without_a_warning(tmp_path: Path) -> None:
    """Each page but README.md, which is about the pages, is read, and every reference of it is resolved."""
    built = build(ROOT / "docs", tmp_path, "dummy")
    assert built.returncode == 0, built.stderr
    sources = [page for page in (ROOT / "docs").rglob("*.md") if page.name != "README.md"]
    pages = {page.relative_to(ROOT / "docs").with_suffix("") for page in sources}
    read = {page.relative_to(tmp_path / "trees").with_suffix("") for page in (tmp_path / "trees").rglob("*.doctree")}
    assert pages - read == set()


def test_dead_links_fail_the_build(tmp_path: Path) -> None:
    """Each link to a missing page or heading is an error that names it, in README.md too; the page itself is
    written."""
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in ("conf.py", "generate.py", "links.py", "_static"):
        (docs / name).symlink_to(ROOT / "docs" / name)
    links = "[a](nowhere.md) [b](#no-such-heading) [c](other.md#no-such-section) [d](other.md#a-part)"
    (docs / "index.md").write_text(f"# Page\n\n{links}\n\n```{{toctree}}\nother\n```\n", encoding="utf-8")
    (docs / "other.md").write_text("# Other\n\n## A part\n", encoding="utf-8")
    links = "[e](docs/none.md)\n[f](docs/other.md#no-such-part) [g](#no-such-place) [h](docs/other.md#a-part)"
    (tmp_path / "README.md").write_text(f"# Read\n\n{links}\n", encoding="utf-8")
    built = build(docs, tmp_path, "html")
    assert (built.returncode, (tmp_path / "site/index.html").exists()) == (1, True)
    dead = ("nowhere.md", "no-such-heading", "no-such-section", "docs/none.md", "no-such-part", "no-such-place")
    assert [name for name in dead if name not in built.stderr] == []
    assert "README.md:4" in built.stderr
    assert built.stderr.count("WARNING") == len(dead), built.stderr


def test_a_page_for_users_is_short() -> None:
    """A longer page has two subjects, or lists what the generated reference has."""
    lengths = {name(page): len(page.read_text(encoding="utf-8").splitlines()) for page in doc_blocks.pages()}
    assert {page: lines for page, lines in lengths.items() if lines > 250} == {}
