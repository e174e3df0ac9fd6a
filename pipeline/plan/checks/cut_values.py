"""Values that another program cut off at some length."""

from __future__ import annotations

from collections import defaultdict

from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, found_in_values
from pipeline.plan.statistics.drift import PropertyDrift
from pipeline.plan.statistics.values import MOST_LONG
from pipeline.text import pluralize, printable

_PLACES = """
100 120 127 128 140 150 160 180 191 199 200 240 250 254 255 256 280 300 400 499 500 511 512 600 750 768 800 900 999
1000 1023 1024 1200 1500 1999 2000 2047 2048 2500 3000 4000 4095 4096 5000 6000 8000 8191 8192 10000 16000 16383 16384
20000 32000 32767 32768 50000 65534 65535 65536 100000
"""
_LENGTHS = frozenset(map(int, _PLACES.split()))
"""The lengths, in characters, at which programs and database columns cut values off."""
_DIFFERENT = 5
_ALL = 0.98
"""If nearly all long values have the same length, that is their format (signatures, for example), not a cut."""


def _is_cut(one: PropertyDrift, least: int) -> bool:
    long = one.whole.long
    return (
        long.longest in _LENGTHS
        and long.at_longest >= least
        and len(long.hashes) >= min(_DIFFERENT, MOST_LONG)
        and long.at_longest < _ALL * long.texts
    )


@check("cut_values", "warning")
def cut_values(facts: PlanFacts) -> Finding | None:
    """Many different values of a property have the same length, and none is longer: their ends are lost."""
    by_name: dict[tuple[str, int], list[PropertyDrift]] = defaultdict(list)
    for one in facts.drift.properties:
        if _is_cut(one, facts.thresholds.cut_values):
            by_name[one.name, one.whole.long.longest].append(one)
    found = sorted(
        (-sum(one.whole.long.at_longest for one in same), name, length, same)
        for (name, length), same in by_name.items()
    )
    return found_in_values(
        facts,
        f"{pluralize(len(found), 'property')} with values that seem to be cut off",
        [_described(facts, name, length, -count, same) for count, name, length, same in found],
    )


def _described(facts: PlanFacts, name: str, length: int, count: int, same: list[PropertyDrift]) -> str:
    events = f"of {printable(same[0].event, 60)}" if len(same) == 1 else f"of {pluralize(len(same), 'event name')}"
    texts = sum(one.whole.long.texts for one in same)
    place = min(one.whole.long.place for one in same)
    return (
        f"{printable(name, 60)} {events}: {count:,} of {texts:,} long values have exactly {length:,} characters and"
        f" none is longer, the first in {facts.row_at(place)}"
    )
