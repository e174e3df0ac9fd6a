"""What rows state about people and groups, as a worker writes it and a plan reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pipeline.identity.database import Database
from pipeline.identity.event_ids import add_event_ids
from pipeline.models import GroupUpdate, Link, PersonUpdate
from pipeline.plan.statements import Statements
from pipeline.transform.events import Events, Stated
from pipeline.transform.facts import encode_table, keep
from pipeline.transform.statements import StatementSettings, statements_of
from pipeline.validator.rules import WITHOUT_TIME
from tests.support.identity_pairs import AS_OF, SeenId

SETTINGS = StatementSettings(AS_OF - WITHOUT_TIME, persons=True)


@contextmanager
def statements(*blocks: Sequence[Link | PersonUpdate | GroupUpdate]) -> Iterator[Statements]:
    """The statements of some blocks, whose rows state these."""
    with TemporaryDirectory() as folder, Database(Path(folder)) as database:
        for name in ("facts", "pairs", "updates", "promoted"):
            (Path(folder) / name).mkdir()
        for number, outcomes in enumerate(blocks):
            write_statements(Events(stated=[Stated(0, 0, 0, 1, one) for one in outcomes]), Path(folder), number)
        yield Statements(database, Path(folder) / "facts")


def write_statements(events: Events, folder: Path, number: int) -> list[int]:
    """Write what a block states; the numbers of the events that name their id as a user's."""
    users, *tables = statements_of(events, number, SETTINGS)
    for name, table in zip(("pairs", "updates"), tables, strict=True):
        if len(table):
            keep(encode_table(table), folder / name, number)
    return users


def add_seen(database: Database, seen: Sequence[SeenId]) -> None:
    """Make the table of the ids of events."""
    database.run("CREATE TABLE seen (person UBIGINT, time BIGINT, events BIGINT, place BIGINT, u BIGINT, last BIGINT)")
    names = ("hashed", "time", "events", "place", "user", "last")
    database.insert("seen", ([int(getattr(one, name)) for name in names] for one in seen))
    add_event_ids(database, 'SELECT * EXCLUDE (u), u::UINTEGER AS "user" FROM seen')
