"""A verification waits for the settle time, continues where it was interrupted, and asks again for what was missing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from pipeline import api
from pipeline.local_service import LocalService
from pipeline.local_service.settings import Settings
from pipeline.options import VerifyOptions
from pipeline.verify import Verification
from tests.support.deliveries import Asked, Reply, planned, run, serving, tamper, uuid
from tests.support.phased_plans import planned_in_phases
from tests.support.rehearsal import NOW

pytestmark = pytest.mark.slow


def verify(directory: Path, service: LocalService, to: str = "", progress: Any = None, **asked: Any) -> Verification:
    options = VerifyOptions(**({"workers": 0, "fields": "all", "api": to or None} | asked))
    step = progress or (lambda name, done, total: None)
    return api.verify_plan(directory, service.url, options, personal_key=service.personal_key, progress=step)


class Interrupting:
    """Ends a verification as Ctrl-C does, at a step."""

    def __init__(self, at: int) -> None:
        self._numbers, self._at = count(), at
        self.names: list[str] = []

    def __call__(self, name: str, done: int, total: int) -> None:
        self.names.append(name)
        if next(self._numbers) == self._at:
            raise KeyboardInterrupt


@pytest.mark.parametrize("fields", ["sample", "all"])
def test_an_interrupted_verification_continues(tmp_path: Path, fields: str) -> None:
    """Interrupted at every step, one after the other: the next run goes on, with the result of a run in one piece."""
    directory = planned_in_phases(tmp_path, 4_500, batch=1_000)
    with LocalService() as service:
        assert run(directory, service.url, key=service.capture_key).balanced
        tamper(service, f"delete from accepted where uuid = '{uuid(8)}'")
        tamper(service, f"update accepted set properties = replace(properties, ':8,', ':9,') where uuid = '{uuid(9)}'")
        whole = verify(directory, service, fields=fields)
        first = Interrupting(10**9)
        verify(directory, service, progress=first, fields=fields)
        for at in range(len(first.names)):
            step = Interrupting(at)
            with pytest.raises(KeyboardInterrupt):
                verify(directory, service, progress=step, fields=fields)
            assert (directory / "verification" / "session.json").exists()
            again = Interrupting(10**9)
            found = verify(directory, service, progress=again, fields=fields)
            assert (found.events, found.cells, found.differences, found.people, found.values) == (
                whole.events, whole.cells, whole.differences, whole.people, whole.values,
            )  # fmt: skip
            assert not (directory / "verification").exists()
            if at > first.names.index("events at the target"):
                assert "events as planned" not in again.names  # they were kept


def test_what_was_written_by_half_is_written_again(tmp_path: Path) -> None:
    """A page that was cut, and a line of an index without its end, as a power failure leaves them."""
    directory = planned(tmp_path, 4_500, batch=1_000)
    with LocalService() as service:
        assert run(directory, service.url, key=service.capture_key).balanced
        step = Interrupting(10**9)
        verify(directory, service, progress=step)
        last = len(step.names) - 1 - step.names[::-1].index("events at the target")
        with pytest.raises(KeyboardInterrupt):
            verify(directory, service, progress=Interrupting(last))
        landed = directory / "verification" / "landed"
        page = landed / "000000"
        page.write_bytes(page.read_bytes()[:-100])
        with (landed / "index.jsonl").open("ab") as file:
            file.write(b'{"file":"0000')
        found = verify(directory, service)
        assert (found.proved, found.events["late"]) == (True, 0)


def test_what_was_kept_of_another_ledger_is_read_again(tmp_path: Path) -> None:
    """Pages of another depth, another ledger or another day are not used."""
    directory = planned(tmp_path, 60)
    with LocalService() as service:
        assert run(directory, service.url, key=service.capture_key).balanced
        with pytest.raises(KeyboardInterrupt):
            verify(directory, service, progress=Interrupting(2))
        again = Interrupting(10**9)
        assert verify(directory, service, progress=again, fields="sample").proved
        assert "events as planned" in again.names
        with pytest.raises(KeyboardInterrupt):
            verify(directory, service, progress=Interrupting(2))
        header = directory / "verification" / "session.json"
        kept = json.loads(header.read_text("utf-8"))
        header.write_text(json.dumps(kept | {"started": kept["started"] - 90_000}), "utf-8")
        again = Interrupting(10**9)
        assert verify(directory, service, progress=again).proved
        assert "events as planned" in again.names


def test_the_settle_time_is_waited_for_and_shown(tmp_path: Path) -> None:
    """Reading begins so long after the last event was accepted; on this machine at once."""
    directory = planned(tmp_path, 10)
    with LocalService() as service:
        assert run(directory, service.url, key=service.capture_key).balanced
        step = Interrupting(10**9)
        found = verify(directory, service, progress=step, settle=4)
        assert found.settled is not None
        assert found.settled >= 4
        assert step.names[0] == "settle time, seconds"
        step = Interrupting(10**9)
        assert verify(directory, service, progress=step).proved
        assert "settle time, seconds" not in step.names


def test_ctrl_c_ends_with_130(tmp_path: Path) -> None:
    """While it waits as well as while it reads: the same command continues."""
    directory = planned(tmp_path, 10)
    with LocalService() as service:
        assert run(directory, service.url, key=service.capture_key).balanced
        words = ["verify", str(directory), "--to", service.url, "--settle", "1h", "--workers", "0"]
        process = subprocess.Popen(
            [sys.executable, "-c", "from pipeline.cli import main; main()", *words],
            env={**os.environ, "BACKCAST_PERSONAL_KEY": service.personal_key},
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        time.sleep(4)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "run the same command again" in said


def test_an_event_that_comes_while_it_reads_is_late(tmp_path: Path) -> None:
    """Missing when its day was read, there when it was asked for once more: no difference, and counted."""
    directory = planned(tmp_path, 40)
    with LocalService() as service:
        assert run(directory, service.url, key=service.capture_key).balanced
        tamper(service, f"create table later as select * from accepted where uuid = '{uuid(5)}'")
        tamper(service, f"delete from accepted where uuid = '{uuid(5)}'")

        def answer(asked: Asked) -> Reply:
            if b"uuid in (" in asked.body:
                tamper(service, "insert into accepted select * from later")
                tamper(service, "delete from later")
            key = {"Authorization": f"Bearer {service.personal_key}"}
            said = httpx.post(
                service.url + asked.path, content=asked.body, headers=key, trust_env=False, verify=False, timeout=60
            )
            return Reply(said.status_code, said.content)

        with serving(answer) as server:
            found = verify(directory, service, server.url)
    assert (found.proved, found.events["late"], found.events["missing"], found.events["found"]) == (True, 1, 0, 40)


def test_only_days_whose_counts_differ_are_compared_where_that_is_asked_for(tmp_path: Path) -> None:
    """It finds what changes a count, is no proof without, and does not see what changes none."""
    directory = planned(tmp_path, 60)
    with LocalService() as service:
        assert run(directory, service.url, key=service.capture_key).balanced
        found = verify(directory, service, uuids="differing", fields="none")
        assert (found.proved, found.differs, found.events["found"]) == (False, False, 60)
        assert api.plan_status(directory).state == "sent"
        tamper(service, f"update accepted set distinct_id = 'other' where uuid = '{uuid(1)}'")
        assert not verify(directory, service, uuids="differing", fields="none").differs
        tamper(service, f"delete from accepted where uuid = '{uuid(3)}'")
        found = verify(directory, service, uuids="differing", fields="none")
        assert (found.events["missing"], found.events["expected"], found.events["found"]) == (1, 60, 59)
        assert [one.uuid for one in found.differences] == [uuid(3)]
        assert verify(directory, service).events["different"] == 1


@pytest.mark.parametrize("fields", ["sample", "all"])
def test_what_the_service_adds_is_listed_and_no_difference(tmp_path: Path, fields: str) -> None:
    """Every event has a $sent_at, and one a rounded number: both counted with their source."""
    directory = planned(tmp_path, 40)
    with LocalService() as service:
        assert run(directory, service.url, key=service.capture_key).balanced
        tamper(
            service, 'update accepted set properties = replace(properties, \'"number":\', \'"$sent_at":1,"number":\')'
        )
        tamper(
            service, f"update accepted set properties = replace(properties, ':7,', ':7.0,') where uuid = '{uuid(7)}'"
        )
        found = verify(directory, service, fields=fields)
    assert (found.proved, found.values.compared) == (True, 40)
    assert [(one.code, one.events, one.properties) for one in found.values.known] == [
        ("sent_at", 40, ["$sent_at"]), ("other_spelling", 1, ["number"]),
    ]  # fmt: skip
    assert all(one.source.startswith("docs/know/service.md#") for one in found.values.known)


def test_the_targets_warnings_are_tied_to_rows(tmp_path: Path) -> None:
    """A project that drops old events: each is missing, and the warning names the first rows, whatever came first."""
    directory = planned(tmp_path, 30)
    old = (NOW // 1_000_000) - 1_674_172_800  # before 2023-01-20
    with LocalService(settings=Settings(clock=lambda: NOW, drop_events_older_than=old)) as service:
        assert run(directory, service.url, key=service.capture_key).balanced
        for table in ("accepted", "noticed"):
            tamper(service, f"update {table} set receipt = 1000 - receipt")
        found = verify(directory, service)
    (warning,) = found.warnings.types
    assert (found.events["missing"], warning.type, warning.events, warning.dropped) == (
        10, "event_dropped_too_old", 10, 10,
    )  # fmt: skip
    assert [(one.part, one.row) for one in warning.examples] == [("part-0.jsonl", row) for row in (1, 4, 7, 10, 13)]
