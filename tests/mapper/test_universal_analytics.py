"""Universal Analytics over a whole source."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from sample_data.generator import universal_analytics
from tests.mapper.test_ga4 import write_lines
from tests.support.sent_events import planned


def test_times_agree_with_the_minutes_of_the_view(tmp_path: Path) -> None:
    """A zone of whole hours changes no minute: the first hit of each session is in the minute that its row says."""
    rows = universal_analytics.sessions()[:-1]
    _, events = planned(tmp_path / "plan", [write_lines(tmp_path / "rows.json", rows)])
    first = {event["properties"]["visit_id"]: event["timestamp"] for event in reversed(events)}
    said = {int(row["visitId"]): int(row["hits"][0]["minute"]) for row in map(json.loads, rows)}
    assert {visit: datetime.fromisoformat(time).astimezone(UTC).minute for visit, time in first.items()} == said


def test_a_session_that_midnight_splits_is_one_session(tmp_path: Path) -> None:
    """Both rows have the session's id, and a hit with the number of another is another event."""
    rows = universal_analytics.sessions()[-2:]
    plan, events = planned(tmp_path / "plan", [write_lines(tmp_path / "rows.json", rows)])
    assert (len(events), plan.skips) == (2, {})
    assert len({event["properties"]["$session_id"] for event in events}) == 1
    assert len({event["uuid"] for event in events}) == 2
