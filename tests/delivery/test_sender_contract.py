"""The public contract of a sender, as every good client of the capture endpoint keeps it; over real sockets."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.delivery.apply import SendLimits
from pipeline.delivery.retry import RetryPolicy
from pipeline.options import PlanOptions
from tests.support.commands import in_process
from tests.support.deliveries import AT_ONCE, KEY, Asked, Reply, export, planned, run, scripted, serving, uuids

RETRIED = [408, 429, 500, 502, 503, 504]
NEVER_RETRIED = [400, 401, 403]


def bodies(asked: Iterable[Asked]) -> set[bytes]:
    return {one.body for one in asked}


def backcast(*words: object) -> subprocess.CompletedProcess[str]:
    return in_process(*words, env={"BACKCAST_PROJECT_KEY": KEY})


@pytest.mark.parametrize("status", RETRIED)
@pytest.mark.parametrize("retries", [0, 1, 4])
def test_a_passing_failure_takes_exactly_retries_and_one_requests(tmp_path: Path, status: int, retries: int) -> None:
    """--max-retries N makes N + 1 requests for the batch, not one more, each with the same bytes."""
    directory = planned(tmp_path, 10, files=1)
    with serving(scripted(Reply(status, b"later"))) as server:
        outcome = run(directory, server.url, send_limits=SendLimits(1, RetryPolicy(tries=retries, first=0)))
        assert len(server.asked) == retries + 1
        assert len(bodies(server.asked)) == 1
    assert outcome.problem is not None
    assert outcome.problem.exit_code == 6


def test_the_command_line_keeps_the_count_too(tmp_path: Path) -> None:
    """`--max-retries 2` is three requests and exit 6."""
    directory = planned(tmp_path, 10, files=1)
    with serving(scripted(Reply(503))) as server:
        done = backcast("apply", directory, "--to", server.url, "--max-retries", "2", "--quiet", "--workers", "0")
        assert (done.returncode, len(server.asked)) == (6, 3)


@pytest.mark.parametrize("status", RETRIED)
def test_a_retry_that_is_taken_settles(tmp_path: Path, status: int) -> None:
    """One failure, one success: two requests, everything settled."""
    directory = planned(tmp_path, 10, files=1)
    with serving(scripted(Reply(status), Reply())) as server:
        assert run(directory, server.url).balanced
        assert len(server.asked) == 2


@pytest.mark.parametrize("status", NEVER_RETRIED)
def test_a_refusal_is_never_retried(tmp_path: Path, status: int) -> None:
    """400, 401 and 403 for a single event: one request, however many retries are allowed."""
    directory = planned(tmp_path, 1, files=1)
    with serving(scripted(Reply(status, b"no"))) as server:
        run(directory, server.url, send_limits=SendLimits(1, RetryPolicy(tries=10, first=0)))
        assert len(server.asked) == 1


def test_no_body_is_ever_sent_twice_after_a_400(tmp_path: Path) -> None:
    """A batch refused with 400 is looked into, never repeated: every request after it is another one."""
    directory = planned(tmp_path, 64, files=1, batch=64)
    with serving(lambda asked: Reply(400) if any(e["number"] == 9 for e in _told(asked)) else Reply()) as server:
        run(directory, server.url)
        assert len(bodies(server.asked)) == len(server.asked)


def _told(asked: Asked) -> list[dict[str, Any]]:
    return [event["properties"] for event in asked.events]


@pytest.mark.parametrize("status", [*RETRIED, 0])
def test_every_retry_has_the_same_uuids_and_timestamps(tmp_path: Path, status: int) -> None:
    """uuid, event, distinct_id and timestamp of every event are the same on every try."""
    directory = planned(tmp_path, 10, files=1)
    with serving(scripted(Reply(status), Reply(status), Reply(status), Reply())) as server:
        run(directory, server.url)
        tries = [
            [(e["uuid"], e["event"], e["properties"]["distinct_id"], e["timestamp"]) for e in one.events]
            for one in server.asked
        ]
    assert len(tries) == 4
    assert tries[0] == tries[1] == tries[2] == tries[3]
    assert all(all(event) for event in tries[0])


def test_a_later_run_sends_the_same_bytes_again(tmp_path: Path) -> None:
    """What is in doubt is sent by the next process with the very same JSON."""
    directory = planned(tmp_path, 10, files=1)
    with serving(scripted(Reply(0), Reply())) as server:
        run(directory, server.url, send_limits=SendLimits(1, RetryPolicy(tries=0, first=0)))
        assert run(directory, server.url).balanced
        first, second = (gzip.decompress(one.body) for one in server.asked)
    assert first == second


def test_no_uuid_stands_twice_in_a_batch_or_in_a_run(tmp_path: Path) -> None:
    """Also where the export holds every row twice."""
    source = export(tmp_path / "export", 60)
    for file in source.iterdir():
        file.write_bytes(file.read_bytes() * 2)
    pipeline.plan_export(
        source,
        tmp_path / "plan",
        PlanOptions(
            mapping="generic",
            workers=0,
            max_batch_events=25,
            settings={name: name for name in ("event", "distinct_id", "timestamp", "uuid")},
        ),
    )
    with serving(scripted(Reply())) as server:
        assert run(tmp_path / "plan", server.url).balanced
        found = uuids(server.asked)
    assert all(len(batch) == len(set(batch)) for batch in found)
    assert sorted(one for batch in found for one in batch) == sorted({one for batch in found for one in batch})
    assert sum(map(len, found)) == 60


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
    """Content-Encoding names what the body is, and its length is that of the packed bytes; on a retry too."""
    directory = planned(tmp_path, 10, files=1)
    with serving(scripted(Reply(503), Reply())) as server:
        run(directory, server.url)
        for one in server.asked:
            assert one.headers["content-encoding"] == "gzip"
            assert one.headers["content-type"] == "application/json"
            assert int(one.headers["content-length"]) == len(one.body)
            whole = json.loads(gzip.decompress(one.body))
            assert set(whole) == {"api_key", "historical_migration", "batch"}
            assert whole["historical_migration"] is True
            assert whole["api_key"] == KEY


def test_a_key_is_in_no_header_and_no_address(tmp_path: Path) -> None:
    """The project key travels in the body alone."""
    directory = planned(tmp_path, 10, files=1)
    with serving(scripted(Reply())) as server:
        run(directory, server.url, send_limits=SendLimits(1, AT_ONCE))
        assert all(KEY not in one.target + json.dumps(one.headers) for one in server.asked)
