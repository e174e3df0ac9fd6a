"""A scheduled backfill: whatever happens between two runs, each event of each window is sent once."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline.jobs import load_job, read_history, state_file
from pipeline.local_service import LocalService
from tests.support.deliveries import COLUMNS, Asked, Reply, passed_on, serving
from tests.support.jobs import LATE, code, copies, days, outcomes, put, ran, row, run, sent_once, write_job

DAY = timedelta(days=1)
ONE, TWO, THREE = {"until": "2024-01-02"}, {"until": "2024-01-03"}, {"until": "2024-01-04"}


def test_a_window_is_due_a_lag_after_its_end_and_days_off_are_made_up(tmp_path: Path, service: LocalService) -> None:
    """Not a second before; a run after days without any takes all due windows, oldest first, up to `until`, once."""
    rows = days(tmp_path, 1, 2, 3)
    days(tmp_path, 4)
    due = datetime(2024, 1, 2, tzinfo=UTC) + timedelta(hours=49)
    job = write_job(tmp_path, service.url, **THREE)
    assert run(job, due - timedelta(seconds=1)).windows == []
    assert outcomes(run(job, due)) == {"2024-01-01": "done"}
    assert list(outcomes(run(job, due + 9 * DAY)).items()) == [("2024-01-02", "done"), ("2024-01-03", "done")]
    again = run(job)
    assert (again.windows, code(again), sent_once(service, rows)) == ([], 0, True)


def test_a_window_planned_late_gives_the_same_events(tmp_path: Path, service: LocalService) -> None:
    """The plan's instant follows from the window: an event too young for it stays too young, whenever the window is
    planned."""
    young = row(1, 1) | {"timestamp": "2024-01-02T10:00:00Z"}
    put(tmp_path, 1, [row(1, 0), young])
    plans = []
    for name, now in (("early", datetime(2024, 1, 4, 2, tzinfo=UTC)), ("late", LATE)):
        assert code(run(write_job(tmp_path, service.url, name=name, gates="{max_rejects: 1}", **ONE), now)) == 0
        plans.append((tmp_path / f"state/{name}/windows/2024-01-01/plan-1/requests.jsonl").read_bytes())
    assert (plans[0] == plans[1], service.count()) == (True, 1)


def test_hours_over_a_change_of_the_clock(tmp_path: Path, service: LocalService) -> None:
    """4 files for the first 5 hours of a day; the repeated hour is due after both of its hours, and read once."""
    rows = [row(1, hour) | {"timestamp": f"2023-11-05T{hour:02d}:30:00Z"} for hour in range(4)]
    (tmp_path / "exports").mkdir()
    for hour, one in enumerate(rows):
        (tmp_path / f"exports/20231105{hour:02d}.jsonl").write_text(json.dumps(one) + "\n")
    job = write_job(
        tmp_path, service.url, source="exports/{date:%Y%m%d%H}.jsonl", window="hour",
        window_timezone="America/New_York", from_="2023-11-05", until="2023-11-05T04", missing="stop",
    )  # fmt: skip
    before_its_end = datetime(2023, 11, 5, 6, 59, tzinfo=UTC) + timedelta(hours=49)
    assert list(outcomes(run(job, before_its_end))) == ["2023-11-05T00"]
    assert list(outcomes(run(job, before_its_end + timedelta(minutes=1)))) == ["2023-11-05T01"]
    assert len(run(job).windows) == 2
    assert sent_once(service, rows)


@pytest.mark.parametrize(
    ("missing", "first", "second", "ends"),
    [
        ("wait", {"2024-01-01": "done", "2024-01-02": "waiting", "2024-01-03": "done"}, ["waiting"], 6),
        ("done", {"2024-01-01": "done", "2024-01-02": "done", "2024-01-03": "done"}, [], 0),
        ("stop", {"2024-01-01": "done", "2024-01-02": "waiting"}, ["waiting"], 3),
    ],
)
def test_a_window_without_files(
    tmp_path: Path, service: LocalService, missing: str, first: dict[str, str], second: list[str], ends: int
) -> None:
    """It waits while others continue, counts as empty, or stops all later ones from being sent; its files are taken
    when they come, in each case."""
    rows = days(tmp_path, 1, 3)
    (tmp_path / "exports/2024/01/02").mkdir(parents=True)
    (tmp_path / "exports/2024/01/02/_SUCCESS").touch()
    job = write_job(tmp_path, service.url, missing=missing, lookback="2", **THREE)
    done = run(job)
    assert (outcomes(done), code(done)) == (first, ends)
    assert sent_once(service, rows[: 10 * list(first.values()).count("done")])
    done = run(job)
    assert (list(outcomes(done).values()), code(done)) == (second, ends if second else 0)
    rows += days(tmp_path, 2)
    done = run(job)
    assert (outcomes(done)["2024-01-02"], code(done), sent_once(service, rows)) == ("done", 0, True)


def test_a_window_with_empty_files_is_done(tmp_path: Path, service: LocalService) -> None:
    put(tmp_path, 1, [])
    job = write_job(tmp_path, service.url, missing="stop", **ONE)
    assert (outcomes(run(job)), run(job).windows) == ({"2024-01-01": "done"}, [])


def test_a_failed_check_stops_its_window_until_the_file_is_corrected(tmp_path: Path, service: LocalService) -> None:
    """Other windows continue, nothing of it is sent, and the next run plans it again, however late."""
    rows = days(tmp_path, 2)
    put(tmp_path, 1, [row(1, 0), {"event": "Nobody"}])
    job = write_job(tmp_path, service.url, **TWO)
    for _ in range(2):
        done = run(job)
        assert (outcomes(done)["2024-01-01"], code(done)) == ("stopped", 4)
        assert done.problem is not None
        report = tmp_path / "state/nightly/windows/2024-01-01/plan-1/report.html"
        assert (str(report) in done.problem.hint, report.exists()) == (True, True)
    assert sent_once(service, rows)
    rows += days(tmp_path, 1)
    done = run(job)
    assert (outcomes(done), code(done)) == ({"2024-01-01": "done"}, 0)
    assert sent_once(service, rows)


def test_a_late_file_that_a_gate_stops_is_not_forgotten(tmp_path: Path, service: LocalService) -> None:
    """Even if its window has left the lookback by the time the file is corrected or taken away."""
    rows = days(tmp_path, 1, 2)
    job = write_job(tmp_path, service.url, lookback="1", **TWO)
    run(job, datetime(2024, 1, 4, 12, tzinfo=UTC))
    bad = put(tmp_path, 1, [row(1, 70), {"event": "Nobody"}], "late.jsonl")
    assert outcomes(run(job, datetime(2024, 1, 4, 13, tzinfo=UTC))) == {"2024-01-01": "stopped"}
    assert outcomes(run(job))["2024-01-01"] == "stopped"
    put(tmp_path, 1, [row(1, 70)], bad.name)
    assert outcomes(run(job)) == {"2024-01-01": "done"}
    assert sent_once(service, [*rows, row(1, 70)])


@pytest.mark.parametrize("at", ["its head", "its end"])
def test_a_damaged_file_stops_its_window_alone(tmp_path: Path, service: LocalService, at: str) -> None:
    """Exit 3, whenever the damage is found, and the next run tries again."""
    days(tmp_path, 1, 2)
    cut = gzip.compress(b"".join(json.dumps(row(1, 100 + number)).encode() + b"\n" for number in range(3_000)))[:-2_000]
    (tmp_path / "exports/2024/01/01/b.jsonl").write_bytes(cut if at == "its end" else b"\x1f\x8b\x08\x00broken")
    job = write_job(tmp_path, service.url, **TWO)
    done = run(job)
    assert (outcomes(done), code(done)) == ({"2024-01-01": "stopped", "2024-01-02": "done"}, 3)
    (tmp_path / "exports/2024/01/01/b.jsonl").unlink()
    assert (code(run(job)), service.count()) == (0, 20)


def test_rows_without_a_key_need_the_job_to_collapse_identical_ones(tmp_path: Path, service: LocalService) -> None:
    """Windows cannot count identical rows together; with `collapse: identical` two windows send one of them."""
    same = row(1, 1)
    del same["uuid"]
    put(tmp_path, 1, [same, same])
    put(tmp_path, 2, [same])
    columns = "{" + ", ".join(f"{name}: {name}" for name in COLUMNS if name != "uuid") + "}"
    done = run(write_job(tmp_path, service.url, set=columns, **TWO))
    assert (set(outcomes(done).values()), code(done)) == ({"stopped"}, 4)
    assert "source key" in str(done.problem)
    assert code(run(write_job(tmp_path, service.url, set=columns, collapse="identical", **TWO))) == 0
    assert (service.count(), sum(copies(service).values())) == (1, 1)


def test_while_the_service_refuses_us_nothing_else_is_planned(tmp_path: Path, service: LocalService) -> None:
    """The run ends; the next one resumes that window first."""
    rows = days(tmp_path, 1, 2)

    def answer(asked: Asked) -> Reply:
        return passed_on(service.url, asked.body) if asked.number else Reply(401, b"no")

    with serving(answer) as server:
        job = write_job(tmp_path, server.url, **TWO)
        done = run(job)
        assert (outcomes(done), code(done)) == ({"2024-01-01": "unfinished"}, 5)
        done = run(job)
    assert (list(outcomes(done).items()), code(done)) == ([("2024-01-01", "done"), ("2024-01-02", "done")], 0)
    assert sent_once(service, rows)


def test_refused_events_are_reported_and_do_not_keep_a_window_open(tmp_path: Path, service: LocalService) -> None:
    """Exit 5, after the rest settled; the next run has nothing to do."""
    days(tmp_path, 1, 2)
    poison = row(1, 3)["uuid"]

    def answer(asked: Asked) -> Reply:
        found = [event["uuid"] for event in asked.events]
        return Reply(400, b"bad event") if poison in found else passed_on(service.url, asked.body)

    with serving(answer) as server:
        job = write_job(tmp_path, server.url, **TWO)
        done = run(job)
        assert (outcomes(done), code(done)) == ({"2024-01-01": "done", "2024-01-02": "done"}, 5)
        assert (service.count(), run(job).windows) == (19, [])


def test_a_day_waits_for_the_hours_that_its_files_lack(tmp_path: Path, service: LocalService) -> None:
    """It says which; `missing: done` sends the others and keeps the hour in the history, even if the
    state is lost, until its file comes."""

    def put_hours(day: int, *without: int) -> list[dict[str, Any]]:
        rows = [row(day, hour, timestamp=f"2024-01-{day:02d}T{hour:02d}:30:00Z") for hour in range(24)]
        for hour in {*range(24)} - {*without}:
            put(tmp_path, day, [rows[hour]], f"7_2024-01-{day:02d}_{hour}#0.jsonl")
        return [one for hour, one in enumerate(rows) if hour not in without]

    rows, others = put_hours(1, 13, 14), put_hours(2)
    job = write_job(tmp_path, service.url, missing="wait", lookback="2", **TWO)
    for _ in range(2):
        done = run(job)
        assert outcomes(done)["2024-01-01"] == "waiting"
        assert code(done) == 6
        assert done.windows[0].detail == "no file for 2024-01-01 13:00 to 14:00 (2 hours)"
    assert sent_once(service, others)
    job = write_job(tmp_path, service.url, missing="stop", lookback="2", **TWO)
    assert code(run(job)) == 3
    job = write_job(tmp_path, service.url, missing="done", lookback="2", **TWO)
    done = run(job)
    assert (outcomes(done)["2024-01-01"], code(done)) == ("done", 0)
    assert sent_once(service, [*rows, *others])
    windows, _ = read_history(state_file(load_job(job).state))
    assert [window.detail for window in windows] == ["no file for 2024-01-01 13:00 to 14:00 (2 hours)", ""]
    for file in state_file(load_job(job).state).parent.glob("state.sqlite*"):
        file.unlink()
    run(job)  # makes the lost state again
    assert "no file for 2024-01-01 13:00 to 14:00 (2 hours)" in ran(job, "--history")[1]
    put_hours(1)
    run(job)
    windows, _ = read_history(state_file(load_job(job).state))
    assert [window.detail for window in windows] == ["", ""]


def test_an_hour_without_files_in_most_days_is_not_waited_for(tmp_path: Path, service: LocalService) -> None:
    """Some tools write no file for a quiet hour: once four days show it, a job expects none."""
    job = write_job(tmp_path, service.url, missing="done", until="2024-01-07")
    for day in range(1, 7):
        for hour in range(24):
            if hour not in (3, *((7,) if day == 6 else ())):
                put(tmp_path, day, [row(day, hour)], f"7_2024-01-{day:02d}_{hour}#0.jsonl")
    run(job)
    windows, _ = read_history(state_file(load_job(job).state))
    assert [window.detail[-5:] for window in windows] == ["03:00"] * 4 + ["", "07:00"]
