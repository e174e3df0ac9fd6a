"""Decides on the duplicates of a whole source by queries over its facts, and counts the rows that are left out."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipeline.id_hash import hash_id
from pipeline.plan.blocks import read_blocks
from pipeline.plan.duplicates import (
    CHANGED,
    MAX_CLASHES,
    Clash,
    Replaced,
    decide_copies,
    decide_settled,
    first_clashes,
)
from pipeline.plan.fact_tables import FactTables
from pipeline.plan.request import Request
from pipeline.plan.sealed.directory import LinesWriter
from pipeline.plan.settled import ALREADY_SETTLED, Settled
from pipeline.plan.walk import Walk
from pipeline.transform.block import canonical_digests
from pipeline.transform.tasks import DuplicateDecision, Task

if TYPE_CHECKING:
    from pipeline.identity.event_ids import PersonNumbers

_COPIES = "SELECT block, row, position, ordinal, coalesce(code, '') FROM decided WHERE event ORDER BY place"
_WITHOUT_EFFECT = f"""
SELECT block, row, position FROM decided
WHERE code != '{ALREADY_SETTLED}' OR (code IS NOT NULL AND ordinal = {CHANGED}) ORDER BY place
"""
_ROWS_OUT = """
SELECT part, whole, code, count(*) FROM (
    SELECT block, count(*) = any_value(row_events) AS whole, arg_min(code, position) AS code
    FROM decided WHERE code IS NOT NULL AND row_events > 0 GROUP BY block, row
) JOIN parts USING (block) GROUP BY ALL
"""
"""The rows that lost events, and whether they lost all of them; the code of the first event counts."""
_block_of = itemgetter(0)


class Deduplication:
    """Decides and writes copies.jsonl.

    After `run`: `clashes` counts rows left out in favour of a different event, and `clash_examples` has the first of
    them; `replaced` is the first superseded event of the source, `identical` the (block, row) of the first row that
    equals an earlier one. `copies` counts the rows left out as duplicates, by the number of their file, and
    `other_copies` those that may state something else than the row that stays. `keyless` counts the events without a
    source key.
    """

    def __init__(self, request: Request, source: Walk, settled: Settled | None) -> None:
        self._request = request
        self._source = source
        self._settled = settled
        self.clashes = 0
        self.clash_examples: list[Clash] = []
        self.replaced: Replaced | None = None
        self.other_copies = 0
        self.identical: tuple[int, int] | None = None
        self.copies: Counter[int] = Counter()
        self.keyless = 0

    def run(self, tables: FactTables) -> None:
        """Decide on all facts."""
        request, source = self._request, self._source
        self.tables = tables
        collapse, in_series = request.config.options.collapse_identical, request.series is not None
        self.replaced, self.other_copies = decide_copies(tables, collapse=collapse, canonical=self._canonical)
        if in_series:
            _hash_names(tables)
        if self._settled is not None:
            changed = decide_settled(tables, self._settled, in_series=in_series)
            source.warnings["changed_since_settled"] += changed
            self.other_copies += changed if in_series else 0
        self.keyless = tables.number("SELECT count(*) FROM facts WHERE event AND keyless")
        self.clashes = tables.number("SELECT count(*) FROM clashing")
        self.clash_examples = first_clashes(tables, "clashing")
        identical = tables.rows(
            "SELECT count(*), arg_min((block, row), place) FROM decided WHERE code IS NULL AND ordinal > 0"
        )
        source.warnings["identical_rows"] += identical[0][0]
        self.identical = identical[0][1]
        with LinesWriter(request.directory.copies) as writer:
            writer.write_all(tables.tuples(_COPIES))
        self._count_rows()

    def _count_rows(self) -> None:
        """Count the rows that are left out."""
        source = self._source
        parts = np.array(source.block_parts, np.uint32)
        self.tables.run("CREATE TABLE parts (block UINTEGER, part UINTEGER)")
        self.tables.add("parts", np.arange(len(parts), dtype=np.uint32), parts)
        for part, whole, code, count in self.tables.rows(_ROWS_OUT):
            if not whole:
                source.warnings["partly_duplicate_row"] += count
                continue
            source.parts[part].mapped -= count
            source.parts[part].skipped += count
            source.skips[code] += count
            if code == "duplicate_event":
                self.copies[part] += count

    def _canonical(
        self, places: Iterator[tuple[int, int, int]]
    ) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint64]]]:
        """The digests of what events and rows say, read from the blocks that the plan holds."""
        waiting: deque[NDArray[np.uint64]] = deque()

        def tasks() -> Iterator[Task]:
            blocks = read_blocks(self._request.directory)
            for number, some in groupby(places, key=_block_of):
                found = [(row, position) for _, row, position in some]
                waiting.append(np.array([number << 40 | row << 16 | at for row, at in found], np.uint64))
                block = next(one for one in blocks if one.number == number)
                places_of = [DuplicateDecision(*place, 0, "") for place in found]
                yield Task(number, block.block, seal=block.digest, duplicates=places_of)

        for _, digests in self._request.engine.map(canonical_digests, tasks()):
            yield waiting.popleft(), np.frombuffer(digests, np.uint64).reshape(-1, 2)

    def without_effect(self) -> Iterator[tuple[int, NDArray[np.uint32], NDArray[np.uint16]]]:
        """The rows and positions, by block, whose statements about ids, persons and groups do not count.
        Events that were settled unchanged still count; events that were settled with other content do not."""
        for number, some in groupby(self.tables.tuples(_WITHOUT_EFFECT), key=_block_of):
            _, rows, positions = zip(*some, strict=True)
            yield number, np.array(rows, np.uint32), np.array(positions, np.uint16)

    def judge_strangers(self, person_numbers: PersonNumbers) -> None:
        """Count rows with the same key as clashes if they belong to different persons."""
        if not self.tables.number("SELECT count(*) FROM strangers"):
            return
        self.tables.run("CREATE TABLE apart (person UBIGINT, winner_person UBIGINT)")
        for some in self.tables.arrays("SELECT DISTINCT person, winner_person FROM strangers"):
            one, other = some["person"], some["winner_person"]
            numbers, others = person_numbers(one), person_numbers(other)
            apart = (numbers != others) | (numbers < 0)
            self.tables.add("apart", one[apart], other[apart])
        those = "strangers SEMI JOIN apart USING (person, winner_person)"
        self.clashes += self.tables.number(f"SELECT count(*) FROM {those}")
        found = [*self.clash_examples, *first_clashes(self.tables, those)]
        self.clash_examples = sorted(found, key=lambda clash: clash[:2])[:MAX_CLASHES]


def _hash_names(tables: FactTables) -> None:
    """Make the table `name_hashes`: a hash of each event name, the same on every machine."""
    tables.run("CREATE TABLE name_hashes (name VARCHAR, hash UBIGINT)")
    names = (name for (name,) in tables.tuples("SELECT DISTINCT name FROM facts WHERE event"))
    tables.insert("name_hashes", ((name, hash_id(name)) for name in names))
