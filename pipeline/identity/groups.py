"""Groups: one update of each group, with the last value of each of its properties.

Group updates are sent before all other events. First comes one group of each type, in the order that
`pipeline.identity.settings.choose_types` fixes, because the service numbers types in the order of their arrival.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING

import msgspec
import xxhash
from msgspec import Raw

from pipeline.encoder.updates import SealedGroup, encode_object, group_distinct_id
from pipeline.identity.kinds import SET
from pipeline.identity.last_values import LastValues, last_values, last_values_of, updates_in
from pipeline.identity.settings import GroupTypes
from pipeline.uuids import SEPARATOR, Hasher
from pipeline.validator.placeholder_ids import is_placeholder
from pipeline.validator.rules import MAX_ID

if TYPE_CHECKING:
    from pipeline.plan.statements import StatedGroups

MAX_KEY = 400
"""The service keeps this many characters of a type or key (docs/know/service.md#groups)."""


class GroupCounts(msgspec.Struct):
    """Groups and properties written. `left_out` counts groups by code: `junk_group`, `long_group`, `other_type`.
    `unchanged` counts groups that an earlier plan of the series sent in the same state."""

    groups: int = 0
    properties: int = 0
    left_out: Counter[str] = msgspec.field(default_factory=Counter)
    unchanged: int = 0


class GroupState(msgspec.Struct, frozen=True, array_like=True):
    """A group as the plans of a series have shown it so far. `content` is the digest of the properties that were sent
    last, `uuid` that of their update. `updates` has the last update of each property: name, µs UTC of the row and of
    its receipt, and value."""

    owner: str
    content: str
    uuid: str
    updates: list[tuple[str, int, int, Raw]]


class GroupHistory(msgspec.Struct, frozen=True):
    """The groups of a series. `find` takes a type and key, joined by SEPARATOR, and returns the group's state before
    this plan; `write` stores its state after it."""

    find: Callable[[str], GroupState | None]
    write: Callable[[GroupState], None]


def group_updates(
    stated: StatedGroups,
    types: GroupTypes,
    hasher: Hasher,
    counts: GroupCounts,
    *,
    by_content: bool = False,
    history: GroupHistory | None = None,
) -> Iterator[SealedGroup]:
    """One record per group of the chosen types: the first of each type, in their order, then all others.

    `by_content`: an earlier plan may have sent the group with other properties. The properties then become part of the
    uuid, so that this update is not a copy of the first. With a `history` the last values are those over all plans of a
    series, and an unchanged group is left out.
    """
    first: set[str] = set()
    for type_ in types.chosen:
        with closing(_of(stated, type_, history)) as groups:
            group = next((one for one in groups if not _skip_code(one[0])), None)
        if group is not None:
            first.add(group[0].owner)
            yield from _sealed(*group, hasher, counts, by_content, history)
    for type_ in types.chosen:
        for values, state in _of(stated, type_, history):
            code = _skip_code(values)
            if code:
                counts.left_out[code] += 1
            elif values.owner not in first:
                yield from _sealed(values, state, hasher, counts, by_content, history)
    for type_ in types.left_out:
        counts.left_out["other_type"] += stated.owners(_range_of(type_))


def _of(
    stated: StatedGroups, type_: str, history: GroupHistory | None
) -> Generator[tuple[LastValues, GroupState | None], None, None]:
    """The groups of a type, with each group's state before this plan and its updates."""
    with closing(stated.by_owner(_range_of(type_))) as groups:
        for owner, rows in groups:
            if history is None:
                yield last_values_of(owner, rows), None
                continue
            before = history.find(owner) or GroupState(owner, "", "", [])
            updates = [update for row in rows for update in updates_in(row)]
            updates += [(name, at, got, SET, bytes(value)) for name, at, got, value in before.updates]
            latest = max(chain((row[4] for row in rows), (at for _, at, _, _ in before.updates)))
            last = {name: (name, at, got, Raw(value)) for name, at, got, _, value in sorted(updates)}
            yield last_values(owner, latest, updates), msgspec.structs.replace(before, updates=[*last.values()])


def _range_of(type_: str) -> tuple[str, str]:
    """The bounds of the owners of a type: the first possible string, and the first string after all of them."""
    return type_ + SEPARATOR, type_ + chr(ord(SEPARATOR) + 1)


def _names(group: LastValues) -> tuple[str, str]:
    type_, _, key = group.owner.partition(SEPARATOR)
    return type_, key


def _skip_code(group: LastValues) -> str:
    type_, key = _names(group)
    if is_placeholder(key) or not type_.strip():
        return "junk_group"
    if max(len(type_), len(key)) > MAX_KEY or len(group_distinct_id(type_, key)) > MAX_ID or "\0" in type_ + key:
        return "long_group"
    return ""


def _sealed(
    group: LastValues,
    state: GroupState | None,
    hasher: Hasher,
    counts: GroupCounts,
    by_content: bool,
    history: GroupHistory | None,
) -> Iterator[SealedGroup]:
    type_, key = _names(group)
    properties = dict(sorted((group.set | group.set_once).items()))
    written = encode_object(properties)
    before = "" if state is None else state.uuid  # a value that returns is a new update, not the first one again
    uuid = group_uuid(hasher, type_, key, written + before.encode() if by_content else None)
    if history is not None and state is not None:
        content = xxhash.xxh3_128_hexdigest(written)
        if state.content == content:
            history.write(state)
            counts.unchanged += 1
            return
        history.write(msgspec.structs.replace(state, content=content, uuid=uuid))
    counts.groups += 1
    counts.properties += len(properties)
    yield SealedGroup(type_, key, max(0, group.time), uuid, Raw(written))


def group_uuid(hasher: Hasher, type_: str, key: str, written: bytes | None) -> str:
    """The uuid of a group's update. In a plan that follows another one it depends on the properties as JSON,
    `written`."""
    names = ("group", type_, key) if written is None else ("group", type_, key, xxhash.xxh3_128_hexdigest(written))
    return hasher(SEPARATOR.join(names))
