"""Any row and any text in a mapping: no exception, and nothing is ever code."""

from __future__ import annotations

import json
from functools import cache

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.mapper import Mapper, available, load
from pipeline.mapper import compile as compile_mapping
from pipeline.mapper.language.sections import Call, Clock, Ids, Mapping, Place, Properties
from pipeline.mapper.program.references import path_steps, references_in
from pipeline.models import GroupUpdate, Link, PersonUpdate, RejectReason, SealedOptions, Skip, UnvalidatedEvent
from tests.support.small_mappings import record

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["2023-01-02 03:04:05", "null", "{}", "[]", "-1", "1688259845"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
SETTINGS = {"event": "event", "distinct_id": "user_id", "timestamp": "time", "anonymous_id": "device_id"}


@cache
def _names(name: str) -> list[str]:
    """Every property and column that a shipped mapping names."""
    found: set[str] = set(SETTINGS.values())

    def walk(given: object) -> None:
        if isinstance(given, Call):
            found.update(references_in(given))
        elif isinstance(given, msgspec.Struct):
            for field in given.__struct_fields__:
                walk(getattr(given, field))
        elif isinstance(given, (tuple, list)):
            for one in given:
                walk(one)
        elif isinstance(given, dict):
            found.update(given)
            for one in given.values():
                walk(one)

    walk(load(name))
    return sorted(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", available())
@settings(max_examples=15, deadline=None)
@given(given_to=st.data())
def test_no_row_is_an_exception(name: str, given_to: st.DataObject) -> None:
    """Whatever JSON a row has, the mapper answers with outcomes; those of a plan are those of an apply plus notes."""
    names = st.sampled_from(_names(name))
    events = st.sampled_from([*load(name).events, "x"])
    members = given_to.draw(st.dictionaries(names, JSON, max_size=12))
    row = {key.removeprefix("/").partition("/")[0]: value for key, value in members.items()}
    opened = load(name).properties.open
    if opened is not None and given_to.draw(st.booleans()):
        column = opened.arguments.get("ref", "/columns")[1:]
        row[column] = {key: value for key, value in members.items() if not key.startswith("/")}
    for reference in references_in(load(name).event):
        if not reference.startswith("@"):
            row[path_steps(reference)[0]] = given_to.draw(events)
    made = compiled(name).map_row(record(json.dumps(row)))
    watched = compiled(name).map_row(record(json.dumps(row)))
    assert without_notes(watched) == without_notes(made)
    for outcome in made if isinstance(made, list) else [made]:
        assert isinstance(outcome, (UnvalidatedEvent, Link, Skip, RejectReason, PersonUpdate, GroupUpdate))
        if isinstance(outcome, UnvalidatedEvent):
            msgspec.json.encode(dict(outcome.properties.items()))
            assert outcome.event is None or isinstance(outcome.event, str)
            assert outcome.received is None or outcome.received < 2**63


def without_notes(made: object) -> object:
    """The outcomes of a row, without what only a plan needs."""
    if isinstance(made, list):
        return [without_notes(one) for one in made]
    if isinstance(made, (UnvalidatedEvent, PersonUpdate, GroupUpdate)):
        warnings = tuple(one for one in made.warnings if not one[1].startswith(("of a person: ", "of a group: ")))
        note = {} if isinstance(made, GroupUpdate) else {"note": None}
        bare = msgspec.structs.replace(made, warnings=warnings, **note)
        fields = msgspec.structs.asdict(bare)
        if isinstance(made, UnvalidatedEvent):
            fields["properties"] = list(made.properties.items())  # in their order, whether a dict has them or C does
        return type(made), fields
    return made


@cache
def compiled(name: str) -> Mapper:
    """A shipped mapping, compiled once."""
    zones, given = ((("America/New_York", ""),) if name == "mixpanel" else ()), SETTINGS if name == "generic" else {}
    return compile_mapping(load(name), SealedOptions(as_of=0, zones=zones, settings=given))


@given(st.text(max_size=30))
def test_nothing_in_a_mapping_is_ever_code(text: str) -> None:
    """Everything in a mapping stays data: names, constants, templates, codes."""
    at = Place("x", 1, 1)
    made = compile_mapping(
        Mapping(
            tool="shop",
            title="",
            event=Call("ref", {"ref": "/name"}, at),
            distinct_id=Ids(first=(Call("ref", {"ref": "/user"}, at),), junk=(text,)),
            time=(Clock(source=Call("ref", {"ref": "/at"}, at), unit="s"),),
            properties=Properties(
                rename={text + "1": text + "2"},
                set={text + "3": Call("const", {"const": text}, at), text + "4": Call("ref", {"ref": "x" + text}, at)},
            ),
        ),
        SealedOptions(as_of=0),
    )
    draft = made.map_row({"name": "a", "user": "somebody", "at": 1, text + "1": "v", "x" + text: "w"})
    assert isinstance(draft, UnvalidatedEvent)
    assert draft.properties[text + "2"] == "v"
    assert draft.properties[text + "3"] == text
    assert draft.properties[text + "4"] == "w"
