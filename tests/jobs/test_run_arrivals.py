"""Files that come late, come again or change: a job reads them again, and sends only what is new."""

from __future__ import annotations

import json
import os
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from pipeline.api import write_job_receipt
from pipeline.jobs import load_job
from pipeline.jobs.arrivals import RecordedPart, find_arrivals, may_have_changed
from pipeline.jobs.calendar import Window
from pipeline.jobs.opening import open_state
from pipeline.local_service import LocalService
from pipeline.report.terminal.job_view import window_line
from tests.support.jobs import code, counts, days, outcomes, put, ran, row, run, sent_once, write_job
from tests.support.stores import a_bucket


def test_of_a_late_part_and_of_a_changed_one_only_what_is_new_is_sent(tmp_path: Path, service: LocalService) -> None:
    """Rows that an earlier window settled are counted, wherever they are now and whatever they say; other parts are not
    read again."""
    rows = days(tmp_path, 1, 2)
    job = write_job(tmp_path, service.url, lookback="1", until="2024-01-03", provenance="[row, plan]")
    run(job)
    put(tmp_path, 2, [row(2, 3), row(1, 3), row(2, 50)], "late.jsonl")
    done = run(job)
    assert outcomes(done) == {"2024-01-02": "done"}
    assert counts(job)[-1] == ("2024-01-02", "done", 1, 2)
    assert done.windows[0].attempt is not None
    assert (done.windows[0].attempt.rows, done.windows[0].attempt.parts) == (3, 1)
    assert sent_once(service, [*rows, row(2, 50)])
    assert run(job).windows == []
    put(tmp_path, 2, [row(2, 0), row(2, 1, plan="other"), row(2, 60)])
    line = window_line(run(job).windows[0])
    assert "done: 1 event sent, 2 sent before, 1 of them with other values now, of 3 rows in 1 file" in line
    assert "done: 2 sent before, 1 of them with other values now" in ran(job, "--history")[1]
    assert json.loads(ran(job, "--history", "--json")[1])["attempts"][-1]["events"]["changed_since_settled"] == 1
    plan = json.loads((tmp_path / "state/nightly/windows/2024-01-02/plan-3/plan.json").read_text())
    assert (plan["skips"], plan["warnings"]["changed_since_settled"]) == ({"already_settled": 2}, 1)
    assert sent_once(service, [*rows, row(2, 50), row(2, 60)])


def test_a_key_conflict_with_what_was_sent_names_the_difference(tmp_path: Path, service: LocalService) -> None:
    """Its event name, its UTC day or its person. A name that no row of the file has is not known."""
    days(tmp_path, 1)
    job = write_job(tmp_path, service.url, lookback="1", until="2024-01-02")
    run(job)
    day = row(1, 4, timestamp="2024-01-02T01:00:00Z")
    put(tmp_path, 1, [row(1, 0), row(1, 3, event="Left"), day, row(1, 6, distinct_id="other"), row(1, 1)])
    said = str(run(job).problem)
    sent = "and an event that an earlier plan sent"
    assert f"row 2 of a.jsonl (Left, 2024-01-01) {sent} (Step 0, 2024-01-01);" in said
    assert f"row 3 of a.jsonl (Step 1, 2024-01-02) {sent} (Step 1, 2024-01-01);" in said
    assert f"row 4 of a.jsonl (Step 0, 2024-01-01) {sent} (Step 0, 2024-01-01) of another person" in said
    put(tmp_path, 1, [row(1, 3, event="Left")])
    assert f"row 1 of a.jsonl (Left, 2024-01-01) {sent} with another event name" in str(run(job).problem)


def test_files_with_known_bytes_or_events_are_not_changes(tmp_path: Path, service: LocalService) -> None:
    """Their digest shows it, and their uuids: files only touched, renamed, or written in another order the second
    time."""
    rows = days(tmp_path, 1, 2)
    job = write_job(tmp_path, service.url, lookback="9", until="2024-01-03")
    run(job)
    os.utime(tmp_path / "exports/2024/01/02/a.jsonl", (1, 1))
    (tmp_path / "exports/2024/01/01/a.jsonl").rename(tmp_path / "exports/2024/01/01/b.jsonl")
    assert run(job).windows == []
    job = write_job(tmp_path, service.url, until="2024-01-03")
    put(tmp_path, 2, rows[:9:-1])
    assert (code(run(job)), counts(job)[-1]) == (0, ("2024-01-02", "done", 0, 10))
    assert run(job).windows == []


@pytest.mark.parametrize(("lookback", "read"), [("1", ["2024-01-02"]), ("7", ["2024-01-01", "2024-01-02"])])
def test_a_part_beyond_the_lookback_is_not_sent(
    tmp_path: Path, service: LocalService, lookback: str, read: list[str]
) -> None:
    """Late files are accepted only for the last windows that are done, or for all if there are fewer."""
    days(tmp_path, 1, 2)
    job = write_job(tmp_path, service.url, lookback=lookback, until="2024-01-03")
    run(job)
    for day in (1, 2):
        put(tmp_path, day, [row(day, 90)], "late.jsonl")
    assert [window for window, outcome in outcomes(run(job)).items() if outcome == "done"] == read


def test_rows_in_two_windows_are_sent_by_the_first(tmp_path: Path, service: LocalService) -> None:
    """Exports overlap at midnight; a window all of whose rows are settled is done, which is not a failure of the
    job."""
    rows = [row(1, number) for number in range(20)]
    put(tmp_path, 1, rows[:15])
    put(tmp_path, 2, rows[10:])
    put(tmp_path, 3, rows[:10])
    job = write_job(tmp_path, service.url, until="2024-01-04")
    assert code(run(job)) == 0
    assert counts(job) == [("2024-01-01", "done", 15, 0), ("2024-01-02", "done", 5, 5), ("2024-01-03", "done", 0, 10)]
    assert sent_once(service, rows)
    assert run(job).windows == []


def test_a_part_of_another_table_is_new_though_its_bytes_are_known(tmp_path: Path) -> None:
    """One action may be a row in two tables of a warehouse; a file of the same table is a copy."""
    folder = tmp_path / "exports/2024/01/01"
    folder.mkdir(parents=True)
    text = "id,anonymous_id,received_at,uuid_ts\n1,2,2024-01-01 09:00:00,2024-01-01 09:00:01\n"
    for name in ("pages.csv", "screens.csv", "pages_2024-01-01.csv"):
        (folder / name).write_text(text)
    source = json.dumps("exports/{date:%Y/%m/%d}/*.csv")
    job = load_job(write_job(tmp_path, "http://127.0.0.1:1", mapping="segment-warehouse", set="", source=source))
    known = RecordedPart("exports/2024/01/01/pages.csv", 0, 0, sha256(text.encode()).hexdigest())
    arrivals = find_arrivals(job, Window("2024-01-01", datetime(2024, 1, 1), 0, 0), {known.path: known})
    assert [Path(file).name for file in arrivals.files] == ["screens.csv"]


SHOP = """
format: backcast.mapping/1
tool: shop
title: Names of things stand in a file of their own
lookup_files:
  things: {file: "things*", key: /id, value: /name}
event: {lookup: /thing, table: things}
distinct_id: /user
time: {from: /at}
key: {of: /id, needs: /id}
"""
PAGE = (
    "id,anonymous_id,user_id,timestamp,received_at,url\n{},a,u,2024-01-01 09:00:00,2024-01-01 09:00:01,https://x.y/\n"
)


def test_a_late_part_is_read_with_the_lookup_files_of_its_folder(tmp_path: Path, service: LocalService) -> None:
    """It is read as a plan of the folder reads it, although the lookup files were read before."""
    (tmp_path / "shop.yaml").write_text(SHOP, "utf-8")
    job = write_job(tmp_path, service.url, set="", until="2024-01-02", mapping="shop.yaml", lookback="9", timezone="")
    put(tmp_path, 1, [{"id": 1, "name": "Shoes"}], "things.jsonl")
    for name in ("sold", "late"):
        put(tmp_path, 1, [{"id": name, "thing": 1, "user": "u", "at": "2024-01-01T01:00:00Z"}], f"{name}.jsonl")
        assert outcomes(run(job)) == {"2024-01-01": "done"}
    assert [one.event for one in service.events()] == ["Shoes", "Shoes"]


def test_a_late_part_knows_its_table_by_its_folder(tmp_path: Path, service: LocalService) -> None:
    folder = tmp_path / "exports/2024/01/01/pages"
    folder.mkdir(parents=True)
    source = json.dumps("exports/{date:%Y/%m/%d}/*/*.csv")
    job = write_job(
        tmp_path, service.url, set="", until="2024-01-02", mapping="segment-warehouse", source=source, lookback="9"
    )
    for name in ("000", "001"):
        (folder / f"{name}.csv").write_text(PAGE.format(name), "utf-8")
        assert outcomes(run(job)) == {"2024-01-01": "done"}
    assert [one.event for one in service.events()] == ["$pageview"] * 2


def exported_again(folder: Path) -> None:
    """Day 1 again, two days after its lookback: one event is new, one has another value, one is gone."""
    put(folder, 1, [*(row(1, number) for number in range(1, 9)), row(1, 9, plan="other"), row(1, 60)])


def test_a_changed_export_of_a_finished_window_stops_it(tmp_path: Path, service: LocalService) -> None:
    """Its uuids show it, though the number of rows is the same. Each run says so until the file is as it was; other
    windows continue."""
    rows = days(tmp_path, 1, 2)
    kept = (tmp_path / "exports/2024/01/01/a.jsonl").read_bytes()
    job = write_job(tmp_path, service.url, lookback="1", until="2024-01-03")
    run(job)
    exported_again(tmp_path)
    rows += days(tmp_path, 3)
    job = write_job(tmp_path, service.url, lookback="1", until="2024-01-04")
    done = run(job)
    assert (code(done), outcomes(done)) == (4, {"2024-01-01": "stopped", "2024-01-03": "done"})
    said = "exports/2024/01/01/a.jsonl; 1 events are new, 9 were sent before, 1 of them with other values"
    assert said in str(done.problem)
    assert code(run(job)) == 4
    history = ran(job, "--history")[1]
    assert history.count(f"2024-01-01 stopped: exported again after it was sent: {said} now\n") == 1
    assert history.splitlines()[-1] == "Job nightly: 2 done, 0 waiting, 1 stopped, 0 open."
    assert sent_once(service, rows)
    unproved = write_job_receipt(tmp_path / "state/nightly").unproved
    assert unproved[0].endswith("they were exported again. 1 window: 2024-01-01.")
    (tmp_path / "exports/2024/01/01/a.jsonl").write_bytes(kept)
    assert code(run(job)) == 0
    assert "exported again" not in ran(job, "--history", "--json")[1].split('"attempts"')[0]


@pytest.mark.parametrize(("name", "lookback"), [("a.jsonl", "0"), ("part-0.jsonl", "9")])
def test_a_job_sends_what_is_new_of_a_changed_export_where_it_says_so(
    tmp_path: Path, service: LocalService, name: str, lookback: str
) -> None:
    """Also if the files have other names, and within the lookback; once."""
    rows = days(tmp_path, 1, 2)
    job = write_job(tmp_path, service.url, changed="send-new", lookback=lookback, until="2024-01-03")
    run(job)
    (tmp_path / "exports/2024/01/01/a.jsonl").unlink()
    put(tmp_path, 1, [*rows[:8], row(1, 8, plan="other"), row(1, 9, plan="other"), row(1, 60)], name)
    done = run(job)
    assert (code(done), outcomes(done)) == (0, {"2024-01-01": "done"})
    assert "10 sent before, 2 of them with other values now" in window_line(done.windows[0])
    assert counts(job)[-1] == ("2024-01-01", "done", 1, 10)
    assert run(job).windows == []
    assert sent_once(service, [*rows, row(1, 60)])


@pytest.mark.parametrize("lookback", ["0", "9"])
def test_a_job_ignores_a_changed_export_where_it_says_so(tmp_path: Path, service: LocalService, lookback: str) -> None:
    """The job says so once, and never reads the export."""
    rows = days(tmp_path, 1, 2)
    job = write_job(tmp_path, service.url, changed="ignore", lookback=lookback, until="2024-01-03")
    run(job)
    exported_again(tmp_path)
    done = run(job)
    assert (code(done), outcomes(done), len(counts(job))) == (0, {"2024-01-01": "done"}, 2)
    assert done.windows[0].detail.endswith("a.jsonl; ignored")
    assert ran(job, "--history")[1].splitlines()[-1] == "Job nightly: 2 done, 0 waiting, 0 stopped, 0 open."
    assert run(job).windows == []
    assert sent_once(service, rows)


def test_a_rule_for_changed_exports_applies_within_the_lookback(tmp_path: Path, service: LocalService) -> None:
    """A file that comes late is expected there; for one that changed the rule of the job file applies, if there is
    one."""
    rows = days(tmp_path, 1)
    job = write_job(tmp_path, service.url, changed="stop", lookback="1", until="2024-01-02")
    run(job)
    put(tmp_path, 1, [row(1, 70)], "late.jsonl")
    assert code(run(job)) == 0
    exported_again(tmp_path)
    assert code(run(job)) == 4
    assert sent_once(service, [*rows, row(1, 70)])


def test_files_that_were_only_touched_are_read_once(tmp_path: Path, service: LocalService) -> None:
    """A copy of the whole archive has new times: the next run knows them."""
    days(tmp_path, 1)
    path = write_job(tmp_path, service.url, until="2024-01-02")
    run(path)
    os.utime(tmp_path / "exports/2024/01/01/a.jsonl", (1, 1))
    job = load_job(path)
    (window,) = job.windows(10**18)
    changed = []
    for _ in range(2):
        with open_state(job, dry_run=True) as (state, _):
            changed.append(may_have_changed(job, window, state.parts(window.label)))
        assert run(path).windows == []
    assert changed == [True, False]


def test_a_job_reads_the_days_of_a_bucket(tmp_path: Path, service: LocalService) -> None:
    """New objects are sent; unchanged ones with another time are not; a day without objects is waited for."""
    with a_bucket() as bucket:

        def put_there(day: int, rows: list[dict[str, Any]], name: str = "a.jsonl") -> None:
            bucket.put(f"x/2024/01/{day:02d}/{name}", "".join(json.dumps(one) + "\n" for one in rows).encode())

        rows = [row(day, number) for day in (1, 2) for number in range(10)]
        put_there(1, rows[:10])
        put_there(2, rows[10:])
        job = write_job(
            tmp_path, service.url, source=f"{bucket.url}/x/{{date:%Y/%m/%d}}", lookback="9", until="2024-01-04"
        )
        assert outcomes(run(job)) == {"2024-01-01": "done", "2024-01-02": "done", "2024-01-03": "waiting"}
        put_there(1, rows[:10])
        late = [row(2, 90), row(3, 1)]
        put_there(2, late[:1], "late.jsonl")
        put_there(3, late[1:])
        assert outcomes(run(job)) == {"2024-01-02": "done", "2024-01-03": "done"}
        assert sent_once(service, rows + late)
        assert run(job).windows == []
