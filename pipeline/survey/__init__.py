"""Describe an export before a mapping exists: its tool, fields, events, times and zone.

    survey(open_source(paths)) -> Survey

By default it reads the first rows of each part. It shows its guesses (roles of fields, candidates for the zone) to a
person, and a mapping can start from them (`pipeline.survey.draft`); they do not decide what is sent. Its JSON is
`msgspec.json.encode(survey)`, format `backcast.survey/1`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.lazily import lazily
from pipeline.survey.shape import BrokenSurvey, FieldSurvey, MonthZone, PartSurvey, Survey, ZoneSurvey

if TYPE_CHECKING:
    from pipeline.survey.walk import SAMPLE_ROWS, survey

__all__ = [
    "SAMPLE_ROWS",
    "BrokenSurvey",
    "FieldSurvey",
    "MonthZone",
    "PartSurvey",
    "Survey",
    "ZoneSurvey",
    "survey",
]
__getattr__ = lazily(__name__, {"walk": "SAMPLE_ROWS survey"})
