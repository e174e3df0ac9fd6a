"""How `make docs` builds the site: Markdown read by MyST, the furo theme, and parts generated from the code."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))
import generate
import links

project = "backcast"
author = "the authors of backcast"
version = release = installed("backcast")

extensions = ["myst_parser"]
myst_heading_anchors = 4
root_doc = "index"
smartquotes = False  # it would make one dash of the two before an option
exclude_patterns = ["README.md"]

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = "backcast"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False


def setup(app: Sphinx) -> None:
    app.connect("source-read", generate.fill)
    app.connect("env-check-consistency", links.check)
