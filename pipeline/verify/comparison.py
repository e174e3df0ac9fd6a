"""Compare the fingerprints of two sides, part by part: what agrees, and what does not, into files by kind.

What is in doubt, or waits since a larger request with it in was turned away, may have landed or not, and is no
difference either way. Copies that are equal in uuid, event, distinct_id and timestamp are none either: the service
collapses them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from pipeline.verify.event_set import Place
from pipeline.verify.expected import FINGERPRINT, IN_DOUBT, Fingerprints, identity
from pipeline.verify.landed import Row
from pipeline.verify.session import Cells
from pipeline.verify.values import landed_properties

MISSING, DIFFERENT, DUPLICATED, EXTRA = "missing", "different", "duplicated", "extra"
SUSPECT, LOST = "suspect", "lost"
"""Files beside those of the kinds: events of which a value may differ, and of the MISSING those that were asked for
again and are not there."""
WORST = (MISSING, DIFFERENT, DUPLICATED, EXTRA)
"""A cell that is wrong in several ways counts as the first of these."""
COUNTS = (
    "expected", "found", "missing", "extra", "duplicated", "different", "others", "copies", "altered", "late",
    "renamed", "retimed", "other_person",
)  # fmt: skip
_IDENTITY = ("hi", "lo", "name", "person", "time")
_WHAT = (("renamed", "name"), ("retimed", "time"), ("other_person", "person"))
_READ = 4_096
"""Records of a file that are read at once."""


class Comparison:
    """Counts, part by part, what agrees and what does not. To be created when the cells of the plan are known.

    The files of `folder` have the records of what differs: of the plan's events those that are missing, different, or
    SUSPECT of another value; of what landed those that are duplicated or extra. `planned` is how many cells the plan
    has, `read` says of each cell whether it was read; None: all were.
    """

    def __init__(
        self, cells: Cells, folder: Path, *, alone: bool, read: NDArray[np.bool_] | None, planned: int
    ) -> None:
        self._cells = cells
        self._planned = planned
        self._alone = alone
        self._read = read
        self._folder = folder
        self.counts = dict.fromkeys(COUNTS, 0)
        self._wrong: dict[str, set[int]] = {kind: set() for kind in WORST}
        self.extras: Counter[int] = Counter()
        for kind in (*WORST, SUSPECT, LOST):
            self._path(kind).unlink(missing_ok=True)

    def compare(self, want: Fingerprints, have: Fingerprints) -> None:
        """Compare one part of each side; equal uuids are in the same part."""
        if not (len(want) or len(have)):
            return
        counts = self.counts
        if self._read is not None:  # days whose counts are equal were not read
            known = self._read[want["cell"]]
            unread = int(np.count_nonzero(~known & (want["state"] != IN_DOUBT)))
            counts["expected"] += unread
            counts["found"] += unread
            want = want[known]
        every = have
        keys, first = np.unique(_packed(have), return_index=True)
        counts["copies"] += len(have) - len(keys)
        have = have[first]
        if not self._alone:
            ours = np.isin(keys_of(have), keys_of(want))
            self._set_apart(have[~ours])
            have, keys = have[ours], keys[ours]
        wanted = np.isin(_packed(want), keys)
        in_doubt = want["state"] == IN_DOUBT
        counts["expected"] += int(np.count_nonzero(wanted | ~in_doubt))
        counts["found"] += len(have)
        settled = want[wanted & ~in_doubt]
        # Of several copies one may have the values that were sent.
        same = np.isin(_packed(settled, "values"), _packed(every, "values"))
        self._add(SUSPECT, settled[~same & (settled["values"] != 0)])
        lost = want[~wanted & ~in_doubt]
        strange = have[~np.isin(keys, _packed(want))]
        if len(lost) or len(strange):
            self._sort_out(lost, strange, want[wanted], want[~wanted & in_doubt])

    def _sort_out(self, lost: Fingerprints, strange: Fingerprints, right: Fingerprints, open_: Fingerprints) -> None:
        by_uuid = {(event["hi"], event["lo"]): event for event in strange}
        is_there = np.array([(event["hi"], event["lo"]) in by_uuid for event in lost], np.bool_)
        self._add(MISSING, lost[~is_there])
        different = lost[is_there]
        for event in different:
            self.add_different(event, by_uuid[event["hi"], event["lo"]])
        seen, missed, doubtful = _uuids(right), _uuids(different), _uuids(open_)
        for event in strange:
            uuid = event["hi"], event["lo"]
            one = _alone(event)
            if uuid in seen:
                self._count(DUPLICATED, one)
                self.counts["extra"] += 1
            elif uuid in missed:
                self._wrong[DIFFERENT].add(int(event["cell"]))  # counted already, with the planned event
                seen.add(uuid)
            elif uuid in doubtful:
                self._count(DIFFERENT, one)
                seen.add(uuid)
            else:
                self._count(EXTRA, one)
                self.extras[int(event["cell"])] += 1

    def _set_apart(self, foreign: Fingerprints) -> None:
        """Count events that are not of the plan."""
        self.counts["others"] += len(foreign)
        cells, counts = np.unique(foreign["cell"], return_counts=True)
        self.extras.update(dict(zip(cells.tolist(), counts.tolist(), strict=True)))

    def _count(self, kind: str, events: Fingerprints) -> None:
        self.counts[kind] += len(events)
        self._wrong[kind].update(events["cell"].tolist())
        self._add(kind, events)

    def add_different(self, planned: np.void, landed: np.void) -> None:
        """A planned event whose uuid landed with another name, time or person."""
        self._count(DIFFERENT, _alone(planned))
        for count, column in _WHAT:
            self.counts[count] += bool(planned[column] != landed[column])

    # -- files ---------------------------------------------------------------------------------------

    def _path(self, kind: str) -> Path:
        return self._folder / f"{kind}.bin"

    def _add(self, kind: str, events: Fingerprints) -> None:
        if len(events):
            with self._path(kind).open("ab") as file:
                file.write(events.tobytes())

    def count_of(self, kind: str) -> int:
        """How many records a file has."""
        return self._path(kind).stat().st_size // FINGERPRINT.itemsize if self._path(kind).exists() else 0

    def read(self, kind: str, most: int | None = None, size: int = _READ) -> Iterator[Fingerprints]:
        """The records of a file, some at a time, at most `most` of them."""
        if not self._path(kind).exists():
            return
        left = self.count_of(kind) if most is None else most
        with self._path(kind).open("rb") as file:
            while left > 0 and len(some := np.fromfile(file, FINGERPRINT, min(size, left))):
                left -= len(some)
                yield some

    # -- what was missing, asked for again ----------------------------------------------------------------

    def ask_again(self, landed: Mapping[str, list[Row]], missing: Fingerprints, marks: Mapping[str, str]) -> None:
        """Decide on events that were missing by what the service has now under their uuids, whatever their marks.

        One that is there was late; one without the marks of the import is SUSPECT, since a property of it changed.
        """
        still = []
        for event in missing:
            rows = landed.get(uuid_of(event), [])
            own = [row for row in rows if identity(*row[:4]) == tuple(int(event[column]) for column in _IDENTITY)]
            if own:
                self.counts["found"] += 1
                if any(_has_marks(row, marks) for row in own):
                    self.counts["late"] += 1
                else:
                    self._add(SUSPECT, _alone(event))
            elif rows:
                self.add_different(event, _fingerprint(rows[0]))
            else:
                still.append(event)
        self.keep_missing(np.array(still, FINGERPRINT))

    def keep_missing(self, missing: Fingerprints) -> None:
        """Events that are missing for good."""
        self.counts[MISSING] += len(missing)
        self._wrong[MISSING].update(missing["cell"].tolist())
        self._add(LOST, missing)

    def places(self, file: str) -> Iterator[Place]:
        """The places of the events of a file."""
        for some in self.read(file):
            yield from zip(some["phase"].tolist(), some["block"].tolist(), some["index"].tolist(), strict=True)

    def count_copies(self, accepted: int | None) -> None:
        """Count the copies of `accepted` events in all, where that is known."""
        if accepted is not None:
            self.counts["copies"] = max(0, accepted - self.counts["found"] - self.counts["others"])

    def cells(self) -> dict[str, int]:
        """How many cells agree, and how many differ, each as the worst of what is wrong in it."""
        tally = dict.fromkeys(("match", "missing", "extra", "duplicated", "different"), 0)
        taken: set[int] = set()
        for kind in WORST:
            tally[kind] = len(self._wrong[kind] - taken)
            taken |= self._wrong[kind]
        tally["match"] = self._planned - sum(cell < self._planned for cell in taken)
        return tally


def _alone(event: np.void) -> Fingerprints:
    return np.array([event], FINGERPRINT)


def _has_marks(row: Row, marks: Mapping[str, str]) -> bool:
    properties = landed_properties(row.properties) or {}
    return all(_text(properties.get(name)) == text for name, text in marks.items())


def _text(value: Raw | None) -> object:
    return None if value is None else msgspec.json.decode(value)


def _fingerprint(row: Row) -> np.void:
    found: np.void = np.array([(*identity(*row[:4]), 0, -1, 0, 0, 0, 0)], FINGERPRINT)[0]
    return found


def uuid_of(event: np.void) -> str:
    """The uuid of a fingerprint."""
    digits = f"{int(event['hi']):016x}{int(event['lo']):016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def keys_of(fingerprints: Fingerprints) -> NDArray[np.void]:
    """The uuid of each fingerprint as 16 bytes that compare whole."""
    return _columns(fingerprints, "hi", "lo")


def _packed(fingerprints: Fingerprints, *more: str) -> NDArray[np.void]:
    """What makes each fingerprint an event, as bytes that compare whole."""
    return _columns(fingerprints, *_IDENTITY, *more)


def _columns(fingerprints: Fingerprints, *names: str) -> NDArray[np.void]:
    columns = np.ascontiguousarray(np.stack([fingerprints[name] for name in names], axis=1))
    return columns.view(f"V{columns.itemsize * len(names)}")[:, 0]


def _uuids(fingerprints: Fingerprints) -> set[tuple[int, int]]:
    return set(zip(fingerprints["hi"].tolist(), fingerprints["lo"].tolist(), strict=True))
