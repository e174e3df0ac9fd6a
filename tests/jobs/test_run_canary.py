"""A job with `canary` sends a sample of each window, reads it back, and only then sends the rest."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipeline.config import Secret
from pipeline.errors import UsageError
from pipeline.local_service import LocalService
from pipeline.plan.sealed.freshness import open_plan
from pipeline.report.contents import NO_RESULTS, results_of
from tests.support.deliveries import in_ledger, tamper
from tests.support.jobs import KEYS, PERSONAL_KEY, code, copies, days, identities, landed, outcomes, run, write_job

pytestmark = pytest.mark.slow

OWN = Secret(PERSONAL_KEY)


def test_every_window_has_a_canary_and_lands_once(tmp_path: Path, service: LocalService) -> None:
    """What the sample sent is not sent again, and the report of the plan has it. Without a personal key nothing is
    sent at all; the next run needs no canary."""
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
    """The rest stays unsent, run after run, until the sample is as it was sent or the key is taken out of the file."""
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


def test_metrics_say_how_far_a_job_is_behind(tmp_path: Path, service: LocalService) -> None:
    """The window that was sent last, of the first of January 2024, ended years ago."""
    days(tmp_path, 1)
    run(write_job(tmp_path, service.url, until="2024-01-02", metrics="run.prom"))
    lines = dict(line.rsplit(" ", 1) for line in (tmp_path / "run.prom").read_text("utf-8").splitlines())
    behind = float(lines["backcast_job_behind_seconds"])
    assert abs(behind - (time.time() - datetime(2024, 1, 2, tzinfo=UTC).timestamp())) < 3600
