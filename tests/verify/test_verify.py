"""Verify compares what landed with the ledger, event by event, and names what is not as it should be."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import api
from pipeline.config import Secret
from pipeline.delivery.apply import SendLimits
from pipeline.delivery.retry import RetryPolicy
from pipeline.errors import BrokenLedger, Busy, Refused, Unfinished, UsageError
from pipeline.ledger import Ledger, read_totals
from pipeline.local_service import LocalService
from pipeline.local_service.settings import Settings
from pipeline.management import ManagementClient
from pipeline.options import UndoListOptions, VerifyOptions
from pipeline.plan.sealed.freshness import open_plan
from pipeline.verify import Verification
from pipeline.verify.comparison import COUNTS
from pipeline.verify.landed import landed_cells, landed_pages, windows
from tests.support.deliveries import Reply, identities, passed_on, planned, run, serving, tamper, uuid

pytestmark = pytest.mark.slow

NOTHING = dict.fromkeys(COUNTS, 0)
ALL_WELL = {"missing": 0, "extra": 0, "duplicated": 0, "different": 0}


def verify(
    directory: Path, service: LocalService, *, to: str = "", workers: int = 0, whole: bool = False
) -> Verification:
    """`to` is where the plan was sent, where that is not the service itself."""
    options = VerifyOptions(workers=workers, whole=whole, api=service.url)
    return api.verify_plan(directory, to or service.url, options, personal_key=service.personal_key)


def applied(directory: Path, service: LocalService) -> None:
    assert run(directory, service.url, key=service.capture_key).balanced


def kinds(found: Verification) -> list[tuple[str, str]]:
    return [(one.kind, one.uuid) for one in found.differences]


@pytest.mark.parametrize(("workers", "zone"), [(0, "UTC"), (1, "UTC"), (0, "America/New_York")])
def test_what_was_applied_is_proved(tmp_path: Path, workers: int, zone: str) -> None:
    """After an apply every event is found once, merges included, with nothing else, whatever the project's zone."""
    directory = planned(tmp_path, 120, links=True)
    with LocalService(settings=Settings(project_timezone=zone)) as service:
        applied(directory, service)
        found = verify(directory, service, workers=workers)
    made = open_plan(directory)[0].events.made
    assert found.proved
    assert found.events == NOTHING | {"expected": made, "found": made}
    assert {kind: found.cells[kind] for kind in ALL_WELL} == ALL_WELL
    assert found.cells["match"] > 3
    assert found.differences == []


def test_copies_that_collapse_are_no_difference(tmp_path: Path) -> None:
    """Batches whose answer was lost are stored twice; they are counted, and the proof stands."""
    directory = planned(tmp_path, 60, batch=10)
    with LocalService() as service:
        lost: set[bytes] = set()

        def answer(asked):  # type: ignore[no-untyped-def]
            reply = passed_on(service.url, asked.body)
            if asked.body not in lost and len(lost) < 3:
                lost.add(asked.body)
                return Reply(0)
            return reply

        with serving(answer) as server:
            assert run(directory, server.url, key=service.capture_key).balanced
        found = verify(directory, service, to=server.url)
    assert found.proved
    assert (found.events["found"], found.events["copies"]) == (60, 30)


def test_a_removed_event_is_missing(tmp_path: Path) -> None:
    """One event gone from the store is named missing, in its cell, with nothing landed under its uuid."""
    directory = planned(tmp_path, 60)
    with LocalService() as service:
        applied(directory, service)
        tamper(service, f"delete from accepted where uuid = '{uuid(17)}'")
        found = verify(directory, service)
    assert not found.proved
    assert kinds(found) == [("missing", uuid(17))]
    assert found.differences[0].landed == []
    assert (found.events["missing"], found.events["found"]) == (1, 59)
    assert {kind: found.cells[kind] for kind in ALL_WELL} == ALL_WELL | {"missing": 1}


@pytest.mark.parametrize(
    "change",
    ["distinct_id = 'somebody-else'", "event = 'Another'", "timestamp = timestamp + interval 1 microsecond"],
)
def test_a_changed_event_is_different(tmp_path: Path, change: str) -> None:
    """Another person, name or microsecond under the same uuid is one difference, neither missing nor extra."""
    directory = planned(tmp_path, 60)
    with LocalService() as service:
        applied(directory, service)
        tamper(service, f"update accepted set {change} where uuid = '{uuid(5)}'")
        found = verify(directory, service)
    assert not found.proved
    assert kinds(found) == [("different", uuid(5))]
    assert len(found.differences[0].landed) == 1
    assert (found.events["different"], found.events["missing"], found.events["extra"]) == (1, 0, 0)
    assert found.cells["different"] >= 1


def test_an_event_that_landed_on_two_days_is_duplicated(tmp_path: Path) -> None:
    """The service keeps copies of one uuid apart when their days differ: the second is a duplicate, and extra."""
    directory = planned(tmp_path, 60)
    with LocalService() as service:
        applied(directory, service)
        tamper(
            service,
            "insert into accepted select project, receipt + 1000, uuid, event, distinct_id,"
            f" timestamp + interval 1 day, properties, historical_migration, created_at from accepted"
            f" where uuid = '{uuid(9)}'",
        )
        found = verify(directory, service)
    assert not found.proved
    assert kinds(found) == [("duplicated", uuid(9))]
    assert len(found.differences[0].landed) == 2
    assert (found.events["extra"], found.events["missing"]) == (1, 0)
    assert found.cells["duplicated"] == 1


def test_an_event_nobody_planned_is_of_others(tmp_path: Path) -> None:
    """A uuid that the plan does not know is counted apart, and is no difference; in a place of our own it is one."""
    directory = planned(tmp_path, 20)
    stranger = "11111111-1111-4111-8111-111111111111"
    with LocalService() as service:
        applied(directory, service)
        tamper(
            service,
            f"insert into accepted select project, receipt + 1000, '{stranger}', event, distinct_id, timestamp,"
            f" properties, historical_migration, created_at from accepted where uuid = '{uuid(1)}'",
        )
        found = verify(directory, service)
        alone = verify(directory, service, whole=True)
    assert (found.proved, found.differences) == (True, [])
    assert found.events == NOTHING | {"expected": 20, "found": 20, "others": 1}
    assert {kind: found.cells[kind] for kind in ALL_WELL} == ALL_WELL
    assert kinds(alone) == [("extra", stranger)]
    assert (alone.events["extra"], alone.events["found"], alone.proved) == (1, 21, False)


def test_refused_events_are_not_expected(tmp_path: Path) -> None:
    """What the service refused did not land, and that is as the ledger has it."""
    directory = planned(tmp_path, 30)
    with LocalService() as service:

        def answer(asked):  # type: ignore[no-untyped-def]
            bad = any(event["uuid"] == uuid(4) for event in asked.events)
            return Reply(400, b"no") if bad else passed_on(service.url, asked.body)

        with serving(answer) as server:
            run(directory, server.url, key=service.capture_key)
        found = verify(directory, service, to=server.url)
    assert (found.proved, found.events["expected"]) == (True, 29)


@pytest.mark.parametrize("taken", [True, False])
def test_what_is_in_doubt_may_have_landed_or_not(tmp_path: Path, taken: bool) -> None:
    """A batch without an answer is no difference either way."""
    directory = planned(tmp_path, 10, files=1)
    with LocalService() as service:

        def answer(asked):  # type: ignore[no-untyped-def]
            if taken:
                passed_on(service.url, asked.body)
            return Reply(0)

        with serving(answer) as server:
            outcome = run(
                directory, server.url, key=service.capture_key, send_limits=SendLimits(1, RetryPolicy(tries=0, first=0))
            )
        assert outcome.counts.in_doubt == 10
        found = verify(directory, service, to=server.url)
    assert found.proved
    assert found.events["expected"] == found.events["found"] == (10 if taken else 0)


@pytest.mark.parametrize("tried", [False, True])
def test_a_plan_of_which_nothing_was_sent_is_not_proved(tried: bool, tmp_path: Path) -> None:
    """Without a ledger, and after a run that never reached the service: there is nothing to verify or to undo."""
    directory = planned(tmp_path, 10)
    with LocalService() as service:
        if tried:
            nowhere = "http://127.0.0.1:9"
            limits = SendLimits(1, RetryPolicy(tries=1, first=0))
            for _ in range(2):
                run(directory, nowhere, key=service.capture_key, send_limits=limits)
            assert read_totals(directory / "ledger.sqlite").batches_retried == 0
        with pytest.raises(UsageError, match="nothing to verify"):
            verify(directory, service)
        with pytest.raises(UsageError, match="nothing to take back"):
            api.list_sent(directory, UndoListOptions())


def test_every_difference_is_counted_and_few_are_named(tmp_path: Path) -> None:
    """Of 100 missing events all are counted and 20 named."""
    directory = planned(tmp_path, 100)
    with LocalService() as service:
        applied(directory, service)
        tamper(service, "delete from accepted")
        found = verify(directory, service)
    assert (found.events["missing"], len(found.differences)) == (100, 20)


def test_more_events_than_a_page_are_read_page_by_page(tmp_path: Path) -> None:
    """45,000 events of a single day, in pages of at most 20,000, all found."""
    directory = planned(tmp_path, 45_000, files=1, batch=5000)
    with LocalService() as service:
        applied(directory, service)
        tamper(service, "update accepted set timestamp = date_trunc('day', timestamp) + interval 1 hour")
        tamper(service, "update accepted set timestamp = '2023-01-02 01:00:00'")
        with ManagementClient(service.url, Secret(service.personal_key), "1") as client:
            cells = landed_cells(client)
            pages = [rows for rows, _ in landed_pages(client, cells)]
    assert cells.total() == 45_000
    assert [len(page) for page in pages] == [19_999, 19_999, 5_002]
    assert len({one[0] for page in pages for one in page}) == 45_000


@pytest.mark.parametrize("page", [3, 1000])
def test_pages_of_any_size_hold_every_row_once(tmp_path: Path, page: int) -> None:
    """Small pages and several rows of one uuid: each row comes exactly once."""
    directory = planned(tmp_path, 40)
    with LocalService() as service:
        applied(directory, service)
        tamper(
            service,
            "insert into accepted select project, receipt + 1000, uuid, 'Twin', distinct_id, timestamp, properties,"
            f" historical_migration, created_at from accepted where uuid < '{uuid(20)}'",
        )
        with ManagementClient(service.url, Secret(service.personal_key), "1") as client:
            cells = landed_cells(client, page)
            rows = Counter(one[:4] for read, _ in landed_pages(client, cells, page) for one in read)
        expected = {(one.uuid, one.event, one.distinct_id, one.timestamp) for one in service.events()}
    assert len(expected) > 40
    assert set(rows) == expected
    assert set(rows.values()) == {1}
    assert identities(40) <= expected


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["a", "b"]), st.dates(date(2020, 1, 1), date(2020, 3, 1))), st.integers(1, 50)
    ),
    st.integers(1, 60),
)
def test_windows_cover_every_day_once_and_stay_small(cells: dict[tuple[str, date], int], page: int) -> None:
    """Windows are in order, do not overlap, cover each day, and hold a page at most or a single day."""
    counts = Counter({(event, str(day)): count for (event, day), count in cells.items()})
    days = Counter[date]()
    for (_, day), count in cells.items():
        days[day] += count
    found = list(windows(counts, page))
    covered = [day for first, last in found for day in sorted(days) if first <= day <= last]
    assert covered == sorted(days)
    for first, last in found:
        assert first == last or sum(days[day] for day in days if first <= day <= last) <= page


def test_a_wrong_personal_key_is_refused(tmp_path: Path) -> None:
    """The service's 401 is exit 5, with its own words."""
    directory = planned(tmp_path, 3)
    with LocalService() as service:
        applied(directory, service)
        with pytest.raises(Refused) as told:
            api.verify_plan(directory, service.url, personal_key="phx_wrong")
    assert (told.value.status, told.value.exit_code) == (401, 5)
    assert "phx_wrong" not in str(told.value)


def test_a_service_that_is_away_is_unfinished(tmp_path: Path) -> None:
    """No answer is exit 6: run again."""
    directory = planned(tmp_path, 3)
    with LocalService() as service:
        applied(directory, service)
    with pytest.raises(Unfinished):
        api.verify_plan(directory, service.url, personal_key="phx_any")


@pytest.mark.parametrize("to", ["us", "https://eu.i.posthog.com", "nonsense"])
def test_a_project_elsewhere_has_to_be_named(tmp_path: Path, to: str) -> None:
    """Off this machine no project is guessed, and nothing is asked."""
    directory = planned(tmp_path, 3)
    with pytest.raises(UsageError):
        api.verify_plan(directory, to, personal_key="phx_any")


def test_verification_leaves_nothing_behind(tmp_path: Path) -> None:
    """Its scratch files are gone afterwards, and the ledger is as it was."""
    directory = planned(tmp_path, 20)
    with LocalService() as service:
        applied(directory, service)
        before = sorted(path.name for path in directory.iterdir())
        assert "ledger.sqlite" in before
        verify(directory, service)
    assert sorted(path.name for path in directory.iterdir()) == before
    with closing(sqlite3.connect(directory / "ledger.sqlite")) as database, database:
        assert database.execute("select count(*) from runs").fetchone() == (1,)


def test_another_target_than_the_ledgers_is_refused_before_any_query(tmp_path: Path) -> None:
    """What is at one service says nothing about what was sent to another."""
    directory = planned(tmp_path, 10)
    with LocalService() as service, LocalService() as other:
        applied(directory, service)
        with pytest.raises(BrokenLedger, match=f"belongs to target {service.url} .*, not to {other.url}"):
            verify(directory, other)
        assert verify(directory, service).proved


def test_nothing_is_compared_while_a_run_sends(tmp_path: Path) -> None:
    """What it sends meanwhile would be events that somebody else sent."""
    directory = planned(tmp_path, 20)
    with LocalService() as service:
        applied(directory, service)
        plan, place = open_plan(directory)
        with (
            closing(Ledger(place.ledger).open(plan.digest, "test", service.url)),
            pytest.raises(Busy, match="plan is being sent now, and what is sent meanwhile cannot be compared"),
        ):
            verify(directory, service)
        assert verify(directory, service).proved
