"""The parts of the documentation that are generated from the code, so that they cannot fall behind it.

A page asks for one with a line `<!-- generated: NAME -->`, NAME being a key of `PARTS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

PLACEHOLDER = re.compile(r"^<!-- generated: ([a-z-]+) -->$", re.M)


def fill(app: Any, page: str, source: list[str]) -> None:
    """Sphinx's `source-read`: replace each placeholder in a page by its Markdown."""
    source[0] = filled(source[0])


def filled(text: str) -> str:
    """The text of a page with its generated parts. Raises KeyError for a part that does not exist."""
    return PLACEHOLDER.sub(lambda found: PARTS[found[1]](), text)


PARTS: dict[str, Callable[[], str]] = {}
