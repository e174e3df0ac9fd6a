"""Preflight asks the target about its events: where live ones begin, and which events of the plan are there already."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pipeline.config import Secret
from pipeline.errors import Unfinished
from pipeline.local_service.settings import Settings
from pipeline.management import ManagementClient
from pipeline.plan.sealed.freshness import open_plan
from pipeline.preflight.check import registered_checks
from pipeline.preflight.live import read_cells, read_live
from pipeline.preflight.matches import Comparison, Matches, compare_all, find_matches, opened
from pipeline.preflight.questions import Questions
from pipeline.preflight.run import PreflightRequest, check_target
from pipeline.preflight.target import Target
from tests.support import deliveries
from tests.support.commands import generic
from tests.support.deliveries import planned, row
from tests.support.management_service import ALL, Asking, asking, key_without
from tests.support.preflight import A, look, send
from tests.support.relays import relay
from tests.support.scripted_api import answering
from tests.support.scripted_server import Asked, Canned

LIVE = "2023-02-02T03:04:30Z"
"""In the middle of the plan's second day of events."""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 events, 100 each of Step 0, 1 and 2, on the second of January, February and March 2023."""
    return planned(tmp_path_factory.mktemp("plan"), 300)


def script(ask: Asking, rows: Sequence[dict[str, Any]]) -> None:
    """The events of a hand-made script: no uuid, no provenance."""
    send(ask, *({name: row[name] for name in ("event", "distinct_id", "timestamp")} for row in rows))


def live(name: str, moment: str, person: str = "visitor") -> dict[str, Any]:
    return {"event": name, "distinct_id": person, "timestamp": moment}


def facts(ask: Asking, directory: Path, name: str) -> dict[str, Any]:
    plan, place = open_plan(directory)
    found = check_target(PreflightRequest(ask.service.url, Secret(A), Secret(ALL)), plan, place)
    return dict(next(check for check in found.checks if check.name == name).facts)


def test_overlap_is_counted_by_day_and_name(ask: Asking, plan: Path) -> None:
    """Live events after the plan do not overlap, and the detail has the distance; live events on days of the plan, from
    the first of them on, are counted, with the plan's names and with others. Without a key that may query nothing is
    counted."""
    script(ask, [live("Step 1", "2023-03-12T03:04:59Z")])
    assert look(ask.service.url, plan)["cut_over"] == (
        "ok", "live events begin at 2023-03-12T03:04:59Z (Step 1), 10 days after the plan's last event",
    )  # fmt: skip
    assert look(ask.service.url)["cut_over"][1] == "live events begin at 2023-03-12T03:04:59Z (Step 1)"
    script(ask, [live("Step 1", LIVE), live("Step 1", LIVE), live("Other", "2023-03-02T10:00:00.5Z"),
                 live("Step 2", "2023-04-01T00:00:00Z")])  # fmt: skip
    level, detail = look(ask.service.url, plan)["cut_over"]
    assert level == "warning"
    assert "live events begin at 2023-02-02T03:04:30Z (Step 1)" in detail
    assert "on 2 days both have events, 200 of the plan and 3 live; by name: Step 1 on 1 day" in detail
    found = facts(ask, plan, "cut_over")
    assert found["first_live"] == LIVE
    assert found["days"] == [{"day": "2023-02-02", "event": "Step 1", "planned": 100, "live": 2}]
    assert found["names"] == [{"event": "Step 1", "first_live": LIVE, "days": 1, "planned": 100, "live": 2}]
    none, weak = (look(ask.service.url, plan, personal=key) for key in ("", key_without("query:read")))
    for name in ("cut_over", "already_there"):
        assert none[name] == ("unknown", "there is no personal key")
        assert weak[name] == ("unknown", "the personal key may not query the project")


def test_days_are_those_of_utc_in_a_project_of_another_zone(plan: Path) -> None:
    """In New York the live event belongs to the day before."""
    with asking(Settings(project_timezone="America/New_York")) as ask:
        script(ask, [live("Step 1", LIVE)])
        found = facts(ask, plan, "cut_over")
    assert found["first_live"] == LIVE
    assert found["days"] == [{"day": "2023-02-02", "event": "Step 1", "planned": 100, "live": 1}]


@pytest.mark.parametrize("asked", ["a preflight", "the target"])
def test_until_first_live_leaves_no_overlap(ask: Asking, here: Any, tmp_path: Path, asked: str) -> None:
    """The moment comes from the last preflight, or from the target in --for; the plan seals it."""
    directory = planned(tmp_path, 300)
    script(ask, [live("Other", "2023-02-02T03:04:30.250Z")])
    again = ["plan", tmp_path / "export", *generic(), "-o", directory, "--until", "first-live"]
    refused = here(*again)
    assert (refused.code, "backcast preflight DIR --to TARGET" in refused.err) == (2, True)
    if asked == "a preflight":
        assert here("preflight", directory, "--to", ask.service.url).code == 0
    else:
        again += ["--for", ask.service.url]
    said = here(*again)
    assert (said.code, "until the first live event, 2023-02-02T03:04:30.250Z" in said.err) == (0, True)
    plan, _ = open_plan(directory)
    assert plan.last == "2023-02-02T03:04:28Z"
    level, detail = look(ask.service.url, directory)["cut_over"]
    assert (level, "after the plan's last event" in detail) == ("ok", True)


def test_the_import_of_a_script_is_found(ask: Asking, plan: Path) -> None:
    """Its events have other uuids and the same seconds; each stands for one planned event. Too many stop an import; the
    limit is an option, and so is continuing above it."""
    script(ask, [row(number) for number in range(40)])
    found = look(ask.service.url, plan)
    level, detail = found["same_events"]
    assert level == "stop"
    assert detail.startswith("40 of 300 events of the plan are already there under other uuids")
    assert found["already_there"] == ("ok", "none of 300 events of the plan is there under their own uuids")
    same = facts(ask, plan, "same_events")
    assert same["exact"]
    assert {(one["event"], one["day"]): one["events"] for one in same["cells"]} == {
        ("Step 0", "2023-01-02"): 14, ("Step 1", "2023-02-02"): 13, ("Step 2", "2023-03-02"): 13,
    }  # fmt: skip
    assert len(same["examples"]) == 3
    for given in ({"max_already_there": "20%"}, {"allow_already_there": True}):
        assert look(ask.service.url, plan, **given)["same_events"][0] == "warning"  # type: ignore[arg-type]


OTHER = {"event": "Old name"}, {"timestamp": "2022-12-31T23:00:00Z"}, {"distinct_id": "x"}


@pytest.mark.parametrize("changed", OTHER)
def test_events_that_are_there_in_another_version_are_named(
    ask: Asking, here: Any, tmp_path: Path, changed: dict[str, str]
) -> None:
    """Their uuids are there with another name, UTC day or person, so the service would keep both: preflight, and apply
    before it sends, warn with the count and the first row."""
    directory = planned(tmp_path, 60)
    send(ask, *(row(number) | changed for number in range(7, 19)))
    level, detail = look(ask.service.url, directory)["other_versions"]
    assert level == "warning"
    assert detail.startswith("12 of 60 events are there under the same uuid with another name")
    assert "; the first, part-0.jsonl, row 5, is planned as Step 2 on 2023-03-02 and there as " in detail
    assert here("apply", directory, "--to", ask.service.url, "--allow-already-there").code == 0
    assert look(ask.service.url, directory)["other_versions"][0] == "ok"  # now the ledger says that they were sent


def refused(asked: Asked) -> Canned | None:
    """Refuses only the query of `other_versions`."""
    return Canned(400, {"detail": "no"}) if b"order by uuid, timestamp limit" in asked.body else None


def test_a_query_that_is_refused_switches_off_its_own_check_alone(ask: Asking, tmp_path: Path) -> None:
    """Whether events are there in other versions is unknown then; that events are there already is still a stop."""
    directory = planned(tmp_path, 60)
    send(ask, *map(row, range(60)))
    with relay(ask.service.url, instead=refused) as url:
        found = look(url, directory)
    assert [found[name][0] for name in ("already_there", "same_events", "other_versions")] == ["stop", "ok", "unknown"]


def test_lost_counts_do_not_pass_for_a_plan_without_events(ask: Asking, tmp_path: Path) -> None:
    """The counts by name and day decide what is asked for, so they are checked when they are read."""
    plan, directory = open_plan(planned(tmp_path, 60))
    with Target(PreflightRequest(ask.service.url, Secret(A), Secret(ALL)), plan, directory) as target:
        directory.cells.unlink()
        (check,) = (one for one in registered_checks() if one.name == "already_there")
        (found,) = check.results(target)
    assert (found.level, "cells.jsonl is missing from the plan" in found.detail) == ("unknown", True)


def test_apply_refuses_to_send_history_twice(ask: Asking, here: Any, tmp_path: Path) -> None:
    """A plan of the same export in another directory has no ledger that shows it; its own directory has."""
    first, second = planned(tmp_path / "1", 60), planned(tmp_path / "2", 60)
    assert here("apply", first, "--to", ask.service.url).code == 0
    assert look(ask.service.url, first)["already_there"][0] == "ok"
    said = here("apply", second, "--to", ask.service.url)
    assert said.code == 4
    assert "60 of 60 events of the plan are already there under their own uuids" in said.err
    assert ask.service.select("select count(*) from raw_events") == [(60,)]
    recorded = json.loads((second / "preflight.json").read_bytes())
    assert {check["name"]: check["level"] for check in recorded["checks"]}["already_there"] == "stop"
    assert (second / "preflight.json").stat().st_mode & 0o077 == 0
    assert here("apply", second, "--to", ask.service.url, "--allow-already-there").code == 0


@contextmanager
def comparing(ask: Asking, directory: Path, sample: int = 1_000) -> Iterator[Comparison]:
    """A plan and the project, whose comparison begins with a sample of this many events."""
    plan, place = open_plan(directory)
    with Target(PreflightRequest(ask.service.url, Secret(A), Secret(ALL)), plan, place) as target:
        assert target.project.known
        yield Comparison(place, target.planned_cells, target.cells, target.questions, sample=sample)


def test_a_sample_that_finds_any_leads_to_the_exact_number(ask: Asking, plan: Path) -> None:
    """By uuid and by name, person and second, with events of the plan that are equal in these three."""
    send(ask, *(row(number) for number in range(0, 300, 4)))
    again = [row(number) for number in range(0, 300, 3)]
    script(ask, again)
    key = lambda one: (one["event"], one["distinct_id"], one["timestamp"])  # noqa: E731
    waiting = Counter(key(row(number)) for number in range(300) if number % 4)
    there = Counter(map(key, again))
    for sample in (3, 1_000):
        with comparing(ask, plan, sample) as comparison, opened(comparison) as database:
            found = find_matches(comparison, database)
        assert (found.same_uuid.total(), found.complete, found.compared) == (75, True, 300)
        assert found.doubled.total() == sum(min(count, there[one]) for one, count in waiting.items())


def test_what_the_ledger_has_sent_is_not_there_already(ask: Asking, tmp_path: Path) -> None:
    """Half of a plan was sent by an earlier run; the waiting half does not match equal events in the first."""
    directory = planned(tmp_path, 120, batch=10)
    requests = count()

    def answer(asked: Any) -> Any:
        return deliveries.passed_on(ask.service.url, asked.body) if next(requests) < 6 else deliveries.Reply(401)

    with deliveries.serving(answer) as server:
        outcome = deliveries.run(directory, server.url, key=A, send_limits=deliveries.ONE_AT_A_TIME)
    assert outcome.counts.accepted == 60
    with comparing(ask, directory) as comparison, opened(comparison) as database:
        found = find_matches(comparison, database)
        assert (found.compared, found.same_uuid.total(), found.doubled.total()) == (50, 0, 0)  # ten refused for the key
        found = compare_all(comparison, database, Matches(0))
        assert (found.compared, found.same_uuid.total(), found.doubled.total()) == (50, 0, 0)
        database.run("DELETE FROM ledger")
        assert compare_all(comparison, database, Matches(0)).same_uuid.total() == 60


def test_every_size_of_page_reads_the_same(ask: Asking) -> None:
    """Counts by name and day, and by name, come in pages that lose and repeat nothing."""
    rows = [
        live(f"n{(number * 7) % 5}", f"2023-01-{1 + number % 9:02d}T00:00:{number % 60:02d}Z") for number in range(90)
    ]
    script(ask, rows)
    with ManagementClient(ask.service.url, Secret(ALL), "1") as client:
        for page in (3, 7, 20_000):
            questions = Questions(client, None, "")
            cells = read_cells(questions, "", date(2023, 1, 1), date(2023, 1, 10), page)
            found = read_live(questions, "", datetime(2023, 6, 1), page)
            assert cells.live == Counter((one["event"], one["timestamp"][:10]) for one in rows)
            assert {name: one.events for name, one in found.names.items()} == Counter(one["event"] for one in rows)
            assert found.first == min(one.first for one in found.names.values())


class Days:
    """A service that stops each query over more than this many days, and asks the first query of all to wait."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.spans: list[int] = []
        self.waited = False

    def __call__(self, asked: Asked) -> Canned:
        sql = json.loads(asked.body)["query"]["query"]
        since, until = (
            date.fromisoformat(text) for text in re.findall(r"timestamp [<>]=? toDateTime\('([-0-9]+) ", sql)
        )
        if not self.waited:
            self.waited = True
            return Canned(429, {"detail": "wait"}, headers={"Retry-After": "7"})
        self.spans.append((until - since).days)
        if self.spans[-1] > self.most:
            return Canned(504, {"code": "query_timeout"})
        day = min(until - timedelta(days=1), max(since, date(2023, 1, 5)))
        return Canned(200, {"columns": [], "types": [], "results": [[str(day), "e", self.spans[-1]]]})


def test_a_query_that_takes_too_long_is_divided_and_a_busy_service_waited_for(tmp_path: Path) -> None:
    """Each day is counted once; a later run does not ask again for what was answered."""
    service, pauses, asked = Days(2), list[float](), 0
    with answering(service) as server, ManagementClient(server.url, Secret(ALL), "1") as client:
        for times in range(2):
            questions = Questions(client, tmp_path / "answers", "a plan", pauses.append)
            cells = read_cells(questions, "", date(2023, 1, 1), date(2023, 1, 10))
            assert sum(cells.live.values()) == 9
            if times:  # only what was not answered is asked again
                assert all(span > 2 for span in service.spans[asked:])
            asked = len(service.spans)
        assert pauses == [7.0]
        assert sum(span for span in service.spans if span <= 2) == 9
        questions.forget()
        assert not (tmp_path / "answers").exists()
        service.most = 0
        with pytest.raises(Unfinished, match="504"):
            read_cells(Questions(client, None, ""), "", date(2023, 1, 1), date(2023, 1, 10))
