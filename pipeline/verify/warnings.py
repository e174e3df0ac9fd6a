"""The target's ingestion warnings about events of the plan: what it dropped, shortened or applied in part, by row.

The local service has them in a table `warnings`. The real service keeps its own out of reach of personal keys (S
`posthog/api/ingestion_warnings.py`: its scope is internal), so they can be read by a person alone.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING

import numpy as np

from pipeline.errors import Refused
from pipeline.verify.findings import WarningCheck, WarningCount
from pipeline.verify.rows import SealedPlan, place_differences
from pipeline.verify.session import PARTS, Pages

if TYPE_CHECKING:
    from pipeline.management import ManagementClient

MOST_READ = 20_000
"""Warnings that are read."""
EXAMPLES = 5
_UNREADABLE = (
    "the service shows its ingestion warnings to people alone: Data management, Ingestion warnings, in the project"
)


def read_warnings(
    client: ManagementClient,
    expected: Pages,
    sealed: SealedPlan,
    cells: list[tuple[str, str]],
) -> WarningCheck:
    """The warnings about events of the plan, by type, each with the first rows of those that were read."""
    try:
        answer = client.query(f"select type, uuid, dropped from warnings order by receipt limit {MOST_READ}")
    except Refused as error:
        if error.status == 400:
            return WarningCheck(unknown=_UNREADABLE)
        raise
    rows = [(str(type_), str(uuid), bool(dropped)) for type_, uuid, dropped in answer.results]
    planned = _planned(expected, {uuid for _, uuid, _ in rows})
    types: dict[str, list[tuple[str, bool]]] = {}
    for type_, uuid, dropped in rows:
        if uuid in planned:
            types.setdefault(type_, []).append((uuid, dropped))
    found = []
    for type_, some in sorted(types.items(), key=lambda item: (-len(item[1]), item[0])):
        events = dict(some)
        # Requests that are sent side by side arrive in any order; the rows that come first do not depend on it.
        first = nsmallest(EXAMPLES, (planned[uuid] for uuid in events), key=_place)
        found.append(WarningCount(type_, len(events), sum(events.values()), place_differences(first, sealed, cells)))
    over = f"only the first {MOST_READ:,} of the target's warnings were read" if len(rows) == MOST_READ else ""
    return WarningCheck(found, over)


def _place(event: np.void) -> tuple[int, int, int]:
    return int(event["phase"]), int(event["block"]), int(event["index"])


def _planned(expected: Pages, uuids: set[str]) -> dict[str, np.void]:
    """The fingerprints of those uuids that are of the plan."""
    by_part: dict[int, list[str]] = {}
    for uuid in uuids:
        by_part.setdefault(int(uuid.replace("-", "")[16:], 16) % PARTS, []).append(uuid)
    found: dict[str, np.void] = {}
    for number, some in by_part.items():
        events = expected.part(number)
        places = {(int(one["hi"]), int(one["lo"])): at for at, one in enumerate(events)}
        for uuid in some:
            digits = uuid.replace("-", "")
            at = places.get((int(digits[:16], 16), int(digits[16:], 16)))
            if at is not None:
                found[uuid] = events[at]
    return found
