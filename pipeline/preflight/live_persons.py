"""Persons of a project, looked up by a plan's ids."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from pipeline.ledger import read_totals
from pipeline.text import pluralize, printable
from pipeline.verify.landed import in_lists, persons_of

if TYPE_CHECKING:
    from pipeline.preflight.questions import Questions
    from pipeline.preflight.target import Target

MOST = 2_000
"""At most this many records of a plan are looked up, evenly spread if there are more."""
_SHOWN = 5
_NAME_CHARACTERS = 60
T = TypeVar("T")


class LivePerson(msgspec.Struct, frozen=True):
    """A person at the target."""

    id: str
    identified: bool
    properties: Mapping[str, Any]


def has_begun(target: Target) -> bool:
    """Whether something of the plan was sent: then its own persons cannot be distinguished from others."""
    assert target.directory is not None
    totals = read_totals(target.directory.ledger)
    return bool(totals.settled or totals.in_doubt)


def sampled(path: Path, lines: int, kind: type[T]) -> Iterator[T]:
    """At most MOST records of a sealed file, evenly spread."""
    decode = msgspec.json.Decoder(kind).decode
    step = max(1, -(-lines // MOST))
    with path.open("rb") as file:
        yield from map(decode, islice(file, 0, None, step))


def read_persons(questions: Questions, ids: Sequence[str]) -> dict[str, LivePerson]:
    """The persons of these ids, by id; ids without a person are absent."""
    person_of = persons_of(questions, ids)
    persons: dict[str, LivePerson] = {}
    query = "select id, properties, is_identified from persons where id in ({}) order by id"
    for id, properties, identified in in_lists(questions, query, person_of.values()):
        read = json.loads(properties) if isinstance(properties, str) else properties
        persons[str(id)] = LivePerson(str(id), bool(identified), read if isinstance(read, dict) else {})
    return {id: persons[person] for id, person in person_of.items() if person in persons}


def count_live_events(questions: Questions, ids: Sequence[str], own: str) -> Counter[str]:
    """How many live events each of these ids has."""
    live = own and f" and not ({own.replace('{', '{{').replace('}', '}}')})"
    query = "select distinct_id, count(*) from events where distinct_id in ({})" + live
    rows = in_lists(questions, f"{query} group by distinct_id order by distinct_id", ids)
    return Counter({str(id): int(count) for id, count in rows})


def share_of(looked: int, planned: int, what: str) -> str:
    """The number of items looked up, in words: `12 merges`, or how many of all."""
    return pluralize(planned, what) if looked == planned else f"{looked:,} of {pluralize(planned, what)} (a sample)"


def most_frequent(counts: Counter[str]) -> str:
    """The names with the greatest counts, in words."""
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    shown = [f"{printable(name, _NAME_CHARACTERS)} ({count:,})" for name, count in ranked[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(ranked) - _SHOWN:,} more properties" if len(ranked) > _SHOWN else "")
