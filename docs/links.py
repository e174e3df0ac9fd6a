"""Checks the links of README.md and docs/README.md, which are read on their own and are no pages of the site.

Sphinx itself checks the links between the pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.util import logging

LINK = re.compile(r"\]\((?!https?:|mailto:)(?P<file>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")


def check(app: Any, env: Any) -> None:
    """Sphinx's `env-check-consistency`: warn of each link that leads nowhere, which `make docs` takes as an error."""
    docs = Path(app.srcdir)
    for page in (docs.parent / "README.md", docs / "README.md"):
        if page.is_file():
            for line, problem in dead(page, docs, env):
                logging.getLogger(__name__).warning(problem, location=f"{page}:{line}", type="links")


def dead(page: Path, docs: Path, env: Any) -> Iterator[tuple[int, str]]:
    """Line and description of each link of a page to a file or a heading that does not exist.

    Only the anchors that GitHub makes of headings count: the labels that MyST adds do not work there.
    """
    text = page.read_text(encoding="utf-8")
    for found in LINK.finditer(text):
        target = (page.parent / found["file"]).resolve() if found["file"] else page
        line = text.count("\n", 0, found.start()) + 1
        if not target.exists():
            yield line, f"{found['file']} does not exist"
        elif found["anchor"] and found["anchor"] not in _headings(target, docs, env):
            yield line, f"{found['file'] or page.name} has no heading #{found['anchor']}"


def _headings(target: Path, docs: Path, env: Any) -> Any:
    """The anchors of the headings of a page of the site; of any other file, none."""
    try:
        name = target.relative_to(docs.resolve()).with_suffix("").as_posix()
    except ValueError:
        return ()
    return env.metadata.get(name, {}).get("myst_slugs", ())
