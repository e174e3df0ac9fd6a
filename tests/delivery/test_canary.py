"""`apply --canary`: a sample of whole persons is sent first and read back; the next apply sends the rest."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest

import pipeline
from pipeline import api
from pipeline.delivery.apply import SendLimits
from pipeline.delivery.retry import RetryPolicy
from pipeline.errors import UnsafePlan, UsageError
from pipeline.ledger import read_batches, read_totals
from pipeline.local_service import LocalService, Settings
from pipeline.options import ApplyOptions, PlanOptions, VerifyOptions
from pipeline.plan.canary import CanarySample, choose_canary
from pipeline.plan.sealed.freshness import open_plan, transform_config_for
from pipeline.report.contents import NO_RESULTS, results_of
from pipeline.report.results import CanaryResult
from tests.support.commands import in_process
from tests.support.deliveries import COLUMNS, Reply, forget, passed_on, planned, run, scripted, serving, tamper, uuid
from tests.support.phased_plans import TYPES, phase_of, planned_in_phases


def export_of(folder: Path, people: dict[str, list[tuple[str, int]]], **asked: Any) -> Path:
    """The plan of an export of persons, each with events (name, year), one row of each person after the other's."""
    lines: list[str] = []
    for turn in range(max(map(len, people.values()))):
        for person, events in people.items():
            for name, year in events[turn : turn + 1]:
                time = f"{year}-05-01T00:{turn // 60 % 60:02d}:{turn % 60:02d}Z"
                row = {"event": name, "distinct_id": person, "timestamp": time, "uuid": uuid(len(lines))}
                lines.append(json.dumps(row) + "\n")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "export.jsonl").write_text("".join(lines), "utf-8")
    asked = {"mapping": "generic", "settings": COLUMNS, "workers": 0} | asked
    pipeline.plan_export(folder / "export.jsonl", folder / "plan", PlanOptions(**asked))
    return folder / "plan"


def chosen(directory: Path, most: int, workers: int = 0) -> CanarySample:
    plan, place = open_plan(directory)
    return choose_canary(plan, place, transform_config_for(plan, place), most, workers=workers)


def canary_of(directory: Path) -> CanaryResult:
    plan, place = open_plan(directory)
    found = results_of(place, plan, NO_RESULTS).canary
    assert found is not None
    return found


def send_canary(directory: Path, service: LocalService, most: int) -> CanaryResult:
    options = ApplyOptions(canary=most, workers=0)
    api.apply_plan(directory, service.url, options, project_key=service.capture_key, personal_key=service.personal_key)
    return canary_of(directory)


def test_a_sample_is_of_whole_persons_who_show_every_name_and_year(tmp_path: Path) -> None:
    """A rare name of a rare year is in it, nobody is in it with a part of his events, and no more than N are."""
    people = {f"p{one}": [("Viewed", 2021), ("Bought", 2022)] for one in range(40)}
    people["rare"] = [("Viewed", 2021), ("Complained", 2019)]
    sample = chosen(export_of(tmp_path, people), 12)
    assert (sample.shown, sample.strata, sample.not_shown, sample.large) == (3, 3, [], [])
    assert sample.size <= 12
    assert sample.events["events"] == 2 * sample.persons
    (ranges,) = sample.ranges.values()
    names = [*people, *people]
    per_person = Counter(names[index] for first, last in ranges for index in range(first, last + 1))
    assert set(per_person.values()) == {2}
    assert "rare" in per_person


def test_a_sample_follows_from_the_plan_and_its_size_alone(tmp_path: Path) -> None:
    """Worker processes, and what was sent meanwhile, change nothing."""
    plan = planned(tmp_path, 60)
    first = chosen(plan, 20)
    with LocalService() as service:
        run(plan, service.url, key=service.capture_key)
    assert chosen(plan, 20, workers=1) == first


def test_a_person_with_many_events_is_taken_only_where_nobody_else_shows_a_name_and_is_named(tmp_path: Path) -> None:
    """The busy one is left out while others show the name; for a name of his own he is taken, or missed for room.
    Without room for anybody the error has the number that would do."""
    busy = [("Viewed", 2021)] * 30
    few = {f"p{one}": [("Viewed", 2021)] * 2 for one in range(5)}
    without = chosen(export_of(tmp_path / "a", {"busy": busy} | few), 50)
    assert (without.large, without.events["events"]) == ([], 10)
    own = export_of(tmp_path / "b", {"busy": [*busy, ("Exported", 2021)]} | few)
    ((id_, events, stratum),) = [(one.id, one.events, one.stratum) for one in chosen(own, 50).large]
    assert (id_, events, stratum) == ("busy", 31, "event Exported in 2021")
    small = chosen(own, 20)
    assert (small.large, small.not_shown) == ([], ["event Exported in 2021"])
    alone = export_of(tmp_path / "c", {"p1": [("Viewed", 2021)] * 7})
    with pytest.raises(UsageError, match="the smallest one that was looked at needs 7 ") as raised:
        chosen(alone, 6)
    assert raised.value.hint == "--canary 1000"


def test_merges_groups_and_profiles_of_the_chosen_are_in_the_sample(tmp_path: Path) -> None:
    """All ids of a person, the first group of each type in their order, and the profile updates; nobody else's."""
    directory = planned_in_phases(tmp_path)
    sample = chosen(directory, 24)
    with serving(scripted(Reply())) as server:
        assert run(directory, server.url, only=sample.ranges).problem is None
    events = [event for request in server.asked for event in request.events]
    assert len(events) == sample.size <= 24
    of_phase = defaultdict(list)
    for event in events:
        of_phase[phase_of(event)].append(event["properties"])
    assert [one["$group_type"] for one in of_phase["groups"]] == list(TYPES)
    users = {one["distinct_id"] for one in of_phase["events"]} - {f"device-{one}" for one in range(7)}
    assert {one["distinct_id"] for one in of_phase["identities"]} == users
    assert {one["distinct_id"] for one in of_phase["persons"]} == users
    assert len(users) == sample.persons
    rows = Counter(number % 7 for number in range(40))
    assert len(of_phase["events"]) == sum(rows[int(user.removeprefix("person-"))] for user in users)


def test_each_persons_events_arrive_in_their_order(tmp_path: Path) -> None:
    """One request after the other, whatever the concurrency, also where the first try of each fails."""
    directory = planned(tmp_path, 60, batch=10)
    seen: list[list[int]] = []
    flight: list[int] = []

    def answer(asked: Any) -> Reply:
        flight.append(asked.number)
        assert len(flight) == 1
        numbers = [event["properties"]["number"] for event in asked.events]
        known = numbers in seen
        if not known:
            seen.append(numbers)
        flight.clear()
        return Reply() if known else Reply(503)

    with serving(answer) as server:
        outcome = run(directory, server.url, only=chosen(directory, 20).ranges)
    assert outcome.problem is None
    by_person: dict[int, list[int]] = defaultdict(list)
    for number in (number for numbers in seen for number in numbers):
        by_person[number % 7].append(number)
    assert by_person
    # The plan's order: the files one after the other.
    assert all(numbers == sorted(numbers, key=lambda one: (one % 2, one)) for numbers in by_person.values())


def test_the_next_apply_sends_the_rest_and_nothing_twice(tmp_path: Path) -> None:
    """The canary is proved by itself, the plan as a whole afterwards, every event was accepted once, here by the
    endpoint that answers for each event."""
    directory = planned_in_phases(tmp_path, dialect="posthog")
    with LocalService(settings=Settings(per_event="on")) as service:
        result = send_canary(directory, service, 24)
        assert result.proved
        assert result.verification.values.compared == result.settled == result.size
        assert result.verification.people.compared == {"merges": 2, "groups": 3, "profiles": 2}
        assert send_canary(directory, service, 24).settled == result.size
        rest = api.apply_plan(directory, service.url, ApplyOptions(workers=0), project_key=service.capture_key)
        whole = api.verify_plan(
            directory, service.url, VerifyOptions(fields="all", workers=0), personal_key=service.personal_key
        )
        (copies,) = service.select("select count(*) from raw_events")
    assert (whole.proved, rest.transport) == (True, "v1")
    assert copies[0] == open_plan(directory)[0].events.made
    assert canary_of(directory).size == result.size


def test_what_an_earlier_run_left_in_doubt_is_settled_by_a_canary(tmp_path: Path) -> None:
    """Otherwise a second crash would leave more in doubt than was ever in flight."""
    directory = planned(tmp_path, 60, batch=10)
    with LocalService() as service:

        def answer(asked: Any) -> Reply:
            passed_on(service.url, asked.body)
            return Reply(0)

        with serving(answer) as server:
            once = SendLimits(1, RetryPolicy(seconds=60, tries=0, first=0))
            assert run(directory, server.url, send_limits=once).problem is not None
            (doubt, *_) = read_batches(directory / "ledger.sqlite", "begun")
        sample = chosen(directory, 10)
        ranges = {key: some for key, some in sample.ranges.items() if key[1] != doubt.block}
        assert doubt.block not in {block for _, block in ranges}
        with serving(lambda asked: passed_on(service.url, asked.body), port=server.port) as again:
            assert again.url == server.url
            run(directory, server.url, only=ranges)
    assert read_totals(directory / "ledger.sqlite").in_doubt == 0


def test_a_canary_is_refused_where_an_earlier_run_began_more_than_it_would_send(tmp_path: Path) -> None:
    """Those events would be sent again with it, and N is a promise."""
    directory = planned(tmp_path, 60, batch=10)
    with serving(lambda asked: Reply(0)) as server:
        once = SendLimits(1, RetryPolicy(seconds=60, tries=0, first=0))
        assert run(directory, server.url, send_limits=once).problem is not None
    with LocalService(port=server.port) as service:
        env = {"BACKCAST_PROJECT_KEY": service.capture_key, "BACKCAST_PERSONAL_KEY": service.personal_key}
        refused = in_process("apply", directory, "--canary", "20", "--workers", "0", "--to", service.url, env=env)
        assert service.count() == 0
    assert refused.returncode == 2
    assert "an earlier run began to send 10 events that may have arrived" in refused.stderr


def test_require_canary_wants_one_that_landed_at_this_target_as_it_was_sent(tmp_path: Path) -> None:
    """Refused without one, with one that differs, and with one of another target; sent after one that is proved."""
    directory = planned(tmp_path, 60)
    required = ApplyOptions(require_canary=True, workers=0)
    with LocalService() as service:

        def send() -> bool:
            return api.apply_plan(directory, service.url, required, project_key=service.capture_key).balanced

        with pytest.raises(UnsafePlan, match="sent no canary") as raised:
            send()
        assert raised.value.hint == f"backcast apply {directory} --to {service.url} --canary 1000"
        send_canary(directory, service, 20)
        tamper(service, "delete from accepted where uuid = (select min(uuid) from accepted)")
        assert not send_canary(directory, service, 20).proved
        with pytest.raises(UnsafePlan, match="refused or differ"):
            send()
    with LocalService() as service:
        forget(directory)
        assert send_canary(directory, service, 20).proved
        assert send()
        report = directory / "report.json"
        elsewhere = report.read_text("utf-8").replace(service.url, "http://127.0.0.1:1")
        report.write_text(elsewhere, "utf-8")
        with pytest.raises(UnsafePlan, match=r"sent its canary to http://127\.0\.0\.1:1"):
            send()


def test_the_command_ends_with_six_and_the_report_has_a_chapter(tmp_path: Path) -> None:
    """Exit 6 after a canary that landed, with the next command; 7 after one that differs; 5 after a refusal."""
    directory = planned(tmp_path, 60)
    words = ("apply", directory, "--canary", "20", "--workers", "0", "--to")
    with LocalService(faults=("poison,event=Step 1",)) as service:
        env = {"BACKCAST_PROJECT_KEY": service.capture_key}
        without = in_process(*words, service.url, env=env)
        assert (without.returncode, "BACKCAST_PERSONAL_KEY" in without.stderr) == (2, True)
        env["BACKCAST_PERSONAL_KEY"] = service.personal_key
        assert in_process(*words, service.url, "--phases", "events", env=env).returncode == 2
        assert not (directory / "ledger.sqlite").exists()
        assert in_process(*words, service.url, env=env).returncode == 5
    forget(directory)
    with LocalService() as service:
        env = {"BACKCAST_PROJECT_KEY": service.capture_key, "BACKCAST_PERSONAL_KEY": service.personal_key}
        landed = in_process(*words, service.url, env=env)
        assert landed.returncode == 6
        assert "Canary of at most 20 events: 17 events of 2 persons" in landed.stdout
        assert "The canary landed as it was sent. Send the rest" in landed.stdout
        assert "Canary sent to" in in_process("status", directory).stdout
        page = (directory / "report.html").read_text("utf-8")
        assert "<h2>Canary</h2>" in page
        assert "verified as a canary" in page
        tamper(service, "delete from accepted where uuid = (select min(uuid) from accepted)")
        differs = in_process(*words, service.url, "--json", env=env)
        assert differs.returncode == 7
        assert msgspec.json.decode(differs.stdout)["canary"]["verification"]["events"]["missing"] == 1
        assert "did not land as it was sent" in in_process("status", directory).stdout
