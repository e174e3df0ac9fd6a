"""A job's state belongs to one target, which it fills only up to the target's first live event."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from pipeline import api
from pipeline.config import Secret
from pipeline.errors import UsageError
from pipeline.jobs.hooks import JobHooks
from pipeline.local_service import Keyring, LocalService
from pipeline.local_service.keys import Project
from pipeline.options import ApplyOptions, PlanOptions
from tests.support.deliveries import COLUMNS, KEY
from tests.support.jobs import (
    KEYS,
    OWN,
    code,
    copies,
    days,
    identities,
    landed,
    outcomes,
    put,
    ran,
    row,
    run,
    sent_once,
    write_job,
)
from tests.support.plain_http import PLAIN
from tests.support.services import running

TWO = Keyring(
    (Project(1, "One", "phc_test_one"), Project(2, "Two", "phc_test_two")),
    {"phx_test_one": frozenset({"*"}), "phx_test_two": frozenset({"*"})},
    {"phx_test_one": frozenset({1}), "phx_test_two": frozenset({2})},
)


def live(service: LocalService, moment: str) -> None:
    """An event that an SDK sends now."""
    event = {"event": "Live", "distinct_id": "visitor", "timestamp": moment, "properties": {"distinct_id": "visitor"}}
    body = {"api_key": KEY, "batch": [event]}
    assert httpx.post(f"{service.url}/batch/", json=body, timeout=30, **PLAIN).status_code == 200


def test_a_job_fills_up_to_the_first_live_event_and_remembers_it(tmp_path: Path, service: LocalService) -> None:
    """Rows from that time on are left out and counted, in dry runs too, and in later runs without a personal key;
    `live: allow` lets them in."""
    rows = days(tmp_path, 1, 2, 3)
    warned: list[str] = []
    live(service, "2024-01-02T10:00:05Z")
    job = write_job(tmp_path, service.url, until="2024-01-03")
    dry = run(job, dry_run=True, personal_key=OWN, hooks=JobHooks(warn=warned.append))
    assert [one.attempt and one.attempt.events for one in dry.windows] == [10, 5]
    assert "live events of the target begin at 2024-01-02T10:00:05" in warned.pop()
    run(job, dry_run=True, personal_key=Secret("phx_test_other"), hooks=JobHooks(warn=warned.append))
    assert "cannot ask when live events of the target begin: " in warned.pop()
    done = run(job, personal_key=OWN, hooks=JobHooks(warn=warned.append))
    assert code(done) == 0, done.problem
    assert [line for line in warned if "live events of the target begin at 2024-01-02T10:00:05" in line]
    late = row(1, 500)
    put(tmp_path, 4, [late])
    run(write_job(tmp_path, service.url))
    kept = [*rows[:15], late]
    assert landed(service) >= identities(kept)
    assert service.count() == len(kept) + 1
    receipt = api.write_job_receipt(tmp_path / "state/nightly")
    assert receipt.coverage["first_live"] == "2024-01-02T10:00:05Z"
    assert (receipt.sums.settled, receipt.sums.skipped) == (16, 15)
    said = {"until": "2024-01-03", "live": "allow", "gates": "{max_already_there: 100%}"}
    run(write_job(tmp_path, service.url, name="other", **said), personal_key=OWN)
    assert landed(service) >= identities(rows[:20])


def test_what_a_plan_sent_before_is_never_sent_again(tmp_path: Path, service: LocalService) -> None:
    """With a personal key the target is asked (`already_there`); with `earlier` the job knows what that plan settled,
    and which devices were without a user in it."""
    put(tmp_path, 1, [row(1, 1), row(1, 2, distinct_id="", anonymous_id="phone")])
    settings = COLUMNS | {"anonymous_id": "anonymous_id"}
    options = PlanOptions(mapping="generic", settings=settings, timezone="UTC", workers=0)
    api.plan_export(tmp_path / "exports", tmp_path / "plan", options)
    api.apply_plan(tmp_path / "plan", service.url, ApplyOptions(), project_key=KEY)
    said = {"set": json.dumps(settings), "merges": "{up-to: 9}"}
    done = run(write_job(tmp_path, service.url, until="2024-01-02", **said), personal_key=OWN)
    assert (code(done), outcomes(done)) == (4, {"2024-01-01": "stopped"})
    assert "sent them: `earlier: [DIR]`" in str(done.problem)
    put(tmp_path, 2, [row(2, 3, anonymous_id="phone")])
    done = run(write_job(tmp_path, service.url, until="2024-01-03", earlier="[plan]", **said), personal_key=OWN)
    assert (code(done), outcomes(done)) == (0, {"2024-01-01": "done", "2024-01-02": "done"})
    assert set(copies(service).values()) == {1}
    assert api.write_job_receipt(tmp_path / "state/nightly").uuids == 1 + 1  # an event and a merge
    assert {"phone", "person-3"} in [{*one.distinct_ids} for one in service.persons()]


def test_events_that_are_there_in_another_version_are_a_warning(tmp_path: Path, service: LocalService) -> None:
    """The window is sent; the service keeps both versions of events that are there under another name."""
    rows = days(tmp_path, 1)
    old = [{"event": "Old name"} | {name: one[name] for name in ("uuid", "timestamp")} for one in rows[:3]]
    body = {"api_key": KEY, "batch": [one | {"properties": {"distinct_id": "person-0"}} for one in old]}
    assert httpx.post(f"{service.url}/batch/", json=body, timeout=30, **PLAIN).status_code == 200
    warned: list[str] = []
    job = write_job(tmp_path, service.url, until="2024-01-02", live="allow")
    done = run(job, personal_key=OWN, hooks=JobHooks(warn=warned.append))
    assert (code(done), outcomes(done)) == (0, {"2024-01-01": "done"})
    (warning,) = (line for line in warned if line.startswith("other_versions of "))
    assert "3 of 10 events are there under the same uuid with another name" in warning


def test_windows_that_were_filled_before_live_events_were_known_are_named(
    tmp_path: Path, service: LocalService
) -> None:
    """A run without a personal key says once that it could not ask; the first run with one says what may be there
    twice."""
    days(tmp_path, 1, 2)
    warned: list[str] = []
    job = write_job(tmp_path, service.url, until="2024-01-03")
    for _ in range(2):
        run(job, hooks=JobHooks(warn=warned.append))
    assert [line for line in warned if "without a personal key" in line] == warned[:1]
    assert any("live events" in one for one in api.write_job_receipt(tmp_path / "state/nightly").unproved)
    live(service, "2024-01-02T10:00:05Z")
    run(job, personal_key=OWN, hooks=JobHooks(warn=warned.append))
    assert "1 windows from 2024-01-02 on were filled before" in warned[-1]


def test_another_host_opens_all_windows_and_the_first_goes_on_where_it_was(tmp_path: Path) -> None:
    """There and back: each target gets everything once, also if the state is lost: ledgers know their target."""
    rows = days(tmp_path, 1, 2)
    warned: list[str] = []
    with running(KEYS) as first, running(KEYS) as second:
        run(write_job(tmp_path, first.url, until="2024-01-03"))
        job = write_job(tmp_path, second.url, until="2024-01-03")
        done = run(job, hooks=JobHooks(warn=warned.append))
        assert (code(done), set(outcomes(done).values())) == (0, {"done"})
        assert "all windows are open for it" in warned[0]
        assert run(job).windows == []
        _, said, told = ran(job, "--history")
        assert "2 done" in said
        assert f"Another target of this job has its state in {tmp_path / 'state/nightly'}" in told
        rows += days(tmp_path, 3)
        assert list(outcomes(run(write_job(tmp_path, first.url, until="2024-01-04")))) == ["2024-01-03"]
        assert sent_once(first, rows)
        assert sent_once(second, rows[:20])
        for file in (tmp_path / "state/nightly").glob("state.sqlite*"):  # lost, and recognised by its ledgers
            file.unlink()
        assert run(write_job(tmp_path, second.url, until="2024-01-03")).windows == []
        assert run(write_job(tmp_path, first.url, until="2024-01-04")).windows == []


def test_another_project_opens_all_windows(tmp_path: Path) -> None:
    """The personal key shows which project; without one it is unknown whether another key is rotated or of another
    project."""
    rows = days(tmp_path, 1, 2)
    with running(TWO) as service:
        job = write_job(tmp_path, service.url, until="2024-01-03")
        for key in ("one", "two", "one"):
            done = run(job, key=f"phc_test_{key}", personal_key=Secret(f"phx_test_{key}"))
            assert code(done) == 0, done.problem
        with pytest.raises(UsageError, match="the capture key is not the one"):
            run(job, key="phc_test_two")
        assert [len(service.events(project)) for project in (1, 2)] == [len(rows), len(rows)]
        assert (tmp_path / f"state/nightly/targets/{service.url[7:].replace(':', '-')}-2/state.sqlite").exists()
