"""Which columns have the names of events."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pipeline.survey.clock import MOSTLY
from pipeline.survey.columns import Column, named

_EVENT = ("event_name", "mp_event_name", "event_text", "event", "event_type")
"""Names in the spelling of `Column.name`."""
_LIKELY_EVENT = ("name", "action", "activity", "type", "verb", "operation", "e", "n")
"""Chosen only if a few different strings repeat; the same goes for a name with one of these words."""
_EVENT_WORDS = re.compile(r"(?:^|_)(?:event|action|activity|verb)(?:_|$)")
_OWN_EVENT = re.compile(r"^event_(?:custom|display)_name$|^(?:custom|track)_event(?:_name)?$")
"""Names that only some events have, next to a kind that all have, such as `custom`."""
_ANSWER = re.compile(r"true|false|yes|no|[01tfyn]", re.IGNORECASE)
_FIGURES = re.compile(r"[-+]?[0-9.,' ]+$")


def events_in(columns: Iterable[Column]) -> list[Column]:
    """The columns with event names, the best first: a known name with strings, or a likely name with a few different
    strings that repeat."""
    found = list(columns)
    known = [
        column for column in named(found, _EVENT)
        if column.is_text and not _all_different(column) and not _is_answer(column)
    ]  # fmt: skip
    own = [column for column in found if _OWN_EVENT.search(column.name) and is_category(column)]
    likely = [*named(found, _LIKELY_EVENT), *(column for column in found if _EVENT_WORDS.search(column.name))]
    return list(
        dict.fromkeys(
            [*own, *known, *(column for column in likely if is_category(column) and not _is_constant(column))]
        )
    )


def is_category(column: Column) -> bool:
    """A few short strings that repeat, as event names do."""
    short = all(len(text) <= 100 for text in column.texts)
    return short and column.is_text and column.repeats and not _is_answer(column) and column.matching(_FIGURES) < MOSTLY


def _is_constant(column: Column) -> bool:
    """Whether all rows have one value: it is the kind of a row, and rarely the name of an event."""
    return len(column.texts) == 1 and not column.blank and len(column.values) >= 3


def _is_answer(column: Column) -> bool:
    """Whether all values say yes or no."""
    return bool(column.texts) and all(map(_ANSWER.fullmatch, column.texts))


def _all_different(column: Column) -> bool:
    return len(column.values) >= 50 and len(column.texts) > 0.9 * len(column.values)
