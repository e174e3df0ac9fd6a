"""`plan --replay`: what an earlier plan did not deliver is planned, and nothing that the service has is sent again."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

import pipeline
from pipeline.delivery.apply import SendLimits
from pipeline.errors import StalePlan, UnsafePlan, UsageError
from pipeline.options import PlanOptions
from pipeline.plan.sealed.freshness import open_plan
from pipeline.plan.sealed.manifest import Plan, save, seal
from pipeline.verify.provenance import provenance_of
from tests.golden.samples import GOLDEN
from tests.support.deliveries import AT_ONCE, Asked, Reply, in_ledger, passed_on, planned, run, serving
from tests.support.rehearsal import Room, event, send
from tests.support.sent_events import events_of
from tests.support.tiny_tool import write
from tests.support.verification import Sent, empty

SAMPLES = Path(__file__).parent.parent.parent / "sample_data"
AS_OF = 1_767_225_600_000_000
MAPPING = """
format: backcast.mapping/1
tool: shop
title: Rows of a shop
event: name
distinct_id: user
time: {from: at, zone: utc}
%s
properties: {%s}
"""


def landed(room: Room) -> Counter[tuple[str, str, str]]:
    """How often each (uuid, event, distinct_id) arrived, before copies collapsed."""
    return Counter(room.select("select uuid, event, distinct_id from raw_events"))


def sent(directory: Path, *faults: str) -> Counter[tuple[str, str, str]]:
    """What lands from a plan in an empty project of a service with these faults."""
    room = empty(*faults)
    limits = SendLimits(4, AT_ONCE, max_refused=1_000)
    assert run(directory, room.url, key=room.key(), send_limits=limits).unsent == 0
    return landed(room)


@pytest.mark.parametrize("sample", ["segment", "posthog"])
def test_what_was_refused_is_planned_and_lands_once(sample: str, tmp_path: Path) -> None:
    """Of events, merges, groups and profiles: two plans together deliver what one delivers to a service that refuses
    nothing, and nothing arrives twice. A replay of the replay has the rest. (A refused group comes again under the uuid
    of its content.)"""
    golden = GOLDEN[sample]
    sources = [str(SAMPLES / file) for file in golden.files]

    def planned_as(name: str, **asked: Any) -> Path:
        pipeline.plan_export(sources, tmp_path / name, PlanOptions(workers=0, **golden.asked | asked))
        return tmp_path / name

    whole = sent(planned_as("whole", as_of=AS_OF))
    deliveries = [sent(planned_as("first", as_of=AS_OF), "poison:1/2")]
    deliveries.append(sent(planned_as("second", replay=tmp_path / "first"), "poison:1/3"))
    deliveries.append(sent(planned_as("third", replay=tmp_path / "second")))
    assert all(deliveries)
    assert content(sum(deliveries, Counter())) == content(whole)
    assert set(sum(deliveries, Counter()).values()) == {1}


def content(found: Counter[tuple[str, str, str]]) -> Counter[tuple[str, str, str]]:
    """The same, without the uuids of groups."""
    return Counter(("" if event == "$group_identify" else uuid, event, id) for uuid, event, id in found.elements())


def rows(count: int) -> list[dict[str, Any]]:
    """Rows without an id of their own, some of them equal; every eleventh has a time that cannot be read."""
    made = [
        {"name": f"Step {n % 3}", "user": f"u{n % 7}", "at": f"2024-01-0{1 + n % 9}T0{n % 10}:00:{n % 60:02}Z", "n": n}
        for n in range(count)
    ]
    return [
        one | ({"at": "soon"} if number % 11 == 3 else {})
        for number, one in enumerate([*made, *made[::5], *made[::10]])
    ]


def mapping(path: Path, key: str = "", properties: str = "") -> Path:
    path.write_text(MAPPING % (key, properties))
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of such rows and its plan `first`, sent to a service that refused half of its events."""
    place = tmp_path_factory.mktemp("shop")
    write(place / "export/a.jsonl", rows(200))
    asked = PlanOptions(mapping=mapping(place / "mine.yaml"), workers=0, max_rejects="10%", as_of=AS_OF, name="Shop")
    pipeline.plan_export(str(place / "export"), place / "first", asked)
    sent(place / "first", "poison:1/2")
    return place


@pytest.fixture
def shop(made: Path, tmp_path: Path) -> Plan:
    """A copy that a test can change; the plan knows the export by its original place."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return open_plan(tmp_path / "first")[0]


def replayed(tmp_path: Path, source: Path, **asked: Any) -> Plan:
    options = PlanOptions(workers=0, max_rejects="10%", replay=tmp_path / "first", **asked)
    return pipeline.plan_export(str(source), tmp_path / "second", options)


def test_a_corrected_mapping_and_corrected_rows(shop: Plan, tmp_path: Path) -> None:
    """Equal rows without an id each have their own uuid, also if some of them were refused. Rows that were rejected and
    are corrected are sent as well; accepted rows keep the values that were sent."""
    every = events_of(tmp_path / "first")
    refused = {uuid for (uuid,) in in_ledger(tmp_path / "first", "select uuid from refused_events")}
    assert 0 < len(refused) < len(every)
    fixed = mapping(tmp_path / "fixed.yaml", properties="set: {checked: n}")
    found = replayed(tmp_path, tmp_path / "export", mapping=fixed)
    events = events_of(tmp_path / "second")
    assert {one["uuid"] for one in events} == refused
    assert len(events) == len(refused)
    assert all(one["properties"]["checked"] == one["properties"]["n"] for one in events)
    assert found.skips["already_settled"] == found.warnings["changed_since_settled"] == len(every) - len(refused)
    assert found.options.name == shop.options.name == "Shop"
    begins = f"Plan of what plan {shop.digest[:12]} did not deliver: {len(refused)} events to send"
    assert found.sentence.startswith(begins)
    assert found.event_bytes < shop.event_bytes
    corrected = [one | ({"at": "2024-02-02T00:00:00Z"} if one["at"] == "soon" else {}) for one in rows(200)]
    found = replayed(tmp_path, write(tmp_path / "corrected/a.jsonl", corrected))
    uuids = {one["uuid"] for one in events_of(tmp_path / "second")}
    assert refused < uuids
    assert len(uuids) == found.events.made == len(refused) + shop.rows.rejected
    assert uuids.isdisjoint({one["uuid"] for one in every} - refused)


@pytest.mark.usefixtures("shop")
def test_accepted_rows_under_other_uuids_stop_the_plan(tmp_path: Path) -> None:
    """Another key, another value in a row without a key, a file that is left out: each would be sent twice, or not be
    recognised. The first rows are named."""
    other = mapping(tmp_path / "keyed.yaml", "key: {of: [user, n, at]}")
    keyed = replayed(tmp_path, tmp_path / "export", mapping=other)
    (check,) = (one for one in keyed.gates if one.name == "replayed_rows")
    assert (keyed.ready, check.level) == (False, "stop")
    assert check.examples[0].startswith("row ")
    lines = rows(200)
    refused = {uuid for (uuid,) in in_ledger(tmp_path / "first", "select uuid from refused_events")}
    events = events_of(tmp_path / "first")
    accepted = next(one for one in events if one["uuid"] not in refused and one["properties"]["n"] % 5)
    where = next(n for n, one in enumerate(lines) if one["n"] == accepted["properties"]["n"])
    lines[where]["user"] = "somebody else"
    changed = replayed(tmp_path, write(tmp_path / "changed/a.jsonl", lines))
    assert [one.count for one in changed.gates if one.name == "replayed_rows"] == [1]
    part = replayed(tmp_path, write(tmp_path / "part/a.jsonl", rows(200)[:100]))
    assert "replayed_rows" in {one.name for one in part.gates}


@pytest.mark.usefixtures("shop")
def test_a_replay_is_stale_once_the_earlier_plan_went_on(tmp_path: Path) -> None:
    """Or once it is deleted: then nothing proves what the service has."""
    replayed(tmp_path, tmp_path / "export")
    in_ledger(tmp_path / "first", "update batches set state = 'waiting' where request = 0 and state = 'settled'")
    room = empty()

    def stale() -> str:
        with pytest.raises(StalePlan) as caught:
            run(tmp_path / "second", room.url, key=room.key())
        return str(caught.value)

    assert "has sent more since" in stale()
    (tmp_path / "first").rename(tmp_path / "moved")
    assert "is gone" in stale()
    with pytest.raises(StalePlan, match=r"cannot be replayed: the plan .* is gone"):
        pipeline.plan_export(str(tmp_path / "export"), tmp_path / "third", PlanOptions(replay=tmp_path / "second"))
    assert not landed(room)


@pytest.mark.usefixtures("shop")
def test_what_is_not_to_be_replayed_is_refused(tmp_path: Path) -> None:
    """With other options for uuids, with open doubts, not sent, or with nothing refused."""

    def refused(message: str, **asked: Any) -> None:
        with pytest.raises((UnsafePlan, UsageError), match=message):
            replayed(tmp_path, tmp_path / "export", **asked)

    refused("--collapse-identical differs from", collapse_identical=True)
    refused("--limit differs from", limit=3)
    in_ledger(tmp_path / "first", "update batches set state = 'begun' where request = 0 and state = 'settled'")
    refused("or in doubt")
    shutil.rmtree(tmp_path / "first")
    planned(tmp_path, 10).rename(tmp_path / "first")
    refused("10 events of .* are not sent yet")
    sent(tmp_path / "first")
    refused("nothing is left to replay")


@pytest.mark.parametrize("alone", [False, True], ids=["a shared project", "the plan's own"])
def test_what_the_replayed_plan_sent_is_expected_at_the_target(tmp_path: Path, alone: bool) -> None:
    """Its events, merges, groups and profiles have the marks of the import; they are counted separately, and raise no
    alarm. An event that neither plan sent does."""
    golden = GOLDEN["segment"]
    sources = [str(SAMPLES / file) for file in golden.files]
    pipeline.plan_export(sources, tmp_path / "first", PlanOptions(workers=0, as_of=AS_OF, **golden.asked))
    room, bad = empty(), {one["uuid"] for one in events_of(tmp_path / "first")[::2]}

    def answer(asked: Asked) -> Reply:
        return Reply(400) if any(one["uuid"] in bad for one in asked.events) else passed_on(room.url, asked.body)

    with serving(answer) as server:
        first = run(tmp_path / "first", server.url, key=room.key(), send_limits=SendLimits(1, AT_ONCE, max_refused=99))
    again = pipeline.plan_export(sources, tmp_path / "second", PlanOptions(workers=0, replay=tmp_path / "first"))
    one = Sent(tmp_path / "second", room)
    assert run(one.directory, room.url, key=room.key()).balanced
    found = one.verify(whole=alone, fields="all").events
    assert (found.replayed, found.others, found.extra) == (first.counts.accepted, 0, 0)
    assert (found.expected, found.found, found.copies) == (again.events.made, again.events.made, 0)
    send(room, event("somebody", **provenance_of(again)))
    found = one.verify(whole=alone).events
    assert (found.others, found.extra) == ((0, 1) if alone else (1, 0))
    replayed_one = events_of(tmp_path / "first")[1]["uuid"]
    send(room, event("somebody", uuid=replayed_one, **provenance_of(again)))  # in another version: it counts once
    found = one.verify(whole=alone).events
    assert (found.replayed, found.others + found.extra) == (first.counts.accepted, 2)
    plan, directory = open_plan(tmp_path / "first")
    save(directory, seal(msgspec.structs.replace(plan, tool="other")))
    other = one.verify(whole=alone).events
    directory.plan.write_text("{}")
    assert other == one.verify(whole=alone).events
    assert other.replayed == again.skips["already_settled"] < first.counts.accepted
