"""Each check in one line, for the first screen of the page: what was found, where first, and the question to answer."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.models import Finding
from pipeline.report.wording import headline
from pipeline.text import pluralize, printable

CHARACTERS = 150
"""The most of a line; the check itself has all."""
_CHARACTERS_EACH = 50
"""A line that names several places may be so long for each of them."""


class _Line(NamedTuple):
    """`words` have the first `most` examples, as far as before `end`, at `{}`, and the number of findings at
    `{count}`."""

    words: str
    end: str = ""
    most: int = 1


_LINES = {
    "clock_jump": _Line("{}. Did the source's clock change?"),
    "missing_files": _Line("No file for {}. Is the export complete?", " before "),
    "overlapping_files": _Line("Files of the same days: {}. Are rows of one in the other?", " in "),
    "empty_days": _Line("No events at all {}. Is the export complete?", " (at least ", 5),
    "empty_days_of_a_name": _Line("No events of {}. Is the export complete?"),
    "spike": _Line("Unusually many events on {}. Expected?", "), "),
    "spike_of_a_name": _Line("Unusually many events of {}. Expected?"),
    "level": _Line("Events a day change suddenly, {}. What changed?"),
    "level_of_a_name": _Line("Events a day change suddenly: {}. What changed?"),
    "renamed_event": _Line("{}. Is it one event?"),
    "similar_names": _Line("{}. Are they one event?"),
    "inhuman_rate": _Line("Too many events for a person: {}. A bot, a test, a server?", " (row "),
    "near_duplicate": _Line("{count} equal an earlier one of the same person and second but for the uuid. Twice?"),
    "cut_values": _Line("Texts seem to be cut: {}. Can the tool export them whole?", ": "),
    "unsafe_integer": _Line("Integers beyond 2^53: {}. Are they ids?", ", the first in "),
    "null_rate": _Line("Values are suddenly missing: {}. What changed?", "; the first "),
    "property_names": _Line("Ever new property names: {}. Are they ids?", ": "),
    "mixed_types": _Line("Values of several types: {}", "; the first "),
    "numbers_as_text": _Line("Numbers that became texts: {}", ": "),
    "amounts_as_text": _Line("Amounts that are texts: {}", ", the first in "),
}


def in_one_line(check: Finding) -> str:
    """What a check found, in at most CHARACTERS or in the check's own words without its examples."""
    line = _LINES.get(check.name)
    if line is None or not isinstance(check.examples, list) or not isinstance(check.count, int) or not check.examples:
        return _shortened(check)
    shown = ", ".join(_until(one, line.end) for one in check.examples[: line.most])
    more = f" and {check.count - line.most:,} more" if check.count > line.most else ""
    text = line.words.format(shown + more, count=pluralize(check.count, "event"))
    return text if len(text) <= max(CHARACTERS, line.most * _CHARACTERS_EACH) else _shortened(check)


def _until(example: str, end: str) -> str:
    if end and end in example:
        return example[: example.index(end)] + (")" if end.startswith(")") else "")
    return example


def _shortened(check: Finding) -> str:
    begins = headline(check.detail)
    sentence = begins.partition("; ")[0]
    return printable(sentence[:1].upper() + sentence[1:], CHARACTERS)
