"""Rows of the source beside the events that they become."""

from __future__ import annotations

from collections import Counter

from pipeline.plan.source_pairs import SourcePair, SourcePairs
from pipeline.report.contents import Report
from pipeline.report.registry import Values, on_page

MOST_BYTES = 52_000
"""About as many bytes of the page are pairs; the first one is always there."""
_MARKUP = 70
"""Bytes of markup of a row of a table, about."""
MOST_NAMES_OF_FIELDS = 6


@on_page(56, "source_pairs")
def source_pairs(report: Report) -> Values:
    """As many pairs as fit, those of the most frequent names first: of each name one, then its other years."""
    found = report.plan.source_pairs
    if not isinstance(found, SourcePairs) or not found.pairs:
        return None
    years: Counter[str] = Counter()
    turns = []
    for number, pair in enumerate(found.pairs):
        turns.append((years[pair.event], number))
        years[pair.event] += 1
    chosen: list[int] = []
    left = MOST_BYTES
    for _, number in sorted(turns):
        size = _bytes(found.pairs[number])
        if size <= left or not chosen:
            chosen.append(number)
            left -= size
    return {
        "found": found,
        "shown": [found.pairs[number] for number in sorted(chosen)],
        "more": len(found.pairs) - len(chosen),
        "most": MOST_NAMES_OF_FIELDS,
    }


def _bytes(pair: SourcePair) -> int:
    """About what a pair takes on the page."""
    texts = [pair.event, pair.file, pair.event_rule]
    for field in pair.fields:
        texts += [field.field, field.value, field.by, *field.to[:MOST_NAMES_OF_FIELDS]]
    for one in (*pair.members, *pair.properties):
        texts += [one.name, one.value, one.rule, *one.fields[:MOST_NAMES_OF_FIELDS]]
    rows = len(pair.fields) + len(pair.members) + len(pair.properties)
    return sum(len(text.encode()) + 11 for text in texts) + rows * _MARKUP + 600
