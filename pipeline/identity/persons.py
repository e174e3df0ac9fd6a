"""The profile update of each person: one event with the last value of every property
(docs/know/service.md#two-spellings).

A live profile is newer than any export, so by default nothing in it is overwritten: `fill-only` writes every property
as `$set_once`. `overwrite` writes properties that were set as `$set`, and those that were only ever set once as
`$set_once`. `prefix=TEXT` writes all as `$set`, with TEXT before their names.

With `--promoted-properties final` the properties that the service itself copies from events
(`pipeline.identity.promotion`) get the values that they would have if rows and events arrived in time order, whatever
the real order of arrival. Properties that are set once are sent before all events (`initial_persons`), so that they
are there first; those of a live profile stay. Properties that are set are sent with the profile update, after all
events and as `$set` under every policy, because events would overwrite them anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

import msgspec
import xxhash
from msgspec import Raw

from pipeline.encoder.updates import EMPTY_OBJECT, SealedInitial, SealedPerson, encode_object
from pipeline.identity.kinds import SHOWN, SHOWN_ONCE
from pipeline.identity.last_values import LastValues, applied
from pipeline.identity.settings import ProfilePolicy
from pipeline.uuids import SEPARATOR, Hasher
from pipeline.validator.placeholder_ids import is_person_less, is_placeholder
from pipeline.validator.rules import MAX_ID

_AT_ONCE = 500
MOST_EXAMPLES = 5


class PersonCounts(msgspec.Struct):
    """Persons written, properties written for them in all, and how often each property name was written.

    `initials` counts the properties that are set once before all events. `left_out` counts by code: `junk_person` and
    `long_person` (ids that the service would merge with others), `anonymous_person` (no identity, with
    `--persons identified`), `unset_property` (the last update removed it, and no removal is sent). `examples` describes
    some cases of each code.
    """

    persons: int = 0
    properties: int = 0
    names: Counter[str] = msgspec.field(default_factory=Counter)
    left_out: Counter[str] = msgspec.field(default_factory=Counter)
    initials: int = 0
    examples: dict[str, list[str]] = msgspec.field(default_factory=dict)

    def add(self, following: PersonCounts) -> None:
        self.persons += following.persons
        self.properties += following.properties
        self.names.update(following.names)
        self.left_out.update(following.left_out)
        self.initials += following.initials
        for code, examples in following.examples.items():
            known = self.examples.setdefault(code, [])
            known += examples[: MOST_EXAMPLES - len(known)]


P = TypeVar("P", bound=SealedPerson)
Wanted = Callable[[Sequence[str]], Sequence[bool]]
"""Returns for each id whether it gets a profile."""


def final_persons(
    finals: Iterator[LastValues],
    policy: ProfilePolicy,
    hasher: Hasher,
    counts: PersonCounts,
    *,
    wanted: Wanted | None = None,
    removes: bool = False,
    per_event: bool = False,
) -> Iterator[SealedPerson]:
    """One record per person with properties, sorted by id. `counts` is filled on the way.

    `finals` are the last values of each person, sorted (`pipeline.identity.last_values`). With `removes`, `overwrite`
    removes from a live profile (`$unset`, which the contract does not know) what is removed at the end, and so what
    events write meanwhile; otherwise the removal is counted and not sent. `per_event`: ids that the per-event endpoint
    takes for placeholders get no profile either.
    """
    return _sealed("person", SealedPerson, _written(finals, policy, counts, wanted, removes, per_event), hasher)


def initial_persons(
    finals: Iterable[LastValues],
    policy: ProfilePolicy,
    hasher: Hasher,
    counts: PersonCounts,
    *,
    wanted: Wanted | None = None,
    per_event: bool = False,
) -> Iterator[SealedInitial]:
    """One record per person for whom its events would set something once, sorted by id and dated when the first
    does."""
    shown = (final for final in finals if final.shown)
    return _sealed("initial", SealedInitial, _written_first(shown, policy, counts, wanted, per_event), hasher)


class _Written(NamedTuple):
    """What is written for one person: `set` and `set_once` as JSON objects, and the names to remove as a JSON list; b""
    if there are none."""

    owner: str
    time: int
    set: bytes
    set_once: bytes
    unset: bytes = b""


def _written(
    finals: Iterator[LastValues],
    policy: ProfilePolicy,
    counts: PersonCounts,
    wanted: Wanted | None,
    removes: bool,
    per_event: bool,
) -> Iterator[_Written]:
    removes_all = removes and policy.name == "overwrite"
    for final, code in _with_codes(finals, wanted, per_event):
        if code:
            if final.set or final.set_once or final.unset:
                counts.left_out[code] += 1
            continue
        both = _both(final)
        written, once = _spelled(final, both, policy)
        names: Iterable[str] = both
        gone = list(final.unset) if removes_all else []
        if final.shown:
            shown, first, unset = _shown(final, policy)
            names = both.keys() | shown.keys()
            once = {name: value for name, value in once.items() if name not in first and name not in shown}
            written = dict(sorted((written | shown).items()))
            gone = [name for name in gone if name not in first]
            gone += [name for name in unset if removes and name not in gone]
        if len(gone) < len(final.unset):
            kept = [name for name in final.unset if name not in gone]
            counts.left_out["unset_property"] += len(kept)
            examples = counts.examples.setdefault("unset_property", [])
            examples += [f"{name} of {final.owner}" for name in kept][: MOST_EXAMPLES - len(examples)]
        gone = [one for one in gone if one not in written and one not in once]
        if not (written or once or gone):
            continue
        counts.persons += 1
        counts.properties += len(written) + len(once) + len(gone)
        for name in names:
            counts.names[name] += 1
        removed = msgspec.json.encode(gone) if gone else b""
        yield _Written(final.owner, final.time, encode_object(written), encode_object(once), removed)


def _written_first(
    finals: Iterator[LastValues], policy: ProfilePolicy, counts: PersonCounts, wanted: Wanted | None, per_event: bool
) -> Iterator[_Written]:
    for final, code in _with_codes(finals, wanted, per_event):
        first = _shown(final, policy)[1]
        if first and not code:
            counts.initials += len(first)
            time = min(update[1] for update in final.shown if update[3] in (SHOWN, SHOWN_ONCE))
            yield _Written(final.owner, time, EMPTY_OBJECT, encode_object(first))


def _with_codes(
    finals: Iterator[LastValues], wanted: Wanted | None, per_event: bool
) -> Iterator[tuple[LastValues, str]]:
    """Each person, and why it gets no profile; "" if it does."""
    while some := list(islice(finals, _AT_ONCE)):
        owners = [final.owner for final in some]
        for final, good in zip(some, [True] * len(some) if wanted is None else wanted(owners), strict=True):
            if is_placeholder(final.owner) or (per_event and is_person_less(final.owner)):
                yield final, "junk_person"
            elif len(final.owner) > MAX_ID or "\0" in final.owner:
                yield final, "long_person"
            else:
                yield final, "" if good else "anonymous_person"


def _spelled(
    final: LastValues, both: dict[str, bytes], policy: ProfilePolicy
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """What is written as `$set`, and what as `$set_once`."""
    if policy.name == "overwrite":
        return final.set, final.set_once
    if policy.name == "fill-only":
        return {}, both
    return {policy.prefix + name: value for name, value in both.items()}, {}


def _both(final: LastValues) -> dict[str, bytes]:
    if not final.set_once:
        return final.set
    return dict(sorted((final.set | final.set_once).items())) if final.set else final.set_once


def _shown(final: LastValues, policy: ProfilePolicy) -> tuple[dict[str, bytes], dict[str, bytes], list[str]]:
    """For the properties that events show: the values to set after all events, those to set once before them, and the
    names of removed ones. What rows state counts with them, unless it goes under other names."""
    updates = [update for update in final.shown if policy.name != "prefix" or update[3] in (SHOWN, SHOWN_ONCE)]
    set_, once, unset = applied(updates)
    last = {update[0] for update in updates if update[3] == SHOWN}
    both = set_ | once
    first = {name: value for name, value in both.items() if name not in last}
    return {name: value for name, value in both.items() if name in last}, first, [one for one in unset if one in last]


def _sealed(kind: str, record: type[P], written: Iterator[_Written], hasher: Hasher) -> Iterator[P]:
    """The records of what is written for persons, with their uuids: equal content gives equal uuids."""
    digest = xxhash.xxh3_128_hexdigest
    while some := list(islice(written, _AT_ONCE)):
        keys = [SEPARATOR.join((kind, one.owner, digest(b"%d:%b%b%b" % (len(one.set), *one[2:])))) for one in some]
        for (owner, time, of_set, of_once, gone), uuid in zip(some, hasher.texts(keys), strict=True):
            removed = Raw(gone) if gone else msgspec.UNSET
            yield record(owner, max(0, time), uuid, Raw(of_set), Raw(of_once), removed)
