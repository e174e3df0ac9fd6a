"""A verification waits for the settle time, continues where it was interrupted, and asks again for what was missing."""

from __future__ import annotations

import json
import os
import signal
import threading
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pipeline import api
from tests.support.deliveries import Asked, Reply, relayed, serving, tamper, uuid
from tests.support.phased_plans import planned_in_phases
from tests.support.rehearsal import NOW
from tests.support.verification import PERSONAL, empty, sent, sent_rows


class Interrupting:
    """Ends a verification as Ctrl-C does, at a step; by default at none."""

    def __init__(self, at: int = -1) -> None:
        self._numbers, self._at = count(), at
        self.names: list[str] = []

    def __call__(self, name: str, done: int, total: int) -> None:
        self.names.append(name)
        if next(self._numbers) == self._at:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("fields", "every"), [("all", 2), ("sample", 4)])
def test_an_interrupted_verification_continues(tmp_path: Path, fields: str, every: int) -> None:
    """Interrupted at some of its steps: the next run continues, with the result of an uninterrupted run."""
    one = sent(planned_in_phases(tmp_path, 450, batch=100))
    one.lose(8)
    one.change(f"update accepted set properties = replace(properties, ':9,', ':8,') where uuid = '{uuid(9)}'")
    first = Interrupting()
    whole = one.verify(progress=first, fields=fields)
    assert not whole.proved
    for at in range(0, len(first.names), every):
        with pytest.raises(KeyboardInterrupt):
            one.verify(progress=Interrupting(at), fields=fields)
        assert (one.directory / "verification" / "session.json").exists()
        again = Interrupting()
        found = one.verify(progress=again, fields=fields)
        assert (found.events, found.cells, found.differences, found.people, found.values) == (
            whole.events, whole.cells, whole.differences, whole.people, whole.values,
        )  # fmt: skip
        assert not (one.directory / "verification").exists()
        if at > first.names.index("events at the target"):
            assert "events as planned" not in again.names  # they were kept


def test_what_was_written_by_half_is_written_again(tmp_path: Path) -> None:
    """A page that was cut, as by a power failure; those after it are read again, too."""
    one = sent_rows(tmp_path, 450, batch=100)
    step = Interrupting()
    one.verify(progress=step, fields="all")
    last = len(step.names) - 1 - step.names[::-1].index("events at the target")
    with pytest.raises(KeyboardInterrupt):
        one.verify(progress=Interrupting(last), fields="all")
    page = one.directory / "verification" / "landed" / "000000.parquet"
    page.write_bytes(page.read_bytes()[:-100])
    found = one.verify(fields="all")
    assert (found.proved, found.events.late) == (True, 0)


def test_what_was_kept_of_another_ledger_is_read_again(tmp_path: Path) -> None:
    """Pages of another depth, another ledger or another day are not used."""
    one = sent_rows(tmp_path, 60)
    header = one.directory / "verification" / "session.json"
    for fields in ("sample", "all"):
        with pytest.raises(KeyboardInterrupt):
            one.verify(progress=Interrupting(1), fields="all")
        if fields == "all":
            kept = json.loads(header.read_text("utf-8"))
            header.write_text(json.dumps(kept | {"started": kept["started"] - 90_000}), "utf-8")
        again = Interrupting()
        assert one.verify(progress=again, fields=fields).proved
        assert "events as planned" in again.names


def test_the_settle_time_is_waited_for_and_shown(tmp_path: Path) -> None:
    """Reading begins that long after the last event was accepted; on this machine at once."""
    one = sent_rows(tmp_path, 10)
    step = Interrupting()
    assert one.verify(progress=step).proved
    assert "settle time, seconds" not in step.names
    age = one.verify().settled
    assert age is not None
    step = Interrupting()
    found = one.verify(progress=step, settle=age + 2)
    assert found.settled is not None
    assert found.settled >= age + 2
    assert step.names[0] == "settle time, seconds"


def test_ctrl_c_ends_with_130(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """During the wait and during reading: the same command continues."""
    one = sent_rows(tmp_path, 10)
    monkeypatch.setenv("BACKCAST_PERSONAL_KEY", PERSONAL)
    monkeypatch.setenv("BACKCAST_TRACEBACK", "1")

    def answer(asked: Asked) -> Reply:
        os.kill(os.getpid(), signal.SIGINT)
        return relayed(one.room.url, asked)

    words = ("verify", one.directory, "--to", one.room.url, "--project", one.room.project)
    with serving(answer) as server:
        reading = call(*words, "--api", server.url)
    interrupt = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    waiting = call(*words, "--settle", "1h")
    for said in (reading, waiting):
        assert said.code == 130, said.err
        assert "run the same command again" in said.err


def test_an_event_that_comes_while_it_reads_is_late(tmp_path: Path) -> None:
    """Missing when its day was read, there when it was asked for again: it is counted, and is not a difference."""
    one = sent_rows(tmp_path, 40)
    one.change(f"create or replace table later as select * from accepted where uuid = '{uuid(5)}'")
    one.lose(5)

    def answer(asked: Asked) -> Reply:
        if b"uuid in (" in asked.body:
            tamper(one.room.service, "insert into accepted select * from later")
            tamper(one.room.service, "delete from later")
        return relayed(one.room.url, asked)

    with serving(answer) as server:
        found = one.verify(api=server.url, fields="all")
    assert (found.proved, found.events.late, found.events.missing, found.events.found) == (True, 1, 0, 40)


def test_only_days_whose_counts_differ_are_compared_where_that_is_asked_for(tmp_path: Path) -> None:
    """It finds what changes a count, proves nothing otherwise, and does not see changes that leave the counts equal."""
    one = sent_rows(tmp_path, 60)
    asked = {"uuids": "differing", "fields": "none"}
    found = one.verify(**asked)
    assert (found.proved, found.differs, found.events.found) == (False, False, 60)
    assert api.plan_status(one.directory).state == "sent"
    one.change(f"update accepted set distinct_id = 'other' where uuid = '{uuid(1)}'")
    assert not one.verify(**asked).differs
    one.lose(3)
    found = one.verify(**asked)
    assert (found.events.missing, found.events.expected, found.events.found) == (1, 60, 59)
    assert [each.uuid for each in found.differences] == [uuid(3)]
    assert one.verify().events.different == 1


def test_what_the_service_adds_is_listed_and_no_difference(tmp_path: Path) -> None:
    """Every event has a $sent_at, and one a rounded number: both are counted with their source."""
    one = sent_rows(tmp_path, 40)
    one.change(
        """update accepted set properties = replace(properties, '"number":', '"$sent_at":1,"number":') where true""",
        f"update accepted set properties = replace(properties, ':7,', ':7.0,') where uuid = '{uuid(7)}'",
    )
    for fields in ("sample", "all"):
        found = one.verify(fields=fields)
        assert (found.proved, found.values.compared) == (True, 40)
        assert [(each.code, each.events, each.properties) for each in found.values.known] == [
            ("sent_at", 40, ["$sent_at"]), ("other_spelling", 1, ["number"]),
        ]  # fmt: skip
        assert all(each.source.startswith("docs/know/service.md#") for each in found.values.known)


def test_the_targets_warnings_are_tied_to_rows(tmp_path: Path) -> None:
    """A project that drops old events: each is missing, and the warning names the first rows, whatever came first."""
    old = (NOW // 1_000_000) - 1_674_172_800  # before 2023-01-20
    one = sent_rows(tmp_path, 30, room=empty(clock=lambda: NOW, drop_events_older_than=old))
    for table in ("accepted", "noticed"):
        tamper(one.room.service, f"update {table} set receipt = 1000 - receipt")
    found = one.verify(fields="all")
    (warning,) = found.warnings.types
    assert (found.events.missing, warning.type, warning.events, warning.dropped) == (
        10, "event_dropped_too_old", 10, 10,
    )  # fmt: skip
    assert [(each.part, each.row) for each in warning.examples] == [("part-0.jsonl", row) for row in (1, 4, 7, 10, 13)]
