"""The state of a plan is one word, the same in every place; what was refused is named, located and listed."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pipeline
from pipeline.delivery.apply import SendLimits
from pipeline.options import PlanOptions
from pipeline.plan.sealed.directory import Directory
from pipeline.report.contents import earlier_rate
from pipeline.spreadsheets import FORMULA, guarded
from tests.support.commands import generic
from tests.support.deliveries import (
    AT_ONCE,
    COLUMNS,
    Reply,
    add,
    export,
    passed_on,
    planned,
    row,
    run,
    serving,
    tamper,
    uuid,
)
from tests.support.jobs import KEYS, PERSONAL_KEY, days, write_job
from tests.support.phased_plans import planned_in_phases
from tests.support.services import running

WORDS = {"not-ready": "not ready", "stopped": "stopped (resumable)", "sent-with-refusals": "sent, 1 refused"}


def state_of(call: Any, directory: Path) -> str:
    """The state that status, its --json, report.json and the page agree on."""
    said = call("status", directory, "--json").json["state"]
    report = json.loads((directory / "report.json").read_bytes())
    words = WORDS.get(said, said)
    assert re.fullmatch(
        f"State: {re.escape(words)}(, \\d+ things? to check)?", call("status", directory).out.splitlines()[0]
    )
    assert report["state"] == said
    banner = f'class="state">{words[0].upper()}{re.escape(words[1:])}(, \\d+ things? to check)?</p>'
    assert re.search(banner, (directory / "report.html").read_text())
    if report["applied"]:
        assert report["applied"]["state"] == said
    return str(said)


def refusing(number: int, *, text: bytes = b"no distinct_id", url: str = "") -> Any:
    """Answers 400 to whatever has one row, and passes the rest on."""

    def answer(asked: Any) -> Reply:
        if uuid(number) in str(asked.events):
            return Reply(400, text)
        return passed_on(url, asked.body) if url else Reply()

    return answer


def test_a_plan_has_one_state_from_first_to_last(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ready, rehearsed, sending, stopped, sent, verified, differs; apply and verify print the same word."""
    monkeypatch.setenv("BACKCAST_PERSONAL_KEY", PERSONAL_KEY)
    directory = planned(tmp_path, 20, files=1)
    assert state_of(call, directory) == "ready"
    said = call("rehearse", directory)
    assert (said.out.splitlines()[0], state_of(call, directory)) == (
        "State: rehearsed, 1 thing to check",
        "rehearsed",
    )
    during = []
    with running(KEYS) as service:

        def answer(asked: Any) -> Reply:
            if asked.number == 1:
                during.append(call("status", directory, "--json").json["state"])
                return Reply(401)
            return passed_on(service.url, asked.body)

        with serving(answer) as server:
            words = ["--to", server.url]
            said = call("apply", directory, *words, "--api", service.url, "--max-concurrency", "1")
            assert (said.code, state_of(call, directory), during) == (5, "stopped", ["sending"])
            assert "State: stopped (resumable)" in said.out
            said = call("apply", directory, *words, "--api", service.url, "--json")
            assert (said.json["state"], state_of(call, directory)) == ("sent", "sent")
            said = call("apply", directory, *words, "--dry-run")
            assert "State: sent" in said.out.splitlines()
        verify = ["verify", directory, *words, "--api", service.url]
        assert call(*verify).out.splitlines()[0] == "State: verified"
        assert state_of(call, directory) == "verified"
        tamper(service, f"delete from accepted where uuid = '{uuid(3)}'")
        said = call(*verify, "--json")
        assert (said.code, said.json["state"], state_of(call, directory)) == (7, "differs", "differs")
        page = (directory / "report.html").read_text("utf-8")
        assert "<p>What was found at the target is not what was sent: 1 missing.</p>" in page
        assert "not as sent" in page


def test_the_title_has_the_project_and_a_later_plan_the_rate(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """preflight, apply and verify with a personal key each find the project's name, and reports keep it."""
    monkeypatch.setenv("BACKCAST_PERSONAL_KEY", PERSONAL_KEY)
    with running(KEYS) as service:
        first, second = (planned(tmp_path / name, 20, files=1, target=service.url) for name in ("first", "second"))
        title = f"<bdi>{service.url} (project Rehearsal)</bdi></h1>"
        assert title not in (first / "report.html").read_text()
        assert call("preflight", first, "--to", service.url).code == 0
        assert title in (first / "report.html").read_text()
        assert json.loads((first / "report.json").read_bytes())["project"] == {"name": "Rehearsal", "to": service.url}
        fresh = planned(tmp_path / "apply it", 20, files=1, target=service.url)
        for step in ("apply", "verify"):
            assert call(step, fresh, "--to", service.url).code == 0
            assert title in (fresh / "report.html").read_text()
            (fresh / "report.json").unlink()
        assert earlier_rate(Directory(second), service.url) is None
        (tmp_path / "apply it" / "plan").rename(tmp_path / "second" / "sent before")
        found = earlier_rate(Directory(second), service.url)
        assert found is not None
        assert (found.step, found.plan, found.events > 0, found.failed) == ("sent", "sent before", True, 0)
        assert earlier_rate(Directory(second), "us") is None


def test_a_plan_that_is_not_ready_stays_so_when_it_was_rehearsed(call: Any, tmp_path: Path) -> None:
    """Failed checks stop the plan and its apply, not its rehearsal, which does not make it ready."""
    source = export(tmp_path / "export", 5, files=1)
    add(source / "part-0.jsonl", b"{broken\n")
    assert call("plan", source, *generic(), "-o", tmp_path / "plan", "--workers", "0").code == 4
    assert state_of(call, tmp_path / "plan") == "not-ready"
    said = call("apply", tmp_path / "plan", "--to", "http://127.0.0.1:1")
    assert (said.code, "not ready" in said.err) == (4, True)
    assert call("rehearse", tmp_path / "plan").code == 0
    assert state_of(call, tmp_path / "plan") == "not-ready"


def test_a_verification_of_a_half_does_not_speak_for_the_whole(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half sent and found is stopped, half sent and lost differs; what is sent after that is not verified yet."""
    monkeypatch.setenv("BACKCAST_PERSONAL_KEY", PERSONAL_KEY)
    directory = planned(tmp_path, 20, files=1)
    with (
        running(KEYS) as service,
        serving(lambda asked: Reply(401) if asked.number == 1 else passed_on(service.url, asked.body)) as server,
    ):
        run(directory, server.url, send_limits=SendLimits(1, AT_ONCE))
        words = ["--to", server.url, "--api", service.url]
        call("verify", directory, *words)
        assert state_of(call, directory) == "stopped"
        tamper(service, "delete from accepted")
        assert call("verify", directory, *words).code == 7
        assert state_of(call, directory) == "differs"
        assert call("apply", directory, *words).code == 0
        assert state_of(call, directory) == "sent"
        assert "before the last run: not compared since" in " ".join(call("status", directory).out.split())


def test_a_run_with_refusals_says_how_many_why_and_how_to_list_them(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 5 with the service's message; nothing is called balanced, and --json has the cause too. The state stays when
    the rest was found: verified would say that everything is there."""
    directory = planned(tmp_path, 20, files=1)
    with running(KEYS) as service, serving(refusing(7, url=service.url)) as server:
        words = [directory, "--to", server.url]
        said = call("apply", *words)
        again = call("apply", *words, "--json")
        assert state_of(call, directory) == "sent-with-refusals"
        monkeypatch.setenv("BACKCAST_PERSONAL_KEY", PERSONAL_KEY)
        verified = call("verify", *words, "--api", service.url)
    assert (said.code, again.code, again.json["state"]) == (5, 5, "sent-with-refusals")
    _, first, counts, *others = said.out.splitlines()
    assert (first, counts.split(": ")[1]) == ("State: sent, 1 refused", "19 sent, 1 refused.")
    assert [line.split() for line in others if "no distinct_id" in line] == [
        ["1", "400", "no", "distinct_id", "part-0.jsonl,", "row", "8"]
    ]
    assert others[-1] == f"  backcast rejects {directory} --code refused_event"
    for printed in (said, again):
        assert printed.two_lines == (
            "Error: the service refused 1 event; the first: 400 no distinct_id",
            f"Try: list them, with their rows: backcast rejects {directory}",
        )
    assert (verified.code, verified.out.splitlines()[0]) == (0, "State: sent, 1 refused")
    assert state_of(call, directory) == "sent-with-refusals"


def test_refused_events_are_listed_with_their_rows(call: Any, tmp_path: Path) -> None:
    """After the rejected rows, with file, row, event and uuid, also after broken rows and copies that are left out; by
    code, and as CSV; without the export."""
    source, directory = tmp_path / "export", tmp_path / "plan"
    source.mkdir()
    for name, before, numbers in (("a.jsonl", "", range(6)), ("b.jsonl", "\n{broken\n", (0, 1, *range(6, 12)))):
        (source / name).write_text(before + "".join(json.dumps(row(number)) + "\n" for number in numbers))
    options = PlanOptions(mapping="generic", settings=COLUMNS, workers=0, max_rejects="1")
    pipeline.plan_export(source, directory, options)
    with serving(refusing(8)) as server:
        run(directory, server.url)
    found = [json.loads(line) for line in call("rejects", directory, "--json").out.splitlines()]
    assert [one["code"] for one in found] == ["bad_json", "refused_event"]
    record = found[1].pop("record")
    assert (json.loads(record)["uuid"], json.loads(record)["properties"]["number"]) == (uuid(8), 8)
    wanted = {
        "part": "b.jsonl", "row": 6, "offset": 0, "stage": "send", "code": "refused_event",
        "detail": "400 no distinct_id", "uuid": uuid(8),
    }  # fmt: skip
    assert found[1] == wanted
    wanted["record"] = record
    said = call("rejects", directory, "--code", "refused_event", "--format", "csv")
    (shown,) = csv.DictReader(io.StringIO(said.out))
    assert shown == {name: str(value) for name, value in wanted.items()} | {"item": "", "sheet": ""}
    assert "no distinct_id" in call("rejects", directory).out
    (source / "b.jsonl").unlink()
    said = call("rejects", directory, "--code", "refused_event", "--json")
    assert (said.code, json.loads(said.out)) == (0, wanted)


def test_refused_merges_and_groups_are_lines_of_the_plan(call: Any, tmp_path: Path) -> None:
    """What does not come from one row is located in the sealed file that a person can open."""
    directory = planned_in_phases(tmp_path)
    wanted = {name: (directory / name).read_text().splitlines()[-1] for name in ("identities.jsonl", "groups.jsonl")}
    refused = {json.loads(line)["uuid"] for line in wanted.values()}
    with serving(
        lambda asked: Reply(400, b"no") if refused & {one["uuid"] for one in asked.events} else Reply()
    ) as server:
        run(directory, server.url)
    said = call("rejects", directory, "--code", "refused_event", "--json").out.splitlines()
    found = {one["part"]: one for one in map(json.loads, said)}
    assert {name: one["record"] for name, one in found.items()} == wanted
    for name, one in found.items():
        text = (directory / name).read_bytes()
        assert text[one["offset"] :].decode().rstrip("\n") == one["record"]
        assert one["row"] == len(text.splitlines())


def test_what_a_rehearsal_had_refused_is_listed_until_the_plan_is_applied(call: Any, tmp_path: Path) -> None:
    """Exit 5 with the cause, the plan is not rehearsed, its refused events are in `rejects`; they are gone once it was
    applied."""
    directory = planned(tmp_path, 40, files=1)
    said = call("rehearse", directory, "--fault", "poison:1/20")
    assert (said.code, state_of(call, directory)) == (5, "ready")
    assert "Error: the local service refused" in said.err
    found = [json.loads(line) for line in call("rejects", directory, "--json").out.splitlines()]
    assert {one["stage"] for one in found} == {"rehearse"}
    assert all(json.loads(one["record"])["uuid"] == one["uuid"] for one in found)
    with serving(lambda asked: Reply()) as server:
        run(directory, server.url)
    assert call("rejects", directory).out == "No row was rejected, and no event was refused.\n"
    said = call("rehearse", directory, "--fault", "poison:1/20")
    assert (said.code, f"read refused_events in {directory}/rehearsal/ledger.sqlite" in said.err) == (5, True)


def test_a_job_says_the_state_of_each_plan(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In `run --json`, in the window's own report, and in `status`; refusals with cause and command. A verified window
    is a verified plan."""
    days(tmp_path, 1, 2)
    with serving(refusing(1 * 100_000 + 4)) as server:
        said = call("run", write_job(tmp_path, server.url, until="2024-01-03"), "--json", "--workers", "0")
    assert [one["state"] for one in said.json["windows"]] == ["sent-with-refusals", "sent"]
    place = tmp_path / "state/nightly/windows/2024-01-01/plan-1"
    assert (said.code, state_of(call, place)) == (5, "sent-with-refusals")
    assert "window 2024-01-01: the service refused 1 event; the first: 400 no distinct_id" in said.err
    assert f"backcast rejects {place}" in said.err
    monkeypatch.setenv("BACKCAST_PERSONAL_KEY", PERSONAL_KEY)
    with running(KEYS) as service:
        job = write_job(tmp_path, service.url, name="proved", until="2024-01-02")
        assert call("run", job, "--workers", "0").code == 0
    assert state_of(call, tmp_path / "state/proved/windows/2024-01-01/plan-1") == "verified"


@given(st.text(alphabet=[*FORMULA, "'", '"', ",", ";", "a", "1", " "], max_size=6))
def test_no_cell_is_a_formula_and_every_cell_can_be_had_back(text: str) -> None:
    """An apostrophe guards it; with one leading apostrophe removed the string is as it was."""
    cell = guarded(text)
    assert cell[:1] not in FORMULA
    assert cell.removeprefix("'") == text


def test_a_rejected_row_that_begins_a_formula_is_guarded(call: Any, tmp_path: Path) -> None:
    """`rejects --format csv` of a hostile row, opened in a spreadsheet, computes nothing; JSON keeps it as it was."""
    source = export(tmp_path / "export", 60, files=1)
    hostile = ['=cmd|" /C calc"!A0', "+1", "-1", "@SUM(1)", "\t=1", "'=1"]
    add(source / "part-0.jsonl", "".join(f"{one}\n" for one in hostile).encode())
    words = [*generic(), "--max-rejects", "9", "--workers", "0"]
    assert call("plan", source, *words, "-o", tmp_path / "plan").code == 0
    rows = list(csv.DictReader(io.StringIO(call("rejects", tmp_path / "plan", "--format", "csv").out)))
    records = [json.loads(one)["record"] for one in call("rejects", tmp_path / "plan", "--json").out.splitlines()]
    assert len(records) == len(hostile)
    assert [one["record"] for one in rows] == [f"'{one}" for one in records]
