"""Merges, group updates and profile updates: the records that a plan seals, and the event that sends each of them.

`pipeline.identity` decides which ones exist. The spelling of their events depends on the target's dialect
(docs/know/service.md#two-spellings): `contract` is the service's published contract, `posthog` what PostHog's own
libraries send.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
from msgspec import Raw

from pipeline.encoder.event import Encoder
from pipeline.models import UnvalidatedEvent

GROUP_EVENT = {"contract": "$group_identify", "posthog": "$groupidentify"}
PROFILE_EVENT = {"contract": "$identify", "posthog": "$set"}
"""The event names by dialect. An `$identify` without `$anon_distinct_id` updates a profile and merges no ids."""
EMPTY_OBJECT = b"{}"
_encode = msgspec.json.encode


class SealedLink(msgspec.Struct, frozen=True):
    """A merge: `distinct_id` absorbs `other`. One line of identities.jsonl.

    `kind` is `identify` or `alias`; `time` is in µs UTC; `rows` is how many rows of the export state the merge.
    """

    kind: str
    distinct_id: str
    other: str
    time: int
    uuid: str
    rows: int


class SealedGroup(msgspec.Struct, frozen=True):
    """A group with its properties. One line of groups.jsonl. `time` is in µs UTC; `set` is a JSON object."""

    type: str
    key: str
    time: int
    uuid: str
    set: Raw

    @property
    def size(self) -> int:
        """The bytes of its properties."""
        return len(self.set)


class SealedPerson(msgspec.Struct, frozen=True):
    """A profile update. One line of persons.jsonl. `time` is in µs UTC; `set` and `set_once` are JSON objects, `unset`
    a JSON list of names to remove, if any."""

    distinct_id: str
    time: int
    uuid: str
    set: Raw
    set_once: Raw
    unset: Raw | msgspec.UnsetType = msgspec.UNSET

    @property
    def size(self) -> int:
        """The bytes of its properties."""
        return len(self.set) + len(self.set_once) + (len(self.unset) if isinstance(self.unset, Raw) else 0)


class SealedInitial(SealedPerson, frozen=True, tag_field="kind", tag="initial"):
    """Properties set once for a person before all events. They are sealed in groups.jsonl, where the tag distinguishes
    the lines."""


def merge_event(kind: str) -> str:
    """The event name of a merge, by the kind of its link."""
    return "$identify" if kind == "identify" else "$create_alias"


def encode_merge(link: SealedLink, encoder: Encoder) -> bytes:
    """The event of one merge. The surviving id is its distinct_id (docs/know/service.md#merges)."""
    member = "$anon_distinct_id" if link.kind == "identify" else "alias"
    properties = {member: Raw(_encode(link.other))}
    return encoder.encode(
        UnvalidatedEvent(merge_event(link.kind), link.distinct_id, link.time, properties, uuid=link.uuid)
    )


def encode_group(group: SealedGroup, encoder: Encoder, dialect: str) -> bytes:
    """The event that creates or updates one group."""
    properties = {
        "$group_type": Raw(_encode(group.type)),
        "$group_key": Raw(_encode(group.key)),
        "$group_set": group.set,
    }
    owner = group_distinct_id(group.type, group.key)
    return encoder.encode(UnvalidatedEvent(GROUP_EVENT[dialect], owner, group.time, properties, uuid=group.uuid))


def group_distinct_id(type_: str, key: str) -> str:
    """The distinct_id of a group's own event."""
    return f"${type_}_{key}"


def encode_profile(person: SealedPerson, encoder: Encoder, dialect: str) -> bytes:
    """The event that updates one person's profile; an empty `$set`, `$set_once` or `$unset` is left out."""
    members = {"$set": person.set, "$set_once": person.set_once}
    properties = {name: value for name, value in members.items() if value != Raw(EMPTY_OBJECT)}
    if isinstance(person.unset, Raw):
        properties["$unset"] = person.unset
    name = PROFILE_EVENT[dialect]
    return encoder.encode(UnvalidatedEvent(name, person.distinct_id, person.time, properties, uuid=person.uuid))


def encode_object(values: dict[str, bytes]) -> bytes:
    """A JSON object of values that are already JSON."""
    if not values:
        return EMPTY_OBJECT
    return b"{%b}" % b",".join([_key(name) + value for name, value in values.items()])


@lru_cache(10_000)
def _key(name: str) -> bytes:
    return _encode(name) + b":"
