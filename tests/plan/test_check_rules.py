"""`--stop-on`, `--accept`, `--checks FILE` and a job's `checks`: what a person decides about the checks of a plan."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from pipeline.jobs.loading import load_job
from tests.plan.test_findings_of_a_plan import planted
from tests.support.commands import generic, in_process


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export whose plan warns of `missing_files`, `renamed_event` and `spike`."""
    return planted(tmp_path_factory.mktemp("planted"), faults=True)


def levels(result: Any) -> dict[str, str]:
    return {gate["name"]: gate["level"] for gate in result.json["gates"]}


def test_any_check_can_stop_a_plan_and_an_accepted_one_no_longer_does(call: Any, source: Path, tmp_path: Path) -> None:
    """The stop names its rule, fails in JUnit, and gives the command that accepts it; the reason of an accepted finding
    stands in the plan, in its report, and for its sign-off."""
    words, plan, file = generic(), tmp_path / "plan", tmp_path / "checks.xml"
    stopped = call("plan", source, *words, "-o", plan, "--stop-on", "spike", "--report", f"junit={file}")
    assert stopped.code == 4
    assert "STOP spike" in stopped.out
    assert "--accept spike=REASON" in stopped.out
    failures = [case.get("name") for case in ET.parse(file).iterfind(".//testcase[failure]")]
    assert failures == ["spike"]
    everything = call("plan", source, *words, "-o", plan, "--stop-on", "all", "--json")
    found = dict.fromkeys(("missing_files", "renamed_event", "spike"), "stop")
    assert levels(everything) == found | {"no_target": "open"}
    accepted = call(
        "plan", source, *words, "-o", plan, "--stop-on", "spike", "--accept", "spike=campaign of January", "--json"
    )
    assert (accepted.code, levels(accepted)["spike"]) == (0, "accepted")
    unused = call("plan", source, *words, "-o", tmp_path / "other", "--accept", "level=a launch").out
    assert "accepted: level: found nothing, so there was nothing to accept (a launch)" in unused
    page = re.sub("<.*?>", "", (plan / "report.html").read_text())
    assert page.count("campaign of January") >= 2
    assert "accepted: spike" in page


def test_a_command_to_plan_again_keeps_what_was_given(call: Any, source: Path, tmp_path: Path) -> None:
    """`apply` names the target, the window, the people and the files that the plan was made with; an earlier acceptance
    stays in the line that `plan` prints."""
    ids, plan = tmp_path / "gone.txt", tmp_path / "plan"
    ids.write_text("nobody\n")
    given = ["--for", "us", "--until", "2030-01-01T00:00:00Z", "--exclude-ids", str(ids), "--joined-users", "none"]
    rules = ["--stop-on", "spike", "--accept", "renamed_event=new names"]
    printed = call("plan", source, *generic(), "-o", plan, *given, *rules).out
    assert "--accept 'renamed_event=new names' --accept spike=REASON" in printed
    hint = in_process("apply", plan, "--to", "us", env={"BACKCAST_PROJECT_KEY": "phc_test"}).stderr
    given[5] = "FILE"
    for option, value in zip(given[::2], given[1::2], strict=True):
        assert f"{option} {value} " in hint


def test_a_file_says_what_applies_to_each_check(call: Any, source: Path, tmp_path: Path) -> None:
    """Levels, limits under the name and unit of their option, and reasons; the command line goes before the file."""
    file = tmp_path / "checks.yaml"
    file.write_text(
        "missing_files: ignore\nspike: {level: stop, spike_times: 40}\nrenamed_event: {accept: a new tracking plan}\n"
    )
    words = (source, *generic(), "-o", tmp_path / "plan", "--checks", file, "--json")
    assert levels(call("plan", *words)) == {"no_target": "open", "renamed_event": "accepted"}
    found = levels(call("plan", *words, "--for", "us", "--spike", "6"))
    assert found == {"spike": "stop", "renamed_event": "accepted"}


def test_what_a_plan_leaves_open_is_decided_by_name(call: Any, tmp_path: Path) -> None:
    """It changes no verdict until a rule makes it stop; an accepted one is nothing to check any more."""
    (tmp_path / "clean.jsonl").write_text(
        '{"event": "Seen", "distinct_id": "u-1", "timestamp": "2023-01-01T00:00:00Z", "uuid": "u"}\n'
    )
    words = ("plan", tmp_path / "clean.jsonl", *generic(), "-o", tmp_path / "plan")
    left, stopped = call(*words, "--json"), call(*words, "--stop-on", "no_target", "--json")
    assert (left.code, left.json["verdict"], levels(left)) == (0, "ready", {"no_target": "open"})
    assert (stopped.code, stopped.json["verdict"], levels(stopped)) == (4, "not-ready", {"no_target": "stop"})
    accepted = call(*words, "--accept", "no_target=a service of our own")
    assert accepted.out.splitlines()[0] == "State: ready"
    assert "ACCEPTED no_target" in accepted.out
    assert "accepted: no_target" in re.sub("<.*?>", "", (tmp_path / "plan" / "report.html").read_text())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--stop-on", "spikes"), "there is no check or code 'spikes'"),
        (("--accept", "max_rejects=we know"), "max_rejects stops a plan by itself"),
        (("--accept", "spike="), "spike is accepted without a reason"),
        (("--accept", "spike"), "'spike' is not key=value\nTry: write a name, an equals sign"),
        (("--stop-on", ""), "--stop-on: no name is given"),
    ],
)
def test_a_wrong_rule_is_an_error(call: Any, source: Path, tmp_path: Path, words: Any, message: str) -> None:
    """An unknown check, what no plan can be sent with, and an acceptance without a reason, before anything is read."""
    refused = call("plan", source, *generic(), "-o", tmp_path / "plan", *words)
    assert (refused.code, message in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spike: halt\n", "1:8"),
        ("level: {level: warn, spike_times: 2}\n", "the check level has no limit 'spike_times'"),
        ("level: {accept: ' '}\n", "level is accepted without a reason, at"),
        ("zone: ignore\n", "zone stops a plan by itself"),
        ("level: {level_times: much}\n", "level_times: 'much' is not a number"),
        ("level: {level_times: 0.5}\n", "level cannot be 0.5"),
    ],
)
def test_a_wrong_file_is_an_error(call: Any, source: Path, tmp_path: Path, text: str, message: str) -> None:
    """With the line and column of a wrong word, and the names of what a check has."""
    file = tmp_path / "checks.yaml"
    file.write_text(text)
    refused = call("plan", source, *generic(), "-o", tmp_path / "plan", "--checks", file)
    assert (refused.code, message in refused.err) == (2, True)


def test_a_code_of_rows_is_ruled_as_a_check_is(call: Any, tmp_path: Path) -> None:
    """Of a warning, of a rejected row and of a skipped one; the counts stay. Without a rule a code is no finding."""
    rows = tmp_path / "rows.csv"
    rows.write_text(
        "uuid,event,distinct_id,device,timestamp\n1,Opened,null,d-1,2023-05-01T09:00:00Z\n"
        "2,Opened,u-1,,2023-05-01T09:00:00Z\n2,Opened,u-1,,2023-05-01T09:00:00Z\n"
    )
    words = (rows, *generic(), "--set", "anonymous_id=device", "--for", "us")
    codes = {"junk_distinct_id": 1}

    def plan(*rules: str) -> Any:
        return call("plan", *words, "-o", tmp_path / "plan", *rules, "--json")

    assert (levels(plan()), plan().json["verdict"]) == ({"warnings": "open"}, "warnings")
    stopped = plan("--stop-on", "junk_distinct_id,duplicate_event")
    assert (stopped.code, levels(stopped)) == (4, {"junk_distinct_id": "stop", "duplicate_event": "stop"})
    assert [gate["count"] for gate in stopped.json["gates"]] == [1, 1]
    assert "row 1 of" in stopped.json["gates"][0]["detail"]
    assert levels(plan("--stop-on", "all")) == {"junk_distinct_id": "stop"}
    accepted = plan("--stop-on", "all", "--accept", "junk_distinct_id=a test user")
    assert (accepted.code, accepted.json["verdict"], accepted.json["warnings"]) == (0, "ready", codes)
    assert levels(accepted) == {"junk_distinct_id": "accepted"}


def test_a_job_file_has_the_same_table(tmp_path: Path) -> None:
    """Under `checks`."""
    file = tmp_path / "job.yaml"
    file.write_text(
        "job: nightly\nsource: exports/{date:%Y-%m-%d}.jsonl\nmapping: mixpanel\nfrom: 2024-01-01\nto: us\n"
        "persons: {properties: none}\nchecks: {spike: stop, level: {level: warn, level_times: 2.5}}\n"
    )
    rules = load_job(file).plan.checks
    assert {name: (rule.level, dict(rule.limits)) for name, rule in rules.items()} == {
        "spike": ("stop", {}), "level": ("warning", {"level_times": "2.5"}),
    }  # fmt: skip
