"""The last value of each property of persons and groups over a whole export: last write wins.

The service keeps whatever arrives last, however old it is (docs/know/service.md#persons; docs/know/peers.md#profiles).
So the plan finds the last value of each property, and it is sent once; then neither the order of rows nor that of
requests matters. Values are kept byte for byte. Updates lie on disk (`pipeline.identity.stored_updates`), and are
decided on in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter, ne
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.identity.accumulators import NEVER
from pipeline.identity.property_updates import ABSENT, EXISTS, SET, SET_ONCE, UNSET

if TYPE_CHECKING:
    import pyarrow as pa

_IN_ORDER = itemgetter(1, 2, 3, 4, 5)
"""Name, time, receive time; then kind and value, so that ties have one answer."""
_CLOSING = (None, None, NEVER, 0, EXISTS, b"", ABSENT)
OwnerLookup = Callable[[Sequence[str]], Sequence[str]]
"""Returns for each owner the one that its properties are sent to (`Identities.owners`)."""


class LastValues(NamedTuple):
    """The last values of one owner, in the order of their names, as JSON.

    `set` has the properties that were set, `set_once` those that were only ever set once; `unset` names those whose
    last update removed them. `time` is that of the owner's last update, `first` that of the earliest update that counts
    (µs UTC).
    """

    owner: str
    time: int
    set: dict[str, bytes]
    set_once: dict[str, bytes]
    unset: tuple[str, ...]
    first: int = ABSENT


def last_values_in(batches: Sequence[pa.RecordBatch]) -> Iterator[LastValues]:
    """Each owner of a piece of updates once, sorted. The updates are in any order."""
    if not batches:
        return iter(())
    from pipeline.identity.ranged_files import sorted_by

    return _last_values(_rows_of(sorted_by(batches, "owner", "name", "time", "received")))


def last_values_of(owner: str, rows: Iterable[tuple[Any, ...]]) -> LastValues:
    """Apply the updates of one owner in their order.

    Rows are (owner, name, time, received, kind, value, latest), in any order: fields of a `PropertyUpdate`.
    """
    set_: dict[str, bytes] = {}
    once: dict[str, bytes] = {}
    first, latest = NEVER, ABSENT
    unset: list[str] = []
    before: Any = None
    kind, value = EXISTS, b""
    for _, name, time, _, one, text, update_latest in (*sorted(rows, key=_IN_ORDER), _CLOSING):
        if name != before:
            if kind == SET:
                set_[before] = value
            elif kind == SET_ONCE:
                once[before] = value
            elif kind == UNSET:
                unset.append(before)
            before, kind, value = name, one, text
        elif one in (SET, UNSET) or (one == SET_ONCE and kind in (EXISTS, UNSET)):
            kind, value = one, text
        if time < first:
            first = time
        if update_latest > latest:
            latest = update_latest
    return LastValues(owner, latest, set_, once, tuple(unset), first)


class _Rows(NamedTuple):
    """Updates as columns, in the order of owner, name, time and receive time."""

    owner: list[str]
    name: list[str]
    time: NDArray[np.int64]
    received: NDArray[np.int64]
    kind: NDArray[np.int64]
    value: list[bytes]
    latest: NDArray[np.int64]

    def cut(self, start: int, stop: int) -> _Rows:
        return _Rows._make(column[start:stop] for column in self)


def _rows_of(batch: pa.RecordBatch) -> _Rows:
    from pipeline.identity.database import numbers_of

    owner, name, value = (batch.column(one).to_pylist() for one in ("owner", "name", "value"))
    time, received, kind, latest = (numbers_of(batch, one) for one in ("time", "received", "kind", "latest"))
    return _Rows(owner, name, time, received, kind, value, latest)


def _last_values(rows: _Rows) -> Iterator[LastValues]:
    """`last_values_of` each owner, by columns where it is plain which update of each property counts.

    That is the last where a property was only ever set, and the first where it was only ever set once, unless another
    update has the same time and receive time.
    """
    count = len(rows.owner)
    another_owner = np.fromiter(chain((True,), map(ne, islice(rows.owner, 1, None), rows.owner)), np.bool_, count)
    another_name = np.fromiter(chain((True,), map(ne, islice(rows.name, 1, None), rows.name)), np.bool_, count)
    starts = np.flatnonzero(another_owner | another_name)
    last = np.append(starts[1:], count) - 1
    tied = np.zeros(count, np.bool_)  # with the update before it, of the same property
    tied[1:] = (rows.time[1:] == rows.time[:-1]) & (rows.received[1:] == rows.received[:-1])
    tied[starts] = False
    least, most = np.minimum.reduceat(rows.kind, starts), np.maximum.reduceat(rows.kind, starts)
    plain = (least == most) & np.where(
        most == SET, ~tied[last], (most == SET_ONCE) & ~tied[np.minimum(starts + 1, last)]
    )
    names = [rows.name[start] for start in starts.tolist()]
    values = [rows.value[winner] for winner in np.where(most == SET, last, starts).tolist()]
    once = (most == SET_ONCE).tolist()
    owners = np.flatnonzero(another_owner)
    groups = np.searchsorted(starts, owners)
    bounds = zip(
        owners.tolist(), [*owners[1:].tolist(), count], groups.tolist(), [*groups[1:].tolist(), len(names)],
        np.logical_and.reduceat(plain, groups).tolist(), np.minimum.reduceat(rows.time, owners).tolist(),
        np.maximum.reduceat(rows.latest, owners).tolist(), strict=True,
    )  # fmt: skip
    for start, stop, first, upto, easy, time, latest in bounds:
        owner = rows.owner[start]
        if easy:
            values_by_kind: tuple[dict[str, bytes], dict[str, bytes]] = ({}, {})
            for group in range(first, upto):
                values_by_kind[once[group]][names[group]] = values[group]
            yield LastValues(owner, latest, *values_by_kind, (), time)
        else:
            some = rows.cut(start, stop)
            yield last_values_of(owner, zip(*(c if isinstance(c, list) else c.tolist() for c in some), strict=True))
