"""The ledger: durable, one writer, readable meanwhile, and never half written."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pipeline.errors import BrokenLedger, Busy, Unfinished, UsageError
from pipeline.ledger import BatchKey, Ledger, PhaseTotals, Totals, is_locked, read_batches, read_totals
from tests.support.crashes import ended, forked

PLACE = BatchKey("events", 0, 0, 9)
HALVES = [(BatchKey("events", 0, 0, 4), 50), (BatchKey("events", 0, 5, 9), 50)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    opened = Ledger(path).open("plan", "1", "there")
    yield opened
    opened.close()


def begun(ledger: Ledger, place: BatchKey = PLACE, size: int = 100) -> None:
    with ledger.transaction():
        ledger.begin(place, size)


def begin_twice(ledger: Ledger) -> None:
    ledger.begin(PLACE, 100)
    ledger.settle(PLACE, 200)
    ledger.begin(PLACE, 100)


def fill(ledger: Ledger) -> None:
    for number in range(1000):
        begun(ledger, BatchKey("events", 1, number, number))


def states(path: Path) -> list[tuple[int, int, str]]:
    with closing(sqlite3.connect(path)) as database, database:
        return database.execute("select first, last, state from batches order by first, last").fetchall()


def test_a_moment_is_seen_by_another_connection_when_it_ends(ledger: Ledger, path: Path) -> None:
    """What a moment wrote is committed on return, not later; it neither waits for a reader nor makes one wait; an
    exception inside rolls everything back. In a write-ahead log, with a sync of the disk at every commit."""
    with pytest.raises(BrokenLedger), ledger.transaction():
        begin_twice(ledger)
    assert states(path) == []
    begun(ledger)
    assert states(path) == [(0, 9, "begun")]
    with ledger.transaction():
        ledger.begin(BatchKey("events", 1, 0, 0), 10)
        assert read_totals(path).in_doubt == 10
    assert read_totals(path).in_doubt == 11
    settings = [ledger._db.execute(f"pragma {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert settings == ["wal", 2]


def test_totals_count_events_by_state(ledger: Ledger, path: Path) -> None:
    """Settled, refused and in doubt count events; a split batch counts through its halves, a waiting one is not
    counted. A refusal is a row that a person can query: place, uuid, status, reason."""
    begun(ledger)
    begun(ledger, BatchKey("events", 1, 0, 4))
    begun(ledger, BatchKey("events", 2, 0, 0))
    begun(ledger, BatchKey("events", 3, 0, 6))
    with ledger.transaction():
        for place in (PLACE, BatchKey("events", 2, 0, 0)):
            ledger.failed(place, 1, "2024-01-01T00:00:00.000Z", 0.1, 400, "bad")
        ledger.split(PLACE, HALVES, 400, "bad")
        ledger.settle(BatchKey("events", 1, 0, 4), 200)
        ledger.refuse(BatchKey("events", 2, 0, 0), "u", 400, "bad")
    ledger.finish("stopped")
    begun(ledger, BatchKey("groups", 0, 0, 2))
    expected = Totals(5, 1, 10, 7, 5, 0, 1, "stopped", {"events": PhaseTotals(5, 1, 7), "groups": PhaseTotals(0, 0, 3)})
    assert ledger.totals() == expected
    assert read_totals(path) == expected
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("select * from refused_events").fetchall() == [("events", 2, 0, "u", 400, "bad")]


def test_what_has_an_end_is_never_begun_again(ledger: Ledger, path: Path) -> None:
    """A batch that waits may be begun. A split leaves it and its halves, which are not in doubt: nothing of them was
    sent; to begin it or a settled half is refused before anything is sent."""
    begun(ledger)
    with ledger.transaction():
        ledger.requeue(PLACE)
    assert states(path) == [(0, 9, "waiting")]
    begun(ledger)
    assert states(path) == [(0, 9, "begun")]
    with ledger.transaction():
        ledger.split(PLACE, HALVES, 400, "bad")
    assert states(path) == [(0, 4, "waiting"), (0, 9, "split"), (5, 9, "waiting")]
    with pytest.raises(BrokenLedger):
        begun(ledger)
    begun(ledger, HALVES[0][0])
    with ledger.transaction():
        ledger.settle(HALVES[0][0], 200)
    with pytest.raises(BrokenLedger):
        begun(ledger, HALVES[0][0])
    assert states(path) == [(0, 4, "settled"), (0, 9, "split"), (5, 9, "waiting")]


def test_no_event_that_settled_is_begun_in_another_batch(ledger: Ledger, path: Path) -> None:
    """If a batch was cut differently and has settled events, it is refused; its neighbours are not."""
    begun(ledger)
    with ledger.transaction():
        ledger.settle(PLACE, 200)
    for first, last in ((5, 14), (3, 4), (0, 20)):
        with pytest.raises(BrokenLedger):
            begun(ledger, BatchKey("events", 0, first, last))
        assert states(path) == [(0, 9, "settled")]
    for neighbour in (BatchKey("events", 0, 10, 19), BatchKey("events", 1, 0, 9), BatchKey("identities", 0, 0, 9)):
        begun(ledger, neighbour)


def test_places_are_read_by_state_in_order(ledger: Ledger, path: Path) -> None:
    """Settled batches come by phase, block and first event."""
    places = [BatchKey("events", 0, 0, 2), BatchKey("events", 0, 3, 4), BatchKey("events", 1, 0, 0)]
    places.append(BatchKey("identities", 0, 0, 1))
    for place in places[::-1]:
        begun(ledger, place)
        with ledger.transaction():
            ledger.settle(place, 200)
    assert list(read_batches(path, "settled")) == places
    assert list(read_batches(path, "begun")) == []


def test_a_second_writer_sees_who_has_the_ledger(ledger: Ledger, path: Path) -> None:
    """Opening a ledger that is in use raises Busy with the process, machine and time of its writer. It is in use while
    it is open, and free after it was closed and before it exists."""
    with pytest.raises(Busy, match=f"process {os.getpid()} on \\S+ since 20"):
        Ledger(path).open("plan", "1", "there")
    assert is_locked(path) is True
    ledger.close()
    assert is_locked(path) is False
    assert is_locked(path.with_name("none.sqlite")) is False


def _hold_and_die(path: Path) -> None:
    Ledger(path).open("plan", "1", "there")
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_holder_holds_no_more(path: Path) -> None:
    assert ended(forked(_hold_and_die, path)) == -signal.SIGKILL
    assert is_locked(path) is False
    Ledger(path).open("plan", "1", "there").close()


def test_a_ledger_of_another_plan_or_target_is_refused(path: Path) -> None:
    """A ledger belongs to one plan digest and one target; the refusal releases the lock. A schema version that this
    program does not write is named, and nothing is changed."""
    opened = Ledger(path).open("plan", "1", "there")
    begun(opened)
    opened.close()
    for plan, target in (("other", "there"), ("plan", "elsewhere")):
        with pytest.raises(BrokenLedger, match="belongs to"):
            Ledger(path).open(plan, "1", target)
    Ledger(path).open("plan", "1", "there").close()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("update meta set value = '99' where key = 'version'")
    with pytest.raises(BrokenLedger, match="has schema 99"):
        Ledger(path).open("plan", "1", "there")


def test_a_schema_is_written_whole_or_not_at_all(path: Path) -> None:
    """A crash while the tables are made leaves an empty file, which the next run takes."""
    sqlite3.connect(path).close()
    opened = Ledger(path)
    with pytest.raises(sqlite3.ProgrammingError):
        opened.open("plan", object(), "there")  # type: ignore[arg-type]
    with closing(sqlite3.connect(path)) as database, database:
        assert database.execute("select count(*) from sqlite_master").fetchone() == (0,)
    Ledger(path).open("plan", "1", "there").close()


def test_a_full_disk_stops_the_run_resumable(ledger: Ledger, path: Path) -> None:
    """A ledger that cannot grow is exit 6, and what was written before is still there."""
    begun(ledger)
    ledger._db.execute("pragma max_page_count = 1")
    with pytest.raises(Unfinished, match="the disk is full") as told:
        fill(ledger)
    assert told.value.exit_code == 6
    assert (0, 9, "begun") in states(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_write_permission_is_a_usage_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="cannot write"):
        Ledger(tmp_path / "ledger.sqlite").open("plan", "1", "there")


def test_there_is_nothing_to_read_before_the_first_run(path: Path) -> None:
    """A missing or empty file is not a ledger yet."""
    assert read_totals(path) == Totals()
    path.touch()
    assert read_totals(path) == Totals()
