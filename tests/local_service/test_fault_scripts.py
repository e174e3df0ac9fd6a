"""Whatever script of faults the service follows, runs repeated until done land exactly the planned set."""

from __future__ import annotations

import gzip
import json
import shutil
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pipeline.delivery.apply import SendLimits
from pipeline.delivery.retry import RetryPolicy
from pipeline.errors import Refused, Unfinished
from pipeline.ledger import read_totals
from pipeline.local_service import Keyring, LocalService, Settings
from pipeline.local_service.faults import FaultCounts
from pipeline.local_service.keys import Project
from pipeline.plan.sealed.freshness import open_plan
from tests.support.deliveries import KEY, balances, identities, landed, planned, row, run
from tests.support.services import running, wait_for

KEYS = Keyring((Project(1, "Rehearsal", KEY),), {"phx_test": frozenset({"*"})})
ROWS = 32
MOST_RUNS = 60
PATIENCE = 0.25
"""Seconds that an answer may take; the slow faults take longer."""


PASSING = (
    *("before:408", "before:429", "before:500", "before:503,retry-after=0", "after:500", "after:504", "after:429"),
    *("lost", "reset", "truncated", "garbage:noise", "garbage:noise,stored", "garbage:html", "garbage:html,stored"),
    *("slow-answer:0.4s", "slow-body:0.4s", "slow-read:0.05s", "mix:60%", "rate:1/m", "maintenance:3"),
)
"""Faults that a run recovers from by itself."""
STOPPING = (
    *("before:401", "before:402", "before:403", "before:418", "after:402", "redirect:307,loop"),
    *("redirect:308,host=localhost", "quota:10", "quota:10,form=402"),
)
"""Faults that end a run, which is then started again."""
HOPPING = tuple(f"redirect:{status},hops={hops}" for status, hops in ((301, 1), (302, 5), (303, 2), (307, 4), (308, 3)))
LASTING = ("large:300", "large:450", "poison,event=Step 1")
"""Faults that never end."""
VERDICTS = (
    *("verdict:retry,one-in=2,retry-after=0", "verdict:retry,one-in=3,rounds=3,retry-after=0"),
    *("verdict:warning,one-in=3", "verdict:retry,retry-after=0"),
)
"""The verdicts of the per-event endpoint for some events."""
ALL = PASSING + STOPPING + HOPPING


def often(*texts: str) -> st.SearchStrategy[str]:
    """One of these faults, on some requests, for a limited time."""
    return st.builds(
        "{},every={},times={}{}".format,
        st.sampled_from(texts),
        st.integers(1, 3),
        st.integers(1, 4),
        st.sampled_from(["", ",skip=2", ",skip=5"]),
    )


ANY = often(*PASSING) | often(*PASSING) | often(*HOPPING) | often(*STOPPING) | st.sampled_from(LASTING)


@pytest.fixture(scope="module")
def per_event(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan for the per-event endpoint, which the service offers when asked."""
    return planned(tmp_path_factory.mktemp("per-event"), ROWS, batch=8, dialect="posthog")


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planned(tmp_path_factory.mktemp("scripts"), ROWS, batch=8)


def played(plan: Path, folder: Path, script: Sequence[str], seed: int, concurrency: int) -> list[FaultCounts]:
    """Apply the plan through a script, again and again until it is done; what the faults did.

    Each run balances; in between, what is settled has landed; in the end everything planned has, once collapsed.
    """
    directory = folder / "run"
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(plan, directory)
    send_limits = SendLimits(concurrency, RetryPolicy(tries=2, first=0))
    sealed, _ = open_plan(directory)
    endpoints = Settings(per_event="on")
    with running(KEYS, endpoints, faults=script, fault_seed=seed) as service:
        for _ in range(MOST_RUNS):
            outcome = run(directory, service.url, send_limits=send_limits, timeout=PATIENCE)
            assert balances(outcome, sealed)
            assert outcome.problem is None or isinstance(outcome.problem, Refused | Unfinished)
            assert read_totals(directory / "ledger.sqlite").settled <= service.count()
            if outcome.balanced:
                break
        assert outcome.balanced
        left = landed(service)
        copies = {str(uuid) for (uuid,) in service.select("select uuid from raw_events")}
        tallies = service.faults
    named = "Step 1" if "poison,event=Step 1" in script else ""
    poison = {one["uuid"] for one in map(row, range(ROWS)) if one["event"] == named}
    assert left == {one for one in identities(ROWS) if one[0] not in poison}
    assert outcome.counts.refused == len(poison)
    assert copies == {one[0] for one in left}
    return tallies


@pytest.mark.parametrize("fault", LASTING)
def test_what_never_ends_is_got_over(plan: Path, tmp_path: Path, fault: str) -> None:
    """Too large a request and a poison event, with answers lost in between."""
    tallies = played(plan, tmp_path, [fault, "lost,every=4,times=2"], 0, 2)
    assert all(tally.acted for tally in tallies)


@pytest.mark.parametrize("script", [ALL[start::9] for start in range(9)], ids="+".join)
def test_each_fault_is_got_over(plan: Path, tmp_path: Path, script: tuple[str, ...]) -> None:
    """Every fault of the list, four to a script, each acting twice; slow ones first, so that none waits for them."""
    order = sorted(script, key=lambda text: not text.startswith("slow"))
    tallies = played(plan, tmp_path, [f"{text},times=2" for text in order], 0, 1)
    assert [tally.fault for tally in tallies if tally.fault.endswith(",times=2") and not tally.acted] == []


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=st.lists(ANY, min_size=2, max_size=5), seed=st.integers(0, 999), concurrency=st.integers(1, 4))
def test_every_script_of_faults_ends_in_the_planned_set(
    plan: Path, tmp_path: Path, script: list[str], seed: int, concurrency: int
) -> None:
    """Whatever they are, and in any order."""
    played(plan, tmp_path, script, seed, concurrency)


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    script=st.lists(ANY | often(*VERDICTS), min_size=1, max_size=4),
    verdict=often(*VERDICTS),
    seed=st.integers(0, 999),
    concurrency=st.integers(1, 4),
)
@example(
    script=["before:408,every=1,times=1", "verdict:warning,one-in=3,every=1,times=1,skip=5"],
    verdict="verdict:retry,one-in=2,retry-after=0,every=1,times=1,skip=5",
    seed=0,
    concurrency=1,
)
def test_every_script_with_verdicts_ends_in_the_planned_set(
    per_event: Path, tmp_path: Path, script: list[str], verdict: str, seed: int, concurrency: int
) -> None:
    """The same if the service answers for each event."""
    played(per_event, tmp_path, [*script, verdict], seed, concurrency)


def test_two_thousand_events_through_a_service_that_fails_a_fifth(tmp_path: Path) -> None:
    """The small soak: five ways to fail, every event once, the ledger balanced, in one run."""
    directory = planned(tmp_path, 2000, batch=20)
    sealed, _ = open_plan(directory)
    with running(KEYS, faults=["mix:20%"], fault_seed=1) as service:
        outcome = run(directory, service.url, send_limits=SendLimits(8, RetryPolicy(seconds=60, first=0)))
        assert (outcome.problem, outcome.balanced, balances(outcome, sealed)) == (None, True, True)
        assert landed(service) == identities(2000)
        tallies = service.faults
        twice = service.store.raw_count() - service.count()
    assert all(tally.acted for tally in tallies)
    assert tallies[0].reached == 100 + tallies[0].acted
    assert twice == 20 * sum(tally.acted for tally in tallies if tally.fault in ("after:500", "lost", "truncated"))


EVENT = {"event": "a", "properties": {"distinct_id": "d"}, "timestamp": "2023-01-02T03:04:05Z"}
BODY = gzip.compress(json.dumps({"api_key": KEY, "batch": [EVENT]}).encode())
HEAD = f"POST /batch/ HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
TOGETHER = 6


@pytest.mark.parametrize(
    "fault",
    [
        "before:503", "maintenance:50", "rate:1/m", "poison,event=a", "large:10", "garbage:html", "redirect:307",
        "mix:100%,of=before:503",
    ],
)  # fmt: skip
def test_times_holds_for_requests_that_wait_side_by_side(fault: str) -> None:
    """Six requests have all met the fault before any of them has arrived whole; two are answered by it, four are
    taken."""
    with running(KEYS, faults=[f"{fault},times=2"]) as service, ExitStack() as open_:
        spent = 1 if fault.startswith("rate") else 0  # the requests that the rate admits come first
        for _ in range(spent):
            assert status(opened(service, open_), BODY) == 200
        asking = [opened(service, open_) for _ in range(TOGETHER)]
        wait_for(lambda: service.faults[0].reached == TOGETHER + spent)
        said = [status(one, BODY) for one in asking]
        taken = service.store.raw_count() - spent
        assert (service.faults[0].acted, taken) == (2, TOGETHER - 2)
        assert said.count(200) == TOGETHER - 2 + 2 * fault.startswith("garbage")


def opened(service: LocalService, open_: ExitStack) -> socket.socket:
    """A connection on which the head of a request was sent, and nothing of its body."""
    one = open_.enter_context(socket.create_connection(("127.0.0.1", service.port), 20))
    one.sendall(HEAD)
    return one


def status(connection: socket.socket, body: bytes) -> int:
    """Send the rest of the request; the status of the answer."""
    connection.sendall(body)
    return int(connection.recv(1 << 16).split(b" ", 2)[1])
