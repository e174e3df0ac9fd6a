"""Verify compares what landed with the ledger, event by event, and names what is not as it should be."""

from __future__ import annotations

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
from pipeline.ledger import Ledger, read_doubts, read_summary, read_totals
from pipeline.management import ManagementClient
from pipeline.options import UndoListOptions
from pipeline.plan.sealed.freshness import open_plan
from pipeline.report.results import verify_result
from pipeline.report.verification_words import copies
from pipeline.verify.findings import CellCounts, FoundCounts
from pipeline.verify.landed import landed_cells, landed_pages, windows
from tests.support.deliveries import Asked, Reply, identities, in_ledger, passed_on, planned, run, serving, uuid
from tests.support.rehearsal import event, send
from tests.support.verification import COPY, PERSONAL, Sent, empty, sent_rows


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_what_was_applied_is_proved(tmp_path: Path, zone: str) -> None:
    """After an apply every event is found once, merges included, and nothing else, whatever the project's zone.

    Scratch files are removed afterwards, and the ledger is as it was.
    """
    one = sent_rows(tmp_path, 120, links=True, room=empty(project_timezone=zone))
    before = sorted(path.name for path in one.directory.iterdir())
    found = one.verify()
    made = open_plan(one.directory)[0].events.made
    assert found.proved
    assert found.events == FoundCounts(made, made)
    assert found.cells == CellCounts(found.cells.match)
    assert found.cells.match > 3
    assert found.differences == []
    assert "ledger.sqlite" in before
    assert sorted(path.name for path in one.directory.iterdir()) == before
    assert in_ledger(one.directory, "select count(*) from runs") == [(1,)]


def test_copies_that_collapse_are_not_differences(tmp_path: Path) -> None:
    """Batches whose answer was lost are stored twice; they are counted, and verify still succeeds."""
    directory, room = planned(tmp_path, 60, batch=10), empty()
    lost: set[bytes] = set()

    def answer(asked: Asked) -> Reply:
        reply = passed_on(room.url, asked.body)
        if asked.body not in lost and len(lost) < 3:
            lost.add(asked.body)
            return Reply(0)
        return reply

    with serving(answer) as server:
        assert run(directory, server.url, key=room.key()).balanced
    found = Sent(directory, room, server.url).verify()
    assert found.proved
    assert (found.events.found, found.events.copies) == (60, 30)
    assert "sent 3 requests (30 events) again after no answer came" in copies(verify_result(found))


def test_copies_of_another_plan_are_not_called_requests_that_were_sent_again(tmp_path: Path) -> None:
    """Two plans of the same events were sent without a lost answer: the copies are counted, and no cause is
    invented."""
    room, directories = empty(), []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        directories.append(planned(tmp_path / name, 60, batch=10))
        assert run(directories[-1], room.url, key=room.key()).balanced
    found = Sent(directories[-1], room, room.url).verify()
    assert (found.proved, found.events.found, found.events.copies) == (True, 60, 60)
    said = copies(verify_result(found))
    assert said.startswith("60 more copies were accepted, equal to another")
    assert not any(cause in said for cause in ("lost", "again", "answer"))


def test_a_request_that_never_left_is_not_a_lost_answer(tmp_path: Path) -> None:
    """The first run finds no server at the address: nothing was sent twice, and `status` shows the failures
    nevertheless."""
    directory, room = planned(tmp_path, 20, batch=10), empty()
    ledger, limits = directory / "ledger.sqlite", SendLimits(1, RetryPolicy(tries=1, first=0))
    with serving(lambda asked: passed_on(room.url, asked.body)) as server:
        pass
    assert not run(directory, server.url, key=room.key(), send_limits=limits).balanced
    with serving(lambda asked: passed_on(room.url, asked.body), port=server.port):
        assert run(directory, server.url, key=room.key()).balanced
    assert read_doubts(ledger) == (0, 0)
    assert [one.status for one in read_summary(ledger).failures] == [None]


@pytest.mark.parametrize(("status", "taken", "there"), [(400, False, 9), (0, True, 10), (0, False, 0)])
def test_refused_events_and_doubts_are_not_differences(tmp_path: Path, status: int, taken: bool, there: int) -> None:
    """A refused event did not land, as the ledger says; a batch without an answer may have landed or not."""
    directory, room = planned(tmp_path, 10, files=1), empty()

    def answer(asked: Asked) -> Reply:
        bad = status == 0 or any(event["uuid"] == uuid(4) for event in asked.events)
        passed = passed_on(room.url, asked.body) if taken or not bad else Reply()
        return Reply(status) if bad else passed

    with serving(answer) as server:
        outcome = run(directory, server.url, key=room.key(), send_limits=SendLimits(1, RetryPolicy(tries=0, first=0)))
    assert (outcome.counts.refused, outcome.counts.in_doubt) == ((1, 0) if status else (0, 10))
    found = Sent(directory, room, server.url).verify()
    assert (found.proved, found.events.expected, found.events.found) == (True, there, there)


def test_a_plan_of_which_nothing_was_sent_is_not_proved(tmp_path: Path) -> None:
    """Without a ledger, and after runs that never reached the service: there is nothing to verify or to undo."""
    one = Sent(planned(tmp_path, 10), empty())
    for tried in (False, True):
        if tried:
            limits = SendLimits(1, RetryPolicy(tries=1, first=0))
            for _ in range(2):
                run(one.directory, "http://127.0.0.1:9", key=one.room.key(), send_limits=limits)
            assert read_totals(one.directory / "ledger.sqlite").batches_retried == 0
        with pytest.raises(UsageError, match="nothing to verify"):
            one._replace(to="http://127.0.0.1:9" if tried else "").verify()
        with pytest.raises(UsageError, match="nothing to undo"):
            api.list_sent(one.directory, UndoListOptions())


def test_every_difference_is_counted_and_few_are_named(tmp_path: Path) -> None:
    one = sent_rows(tmp_path, 100)
    one.lose(*range(100))
    found = one.verify()
    assert (found.events.missing, len(found.differences)) == (100, 20)


def test_more_events_than_a_page_are_read_page_by_page(tmp_path: Path) -> None:
    """45,000 events of a single day, in pages of at most 20,000, all found."""
    room = empty()
    send(room, event("u"))
    store = room.service.store._writer
    store.execute(
        "insert into accepted select project, -receipt - number, uuid(), event, distinct_id, timestamp, properties,"
        f" historical_migration, created_at from accepted, range(44999) all_(number) where project = {room.project}"
    )
    with ManagementClient(room.url, Secret(PERSONAL), str(room.project)) as client:
        cells = landed_cells(client)
        pages = [rows for rows, _ in landed_pages(client, cells)]
    store.execute(f"delete from accepted where project = {room.project}")
    assert cells.total() == 45_000
    assert [len(page) for page in pages] == [19_999, 19_999, 5_002]
    assert len({one[0] for page in pages for one in page}) == 45_000


def test_pages_of_any_size_have_every_row_once(tmp_path: Path) -> None:
    one = sent_rows(tmp_path, 40)
    one.change(COPY.format(uuid="uuid", event="'Twin'", time="timestamp", which=f"uuid < '{uuid(20)}'"))
    expected = one.landed()
    assert len(expected) > 40
    assert identities(40) <= expected
    with ManagementClient(one.room.url, Secret(PERSONAL), str(one.room.project)) as client:
        for page in (3, 1000):
            cells = landed_cells(client, page)
            rows = Counter(each[:4] for read, _ in landed_pages(client, cells, page) for each in read)
            assert rows == dict.fromkeys(expected, 1), page


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["a", "b"]), st.dates(date(2020, 1, 1), date(2020, 3, 1))), st.integers(1, 50)
    ),
    st.integers(1, 60),
)
def test_windows_cover_every_day_once_and_stay_small(cells: dict[tuple[str, date], int], page: int) -> None:
    """Windows are in order, do not overlap, cover each day, and have a page at most or a single day."""
    counts = Counter({(event, str(day)): count for (event, day), count in cells.items()})
    days = Counter[date]()
    for (_, day), count in cells.items():
        days[day] += count
    found = list(windows(counts, page))
    covered = [day for first, last in found for day in sorted(days) if first <= day <= last]
    assert covered == sorted(days)
    for first, last in found:
        assert first == last or sum(days[day] for day in days if first <= day <= last) <= page


def test_what_cannot_be_asked_says_why(tmp_path: Path) -> None:
    """A wrong key (exit 5), a service that is down (exit 6), another target than the ledger's, and, for a remote
    target, a project that is not named: nothing is guessed, and nothing is asked."""
    one = sent_rows(tmp_path, 3)
    with pytest.raises(Refused) as told:
        api.verify_plan(one.directory, one.room.url, personal_key="phx_wrong")
    assert (told.value.status, told.value.exit_code) == (401, 5)
    assert "phx_wrong" not in str(told.value)
    with pytest.raises(Unfinished):
        one.verify(api="http://127.0.0.1:9")
    other = "http://127.0.0.1:9"
    with pytest.raises(BrokenLedger, match=f"belongs to the target {one.room.url} .*, not to {other}"):
        one._replace(to=other).verify()
    for to in ("us", "https://eu.i.posthog.com", "nonsense"):
        with pytest.raises(UsageError):
            api.verify_plan(planned(tmp_path / "unsent", 3), to, personal_key="phx_any")
    assert one.verify().proved


def test_nothing_is_compared_while_a_run_sends(tmp_path: Path) -> None:
    """What it sends meanwhile would count as events from another sender."""
    one = sent_rows(tmp_path, 20)
    plan, place = open_plan(one.directory)
    with (
        closing(Ledger(place.ledger).open(plan.digest, "test", one.room.url)),
        pytest.raises(Busy, match="plan is being sent now; verify cannot compare events while they are being sent"),
    ):
        one.verify()
    assert one.verify().proved
