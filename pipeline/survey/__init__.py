"""What an export looks like before a mapping exists: its tool, fields, events, times and zone.

    survey(open_source(paths)) -> Survey

A survey is a look, not a promise: by default it reads the first rows of each part, and its guesses (roles of
fields, candidates for the zone) are shown to a person and start a mapping (`pipeline.mapper.scaffold`). Nothing
is ever sent by them. Its JSON is `msgspec.json.encode(survey)`, format `backcast.survey/1`.
"""

from __future__ import annotations

from pipeline.survey.shape import BrokenSurvey, FieldSurvey, MonthZone, PartSurvey, Survey, ZoneSurvey
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
