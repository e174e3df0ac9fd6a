"""`--require-rehearsal`: only a plan whose last rehearsal was whole is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import api
from pipeline.errors import UnsafePlan
from pipeline.local_service import LocalService
from pipeline.options import ApplyOptions, RehearseOptions
from tests.support.deliveries import planned

REQUIRED = ApplyOptions(require_rehearsal=True, workers=0)


def test_a_plan_is_sent_only_after_a_whole_rehearsal(tmp_path: Path) -> None:
    """Refused before any rehearsal, and after one with refused events; sent after one without."""
    plan = planned(tmp_path, 20)
    with LocalService() as service:
        with pytest.raises(UnsafePlan, match="was not rehearsed") as raised:
            api.apply_plan(plan, service.url, REQUIRED, project_key=service.capture_key)
        assert raised.value.hint == f"backcast rehearse {plan}"
        api.rehearse_plan(plan, RehearseOptions(workers=0, faults=("poison,event=Step 1",)))
        with pytest.raises(UnsafePlan, match="refused"):
            api.apply_plan(plan, service.url, REQUIRED, project_key=service.capture_key)
        api.rehearse_plan(plan, RehearseOptions(workers=0))
        assert api.apply_plan(plan, service.url, REQUIRED, project_key=service.capture_key).balanced
