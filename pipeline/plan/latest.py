"""What an export says of persons and groups over the years, folded to what holds in the end.

The service keeps whatever arrives last, however old it is (service-behaviour 1.10; peers, lesson 12). So the plan
finds the last value of each property over the whole source, and it is sent once; then neither the order of rows nor
that of requests matters. Values are kept byte for byte. Everything said lies in the scratch database until it is
sorted there, so memory does not grow.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from pipeline.events.sayings import ABSENT, SEEN, SET, SET_ONCE, UNSET, Said
from pipeline.plan.database import Database, blobs, numbers, texts

_AT_ONCE = 50_000

Moves = Callable[[Sequence[str]], Sequence[str]]
"""Gives for each owner the one that its properties go to (`Identities.canonical`)."""


class Final(NamedTuple):
    """One owner in the end. `set` holds what was set, `set_once` what was only ever set once; names in order.

    `time` is when its last word was said (µs UTC); `unset` counts the properties that were taken away at last.
    """

    owner: str
    time: int
    set: dict[str, bytes]
    set_once: dict[str, bytes]
    unset: int


class Sayings:
    """What rows say, collected. `table` names its table in the database."""

    def __init__(self, database: Database, table: str) -> None:
        self._database = database
        self._table = table
        self._held: list[tuple[str, str, int, int, int, bytes]] = []
        self._create(table)
        self.count = 0

    def add(self, said: Iterable[Said]) -> None:
        """Add what some rows say, in any order."""
        held = self._held
        for owner, name, kind, time, received, value in said:
            held.append(
                (
                    owner, name, kind, ABSENT if time is None else time,
                    ABSENT if received is None else received, value,
                )
            )  # fmt: skip
        if len(held) > _AT_ONCE:
            self._flush()

    def final(
        self, undated: int, moves: Moves | None = None, among: tuple[str, str] | None = None
    ) -> Generator[Final, None, None]:
        """Each owner once, sorted. A row without a time counts as said at `undated`.

        `moves` hands properties to the person that an id belongs to. `among` asks only for owners from the first up
        to, not with, the second.
        """
        self._flush()
        table = self._table if moves is None else self._moved(moves)
        where = "" if among is None else " WHERE owner >= {} AND owner < {}".format(*map(_quoted, among))
        sql = (
            f"SELECT owner, name, kind, CASE WHEN time = {ABSENT} THEN {undated} ELSE time END AS moment,"
            f" received, value FROM {table}{where} ORDER BY owner, name, moment, received"
        )
        rows = (row for batch in self._database.stream(sql, 10_000) for row in _tuples(batch))
        try:
            for owner, said in groupby(rows, key=itemgetter(0)):
                yield _end(owner, said)
        finally:
            rows.close()
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
            f"CREATE TABLE {table} (owner VARCHAR, name VARCHAR, kind BIGINT, time BIGINT, received BIGINT, value BLOB)"
        )

    def _flush(self) -> None:
        if not self._held:
            return
        owners, names, kinds, times, received, values = zip(*self._held, strict=True)
        self.count += len(self._held)
        self._held.clear()
        self._database.append(
            self._table,
            {
                "owner": texts(owners),
                "name": texts(names),
                "kind": numbers(kinds),
                "time": numbers(times),
                "received": numbers(received),
                "value": blobs(values),
            },
        )


def _end(owner: str, said: Iterable[tuple[Any, ...]]) -> Final:
    """Play what was said of one owner in its order."""
    final = Final(owner, 0, {}, {}, 0)
    latest = ABSENT
    unset = 0
    for name, rows in groupby(said, key=itemgetter(1)):
        kind, value = SEEN, b""
        for _, same in groupby(rows, key=itemgetter(3, 4)):
            for _, _, one, at, _, text in sorted(same, key=itemgetter(2, 5)):
                latest = max(latest, at)
                if one in (SET, UNSET) or (one == SET_ONCE and kind in (SEEN, UNSET)):
                    kind, value = one, text
        if kind == SET:
            final.set[name] = value
        elif kind == SET_ONCE:
            final.set_once[name] = value
        unset += kind == UNSET
    return final._replace(time=latest, unset=unset)


def _tuples(batch: Any) -> Iterator[tuple[Any, ...]]:
    return zip(*(batch.column(number).to_pylist() for number in range(6)), strict=True)


def _quoted(text: str) -> str:
    return "'{}'".format(text.replace("'", "''"))
