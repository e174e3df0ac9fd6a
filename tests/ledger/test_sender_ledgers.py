"""Ledgers of sender processes: read with the plan's as one, merged whole or not at all, never lost unnoticed."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pipeline.config import Secret
from pipeline.errors import BrokenLedger, Busy, Unfinished
from pipeline.ledger import (
    BatchKey,
    Ledger,
    Totals,
    check_nothing_sent,
    discard,
    read_refused_events,
    read_summary,
    read_totals,
    sender_ledgers,
    state_digest,
)
from pipeline.ledger.schema import VERSION, read_meta
from pipeline.ledger.sender_ledgers import folder_of

KEY = Secret("phc_testSENDERS")
TO = "http://127.0.0.1:1"
LOST = {
    "older": "is an older copy, with 2 of the 3 runs",
    "damaged": r"the ledger \S+senders/1-2/ledger.sqlite is damaged|ledger.sqlite, or one in \S+senders, is damaged",
}
ENDS = ("settled", "refused", "begun", "waiting", "split")


def opened(path: Path, watch: object = None) -> Ledger:
    return Ledger(path, *(() if watch is None else (watch,))).open("plan", "test", TO, KEY)  # type: ignore[arg-type]


def write(ledger: Ledger, block: int, end: str) -> None:
    """A batch of ten events, or of one that is refused, in this state."""
    key = BatchKey("events", block, 0, 0 if end == "refused" else 9)
    with ledger.transaction():
        ledger.begin(key, 100)
        ledger.failed(key, 1, "2026-01-01T00:00:00.000Z", 0.1, 500, "busy")
        if end == "settled":
            ledger.settle(key, 200)
        elif end == "refused":
            ledger.refuse(key, f"uuid-{block}", 400, "no")
        elif end == "waiting":
            ledger.requeue(key)
        elif end == "split":
            ledger.split(key, [(key._replace(last=4), 50), (key._replace(first=5), 50)], 413, "large")
        ledger.warned("a warning", 1, f"uuid-{block}")


def shared(path: Path, ends: Sequence[str], senders: int) -> Ledger:
    """An open ledger: its own blocks are 0 and 1, and those of its senders one for each of the ends."""
    ledger = opened(path)
    write(ledger, 0, "settled")
    write(ledger, 1, "refused")
    for number, one in enumerate(ledger.add_senders(senders, "test", KEY)):
        with closing(opened(one)) as own:
            for block in range(2 + number, 2 + len(ends), senders):
                write(own, block, ends[block - 2])
    return ledger


def seen(path: Path) -> tuple[object, ...]:
    """What readers see, except what batches of the last run are."""
    summary = read_summary(path)
    return summary, state_digest(path), list(read_refused_events(path))


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(list(ENDS), 2)
@given(st.lists(st.sampled_from(ENDS), max_size=9), st.integers(1, 4))
def test_all_that_readers_see_is_the_same_before_and_after_they_are_taken_over(
    tmp_path: Path, ends: list[str], senders: int
) -> None:
    """And as if one ledger had been written."""
    path, whole = (Path(mkdtemp(dir=tmp_path)) / "ledger.sqlite" for _ in range(2))
    with closing(opened(whole)) as ledger:
        for block, end in enumerate(["settled", "refused", *ends]):
            write(ledger, block, end)
    with closing(shared(path, ends, senders)) as ledger:
        before = seen(path)
        copy = Ledger(None, like=path).open("plan", "test", TO)
        with closing(copy):
            assert without_outcome(copy.totals()) == without_outcome(read_totals(path))
        assert schema(path) == VERSION + 1  # so that a version without sender ledgers refuses it
        ledger.merge_senders()
        assert schema(path) == VERSION
        assert seen(path) == before
        assert not folder_of(path).exists()
        assert ledger.batches_of_run() == tuple(
            getattr(ledger.totals(), f"batches_{name}") for name in ("made", "sent", "retried", "split")
        )
    assert without_outcome(read_totals(path)) == without_outcome(read_totals(whole))
    assert state_digest(path) == state_digest(whole)
    assert list(read_refused_events(path)) == list(read_refused_events(whole))
    assert [(one.detail, one.events) for one in read_summary(path).warnings] == [("a warning", 2 + len(ends))]


def schema(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        return int(read_meta(database)["version"])


def without_outcome(totals: Totals) -> tuple[object, ...]:
    return totals.settled, totals.refused, totals.in_doubt, totals.batches_sent, totals.batches_split, totals.phases


def test_a_crash_while_they_are_recorded_or_taken_over_changes_nothing(tmp_path: Path) -> None:
    """Before they are recorded nothing can have been sent by them. Before the commit that takes them over they are read
    with the plan's ledger, after it their folder is left, and is not read."""
    stop: tuple[str, str] = "before", "add senders"

    def crash(now: str, steps: Sequence[str]) -> None:
        if now == stop[0] and stop[1] in steps:
            raise KeyboardInterrupt

    path = tmp_path / "ledger.sqlite"
    with closing(opened(path, crash)) as ledger, pytest.raises(KeyboardInterrupt):
        ledger.add_senders(2, "test", KEY)
    assert read_totals(path).settled == 0
    shared(path, ["settled", "begun", "split"], 2).close()
    before = seen(path)
    for stage in ("before", "after"):
        stop = stage, "merge senders"
        with pytest.raises(KeyboardInterrupt):
            opened(path, crash)
        assert folder_of(path).exists()
        assert seen(path) == before
    with closing(opened(path)) as ledger:
        assert without_outcome(ledger.totals()) == without_outcome(before[0].totals)  # type: ignore[attr-defined]
        ledger.add_senders(3, "test", KEY)
        run = ledger.run
    assert [one.name for one in sorted(folder_of(path).iterdir())] == [f"{run}-1", f"{run}-2", f"{run}-3"]


def test_one_that_is_lost_is_noticed_by_readers_and_by_the_next_run(tmp_path: Path) -> None:
    """Without it what it settled would be sent again."""
    made = tmp_path / "made"
    made.mkdir()
    with closing(shared(made / "ledger.sqlite", ["settled", "settled"], 2)):
        one = folder_of(made / "ledger.sqlite") / "1-2" / "ledger.sqlite"
        older = one.read_bytes()
    for lost in ("folder", "ledger", "marker", "older", "damaged"):
        path = Path(shutil.copytree(made, tmp_path / lost)) / "ledger.sqlite"
        one = folder_of(path) / "1-2" / "ledger.sqlite"
        if lost == "older":
            opened(one).close()
            one.write_bytes(older)
        elif lost == "folder":
            shutil.rmtree(folder_of(path))
        elif lost == "damaged":
            one.write_bytes(one.read_bytes()[:4096] + b"x" * (one.stat().st_size - 4096))
        else:
            (one if lost == "ledger" else one.with_name("sent-to.json")).unlink()
        message = LOST.get(lost, "of a sender process is missing")
        for look in (read_totals, read_summary, state_digest, opened):
            with pytest.raises(BrokenLedger, match=message):
                look(path)


def test_a_folder_that_cannot_be_made_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a full disk does; nothing is recorded."""
    path = tmp_path / "ledger.sqlite"
    monkeypatch.setattr(sender_ledgers, "remove", lambda folder: None)
    with closing(opened(path)) as ledger:
        folder_of(path).write_text("a file")
        with pytest.raises(Unfinished, match=r"the folder \S+ cannot be made: Not a directory"):
            ledger.add_senders(1, "test", KEY)
        assert ledger.totals().batches_made == 0


def test_a_plan_whose_sender_goes_on_is_in_use(tmp_path: Path) -> None:
    """Its parent has died, and it comes to an orderly end."""
    path = tmp_path / "ledger.sqlite"
    shared(path, ["settled"], 2).close()
    with closing(opened(folder_of(path) / "1-1" / "ledger.sqlite")):
        with pytest.raises(
            Busy, match=r"this plan is in use: process \d+ on \S+ since \S+, which a run that died had started, settles"
        ):
            opened(path)
        assert read_totals(path).settled == 20
    opened(path).close()


def test_a_plan_that_senders_sent_is_not_planned_over(tmp_path: Path) -> None:
    """Also where the plan's own ledger has nothing yet; and where nothing was sent, all ledgers go."""
    path = tmp_path / "ledger.sqlite"
    with closing(opened(path)) as ledger:
        first = ledger.add_senders(1, "test", KEY)[0]
    check_nothing_sent(path)
    discard(path)
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.sqlite.lock"]
    assert not first.exists()
    with closing(opened(path)) as ledger:
        first = ledger.add_senders(1, "test", KEY)[0]
    with closing(opened(first)) as own:
        with pytest.raises(Busy, match="this plan is in use: process"):
            discard(path)
        write(own, 0, "settled")
    with pytest.raises(Busy, match="events there: 10 settled"):
        check_nothing_sent(path)
