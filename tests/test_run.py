"""A scheduled backfill: whatever happens between two runs, each event of each window is sent once."""

from __future__ import annotations

import gzip
import json
import os
import re
import threading
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deliveries import COLUMNS, KEY, Asked, Reply, passed_on, serving
from jobs_at_work import (
    KEYS,
    LATE,
    Process,
    code,
    copies,
    counts,
    days,
    identities,
    landed,
    outcomes,
    put,
    row,
    run,
    sent_once,
    write_job,
)

from pipeline.errors import Busy
from pipeline.jobs import load_job, read_history, state_file
from pipeline.ledger import hold, release
from pipeline.service import LocalService
from pipeline.workflow.windows import Watching, WindowRun

pytestmark = pytest.mark.slow

DAY = timedelta(days=1)
ALL = [f"2024-01-0{day}" for day in (1, 2, 3, 4)]


# -- windows and time ----------------------------------------------------------------------------------------


def test_the_first_run_sends_every_due_window_and_the_second_has_nothing_to_do(tmp_path: Path) -> None:
    """Oldest first, up to `until`; the day after is not the job's."""
    rows = days(tmp_path, 1, 2, 3, 4)
    days(tmp_path, 5)
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url)
        first, second = run(job), run(job)
        assert list(outcomes(first).items()) == [(day, "done") for day in ALL]
        assert (code(first), second.windows, code(second)) == (0, [], 0)
        assert sent_once(service, rows)


def test_a_window_is_due_a_lag_after_its_end_and_days_off_are_made_up(tmp_path: Path) -> None:
    """Not a second before; a run after days without any takes all of them."""
    rows = days(tmp_path, 1, 2, 3, 4)
    due = datetime(2024, 1, 2, tzinfo=UTC) + timedelta(hours=49)
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url)
        assert run(job, due - timedelta(seconds=1)).windows == []
        assert outcomes(run(job, due)) == {"2024-01-01": "done"}
        assert list(outcomes(run(job, due + 3 * DAY))) == ALL[1:]
        assert sent_once(service, rows)


def test_a_window_planned_late_gives_the_same_events(tmp_path: Path) -> None:
    """The plan's instant follows from the window: an event too young for it stays too young, whenever it is planned."""
    young = row(1, 1) | {"timestamp": "2024-01-02T10:00:00Z"}
    put(tmp_path, 1, [row(1, 0), young])
    plans = []
    for name, now in (("early", datetime(2024, 1, 4, 2, tzinfo=UTC)), ("late", LATE)):
        with LocalService(keys=KEYS) as service:
            job = write_job(tmp_path, service.url, name=name, until="2024-01-02", gates="{max_rejects: 1}")
            assert code(run(job, now)) == 0
            assert landed(service) == identities([row(1, 0)])
        plans.append((tmp_path / f"state/{name}/windows/2024-01-01/plan-1/blocks.jsonl").read_bytes())
    assert plans[0] == plans[1]


def test_hours_over_a_change_of_the_clock(tmp_path: Path) -> None:
    """24 files for the 25 hours of the day; the repeated hour is due after both of its hours, and read once."""
    rows = []
    for hour in range(24):
        one = row(1, hour) | {"timestamp": f"2023-11-05T{hour:02d}:30:00Z"}
        (tmp_path / "exports").mkdir(exist_ok=True)
        (tmp_path / f"exports/20231105{hour:02d}.jsonl").write_text(json.dumps(one) + "\n")
        rows.append(one)
    with LocalService(keys=KEYS) as service:
        job = write_job(
            tmp_path, service.url, source="exports/{date:%Y%m%d%H}.jsonl", window="hour",
            window_timezone="America/New_York", from_="2023-11-05", until="2023-11-06", missing="stop",
        )  # fmt: skip
        before_its_end = datetime(2023, 11, 5, 6, 59, tzinfo=UTC) + timedelta(hours=49)
        assert list(outcomes(run(job, before_its_end))) == ["2023-11-05T00"]
        assert list(outcomes(run(job, before_its_end + timedelta(minutes=1)))) == ["2023-11-05T01"]
        assert len(run(job).windows) == 22
        assert sent_once(service, rows)


# -- what arrives later ----------------------------------------------------------------------------------------


def test_of_a_late_part_only_what_is_new_is_sent(tmp_path: Path) -> None:
    """Rows that an earlier window settled are counted, wherever they stand now; other parts are not read again."""
    rows = days(tmp_path, 1, 2, 3, 4)
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url, lookback="2")
        run(job)
        put(tmp_path, 4, [row(4, 3), row(1, 3), row(4, 50)], "late.jsonl")
        done = run(job)
        assert outcomes(done) == {"2024-01-04": "done"}
        assert counts(job)[-1] == ("2024-01-04", "done", 1, 2)
        assert done.windows[0].attempt is not None
        assert (done.windows[0].attempt.rows, done.windows[0].attempt.parts) == (3, 1)
        assert sent_once(service, [*rows, row(4, 50)])
        assert run(job).windows == []


def test_of_a_changed_part_only_what_is_new_is_sent(tmp_path: Path) -> None:
    """Also where a row says something else now: what was sent cannot be changed, and is counted."""
    rows = days(tmp_path, 1, 2, 3, 4)
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url, lookback="1")
        run(job)
        put(tmp_path, 4, [row(4, 0), row(4, 1, plan="other"), row(4, 60)])
        assert outcomes(run(job)) == {"2024-01-04": "done"}
        plan = json.loads((tmp_path / "state/nightly/windows/2024-01-04/plan-2/plan.json").read_text())
        assert plan["skips"] == {"already_settled": 2}
        assert plan["warnings"]["changed_since_settled"] == 1
        assert sent_once(service, [*rows, row(4, 60)])


def test_a_part_that_was_only_touched_or_renamed_is_not_read_again(tmp_path: Path) -> None:
    """Its digest tells."""
    days(tmp_path, 1, 2, 3, 4)
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url, lookback="9")
        run(job)
        os.utime(tmp_path / "exports/2024/01/04/a.jsonl", (1, 1))
        (tmp_path / "exports/2024/01/03/a.jsonl").rename(tmp_path / "exports/2024/01/03/b.jsonl")
        assert run(job).windows == []


def test_a_part_beyond_the_lookback_is_left_alone(tmp_path: Path) -> None:
    """Only the last windows that are done are looked at again."""
    days(tmp_path, 1, 2, 3, 4)
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url, lookback="2")
        run(job)
        put(tmp_path, 2, [row(2, 90)], "late.jsonl")
        put(tmp_path, 3, [row(3, 90)], "late.jsonl")
        assert list(outcomes(run(job))) == ["2024-01-03"]


def test_rows_that_two_windows_hold_are_sent_by_the_first(tmp_path: Path) -> None:
    """Exports overlap at midnight."""
    rows = [row(1, number) for number in range(20)]
    put(tmp_path, 1, rows[:15])
    put(tmp_path, 2, rows[10:])
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url, until="2024-01-03")
        run(job)
        assert counts(job) == [("2024-01-01", "done", 15, 0), ("2024-01-02", "done", 5, 5)]
        assert sent_once(service, rows)


def test_a_window_whose_rows_are_all_settled_is_done(tmp_path: Path) -> None:
    """Nothing to send is no failure of a job."""
    rows = days(tmp_path, 1)
    put(tmp_path, 2, rows)
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url, until="2024-01-03")
        assert code(run(job)) == 0
        assert counts(job)[-1] == ("2024-01-02", "done", 0, 10)
        assert run(job).windows == []


# -- windows without files -------------------------------------------------------------------------------------


def test_a_missing_window_waits_while_others_go_on(tmp_path: Path) -> None:
    """It is looked for again each time, however old; the run says that it is not finished."""
    rows = days(tmp_path, 1, 3, 4)
    (tmp_path / "exports/2024/01/02").mkdir(parents=True)
    (tmp_path / "exports/2024/01/02/_SUCCESS").touch()
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url)
        for _ in range(2):
            done = run(job)
            assert (outcomes(done)["2024-01-02"], code(done)) == ("waiting", 6)
        assert sent_once(service, rows)
        rows += days(tmp_path, 2)
        done = run(job)
        assert (outcomes(done), code(done)) == ({"2024-01-02": "done"}, 0)
        assert sent_once(service, rows)


def test_a_missing_window_can_count_as_empty(tmp_path: Path) -> None:
    """Within the lookback its files are taken all the same, should they come."""
    rows = days(tmp_path, 1, 2, 4)
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url, missing="done", lookback="2")
        done = run(job)
        assert (outcomes(done)["2024-01-03"], code(done)) == ("done", 0)
        assert run(job).windows == []
        rows += days(tmp_path, 3)
        assert outcomes(run(job)) == {"2024-01-03": "done"}
        assert sent_once(service, rows)


def test_a_missing_window_can_stop_the_job(tmp_path: Path) -> None:
    """Nothing after it is sent."""
    days(tmp_path, 1, 3, 4)
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url, missing="stop")
        done = run(job)
        assert (outcomes(done), code(done)) == ({"2024-01-01": "done", "2024-01-02": "waiting"}, 3)
        assert service.count() == 10


def test_a_window_with_empty_files_is_done(tmp_path: Path) -> None:
    """They are there, and hold nothing."""
    put(tmp_path, 1, [])
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url, until="2024-01-02", missing="stop")
        assert (outcomes(run(job)), run(job).windows) == ({"2024-01-01": "done"}, [])


# -- gates -----------------------------------------------------------------------------------------------------


def test_a_failed_gate_stops_its_window_until_the_file_is_mended(tmp_path: Path) -> None:
    """Others go on, nothing of it is sent, and the next run plans it again, however late."""
    rows = days(tmp_path, 1, 3, 4)
    put(tmp_path, 2, [row(2, 0), {"event": "Nobody"}])
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url)
        for _ in range(2):
            done = run(job)
            assert (outcomes(done)["2024-01-02"], code(done)) == ("stopped", 4)
            assert done.problem is not None
            report = tmp_path / "state/nightly/windows/2024-01-02/plan-1/report.html"
            assert (str(report) in done.problem.hint, report.exists()) == (True, True)
        assert sent_once(service, rows)
        rows += days(tmp_path, 2)
        done = run(job)
        assert (outcomes(done), code(done)) == ({"2024-01-02": "done"}, 0)
        assert sent_once(service, rows)


def test_a_late_file_that_a_gate_stops_is_not_forgotten(tmp_path: Path) -> None:
    """Even when its window has left the lookback by the time it is mended, or taken away."""
    rows = days(tmp_path, 1, 2, 3, 4)
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url, lookback="1")
        run(job, datetime(2024, 1, 4, 12, tzinfo=UTC))
        bad = put(tmp_path, 1, [row(1, 70), {"event": "Nobody"}], "late.jsonl")
        assert outcomes(run(job, datetime(2024, 1, 4, 13, tzinfo=UTC))) == {"2024-01-01": "stopped"}
        assert outcomes(run(job))["2024-01-01"] == "stopped"
        put(tmp_path, 1, [row(1, 70)], bad.name)
        assert outcomes(run(job)) == {"2024-01-01": "done"}
        assert sent_once(service, [*rows, row(1, 70)])


@pytest.mark.parametrize("at", ["its head", "its end"])
def test_a_damaged_file_stops_its_window_alone(tmp_path: Path, at: str) -> None:
    """Exit 3, whenever it is found out, and the next run tries again."""
    days(tmp_path, 1, 2)
    cut = gzip.compress(b"".join(json.dumps(row(1, 100 + number)).encode() + b"\n" for number in range(3_000)))[:-2_000]
    (tmp_path / "exports/2024/01/01/b.jsonl").write_bytes(cut if at == "its end" else b"\x1f\x8b\x08\x00broken")
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url, until="2024-01-03")
        done = run(job)
        assert (outcomes(done), code(done)) == ({"2024-01-01": "stopped", "2024-01-02": "done"}, 3)
        (tmp_path / "exports/2024/01/01/b.jsonl").unlink()
        assert code(run(job)) == 0
        assert service.count() == 20


def test_rows_without_a_key_need_the_job_to_collapse_identical_ones(tmp_path: Path) -> None:
    """Windows cannot count identical rows together; with `collapse: identical` two windows send one of them."""
    same = row(1, 1)
    del same["uuid"]
    put(tmp_path, 1, [same, same])
    put(tmp_path, 2, [same])
    columns = "{" + ", ".join(f"{name}: {name}" for name in COLUMNS if name != "uuid") + "}"
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url, until="2024-01-03", set=columns)
        done = run(job)
        assert (set(outcomes(done).values()), code(done)) == ({"stopped"}, 4)
        assert "source key" in str(done.problem)
        job = write_job(tmp_path, service.url, until="2024-01-03", set=columns, collapse="identical")
        assert code(run(job)) == 0
        assert (service.count(), sum(copies(service).values())) == (1, 1)


# -- merges ----------------------------------------------------------------------------------------------------


def merging(number: int) -> dict[str, object]:
    """A row of a device: half of them from before its person is known, half with both."""
    return row(1, number) | {"anonymous_id": f"device-{number % 7}"} | ({"distinct_id": ""} if number % 14 < 7 else {})


@pytest.mark.parametrize(
    ("merges", "sent", "outcome"), [("hold", 0, "done"), ("{up-to: 7}", 7, "done"), ("{up-to: 6}", 0, "stopped")]
)
def test_merges_are_held_or_sent_up_to_a_number(tmp_path: Path, merges: str, sent: int, outcome: str) -> None:
    """Held ones are counted; one that a window sent is not sent by the next."""
    put(tmp_path, 1, [merging(number) for number in range(14)])
    put(tmp_path, 2, [merging(number) for number in range(14, 28)])
    columns = "{" + ", ".join(f"{name}: {name}" for name in (*COLUMNS, "anonymous_id")) + "}"
    with LocalService(keys=KEYS) as service:
        # An address that nobody takes for this machine's: `up-to` is the approval that apply asks for there.
        to = service.url.replace("127.0.0.1", "0.0.0.0")
        job = write_job(tmp_path, to, until="2024-01-03", set=columns, merges=merges)
        assert outcomes(run(job)) == {"2024-01-01": outcome, "2024-01-02": outcome}
        found = service.select("select count(*), count(distinct uuid) from raw_events where event = '$identify'")
        assert found == [(sent, sent)]
        _, attempts = read_history(state_file(load_job(job).state))
        assert [one.held for one in attempts] == [7 if merges == "hold" else 0] * 2


# -- the service -----------------------------------------------------------------------------------------------


def test_while_the_service_refuses_us_nothing_else_is_planned(tmp_path: Path) -> None:
    """The run ends; the next one resumes that window first."""
    rows = days(tmp_path, 1, 2)
    with LocalService(keys=KEYS) as service:
        closed = threading.Event()

        def answer(asked: Asked) -> Reply:
            return passed_on(service.url, asked.body) if closed.is_set() else Reply(401, b"no")

        with serving(answer) as server:
            job = write_job(tmp_path, server.url, until="2024-01-03")
            done = run(job)
            assert (outcomes(done), code(done)) == ({"2024-01-01": "unfinished"}, 5)
            closed.set()
            done = run(job)
        assert (list(outcomes(done).items()), code(done)) == ([("2024-01-01", "done"), ("2024-01-02", "done")], 0)
        assert sent_once(service, rows)


def test_refused_events_are_told_and_do_not_keep_a_window_open(tmp_path: Path) -> None:
    """Exit 5, after the rest settled; the next run has nothing to do."""
    days(tmp_path, 1, 2)
    poison = row(1, 3)["uuid"]
    with LocalService(keys=KEYS) as service:

        def answer(asked: Asked) -> Reply:
            found = [event["uuid"] for event in asked.events]
            return Reply(400, b"bad event") if poison in found else passed_on(service.url, asked.body)

        with serving(answer) as server:
            job = write_job(tmp_path, server.url, until="2024-01-03")
            done = run(job)
            assert (outcomes(done), code(done)) == ({"2024-01-01": "done", "2024-01-02": "done"}, 5)
            assert (service.count(), run(job).windows) == (19, [])


# -- one at a time ---------------------------------------------------------------------------------------------


def test_a_second_run_says_who_holds_the_job(tmp_path: Path) -> None:
    """Exit 2; nothing is planned."""
    days(tmp_path, 1)
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url)
        (tmp_path / "state/nightly").mkdir(parents=True)
        lock = hold(tmp_path / "state/nightly/job", "a test")
        try:
            with pytest.raises(Busy, match=f"another run holds the job nightly: process {os.getpid()} "):
                run(job)
        finally:
            release(lock)
        assert service.count() == 0


def test_two_processes_at_once_send_everything_once(tmp_path: Path) -> None:
    """The second one is turned away, or finds everything done."""
    rows = days(tmp_path, 1, 2, 3, 4)
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url)
        runs = [Process(job), Process(job)]
        codes = sorted(one.ended()[0] for one in runs)
        assert codes in ([0, 2], [0, 0])
        assert sent_once(service, rows)


@pytest.mark.parametrize(
    ("key", "value"), [("to", "http://127.0.0.1:9"), ("window_timezone", "Asia/Tokyo"), ("job", "other")]
)
def test_a_state_is_good_for_one_target_and_one_calendar(tmp_path: Path, key: str, value: str) -> None:
    """What it knows is settled is not settled elsewhere."""
    from pipeline.errors import UsageError

    days(tmp_path, 1)
    with LocalService(keys=KEYS) as service:
        run(write_job(tmp_path, service.url, state="kept"))
        given = {"to": service.url, "state": "kept"} | {key: value}
        with pytest.raises(UsageError, match="belongs to the"):
            run(write_job(tmp_path, **given))


# -- trying, looking, stopping ---------------------------------------------------------------------------------


def test_a_dry_run_sends_nothing_and_leaves_no_trace(tmp_path: Path) -> None:
    """It counts what a run would send, what earlier windows of the same run would settle included."""
    rows = days(tmp_path, 1, 2)
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url, until="2024-01-04", missing="done")
        run(job, datetime(2024, 1, 4, 12, tzinfo=UTC))
        put(tmp_path, 2, [*rows, row(2, 80)])
        put(tmp_path, 3, [row(2, 80), row(3, 1)])
        before = {path: path.stat().st_mtime_ns for path in (tmp_path / "state").rglob("*") if path.suffix != "-shm"}
        done = run(job, dry_run=True)
        assert {one.window: one.attempt and one.attempt.events for one in done.windows} == {
            "2024-01-02": 11, "2024-01-03": 1,
        }  # fmt: skip
        after = {path: path.stat().st_mtime_ns for path in (tmp_path / "state").rglob("*") if path.suffix != "-shm"}
        assert (set(outcomes(done).values()), before, service.count()) == ({"planned"}, after, 10)


def test_a_dry_run_of_a_job_that_never_ran_makes_no_folder(tmp_path: Path) -> None:
    """A gate that would stop a window is exit 4 all the same."""
    put(tmp_path, 1, [{"event": "Nobody"}])
    job = write_job(tmp_path, "http://127.0.0.1:9", until="2024-01-02")
    done = run(job, dry_run=True)
    assert (outcomes(done), code(done)) == ({"2024-01-01": "stopped"}, 4)
    assert not (tmp_path / "state").exists()


def test_an_end_that_somebody_asks_for_comes_between_two_windows(tmp_path: Path) -> None:
    """Exit 130; the next run goes on."""
    rows = days(tmp_path, 1, 2, 3, 4)
    interrupted = threading.Event()

    def ended(window: WindowRun) -> None:
        interrupted.set()

    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url)
        done = run(job, interrupted=interrupted, watching=Watching(ended=ended))
        assert (list(outcomes(done)), code(done)) == (["2024-01-01"], 130)
        assert code(run(job)) == 0
        assert sent_once(service, rows)


def test_an_end_while_a_window_is_planned_sends_nothing_of_it(tmp_path: Path) -> None:
    """Planning is given up at once: nothing was at stake."""
    rows = days(tmp_path, 1)
    interrupted = threading.Event()

    def reading(window: str) -> AbstractContextManager[object]:
        interrupted.set()
        return nullcontext(lambda rows, length: None)

    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url, until="2024-01-02")
        done = run(job, interrupted=interrupted, watching=Watching(reading=reading))  # type: ignore[arg-type]
        assert (code(done), service.count()) == (130, 0)
        assert not (tmp_path / "state/nightly/windows/2024-01-01/plan-1/plan.json").exists()
        assert code(run(job)) == 0
        assert sent_once(service, rows)


def test_the_command_prints_a_line_for_each_window_and_the_history(tmp_path: Path) -> None:
    """For logs; `--json` for programs; an error is two lines."""
    days(tmp_path, 1, 4)
    put(tmp_path, 3, [{"event": "Nobody"}])
    with LocalService(keys=KEYS) as service:
        job = write_job(tmp_path, service.url)
        code, said, told = Process(job).ended()
        assert code == 4
        assert [line.split(":")[0] for line in said.splitlines()] == [
            "2024-01-01 done", "2024-01-02 waiting", "2024-01-03 stopped", "2024-01-04 done",
        ]  # fmt: skip
        assert [line.split(":")[0] for line in told.splitlines()] == ["Error", "Try"]
        assert "plan-1/report.html" in told
        code, said, _ = Process(job, "--json").ended()
        found = json.loads(said)
        assert (found["format"], found["exit_code"], code) == ("backcast.run/1", 4, 4)
        assert [one["outcome"] for one in found["windows"]] == ["waiting", "stopped"]
        code, said, told = Process(job, "--history").ended()
        assert (code, told) == (0, "")
        assert said.splitlines()[-1] == "Job nightly: 2 done, 1 waiting, 1 stopped, 0 open."
        assert re.findall(r"^ *(2024-\S+)", said, re.M) == [
            "2024-01-01", "2024-01-02", "2024-01-03", "2024-01-03", "2024-01-04",
        ]  # fmt: skip
        history = json.loads(Process(job, "--history", "--json").ended()[1])
        assert history["format"] == "backcast.history/1"
        assert history["attempts"][0]["events"] == {"made": 10, "accepted": 10, "refused": 0, "already_settled": 0}
        assert [one["state"] for one in history["windows"]] == ["done", "waiting", "stopped", "done"]


def test_no_file_of_a_job_holds_the_key(tmp_path: Path) -> None:
    """Neither state nor plans nor ledgers."""
    days(tmp_path, 1)
    with LocalService(keys=KEYS) as service:
        run(write_job(tmp_path, service.url))
    held = [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert held == []
