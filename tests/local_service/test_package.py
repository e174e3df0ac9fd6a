"""The package of the local service leans on no other room, and is cheap to import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

SHARED = ("pipeline.local_service", "pipeline.management.models", "pipeline.charts")
"""Itself, the objects of the contract, and the drawing of counts."""


def test_trusts_nothing_of_the_package() -> None:
    """No file of the service imports another room of the package."""
    import pipeline.local_service

    root = Path(pipeline.local_service.__file__).parent
    files = list(root.rglob("*.py"))
    assert len({file.parent for file in files}) > 3
    for file in files:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [] if node.level else [node.module or ""]
                assert node.level <= len(file.relative_to(root).parts), file
            assert [name for name in names if name.startswith("pipeline") and not name.startswith(SHARED)] == [], file


def test_is_cheap_to_import() -> None:
    """Importing the package loads neither the web server nor the database."""
    code = (
        "import pipeline.local_service, sys; print([m for m in ('duckdb', 'uvicorn', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
