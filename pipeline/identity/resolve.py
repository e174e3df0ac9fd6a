"""Identity resolution, step by step: from the observed pairs to the decided identities."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.identity.accumulators import NEVER
from pipeline.identity.clusters import canonical_ids, components, in_order
from pipeline.identity.database import ROWS_AT_ONCE, numbers_of, read_batches, release_memory
from pipeline.identity.event_ids import IdActivity
from pipeline.identity.identities import IdDecisions, Identities, PairDecisions
from pipeline.identity.numbering import NUMBER, Numbering, counts, marked
from pipeline.identity.observed_pairs import NAMED, ROW, SETTLED, SETTLED_USER, EarlierLink, ObservedPair, ObservedPairs
from pipeline.identity.rules import MAX_IDS_PER_PERSON, Decision, PairArrays, Reason, apply_rules


def resolve(
    observed: ObservedPairs,
    find_activity: Callable[[NDArray[np.uint64], NDArray[np.int32]], IdActivity],
    scratch: Path,
    *,
    most: int = MAX_IDS_PER_PERSON,
    earlier: Iterable[EarlierLink] = (),
    per_event: bool = False,
) -> Identities:
    """Decide on every pair. The result has to be closed after use.

    `find_activity` returns what the events of ids show, given the hashes of ids and the order that sorts them
    (`pipeline.identity.event_ids.find_activity`). `most` is --max-ids-per-person. `earlier` are the links that earlier
    plans for the same target sealed: a pair that is settled is not sent or dated again, one in doubt keeps its date,
    and an id that absorbed others stays the canonical one. `per_event`: what the per-event endpoint never merges is
    refused too.
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
    ruled = apply_rules(pairs, numbering.flags, activity.users, activity.earliest, most)
    reasons, users = ruled.reasons, ruled.users
    release_memory()
    numbers = (numbering.flags & NUMBER) != 0
    roots = components(pairs, reasons == 0, users, activity.earliest)
    release_memory()
    while (large := _too_large(pairs, reasons, roots, numbers, most)).any():
        reasons[large] = Reason.TOO_MANY_IDS
        roots = components(pairs, reasons == 0, users, activity.earliest)
    joined = (reasons == 0) & (roots[pairs.anonymous] == roots[pairs.user])
    canonical = canonical_ids(pairs, joined, roots, users, activity.earliest, numbers)
    owners = _owners(pairs, reasons, joined, canonical)
    release_memory()
    decisions = _decide(pairs, reasons, joined, users, roots)
    release_memory()
    return Identities(
        numbering,
        PairDecisions(table, pairs, decisions, reasons, joined),
        IdDecisions(users, numbers, canonical, owners, activity.earliest),
        in_doubt,
    )


def _add_earlier(observed: ObservedPairs, earlier: Iterable[EarlierLink]) -> dict[tuple[str, str], EarlierLink]:
    """Add the settled links to the pairs. Returns those in doubt, which are never more than a few batches."""
    in_doubt: dict[tuple[str, str], EarlierLink] = {}
    links = iter(earlier)
    while some := list(islice(links, ROWS_AT_ONCE)):
        in_doubt.update(((link.distinct_id, link.other), link) for link in some if link.state == "in_doubt")
        settled = ((link, SETTLED_USER if link.kind == "identify" else 0) for link in some if link.state == "settled")
        observed.add(
            0,
            (
                ObservedPair(link.other, link.distinct_id, SETTLED | user, None, None, 0, NEVER)
                for link, user in settled
            ),
        )
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
    """By pair: whether its person has more ids than allowed, unless the operator named it or an earlier plan settled
    it."""
    sizes = counts(roots, len(roots), ~numbers)
    inside = (reasons == 0) & (roots[pairs.anonymous] == roots[pairs.user])
    return np.asarray(inside & ((pairs.kinds & (NAMED | SETTLED)) == 0) & (sizes[roots[pairs.user]] > most + 1))


def _owners(
    pairs: PairArrays, reasons: NDArray[np.uint8], joined: NDArray[np.bool_], canonical: NDArray[np.int32]
) -> NDArray[np.int32]:
    """By id: the id that a profile stored under it is sent to, which is the canonical one of its person.

    Where no event has the id without a user, as with the label of a Mixpanel cluster, there is nothing to merge, and
    the profile goes to the first such user.
    """
    owners = canonical.copy()
    places = in_order(pairs, reasons == Reason.NEVER_ALONE)[::-1]
    alone = ~(marked(pairs.anonymous[joined], len(owners)) | marked(pairs.user[joined], len(owners)))
    places = places[alone[pairs.anonymous[places]]]
    owners[pairs.anonymous[places]] = canonical[pairs.user[places]]
    return owners


def _decide(
    pairs: PairArrays,
    reasons: NDArray[np.uint8],
    joined: NDArray[np.bool_],
    users: NDArray[np.bool_],
    roots: NDArray[np.int32],
) -> NDArray[np.uint8]:
    """The decision on each pair. `reasons` is completed in place."""
    refused = reasons != 0
    conflict = ~refused & ~joined
    shared = marked(pairs.anonymous[conflict], len(roots))
    first = joined & shared[pairs.anonymous]
    survivors = marked(roots[pairs.user[(pairs.kinds & SETTLED) != 0]], len(roots))
    apart = conflict & survivors[roots[pairs.anonymous]] & survivors[roots[pairs.user]]
    kinds = pairs.kinds
    reasons[joined & (kinds == ROW)] = Reason.SAME_ROW
    reasons[joined & (kinds != ROW)] = Reason.STATED
    reasons[joined & ((kinds & NAMED) != 0)] = Reason.NAMED
    reasons[joined & ((kinds & SETTLED) != 0)] = Reason.SETTLED
    reasons[first] = Reason.FIRST_USER
    reasons[conflict] = Reason.OTHER_USER
    reasons[apart] = Reason.SETTLED_APART
    decisions = np.full(len(pairs), Decision.MERGE, np.uint8)
    decisions[first] = Decision.FIRST_USER
    decisions[refused] = Decision.REFUSED
    decisions[conflict] = Decision.CONFLICT
    return decisions
