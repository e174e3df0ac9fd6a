"""The last value of each property of persons and groups over a whole export: last write wins.

The service keeps whatever arrives last, however old it is (docs/know/service.md#persons; docs/know/peers.md#profiles).
So the plan finds the last value of each property, and it is sent once; then neither the order of rows nor that of
requests matters. Values are kept byte for byte. Updates lie on disk (`pipeline.identity.stored_updates`), and are
decided on in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from operator import itemgetter, ne
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.identity.property_updates import (
    EXISTS,
    NULL,
    NULL_ONCE,
    SEPARATES,
    SET,
    SET_ONCE,
    SHOWN,
    SHOWN_ONCE,
    UNSET,
    moments_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

IN_ORDER = itemgetter(1, 2, 3, 4, 5)
"""Name, time, receive time; then kind and value, so that ties have one answer."""
OwnerLookup = Callable[[Sequence[str]], Sequence[str]]
"""Returns for each owner the one that its properties are sent to (`Identities.owners`)."""


class LastValues(NamedTuple):
    """The last values of one owner, in the order of their names, as JSON.

    `set` has the properties that were set, `set_once` those that were only ever set once; `unset` names those whose
    last update removed them. `time` is that of the owner's last update (µs UTC). `shown` are all updates of the
    properties that the service copies from events, which do not count above.
    """

    owner: str
    time: int
    set: dict[str, bytes]
    set_once: dict[str, bytes]
    unset: tuple[str, ...]
    shown: tuple[tuple[Any, ...], ...] = ()


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
    ordered = sorted(rows, key=IN_ORDER)
    names = {row[1] for row in ordered if row[4] in (SHOWN, SHOWN_ONCE)}
    shown = tuple(row for row in ordered if row[1] in names)
    latest = max(row[6] for row in ordered)
    return LastValues(owner, latest, *applied(row for row in ordered if row[4] not in (SHOWN, SHOWN_ONCE)), shown)


def applied(ordered: Iterable[tuple[Any, ...]]) -> tuple[dict[str, bytes], dict[str, bytes], tuple[str, ...]]:
    """What is set, set once and removed after the updates of one owner.

    A null counts as absent for what is set once after it. What the tool itself sets once counts before what events
    show first.
    """
    set_: dict[str, bytes] = {}
    once: dict[str, bytes] = {}
    unset: list[str] = []
    for name, rows in groupby(ordered, key=itemgetter(1)):
        kind, value, first = EXISTS, NULL, NULL
        for one, text in _one_by_one(rows):
            if one == SHOWN_ONCE:
                first = text if first == NULL else first
            elif one >= SHOWN or kind == EXISTS or (one == SET_ONCE and (kind == UNSET or value == NULL)):
                kind, value = one, text
        if first != NULL and (kind == UNSET or value == NULL):
            kind, value = SET_ONCE, first
        if kind in (SHOWN, SET):
            set_[name] = value
        elif kind in (NULL_ONCE, SET_ONCE):
            once[name] = value
        elif kind == UNSET:
            unset.append(name)
    return set_, once, tuple(unset)


def _one_by_one(rows: Iterable[tuple[Any, ...]]) -> Iterable[tuple[int, bytes]]:
    """The kind and value of each update of one property, in order, where one may stand for several rows."""
    some = list(rows)
    if not any(SEPARATES in row[5] for row in some):
        return [(row[4], row[5]) for row in some]
    moments = [(*moment[:2], row[4], moment[2]) for row in some for moment in moments_of(row[2], row[3], row[5])]
    return [moment[2:] for moment in sorted(moments)]


def rows_in(batches: Sequence[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    """The updates of a piece as `last_values_of` takes them, in the order of owner, name, time and receive time."""
    from pipeline.identity.ranged_files import sorted_by

    return _rows_of(sorted_by(batches, "owner", "name", "time", "received")).rows() if batches else iter(())


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

    def rows(self) -> Iterator[tuple[Any, ...]]:
        return zip(*(column if isinstance(column, list) else column.tolist() for column in self), strict=True)


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
    values = [rows.value[winner].partition(SEPARATES)[0] for winner in np.where(most == SET, last, starts).tolist()]
    once = (most == SET_ONCE).tolist()
    owners = np.flatnonzero(another_owner)
    groups = np.searchsorted(starts, owners)
    bounds = zip(
        owners.tolist(), [*owners[1:].tolist(), count], groups.tolist(), [*groups[1:].tolist(), len(names)],
        np.logical_and.reduceat(plain, groups).tolist(), np.maximum.reduceat(rows.latest, owners).tolist(),
        strict=True,
    )  # fmt: skip
    for start, stop, first, upto, easy, latest in bounds:
        owner = rows.owner[start]
        if easy:
            values_by_kind: tuple[dict[str, bytes], dict[str, bytes]] = ({}, {})
            for group in range(first, upto):
                values_by_kind[once[group]][names[group]] = values[group]
            yield LastValues(owner, latest, *values_by_kind, ())
        else:
            yield last_values_of(owner, rows.cut(start, stop).rows())
