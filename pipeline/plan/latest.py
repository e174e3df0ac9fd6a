"""What an export says of persons and groups over the years, folded to what holds in the end.

The service keeps whatever arrives last, however old it is (service-behaviour 1.10; peers, lesson 12). So the plan
finds the last value of each property over the whole source, and it is sent once; then neither the order of rows nor
that of requests matters. Values are kept byte for byte. Everything said lies in the scratch database until it is
sorted there, so memory does not grow.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from pipeline.events.folding import NEVER
from pipeline.events.gathering import SayingColumns
from pipeline.events.sayings import ABSENT, SEEN, SET, SET_ONCE, UNSET
from pipeline.plan.database import Database, blob_column, number_column, text_column, texts

_IN_ORDER = itemgetter(1, 2, 3, 4, 5)
"""Name, time, receive time; then, so that ties have one answer, kind and value."""
_CLOSING = (None, None, NEVER, 0, SEEN, b"", ABSENT)
Moves = Callable[[Sequence[str]], Sequence[str]]
"""Gives for each owner the one that its properties go to (`Identities.owners`)."""


class Final(NamedTuple):
    """One owner in the end. `set` holds what was set, `set_once` what was only ever set once; names in order.

    `time` is when its last word was said (µs UTC), `first` when the first of those that count was; `unset` counts the
    properties that were taken away at last.
    """

    owner: str
    time: int
    set: dict[str, bytes]
    set_once: dict[str, bytes]
    unset: int
    first: int = ABSENT


class Sayings:
    """What rows say, collected. `table` names its table in the database."""

    def __init__(self, database: Database, table: str) -> None:
        self._database = database
        self._table = table
        self._create(table)

    def add(self, said: SayingColumns) -> None:
        """Add what some rows say, in any order."""
        self._database.append(
            self._table,
            {
                "owner": text_column(said.owner),
                "name": text_column(said.name),
                "kind": number_column(said.kind),
                "time": number_column(said.time),
                "received": number_column(said.received),
                "latest": number_column(said.latest),
                "value": blob_column(said.value),
            },
        )

    def final(self, moves: Moves | None = None, among: tuple[str, str] | None = None) -> Generator[Final, None, None]:
        """Each owner once, sorted.

        `moves` hands properties to the person that an id belongs to. `among` asks only for owners from the first up
        to, not with, the second.
        """
        table = self._table if moves is None else self._moved(moves)
        where = "" if among is None else " WHERE owner >= {} AND owner < {}".format(*map(_quoted, among))
        sql = (
            f"SELECT owner, name, time, received, kind, value, latest FROM {table}{where}"
            " ORDER BY owner, name, time, received"
        )
        batches = self._database.stream(sql, 10_000)
        try:
            for owner, said in _by_owner(batches):
                yield end(owner, said)
        finally:
            batches.close()
            if moves is not None:
                self._database.drop(table)

    def _moved(self, moves: Moves) -> str:
        """The same with the owners that properties go to, as a table of its own."""
        table = f"{self._table}_moved"
        self._create(table)
        for batch in self._database.stream(f"SELECT * FROM {self._table}"):
            owners = texts(moves(batch.column("owner").to_pylist()))
            columns = {name: batch.column(name) for name in batch.schema.names}
            self._database.append(table, {**columns, "owner": owners})
        return table

    def _create(self, table: str) -> None:
        self._database.run(
            f"CREATE TABLE {table} (owner VARCHAR, name VARCHAR, kind BIGINT, time BIGINT, received BIGINT,"
            " latest BIGINT, value BLOB)"
        )


def end(owner: str, rows: Iterable[tuple[Any, ...]]) -> Final:
    """Play what was said of one owner in its order.

    Rows are (owner, name, time, received, kind, value, latest), in any order: fields of a `Saying`.
    """
    set_: dict[str, bytes] = {}
    once: dict[str, bytes] = {}
    first, latest = NEVER, ABSENT
    unset = 0
    before: Any = None
    kind, value = SEEN, b""
    for _, name, time, _, one, text, spoken in (*sorted(rows, key=_IN_ORDER), _CLOSING):
        if name != before:
            if kind == SET:
                set_[before] = value
            elif kind == SET_ONCE:
                once[before] = value
            elif kind == UNSET:
                unset += 1
            before, kind, value = name, one, text
        elif one in (SET, UNSET) or (one == SET_ONCE and kind in (SEEN, UNSET)):
            kind, value = one, text
        if time < first:
            first = time
        if spoken > latest:
            latest = spoken
    return Final(owner, latest, set_, once, unset, first)


def _by_owner(batches: Iterable[Any]) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    """The rows of each owner, of batches in the order of owners."""
    owner = ""
    said: list[tuple[Any, ...]] = []
    for batch in batches:
        for row in zip(*(batch.column(number).to_pylist() for number in range(7)), strict=True):
            if row[0] != owner:
                if said:
                    yield owner, said
                owner, said = row[0], []
            said.append(row)
    if said:
        yield owner, said


def _quoted(text: str) -> str:
    return "'{}'".format(text.replace("'", "''"))
