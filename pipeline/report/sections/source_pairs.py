"""Rows of the source beside the events that they become."""

from __future__ import annotations

from collections import Counter

import msgspec

from pipeline.plan.samples.source_pairs import SourcePair, SourcePairs
from pipeline.report.contents import Report
from pipeline.report.registry import Values, on_page

MOST_BYTES = 24_000
"""About as many bytes of the page are pairs; the first one is always there, of a wide export not with every field."""
_MARKUP = 70
"""Bytes of markup of a row of a table, about."""
MOST_NAMES_OF_FIELDS = 6
MOST_ROWS = 30
"""Fields and properties of a pair on the page."""


@on_page(56, "source_pairs")
def source_pairs(report: Report) -> Values:
    """As many pairs as fit: one of each name and entry of `events`, the most frequent names first, then other years."""
    found = report.plan.source_pairs
    pairs = [_shortened(pair) for pair in report.source_pairs]
    if not isinstance(found, SourcePairs) or not pairs:
        return None
    years: Counter[tuple[str, str]] = Counter()
    turns = []
    for number, pair in enumerate(pairs):
        turns.append((years[pair.event, pair.event_rule], number))
        years[pair.event, pair.event_rule] += 1
    chosen: list[int] = []
    left = MOST_BYTES
    for _, number in sorted(turns):
        size = _bytes(pairs[number])
        if size <= left or not chosen:
            chosen.append(number)
            left -= size
    return {
        "found": found,
        "shown": [pairs[number] for number in sorted(chosen)],
        "more": len(pairs) - len(chosen),
        "most": MOST_NAMES_OF_FIELDS,
    }


def _shortened(pair: SourcePair) -> SourcePair:
    fields, properties = pair.fields[MOST_ROWS:], pair.properties[MOST_ROWS:]
    return msgspec.structs.replace(
        pair,
        fields=pair.fields[:MOST_ROWS],
        more_fields=pair.more_fields + len(fields),
        properties=pair.properties[:MOST_ROWS],
        more_properties=pair.more_properties + len(properties),
    )


def _bytes(pair: SourcePair) -> int:
    """About what a pair takes on the page."""
    texts = [pair.event, pair.file, pair.event_rule]
    for field in pair.fields:
        texts += [field.field, field.value, field.by, *field.to[:MOST_NAMES_OF_FIELDS]]
    for one in (*pair.members, *pair.properties):
        texts += [one.name, one.value, one.rule, *one.fields[:MOST_NAMES_OF_FIELDS]]
    rows = len(pair.fields) + len(pair.members) + len(pair.properties)
    return sum(len(text.encode()) + 11 for text in texts) + rows * _MARKUP + 600
