"""The last value of each property of persons and groups over a whole export: last write wins.

The service keeps whatever arrives last, however old it is (docs/know/service.md#persons; docs/know/peers.md#profiles).
So the plan finds the last value of each property and sends it once; then neither the order of rows nor that of
requests matters. Values are kept byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Raw

from pipeline.identity.kinds import GROUP, NULL, NULL_ONCE, SET, SET_ONCE, SHOWN, SHOWN_ONCE, UNSET

if TYPE_CHECKING:
    import pyarrow as pa

OwnerLookup = Callable[[Sequence[str]], Sequence[str]]
"""Maps each owner to the one that its properties are sent to (`Identities.owners`)."""
Update = tuple[str, int, int, int, bytes]
"""One property: its name, time, receive time (µs UTC), kind and value (JSON, byte for byte). Sorting puts the updates
of each name in the order in which they apply, ties included."""
Row = tuple[int, int, int, bytes, int]
"""Several properties: time, receive time, kind, value (`pipeline.transform.statements`), and the time of the last of
all rows that state exactly these."""
_object = msgspec.json.Decoder(dict[str, Raw]).decode
_names = msgspec.json.Decoder(list[str]).decode


class LastValues(NamedTuple):
    """The last values of one owner, sorted by name, as JSON.

    `set` has the properties that were set, `set_once` those that were only ever set once; `unset` names those that the
    last update removed. `time` is that of the owner's last update (µs UTC). `shown` has all updates of the properties
    that the service copies from events; they are not counted in the fields above.
    """

    owner: str
    time: int
    set: dict[str, bytes]
    set_once: dict[str, bytes]
    unset: tuple[str, ...]
    shown: tuple[Update, ...] = ()


def last_values_in(batches: Iterable[pa.RecordBatch]) -> Iterator[LastValues]:
    """Each owner that has updates, once, sorted. The updates must be sorted by owner."""
    for owner, rows in rows_by_owner(batches):
        yield last_values_of(owner, rows)


def rows_by_owner(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, list[Row]]]:
    """The rows of each owner. `batches` have the columns owner, time, received, kind, value and latest, and are sorted
    by owner."""
    names = ("owner", "time", "received", "kind", "value", "latest")
    rows = (row for batch in batches for row in zip(*(batch.column(one).to_pylist() for one in names), strict=True))
    for owner, some in groupby(rows, itemgetter(0)):
        yield owner, [row[1:] for row in some]


def last_values_of(owner: str, rows: Sequence[Row]) -> LastValues:
    """Apply the rows of one owner, in any order."""
    latest = max(row[4] for row in rows)
    if len(rows) == 1 and rows[0][2] in (SET, GROUP):
        return LastValues(owner, latest, _values(rows[0][3]), {}, ())
    kinds = {row[2] for row in rows}
    if kinds <= {SET, GROUP}:
        ordered = sorted(rows)
        if all(one[:2] != other[:2] for one, other in pairwise(ordered)):
            last: dict[str, bytes] = {}
            for row in ordered:
                last.update(_values(row[3]))
            return LastValues(owner, latest, dict(sorted(last.items())), {}, ())
    return last_values(owner, latest, [update for row in rows for update in updates_in(row)])


def last_values(owner: str, latest: int, updates: Iterable[Update]) -> LastValues:
    """Apply the updates of one owner, in any order."""
    ordered = sorted(updates)
    names = {name for name, _, _, kind, _ in ordered if kind in (SHOWN, SHOWN_ONCE)}
    if not names:
        return LastValues(owner, latest, *applied(ordered))
    stated = (update for update in ordered if update[3] not in (SHOWN, SHOWN_ONCE))
    shown = (update for update in _only_counting(ordered) if update[0] in names)
    return LastValues(owner, latest, *applied(stated), tuple(shown))


def updates_in(row: Row) -> Iterator[Update]:
    """The updates of single properties that a row states."""
    time, received, kind, value, _ = row
    if kind == UNSET:
        for name in _names(value):
            yield name, time, received, UNSET, b""
        return
    for name, raw in _object(value).items():
        text = bytes(raw)
        of = NULL_ONCE if kind == SET_ONCE and text == NULL else SET if kind == GROUP else kind
        yield name, time, received, of, text


def _values(value: bytes) -> dict[str, bytes]:
    return {name: bytes(raw) for name, raw in sorted(_object(value).items())}


def _only_counting(ordered: Iterable[Update]) -> Iterator[Update]:
    """The updates without those from events that do not count: of these, only one counts for each property."""
    for _, updates in groupby(ordered, key=itemgetter(0)):
        some = list(updates)
        last = [update for update in some if update[3] == SHOWN][-1:]
        first = [update for update in some if update[3] == SHOWN_ONCE][:1]
        counting = last or first
        yield from (update for update in some if update[3] not in (SHOWN, SHOWN_ONCE) or update in counting)


def applied(ordered: Iterable[Update]) -> tuple[dict[str, bytes], dict[str, bytes], tuple[str, ...]]:
    """What is set, set once and removed after the updates of one owner, which are sorted.

    A later set-once replaces a null. A value that the tool itself sets once takes precedence over the first value that
    events show.
    """
    set_: dict[str, bytes] = {}
    once: dict[str, bytes] = {}
    unset: list[str] = []
    for name, updates in groupby(ordered, key=itemgetter(0)):
        kind, value, first = 0, NULL, NULL
        for _, _, _, one, text in updates:
            if one == SHOWN_ONCE:
                first = text if first == NULL else first
            elif one >= SHOWN or kind == 0 or (one == SET_ONCE and (kind == UNSET or value == NULL)):
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
