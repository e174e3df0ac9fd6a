"""The rules of apply and verify for a plan apply to a job too: rehearsal, canary, endpoint, functions, depth."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import UsageError
from pipeline.jobs.hooks import JobHooks
from pipeline.ledger import read_summary
from pipeline.local_service import LocalService, Settings
from pipeline.plan.sealed.freshness import open_plan
from pipeline.report.contents import NO_RESULTS, results_of
from tests.support.commands import in_process
from tests.support.deliveries import in_ledger, tamper
from tests.support.forked import Forked
from tests.support.jobs import (
    KEY,
    KEYS,
    OWN,
    PERSONAL_KEY,
    code,
    copies,
    days,
    identities,
    landed,
    outcomes,
    proofs,
    ran,
    run,
    sent_once,
    started,
    write_job,
)
from tests.support.management_service import LIST, Asking
from tests.support.preflight import function
from tests.support.relays import relay

UNTIL = {"until": "2024-01-03"}


@contextmanager
def hooked() -> Iterator[tuple[LocalService, Asking, dict[str, Any]]]:
    """A service whose project has a function that fires on every event."""
    with LocalService(keys=KEYS) as service:
        ask = Asking(service)
        with ask.client:
            ask.client.headers["authorization"] = f"Bearer {PERSONAL_KEY}"
            made = ask.client.post(LIST, json=function(name="To the CRM")).json()
            yield service, ask, made


def is_on(ask: Asking, made: dict[str, Any]) -> bool:
    return bool(ask.client.get(f"{LIST}{made['id']}/").json()["enabled"])


def test_functions_are_off_while_a_run_sends_and_on_again_at_its_end(tmp_path: Path) -> None:
    """Once per run, not once per window; without `functions: pause` such a target stops the run, and without a personal
    key it is an error before anything is planned."""
    rows = days(tmp_path, 1, 2)
    seen: list[tuple[str, bool]] = []
    with hooked() as (service, ask, made):

        def look(method: str, path: str) -> None:
            if method == "PATCH" or path == "/batch/":
                seen.append((method, is_on(ask, made)))

        with relay(service.url, before=look) as to:
            assert code(run(write_job(tmp_path, to, **UNTIL), personal_key=OWN)) == 4
            job = write_job(tmp_path, to, functions="pause", **UNTIL)
            done = run(job)
            assert (type(done.problem), done.windows, service.count()) == (UsageError, [], 0)
            done = run(job, personal_key=OWN)
        assert (code(done), is_on(ask, made)) == (0, True), done.problem
        assert seen == [("PATCH", True), ("POST", False), ("POST", False), ("PATCH", False)]
        assert sent_once(service, rows)
        assert not (tmp_path / "state/nightly/paused-functions.json").exists()


@pytest.mark.parametrize("by", ["run", "resume-functions"])
def test_what_a_killed_run_left_off_is_on_after_the_next(tmp_path: Path, by: str) -> None:
    """The command does it too, given the job's state folder; until then the history names the functions."""
    rows = days(tmp_path, 1)
    runs: list[Forked] = []
    with hooked() as (service, ask, made):

        def kill(method: str, path: str) -> None:
            if path == "/batch/" and runs and runs[0].returncode is None:
                runs[0].send_signal(signal.SIGKILL)
                runs[0].wait()

        with relay(service.url, after=kill) as to:
            job = write_job(tmp_path, to, functions="pause", until="2024-01-02")
            runs.append(started(job, PERSONAL_KEY))
            while runs[0].returncode is None:
                time.sleep(0.02)
            assert runs[0].returncode == -signal.SIGKILL
            assert not is_on(ask, made)
            assert f"Hog functions that are off: 'To the CRM' ({made['id']})." in ran(job, "--history")[1]
            if by == "resume-functions":
                keys = {"BACKCAST_PROJECT_KEY": KEY, "BACKCAST_PERSONAL_KEY": PERSONAL_KEY}
                said = in_process("resume-functions", tmp_path / "state/nightly", "--to", to, env=keys)
                assert (said.returncode, is_on(ask, made)) == (0, True), said.stderr
            done = run(job, personal_key=OWN)
        assert (code(done), is_on(ask, made)) == (0, True), done.problem
        assert sum(service.select("select count(distinct uuid) from raw_events")[0]) == len(rows)


def test_each_window_is_rehearsed_before_it_is_sent(tmp_path: Path, service: LocalService) -> None:
    """The report has the result, and the store of the rehearsal is removed."""
    rows = days(tmp_path, 1, 2)
    job = write_job(tmp_path, service.url, rehearse="each", **UNTIL)
    done = run(job)
    assert (code(done), outcomes(done)) == (0, {"2024-01-01": "done", "2024-01-02": "done"})
    assert sent_once(service, rows)
    plan = tmp_path / "state/nightly/windows/2024-01-02/plan-1"
    assert json.loads((plan / "report.json").read_text())["rehearsed"]["proved"] is True
    assert not (plan / "rehearsal").exists()


def test_every_window_has_a_canary_and_lands_once(tmp_path: Path, service: LocalService) -> None:
    """What the sample sent is not sent again, and the report of the plan shows it. Without a personal key nothing is
    sent; the next run needs no canary."""
    made = days(tmp_path, 1, 2)
    job = write_job(tmp_path, service.url, until="2024-01-03", canary="4")
    with pytest.raises(UsageError, match="needs the personal key"):
        run(job)
    done = run(job, personal_key=OWN)
    assert (code(done), set(outcomes(done).values())) == (0, {"done"})
    assert landed(service) == identities(made)
    assert set(copies(service).values()) == {1}
    for window in done.windows:
        plan, directory = open_plan(window.plan)
        canary = results_of(directory, plan, NO_RESULTS).canary
        assert canary is not None
        assert canary.proved
        assert 0 < canary.size <= 4
        assert in_ledger(directory.path, "select count(*) from batches") >= [(2,)]
    assert run(job, personal_key=OWN).windows == []


def test_a_canary_that_is_refused_or_differs_holds_the_window(tmp_path: Path) -> None:
    """The rest stays unsent, run after run, until the sample is as it was sent or the key is removed from the file."""
    made = days(tmp_path, 1)
    store = tmp_path / "store.duckdb"
    with LocalService(store, keys=KEYS, faults=("poison,event=Step 1",)) as service:
        job = write_job(tmp_path, service.url, until="2024-01-02", canary="4")
        assert code(run(job, personal_key=OWN)) == 5
        assert len(landed(service)) < 4
        refused = run(job, personal_key=OWN)
        assert (code(refused), "of the canary" in str(refused.problem)) == (5, True)
        arrived = landed(service)
        port = service.port
    with LocalService(store, keys=KEYS, port=port) as service:
        tamper(service, "delete from accepted where uuid = (select min(uuid) from accepted)")
        differs = run(job, personal_key=OWN)
        assert (code(differs), "1 missing" in str(differs.problem)) == (7, True)
        assert len(landed(service)) == len(arrived) - 1
        done = run(write_job(tmp_path, service.url, until="2024-01-02"))
        assert outcomes(done) == {"2024-01-01": "done"}
        refused_and_lost = identities(made) - landed(service)
        assert 1 < len(refused_and_lost) <= 4
        assert set(copies(service).values()) == {1}


@pytest.mark.parametrize("transport", ["v1", "batch"])
def test_a_job_names_its_endpoint(tmp_path: Path, transport: str) -> None:
    rows = days(tmp_path, 1)
    with LocalService(keys=KEYS, settings=Settings(per_event="on")) as service:
        job = write_job(tmp_path, service.url, transport=transport, until="2024-01-02", dialect="posthog")
        assert code(run(job)) == 0
        assert sent_once(service, rows)
    ledger = tmp_path / "state/nightly/windows/2024-01-01/plan-1/ledger.sqlite"
    assert read_summary(ledger).transport == transport


@pytest.mark.parametrize(
    ("fields", "ends", "said"),
    [("", 7, ("differs", "of 10 events: 1 altered")), ("none", 0, ("proved", "10 events are there"))],
)
def test_a_job_compares_values_as_deep_as_it_says(
    tmp_path: Path, service: LocalService, fields: str, ends: int, said: tuple[str, str]
) -> None:
    """A sample, unless the job file has another depth; only the depth `none` misses a value that changed."""
    days(tmp_path, 1)
    job = write_job(tmp_path, service.url, until="2024-01-02", verify=fields and f"{{fields: {fields}}}")
    changed = "update accepted set properties = replace(properties, '\"number\":3', '\"number\":8')"
    hooks = JobHooks(ended=lambda window: tamper(service, changed))
    done = run(job, personal_key=OWN, hooks=hooks)
    assert (code(done), proofs(job)) == (ends, [said])


def test_metrics_say_how_far_a_job_is_behind(tmp_path: Path, service: LocalService) -> None:
    """The last window that was sent, of the first of January 2024, ended years ago."""
    days(tmp_path, 1)
    run(write_job(tmp_path, service.url, until="2024-01-02", metrics="run.prom"))
    lines = dict(line.rsplit(" ", 1) for line in (tmp_path / "run.prom").read_text("utf-8").splitlines())
    behind = float(lines["backcast_job_behind_seconds"])
    assert abs(behind - (time.time() - datetime(2024, 1, 2, tzinfo=UTC).timestamp())) < 3600
