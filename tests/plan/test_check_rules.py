"""`--stop-on`, `--accept`, `--checks FILE` and a job's `checks`: what a person decides about the checks of a plan."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from pipeline.jobs.loading import load_job
from tests.plan.test_findings_of_a_plan import planted
from tests.support.commands import generic


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
        (("--stop-on", "spikes"), "there is no check 'spikes'"),
        (("--accept", "max_rejects=we know"), "max_rejects stops a plan by itself"),
        (("--accept", "spike="), "spike is accepted without a reason"),
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
