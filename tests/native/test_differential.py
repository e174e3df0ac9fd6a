"""What is planned and sent does not depend on whether there is a compiler: mutated exports of every tool, both ways."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.native import AVAILABLE
from tests.support.commands import in_process, process
from tests.support.differential import FILE_ROWS, SETTINGS, compared, content_of

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="backcast was installed without a compiler")


def agree(rows: int, seed: int) -> None:
    """Compare this many rows, and check that there were rows of every kind."""
    wrong, counts = compared(rows, seed)
    assert wrong == []
    assert counts["rows"] > 0.7 * rows
    assert 0.1 * rows < counts["mapped"] < 0.9 * rows
    assert counts["warnings"] > 0.05 * rows


def test_native_and_python_agree_on_mutated_exports_of_every_tool() -> None:
    """Events, bodies, counts, warnings with their places, rejects, keys, and what is gathered: all the same.

    `make soak` compares 5,000 more rows, `make sanitize` 20,000, and `make differential` 200,000.
    """
    agree(len(SETTINGS) * FILE_ROWS, 1_000_000)


def test_a_plan_has_one_digest_with_a_compiler_and_without(tmp_path: Path) -> None:
    """Also if rows are broken and integers are large: what is sealed does not depend on the machine."""
    _, content = content_of(len(SETTINGS) * 3)  # of Mixpanel
    content += b'12345678901234567890\n{"event":"Seen","properties":{"a":12345678901234567890\n\n12345678901234567891\n'
    export = tmp_path / "export.jsonl"
    export.write_bytes(content)
    plans = []
    for native, run in (("1", in_process), ("0", process)):
        words = ("plan", export, "-m", "mixpanel", "--timezone", "UTC", "--as-of", "2024-01-01T00:00:00Z", "--json")
        made = run(*words, "-o", tmp_path / native, env={"BACKCAST_NATIVE": native})
        assert made.returncode in (0, 4), made.stderr
        plan = json.loads(made.stdout)
        del plan["plan"]
        for gate in plan["gates"]:
            gate.pop("command", None)  # it names the folder of the plan
        plans.append(plan)
    assert plans[0] == plans[1]
