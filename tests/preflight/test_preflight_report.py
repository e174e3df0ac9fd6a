"""What a target answered stands in the report of the plan that was asked about, and of no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import generic
from tests.support.deliveries import export, planned
from tests.support.management_service import Asking

pytestmark = pytest.mark.slow


def test_the_report_has_what_the_target_answered(ask: Asking, here: Any, tmp_path: Path) -> None:
    """As a chapter of the page and as an object; a later plan of the directory has neither."""
    directory = planned(tmp_path, 30)
    assert here("preflight", directory, "--to", ask.service.url).code == 0
    page = (directory / "report.html").read_text("utf-8")
    assert "Before sending: the target" in page
    assert "the project has no live event yet" in page
    recorded = json.loads((directory / "report.json").read_bytes())["preflight"]
    assert {check["name"] for check in recorded["checks"]} >= {"cut_over", "already_there"}
    assert not (directory / "preflight-answers").exists()
    assert here("plan", export(tmp_path / "export", 31), *generic(), "-o", directory).code == 0
    assert "Before sending: the target" not in (directory / "report.html").read_text("utf-8")
    assert "preflight" not in json.loads((directory / "report.json").read_bytes())
