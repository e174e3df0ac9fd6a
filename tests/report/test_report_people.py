"""Who is who, for the person who signs a plan off: every merge with its row, nothing hostile, no property values."""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.api import plan_export
from pipeline.errors import UnsafePlan
from pipeline.identity.identities import SCHEMA
from pipeline.identity.rules import Decision, Reason
from pipeline.options import PlanOptions
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.report.contents import Results, build_report
from pipeline.report.page.html import render
from pipeline.report.pairs import some_pairs
from pipeline.report.results import SentCounts
from pipeline.report.state import read_status
from pipeline.report.terminal import steps
from pipeline.report.wording import DECISIONS, REASONS
from pipeline.text import printable
from tests.golden.report.small_plan import REHEARSAL, plan_directory, small_plan
from tests.support.rendered import HOSTILE, Page, printed

AS_OF = 1_767_225_600_000_000
"""2026-01-01: the instant of every plan here."""
SHOWN = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\\x1b[31m\\u202e[red]{{ 7*7 }}"
LONG = "d" * 200
TYPES = ("company", "project", "team", "office", "region", "planet")


def call(kind: str, user: str | None = None, anonymous: str | None = None, **members: Any) -> dict[str, Any]:
    """A Segment call without a time."""
    ids = {name: one for name, one in (("userId", user), ("anonymousId", anonymous)) if one is not None}
    return {"type": kind, **ids, **members}


def track(user: str | None = None, anonymous: str | None = None, **members: Any) -> dict[str, Any]:
    return call("track", user, anonymous, event="Seen", **members)


SHARED = [track(None, "tablet"), track("ann", "tablet"), track("bob", "tablet"), track("bob", "tablet")]
CHAIN = [call("alias", "c", previousId="b"), call("alias", "b", previousId="a"), track(None, "a"), track(None, "b")]
JUNK = [track(None, "d-9"), track("null", "d-9")]
GROUPS = [
    call("group", "ann", groupId=f"key of {one}", traits={"groupType": one, "name": f"hush, {one}"}) for one in TYPES
] + [call("group", "ann", groupId="key of company", traits={"groupType": "company"}),
     call("group", "ann", groupId="null", traits={"groupType": "company"})]  # fmt: skip
STRANGERS = [
    track(None, HOSTILE),
    call("identify", "the user", HOSTILE, traits={"email": "secret@mail.example", HOSTILE: "hush, property"}),
    track(None, LONG),
    track("someone", LONG),
]
EVERYTHING = [*SHARED, *CHAIN, *JUNK, *GROUPS, *STRANGERS]


@dataclass(frozen=True)
class Seen:
    """A plan that was made, and what people and programs read of it."""

    plan: Plan
    directory: Directory
    page: str
    machine: dict[str, Any]

    @property
    def people(self) -> dict[str, Any]:
        found = self.machine["people"]
        assert isinstance(found, dict)
        return found

    def terminal(self, width: int = 200) -> str:
        return printed(steps.show_plan, self.plan, read_status(self.plan, self.directory), "plan", width=width)

    def rows(self, heading: str) -> list[list[str]]:
        """The rows of the table under a heading of the page, without its column headings."""
        return Page(self.page).tables[heading][1:]

    def text(self, heading: str) -> str:
        """The text under a heading of the page, without tables."""
        return " ".join(Page(self.page).texts[heading].split())


def planned(folder: Path, calls: list[dict[str, Any]], **asked: Any) -> Seen:
    """A plan of Segment calls, a second apart in their order, and its report."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = (
        {**one, "messageId": f"m-{at}", "timestamp": f"2023-04-20T{at // 60:02d}:{at % 60:02d}:00Z"}
        for at, one in enumerate(calls)
    )
    export = folder / "calls.jsonl"
    export.write_text("".join(json.dumps(one) + "\n" for one in rows))
    options = PlanOptions(mapping="segment", workers=0, as_of=AS_OF, **asked)
    plan = plan_export(export, folder / "plan", options)
    directory = Directory(folder / "plan")
    return Seen(plan, directory, directory.report_html.read_text(), json.loads(directory.report_json.read_bytes()))


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return planned(tmp_path_factory.mktemp("everything"), EVERYTHING)


def test_every_merge_is_shown_with_its_reason_its_count_and_its_row(everything: Seen) -> None:
    """Page, terminal and report.json have the number to approve and every decision in words, never only a code; the
    numbers add up to all pairs."""
    merges = everything.plan.events.phases["identities"]
    assert merges == 5
    assert everything.people["approve_merges"] == merges
    assert f"--approve-merges {merges}" in everything.text("Merged identities")
    assert (
        f"{merges} merged identities, which cannot be undone. 2 pairs of ids are not merged." in everything.terminal()
    )
    rows = everything.rows("Merged identities")
    assert rows == [
        ["merged", "3", "merged in the source tool"],
        ["merged", "1", "both ids in one row"],
        ["merged with the first user", "1", "the id has several users (a shared device), and this one came first"],
        ["not merged: conflict", "1", "the id belongs to another user, who came first"],
        [
            "not merged: refused",
            "1",
            "one of the ids is a placeholder such as null or anonymous, or a number that was rounded",
        ],
    ]
    assert sum(int(row[1]) for row in rows) == everything.people["identities"]["pairs"] == 7
    assert everything.rows("Shared devices") == [["tablet", "2", "3"]]
    assert everything.rows("Largest persons") == [["c", "3", "a, b"]]
    assert "and 3 more persons of several ids" in everything.text("Largest persons")
    rows = {tuple(row[:2]): row[2:] for row in everything.rows("Merge evidence")}
    assert rows["tablet", "ann"] == [
        "merged with the first user first_user", "1 row, the first: calls.jsonl:2 2023-04-20 00:01:00",
    ]  # fmt: skip
    assert rows["tablet", "bob"][0] == "not merged: conflict other_user"
    assert rows["tablet", "bob"][1].endswith("calls.jsonl:3 2023-04-20 00:02:00 to 2023-04-20 00:03:00")
    assert rows["d-9", "null"][0] == "not merged: refused junk_id"
    decisions = [one["decision"] for one in everything.people["some_pairs"]]
    assert decisions == ["merge"] * 4 + ["first_user", "conflict", "refused"]
    shown = {(one["anonymous_id"], one["user_id"]): one for one in everything.people["some_pairs"]}
    assert shown["tablet", "bob"] == {
        "decision": "conflict", "reason": "other_user", "anonymous_id": "tablet", "user_id": "bob", "events": 2,
        "where": "calls.jsonl:3", "first_seen": "2023-04-20T00:02:00Z", "last_seen": "2023-04-20T00:03:00Z",
    }  # fmt: skip
    assert set(DECISIONS) == {one.name.lower() for one in Decision}
    assert set(REASONS) == {one.name.lower() for one in Reason}


def test_tables_are_bounded_and_the_rest_is_counted(tmp_path: Path) -> None:
    """Pairs of one reason, shared devices, names of properties and the letters of an id: the page has some, and says
    so."""
    calls = [one for device in range(25) for one in (track(None, f"d-{device}"), track(f"u-{device}", f"d-{device}"))]
    seen = planned(tmp_path, [*calls, track("u-24", "d-24")])
    rows = seen.rows("Merge evidence")
    assert (len(rows), rows[0][:2]) == (10, ["d-24", "u-24"])
    assert "and 15 more in identities.parquet" in seen.text("Merge evidence")
    calls = [track(who, f"d-{one:02d}") for one in range(30) for who in (None, f"a-{one}", f"b-{one}")]
    seen = planned(tmp_path, calls)
    assert len(seen.rows("Shared devices")) == 20
    assert "The 20 with most; all pairs are in" in seen.text("Shared devices")
    traits = {f"p-{one:03d}": "hush" for one in range(250)}
    seen = planned(tmp_path, [call("identify", "u", traits=traits)])
    assert seen.rows("Profile updates")[19:] == [["p-019", "1"], ["and more than 180 more", "230"]]
    seen = planned(tmp_path, [track("u", "d" * 5_000)])
    rows = seen.rows("Merge evidence")
    assert [row[:3] for row in rows] == [["d" * 199 + "…", "u", "not merged: refused long_id"]]
    assert [one["anonymous_id"] for one in seen.people["some_pairs"]] == ["d" * 5_000]


KINDS = st.tuples(st.sampled_from(["merge", "refused"]), st.sampled_from(["stated", "junk_id", "long_id"]))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(KINDS, st.integers(1, 4)), max_size=30), st.integers(1, 7), st.integers(1, 4))
def test_a_sample_has_the_pairs_with_most_rows_of_each_reason(
    pairs: list[tuple[tuple[str, str], int]], at_once: int, most: int
) -> None:
    """However the table is cut into groups of rows, the sample is what sorting the whole table gives."""
    rows = [
        {"anonymous_id": f"d-{place}", "user_id": "u", "first_seen": None, "last_seen": None, "events": events,
         "where": f"a:{place}", "decision": kind[0], "reason": kind[1]}
        for place, (kind, events) in enumerate(pairs)
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "identities.parquet"
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path, row_group_size=at_once)
        found = [one.anonymous_id for one in some_pairs(path, most)]
    expected = []
    for kind in sorted({kind for kind, _ in pairs}):
        places = [place for place, one in enumerate(pairs) if one[0] == kind]
        expected += sorted(places, key=lambda place: (-pairs[place][1], place))[:most]
    assert found == [f"d-{place}" for place in expected]


def test_a_damaged_table_of_pairs_is_an_unsafe_plan(tmp_path: Path) -> None:
    """An identities.parquet with other columns, or one that is cut, stops the report with exit code 4."""
    seen = planned(tmp_path, SHARED)
    table = pq.read_table(seen.directory.pairs)
    pq.write_table(table.cast(SCHEMA.set(4, pa.field("events", pa.string()))), seen.directory.pairs)
    for _ in range(2):
        with pytest.raises(UnsafePlan, match=r"identities\.parquet of the plan cannot be read"):
            build_report(seen.directory, seen.plan)
        seen.directory.pairs.write_bytes(seen.directory.pairs.read_bytes()[:-9])


def test_groups_are_in_their_order_and_the_sixth_is_not_sent(everything: Seen, tmp_path: Path) -> None:
    """By rows, then by name, as the service numbers them; chosen types come first, and groups of the others are counted
    with the reason."""
    names = ["company", "office", "planet", "project", "region", "team"]
    numbers = [*(f"number {one}" for one in range(1, 6)), "not sent: the service stores 5 types"]
    rows = everything.rows("Groups")
    assert [[row[0], row[2]] for row in rows] == [[*both] for both in zip(names, numbers, strict=True)]
    assert not everything.plan.ready
    assert "State: not ready" in everything.terminal()
    seen = planned(tmp_path, EVERYTHING, group_types=("team", "company"))
    chosen = [["team", "number 1"], ["company", "number 2"], ["office", "left out"]]
    assert [[row[0], row[2]] for row in seen.rows("Groups")][:3] == chosen
    left = {row[0]: row[1] for row in seen.rows("Groups left out")}
    assert left == {"junk_group": "1", "other_type": "4"}
    assert seen.text("Groups").startswith("2 groups to send, with 4 properties")
    assert "--group-types leaves out office (" in seen.terminal()
    assert "group_types" not in {gate.name for gate in seen.plan.gates}


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("fill-only", "written as $set_once: existing values are kept"),
        ("overwrite", "written as $set: existing values are overwritten, however old the history is"),
        ("prefix=\u202eold_", "written as $set under names that start with \\u202eold_, next to the existing values"),
    ],
)
def test_the_policy_is_shown_in_words(tmp_path: Path, policy: str, words: str) -> None:
    """The page says what happens to live profiles, and how many are updated."""
    seen = planned(tmp_path, STRANGERS, profile_policy=policy)
    for said in (seen.text("Profile updates"), " ".join(seen.terminal().split())):
        assert "2 profile properties of 1 person are updated" in said
        assert f"{printable(policy)}: " in said
        assert words in said


def test_what_is_missing_is_one_line(tmp_path: Path) -> None:
    """Without profiles merges are shown as usual; without anything about people neither a heading nor an empty table
    appears."""
    seen = planned(tmp_path, STRANGERS, person_properties="none")
    assert seen.text("Profile updates").startswith("No profiles are sent (person properties: none)")
    assert "Profile updates" not in Page(seen.page).tables
    seen = planned(tmp_path, [track("u")])
    said = "No merges, no groups, no profiles to send."
    assert seen.text("People and groups").startswith(said)
    assert not {"Merged identities", "Groups", "Profile updates", "People and groups"} & Page(seen.page).tables.keys()
    assert not re.search("merge|group|profile", seen.terminal())


@pytest.mark.parametrize(
    ("switch", "words"),
    [
        ("all", "With --persons identified, anonymous ids would get none; but merges and groups need profiles"),
        ("identified", "the events of anonymous ids create no profile. The service then takes no"),
    ],
)
def test_the_switch_for_anonymous_events_is_shown_with_its_counts(tmp_path: Path, switch: str, words: str) -> None:
    """Events and ids with and without identity are counted, and the page warns of what needs a profile."""
    seen = planned(tmp_path, [*SHARED, track(None, "nobody"), track(None, "nobody")], persons=switch)
    said = seen.text("Identified and anonymous ids")
    assert "4 events of 3 identified ids, 2 events of 1 anonymous id (duplicates included)." in said
    assert words in said
    assert "merges and groups need profiles" in said


def test_what_the_service_copies_to_persons_by_itself_is_counted(tmp_path: Path) -> None:
    """The page says how many of the examined events have a property that the service promotes."""
    seen = planned(tmp_path, [track("u", context={"os": {"name": "iOS"}})])
    heading = "Properties that the service copies by itself"
    assert "In a sample of 1 event" in seen.text(heading)
    assert ["$os", "1"] in seen.rows(heading)


def test_hostile_ids_stay_text_and_no_value_is_shown(everything: Seen) -> None:
    """Names of properties and whole ids are on the review pages as text; values and the keys of groups are not."""
    page = Page(everything.page)
    assert not {tag for tag, _ in page.tags} & {"script", "img"}
    assert not {name for _, names in page.tags for name in names if name.startswith("on")}
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", everything.page)
    ids = [row[0] for row in everything.rows("Merge evidence")]
    assert {SHOWN, LONG} <= set(ids)
    assert [SHOWN, "1"] in everything.rows("Profile updates")
    assert not re.search("[\x1b\u202e]", everything.terminal(60))
    sent = everything.directory.persons.read_text() + everything.directory.groups.read_text()
    shown = everything.page + everything.directory.report_json.read_text() + everything.terminal()
    for value in ("secret@mail.example", "hush, property", "hush, team", "key of team"):
        assert value in sent
        assert value not in shown
    assert ["email", "1"] in everything.rows("Profile updates")


def test_a_rehearsal_is_counted_phase_by_phase(tmp_path: Path) -> None:
    """The page shows separately what became of merges, groups, events and profiles."""
    phases = {"identities": SentCounts(2, 2), "events": SentCounts(10, 7, 1, 2, 0, 3)}
    results = Results(msgspec.structs.replace(REHEARSAL, phases=phases))
    shown = Page(render(build_report(plan_directory(tmp_path), small_plan(), results))).tables["Rehearsal"]
    assert shown[1:] == [["identities", "2", "0", "0", "0", "0"], ["events", "7", "1", "2", "0", "3"]]
