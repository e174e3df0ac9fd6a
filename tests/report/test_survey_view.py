"""A survey on a terminal: hours, months, and examples of fields."""

from __future__ import annotations

import re

from pipeline.report.terminal.survey_view import histogram, show_survey
from pipeline.survey import BrokenSurvey, FieldSurvey, PartSurvey, Survey, ZoneSurvey
from tests.support.rendered import HOSTILE, printed


def test_the_histogram_has_a_line_an_hour() -> None:
    """24 lines; the fullest hour is 40 characters long, an hour with one row is still seen, an empty one is not."""
    lines = histogram([0, 1, *[0] * 21, 4_000])
    assert len(lines) == 24
    assert (lines[0], lines[1], lines[23]) == ("00     0", "01     1 ▏", "23 4,000 " + "█" * 40)


def test_a_survey_shows_hostile_text_as_text_and_folds_examples_before_names() -> None:
    """It begins with its counted line; on 80 columns a field's name stays whole, and the hours say what they are."""
    found = Survey(
        tool="", candidates={"mixpanel": 1, "segment": 1}, rows=3, sampled=True,
        parts=[PartSurvey(HOSTILE, "jsonl", "JSON lines", (), 9, 3, False)],
        fields=[FieldSurvey(HOSTILE, {"text": 3}, 3, 0.0, [HOSTILE], "event")], fields_left_out=0,
        events={HOSTILE: 3}, events_left_out=0, time_field=HOSTILE, time_unit="s", first="2021-01-01T00:00:00",
        last="2021-01-01T00:00:00", hours=(3, *[0] * 23), months={"2021-01": 3}, unread_times=0,
        zone=ZoneSurvey("r", [], [], "Too few rows."), broken={"bad_json": BrokenSurvey(1, HOSTILE, 2, HOSTILE)},
        warnings={}, notices=[(HOSTILE, HOSTILE, HOSTILE)],
    )  # fmt: skip
    shown = printed(show_survey, found, [HOSTILE])
    assert ("\x1b" in shown, "[red]" in re.sub(r"\s", "", shown)) == (False, True)
    assert "mixpanel or segment" in shown
    assert shown.splitlines()[0] == found.sentence
    name = "properties.$initial_referrer_dom"
    found = Survey(
        tool="mixpanel", candidates={"mixpanel": 1}, rows=3, sampled=True,
        parts=[PartSurvey("a.jsonl", "jsonl", "JSON lines", (), 9, 3, False)],
        fields=[FieldSurvey(name, {"text": 3, "integer in text": 12}, 3, 0.0, ["x" * 40] * 3, "")],
        fields_left_out=0, events={"a": 3}, events_left_out=0, time_field="at", time_unit="s",
        first="2021-01-01T00:00:00", last="2021-01-01T00:00:00", hours=(3, *[0] * 23), months={"2021-01": 3},
        unread_times=0, zone=ZoneSurvey("r", [], [], "Too few rows."), broken={}, warnings={}, notices=[],
    )  # fmt: skip
    shown = printed(show_survey, found, ["a.jsonl"], width=80)
    assert name in shown
    lines = [line.strip() for line in shown.splitlines()]
    assert lines[lines.index("00 3 " + "█" * 40) - 1] == "hour of day (source local time), rows"
    assert sum(map(len, re.findall("x{3,}", shown))) == 120  # no example is cropped
