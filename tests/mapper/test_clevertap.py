"""CleverTap over a whole file: launches show what the account's clock is."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pipeline.api import plan_export
from pipeline.options import PlanOptions
from sample_data.generator import clevertap
from tests.support.sent_events import AS_OF


@pytest.mark.parametrize(("zone", "ready"), [("Asia/Kolkata", True), ("UTC", False)])
def test_a_zone_is_held_against_the_starts_of_sessions(tmp_path: Path, zone: str, ready: bool) -> None:
    """The id of a session is its start in UTC, so a zone that the account did not have is not believed."""
    (tmp_path / "events.csv.gz").write_bytes(gzip.compress(clevertap.table_text()))
    options = PlanOptions(timezone=(zone,), as_of=AS_OF, workers=0)
    plan = plan_export([str(tmp_path / "events.csv.gz")], tmp_path / "plan", options)
    assert (plan.verdict != "not-ready") == ready
    assert [gate.name for gate in plan.gates] == ([] if ready else ["zone"])
