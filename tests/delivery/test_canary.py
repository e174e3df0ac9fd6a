"""`apply --canary`: a sample of whole people is sent first and read back; the next apply sends the rest."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

import pipeline
from pipeline import api
from pipeline.delivery.apply import SendLimits
from pipeline.delivery.retry import RetryPolicy
from pipeline.encoder.encoded import uuid_of
from pipeline.errors import UnsafePlan, UsageError
from pipeline.ledger import read_batches, read_totals
from pipeline.local_service import LocalService, Settings
from pipeline.options import ApplyOptions, PlanOptions, VerifyOptions
from pipeline.plan.requests.query import opened
from pipeline.plan.requests.store import read_events, read_requests
from pipeline.plan.sealed.directory import PHASES, Directory
from pipeline.plan.sealed.facts import Canary
from pipeline.plan.sealed.freshness import open_plan
from pipeline.report.contents import NO_RESULTS, results_of
from pipeline.report.results import CanaryResult
from tests.support.commands import in_process
from tests.support.deliveries import COLUMNS, Reply, forget, passed_on, planned, run, scripted, serving, tamper, uuid
from tests.support.phased_plans import phase_of

AS_OF = datetime(2024, 6, 1, tzinfo=UTC)


def export_of(folder: Path, people: dict[str, list[tuple[str, int]]], **asked: Any) -> Path:
    """The plan of an export with these people, each with events (name, year); their rows alternate."""
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


def chosen(directory: Path) -> Canary:
    """The canary of a plan."""
    plan, _ = open_plan(directory)
    assert isinstance(plan.canary, Canary)
    return plan.canary


def packed(directory: Path) -> list[dict[str, Any]]:
    """The events in the requests of the canary, of all phases; each of them comes before all others."""
    place = Directory(directory)
    events = []
    for phase in PHASES:
        flags = [request.canary for request in read_requests(place, phase)]
        assert flags == sorted(flags, reverse=True)
        for request, some in read_events(place, phase):
            events += [json.loads(event) for event in some] if request.canary else []
    return events


def canary_of(directory: Path) -> CanaryResult:
    plan, place = open_plan(directory)
    found = results_of(place, plan, NO_RESULTS).canary
    assert found is not None
    return found


def send_canary(directory: Path, service: LocalService) -> CanaryResult:
    options = ApplyOptions(canary=True)
    api.apply_plan(directory, service.url, options, project_key=service.capture_key, personal_key=service.personal_key)
    return canary_of(directory)


def test_a_sample_is_of_whole_people_who_show_every_name_and_year(tmp_path: Path) -> None:
    """A rare name in a rare year is in it; each person in it has all of their events there, and there are at most N
    events."""
    people = {f"p{one}": [("Viewed", 2021), ("Bought", 2022)] for one in range(40)}
    people["rare"] = [("Viewed", 2021), ("Complained", 2019)]
    directory = export_of(tmp_path, people, canary=12)
    sample = chosen(directory)
    assert (sample.shown, sample.strata, sample.not_shown, sample.large) == (3, 3, [], [])
    assert sample.size <= 12
    assert sample.events["events"] == 2 * sample.persons
    per_person = Counter(event["properties"]["distinct_id"] for event in packed(directory))
    assert set(per_person.values()) == {2}
    assert len(per_person) == sample.persons
    assert "rare" in per_person


def test_the_requests_have_every_event_once_with_a_canary_and_without(tmp_path: Path) -> None:
    """In a plan of many blocks with copies, whatever the workers; the facts of each event say where the event is."""
    people = {f"p{one}": [("Viewed", 2021), ("Bought", 2022)] * (1 + one % 5) for one in range(40)}
    plans = {
        (most, workers): export_of(tmp_path / f"{most}-{workers}", people, canary=most, workers=workers, as_of=AS_OF)
        for most, workers in ((0, 0), (12, 0), (12, 2), (500, 0))
    }
    assert open_plan(plans[12, 0])[0].digest == open_plan(plans[12, 2])[0].digest
    for directory in plans.values():
        place = Directory(directory)
        events = {(number, place): event for number, place, event in _events(place)}
        assert sorted(map(uuid_of, events.values())) == sorted(uuid(one) for one in range(240))
        with opened(place) as database:
            rows = database.rows("SELECT number, place, hi, lo, row FROM facts")
        assert {(number, at): str(UUID(int=hi << 64 | lo)) for number, at, hi, lo, _ in rows} == {
            key: uuid_of(event) for key, event in events.items()
        }
        assert sorted(row for *_, row in rows) == list(range(1, 241))


def _events(place: Directory) -> Iterator[tuple[int, int, bytes]]:
    for request, events in read_events(place, "events"):
        yield from ((request.number, index, event) for index, event in enumerate(events))


def test_a_person_with_many_events_is_taken_only_for_a_name_of_their_own_and_is_named(tmp_path: Path) -> None:
    """The busy person is left out if others show the name; for a name that no other person has they are taken, or
    reported if they do not fit. If nobody fits, the error has the number that would do."""
    busy = [("Viewed", 2021)] * 30
    few = {f"p{one}": [("Viewed", 2021)] * 2 for one in range(5)}
    without = chosen(export_of(tmp_path / "a", {"busy": busy} | few, canary=50))
    assert (without.large, without.events["events"]) == ([], 10)
    own = {"busy": [*busy, ("Exported", 2021)]} | few
    ((id_, events, stratum),) = [
        (one.id, one.events, one.stratum) for one in chosen(export_of(tmp_path / "b", own, canary=50)).large
    ]
    assert (id_, events, stratum) == ("busy", 31, "event Exported in 2021")
    small = chosen(export_of(tmp_path / "c", own, canary=20))
    assert (small.large, small.not_shown) == ([], ["event Exported in 2021"])
    alone = export_of(tmp_path / "d", {"p1": [("Viewed", 2021)] * 7}, canary=6)
    for directory, message, hint in (
        (alone, "the smallest one examined needs 7 ", "plan again with --canary 1000"),
        (planned(tmp_path / "e"), "made without a canary", "plan again with --canary 500"),
    ):
        with LocalService() as service, pytest.raises(UsageError, match=message) as raised:
            send_canary(directory, service)
        assert raised.value.hint == hint


def test_merges_groups_and_profiles_of_the_chosen_are_in_the_sample(tmp_path: Path) -> None:
    """All ids of a person, the first group of each type, the groups of their events, and their profile updates; nothing
    of other people. What is sent is the same as without a canary; the lines of the sealed files are in another order.
    """
    source = tmp_path / "export.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in segment_rows()), "utf-8")
    everything = []
    for most in (0, 24):
        directory = tmp_path / f"plan-{most}"
        options = PlanOptions(mapping="segment", workers=0, canary=most, as_of=AS_OF)
        pipeline.plan_export(source, directory, options)
        place = Directory(directory)
        everything.append(sorted(event for phase in PHASES for _, some in read_events(place, phase) for event in some))
    assert everything[0] == everything[1]
    sample = chosen(directory)
    with serving(scripted(Reply())) as server:
        assert run(directory, server.url, canary=True).problem is None
    events = [event for request in server.asked for event in request.events]
    assert events == packed(directory)
    assert len(events) == sample.size <= 24
    assert not sample.not_shown
    of_phase = defaultdict(list)
    for event in events:
        of_phase[phase_of(event)].append(event["properties"])
    users = {one["distinct_id"] for one in of_phase["persons"]}
    assert {one["distinct_id"] for one in of_phase["identities"]} == users
    assert {one["distinct_id"] for one in of_phase["events"]} == users | {f"device-{user}" for user in users}
    assert len(of_phase["events"]) == 2 * sample.persons == 2 * len(users)
    named = {("company", one["$groups"]["company"]) for one in of_phase["events"] if "$groups" in one}
    first = json.loads(place.groups.read_bytes().splitlines()[0])
    assert {(one["$group_type"], one["$group_key"]) for one in of_phase["groups"]} == {
        *named, (first["type"], first["key"]),
    }  # fmt: skip


def segment_rows() -> Iterator[dict[str, Any]]:
    """Ten users with a device, an event on each of the two, and a company."""
    for number in range(10):
        user, device = f"user-{number}", f"device-user-{number}"
        base = {"timestamp": f"2023-01-02T03:04:{number:02d}Z", "anonymousId": device}
        made = [
            {"type": "track", "event": "Seen", "properties": {}},
            {"type": "identify", "userId": user, "traits": {"plan": f"p{number}"}},
            {"type": "track", "event": "Bought", "userId": user, "context": {"groupId": f"key-{number}"}},
            {"type": "group", "userId": user, "groupId": f"key-{number}", "traits": {"name": f"Company {number}"}},
        ]
        yield from (base | one | {"messageId": f"{number}-{index}"} for index, one in enumerate(made))


def test_each_persons_events_arrive_in_their_order(tmp_path: Path) -> None:
    """One request follows the other, whatever the concurrency, also if the first try of each fails."""
    directory = planned(tmp_path, 60, batch=10, canary=20)
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
        outcome = run(directory, server.url, canary=True)
    assert outcome.problem is None
    by_person: dict[int, list[int]] = defaultdict(list)
    for number in (number for numbers in seen for number in numbers):
        by_person[number % 7].append(number)
    assert by_person
    # The plan's order: file after file.
    assert all(numbers == sorted(numbers, key=lambda one: (one % 2, one)) for numbers in by_person.values())


def test_the_next_apply_sends_the_rest_and_nothing_twice(tmp_path: Path) -> None:
    """The canary is verified by itself, and later the plan as a whole; every event was accepted once, here by the
    endpoint that answers for each event."""
    directory = planned(tmp_path, 60, links=True, dialect="posthog", canary=24)
    with LocalService(settings=Settings(per_event="on")) as service:
        result = send_canary(directory, service)
        assert result.proved
        assert result.verification.values.compared == result.settled == result.size
        assert result.verification.people.compared["merges"] == result.events["identities"] > 0
        assert send_canary(directory, service).settled == result.size
        rest = api.apply_plan(directory, service.url, ApplyOptions(), project_key=service.capture_key)
        whole = api.verify_plan(directory, service.url, VerifyOptions(fields="all"), personal_key=service.personal_key)
        (copies,) = service.select("select count(*) from raw_events")
    assert (whole.proved, rest.transport) == (True, "v1")
    assert copies[0] == open_plan(directory)[0].events.made
    assert canary_of(directory).size == result.size


def test_what_an_earlier_run_left_in_doubt_is_settled_by_a_canary(tmp_path: Path) -> None:
    """Otherwise a second crash would leave more in doubt than was ever in flight. The command refuses a canary: those
    events would be sent again with it, and N is a promise."""
    directory = planned(tmp_path, 60, batch=10, canary=20)
    with LocalService() as service:

        def answer(asked: Any) -> Reply:
            reply = passed_on(service.url, asked.body)
            return Reply(0) if asked.number == 3 else reply

        with serving(answer) as server:
            once = SendLimits(1, RetryPolicy(seconds=60, tries=0, first=0))
            assert run(directory, server.url, send_limits=once).problem is not None
            (doubt,) = read_batches(directory / "ledger.sqlite", "begun")
            assert not next(
                one for one in read_requests(Directory(directory), "events") if one.number == doubt.request
            ).canary
            env = {"BACKCAST_PROJECT_KEY": service.capture_key, "BACKCAST_PERSONAL_KEY": service.personal_key}
            refused = in_process("apply", directory, "--canary", "--to", server.url, "--api", service.url, env=env)
        assert refused.returncode == 2
        assert "an earlier run began to send 10 events that may have arrived" in refused.stderr
        sent = service.count()
        with serving(lambda asked: passed_on(service.url, asked.body), port=server.port) as again:
            assert again.url == server.url
            run(directory, server.url, canary=True)
        assert service.count() == sent
    assert read_totals(directory / "ledger.sqlite").in_doubt == 0


def test_require_canary_wants_one_that_landed_at_this_target_as_it_was_sent(tmp_path: Path) -> None:
    """Without a canary, with one that differs, and with one of another target it is refused; after a verified one it is
    sent."""
    directory = planned(tmp_path, 60, canary=20)
    required = ApplyOptions(require_canary=True)
    with LocalService() as service:

        def send() -> bool:
            return api.apply_plan(directory, service.url, required, project_key=service.capture_key).balanced

        with pytest.raises(UnsafePlan, match="sent no canary") as raised:
            send()
        assert raised.value.hint == f"send a canary first: backcast apply {directory} --to {service.url} --canary"
        send_canary(directory, service)
        tamper(service, "delete from accepted where uuid = (select min(uuid) from accepted)")
        assert not send_canary(directory, service).proved
        with pytest.raises(UnsafePlan, match="refused or differ"):
            send()
    with LocalService() as service:
        forget(directory)
        assert send_canary(directory, service).proved
        assert send()
        report = directory / "report.json"
        elsewhere = report.read_text("utf-8").replace(service.url, "http://127.0.0.1:1")
        report.write_text(elsewhere, "utf-8")
        with pytest.raises(UnsafePlan, match=r"sent its canary to http://127\.0\.0\.1:1"):
            send()


def test_the_command_ends_with_six_and_the_report_has_a_chapter(tmp_path: Path) -> None:
    """Exit 6 after a canary that landed, with the next command; 7 after one that differs; 5 after a refusal."""
    directory = planned(tmp_path, 60, canary=20)
    words = ("apply", directory, "--canary", "--to")
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
        assert ". Canary <span" in page
        assert "verified as a canary" in page
        tamper(service, "delete from accepted where uuid = (select min(uuid) from accepted)")
        differs = in_process(*words, service.url, "--json", env=env)
        assert differs.returncode == 7
        assert msgspec.json.decode(differs.stdout)["canary"]["verification"]["events"]["missing"] == 1
        assert "did not land as it was sent" in in_process("status", directory).stdout
