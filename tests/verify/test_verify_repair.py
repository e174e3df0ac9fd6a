"""`verify --repair` sends exactly what is missing again, once, with the same ledger, and nothing over what is there."""

from __future__ import annotations

import io
import os
import signal
import sqlite3
import sys
from collections import Counter
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli import common
from pipeline.config import Secret
from pipeline.errors import Busy, UsageError
from pipeline.ledger import BatchKey, Ledger, reopen
from pipeline.local_service import Settings
from pipeline.plan.sealed.freshness import open_plan
from tests.support.crashes import forked
from tests.support.deliveries import (
    Asked,
    Reply,
    identities,
    in_ledger,
    passed_on,
    planned,
    relayed,
    run,
    serving,
    uuid,
)
from tests.support.phased_plans import planned_in_phases
from tests.support.rehearsal import KEYS, Room
from tests.support.services import running
from tests.support.verification import PERSONAL, Sent, empty, repair, sent, sent_rows

SOME = [3, 4, 5, 17, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 38]
"""Events that are lost: single ones, neighbours, and a whole batch of each file."""


def test_what_is_missing_is_sent_again_and_nothing_else(tmp_path: Path) -> None:
    """15 of 40 lost events come back, each once, with the same bytes; renamed, altered and extra ones stay."""
    one = sent_rows(tmp_path, 40, batch=5)
    number = one.room.project
    before = {each.uuid: each.properties for each in one.room.service.events(number)}
    one.lose(*SOME)
    one.change(
        f"update accepted set event = 'Renamed' where uuid = '{uuid(0)}'",
        f"update accepted set properties = '{{\"analytics_source\":\"generic\"}}' where uuid = '{uuid(1)}'",
    )
    after = one.verify(repair=True)
    now = {each.uuid: each for each in one.room.service.events(number)}
    assert (after.events.missing, after.events.different, after.differs) == (0, 1, True)
    assert one.copies() == dict.fromkeys(map(uuid, range(40)), 1)
    assert all(now[uuid(number)].properties == before[uuid(number)] for number in SOME)
    assert now[uuid(0)].event == "Renamed"
    assert in_ledger(one.directory, "select sum(last - first + 1) from batches where state = 'settled'") == [(40,)]
    assert in_ledger(one.directory, "select count(*) from batches where state in ('begun', 'waiting')") == [(0,)]


def test_what_was_settled_in_parts_is_repaired_by_the_same_endpoint(tmp_path: Path) -> None:
    """In batches of the per-event endpoint what was stored before comes back, and nothing else."""
    directory = planned(tmp_path, 40, batch=20, dialect="posthog")
    faults = ("verdict:retry,one-in=3,retry-after=0", "verdict:drop,event=Step 1,rounds=9")
    with running(KEYS, Settings(per_event="on"), faults=faults) as service:
        one = Sent(directory, Room(service, 1))
        outcome = run(directory, service.url, key=one.room.key())
        assert (outcome.balanced, outcome.transport) == (True, "v1")
        one.lose(*(number for number in SOME if number % 3 != 1))
        after = one.verify(fields="all", repair=True)
        accepted, marks = one.copies(), {'"$ignore_sent_at":true' in each.properties for each in service.events()}
    assert (after.events.missing, after.differs, marks) == (0, False, {True})
    assert set(accepted.values()) == {1}
    assert len(accepted) == 40 - outcome.counts.refused


def test_a_second_repair_does_nothing(tmp_path: Path) -> None:
    """After the first one nothing is missing: no request, no run in the ledger."""
    one = sent_rows(tmp_path, 40, batch=5)
    one.lose(*SOME)
    assert one.verify(repair=True).proved
    done = one.copies(), in_ledger(one.directory, "select count(*) from runs")
    assert one.verify(repair=True).proved
    assert (one.copies(), in_ledger(one.directory, "select count(*) from runs")) == done
    assert one.landed() == identities(40)


@pytest.mark.parametrize(("dialect", "fields"), [("contract", "all"), ("posthog", "sample"), ("posthog", "all")])
def test_missing_merges_groups_and_profiles_are_sent_in_their_order(tmp_path: Path, dialect: str, fields: str) -> None:
    """Events of every phase are lost; the repair sends them once, phase by phase, to the same endpoint, and people are
    as they were sent. What the per-event endpoint stores differently is known."""
    per_event = dialect == "posthog"
    room = empty(per_event="on", promote_properties="on") if per_event else empty()
    one = sent(planned_in_phases(tmp_path, 40, dialect=dialect), room)
    before = one.verify(fields=fields)
    one.change("delete from accepted where receipt % 3 = 0")
    after = one.verify(fields=fields, repair=True)
    made = open_plan(one.directory)[0].events.made
    assert (before.proved, after.proved, after.events.found) == (True, True, made), after
    assert (len(one.copies()), one.copies().total()) == (made, made)
    transports = in_ledger(one.directory, "select value from meta where key = 'transport'")
    assert transports == ([("v1",)] if per_event else [("batch",)])
    known = {"own_column": made, "no_skew_correction": made} if per_event else {}
    assert {each.code: each.events for each in before.values.known} == known


def test_a_plan_that_is_not_sent_is_not_repaired(tmp_path: Path) -> None:
    """What was never sent is left to apply; the service is not asked."""
    one = Sent(planned(tmp_path, 40), empty())
    with pytest.raises(UsageError, match="was sent yet"):
        one.verify(repair=True)
    assert one.room.count() == 0


def test_another_run_since_the_comparison_ends_the_repair(tmp_path: Path) -> None:
    """Two repairs at a time would send twice; the second finds a run that it does not know."""
    one = sent_rows(tmp_path, 10)
    plan, place = open_plan(one.directory)
    ledger = Ledger(place.ledger).open(plan.digest, "test", one.room.url, Secret(one.room.key()))
    with closing(ledger), pytest.raises(Busy):
        reopen(ledger, [BatchKey("events", 0, 1, 1)], 0)
    assert in_ledger(one.directory, "select count(*) from batches where state != 'settled'") == [(0,)]


@pytest.mark.parametrize(("typed", "refused"), [("14", True), ("", True), ("1,500", True), ("15", False)])
def test_the_number_is_asked_for_away_from_this_machine(monkeypatch: Any, typed: str, refused: bool) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{typed}\n"))
    with pytest.raises(UsageError, match="the typed number is not") if refused else nullcontext():
        common.ask_number(15, "send them again")


def test_the_command_shows_what_it_sent_and_what_to_do(call: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """`verify` names the command, `--repair` says what it sent, and a second one that nothing was missing."""
    one = sent_rows(tmp_path, 20)
    one.lose(7, 8)
    monkeypatch.setenv("BACKCAST_PROJECT_KEY", one.room.key())
    monkeypatch.setenv("BACKCAST_PERSONAL_KEY", PERSONAL)
    words = ("verify", one.directory, "--to", one.room.url, "--project", one.room.project)
    said = call(*words)
    assert (said.code, "--repair" in said.out) == (7, True)
    said = call(*words, "--repair")
    assert said.code == 0
    assert "2 missing events sent again with the same uuids: 2 accepted." in said.out
    said = call(*words, "--repair", "--json")
    assert (said.code, said.json["repair"]) == (0, {"sent": 0, "accepted": 0, "refused": 0, "in_doubt": 0})
    assert said.json["state"] == "verified"


@pytest.mark.parametrize(("at", "after"), [(0, True), (1, False), (3, True)])
def test_a_repair_that_is_killed_loses_and_doubles_nothing(tmp_path: Path, at: int, after: bool) -> None:
    """Killed while a request is on its way, before it is taken or after it; the next repair sends the rest."""
    one = sent_rows(tmp_path, 40, batch=5)
    one.lose(*SOME)
    victim: list[int] = []
    taken: list[str] = []
    seen = 0

    def answer(asked: Asked) -> Reply:
        nonlocal seen
        if asked.path.startswith("/api/"):
            return relayed(one.room.url, asked)
        mine = seen == at and bool(victim)
        seen += 1
        reply = Reply(0)
        if after or not mine:
            taken.extend(event["uuid"] for event in asked.events)
            reply = passed_on(one.room.url, asked.body)
        if mine:
            os.kill(victim.pop(), signal.SIGKILL)
        return Reply(0) if mine else reply

    with serving(answer) as server:
        with closing(sqlite3.connect(one.directory / "ledger.sqlite")) as database, database:
            database.execute("update meta set value = ? where key = 'target'", (server.url,))
        marker = one.directory / "sent-to.json"
        marker.write_text(marker.read_text("utf-8").replace(one.room.url, server.url), "utf-8")
        there = one.directory, server.url, one.room.project, one.room.key()
        process = forked(repair, *there)
        assert process.pid is not None
        victim.append(process.pid)
        process.join(120)
        assert process.exitcode == -signal.SIGKILL
        begun = "select coalesce(sum(last - first + 1), 0) from batches where state = 'begun'"
        in_doubt = in_ledger(one.directory, begun)[0][0]
        repair(*there)
    copies = Counter(taken)
    assert set(copies) == {uuid(number) for number in SOME}
    assert sum(count - 1 for count in copies.values()) <= in_doubt
    assert one.landed() == identities(40)
    assert in_ledger(one.directory, "select sum(last - first + 1) from batches where state = 'settled'") == [(40,)]
