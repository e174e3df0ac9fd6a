"""The steps in their order: from the pairs that were observed to who is who."""

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
from pipeline.identity.identities import Identities
from pipeline.identity.numbering import NUMBER, Numbering, counts, marked
from pipeline.identity.observed_pairs import NAMED, ROW, SETTLED, SETTLED_USER, EarlierLink, ObservedPair, ObservedPairs
from pipeline.identity.rules import MAX_IDS_PER_PERSON, Decision, PairArrays, Reason, judge


def resolve(
    observed: ObservedPairs,
    sight: Callable[[NDArray[np.uint64], NDArray[np.int32]], IdActivity],
    scratch: Path,
    *,
    most: int = MAX_IDS_PER_PERSON,
    earlier: Iterable[EarlierLink] = (),
) -> Identities:
    """Decide on every pair. `sight` tells of ids, by their hashes and what sorts those, what events say
    (see `sightings.sight`).

    `most` is --max-ids-per-person. `earlier` are the links that earlier plans for the same target sealed; a pair that
    is settled is neither sent nor dated again, one in doubt keeps its date, and the id that absorbed others stays the
    one that absorbs. To be closed after use.
    """
    doubtful = _add_earlier(observed, earlier)
    observed.aggregate()
    numbering = Numbering(observed.database, scratch)
    told = scratch / "pairs.arrow"
    size = observed.move_to(told)
    release_memory()
    pairs = _numbered(told, size, numbering)
    release_memory()
    sightings = sight(numbering.hashed, numbering.order)
    numbering.rest()
    release_memory()
    judged = judge(pairs, numbering.signs, sightings.users, sightings.earliest, most)
    reasons, users = judged.reasons, judged.users
    release_memory()
    numbers = (numbering.signs & NUMBER) != 0
    roots = components(pairs, reasons == 0, users)
    release_memory()
    while (large := _too_large(pairs, reasons, roots, numbers, most)).any():
        reasons[large] = Reason.TOO_MANY_IDS
        roots = components(pairs, reasons == 0, users)
    joined = (reasons == 0) & (roots[pairs.anonymous] == roots[pairs.user])
    canonical = canonical_ids(pairs, joined, roots, users, sightings.earliest, numbers)
    owners = _owners(pairs, reasons, joined, canonical)
    release_memory()
    decisions = _decide(pairs, reasons, joined, users, roots)
    release_memory()
    return Identities(
        told,
        numbering,
        pairs,
        decisions,
        reasons,
        joined,
        users,
        numbers,
        canonical,
        owners,
        sightings.earliest,
        doubtful,
    )


def _add_earlier(observed: ObservedPairs, earlier: Iterable[EarlierLink]) -> dict[tuple[str, str], EarlierLink]:
    """Add what is settled to the pairs; give back what is in doubt, which is never more than a few batches."""
    doubtful: dict[tuple[str, str], EarlierLink] = {}
    links = iter(earlier)
    while some := list(islice(links, ROWS_AT_ONCE)):
        doubtful.update(((link.distinct_id, link.other), link) for link in some if link.state == "in_doubt")
        settled = ((link, SETTLED_USER if link.kind == "identify" else 0) for link in some if link.state == "settled")
        observed.add(
            0,
            (
                ObservedPair(link.other, link.distinct_id, SETTLED | user, None, None, 0, NEVER)
                for link, user in settled
            ),
        )
    return doubtful


def _numbered(told: Path, size: int, numbering: Numbering) -> PairArrays:
    pairs = PairArrays(
        np.empty(size, np.int32),
        np.empty(size, np.int32),
        np.empty(size, np.uint8),
        np.empty(size, np.int64),
        np.empty(size, np.uint32),
    )
    at = 0
    for batch in read_batches(told):
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
    """Pairs of persons of more ids than may be, less those that the operator named or an earlier plan settled."""
    sizes = counts(roots[~numbers], len(roots))
    inside = (reasons == 0) & (roots[pairs.anonymous] == roots[pairs.user])
    return np.asarray(inside & ((pairs.kinds & (NAMED | SETTLED)) == 0) & (sizes[roots[pairs.user]] > most + 1))


def _owners(
    pairs: PairArrays, reasons: NDArray[np.uint8], joined: NDArray[np.bool_], canonical: NDArray[np.int32]
) -> NDArray[np.int32]:
    """By id: the id that owns a profile under it, which is that of its person; where no event bears the id without a
    user, as with the label of a Mixpanel cluster, there is nothing to merge, and it is the first such user's."""
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
    """The decision on each pair; `reasons` is completed."""
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
