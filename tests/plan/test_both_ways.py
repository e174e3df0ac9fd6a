"""Whatever a plan counts is the same in worker processes, and if Python does the work of the C part."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.native import AVAILABLE
from pipeline.options import PlanOptions
from tests.golden.samples import AS_OF, SAMPLES
from tests.plan import test_coverage, test_unmatched

PLANS = """
import json, sys
import pipeline
from pipeline.options import PlanOptions
for source, place, asked in json.load(sys.stdin):
    pipeline.plan_export(source, place, PlanOptions(**asked))
"""


def counted(place: Path) -> tuple[Any, ...]:
    """Coverage and checks of a plan, its drift month by month, and the digest that seals all of it."""
    plan = json.loads((place / "plan.json").read_bytes())
    return plan["coverage"], plan["gates"], (place / "drift.jsonl").read_bytes(), plan["digest"]


@pytest.mark.skipif(not AVAILABLE, reason="there is no C part to compare with")
def test_workers_and_the_c_part_change_nothing(tmp_path: Path) -> None:
    """To the letter, for rows of all outcomes, references that few rows have, and a sample."""
    odd = [
        {**row, "naïve\n": None, "properties": {f"p{n}": n, "x": {"y": n}}}
        for n, row in enumerate(test_unmatched.rows(60))
    ]
    odd += test_unmatched.rows(3, properties='{"z": 1}')
    sets = "{a: p6O, b: naive, c: /naïv, d: /properties/x/Y, e: /properties/Z}"
    texts = {"shop": test_coverage.SHOP}
    texts["odd"] = f"{test_unmatched.MAPPING}properties:\n  open: /properties\n  set: {sets}\n"
    sources = {"shop": test_coverage.written(tmp_path), "odd": test_unmatched.written(tmp_path / "odd", "jsonl", odd)}
    sources["amplitude"] = SAMPLES / "amplitude"
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text, "utf-8")
    work = []
    for name, source in sources.items():
        mapping = {"mapping": str(tmp_path / f"{name}.yaml"), "max_rejects": "100%"} if name in texts else {}
        asked = {"as_of": AS_OF, "workers": 0, **mapping}
        work.append((str(source), str(tmp_path / f"{name}-python"), asked))
        for workers in (0, 2) if name == "shop" else (0,):
            pipeline.plan_export(source, tmp_path / f"{name}-{workers}", PlanOptions(**asked | {"workers": workers}))
    subprocess.run(
        [sys.executable, "-c", PLANS], input=json.dumps(work), text=True, check=True,
        env=os.environ | {"BACKCAST_NATIVE": "0"},
    )  # fmt: skip
    for name in sources:
        assert counted(tmp_path / f"{name}-python") == counted(tmp_path / f"{name}-0"), name
    assert counted(tmp_path / "shop-2") == counted(tmp_path / "shop-0")
    assert counted(tmp_path / "odd-0")[1][0]["detail"].startswith("5 references of the mapping are in no row")
    assert counted(tmp_path / "amplitude-0")[2].count(b"\n") > 50
