"""`backcast demo`: every sample planned, rehearsed and proved, offline and without keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline import demo
from pipeline.cli import run
from pipeline.demo import SAMPLES, Sample
from pipeline.options import PlanOptions


def test_the_demo_proves_every_sample(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sample is proved, its report exists, and a second demo replaces the first, which shows people what it does
    with one small sample, and that there is no C part."""
    for key in ("BACKCAST_PROJECT_KEY", "BACKCAST_PERSONAL_KEY"):
        monkeypatch.delenv(key, raising=False)
    output = tmp_path / "demo"
    with pytest.MonkeyPatch.context() as fewer:
        fewer.setattr(demo, "SAMPLES", [Sample("few", "june", PlanOptions(mapping="june"))])
        fewer.setattr("pipeline.native.WHY_NOT", "it was not compiled")
        assert run(["demo", "-o", str(output)]) == 0
    shown, note = capfd.readouterr()
    begins = [line.split()[:2] for line in shown.splitlines()[:4]]
    assert begins == [["few:", "reading"], ["Plan:", "12"], ["Rehearsing", "it"], ["Verified:", "17"]]
    assert note == "Note: backcast works without its C part, but more slowly: it was not compiled\n"
    (output / "of the first").touch()
    assert run(["demo", "-o", str(output), "--json"]) == 0
    said = json.loads(capfd.readouterr().out)
    assert said["proved"] is True
    assert not (output / "of the first").exists()
    assert [step["name"] for step in said["steps"]] == [sample.name for sample in SAMPLES]
    assert all(Path(step["report"]).exists() for step in said["steps"])


def test_the_demo_replaces_no_folder_of_somebody_else(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A folder with anything in it that no demo wrote, or a file, is left alone: exit 2."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work", "utf-8")
    assert run(["demo", "-o", str(tmp_path / "mine")]) == 2
    assert run(["demo", "-o", str(tmp_path / "mine" / "thesis.txt")]) == 2
    assert (tmp_path / "mine" / "thesis.txt").read_text("utf-8") == "years of work"
