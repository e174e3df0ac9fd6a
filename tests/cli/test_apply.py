"""`backcast apply`, `status` and `verify`: what they print, what they ask, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pipeline
from pipeline.errors import UsageError
from pipeline.local_service import LocalService
from pipeline.local_service.keys import load_keys
from pipeline.options import ApplyOptions
from tests.support.commands import generic
from tests.support.deliveries import Reply, export, planned, scripted, serving, tamper, uuid
from tests.support.services import running

NOTHING = dict.fromkeys(("made", "accepted", "refused", "in_doubt", "already_settled", "unsent"), 0)


def test_apply_status_and_verify_print_the_documented_objects(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the three commands prints an object with the documented fields, and nothing else on stdout."""
    directory = planned(tmp_path, 20)
    said = call("status", directory, "--json")
    assert (said.json["format"], said.json["state"], said.json["events"]["made"]) == ("backcast.status/1", "ready", 0)
    with running() as service:
        monkeypatch.setenv("BACKCAST_PROJECT_KEY", service.capture_key)
        said = call("apply", directory, "--to", service.url, "--json")
        assert said.code == 0
        assert (said.json["format"], said.json["dry_run"], said.json["balanced"]) == ("backcast.apply/1", False, True)
        assert said.json["events"] == NOTHING | {"made": 20, "accepted": 20}
        assert said.json["batches"] == {"made": 2, "sent": 2, "retried": 0, "split": 0}
        monkeypatch.setenv("BACKCAST_PERSONAL_KEY", service.personal_key)
        said = call("verify", directory, "--to", service.url, "--json")
        assert (said.code, said.json["format"], said.json["proved"]) == (0, "backcast.verify/1", True)
        tamper(service, f"delete from accepted where uuid = '{uuid(3)}'")
        said = call("verify", directory, "--to", service.url, "--json")
        assert (said.code, said.json["events"]["missing"], said.json["proved"]) == (7, 1, False)
    said = call("status", directory, "--json")
    assert (said.json["state"], said.json["events"]["accepted"]) == ("differs", 20)


def test_verify_reads_the_project_that_the_plan_was_sent_to(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --project, `verify` reads the project of the capture key, also if `apply` had no personal key to record
    it."""
    projects = [{"id": number, "capture_key": f"phc_test_{number}"} for number in (1, 2)]
    monkeypatch.setenv("BACKCAST_PROJECT_KEY", "phc_test_2")
    (tmp_path / "keys.json").write_text(json.dumps({"projects": projects, "keys": {"phx_test": ["*"]}}))
    with LocalService(keys=load_keys(tmp_path / "keys.json")) as service:
        for name, personal in (("without", None), ("with", "phx_test")):
            if personal:
                monkeypatch.setenv("BACKCAST_PERSONAL_KEY", personal)
            directory = planned(tmp_path / name, 20)
            assert call("apply", directory, "--to", service.url, "--allow-already-there").code == 0
            monkeypatch.setenv("BACKCAST_PERSONAL_KEY", "phx_test")
            assert call("verify", directory, "--to", service.url, "--json").json["events"]["missing"] == 0
            monkeypatch.delenv("BACKCAST_PERSONAL_KEY")


def test_keys_are_needed_but_for_a_dry_run(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing key is exit 2, and the error says where to put one; `apply --dry-run` to a remote target sends nothing,
    asks nothing and writes no ledger."""
    monkeypatch.delenv("BACKCAST_PROJECT_KEY")
    directory = planned(tmp_path, 20, target="eu")
    said = call("apply", directory, "--to", "eu", "--dry-run", "--json")
    assert (said.code, said.json["dry_run"], said.json["batches"]["sent"]) == (0, True, 0)
    assert said.json["events"] == NOTHING | {"made": 20, "would_send": 20}
    assert not (directory / "ledger.sqlite").exists()
    for command, name in (("apply", "BACKCAST_PROJECT_KEY"), ("verify", "BACKCAST_PERSONAL_KEY")):
        said = call(command, planned(tmp_path / command, 3), "--to", "http://127.0.0.1:1")
        assert (said.code, name in said.two_lines[1]) == (2, True)


def test_what_is_piped_is_as_wide_as_columns_says(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer lines are folded at COLUMNS, or at 110 characters; paths and commands are never folded."""
    monkeypatch.chdir(tmp_path)
    for columns, width in (("60", 60), ("", 110), ("wide", 110)):
        monkeypatch.setenv("COLUMNS", columns)
        said = call("plan", export(Path("a-long-name-" * 12), 3), *generic(), "-o", f"plan{columns}")
        assert 50 < max(map(len, said.out.splitlines())) <= width


NO_KEY = "Error: the capture key does not look like one"


def test_a_value_that_is_not_a_key_is_refused_before_anything_else(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`abc` for a region is exit 2, and so is a personal key anywhere; a dry run checks the key in the same way. For
    another service, which may have keys of any form, it is one warning on stderr."""
    far, here = planned(tmp_path, 3, target="us"), planned(tmp_path / "here", 3)
    for words in (["--yes"], ["--yes", "--dry-run"]):
        monkeypatch.setenv("BACKCAST_PROJECT_KEY", "abc")
        said = call("apply", far, "--to", "us", *words)
        assert (said.code, said.two_lines[0].startswith(NO_KEY), "abc" in said.err) == (2, True, False)
        monkeypatch.setenv("BACKCAST_PROJECT_KEY", "phx_0123456789")
        said = call("apply", here, "--to", "http://127.0.0.1:1", *words)
        assert (said.code, "personal key" in said.two_lines[0], "phx_0123456789" in said.err) == (2, True, False)
        options = ApplyOptions(dry_run="--dry-run" in words)
        with pytest.raises(UsageError, match="personal key"):
            pipeline.apply_plan(here, "http://127.0.0.1:1", options, project_key="phx_0123456789")
    monkeypatch.setenv("BACKCAST_PROJECT_KEY", "abc")
    with serving(scripted(Reply())) as server:
        for words in (["--dry-run"], []):
            said = call("apply", here, "--to", server.url, "--quiet", *words)
            assert said.code == 0
            assert said.err.count("Warning: the capture key does not look like one") == 1
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("typed", "options", "code"),
    [("", [], 2), ("19\n", [], 2), ("yes\n", [], 2), ("2_0\n", [], 6), ("20\n", [], 6), ("", ["--yes"], 6)],
)
def test_a_far_target_asks_for_the_number_of_events(
    call: Any, tmp_path: Path, typed: str, options: list[str], code: int
) -> None:
    """The number, or --yes, starts the run, which here finds no host of that name: exit 6. Anything else is exit 2
    before any network use."""
    directory = planned(tmp_path, 20, target="http://backcast.invalid")
    words = ["apply", directory, "--to", "http://backcast.invalid", "--retry-for", "0", "--max-retries", "0"]
    said = call(*words, *options, stdin=typed)
    assert (said.code, (directory / "ledger.sqlite").exists()) == (code, code == 6)
    if code == 2:
        assert "Imported events cannot be deleted" in said.err
        assert "nothing was sent" in said.err


def test_a_stopped_run_prints_its_counts_and_its_error(call: Any, tmp_path: Path) -> None:
    """Exit 5 if the service refused us: the counts are on stdout, the error is on stderr and names the host."""
    directory = planned(tmp_path, 30)
    with serving(lambda asked: Reply(401, b"API key is not valid") if asked.number else Reply()) as server:
        said = call("apply", directory, "--to", server.url, "--json", "--max-concurrency", "1")
    assert said.code == 5
    assert said.json["balanced"] is False
    assert said.json["events"] == NOTHING | {"made": 10, "accepted": 10, "unsent": 20}
    assert said.two_lines[0] == f"Error: {server.url} answered 401: API key is not valid"
    assert call("status", directory, "--json").json["state"] == "stopped"


def test_refused_and_unfinished_runs_have_exit_codes_of_their_own(call: Any, tmp_path: Path) -> None:
    """One refused event, everything else settled: balanced, and exit 5. A run that used up its retries is exit 6."""
    directory = planned(tmp_path, 30)
    with serving(lambda asked: Reply(400) if uuid(7) in str(asked.events) else Reply()) as server:
        said = call("apply", directory, "--to", server.url, "--json")
    assert (said.code, said.json["balanced"], said.json["events"]["refused"]) == (5, True, 1)
    with serving(scripted(Reply(503, b"later"))) as server:
        said = call("apply", planned(tmp_path / "unfinished", 3), "--to", server.url, "--max-retries", "0")
    assert (said.code, said.two_lines[1]) == (6, "Try: run the same command again to resume")


def test_a_plan_that_this_target_cannot_have_is_refused(call: Any, tmp_path: Path) -> None:
    """A plan made without --for is not applied to a region."""
    said = call("apply", planned(tmp_path / "here", 3), "--to", "us", "--yes")
    assert said.code == 4
    assert said.two_lines[1] == "Try: plan again with --for us, or rehearse this one"


def test_a_directory_without_a_plan_is_a_usage_error(call: Any, tmp_path: Path) -> None:
    """A missing plan.json is exit 2, and the error says how to make one."""
    for command in ("rehearse", "status", "rejects", "apply", "verify"):
        said = call(command, tmp_path, *(["--to", "http://127.0.0.1:1"] if command in ("apply", "verify") else []))
        assert (said.code, said.two_lines[1]) == (2, "Try: create one with: backcast plan SOURCE -o DIR")
