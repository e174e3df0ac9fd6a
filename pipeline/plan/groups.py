"""Groups: their types in an order that the plan fixes, and one event for each group with its final properties.

The service knows five types, numbers them in the order in which they first arrive, for good, and ignores a sixth
without a word (service-behaviour 1.10). So the plan chooses and shows the order, the events that make groups come
before all others, and the first of them are one of each type in that order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from msgspec import Raw

from pipeline.counted import counted
from pipeline.errors import UsageError
from pipeline.events import Encoder
from pipeline.events.gathering import SayingColumns
from pipeline.identity import SEPARATOR, Hasher
from pipeline.junk import is_junk
from pipeline.plan.database import Database
from pipeline.plan.latest import Final, Sayings
from pipeline.plan.sealed import Gate
from pipeline.schema import Draft
from pipeline.validate import MAX_ID

MOST_TYPES = 5
MAX_KEY = 400
"""The service keeps so many characters of a type or key (service-behaviour 1.10)."""
EVENTS = {"contract": "$group_identify", "posthog": "$groupidentify"}
"""By dialect: the event that makes a group (DESIGN 8)."""
_encode = msgspec.json.encode


class SealedGroup(msgspec.Struct, frozen=True):
    """One group as it is sent. `time` is µs UTC; `set` is a JSON object, values untouched."""

    type: str
    key: str
    time: int
    uuid: str
    set: Raw


class Types(NamedTuple):
    """The group types in the order in which the service will number them, and those that have no place."""

    chosen: tuple[str, ...]
    left_out: tuple[str, ...]


@dataclass(slots=True)
class GroupCounts:
    """Groups and properties written. `left_out` counts groups by code: `junk_group`, `long_group`, `other_type`."""

    groups: int = 0
    properties: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


class Groups:
    """The groups of a plan being made. `types` counts the rows of each type."""

    def __init__(self, database: Database) -> None:
        self._sayings = Sayings(database, "group_sayings")
        self.types: Counter[str] = Counter()

    def add(self, said: SayingColumns) -> None:
        """Add what some rows say of groups."""
        self._sayings.add(said)

    def final(self, types: Types, hasher: Hasher, counts: GroupCounts) -> Iterator[SealedGroup]:
        """One record per group of the chosen types: the first of each type, in their order, then all others."""
        first: set[tuple[str, str]] = set()
        for type_ in types.chosen:
            groups = self._of(type_)
            group = next((one for one in groups if not _refusal(*_names(one))), None)
            groups.close()
            if group is not None:
                first.add(_names(group))
                yield _sealed(group, hasher, counts)
        for type_ in types.chosen:
            for group in self._of(type_):
                code = _refusal(*_names(group))
                if code:
                    counts.left_out[code] += 1
                elif _names(group) not in first:
                    yield _sealed(group, hasher, counts)
        for type_ in types.left_out:
            counts.left_out["other_type"] += sum(1 for _ in self._of(type_))

    def _of(self, type_: str) -> Generator[Final, None, None]:
        return self._sayings.final(among=(type_ + SEPARATOR, type_ + chr(ord(SEPARATOR) + 1)))


def choose_types(found: Counter[str], wanted: Sequence[str] = ()) -> Types:
    """The order of group types: as `--group-types` says, else the most frequent first, equal ones by name.

    Raises UsageError where more than five are wanted, or one twice. A wanted type that no row has keeps its place.
    """
    if len(wanted) > MOST_TYPES or len(set(wanted)) != len(wanted) or not all(one.strip() for one in wanted):
        raise UsageError(
            f"--group-types names {len(wanted)} types: {','.join(wanted)}",
            hint=f"name up to {MOST_TYPES} different ones, with commas, the most important first",
        )
    ordered = sorted(found, key=lambda one: (-found[one], one))
    chosen = tuple(wanted) if wanted else tuple(ordered)
    return Types(chosen, tuple(one for one in ordered if one not in chosen))


def group_types_gate(types: Types, found: Counter[str], *, named: bool) -> Gate | None:
    """More types than the service keeps stop a plan until `--group-types` chooses; what a choice leaves out warns."""
    if len(types.chosen) > MOST_TYPES:
        shown = ", ".join(f"{one} ({counted(found[one], 'row')})" for one in types.chosen)
        return Gate(
            "group_types",
            "stop",
            f"there are {len(types.chosen)} group types and the service keeps {MOST_TYPES}: {shown}."
            " Choose them, in their order, with --group-types",
        )
    if named and types.left_out:
        shown = ", ".join(f"{one} ({counted(found[one], 'row')})" for one in types.left_out)
        return Gate("group_types", "warning", f"--group-types leaves out {shown}")
    return None


def encode_group(group: SealedGroup, encoder: Encoder, dialect: str) -> bytes:
    """The event that makes one group, in the target's dialect."""
    properties = {
        "$group_type": Raw(_encode(group.type)),
        "$group_key": Raw(_encode(group.key)),
        "$group_set": group.set,
    }
    body, _ = encoder.encode(Draft(EVENTS[dialect], _distinct_id(group.type, group.key), group.time, properties))
    return b'%b%b"}' % (body, group.uuid.encode())


def _distinct_id(type_: str, key: str) -> str:
    return f"${type_}_{key}"


def _names(group: Final) -> tuple[str, str]:
    type_, _, key = group.owner.partition(SEPARATOR)
    return type_, key


def _refusal(type_: str, key: str) -> str:
    if is_junk(key) or not type_.strip():
        return "junk_group"
    if max(len(type_), len(key)) > MAX_KEY or len(_distinct_id(type_, key)) > MAX_ID or "\0" in type_ + key:
        return "long_group"
    return ""


def _sealed(group: Final, hasher: Hasher, counts: GroupCounts) -> SealedGroup:
    type_, key = _names(group)
    properties = dict(sorted((group.set | group.set_once).items()))
    counts.groups += 1
    counts.properties += len(properties)
    written = _encode({name: Raw(value) for name, value in properties.items()})
    return SealedGroup(type_, key, max(0, group.time), hasher(SEPARATOR.join(("group", type_, key))), Raw(written))
