"""The sealed lines of a plan (merges, groups and profile updates): whose each is, and putting a sample's lines first.

Ids are distinguished by their 64-bit hashes: two ids with the same hash count as one person here, who is still sent
whole.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from pipeline.encoder.updates import SealedGroup, SealedLink
from pipeline.id_hash import hash_id
from pipeline.plan.canary.strata import EACH, Stratum, stratum_of
from pipeline.plan.sealed.directory import EVENTS, PHASES, Directory, LinesWriter, sealed_file
from pipeline.plan.sealed.phases import line_decoder

Hashes = NDArray[np.uint64]
_LINES_AT_ONCE = 5_000


class SealedLines:
    """What a pass over the sealed files finds.

    `whose` has, by phase, a hash for each line: for a merge, the hash of the surviving id; for a group, that of its
    type and key; else that of the id. `absorbed` are the hashes of the other ids of the merges. `first_groups` are the
    lines of the first group of each type, `strata` counts what merges and profile updates show, and `candidates` are
    the ids of the first ones that show it.
    """

    def __init__(self, directory: Directory) -> None:
        self.whose: dict[str, Hashes] = {}
        self.first_groups: list[int] = []
        self.strata: Counter[Stratum] = Counter()
        self.candidates: dict[Stratum, list[str]] = {}
        self._directory = directory
        self._types: set[str] = set()
        absorbed = array("Q")
        for phase in PHASES:
            if phase == EVENTS:
                continue
            whose, decode = array("Q"), line_decoder(phase)
            for number, record in enumerate(map(decode, self._lines(phase))):
                if isinstance(record, SealedGroup):
                    whose.append(group_hash(record.type, record.key))
                    if record.type not in self._types:
                        self._types.add(record.type)
                        self.first_groups.append(number)
                    continue
                whose.append(hash_id(record.distinct_id))
                if isinstance(record, SealedLink):
                    absorbed.append(hash_id(record.other))
                stratum = stratum_of(record)
                self.strata[stratum] += 1
                if self.strata[stratum] <= EACH:
                    self.candidates.setdefault(stratum, []).append(record.distinct_id)
            self.whose[phase] = np.array(whose, np.uint64)
        self.absorbed = np.array(absorbed, np.uint64)

    def owners(self, ids: Hashes) -> Hashes:
        """The person of each id: the id that survives its merges, or the id itself. Merges form a star: every id is
        merged into a surviving one."""
        if not len(self.absorbed):
            return ids
        order = np.argsort(self.absorbed, kind="stable")
        where = np.minimum(np.searchsorted(self.absorbed, ids, sorter=order), len(order) - 1)
        return np.where(self.absorbed[order[where]] == ids, self.whose["identities"][order[where]], ids)

    def links(self, numbers: Sequence[int]) -> Iterator[SealedLink]:
        """The merges on these lines, which are in order."""
        decode = line_decoder("identities")
        wanted = iter(numbers)
        number = next(wanted, None)
        for at, line in enumerate(self._lines("identities")):
            if number is None:
                return
            if at == number:
                record = decode(line)
                assert isinstance(record, SealedLink)
                yield record
                number = next(wanted, None)

    def _lines(self, phase: str) -> Iterator[bytes]:
        path = sealed_file(phase, self._directory)
        if path.exists():
            with path.open("rb") as file:
                yield from file


def group_hash(type_: str, key: str) -> int:
    """The hash of a group, which differs from that of any id."""
    return hash_id(f"\0{type_}\0{key}")


def put_first(directory: Directory, lines: Mapping[str, Sequence[int]], files: dict[str, str]) -> None:
    """Rewrite the sealed files with these lines first; `files` receives the digests."""
    for phase, numbers in lines.items():
        if not numbers or numbers[-1] == len(numbers) - 1:
            continue  # they already come first
        path = sealed_file(phase, directory)
        chosen, rewritten = set(numbers), directory.scratch / path.name
        with LinesWriter(rewritten) as writer, path.open("rb") as file:
            for first in (True, False):
                file.seek(0)
                those = (line for number, line in enumerate(file) if (number in chosen) == first)
                while some := b"".join(islice(those, _LINES_AT_ONCE)):
                    writer.write_lines(some)
            files[path.name] = writer.close()
        rewritten.replace(path)
