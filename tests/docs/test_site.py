"""The documentation builds as strictly as `make docs` builds it: no dead link, orphaned page or other warning."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.required import require

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent


def build(docs: Path, to: Path, builder: str) -> subprocess.CompletedProcess[str]:
    require(find_spec("sphinx") is not None, "Sphinx is not installed: pip install 'backcast[docs]'")
    command = [sys.executable, "-m", "sphinx", "-q", "-E", "-W", "--keep-going", "-b", builder, "-d", str(to / "trees")]
    return subprocess.run(
        [*command, str(docs), str(to / "site")], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


def test_every_page_is_read_without_a_warning(tmp_path: Path) -> None:
    """Each page but README.md, which is about the pages, is read, and every reference of it is resolved."""
    built = build(ROOT / "docs", tmp_path, "dummy")
    assert built.returncode == 0, built.stderr
    sources = [page for page in (ROOT / "docs").rglob("*.md") if page.name != "README.md"]
    pages = {page.relative_to(ROOT / "docs").with_suffix("") for page in sources}
    read = {page.relative_to(tmp_path / "trees").with_suffix("") for page in (tmp_path / "trees").rglob("*.doctree")}
    assert pages - read == set()


def test_dead_links_fail_the_build(tmp_path: Path) -> None:
    """Each link to a page or a heading that does not exist is an error that names it; the page itself is written."""
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in ("conf.py", "generate.py", "_static"):
        (docs / name).symlink_to(ROOT / "docs" / name)
    (docs / "index.md").write_text("# Page\n\n[there](nowhere.md)\n[there](#no-such-heading)\n", encoding="utf-8")
    built = build(docs, tmp_path, "html")
    assert (built.returncode, (tmp_path / "site/index.html").exists()) == (1, True)
    assert "nowhere.md" in built.stderr
    assert "no-such-heading" in built.stderr
