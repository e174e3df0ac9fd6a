"""Hold what landed against the ledger: nothing missing, nothing extra, nothing different, nothing twice.

Two sets are compared exactly, by (uuid, event, distinct_id, timestamp). Both sides are spread over files by the first
bits of the uuid and compared file by file, so memory does not grow with the history.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.ledger import read_settled
from pipeline.make import Recipe, Task
from pipeline.management import ManagementClient
from pipeline.plan.directory import Directory
from pipeline.plan.reading import Planned, link_blocks, task_of, tasks
from pipeline.plan.sealed import Plan
from pipeline.verify.expected import SIGHT, expect_block, sights_of
from pipeline.verify.landed import landed_cells, landed_event, landed_sights
from pipeline.workers import Workers

SHOWN = 20
"""Differences that are named one by one; all are counted."""
_SPREAD = 64


class Difference(msgspec.Struct, frozen=True):
    """One event that is not as it should be. `kind` is `missing`, `extra` or `different`."""

    kind: str
    uuid: str
    block: int | None
    landed: list[tuple[str, str, str]]


class Verification(msgspec.Struct, frozen=True):
    """What verification found. `proved`: the two sets are equal and nothing landed twice."""

    cells: dict[str, int]
    events: dict[str, int]
    differences: list[Difference]
    format: str = "backcast.verify/1"

    @property
    def proved(self) -> bool:
        counts = self.events
        return not (counts["missing"] or counts["extra"] or counts["different"] or self.cells["duplicated"])


def verify(plan: Plan, directory: Directory, recipe: Recipe, client: ManagementClient, *, workers: int) -> Verification:
    """Compare the service behind `client` with the plan's ledger."""
    scratch = Path(tempfile.mkdtemp(prefix="verify-", dir=directory.path))
    try:
        expected, landed = _Spread(scratch / "expected"), _Spread(scratch / "landed")
        cells = _expect(plan, directory, recipe, workers, expected)
        found = landed_cells(client)
        for page in landed_sights(client, found.total()):
            landed.add(page)
        return _compare(cells, found, landed_cells(client, "raw_events"), expected, landed, client)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class _Spread:
    """Sights in files by the first bits of their uuid."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._paths = [directory / f"{index:02d}" for index in range(_SPREAD)]
        self._files: list[IO[bytes]] = [path.open("wb") for path in self._paths]
        self.count = 0

    def add(self, sights: NDArray[np.void]) -> None:
        self.count += len(sights)
        where = (sights["hi"] >> np.uint64(58)).astype(np.int64)
        for index in np.unique(where).tolist():
            self._files[index].write(sights[where == index].tobytes())

    def runs(self) -> Iterator[NDArray[np.void]]:
        for file, path in zip(self._files, self._paths, strict=True):
            file.close()
            run = np.fromfile(path, SIGHT)
            yield run[np.lexsort((run["what_lo"], run["what_hi"], run["lo"], run["hi"]))]


def _expect(
    plan: Plan, directory: Directory, recipe: Recipe, count: int, expected: _Spread
) -> Counter[tuple[str, str]]:
    settled: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for place in read_settled(directory.ledger):
        settled.setdefault((place.phase, place.block), []).append((place.first, place.last))
    cells: Counter[tuple[str, str]] = Counter()
    mapper = recipe.compile(recipe.options)
    for number, events in link_blocks(plan, directory, mapper, recipe.options):
        made = sights_of(events, settled.get(("identities", number), []), number)
        expected.add(np.frombuffer(made.sights, SIGHT))
        cells.update(made.cells)

    def choose(planned: Planned) -> Task | None:
        ranges = settled.get(("events", planned.sealed.number))
        return task_of(plan, planned)._replace(ended=ranges) if ranges else None

    with Workers(count, recipe) as workers:
        for _, block in workers.walk(expect_block, tasks(plan, directory, recipe.parts, choose)):
            expected.add(np.frombuffer(block.sights, SIGHT))
            cells.update(block.cells)
    return cells


def _compare(
    cells: Counter[tuple[str, str]],
    found: Counter[tuple[str, str]],
    raw: Counter[tuple[str, str]],
    expected: _Spread,
    landed: _Spread,
    client: ManagementClient,
) -> Verification:
    missing = extra = different = 0
    differences: list[Difference] = []
    for want, have in zip(expected.runs(), landed.runs(), strict=True):
        only_want, only_have = want[~_among(want, have)], have[~_among(have, want)]
        both = _uuids(only_want) & _uuids(only_have)
        for sights, kind in ((only_want, "missing"), (only_have, "extra")):
            for hi, lo, _, _, block, _ in sights.tolist():
                if (hi, lo) in both:
                    if kind == "extra":
                        continue
                    different += 1
                elif kind == "missing":
                    missing += 1
                else:
                    extra += 1
                if len(differences) < SHOWN:
                    uuid = _text(hi, lo)
                    named = "different" if (hi, lo) in both else kind
                    differences.append(
                        Difference(named, uuid, None if block < 0 else block, landed_event(client, uuid))
                    )
    keys = set(cells) | set(found)
    tally = {
        "match": sum(cells[key] == found[key] for key in keys),
        "missing": sum(found[key] < cells[key] for key in keys),
        "extra": sum(found[key] > cells[key] for key in keys),
        "duplicated": 0,
        "different": 0,
    }
    if different:
        tally["different"] = sum(cells[key] != found[key] for key in keys)
    return Verification(
        tally,
        {
            "expected": expected.count,
            "found": landed.count,
            "missing": missing,
            "extra": extra,
            "different": different,
            "copies": max(0, raw.total() - found.total()),
        },
        differences,
    )


def _among(these: NDArray[np.void], those: NDArray[np.void]) -> NDArray[np.bool_]:
    """Which of these sights stand, whole, among those."""
    names = ["hi", "lo", "what_hi", "what_lo"]
    return np.isin(_packed(these[names]), _packed(those[names]))


def _packed(sights: NDArray[np.void]) -> NDArray[np.void]:
    return np.ascontiguousarray(np.stack([sights[name] for name in sights.dtype.names or ()], axis=1)).view("V32")[:, 0]


def _uuids(sights: NDArray[np.void]) -> set[tuple[int, int]]:
    return set(zip(sights["hi"].tolist(), sights["lo"].tolist(), strict=True))


def _text(hi: int, lo: int) -> str:
    digits = f"{hi:016x}{lo:016x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
