"""What should have arrived: the planned events transformed once more, those that are settled or in doubt.

Each becomes a fingerprint of fixed size, computed from the encoded event as it was sent. Of each stratum (phase, event
name and year) the events with the smallest hashes of their uuids are the sample whose values are compared: which these
are depends on the uuids alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
import xxhash
from msgspec import Raw
from numpy.typing import NDArray

from pipeline.encoder.encoded import read_event, read_properties
from pipeline.transform.block import BlockTransformer
from pipeline.transform.tasks import Task

FINGERPRINT = np.dtype(
    [
        ("hi", "<u8"), ("lo", "<u8"), ("name", "<u8"), ("person", "<u8"), ("time", "<u8"), ("values", "<u8"),
        ("block", "<i4"), ("index", "<u4"), ("cell", "<u4"), ("phase", "u1"), ("state", "u1"),
    ]
)  # fmt: skip
"""An event: its uuid (`hi`, `lo`), hashes of its name, distinct_id, timestamp and properties (0 where these are not
compared), its place in the plan (`phase` is an index of PHASES), the index of its cell (event × UTC day), its state."""
SENT, IN_DOUBT, LANDED = 0, 1, 2
EACH = 25
"""Events of a stratum that are in the sample."""

Fingerprints = NDArray[np.void]
Stratum = tuple[int, str, str]
"""The index of the phase, the event name, the year."""


class Candidate(msgspec.Struct, frozen=True, array_like=True):
    """An event that may be one of the sample: its stratum, the hash of its uuid, its place, and what was sent."""

    stratum: Stratum
    hash: int
    block: int
    index: int
    event: bytes


class Expected(NamedTuple):
    """The events of one block that were sent: FINGERPRINT records, whose `cell` is an index of `cells`."""

    fingerprints: bytes
    cells: list[tuple[str, str]]
    candidates: list[Candidate]


class Ranges(NamedTuple):
    """The events of one block that are settled, and those in doubt, as (first, last), counted from 0."""

    settled: Sequence[tuple[int, int]] = ()
    in_doubt: Sequence[tuple[int, int]] = ()


class SampleBounds:
    """Of each stratum the EACH smallest hashes so far: an event above them is in no sample."""

    def __init__(self) -> None:
        self._smallest: dict[Stratum, NDArray[np.uint64]] = {}

    def admit(self, stratum: Stratum, hashes: NDArray[np.uint64]) -> NDArray[np.intp]:
        """The indices of the hashes that may be of the sample."""
        before = self._smallest.get(stratum, np.empty(0, np.uint64))
        smallest = np.sort(np.concatenate([before, hashes]))[:EACH]
        self._smallest[stratum] = smallest
        return np.flatnonzero(hashes <= smallest[-1])


_bounds: WeakKeyDictionary[BlockTransformer, SampleBounds] = WeakKeyDictionary()


def expect_block(transformer: BlockTransformer, task: Task, phase: int, fields: str) -> Expected:
    """The events of a block that were sent. `task.ended` are the settled ranges, `task.doubtful` those in doubt."""
    bounds = _bounds.setdefault(transformer, SampleBounds()) if fields == "sample" else None
    events = transformer.sent_events(task)
    return expected_of(events, Ranges(task.ended, task.doubtful), phase, task.number, bounds, values=fields == "all")


def expected_of(
    events: Sequence[bytes], ranges: Ranges, phase: int, block: int, bounds: SampleBounds | None, *, values: bool
) -> Expected:
    """The fingerprints of some encoded events of one block, and with `bounds` those that may be of the sample."""
    rows: list[tuple[int, ...]] = []
    cells: dict[tuple[str, str], int] = {}
    for some, state in ((ranges.settled, SENT), (ranges.in_doubt, IN_DOUBT)):
        for first, last in some:
            for index in range(first, last + 1):
                sent = read_event(events[index])
                cell = cells.setdefault((sent.event, sent.timestamp[:10]), len(cells))
                digest = digest_of(read_properties(events[index])) if values else 0
                place = block, index, cell, phase, state
                rows.append(
                    (*identity(sent.uuid, sent.event, sent.properties.distinct_id, sent.timestamp), digest, *place)
                )
    fingerprints = np.array(rows, FINGERPRINT)
    names = list(cells)
    chosen = [] if bounds is None else _candidates(events, fingerprints, names, phase, block, bounds)
    return Expected(fingerprints.tobytes(), names, chosen)


def _candidates(
    events: Sequence[bytes],
    fingerprints: Fingerprints,
    cells: Sequence[tuple[str, str]],
    phase: int,
    block: int,
    bounds: SampleBounds,
) -> list[Candidate]:
    settled = fingerprints[fingerprints["state"] == SENT]
    hashes = mixed(settled)
    strata = {cell: (phase, event, day[:4]) for cell, (event, day) in enumerate(cells)}
    numbers = {stratum: number for number, stratum in enumerate(dict.fromkeys(strata.values()))}
    of_cell = np.array([numbers[strata[cell]] for cell in range(len(cells))], np.intp)
    found = []
    for stratum, number in numbers.items():
        members = np.flatnonzero(of_cell[settled["cell"]] == number)
        if not len(members):
            continue
        for one in members[bounds.admit(stratum, hashes[members])].tolist():
            index = int(settled["index"][one])
            found.append(Candidate(stratum, int(hashes[one]), block, index, events[index]))
    return found


def mixed(fingerprints: Fingerprints) -> NDArray[np.uint64]:
    """A hash of each uuid: every bit depends on all of its bits (splitmix64), since a uuid may begin with a time."""
    x = fingerprints["hi"] ^ (fingerprints["lo"] + np.uint64(0x9E3779B97F4A7C15))
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def identity(uuid: str, event: str, distinct_id: str, timestamp: str) -> tuple[int, int, int, int, int]:
    """The first five fields of a fingerprint, equal for equal events."""
    digits = uuid.replace("-", "")
    return (
        int(digits[:16], 16),
        int(digits[16:], 16),
        _hash(event),
        _hash(distinct_id),
        _hash(spelled(timestamp)),
    )


def digest_of(properties: dict[str, Raw]) -> int:
    """A hash of properties byte by byte, whatever their order; never 0."""
    pieces = []
    for name in sorted(properties):
        value = bytes(properties[name])
        key = name.encode("utf-8", "surrogatepass")
        pieces.append(b"%d:%b%d:%b" % (len(key), key, len(value), value))
    return xxhash.xxh3_64_intdigest(b"".join(pieces)) or 1


def _hash(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))


def spelled(timestamp: str) -> str:
    """The canonical spelling of an instant in UTC: no trailing zeros in the fraction, `Z` at the end."""
    text = timestamp.replace(" ", "T", 1).removesuffix("Z").removesuffix("+00:00")
    return (text.rstrip("0").rstrip(".") if "." in text else text) + "Z"
