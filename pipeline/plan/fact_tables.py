"""The facts of all blocks of a plan, as the tables of a database that spills to disk.

Every decision and every count of a plan is a query here. A query that sorts or groups more than fits into memory
continues in the plan's scratch folder, so memory does not grow with the export (docs/know/promises.md#constant-memory).

    facts     every fact (`pipeline.transform.facts`): `event` for kind, `received` as it is ranked, and `place`
    decided   the facts that are left out, with the `code` of the skip, and the events that are sent as number
              `ordinal` of several equal rows
    sent      the events that are sent
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from pipeline.identity.database import Database, files_in
from pipeline.plan.sealed.directory import Directory
from pipeline.transform.facts import write_no_facts

MEMORY, THREADS = "256MB", 2
"""Measured with 4,000,000 events of one person and with 20,000,000 of a million people: nothing needs more at once."""
_EARLIEST = 1 << 62
"""If the row received earliest counts, `received` is this minus the receive time; 0 still means no receive time."""
_FACTS = """
CREATE VIEW facts AS
SELECT block, row, position, row_events, kind = 'event' AS event, name, distinct_id, person, time,
    {received} AS received, hi, lo, keyless, content_hi, content_lo, same,
    block * 1099511627776::UBIGINT + row * 65536::UBIGINT + position AS place
FROM {files}
"""
_DECIDED = """
CREATE TABLE decided (
    place UBIGINT, block UINTEGER, row UINTEGER, position USMALLINT, row_events USMALLINT, event BOOLEAN, name VARCHAR,
    time BIGINT, code VARCHAR, ordinal UINTEGER
)
"""
_SENT = """
CREATE OR REPLACE VIEW sent AS
SELECT facts.*, coalesce(decided.ordinal, 0) AS ordinal
FROM facts LEFT JOIN (SELECT place, code, ordinal FROM decided) AS decided USING (place)
WHERE event AND code IS NULL
"""
_ALL_SENT = "CREATE OR REPLACE VIEW sent AS SELECT *, 0 AS ordinal FROM facts WHERE event"


class FactTables(Database):
    """The tables of a plan, once every block is mapped. With `earliest`, the row that was received earliest counts
    among rows with the same key."""

    def __init__(self, directory: Directory, *, earliest: bool = False) -> None:
        super().__init__(directory.scratch, MEMORY, THREADS, ordered=False)
        write_no_facts(directory.block_facts)
        received = f"CASE WHEN received > 0 THEN {_EARLIEST} - received ELSE 0 END" if earliest else "received"
        self.run(_FACTS.format(received=received, files=files_in(directory.block_facts)))
        self.run(_DECIDED)
        self.run(_ALL_SENT)

    def apply_decisions(self) -> None:
        """Make `sent` reflect the current contents of `decided`."""
        self.run(_SENT if self.number("SELECT count(*) FROM decided") else _ALL_SENT)

    def add(self, table: str, *columns: NDArray[Any]) -> None:
        """Add rows of numbers; the columns are in the table's order."""
        self.append(table, {str(number): one for number, one in enumerate(columns)})
