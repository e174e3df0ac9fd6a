"""The public contract of a sender, as every good client of the capture endpoint keeps it; over real sockets."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path

import pytest

import pipeline
from pipeline.delivery.apply import SendLimits
from pipeline.delivery.retry import RetryPolicy
from pipeline.options import PlanOptions
from tests.support.commands import in_process
from tests.support.deliveries import KEY, Reply, planned, run, scripted, serving


def backcast(*words: object) -> subprocess.CompletedProcess[str]:
    return in_process(*words, env={"BACKCAST_PROJECT_KEY": KEY})


@pytest.mark.parametrize(("status", "retries"), [(408, 0), (429, 1), (500, 4), (502, 0), (503, 1), (504, 4)])
def test_a_passing_failure_takes_exactly_retries_and_one_requests(tmp_path: Path, status: int, retries: int) -> None:
    """--max-retries N makes N + 1 requests for the batch, not one more, each with the same bytes; exit 6."""
    directory = planned(tmp_path, 10, files=1)
    with serving(scripted(Reply(status, b"later"))) as server:
        outcome = run(directory, server.url, send_limits=SendLimits(1, RetryPolicy(tries=retries, first=0)))
        assert len(server.asked) == retries + 1
        assert len({one.body for one in server.asked}) == 1
    assert outcome.problem is not None
    assert (outcome.problem.exit_code, outcome.counts.in_doubt + outcome.unsent) == (6, 10)


def test_the_command_line_keeps_the_count_too(tmp_path: Path) -> None:
    """`--max-retries 2` is three requests and exit 6."""
    directory = planned(tmp_path, 10, files=1)
    with serving(scripted(Reply(503))) as server:
        done = backcast("apply", directory, "--to", server.url, "--max-retries", "2", "--quiet", "--workers", "0")
        assert (done.returncode, len(server.asked)) == (6, 3)


def test_a_later_run_sends_the_same_bytes_again(tmp_path: Path) -> None:
    """What is in doubt is sent by the next process with the very same JSON."""
    directory = planned(tmp_path, 10, files=1)
    with serving(scripted(Reply(0), Reply())) as server:
        run(directory, server.url, send_limits=SendLimits(1, RetryPolicy(tries=0, first=0)))
        assert run(directory, server.url).balanced
        first, second = (gzip.decompress(one.body) for one in server.asked)
    assert first == second


def test_nothing_is_sent_for_an_empty_input(tmp_path: Path) -> None:
    """An export without a row is no plan that can be applied, and no request is made, not even an empty batch."""
    (tmp_path / "export.jsonl").write_bytes(b"")
    with serving(scripted(Reply())) as server:
        done = backcast(
            "plan", tmp_path / "export.jsonl", "-m", "generic", "-o", tmp_path / "plan", "--workers", "0",
            *(word for name in ("event", "distinct_id", "timestamp") for word in ("--set", f"{name}={name}")),
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        done = backcast("apply", tmp_path / "plan", "--to", server.url, "--quiet")
        assert done.returncode in (2, 4)
        assert server.asked == []


def test_times_with_an_offset_become_utc_and_look_alikes_stay(tmp_path: Path) -> None:
    """The timestamp is the same instant in UTC; a string of the same shape in a property is the string it was."""
    look_alike = "2021-03-04T05:06:07+05:30"
    row = {"event": "a", "distinct_id": "b", "timestamp": look_alike, "also": look_alike, "day": "2021-03-04"}
    (tmp_path / "export.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    pipeline.plan_export(
        tmp_path / "export.jsonl",
        tmp_path / "plan",
        PlanOptions(
            mapping="generic", workers=0, settings={name: name for name in ("event", "distinct_id", "timestamp")}
        ),
    )
    with serving(scripted(Reply())) as server:
        assert run(tmp_path / "plan", server.url).balanced
        (event,) = server.asked[0].events
    assert event["timestamp"] == "2021-03-03T23:36:07Z"
    assert (event["properties"]["also"], event["properties"]["day"]) == (look_alike, "2021-03-04")


def test_gzip_is_declared_and_is_what_is_sent(tmp_path: Path) -> None:
    """Content-Encoding names what the body is, and its length is that of the packed bytes; on a retry too. The project
    key travels in the body alone."""
    directory = planned(tmp_path, 10, files=1)
    with serving(scripted(Reply(503), Reply())) as server:
        run(directory, server.url)
    for one in server.asked:
        assert (one.method, one.target, one.headers["content-encoding"]) == ("POST", "/batch/", "gzip")
        assert one.headers["content-type"] == "application/json"
        assert int(one.headers["content-length"]) == len(one.body)
        whole = json.loads(gzip.decompress(one.body))
        assert set(whole) == {"api_key", "historical_migration", "batch"}
        assert whole["historical_migration"] is True
        assert whole["api_key"] == KEY
        assert KEY not in one.target + json.dumps(one.headers)
