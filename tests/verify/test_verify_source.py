"""A project of PostHog moves to another instance: history, catch-up, and the comparison of both sides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

import pipeline
from pipeline.errors import Refused, UsageError
from pipeline.fetch.run import FetchResult, fetch_export
from pipeline.options import FetchOptions, PlanOptions
from pipeline.verify.number_findings import Metric
from pipeline.verify.source_findings import SourceCell, SourceCheck
from tests.support.commands import in_process
from tests.support.deliveries import tamper
from tests.support.export_apis import FakeClock
from tests.support.hogql import like_the_real_service, refusal
from tests.support.rehearsal import Room, alias, event, identify, send
from tests.support.verification import PERSONAL, Sent, empty, sent, sent_rows

HISTORY, CATCH_UP = "2023-06-01", "2023-07-01"
"""When the events of each were ingested."""
ODD = "o'dd \"\\ id😀"


def uuid(number: int) -> str:
    return f"0188a5eb-0000-4000-8000-{number:012}"


def history() -> list[dict[str, Any]]:
    """Four people with a device each, an odd id, a placeholder, an event without a person, a recording, two groups."""
    seen = [event(f"{who}-{number % 4}", "Seen", 1 + number % 5, uuid(number), price=1.1, _os="iOS")
            for number, who in enumerate(["device", "user"] * 20)]  # fmt: skip
    people = [identify(f"user-{number}", f"device-{number}", _set={"plan": number}) for number in (1, 3)]
    people += [alias("user-1", "crm-1"), identify("user-0", "device-0")]
    groups = [
        event("user-1", "$groupidentify", _group_type=kind, _group_key=key, _group_set={"seats": 4})
        for kind, key in (("team", "red \\'x"), ("company", "acme"))
    ]
    return [
        *seen, *people, *groups,
        event(ODD, "Seen", 2, uuid(50), _groups={"company": "acme"}),
        event("null", "Seen", 2, uuid(51)),
        event("ghost", "Seen", 2, uuid(52), _process_person_profile=False),
        event("user-1", "$snapshot", 2, uuid(53)),
    ]  # fmt: skip


def later() -> list[dict[str, Any]]:
    """One event that comes late, a new person, and a merge of an old one."""
    return [
        event("device-1", "Seen", 1, uuid(60)),
        event("user-9", "Paid", 20, uuid(61)),
        identify("user-9", "device-9", 20),
        alias("user-3", "crm-3"),
    ]


class Move(NamedTuple):
    """Two projects in two services. `asked` has the queries to both."""

    folder: Path
    source: Room
    target: Room
    urls: tuple[str, str]
    asked: list[str]

    def add(self, day: str, *events: dict[str, Any]) -> None:
        """Events that the source ingests on a day."""
        send(self.source, *events)
        fixed = f"update accepted set created_at = '{day} 12:00:00.123456' where created_at > '2025-01-01'"
        tamper(self.source.service, f"{fixed} and project = {self.source.project}")

    def fetch(self, name: str, since: str, until: str, **asked: Any) -> FetchResult:
        options = FetchOptions(
            host=self.urls[0], project=str(self.source.project), extras=("people", "groups"), by="ingestion",
            window=86_400.0 * 365, first_pause=0, **asked,
        )  # fmt: skip
        clock = FakeClock().clock  # more queries than 100 a minute need no waiting here
        return fetch_export("posthog", (since, until), self.folder / name, options, environment=KEY, clock=clock)

    def plan(self, name: str, number: int, **asked: Any) -> Sent:
        """What was fetched, planned and sent."""
        asked = {"target": self.target.url, "group_types": ("company", "team"), "max_rejects": "50%"} | asked
        options = PlanOptions(mapping="posthog", workers=0, **asked)
        pipeline.plan_export(self.folder / name, self.folder / f"plan-{number}", options)
        return sent(self.folder / f"plan-{number}", self.target)

    def compare(self, last: Sent, **asked: Any) -> SourceCheck:
        asked = {"source": self.urls[0], "source_project": str(self.source.project), "api": self.urls[1]} | asked
        found = last.verify(fields="none", **asked).source
        assert isinstance(found, SourceCheck)
        return found


KEY = {"BACKCAST_POSTHOG_KEY": PERSONAL}


@pytest.fixture
def move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Move]:
    """The source is a project in New York; both services answer only what the real one would."""
    monkeypatch.setenv("BACKCAST_POSTHOG_KEY", PERSONAL)
    rooms, asked = (empty(project_timezone="America/New_York"), empty()), list[str]()
    with ExitStack() as stack:
        urls = [stack.enter_context(like_the_real_service(room.url, asked)) for room in rooms]
        yield Move(tmp_path, *rooms, (urls[0], urls[1]), asked)


def moved(move: Move) -> Sent:
    """The history and its catch-up, both sent."""
    move.add(HISTORY, *history())
    move.fetch("first", "2020-01-01", "2023-06-02")
    move.plan("first", 1, person_properties="none")
    move.add(CATCH_UP, *later())
    move.fetch("second", "2023-06-02", "2023-07-02")
    return move.plan("second", 2, profile_policy="overwrite")


def test_a_project_moves_with_its_late_events_persons_and_groups(move: Move) -> None:
    """Nothing is lost or sent twice; what the plans leave out explains the rest; the real service could answer each
    query."""
    last = moved(move)
    assert [sql for sql in move.asked if refusal(sql)] == []
    phases = json.loads((last.directory / "plan.json").read_text())["events"]["phases"]
    assert (phases["events"], phases["identities"]) == (2, 2)  # no event and no merge of the first plan again
    found = move.compare(last)
    assert [sql for sql in move.asked if refusal(sql) and "raw_events" not in sql] == []
    assert (found.differs, found.events, found.found, found.later) == (False, 46, 44, 0)
    assert (found.missing, found.different, found.extra, found.others) == (0, 0, 0, 0)
    assert found.because == {"junk_distinct_id": 1, "session_recording": 1}
    assert (found.until, found.updates) == ("2023-07-01T12:00:00.123456Z", 8)
    persons = found.persons
    assert (persons.persons, persons.ids, persons.because) == (7, 13, {"junk_distinct_id": 1})
    assert [(one.type, one.number, one.number_found, one.groups, one.missing) for one in found.groups] == [
        ("team", 0, 1, 1, 0), ("company", 1, 0, 1, 0)
    ]  # fmt: skip
    assert found.metrics.differing == 0
    landed = last.copies()
    assert all(landed[uuid(number)] == 1 for number in (0, 60, 61))


def test_what_the_source_ingested_since_is_counted_apart(move: Move) -> None:
    """Before the catch-up, its events, its new persons and the persons that it merged are no difference."""
    move.add(HISTORY, *history())
    move.fetch("first", "2020-01-01", "2023-06-02")
    first = move.plan("first", 1)
    move.add(CATCH_UP, *later())
    found = move.compare(first)
    assert (found.differs, found.later) == (False, 2)
    assert found.persons.because == {"junk_distinct_id": 1, "later": 3}


def test_planted_differences_are_found_with_their_numbers(move: Move) -> None:
    """A loss, an extra event, an id that changed, a split, a merge, a deleted person and a lost group, each once."""
    last = moved(move)
    equal = move.compare(last)
    assert not equal.differs
    one = f"and project = {move.target.project}"
    copied = f"select project, -receipt, '{uuid(70)}', event, distinct_id, \"timestamp\", properties"
    for statement in (
        f"delete from accepted where uuid in ('{uuid(0)}', '{uuid(60)}') {one}",
        f"update accepted set distinct_id = 'user-1' where uuid = '{uuid(2)}' {one}",
        f"insert into accepted {copied}, historical_migration, created_at from accepted where uuid = '{uuid(5)}' {one}",
    ):
        tamper(move.target.service, statement)
    move.target.count()  # persons are derived again before they are changed
    people = f"select any_value(person) from people_ids where distinct_id = '{{}}' {one}"
    for statement in (
        f"update people_ids set person = uuid() where distinct_id = 'crm-1' {one}",
        f"update people_ids set person = ({people.format('user-0')}) where distinct_id in ('user-9', 'device-9') {one}",
        f"delete from people_ids where distinct_id = 'crm-3' {one}",
        f"delete from group_records where key = 'acme' {one}",
    ):
        tamper(move.target.service, statement)
    tamper(move.source.service, f"delete from people_ids where distinct_id = '{ODD.replace(chr(39), chr(39) * 2)}'"
           f" and project = {move.source.project}")  # fmt: skip
    found = move.compare(last)
    assert (found.missing, found.different, found.extra) == (2, 1, 1)
    assert found.because == {"junk_distinct_id": 1, "session_recording": 1}
    kinds = {(one.kind, one.uuid) for one in found.differences if one.kind != "left_out"}
    assert kinds == {
        ("missing", uuid(0)), ("missing", uuid(60)), ("different", uuid(2)), ("extra", uuid(70))
    }  # fmt: skip
    assert SourceCell("Seen", "2023-01-01", 9, 8, 0) in found.rows
    assert found.persons.examples == [
        ("split", ["crm-1", "device-1", "user-1"]), ("missing", ["crm-3"]),
        ("merged", ["device-0", "device-9", "user-0", "user-9"]), ("extra", [ODD]),
    ]  # fmt: skip
    assert found.persons.wrong == {"extra": 1, "merged": 1, "missing": 1, "split": 1}
    assert {one.type: one.keys for one in found.groups} == {"team": [], "company": ["acme"]}
    for part in ("missing", "different", "extra", "persons", "groups", "metrics", "cells_differing"):
        assert msgspec.structs.replace(equal, **{part: getattr(found, part)}).differs, part
    assert any(isinstance(row, Metric) and row.name == "2023-01-01" for row in found.metrics.rows)
    lines = (last.directory / "source-differences.jsonl").read_text().splitlines()
    assert len(lines) == 2 + 1 + 1 + 2


def test_what_one_plan_rejects_and_another_sends_is_expected(move: Move) -> None:
    """Windows may overlap: an event that was too recent for the first plan is missing if it is lost afterwards."""
    move.add(HISTORY, *history())
    move.add(CATCH_UP, event("user-1", "Seen", 5, uuid(80)))  # the last one that the source ingested is rejected, too
    move.fetch("first", "2020-01-01", "2023-07-02")
    first = move.plan("first", 1, as_of=datetime(2023, 1, 6, tzinfo=UTC), max_rejects="90%")
    found = move.compare(first)
    assert (found.differs, found.because["recent_timestamp"], found.later) == (False, 9, 0)
    second = move.plan("first", 2, earlier=[first.directory])
    assert not move.compare(second).differs
    second.change(f"delete from accepted where uuid = '{uuid(4)}'")
    assert (move.compare(second).missing, move.compare(second, earlier=[]).missing) == (1, 1)


def test_live_events_are_no_difference_without_marks_either(move: Move) -> None:
    """A plan without provenance knows its events by their uuids alone."""
    move.add(HISTORY, *history())
    move.fetch("first", "2020-01-01", "2023-06-02")
    first = move.plan("first", 1, provenance=False)
    send(move.target, event("live-1", "Live", 25, uuid(90)))
    found = move.compare(first)
    assert (found.differs, found.others, found.found) == (False, 1, 43)
    tamper(move.source.service, f"delete from accepted where uuid = '{uuid(4)}' and project = {move.source.project}")
    found = move.compare(first)
    assert (found.others, found.extra, found.metrics.differing > 0) == (1, 1, False)
    assert found.rows == [SourceCell("Seen", "2023-01-05", 7, 8)]


def test_the_command_names_both_sides_and_ends_with_7_for_a_difference(move: Move, tmp_path: Path) -> None:
    """The terminal and the page have the numbers; the report has no ids of people."""
    last = moved(move)
    keys = KEY | {"BACKCAST_PERSONAL_KEY": PERSONAL}
    target, source = (["--to", move.target.url, "--project", str(move.target.project)],
                      ["--source", move.source.url, "--source-project", str(move.source.project)])  # fmt: skip
    words = ["verify", str(last.directory), *target, *source, "--fields", "none"]
    done = in_process(*words, env=keys)
    assert (done.returncode, "Source and target: equal, except for what is explained (2 plans)." in done.stdout) == (
        0,
        True,
    )
    last.change("delete from people_ids where distinct_id = 'crm-3'")
    done = in_process(*words, "--quiet", env=keys)
    assert (done.returncode, "ids: 1 missing." in done.stdout) == (7, True)
    assert "other numbers differ" in done.stdout
    assert "receipt" not in done.stdout
    done = in_process(*words, "--json", env=keys)
    assert (done.returncode, json.loads(done.stdout)["source"]["persons"]["wrong"]) == (7, {"missing": 1})
    assert json.loads(done.stdout)["state"] == "verified"
    report = json.loads((last.directory / "report.json").read_text())
    assert report["verification"]["source"]["persons"]["examples"] == []
    assert "Source and target" in (last.directory / "report.html").read_text()


def test_a_listing_of_people_is_paged_by_person_and_continued(move: Move, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each id is there once, in whatever pages it comes, and a person with too many ids is an error."""
    move.add(HISTORY, *history())
    whole = move.fetch("whole", "2020-01-01", "2020-01-02")  # no events
    monkeypatch.setattr("pipeline.fetch.tools.posthog.MOST_IDS", 4)
    monkeypatch.setattr("pipeline.fetch.tools.posthog.PAGE", 3)
    paged = move.fetch("paged", "2020-01-01", "2020-01-02", count=False)
    rows = [
        sorted(line for page in one.manifest.pages if page.file and page.of != "group types"
               for line in (one.folder / page.file).read_text("utf-8").splitlines())
        for one in (whole, paged)
    ]  # fmt: skip
    assert rows[0] == rows[1]
    assert len([one for one in paged.manifest.pages if one.of == "people"]) >= 3
    assert [one.counted for one in whole.manifest.pages] == [10, 2, None]
    monkeypatch.setattr("pipeline.fetch.tools.posthog.MOST_IDS", 3)
    with pytest.raises(Refused, match="has 3 ids or more"):
        move.fetch("large", "2020-01-01", "2020-01-02")


def test_what_cannot_be_compared_is_refused(move: Move, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan of another tool, a source without a project, a key that expired, and files."""
    move.add(HISTORY, *history())
    move.fetch("first", "2020-01-01", "2023-06-02")
    first = move.plan("first", 1)
    with pytest.raises(UsageError, match="is a plan of generic, whose events have other uuids"):
        move.compare(sent_rows(tmp_path / "other", 3), api=None)
    with pytest.raises(UsageError, match="files have no persons"):
        move.compare(first._replace(to=f"file:{tmp_path}"))
    with pytest.raises(UsageError, match="files have no persons"):
        move.compare(first, source=f"file:{tmp_path}")
    with pytest.raises(UsageError, match="are the same project"):
        move.compare(first, source=move.urls[1], source_project=str(move.target.project))
    for unused in ({"source_project": "1"}, {"earlier": [first.directory]}):
        with pytest.raises(UsageError, match="without --source has no effect"):
            first.verify(fields="none", **unused)
    assert move.compare(first, earlier=[first.directory]).plans == ["plan-1"]
    with pytest.raises(UsageError, match="--source needs the id of its project"):
        move.compare(first, source="eu", source_project=None)
    monkeypatch.setenv("BACKCAST_POSTHOG_KEY", "phx_test_expired")
    with pytest.raises(Refused, match="answered 401"):
        move.compare(first)
    monkeypatch.delenv("BACKCAST_POSTHOG_KEY")
    with pytest.raises(UsageError, match="BACKCAST_POSTHOG_KEY is not set"):
        move.compare(first)
