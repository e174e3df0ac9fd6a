"""Identity resolution, step by step: from the observed pairs to the decided identities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.identity.clusters import Components, components, in_order
from pipeline.identity.database import numbers_of, read_batches, release_memory
from pipeline.identity.event_ids import IdActivity
from pipeline.identity.identities import IdDecisions, Identities, PairDecisions
from pipeline.identity.kinds import NEVER
from pipeline.identity.numbering import NUMBER, Numbering, counts, marked
from pipeline.identity.observed_pairs import (
    ALIAS,
    IDENTIFY,
    NAMED,
    ROW,
    SERVICE,
    SETTLED,
    SETTLED_USER,
    EarlierLink,
    ObservedPair,
    ObservedPairs,
)
from pipeline.identity.policies import (
    FIRST_USERS,
    KEPT_APART,
    UserPolicies,
    allow_one_person,
    joined_users,
    keep_apart,
    newest_users,
    profile_pairs,
)
from pipeline.identity.rules import MAX_IDS_PER_PERSON, Decision, PairArrays, Reason, apply_rules

_IDS_AT_ONCE = 200_000


def resolve(
    observed: ObservedPairs,
    find_activity: Callable[[NDArray[np.uint64], NDArray[np.int32]], IdActivity],
    scratch: Path,
    *,
    most: int = MAX_IDS_PER_PERSON,
    earlier: Iterable[EarlierLink] = (),
    per_event: bool = False,
    policies: UserPolicies = FIRST_USERS,
) -> Identities:
    """Decide on every pair. The caller has to close the result after use.

    `find_activity` takes the hashes of ids and the order that sorts them, and returns what events show about these ids
    (`pipeline.identity.event_ids.find_activity`). `most` is --max-ids-per-person. `earlier` are the links that earlier
    plans for the same target sealed: a settled pair is not sent or dated again, one in doubt keeps its date, and an id
    that absorbed others stays canonical. `per_event`: also refuse what the per-event endpoint never merges.
    `policies` decide on shared devices and on records that join users (`pipeline.identity.policies`).
    """
    in_doubt = _add_earlier(observed, earlier)
    observed.aggregate()
    numbering = Numbering(observed.database, scratch, per_event)
    table = scratch / "pairs.arrow"
    size = observed.move_to(table)
    release_memory()
    pairs = _numbered(table, size, numbering)
    release_memory()
    activity = find_activity(numbering.hashed, numbering.order)
    numbering.move_to_disk()
    release_memory()
    reasons, users = apply_rules(pairs, numbering.flags, activity.users, activity.earliest, most)
    release_memory()
    numbers = (numbering.flags & NUMBER) != 0
    shared = keep_apart(pairs, reasons, users, policies.shared_devices, table)
    apart = policies.joined_users == "none"

    def components_within_limits() -> Components:
        found = components(pairs, reasons == 0, users, activity.earliest, apart=apart)
        release_memory()
        while (large := _too_large(pairs, reasons, found.roots, numbers, most)).any():
            reasons[large] = Reason.TOO_MANY_IDS
            found = components(pairs, reasons == 0, users, activity.earliest, apart=apart)
        return found

    found = components_within_limits()
    if len(shared) and allow_one_person(pairs, reasons, shared, found.roots):
        found = components_within_limits()
    roots = found.roots
    joined = (reasons == 0) & (roots[pairs.anonymous] == roots[pairs.user])
    clusters = components(pairs, reasons == 0, users, activity.earliest) if apart and len(found.joining) else found
    joining = pairs.user[clusters.joining]
    newest = marked(roots[joining], len(roots)) if policies.joined_users == "latest" else None
    canonical = canonical_ids(pairs, joined, roots, users, activity.earliest, numbers, newest)
    several = joined_users(clusters.roots, joining, users & ~numbers, canonical, numbering.text)
    places = profile_pairs(
        pairs, in_order(pairs, reasons == Reason.NEVER_ALONE), policies.shared_devices, table, canonical
    )
    owners = _owners(pairs, places[::-1], joined, canonical)
    release_memory()
    if apart:
        reasons[found.joining[~joined[found.joining]]] = Reason.TWO_USERS
    decisions = _decide(pairs, reasons, joined, roots)
    release_memory()
    return Identities(
        numbering,
        PairDecisions(table, pairs, decisions, reasons, joined),
        IdDecisions(users, numbers, canonical, owners, activity.earliest, several),
        in_doubt,
    )


def _add_earlier(observed: ObservedPairs, earlier: Iterable[EarlierLink]) -> dict[tuple[str, str], EarlierLink]:
    """Add the settled links to the pairs. Returns those in doubt, which are never more than a few batches."""
    in_doubt: dict[tuple[str, str], EarlierLink] = {}

    def settled() -> Iterator[ObservedPair]:
        for link in earlier:
            if link.state == "in_doubt":
                in_doubt[link.distinct_id, link.other] = link
            elif link.state == "settled":
                kinds = SETTLED | (SETTLED_USER if link.kind == "identify" else 0)
                yield ObservedPair(link.other, link.distinct_id, kinds, NEVER, -NEVER, 0, NEVER)

    observed.add(0, settled())
    return in_doubt


def _numbered(table: Path, size: int, numbering: Numbering) -> PairArrays:
    pairs = PairArrays(
        np.empty(size, np.int32),
        np.empty(size, np.int32),
        np.empty(size, np.uint16),
        np.empty(size, np.int64),
        np.empty(size, np.uint32),
    )
    at = 0
    for batch in read_batches(table):
        some = slice(at, at + len(batch))
        pairs.anonymous[some] = numbering.of(batch.column("anonymous").to_pylist())
        pairs.user[some] = numbering.of(batch.column("owner").to_pylist())
        pairs.kinds[some] = numbers_of(batch, "kinds")
        pairs.first[some] = numbers_of(batch, "first")
        pairs.events[some] = np.minimum(numbers_of(batch, "events"), 2**32 - 1)
        at += len(batch)
    return pairs


def _too_large(
    pairs: PairArrays, reasons: NDArray[np.uint8], roots: NDArray[np.int32], numbers: NDArray[np.bool_], most: int
) -> NDArray[np.bool_]:
    """By pair: whether its person has more ids than allowed; false if the operator named the pair or an earlier plan
    settled it."""
    sizes = counts(roots, len(roots), ~numbers)
    inside = (reasons == 0) & (roots[pairs.anonymous] == roots[pairs.user])
    return np.asarray(inside & ((pairs.kinds & (NAMED | SETTLED)) == 0) & (sizes[roots[pairs.user]] > most + 1))


def _owners(
    pairs: PairArrays, places: NDArray[np.int64], joined: NDArray[np.bool_], canonical: NDArray[np.int32]
) -> NDArray[np.int32]:
    """By id: the id that receives a profile stored under it, which is the canonical id of its person.

    If the id is on no event without a user, as the label of a Mixpanel cluster, there is nothing to merge, and the
    profile goes to a user it occurs with: the last of `places` that pairs it.
    """
    owners = canonical.copy()
    alone = ~(marked(pairs.anonymous[joined], len(owners)) | marked(pairs.user[joined], len(owners)))
    places = places[alone[pairs.anonymous[places]]]
    owners[pairs.anonymous[places]] = canonical[pairs.user[places]]
    return owners


def _decide(
    pairs: PairArrays, reasons: NDArray[np.uint8], joined: NDArray[np.bool_], roots: NDArray[np.int32]
) -> NDArray[np.uint8]:
    """The decision on each pair. `reasons` is completed in place."""
    apart = np.isin(reasons, (*KEPT_APART, Reason.TWO_USERS))
    last = joined & marked(pairs.anonymous[reasons == Reason.LATER_USER], len(roots))[pairs.anonymous]
    refused = (reasons != 0) & ~apart
    conflict = (reasons == 0) & ~joined
    shared = marked(pairs.anonymous[conflict], len(roots))
    first = joined & shared[pairs.anonymous]
    survivors = marked(roots[pairs.user[(pairs.kinds & SETTLED) != 0]], len(roots))
    settled_apart = conflict & survivors[roots[pairs.anonymous]] & survivors[roots[pairs.user]]
    kinds = pairs.kinds
    reasons[joined & (kinds == ROW)] = Reason.SAME_ROW
    reasons[joined & (kinds != ROW)] = Reason.STATED
    reasons[joined & ((kinds & NAMED) != 0)] = Reason.NAMED
    reasons[joined & ((kinds & SETTLED) != 0)] = Reason.SETTLED
    reasons[first] = Reason.FIRST_USER
    reasons[conflict] = Reason.OTHER_USER
    reasons[settled_apart] = Reason.SETTLED_APART
    reasons[last] = Reason.LAST_USER
    decisions = np.full(len(pairs), Decision.MERGE, np.uint8)
    decisions[first] = Decision.FIRST_USER
    decisions[refused] = Decision.REFUSED
    decisions[conflict | apart] = Decision.CONFLICT
    decisions[last] = Decision.LAST_USER
    return decisions


def canonical_ids(
    pairs: PairArrays,
    joined: NDArray[np.bool_],
    roots: NDArray[np.int32],
    users: NDArray[np.bool_],
    earliest: NDArray[np.int64],
    numbers: NDArray[np.bool_],
    newest: NDArray[np.bool_] | None = None,
) -> NDArray[np.int32]:
    """By id: the canonical id of its person. `joined` marks the pairs whose two ids are one person; `numbers` are the
    ids that are a tool's numbers of persons.

    The service refuses a chain of merges at its second link (docs/know/service.md#merges), so all links of a person go
    to one id. The first of these criteria that decides chooses it: earlier plans kept it; it is a user's id; the tool's
    records keep it and never absorb it; they never absorb it; its first event is the earliest; it sorts first. A tool's
    number is chosen only if the person has no other id. `newest` marks the roots of persons who keep, of their users'
    ids, the one whose first event is the latest.
    """
    stated = joined & ((pairs.kinds & (IDENTIFY | ALIAS | SERVICE | NAMED | SETTLED)) != 0)
    absorbed = marked(pairs.anonymous[stated], len(roots))
    kept = marked(pairs.user[stated], len(roots))
    survivors = marked(pairs.user[(pairs.kinds & SETTLED) != 0], len(roots))
    rank = np.full(len(roots), 2, np.uint8)
    rank[kept] = 1
    rank[absorbed] = 3
    if newest is not None:
        rank[newest_users(newest, roots, users & ~numbers, earliest)] = 0
    rank[~users] += 4
    rank[~survivors] += 8
    rank[numbers] += 16
    best_rank = np.full(len(roots), 255, np.uint8)
    np.minimum.at(best_rank, roots, rank)
    first = np.full(len(roots), NEVER, np.int64)
    best = np.full(len(roots), len(roots), np.int32)
    for among in _candidates(rank, best_rank, roots):
        np.minimum.at(first, roots[among], earliest[among])
    for among in _candidates(rank, best_rank, roots):
        among = among[earliest[among] == first[roots[among]]]
        np.minimum.at(best, roots[among], among)
    return np.asarray(best[roots])


def _candidates(
    rank: NDArray[np.uint8], best: NDArray[np.uint8], roots: NDArray[np.int32]
) -> Iterator[NDArray[np.int32]]:
    for start in range(0, len(roots), _IDS_AT_ONCE):
        some = slice(start, start + _IDS_AT_ONCE)
        yield (start + np.flatnonzero(rank[some] == best[roots[some]])).astype(np.int32)
