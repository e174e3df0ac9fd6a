"""The target's ingestion warnings about events of the plan: what it dropped, shortened or applied in part, by row.

The local service has them in a table `warnings`. The real service keeps its own out of reach of personal keys (S
`posthog/api/ingestion_warnings.py`: its scope is internal), so only a person can read them.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from pipeline.errors import Refused
from pipeline.identity.database import Database
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.verify.findings import WarningCheck, WarningCount
from pipeline.verify.rows import planned_rows

if TYPE_CHECKING:
    from pipeline.management import ManagementClient

MOST_READ = 20_000
"""At most this many warnings are read."""
EXAMPLES = 5
_UNREADABLE = (
    "the service shows its ingestion warnings only to people: Data management, Ingestion warnings, in the project"
)


def read_warnings(client: ManagementClient, database: Database, plan: Plan, directory: Directory) -> WarningCheck:
    """The warnings about events of the plan, by type, each with the first rows of those that were read."""
    try:
        answer = client.query(f"select type, uuid, dropped from warnings order by receipt limit {MOST_READ}")
    except Refused as error:
        if error.status == 400:
            return WarningCheck(unknown=_UNREADABLE)
        raise
    rows = [(str(type_), str(uuid), bool(dropped)) for type_, uuid, dropped in answer.results]
    planned = planned_rows(database, sorted({uuid for _, uuid, _ in rows}), plan, directory)
    types: dict[str, dict[str, bool]] = {}
    for type_, uuid, dropped in rows:
        if uuid in planned:
            types.setdefault(type_, {})[uuid] = dropped
    found = []
    for type_, events in sorted(types.items(), key=lambda item: (-len(item[1]), item[0])):
        # Requests sent in parallel arrive in any order; which rows come first does not depend on it.
        first = islice((one for uuid, one in planned.items() if uuid in events), EXAMPLES)
        found.append(WarningCount(type_, len(events), sum(events.values()), list(first)))
    over = f"only the first {MOST_READ:,} of the target's warnings were read" if len(rows) == MOST_READ else ""
    return WarningCheck(found, over)
