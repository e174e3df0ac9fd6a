"""What a sample must show: each event name in each UTC year, each entry of `events` in the mapping, each kind of
merge, and each kind of profile update."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from pipeline.encoder.updates import EMPTY_OBJECT, SealedInitial, SealedLink, SealedPerson
from pipeline.plan.samples.source_pairs import NAME_CHARACTERS
from pipeline.text import printable

EACH = 8
"""This many candidates for each stratum."""
NAMES = {"event": "event {0} in {1}", "rule": "rule {0}", "merge": "merge by {0}", "profile": "profile update with {0}"}


class Stratum(NamedTuple):
    """`kind` is a key of NAMES; `name` and `year` identify the stratum within the kind."""

    kind: str
    name: str
    year: str = ""

    def __str__(self) -> str:
        return printable(NAMES[self.kind].format(self.name, self.year), NAME_CHARACTERS)


def in_order(events: Mapping[Stratum, int]) -> list[Stratum]:
    """The strata in the order in which a small sample shows them: rules, merges and profiles; then each event name in
    the year with most of its events, the most frequent name first; then the names in their other years."""
    ranks: dict[str, int] = {}
    ranked: list[tuple[int, int, Stratum]] = []
    for stratum in sorted(events, key=lambda one: (-events[one], one)):
        if stratum.kind != "event":
            ranked.append((-1, 0, stratum))
            continue
        rank = ranks[stratum.name] = ranks.get(stratum.name, -1) + 1
        ranked.append((rank, -events[stratum], stratum))
    return [stratum for _, _, stratum in sorted(ranked)]


def stratum_of(record: SealedLink | SealedPerson) -> Stratum:
    """What a sealed merge or profile update shows."""
    if isinstance(record, SealedLink):
        return Stratum("merge", record.kind)
    if isinstance(record, SealedInitial):
        return Stratum("profile", "what is set before all events")
    members = [f"${name}" for name in ("set", "set_once") if getattr(record, name) != msgspec.Raw(EMPTY_OBJECT)]
    return Stratum("profile", " and ".join([*members, *(["$unset"] if isinstance(record.unset, msgspec.Raw) else [])]))
