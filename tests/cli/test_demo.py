"""`backcast demo`: every sample planned, rehearsed and proved, offline and without keys; its reports."""

from __future__ import annotations

import base64
import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from pipeline import demo
from pipeline.cli import run
from pipeline.demo import SAMPLES, Sample
from pipeline.options import PlanOptions
from tests.support.browser import Tab

MOST_SHEETS = 12


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The output of a demo of all samples."""
    output = tmp_path_factory.mktemp("shown") / "demo"
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as printed:
        for key in ("BACKCAST_PROJECT_KEY", "BACKCAST_PERSONAL_KEY"):
            patch.delenv(key, raising=False)
        assert run(["demo", "-o", str(output), "--json"]) == 0
    said: dict[str, Any] = json.loads(printed.getvalue())
    return said


def test_the_demo_proves_every_sample(shown: dict[str, Any]) -> None:
    """Each sample is proved, and its report exists."""
    assert shown["proved"] is True
    assert [step["name"] for step in shown["steps"]] == [sample.name for sample in SAMPLES]
    assert all(Path(step["report"]).exists() for step in shown["steps"])


def test_every_chart_of_its_reports_has_a_description(shown: dict[str, Any]) -> None:
    """A screen reader finds a title and a description in each picture."""
    for step in shown["steps"]:
        pictures = re.findall("<svg.*?</svg>", Path(step["report"]).read_text("utf-8"), re.DOTALL)
        described = r'<svg [^>]*role="img"[^>]*><title>[^<]+</title><desc>[^<]+</desc>'
        assert len(pictures) > 3
        assert [one for one in pictures if not re.match(described, one)] == []


def test_its_reports_are_printed_on_a_dozen_sheets(shown: dict[str, Any], tab: Tab) -> None:
    """The pages with all chapters open, on A4 and on US Letter."""
    for step in shown["steps"]:
        tab.open(Path(step["report"]).as_uri())
        for inches in ((8.27, 11.69), (8.5, 11)):
            printed = tab.ask("Page.printToPDF", paperWidth=inches[0], paperHeight=inches[1], printBackground=True)
            assert 3 < base64.b64decode(printed["data"]).count(b"/Type /Page\n") <= MOST_SHEETS, step["name"]


def test_a_demo_replaces_an_earlier_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second demo replaces the first. It shows people what it does with a sample, and that the C part is missing."""
    output = tmp_path / "demo"
    monkeypatch.setattr(demo, "SAMPLES", [Sample("few", "june", PlanOptions(mapping="june"))])
    monkeypatch.setattr("pipeline.native.WHY_NOT", "it was not compiled")
    assert run(["demo", "-o", str(output)]) == 0
    shown, note = capfd.readouterr()
    begins = [line.split()[:2] for line in shown.splitlines()[:4]]
    assert begins == [["few:", "reading"], ["Plan:", "12"], ["Rehearsing", "it"], ["Verified:", "17"]]
    assert note == "Note: backcast works without its C part, but more slowly: it was not compiled\n"
    (output / "of the first").touch()
    assert run(["demo", "-o", str(output)]) == 0
    assert not (output / "of the first").exists()


def test_the_demo_replaces_no_folder_that_it_did_not_write(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A file, or a folder that contains anything that a demo did not write, is left as it is: exit 2."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work", "utf-8")
    assert run(["demo", "-o", str(tmp_path / "mine")]) == 2
    assert run(["demo", "-o", str(tmp_path / "mine" / "thesis.txt")]) == 2
    assert (tmp_path / "mine" / "thesis.txt").read_text("utf-8") == "years of work"
