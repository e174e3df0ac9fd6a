"""Records by which tools say that two ids are one person: none of them is lost silently."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline.errors import MappingError, UsageError
from pipeline.mapper import compile, load
from pipeline.models import Link, PersonUpdate, SealedOptions, Skip
from tests.support.people import Rows, planned
from tests.support.small_mappings import mapper, record


def pairs(place: Path) -> dict[tuple[str, str], str]:
    """The decision on each pair."""
    rows = pq.read_table(place / "plan" / "identities.parquet").to_pylist()
    return {(row["anonymous_id"], row["user_id"]): row["decision"] for row in rows}


LINK = """events:
  Joined: {link: {kind: identify, distinct_id: [user_id, uid], other: [anon, user_id, uid, old]}}
  Said: {update: person, link: {kind: identify, distinct_id: uid, other: anon, when: {present: anon}}}
  Merged: {link: {kind: merge, of: ids}}
properties: {open: /p}
"""


@pytest.mark.parametrize(
    ("members", "made"),
    [
        ('"ids":[]', "it has no id"),
        ('"ids":["a"]', "it has only the id 'a'"),
        ('"user_id":"u","uid":"x","anon":"a"', ("u", "a")),
        ('"uid":7,"anon":"a"', ("7", "a")),
        ('"user_id":"null","uid":"u","anon":"a"', ("u", "a")),
        ('"user_id":"","uid":"u","anon":"a"', ("u", "a")),
        ('"user_id":"u","anon":"u","uid":"v"', ("u", "v")),
        ('"user_id":"u","anon":"undefined","uid":"u","old":"o"', ("u", "o")),
        ('"user_id":"u","anon":["a"],"old":"o"', ("u", "o")),
        ('"user_id":"u"', "it has only the id 'u'"),
        ('"user_id":"u","uid":"u","old":"u"', "both ids are 'u'"),
        ('"user_id":"u","old":"null"', "'null' is a placeholder"),
        ('"n":1', "it has no id"),
    ],
)
def test_the_first_candidate_that_is_not_a_placeholder_counts(members: str, made: tuple[str, str] | str) -> None:
    """On the other side, the first that is another id; a record or a list without two ids has its code."""
    name = "Merged" if "ids" in members else "Joined"
    told = mapper(LINK).map_row(record(f'{{"name":"{name}","user":"u-1","at":1609329600,"p":{{{members}}}}}'))
    if isinstance(made, str):
        assert told == Skip("incomplete_merge", made)
    else:
        assert isinstance(told, Link)
        assert (told.distinct_id, told.other) == made


def test_a_record_that_also_says_something_of_its_person_loses_no_merge_silently() -> None:
    """If it states a merge, that is, if the rule's `when` holds."""
    rows = {'"uid":"u","anon":"null"': True, '"uid":"u"': False}
    for members, lost in rows.items():
        told = mapper(LINK).map_row(record(f'{{"name":"Said","user":"u-1","at":1609329600,"p":{{{members}}}}}'))
        assert isinstance(told, PersonUpdate)
        assert [code for code, _ in told.warnings] == ["incomplete_merge"] * lost


def test_a_skip_may_be_a_warning_too() -> None:
    """The mapping can say so for rows and for events; all are counted, and one is shown with its place."""
    text = """events: {Gone: {skip: gone, warn: "a lost thing"}}
skip: {when: {is: "1", of: /bad}, code: bad, warn: "a bad thing"}
"""
    made = mapper(text)
    assert made.map_row(record('{"name":"Gone","user":"u","at":1}')) == Skip("gone", "a lost thing")
    assert made.map_row(record('{"name":"x","user":"u","at":1,"bad":1}')) == Skip("bad", "a bad thing")


def mixpanel(at: int, event: str, **named: Any) -> dict[str, Any]:
    """A row; in names of properties `_x` means `$x`."""
    properties = {f"${name[1:]}" if name.startswith("_") else name: value for name, value in named.items()}
    return {"event": event, "properties": {"time": 1_607_501_187 + at, "$insert_id": f"i{at}"} | properties}


def test_what_a_browser_sends_joins_its_two_ids_and_a_lost_merge_is_a_warning(tmp_path: Path) -> None:
    """One person, by one merge that a record states; a record without two ids counts as a skip, but not an ordinary
    one: the warning has its place."""
    rows = [
        mixpanel(0, "Open", distinct_id="anon-1", _device_id="anon-1"),
        mixpanel(1, "$identify", distinct_id="100"),
        mixpanel(2, "$merge", distinct_id="100", _distinct_ids=["100"]),
        mixpanel(3, "$identify", distinct_id="100", _anon_distinct_id="anon-1"),
        mixpanel(8, "Buy", distinct_id="100", _user_id="100", _device_id="anon-1"),
    ]
    plan = planned(tmp_path, "mixpanel", rows)
    assert (plan.events.phases["identities"], pairs(tmp_path)["anon-1", "100"]) == (1, "merge")
    assert (dict(plan.skips), dict(plan.warnings)) == ({"incomplete_merge": 2}, {"incomplete_merge": 2})
    example = plan.examples["incomplete_merge"]
    assert (example.part, example.row, example.detail) == ("0.jsonl", 2, "it has only the id '100'")


def test_a_link_of_the_row_and_the_records_own_both_count() -> None:
    """The label of the cluster is merged into the user as well."""
    row = '{"distinct_id":"label","$distinct_id_before_identity":"100","$anon_distinct_id":"anon-1","time":1607501187}'
    made = compile(load("mixpanel"), SealedOptions(as_of=0))
    told = made.map_row(record(f'{{"event":"$identify","properties":{row}}}'))
    assert isinstance(told, list)
    links = [one for one in told if isinstance(one, Link)]
    assert [(one.distinct_id, one.other) for one in links] == [("label", "100"), ("100", "anon-1")]


def amplitude(at: int, user: str | None, device: str, number: int) -> dict[str, Any]:
    """An event's row."""
    return {
        "$insert_id": f"i{at}", "event_type": "Played", "event_time": f"2021-05-03 10:00:{at:02d}.123000",
        "user_id": user, "device_id": device, "amplitude_id": number,
    }  # fmt: skip


EVENTS = [amplitude(1, None, "d-1", 222), amplitude(2, "ann", "d-2", 111)]
MERGED = [{"amplitude_id": 222, "merged_amplitude_id": 111, "merge_event_time": "2021-05-03 10:30:00"}]


def test_a_file_of_merged_ids_is_followed_and_reported(tmp_path: Path) -> None:
    """No setting is needed: the kind of file decides, and a notice names it."""
    plan = planned(tmp_path, "amplitude", EVENTS, MERGED)
    assert plan.options.settings == {"merged_ids": "yes"}
    assert [(code, where) for code, where, _ in plan.notices] == [("setting_found", "1.jsonl")]
    assert {pair for pair, decision in pairs(tmp_path).items() if decision == "merge"} >= {
        ("amplitude 222", "d-1"), ("amplitude 222", "amplitude 111"), ("amplitude 111", "ann"),
    }  # fmt: skip
    assert plan.events.phases["identities"] == 1
    sealed = [json.loads(line) for line in (tmp_path / "plan" / "identities.jsonl").read_bytes().splitlines()]
    assert [(one["distinct_id"], one["other"]) for one in sealed] == [("ann", "d-1")]


@pytest.mark.parametrize(
    ("files", "settings", "skips"),
    [((EVENTS, MERGED), {"merged_ids": "no"}, {"unfollowed_merge": 1}), ((EVENTS,), {}, {})],
)
def test_merged_ids_that_are_not_followed_are_reported(
    tmp_path: Path, files: tuple[Rows, ...], settings: dict[str, str], skips: dict[str, int]
) -> None:
    """Nothing is sent to join ids that no event has; without such a file the setting does not change."""
    plan = planned(tmp_path, "amplitude", *files, settings=settings)
    assert (plan.events.phases["identities"], dict(plan.skips), dict(plan.options.settings)) == (0, skips, settings)
    assert not skips or "--set merged_ids=yes" in plan.examples["unfollowed_merge"].detail
    assert plan.notices == []


def test_a_value_that_a_setting_does_not_have_is_refused() -> None:
    """The error has the allowed values; an empty value is not allowed, and a setting without a closed set accepts
    anything."""
    for tool, name, value, allowed in (
        ("amplitude", "merged_ids", "true", "yes, no"),
        ("amplitude", "merged_ids", "YES", "yes, no"),
        ("mixpanel", "uuid", "mine", "--set uuid=posthog"),
    ):
        with pytest.raises(UsageError, match=f"does not know --set {name}={value}") as caught:
            compile(load(tool), SealedOptions(as_of=0, settings={name: value}))
        assert allowed in caught.value.hint
        compile(load(tool), SealedOptions(as_of=0, settings={name: ""}))
    compile(load("segment"), SealedOptions(as_of=0, settings={"group_type": "team"}))
    with pytest.raises(MappingError, match="has no key 'values'"):
        mapper("settings: {a: {says: b, values: c}}")
