"""What a deeper verification found stays until one at least as deep no longer finds it: a shallower one cannot see it.

The comparison of uuids finds events that are missing, different, duplicated or extra; the comparison of fields finds
altered events, and what is wrong with merges, profiles and groups.
"""

from __future__ import annotations

import msgspec

from pipeline.verify.findings import Verification

ALTERED = "altered"
_OF_UUIDS = ("missing", "different", "duplicated", "extra")
_DEPTHS = ("none", "sample", "all")


def kept_kinds(earlier: Verification | None, uuids: str, fields: str) -> frozenset[str]:
    """The kinds of differences that were found earlier and that a verification of this depth cannot clear."""
    if earlier is None:
        return frozenset()
    kinds: list[str] = []
    if earlier.uuids == "all" != uuids:
        kinds += _OF_UUIDS
    if _DEPTHS.index(earlier.values.fields) > _DEPTHS.index(fields):
        kinds.append(ALTERED)
        kinds += earlier.people.wrong
    return frozenset(kind for kind in kinds if getattr(earlier.events, kind, 0) or earlier.people.wrong.get(kind))


def with_earlier(found: Verification, earlier: Verification | None, kinds: frozenset[str]) -> Verification:
    """A verification with the differences of these kinds that were found earlier."""
    if earlier is None or not kinds:
        return found
    counts = kinds.intersection((*_OF_UUIDS, ALTERED))
    most = {kind: max(getattr(found.events, kind), getattr(earlier.events, kind)) for kind in counts}
    named = {(one.kind, one.uuid) for one in found.differences}
    kept = [one for one in earlier.differences if one.kind in kinds and (one.kind, one.uuid) not in named]
    return msgspec.structs.replace(
        found,
        events=msgspec.structs.replace(found.events, **most),
        differences=[*found.differences, *kept],
        kept=sorted(kinds),
        uuids="all" if kinds.intersection(_OF_UUIDS) else found.uuids,
        values=earlier.values if ALTERED in kinds else found.values,
        people=earlier.people if kinds.intersection(earlier.people.wrong) else found.people,
    )
