"""Which zones a clock may have been in, from how far it was from the receive times."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from pipeline.clock_offsets import most_frequent
from pipeline.options import SurveyOptions
from pipeline.plan.zone import judge_zone
from pipeline.report.survey_view import next_step_of
from pipeline.survey.zones import candidates, survey_zone
from tests.survey.test_survey import surveyed, written

EPOCH = date(1970, 1, 1)


def measured(since: date, *zones: tuple[str, date]) -> Counter[tuple[int, int]]:
    """Three rows a day in each zone until its last day, with an hour's delay in a tenth of them."""
    found: Counter[tuple[int, int]] = Counter()
    for name, until in zones:
        while since < until:
            noon = datetime(since.year, since.month, since.day, 12, tzinfo=UTC).astimezone(ZoneInfo(name))
            offset = noon.utcoffset() or timedelta()
            day = (since - EPOCH).days
            found[day, round(offset.total_seconds()) - (3_600 if day % 10 == 0 else 0)] += 3
            since += timedelta(days=1)
    return found


NEW_YORK = ("America/New_York", date(2025, 3, 1))


@pytest.mark.parametrize("moved", [date(2024, 6, 1), date(2024, 6, 12), date(2024, 6, 28)])
def test_a_clock_that_moved_is_named_with_the_day(moved: date) -> None:
    """As the values of --timezone, which then agree with all months; a survey says it in words."""
    evidence = measured(date(2023, 3, 1), ("Europe/Berlin", moved), NEW_YORK)
    assert candidates(most_frequent(evidence), evidence) == [f"Europe/Berlin America/New_York@{moved}"]
    assert judge_zone(evidence, (("Europe/Berlin", ""), ("America/New_York", str(moved)))).proved
    assert judge_zone(evidence, ()).fitting == (f"Europe/Berlin America/New_York@{moved}",)
    sentence = survey_zone(evidence, "received_at").sentence
    assert sentence.endswith(f"the zone changed. Zones that fit: Europe/Berlin, then America/New_York from {moved}.")


def test_a_clock_that_jumps_has_no_zone() -> None:
    """A single month of another offset, or many zones one after the other, prove no change."""
    one = measured(date(2023, 3, 1), ("Asia/Tokyo", date(2023, 6, 1)), ("Asia/Dubai", date(2023, 7, 1)))
    assert candidates(most_frequent(one), one) == []
    names = ("Asia/Tokyo", "Asia/Dubai", "Europe/Berlin", "America/New_York")
    many = measured(date(2023, 1, 1), *((name, date(2023, 3 * n + 1, 1)) for n, name in enumerate(names, 1) if n < 4),
                    ("America/New_York", date(2024, 1, 1)))  # fmt: skip
    assert candidates(most_frequent(many), many) == []


def test_the_next_step_names_each_zone(tmp_path: Any) -> None:
    """The command to plan has --timezone twice."""
    rows = []
    for name, first in (("Europe/Berlin", date(2023, 1, 1)), ("America/New_York", date(2023, 7, 1))):
        for day in range(0, 180, 3):
            noon = datetime(first.year, first.month, first.day, 12, tzinfo=UTC) + timedelta(days=day)
            wall = int(noon.astimezone(ZoneInfo(name)).replace(tzinfo=UTC).timestamp())
            inside = {"time": wall, "$insert_id": "x", "distinct_id": "u"}
            rows.append(
                {"event": "A", "properties": {**inside, "mp_processing_time_ms": int(noon.timestamp()) * 1_000}}
            )
    found = surveyed(written(tmp_path / "a.jsonl", rows))
    words = "-m mixpanel --timezone Europe/Berlin --timezone America/New_York@2023-07-01 -o plan"
    assert next_step_of(found, ["a.jsonl"], SurveyOptions()).command.endswith(words)
    chosen = next_step_of(found, ["a.jsonl"], SurveyOptions(scope="my scope.csv", mapping="my.yaml"))
    assert chosen.sentence.startswith("Write no under `keep` in my scope.csv ")
    assert chosen.command.startswith("backcast plan a.jsonl -m my.yaml --timezone ")
    assert chosen.command.endswith("--scope 'my scope.csv' -o plan")
