"""Five million distinct ids are planned within 600 MB, in a separate process (eight minutes)."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.identity.database import Database
from pipeline.identity.event_ids import find_activity
from pipeline.identity.numbering import hashes
from pipeline.identity.observed_pairs import ALIAS, ROW, ObservedPair, ObservedPairs
from pipeline.identity.resolve import resolve
from pipeline.plan.window_index import SIGHTING
from pipeline.uuids import Hasher, namespace

IDS = 5_000_000
MOST_MEGABYTES = 600


def device(number: int) -> str:
    """An id as trackers make them, in random order."""
    return f"{number * 2654435761 % 2**32:08x}-aaaa-4bbb-8ccc-{number:012d}"


def pairs(shape: str, devices: int, users: int) -> Iterator[ObservedPair]:
    """One user per device; or two for each, the second always later; or chains of forty devices."""
    for number in range(devices):
        if shape == "chain":
            if number % 40:
                yield ObservedPair(device(number), device(number - 1), ALIAS, number, number, 1, number + 1)
            continue
        yield ObservedPair(device(number), f"user-{number % users}", ROW, number, number + 9, 3, number + 1)
        if shape == "shared":
            yield ObservedPair(
                device(number), f"user-{(number * 7 + 1) % users}", ROW, number + 1, number + 9, 3, number + 1
            )


def keys(devices: int) -> Iterator[np.ndarray[Any, np.dtype[np.void]]]:
    """An event of each device."""
    for start in range(0, devices, 100_000):
        some = np.zeros(min(100_000, devices - start), SIGHTING)
        some["person"] = hashes(device(number) for number in range(start, start + len(some)))
        some["time"] = np.arange(start, start + len(some))
        yield some


def plan(shape: str, ids: int, scratch: Path) -> dict[str, int]:
    """Resolve this many ids; what it took. `grown` are the MB beyond those of a process that has only started."""
    begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    users = ids if shape == "chain" else ids // 5
    devices = ids if shape == "chain" else ids - users
    with Database(scratch) as database:
        observed = ObservedPairs(database)
        for block in _blocks(pairs(shape, devices, users)):
            observed.add(0, block)
        with resolve(observed, partial(find_activity, chunks=keys(devices)), scratch) as found:
            found.write(scratch / "identities.parquet", ["part"])
            summary = found.summary()
            sent = sum(1 for _ in found.links(Hasher(namespace("soak")), 10**15))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {"rows": summary.pairs, "links": sent, "persons": summary.persons, "megabytes": peak, "grown": peak - begun}


def _blocks(every: Iterator[ObservedPair]) -> Iterator[list[ObservedPair]]:
    while some := [one for _, one in zip(range(5_000), every, strict=False)]:
        yield some


@pytest.mark.parametrize(("shape", "links"), [("leaf", 4_000_000), ("shared", 4_000_000), ("chain", 4_875_000)])
def test_five_million_ids_are_planned_within_600_megabytes(tmp_path: Path, shape: str, links: int) -> None:
    """Each device in one link, all of them in the table."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.soak.soak_identities", shape, str(IDS), str(tmp_path)],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parent.parent.parent,
    )  # fmt: skip
    found = json.loads(ran.stdout)
    print(found)
    assert found["links"] == links
    assert found["megabytes"] <= MOST_MEGABYTES


if __name__ == "__main__":
    print(json.dumps(plan(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))))
