"""What the rows of a block state about people and groups: two tables next to the facts of the block.

Both have these columns:

block, row      uint32       as in the facts
first, last     uint16       positions in the row: the events from first to last decide whether the statement counts
events          uint16       if this many of these events are copies, the statement has no effect

`pairs` has a row for each two ids that a row pairs:

kind            uint16       one of `pipeline.identity.kinds.KINDS`
time            int64        µs UTC, NEVER for none
anonymous, user dictionary

`updates` has a row for each update of properties, and for each user's id that a row without an event names:

kind            uint8        SET, SET_ONCE, UNSET, SHOWN, SHOWN_ONCE, GROUP, GROUPS or KNOWN
owner           dictionary   the person's id; for GROUP the group's type and key, joined by SEPARATOR; for GROUPS ""
time, received  int64        µs UTC; `received` is ABSENT if unknown
value           binary       a JSON object of properties, values byte for byte; for UNSET a list of names, for KNOWN b""
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, compress
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Raw
from numpy.typing import NDArray

from pipeline.identity.kinds import ABSENT, GROUP, GROUPS, KINDS, KNOWN, NEVER, SET, SET_ONCE, UNSET
from pipeline.models import GroupUpdate, Link
from pipeline.transform.events import Events, Stated
from pipeline.transform.facts import bits, numbers, texts, values_of
from pipeline.uuids import SEPARATOR
from pipeline.values import key_text

_DICTIONARY = pa.dictionary(pa.int32(), pa.string())
_PLACE = [
    ("block", pa.uint32()), ("row", pa.uint32()), ("first", pa.uint16()), ("last", pa.uint16()),
    ("events", pa.uint16()),
]  # fmt: skip
PAIRS = pa.schema(
    [*_PLACE, ("kind", pa.uint16()), ("time", pa.int64()), ("anonymous", _DICTIONARY), ("user", _DICTIONARY)]
)
UPDATES = pa.schema([
    *_PLACE, ("kind", pa.uint8()), ("owner", _DICTIONARY), ("time", pa.int64()), ("received", pa.int64()),
    ("value", pa.binary()),
])  # fmt: skip
_encode = msgspec.json.Encoder(enc_hook=dict).encode
_open = msgspec.json.Decoder(dict[str, Raw]).decode
_text = msgspec.json.Decoder(str).decode
_Place = tuple[int, int, int, int]
"""Row, first, last and events."""
_Update = tuple[_Place, int, str, int, int, bytes]
"""Place, kind, owner, time, receive time and value."""


class StatementSettings(NamedTuple):
    """`undated` (µs UTC) is the time of an update whose row has none. `persons`: collect properties of persons. A pair
    with an `excluded` id is left out."""

    undated: int
    persons: bool
    excluded: frozenset[str] = frozenset()


class Statements(NamedTuple):
    """What a block states: the numbers of the events that name their id as a user's, and the tables."""

    users: list[int]
    pairs: pa.Table
    updates: pa.Table


def statements_of(events: Events, number: int, settings: StatementSettings) -> Statements:
    """What the rows of block `number` state."""
    pairs, updates = _stated_by(events.stated, settings)
    noted, ids, notes = events.noted, events.distinct_ids, events.notes
    users_of, anonymous = (list(map(attrgetter(name), notes)) for name in ("user", "anonymous"))
    of_notes = zip(noted.tolist(), users_of, strict=True)
    users = [at for at, user in of_notes if user is not None and user == ids[at]]
    paired = [one is not None and user is not None for one, user in zip(anonymous, users_of, strict=True)]
    if settings.excluded:
        both = zip(paired, anonymous, users_of, strict=True)
        paired = [are and settings.excluded.isdisjoint(two) for are, *two in both]
    pairs.append({
        **_places_of(events, at := noted[paired]), "kind": np.full(len(at), KINDS["row"]), "time": events.times[at],
        "anonymous": compress(anonymous, paired), "user": compress(users_of, paired),
    })  # fmt: skip
    for kind, name in ((SET, "set"), (SET_ONCE, "set_once"), (UNSET, "unset")) if settings.persons else ():
        said = list(map(attrgetter(name), notes))
        if any(said):
            chosen = list(map(bool, said))
            updates.append(_updates_of(events, kind, noted[chosen], list(map(_encode, compress(said, chosen)))))
    is_named = cache(lambda text: bool(groups_named(text)))
    named = [(at, bytes(one) if one.__class__ is Raw else _encode(one)) for at, one in events.named]
    named = [(at, text) for at, text in named if is_named(text)]
    if named:
        updates.append(_updates_of(events, GROUPS, np.array([at for at, _ in named]), [text for _, text in named]))
    return Statements(users, _table(PAIRS, number, pairs), _table(UPDATES, number, updates))


_Columns = Mapping[str, Any]
"""Some rows of a table, keyed by column name."""


def _updates_of(events: Events, kind: int, at: NDArray[np.int64], values: Sequence[bytes]) -> _Columns:
    """The updates of one kind that the events with these numbers make. Group updates have no owner here."""
    received = events.received[at]
    return {
        **_places_of(events, at), "kind": np.full(len(at), kind), "time": events.times[at], "value": values,
        "owner": [""] * len(at) if kind == GROUPS else list(map(events.distinct_ids.__getitem__, at.tolist())),
        "received": np.where((received == 0) | (kind == GROUPS), ABSENT, received),
    }  # fmt: skip


def _places_of(events: Events, at: NDArray[np.int64]) -> dict[str, Any]:
    rows, positions = (np.array(of, np.uint32)[at] for of in (events.row_of, events.positions))
    return {"row": rows, "first": positions, "last": positions, "events": np.ones(len(at))}


def _stated_by(rows: Iterable[Stated], settings: StatementSettings) -> tuple[list[_Columns], list[_Columns]]:
    """The pairs and the updates that rows state in addition to their events."""
    pairs: list[tuple[_Place, int, int, str, str]] = []
    updates: list[_Update] = []
    for stated in rows:
        place, outcome = stated[:4], stated.outcome
        time = outcome.time if type(outcome.time) is int else None
        found: tuple[int, str, str] | None = None
        if isinstance(outcome, Link):
            found = KINDS[outcome.kind], outcome.other, outcome.distinct_id
        else:
            at = settings.undated if time is None else time
            received = ABSENT if outcome.received is None else outcome.received
            if isinstance(outcome, GroupUpdate):
                owner = f"{outcome.type}{SEPARATOR}{outcome.key}"
                updates.append((place, GROUP, owner, at, received, _encode(outcome.set)))
            elif (note := outcome.note) is not None:
                if note.anonymous is not None and note.user is not None:
                    found = KINDS["row"], note.anonymous, note.user
                changes = ((SET, note.set), (SET_ONCE, note.set_once), (UNSET, note.unset)) if settings.persons else ()
                owner = outcome.distinct_id  # type: ignore[assignment]
                updates += [(place, kind, owner, at, received, _encode(some)) for kind, some in changes if some]
                if note.user == owner:  # also with a pair, since the pair may be refused
                    updates.append((place, KNOWN, owner, at, received, b""))
        if found is not None and settings.excluded.isdisjoint(found[1:]):
            kind, anonymous, user = found
            pairs.append((place, kind, NEVER if time is None else time, anonymous, user))
    return [_columns(PAIRS, pairs)] if pairs else [], [_columns(UPDATES, updates)] if updates else []


def update_table(number: int, updates: Sequence[_Update]) -> pa.Table:
    """A table of the updates of block `number`."""
    return _table(UPDATES, number, [_columns(UPDATES, updates)] if updates else [])


def _columns(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> _Columns:
    """The columns of some rows; each row is its place and then the values of the other columns, in their order."""
    flat = [(*place, *others) for place, *others in rows]
    return dict(zip(schema.names[1:], zip(*flat, strict=True), strict=True))


def _table(schema: pa.Schema, number: int, pieces: Sequence[_Columns]) -> pa.Table:
    """The table of block `number` with the rows of all pieces."""
    count = sum(len(piece["kind"]) for piece in pieces)
    arrays: list[pa.Array] = []
    for field in schema:
        some = [piece[field.name] for piece in pieces] if field.name != "block" else [np.full(count, number)]
        if field.type == _DICTIONARY:
            arrays.append(texts(list(chain.from_iterable(some))))
        elif field.type == pa.binary():
            values = list(chain.from_iterable(some))
            ends = np.cumsum([0, *map(len, values)], dtype=np.int32)
            arrays.append(
                pa.Array.from_buffers(field.type, count, [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))])
            )
        else:
            kind = field.type.to_pandas_dtype()
            arrays.append(numbers(np.concatenate([np.array(one, kind) for one in [*some, ()]]), field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def left_of(table: pa.Table, rows: NDArray[np.uint32], positions: NDArray[np.uint16]) -> pa.Table:
    """The statements of a block that have an effect, given the places of its copies."""
    copies = np.sort(rows.astype(np.uint64) << np.uint64(16) | positions)
    row = values_of(table.column("row"), np.uint32).astype(np.uint64)
    first, last, events = (values_of(table.column(name), np.uint16) for name in ("first", "last", "events"))
    start = np.searchsorted(copies, row << np.uint64(16) | first, "left")
    stop = np.searchsorted(copies, row << np.uint64(16) | last, "right")
    return table.filter(bits(stop - start < events))


def groups_named(text: bytes) -> tuple[tuple[str, str], ...]:
    """(type, key) of the groups in a `$groups` object. The service accepts strings and numbers as keys."""
    try:
        members: Mapping[str, Raw] = _open(text)
    except msgspec.MsgspecError:
        return ()
    named = []
    for kind, value in members.items():
        key = bytes(value)
        if key[:1] == b'"':
            named.append((kind, _text(key)))
        elif key[:1] not in b"[{tfn":
            named.append((kind, key_text(value) or ""))
    return tuple(named)
