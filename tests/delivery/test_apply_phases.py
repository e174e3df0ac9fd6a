"""The four phases are sent one after the other, and each can be resumed, counted and approved by itself."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pipeline
from pipeline.batcher import unpack
from pipeline.cli.progress import EVERY, Sending
from pipeline.config import Secret
from pipeline.delivery.apply import RunCounts, SendLimits
from pipeline.delivery.destination import Response, ResponseKind
from pipeline.delivery.outcome import ResultCounts
from pipeline.delivery.retry import RetryPolicy
from pipeline.delivery.send import check_send
from pipeline.errors import UnsafePlan
from pipeline.local_service import Keyring, LocalService
from pipeline.local_service.keys import Project
from pipeline.options import ApplyOptions, RehearseOptions
from pipeline.plan.sealed.freshness import open_plan
from pipeline.plan.sealed.phases import PHASES
from tests.support.commands import in_process
from tests.support.crashes import ended, forked
from tests.support.deliveries import (
    ANY_ANSWERS,
    AT_ONCE,
    KEY,
    OK,
    Asked,
    CallDestination,
    Reply,
    balances,
    forget,
    in_ledger,
    run,
    run_to,
    scripted,
    serving,
)
from tests.support.phased_plans import TYPES, in_order, phase_of, phase_of_body, planned_in_phases

PLANNED = {"identities": 7, "groups": 12, "events": 40, "persons": 7}


def applied(directory: Path, to: str, *words: str) -> subprocess.CompletedProcess[str]:
    return in_process("apply", directory, "--to", to, *words, env={"BACKCAST_PROJECT_KEY": KEY})


def status(directory: Path, *words: str) -> str:
    done = in_process("status", directory, *words)
    assert done.returncode == 0
    return done.stdout


def afar(url: str) -> str:
    """The same server at an address that does not look like this machine's."""
    return url.replace("127.0.0.1", "0.0.0.0")


def states(directory: Path) -> dict[str, set[str]]:
    """The states of each phase's batches."""
    found: dict[str, set[str]] = {}
    for phase, state in in_ledger(directory, "select distinct phase, state from batches"):
        found.setdefault(phase, set()).add(state)
    return found


def test_each_phase_is_settled_before_the_next_one_begins(tmp_path: Path) -> None:
    """With many requests in flight, no request of a later phase leaves while one of an earlier phase is not settled."""
    directory = planned_in_phases(tmp_path, batch=2)
    seen, early = [], []
    lock = threading.Lock()
    overtaken = threading.Event()

    def send(body: bytes) -> Response:
        phase = phase_of_body(body)
        before = states(directory)
        with lock:
            seen.append(phase)
            if len({*seen}) > 1 and seen[-1] != seen[0]:
                overtaken.set()
            early.extend(one for one in PHASES[: PHASES.index(phase)] if before.get(one) != {"settled"})
        if phase == "identities":
            overtaken.wait(0.05)  # long enough for another phase to overtake, if that were possible
        return OK

    told: list[tuple[str, int]] = []
    outcome = run_to(
        directory, CallDestination(send), send_limits=SendLimits(8, AT_ONCE),
        progress=lambda counts: told.append((counts.phase, counts.other_phases)),
    )  # fmt: skip
    assert outcome.balanced
    assert list(dict.fromkeys(told)) == [(phase, 0) for phase in PHASES]
    assert Counter(seen) == {"identities": 4, "groups": 6, "events": 20, "persons": 4}
    assert early == []
    assert in_order(seen)
    counts = outcome.counts
    assert {name: one.accepted for name, one in counts.phases.items()} == PLANNED
    assert (counts.accepted, counts.refused, counts.in_doubt, counts.already_settled) == (66, 0, 0, 0)


@pytest.mark.parametrize("most", [12, 2])
def test_group_types_arrive_in_the_order_of_the_plan(tmp_path: Path, most: int) -> None:
    """The first groups are sent one at a time, also if a request that is too large is halved; the others follow
    together."""
    directory = planned_in_phases(tmp_path, batch=6)
    lock = threading.Lock()
    flying, taken, beside = 0, [], []
    together = threading.Event()

    def send(body: bytes) -> Response:
        nonlocal flying
        events = [json.loads(event) for event in unpack(body)]
        if phase_of(events[0]) != "groups":
            return OK
        with lock:
            flying += 1
            alone = len(taken) < len(TYPES)
            beside.extend([flying] if alone else [])
        if alone:
            together.wait(0.05)  # long enough for another request to arrive meanwhile, if that were possible
        with lock:
            flying -= 1
            if len(events) > most:
                return Response(ResponseKind.TOO_LARGE, 413)
            taken.extend(event["properties"]["$group_type"] for event in events)
            return OK

    assert run_to(directory, CallDestination(send), send_limits=SendLimits(8, AT_ONCE)).balanced
    assert tuple(taken[:3]) == TYPES
    assert set(beside) == {1}


def test_a_rehearsal_proves_each_phase_and_the_report_shows_them(tmp_path: Path) -> None:
    """verify finds what landed of all four phases; report.json and report.html have their counts."""
    directory = planned_in_phases(tmp_path)
    done = pipeline.rehearse_plan(directory, RehearseOptions())
    assert (done.verification.proved, done.verification.events.found) == (True, 66)
    told = json.loads((directory / "report.json").read_text("utf-8"))["rehearsal"]["phases"]
    assert {name: one["accepted"] for name, one in told.items()} == PLANNED
    page = (directory / "report.html").read_text("utf-8")
    shown = re.findall(r"<tr><td>(\w+)</td>" + r'<td class="n">(\d+)</td>' * 5, page)
    assert shown == [(name, str(events), "0", "0", "0", "0") for name, events in PLANNED.items()]


def test_phases_can_be_sent_one_by_one(tmp_path: Path) -> None:
    """Each run sends its own phases; it ends with 6 while others remain, and with 0 at the end; everything lands
    once."""
    directory = planned_in_phases(tmp_path)
    keys = Keyring((Project(1, "Rehearsal", KEY),), {"phx_test_all": frozenset({"*"})})
    with LocalService(keys=keys) as service:
        first = applied(directory, service.url, "--phases", "identities", "--json")
        assert (first.returncode, first.stderr) == (6, "")
        said = json.loads(first.stdout)
        assert said["held"] == ["groups", "events", "persons"]
        assert (said["balanced"], said["events"]["accepted"], said["events"]["unsent"]) == (False, 7, 59)
        assert said["phases"]["identities"] == {
            "made": 7, "accepted": 7, "refused": 0, "in_doubt": 0, "already_settled": 0, "unsent": 0,
        }  # fmt: skip
        assert said["phases"]["events"] == {
            "made": 0, "accepted": 0, "refused": 0, "in_doubt": 0, "already_settled": 0, "unsent": 40,
        }  # fmt: skip
        assert service.count() == 7
        second = applied(directory, service.url, "--phases", " events, groups")
        assert second.returncode == 6
        assert "Left out by --phases: persons, 7 events. Run again without --phases" in second.stdout
        assert service.count() == 59
        told = json.loads(status(directory, "--json"))
        assert (told["state"], told["phases"]["events"]["accepted"]) == ("stopped", 40)
        assert told["phases"]["persons"]["unsent"] == 7
        rows = [line.split() for line in status(directory).splitlines() if line.startswith(PHASES)]
        assert rows == [
            ["identities", "7", "0", "0"], ["groups", "12", "0", "0"], ["events", "40", "0", "0"],
            ["persons", "0", "0", "7"],
        ]  # fmt: skip
        last = applied(directory, service.url, "--phases", "persons,events,groups,identities", "--json")
        assert last.returncode == 0
        assert json.loads(last.stdout)["phases"]["persons"]["accepted"] == 7
        assert json.loads(last.stdout)["events"] == {
            "made": 66, "accepted": 7, "refused": 0, "in_doubt": 0, "already_settled": 59, "unsent": 0,
        }  # fmt: skip
        assert service.select("select count(*) from raw_events") == [(66,)]
    assert json.loads(status(directory, "--json"))["state"] == "sent"


@pytest.mark.parametrize(
    ("phases", "told"),
    [
        ("events", "the phase events needs the phase identities first, and 7 events of identities are not settled"),
        ("identities,events", "the phase events needs the phase groups first, and 12 events of groups are not settled"),
        (
            "identities,groups,persons",
            "the phase persons needs the phase events first, and 40 events of events are not settled",
        ),
    ],
)
def test_a_phase_asked_for_too_early_is_refused(tmp_path: Path, phases: str, told: str) -> None:
    """Exit 4 before a byte leaves, with the command that would work; a dry run says the same."""
    directory = planned_in_phases(tmp_path)
    with serving(scripted(Reply())) as server:
        done = applied(directory, server.url, "--phases", phases)
        dry = applied(directory, server.url, "--phases", phases, "--dry-run")
        assert server.asked == []
    lines = done.stderr.splitlines()
    assert (done.returncode, lines[0]) == (4, f"Error: {told}; nothing was sent")
    needed = [one for one in PHASES if one in phases.split(",") or one in told.split("needs")[1]]
    assert lines[1] == f"Try: send {told.split()[6]} first, or both together: --phases {','.join(needed)}"
    assert (dry.returncode, dry.stderr) == (done.returncode, done.stderr)


def test_a_phase_in_doubt_is_not_over(tmp_path: Path) -> None:
    """Merges whose answers were lost hold events back, as unsent merges do; refused ones do not."""
    directory = planned_in_phases(tmp_path)
    answers = {"identities": Response(ResponseKind.RETRY, 0)}

    def send(body: bytes) -> Response:
        return answers.get(phase_of_body(body), OK)

    retry_policy = SendLimits(1, RetryPolicy(tries=0, first=0))
    assert run_to(directory, CallDestination(send), send_limits=retry_policy).counts.in_doubt
    plan, place = open_plan(directory)
    request = "http://127.0.0.1:1", Secret(KEY), ApplyOptions(phases=("groups", "events"))
    with pytest.raises(UnsafePlan, match="needs the phase identities first, and 7 events of identities"):
        check_send(plan, place, *request)
    answers["identities"] = Response(ResponseKind.POISON, 400, taken=False)
    left: set[int] = set()
    outcome = run_to(
        directory, CallDestination(send), send_limits=SendLimits(1, AT_ONCE), phases=["identities"],
        progress=lambda counts: left.add(counts.other_phases),
    )  # fmt: skip
    assert left == {59}
    assert (outcome.counts.phases["identities"].refused, outcome.omitted_phases) == (7, ("groups", "events", "persons"))
    check_send(plan, place, *request)


@pytest.mark.parametrize(
    ("phases", "told"),
    [
        ("identites", "'identites' is not a phase; did you mean 'identities'?"),
        ("identities,merges", "'merges' is not a phase"),
        ("identities,", "'' is not a phase"),
    ],
)
def test_an_unknown_phase_is_a_usage_error(tmp_path: Path, phases: str, told: str) -> None:
    """Exit 2; the error has the nearest phase and all phases."""
    done = applied(tmp_path, "http://127.0.0.1:1", "--phases", phases)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"Error: {told}", "Try: the phases are identities, groups, events, persons",
    ]  # fmt: skip


def test_merges_need_their_number_before_anything_is_asked(tmp_path: Path) -> None:
    """To a remote target, a missing or wrong number is exit 4 and no request; with the number they are sent."""
    directory = planned_in_phases(tmp_path)
    with serving(scripted(Reply())) as server:
        to = afar(server.url)
        missing = applied(directory, to, "--yes")
        wrong = applied(directory, to, "--yes", "--approve-merges", "6")
        assert server.asked == []
        dry = applied(directory, to, "--dry-run", "--approve-merges", "7")
        done = applied(directory, to, "--yes", "--approve-merges", "7")
        assert len({event["uuid"] for one in server.asked for event in one.events}) == 66
    assert [one.returncode for one in (missing, wrong, dry, done)] == [4, 4, 0, 0]
    hint = f"Try: review {directory}/report.html and identities.parquet next to it; then give --approve-merges 7"
    assert missing.stderr.splitlines() == [
        "Error: the plan sends 7 merges, which cannot be undone and were not approved; nothing was sent", hint,
    ]  # fmt: skip
    assert wrong.stderr.splitlines() == [
        "Error: --approve-merges is 6, but the plan sends 7 merges; nothing was sent", hint,
    ]  # fmt: skip


def test_merges_that_are_not_sent_now_need_no_approval(tmp_path: Path) -> None:
    """On this machine, in a dry run, and if the merges were sent before or another phase is sent, no number is asked
    for. The number to be typed counts the chosen phases and names them."""
    directory = planned_in_phases(tmp_path)
    with serving(scripted(Reply())) as server:
        to = afar(server.url)
        said = applied(directory, to, "--phases", "identities,groups", "--approve-merges", "7")
        assert (said.returncode, server.asked) == (2, [])
        assert "Phases: identities 7, groups 12." in said.stderr
        assert "Type the number of events (19) to send them" in said.stderr
        for words, code in (
            (["--dry-run"], 0),
            (["--yes", "--phases", "groups"], 6),
            (["--yes"], 4),
            (["--yes", "--phases", "identities", "--approve-merges", "7"], 6),
            (["--yes"], 0),
        ):
            assert applied(directory, to, *words).returncode == code, words
        assert len(server.asked) == len({one.body for one in server.asked})
        home = planned_in_phases(tmp_path / "home")
        forget(home)
        assert applied(home, server.url, "--approve-merges", "8").returncode == 4
        assert applied(home, server.url).returncode == 0


ANSWERS = st.lists(st.sampled_from(ANY_ANSWERS), max_size=25)
CHOICES = st.lists(st.sampled_from(PHASES), min_size=1, unique=True)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planned_in_phases(tmp_path_factory.mktemp("phases"), 16, groups=9, persons=7, batch=3)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    script=ANSWERS,
    choices=st.lists(CHOICES, max_size=4),
    concurrency=st.integers(1, 4),
)
def test_every_run_of_some_phases_balances_and_resumes(
    small: Path, script: list[Response], choices: list[list[str]], concurrency: int
) -> None:
    """Whatever a service answers and whatever phases are held, each run balances, by phase too, and in the end
    everything is sent once."""
    plan, place = open_plan(small)
    forget(small)
    answers = iter(script)
    lock = threading.Lock()
    taken: Counter[str] = Counter()
    arrived: list[str] = []

    def send(body: bytes) -> Response:
        with lock:
            response = next(answers, OK)
            if response.kind is ResponseKind.SETTLED:
                taken.update(json.loads(event)["uuid"] for event in unpack(body))
                arrived.append(phase_of_body(body))
            return response

    send_limits = SendLimits(concurrency, RetryPolicy(tries=1, first=0))
    for phases in [*choices, *[PHASES] * 40]:
        request = "http://127.0.0.1:1", Secret(KEY), ApplyOptions(phases=tuple(phases))
        try:
            check_send(plan, place, *request)
        except UnsafePlan:
            continue
        outcome = run_to(small, CallDestination(send), send_limits=send_limits, phases=phases)
        assert balances(outcome, plan)
        total = ResultCounts()
        for name, one in outcome.counts.phases.items():
            assert one.made <= plan.events.phases[name]
            for field in ("accepted", "refused", "in_doubt", "already_settled"):
                setattr(total, field, getattr(total, field) + getattr(one, field))
            assert name in phases or one.accepted == 0
        assert all(getattr(total, one) == getattr(outcome.counts, one) for one in ResultCounts.__struct_fields__)
        if outcome.balanced:
            break
    assert outcome.balanced
    refused = {uuid for (uuid,) in in_ledger(small, "select uuid from refused_events")}
    assert set(taken.values()) <= {1}
    assert len(taken) + len(refused) == plan.events.made
    assert in_order([one for one in arrived if one != "groups"])
    assert in_order([one for one in arrived if one in ("groups", "events")])


@pytest.mark.parametrize("phase", PHASES)
def test_a_run_killed_in_a_phase_is_finished_by_the_next(tmp_path: Path, phase: str) -> None:
    """SIGKILL during the second request of each phase: the same events land, few of them twice."""
    directory = planned_in_phases(tmp_path, batch=2)
    begun, killed = threading.Event(), threading.Event()
    seen: Counter[str] = Counter()

    def answer(asked: Asked) -> Reply:
        assert begun.wait(30)
        mine = phase_of(asked.events[0])
        seen[mine] += 1
        if mine == phase and seen[mine] == 2 and not killed.is_set():
            killed.set()
            process.kill()
            return Reply(0)
        return Reply()

    with serving(answer) as server:
        process = forked(run, directory, server.url)
        begun.set()
        assert ended(process) == -9
        doubtful = states(directory)
        assert {one for one, found in doubtful.items() if "begun" in found} == {phase}
        sent = len(server.asked)
        assert applied(directory, server.url, "--json").returncode == 0
        arrived = Counter(event["uuid"] for one in server.asked for event in one.events)
        again = [phase_of(one.events[0]) for one in server.asked[sent:]]
    assert len(arrived) == 66
    assert sum(arrived.values()) - 66 <= 2 * 4 * 2
    assert in_order(again)
    assert again[0] == phase


def test_the_progress_line_names_the_phase_and_leaves_held_ones_out(capsys: pytest.CaptureFixture[str]) -> None:
    """It shows the share of what this run has to do: 7 of 26 merges and groups, while 40 events are held."""
    now = [100.0]
    with Sending(66, quiet=False, clock=lambda: now[0]) as progress:
        progress(RunCounts(phase="identities", other_phases=40))
        now[0] += EVERY
        progress(RunCounts(phase="groups", other_phases=40, accepted=13))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Sending groups 50%: 13 settled")
    assert "30s left" in line
