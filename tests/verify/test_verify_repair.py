"""`verify --repair` sends exactly what is missing again, once, by the same ledger, and nothing over what is there."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import sqlite3
import sys
from collections import Counter
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from pipeline import api
from pipeline.cli import common
from pipeline.config import Secret
from pipeline.errors import Busy, UnsafePlan, UsageError
from pipeline.ledger import Ledger, reopen
from pipeline.local_service import LocalService
from pipeline.local_service.settings import Settings
from pipeline.options import VerifyOptions
from pipeline.plan.sealed.freshness import open_plan
from pipeline.verify import Verification
from tests.support.crashes import KEYS
from tests.support.deliveries import (
    KEY,
    Asked,
    Reply,
    identities,
    in_ledger,
    passed_on,
    planned,
    run,
    serving,
    tamper,
    uuid,
)
from tests.support.phased_plans import planned_in_phases

pytestmark = pytest.mark.slow

SOME = [3, 4, 5, 17, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 38]
"""Events that are lost: single ones, neighbours, and a whole batch of each file."""


def repaired(directory: Path, service: LocalService, to: str = "", **asked: Any) -> Verification:
    options = VerifyOptions(workers=0, repair=True, **asked)
    keys = {"personal_key": service.personal_key, "project_key": service.capture_key}
    return api.verify_plan(directory, to or service.url, options, **keys)


def landed(service: LocalService) -> set[tuple[str, str, str, str]]:
    return {(one.uuid, one.event, one.distinct_id, one.timestamp) for one in service.events()}


def lose(service: LocalService, numbers: list[int]) -> None:
    listed = ", ".join(f"'{uuid(number)}'" for number in numbers)
    tamper(service, f"delete from accepted where uuid in ({listed})")


def test_what_is_missing_is_sent_again_and_nothing_else(tmp_path: Path) -> None:
    """15 of 40 lost events come back, each once, with the same bytes; renamed, altered and extra ones stay."""
    directory = planned(tmp_path, 40, batch=5)
    with LocalService() as service:
        assert run(directory, service.url, key=service.capture_key).balanced
        before = {one.uuid: one.properties for one in service.events()}
        lose(service, SOME)
        tamper(service, f"update accepted set event = 'Renamed' where uuid = '{uuid(0)}'")
        tamper(
            service, f"update accepted set properties = '{{\"analytics_source\":\"generic\"}}' where uuid = '{uuid(1)}'"
        )
        after = repaired(directory, service)
        accepted = Counter(str(one) for (one,) in service.select("select uuid from raw_events"))
        now = {one.uuid: one for one in service.events()}
    assert (after.events["missing"], after.events["different"], after.differs) == (0, 1, True)
    assert set(accepted.values()) == {1}
    assert len(accepted) == 40
    assert {uuid(number): now[uuid(number)].properties for number in SOME} == {
        uuid(number): before[uuid(number)] for number in SOME
    }
    assert now[uuid(0)].event == "Renamed"
    assert in_ledger(directory, "select sum(last - first + 1) from batches where state = 'settled'") == [(40,)]
    assert in_ledger(directory, "select count(*) from batches where state in ('begun', 'waiting')") == [(0,)]


def test_what_was_sent_by_the_per_event_endpoint_is_proved_and_mended_there(tmp_path: Path) -> None:
    """Every property is compared; what was settled in parts comes back by the same endpoint, and nothing else."""
    directory = planned(tmp_path, 40, batch=20, dialect="posthog")
    faults = ("verdict:retry,one-in=3,retry-after=0", "verdict:drop,event=Step 1,rounds=9")
    with LocalService(settings=Settings(per_event="on"), faults=faults) as service:
        outcome = run(directory, service.url, key=service.capture_key)
        assert (outcome.balanced, outcome.transport) == (True, "v1")
        kept = [number for number in SOME if number % 3 != 1]
        lose(service, kept)
        after = repaired(directory, service, fields="all")
        accepted = Counter(str(one) for (one,) in service.select("select uuid from raw_events"))
        marks = {'"$ignore_sent_at":true' in one.properties for one in service.events()}
    assert (after.events["missing"], after.differs, marks) == (0, False, {True})
    assert set(accepted.values()) == {1}
    assert len(accepted) == 40 - outcome.counts.refused


def test_a_second_repair_does_nothing(tmp_path: Path) -> None:
    """After the first one nothing is missing: no request, no run in the ledger."""
    directory = planned(tmp_path, 40, batch=5)
    with LocalService() as service:
        assert run(directory, service.url, key=service.capture_key).balanced
        lose(service, SOME)
        assert repaired(directory, service).proved
        requests, runs = service.store.raw_count(), in_ledger(directory, "select count(*) from runs")
        assert repaired(directory, service).proved
        assert (service.store.raw_count(), in_ledger(directory, "select count(*) from runs")) == (requests, runs)
        assert landed(service) == identities(40)


def test_missing_merges_groups_and_profiles_are_sent_in_their_order(tmp_path: Path) -> None:
    """Events of every phase are lost; the repair sends them phase by phase, and people stand as they were sent."""
    directory = planned_in_phases(tmp_path, 40)
    with LocalService() as service:
        assert run(directory, service.url, key=service.capture_key).balanced
        tamper(service, "delete from accepted where receipt % 3 = 0")
        after = repaired(directory, service, fields="all")
    assert after.proved, after
    assert after.events["found"] == open_plan(directory)[0].events.made


@pytest.mark.parametrize("fields", ["sample", "all"])
def test_what_went_to_the_per_event_endpoint_is_proved_and_repaired(tmp_path: Path, fields: str) -> None:
    """What that endpoint stores differently is known; what is missing goes there again, once."""
    directory = planned_in_phases(tmp_path, 40, dialect="posthog")
    with LocalService(settings=Settings(per_event="on", promote_properties="on")) as service:
        assert run(directory, service.url, key=service.capture_key).balanced
        options = VerifyOptions(workers=0, fields=fields)
        before = api.verify_plan(directory, service.url, options, personal_key=service.personal_key)
        tamper(service, "delete from accepted where receipt % 4 = 0")
        after = repaired(directory, service, fields=fields)
        copies = service.select("select count(*), count(distinct uuid) from raw_events")
    assert in_ledger(directory, "select value from meta where key = 'transport'") == [("v1",)]
    assert (before.proved, after.proved, copies) == (True, True, [(66, 66)])
    assert {one.code: one.events for one in before.values.known} == {"own_column": 66, "no_skew_correction": 66}


def test_a_plan_that_is_not_sent_is_not_repaired(tmp_path: Path) -> None:
    """What was never sent is for apply; nothing is asked of the service."""
    directory = planned(tmp_path, 40)
    with LocalService() as service:
        with pytest.raises(UnsafePlan, match="not sent yet"):
            repaired(directory, service)
        assert service.store.raw_count() == 0


def test_another_run_since_the_comparison_ends_the_repair(tmp_path: Path) -> None:
    """Two repairs at a time would send twice; the second finds a run that it does not know."""
    directory = planned(tmp_path, 10)
    with LocalService() as service:
        assert run(directory, service.url, key=service.capture_key).balanced
        plan, place = open_plan(directory)
        ledger = Ledger(place.ledger).open(plan.digest, "test", service.url, Secret(service.capture_key))
        try:
            with pytest.raises(Busy):
                reopen(ledger, [("events", 0, 1)], 0)
        finally:
            ledger.close()
    assert in_ledger(directory, "select count(*) from batches where state != 'settled'") == [(0,)]


@pytest.mark.parametrize(("typed", "refused"), [("14", True), ("", True), ("1,500", True), ("15", False)])
def test_the_number_is_asked_for_away_from_this_machine(monkeypatch: Any, typed: str, refused: bool) -> None:
    """Another number, or none, sends nothing."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{typed}\n"))
    with pytest.raises(UsageError, match="not the number") if refused else nullcontext():
        common.ask_number(15, "send them again")


def test_the_command_tells_what_it_sent_and_what_to_do(call: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """`verify` names the command, `--repair` says what it sent, and a second one that nothing was missing."""
    directory = planned(tmp_path, 20)
    with LocalService() as service:
        monkeypatch.setenv("BACKCAST_PROJECT_KEY", service.capture_key)
        monkeypatch.setenv("BACKCAST_PERSONAL_KEY", service.personal_key)
        assert call("apply", directory, "--to", service.url).code == 0
        lose(service, [7, 8])
        said = call("verify", directory, "--to", service.url)
        assert (said.code, "--repair" in said.out) == (7, True)
        said = call("verify", directory, "--to", service.url, "--repair")
        assert said.code == 0
        assert "2 missing events sent again with the same uuids: 2 accepted." in said.out
        said = call("verify", directory, "--to", service.url, "--repair", "--json")
        assert (said.code, said.json["repair"]) == (0, {"sent": 0, "accepted": 0, "refused": 0, "in_doubt": 0})
        assert said.json["state"] == "verified"


def _repair(directory: Path, to: str, personal: str) -> None:
    options = VerifyOptions(workers=0, repair=True, fields="none")
    api.verify_plan(directory, to, options, personal_key=personal, project_key=KEY)


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("after", [False, True])
def test_a_repair_that_is_killed_loses_and_doubles_nothing(tmp_path: Path, at: int, after: bool) -> None:
    """Killed while a request is on its way, before it is taken or after it; the next repair sends the rest."""
    directory = planned(tmp_path, 40, batch=5)
    with LocalService(keys=KEYS) as service:
        assert run(directory, service.url, key=KEY).balanced
        ledger = directory / "ledger.sqlite"
        lose(service, SOME)
        victim: list[int] = []
        taken: list[str] = []
        seen = 0

        def answer(asked: Asked) -> Reply:
            nonlocal seen
            if asked.path.startswith("/api/"):
                return _query(service.url, asked)
            mine = seen == at
            seen += 1
            if mine and victim and not after:
                os.kill(victim.pop(), signal.SIGKILL)
                return Reply(0)
            taken.extend(event["uuid"] for event in asked.events)
            reply = passed_on(service.url, asked.body)
            if mine and victim:
                os.kill(victim.pop(), signal.SIGKILL)
                return Reply(0)
            return reply

        with serving(answer) as server:
            with closing(sqlite3.connect(ledger)) as database, database:
                database.execute("update meta set value = ? where key = 'target'", (server.url,))
            marker = directory / "sent-to.json"
            marker.write_text(marker.read_text("utf-8").replace(service.url, server.url), "utf-8")
            context = multiprocessing.get_context("spawn")
            process = context.Process(target=_repair, args=(directory, server.url, "phx_test"))
            process.start()
            assert process.pid is not None
            victim.append(process.pid)
            process.join(120)
            assert process.exitcode == -signal.SIGKILL
            in_doubt = in_ledger(
                directory, "select coalesce(sum(last - first + 1), 0) from batches where state = 'begun'"
            )
            _repair(directory, server.url, "phx_test")
        copies = Counter(taken)
        assert set(copies) == {uuid(number) for number in SOME}
        assert sum(count - 1 for count in copies.values()) <= in_doubt[0][0]
        assert landed(service) == identities(40)
    assert in_ledger(directory, "select sum(last - first + 1) from batches where state = 'settled'") == [(40,)]


def _query(url: str, asked: Asked) -> Reply:
    import httpx

    said = httpx.post(
        url + asked.path, content=asked.body, headers={"Authorization": "Bearer phx_test"}, trust_env=False, timeout=60
    )
    return Reply(said.status_code, said.content)
