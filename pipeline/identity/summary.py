"""What merging would change, in numbers and examples: sealed in a plan and shown in the report."""

from __future__ import annotations

from msgspec import Struct


class DecisionCount(Struct, frozen=True):
    """The number of pairs of ids with one decision and reason; identities.parquet has them all."""

    decision: str
    reason: str
    pairs: int


class Cluster(Struct, frozen=True):
    """A person with several ids: the canonical id, the number of ids, and some of the others."""

    canonical: str
    ids: int
    some: list[str]


class Partners(Struct, frozen=True):
    """An id, how many ids it is paired with, and how many rows pair them, whatever the decision."""

    id: str
    partners: int
    events: int


class SeveralUsers(Struct, frozen=True):
    """A device that several users have, or a person whom records make of several users: an id, the number of users,
    and some of them."""

    id: str
    users: int
    some: list[str]


class MergeSummary(Struct, frozen=True):
    """What merging would change. `links` are to be sent, `persons` counts the people with several ids.

    `largest` are the persons with the most ids, `shared` the anonymous ids with the most users, `crowded` the users
    with the most anonymous ids. `shared_devices` counts the ids with a user they are not merged with, `joined_users`
    the persons whom records of the tool make of several users, whether or not a policy keeps these apart.
    """

    links: int = 0
    pairs: int = 0
    persons: int = 0
    decisions: list[DecisionCount] = []
    largest: list[Cluster] = []
    shared: list[Partners] = []
    crowded: list[Partners] = []
    shared_devices: int = 0
    largest_shared: list[SeveralUsers] = []
    joined_users: int = 0
    largest_joined: list[SeveralUsers] = []
