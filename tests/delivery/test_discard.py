"""`backcast discard` removes the events of a plan that is sent and verified; the record stays."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline import errors, steps
from pipeline.ledger import lock_file, unlock
from pipeline.options import ApplyOptions, DiscardOptions, PlanOptions, ReceiptOptions, RehearseOptions, VerifyOptions
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.discarded import Discarded, write_discarded
from pipeline.plan.sealed.freshness import open_plan
from tests.support.deliveries import COLUMNS, export, in_ledger, planned
from tests.support.services import running

LEFT = {
    "cells.jsonl", "discarded.json", "drift.jsonl", "ledger.sqlite", "ledger.sqlite.lock", "plan.json",
    "receipt.json", "rehearsal.lock", "report.html", "report.json", "sent-to.json", "verification.lock",
}  # fmt: skip
PERSON = b"person-"


def sent(directory: Path, *, verify: bool = True) -> Path:
    """The plan, rehearsed, sent to a service that has ended since, and verified there."""
    pipeline.rehearse_plan(directory)
    with running() as service:
        merges = pipeline.load_plan(directory).events.phases["identities"]
        options = ApplyOptions(approve_merges=merges)
        pipeline.apply_plan(directory, service.url, options, project_key=service.capture_key)
        if verify:
            options = VerifyOptions()
            assert pipeline.verify_plan(directory, service.url, options, personal_key=service.personal_key).proved
    return directory


def test_ids_and_values_go_and_the_record_of_the_plan_stays(tmp_path: Path, call: Any) -> None:
    """No remaining file names a person; status, report and receipt work; the other commands say what happened."""
    directory = sent(planned(tmp_path, 40, links=True))
    pipeline.write_receipt(directory)
    pipeline.list_sent(directory)
    said = call("discard", directory, "--yes", "--json")
    assert (said.code, said.json["state"], said.json["files"] > 10) == (0, "verified", True)
    assert {path.name for path in directory.iterdir()} - {"plan.lock"} == LEFT
    naming = [path.name for path in directory.iterdir() if PERSON in path.read_bytes()]
    assert naming == []
    status = call("status", directory)
    assert f"Its events were discarded at {said.json['at']}.\n" in status.out
    assert "State: verified\n" in status.out
    assert call("status", directory, "--json").json["discarded"] == said.json["at"]
    assert call("receipt", "check", directory / "receipt.json").code == 0
    assert pipeline.write_receipt(directory, ReceiptOptions()).verification is not None
    to = ("--to", "http://127.0.0.1:9")
    for command in (
        ("apply", directory, *to), ("rehearse", directory), ("verify", directory, *to), ("rejects", directory),
        ("undo-list", directory), ("diff", directory, directory), ("preflight", directory, *to),
        ("plan", tmp_path / "export", "-o", tmp_path / "again", "--replay", directory),
    ):  # fmt: skip
        error, hint = call(*command).two_lines
        assert error == f"Error: the events of {directory} were discarded at {said.json['at']}", command
        assert "plan the export again into a new directory" in hint
    again = call("discard", directory, "--json")
    assert (again.code, again.json["files"], again.json["at"]) == (0, 0, said.json["at"])


def test_what_is_still_needed_is_named_with_the_command(tmp_path: Path, call: Any) -> None:
    """A plan that is not sent, or not verified, is discarded only with --unsent, and nothing is discarded without an
    answer."""
    directory = planned(tmp_path, 20)
    error, hint = call("discard", directory, "--yes").two_lines
    assert error.endswith("are still needed: 20 events not sent; nothing was discarded")
    assert f"backcast apply {directory} --to URL; or, if nobody needs them: backcast discard" in hint
    sent(directory, verify=False)
    said = call("discard", directory, "--yes")
    assert (said.code, "what was sent was not verified" in said.err) == (4, True)
    assert f"backcast verify {directory} --to http" in said.err
    assert call("discard", directory, "--unsent").code == 2  # stdin ended without an answer
    assert not (directory / "discarded.json").exists()
    assert call("discard", directory, "--unsent", "--yes", "-q").code == 0
    assert "plan the export again" in call("status", directory).out


def test_a_plan_that_another_step_works_with_is_kept(tmp_path: Path, call: Any) -> None:
    """The other step may be apply, plan, rehearse or verify. While it is being sent, no question is asked."""
    directory = Directory(sent(planned(tmp_path, 20)))
    for path, *answer in (
        (directory.ledger,), (directory.path / "plan", "--yes"), (directory.rehearsal, "--yes"),
        (directory.verification, "--yes"),
    ):  # fmt: skip
        lock = lock_file(path, "a test")
        said = call("discard", directory.path, *answer)
        unlock(lock)
        error, hint = said.two_lines
        assert (said.code, "is in use by another run: process" in error) == (2, True), path
        assert "wait for it, or stop it; a stopped run resumes" in hint
    assert call("discard", directory.path, "--yes").code == 0


def test_what_changes_between_question_and_answer_is_noticed(tmp_path: Path) -> None:
    """A repair began, or another plan is in the same directory, about which no question was asked."""
    plan, directory = open_plan(sent(planned(tmp_path / "sent", 20)))
    with pytest.raises(errors.UnsafePlan, match="10 are in doubt; nothing was discarded"):
        steps.discard(
            plan, directory, DiscardOptions(),
            confirm=lambda: in_ledger(directory.path, "update batches set state = 'begun' where request = 0"),
        )  # fmt: skip
    other, place = open_plan(planned(tmp_path / "unsent", 5))
    again = PlanOptions(mapping="generic", settings=COLUMNS, workers=0, name="Another")
    with pytest.raises(errors.UnsafePlan, match="contains another plan by now; nothing was discarded"):
        steps.discard(
            other, place, DiscardOptions(unsent=True),
            confirm=lambda: pipeline.plan_export(tmp_path / "unsent" / "export", place.path, again),
        )  # fmt: skip
    assert directory.facts.exists()
    assert place.facts.exists()


def test_a_discard_that_was_stopped_is_finished_by_the_next(tmp_path: Path, call: Any) -> None:
    """As soon as the marker is there the plan is discarded, whatever files are left, and the same command removes
    these."""
    directory = sent(planned(tmp_path, 20))
    digest = pipeline.load_plan(directory).digest
    write_discarded(Directory(directory), Discarded(digest, "2024-05-01T00:00:00Z"))
    (directory / "requests.jsonl").unlink()
    with pytest.raises(errors.UsageError, match="discarded at 2024-05-01"):
        pipeline.list_sent(directory)
    assert call("discard", directory).code == 0
    assert not (directory / "facts").exists()
    other = json.loads((directory / "discarded.json").read_bytes()) | {"plan": "of another plan"}
    (directory / "discarded.json").write_text(json.dumps(other), "utf-8")
    assert call("status", directory, "--json").json.get("discarded") is None


def test_a_later_plan_does_not_go_on_without_the_merges_of_one_that_was_discarded(tmp_path: Path) -> None:
    """It knows merges that were kept, as before; without them it stops."""
    directory = sent(planned(tmp_path, 20, links=True))
    moment = datetime(2024, 6, 1, tzinfo=UTC)
    with_merges = PlanOptions(mapping="generic", settings=COLUMNS, workers=0, earlier=[directory], as_of=moment)
    source = export(tmp_path / "later", 5)
    write_discarded(Directory(directory), Discarded("of another plan", "2024-05-01T00:00:00Z"))
    before = pipeline.plan_export(source, tmp_path / "before", with_merges)
    pipeline.discard_plan(directory, DiscardOptions(keep_merges=True))
    after = pipeline.plan_export(source, tmp_path / "after", with_merges)
    assert after.digest == before.digest
    (directory / "discarded.json").unlink()
    pipeline.discard_plan(directory, DiscardOptions(unsent=True))
    with pytest.raises(errors.UsageError, match=r"the merges of .* were discarded"):
        pipeline.plan_export(source, tmp_path / "without", with_merges)


def test_refused_events_keep_a_plan_and_their_causes_outlive_it(tmp_path: Path, call: Any) -> None:
    """`--replay` could plan them, so they are named; if the plan is discarded anyway, status and receipt still have the
    causes. A new plan may replace one that was not sent."""
    directory = planned(tmp_path, 20)
    faults = ("poison,event=Step 1",)
    pipeline.rehearse_plan(directory, RehearseOptions(faults=faults))
    with running(faults=faults) as service:
        pipeline.apply_plan(directory, service.url, project_key=service.capture_key)
    pipeline.write_receipt(directory)
    error, hint = call("discard", directory, "--yes").two_lines
    assert "7 events refused, which --replay can plan" in error
    assert f"backcast rejects {directory} --code refused_event; or, if nobody" in hint
    assert call("discard", directory, "--yes", "--unsent").code == 0
    assert "Its events were discarded at" in call("status", directory).out
    checks = call("receipt", "check", directory / "receipt.json", "--json").json["checks"]
    unchecked = {check["name"] for check in checks if check["result"] != "ok"}
    assert unchecked == {"signature", "inputs", "verification", "plan"}
    other = planned(tmp_path / "unsent", 5)
    pipeline.rehearse_plan(other, RehearseOptions(faults=faults))
    pipeline.discard_plan(other, DiscardOptions(unsent=True))
    options = PlanOptions(mapping="generic", settings=COLUMNS, workers=0)
    assert pipeline.plan_export(tmp_path / "unsent" / "export", other, options).ready
    assert not (other / "discarded.json").exists()
