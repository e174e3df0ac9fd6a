"""Requests made from the service's own OpenAPI document: none is a server error, none breaks the document."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.local_service.settings import preset
from tests.support.management_service import ALL, asking

LEAST, LEAST_OF_ALL = 200, 3_000
"""The least number of cases in a run, and one with the bodies of every operation: its size is limited by their count,
never by time, so that a slow machine tests the same as a quick one. (With `--max-time`, schemathesis makes examples
until it is over.)"""
DEADLINE_S = 900
"""A run that hangs is ended; alone on the machine it takes a few seconds."""
COMMAND = "from schemathesis.cli import schemathesis; schemathesis()"
SETTINGS = f"""
[auth.openapi.personalKey]
bearer = "{ALL}"

[generation]
allow-x00 = false
max-examples = 4
no-shrink = true
deterministic = true

[phases.coverage]
unexpected-methods = ["PUT", "DELETE"]

[phases.stateful]
enabled = false

[parameters]
project_id = "1"

# It refuses, as it should.
[[operations]]
include-operation-id = "hog_functions_delete"
checks.positive_data_acceptance.expected-statuses = [405]

# What a schema cannot say: SQL, ids that exist.
[[operations]]
include-operation-id-regex = "(rearrange|query)$"
checks.positive_data_acceptance.enabled = false

{{apart}}"""
APART = """
# Most of them have the body of a whole hog function: `make soak` tries all in every detail.
[[operations]]
include-operation-id-regex = "hog_functions_(?!list)"
phases.coverage.enabled = false

"""


@pytest.mark.skipif(importlib.util.find_spec("schemathesis") is None, reason="schemathesis is not installed")
def test_the_service_keeps_to_its_document(tmp_path: Path) -> None:
    """All operations of the contract, right and wrong requests alike, in a program of its own over a real socket."""
    asked = SETTINGS.replace("{apart}", APART)
    assert cases(tmp_path, asked.replace("max-examples = 4", "max-examples = 1")) > LEAST


def cases(folder: Path, asked: str) -> int:
    """How many cases these settings make; all have passed."""
    settings = folder / "schemathesis.toml"
    settings.write_text(asked)
    with asking(preset("contract")) as ask:
        ask.made(hog="return event")
        ran = subprocess.run(
            [sys.executable, "-c", COMMAND, "--config-file", str(settings), "run", f"{ask.service.url}/openapi.json",
             "--phases", "coverage,fuzzing", "--warnings", "off", "--no-color"],
            cwd=folder, capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]
    generated = re.search(r"(\d+) generated, \1 passed", ran.stdout)
    assert generated is not None, ran.stdout[-8000:]
    return int(generated[1])
