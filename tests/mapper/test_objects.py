"""Verbs for what the operator names, for objects made of a name, for ranks, and for rows that are refused."""

from __future__ import annotations

import pytest

from pipeline.models import RejectReason, UnvalidatedEvent
from tests.support.small_mappings import ROW, mapper, properties, record

SET = "settings: {kind: a word}\nproperties:\n  drop: [name, user, at]\n  set:\n    out: "


def value(verb: str, members: str = "", **settings: str) -> str | None:
    """What a value verb gives, as JSON text; None when it is missing."""
    return properties(f"{SET}{verb}\n", members, settings=settings).get("out")


@pytest.mark.parametrize(
    ("verb", "settings", "given"),
    [
        ("{word: kind, default: company}", {}, '"company"'),
        ("{word: kind, default: company}", {"kind": "team"}, '"team"'),
        ("{word: kind, default: company}", {"kind": "a"}, '"a"'),
        ("{word: kind}", {}, None),
        ("{keyed: a, by: {word: kind, default: company}}", {}, '{"company":1.10}'),
        ("{keyed: a, by: {word: kind}}", {}, None),
        ("{keyed: b, by: {const: x}}", {}, None),
        ('{keyed: a, by: {const: "x\\"y"}}', {}, '{"x\\"y":1.10}'),
    ],
)
def test_a_word_is_the_text_itself_and_names_a_member(verb: str, settings: dict[str, str], given: str | None) -> None:
    """A word is never taken for a column; an object is missing where its name or its value is."""
    assert value(verb, '"a":1.10', **settings) == given


@pytest.mark.parametrize(
    ("verb", "members", "given"),
    [
        ("{flat: a}", '"a":{"b":{"c":{"d":1.10}},"e":[{"f":2}],"g":null,"h":{}}', '{"b_c_d":1.10,"e":[{"f":2}]}'),
        ("{flat: a, own: [b, /b/c]}", '"a":{"b":{"c":{"d":1},"x":2}}', '{"d":1,"x":2}'),
        ("{flat: a, own: [b], except: [e]}", '"a":{"b":{"e":1},"e":2}', '{"e":1}'),
        ("{flat: a, own: [b, c]}", '"a":{"d":1,"b":{"d":2},"c":{"d":3,"b_d":4}}', '{"d":1,"b_d":2,"c_d":3,"c_b_d":4}'),
        ("{flat: a}", '"a":{"b_c":1,"b":{"c":2}}', '{"b_c":1,"b_b_c":2}'),
        *(("{flat: a}", nothing, None) for nothing in ('"a":{}', "")),
    ],
)
def test_an_object_is_made_flat(verb: str, members: str, given: str | None) -> None:
    """No member is lost where two would have one name; lists stay as they are."""
    sections = f"properties:\n  drop: [name, user, at, a]\n  set:\n    out: {verb}\n"
    assert properties(sections, members).get("out") == given


def test_a_row_is_refused_with_a_sentence_and_what_shows_it() -> None:
    """The reject has the mapping's own sentence, and the row's value after it; other rows go through."""
    sections = f"{SET}{{first: [a, {{refuse: no such kind, of: b}}]}}\n"
    assert mapper(sections).map_row(record(f'{{{ROW},"b":"x"}}')) == RejectReason("bad_value", "no such kind: 'x'")
    assert mapper(sections).map_row(record(f"{{{ROW}}}")) == RejectReason("bad_value", "no such kind")
    assert value("{first: [a, {refuse: no such kind}]}", '"a":1') == "1"


@pytest.mark.parametrize(
    ("members", "given"),
    [
        ('"a":1,"b":2', "10000000002"),
        ('"a":"0","b":"7"', "7"),
        ('"a":9999999999,"b":9999999999', "99999999999999999999"),
        *((f'"a":{number},"b":1', None) for number in ("10000000000", "-1", "1.5", '"١"', '""', "null")),
    ],
)
def test_whole_numbers_rank_by_the_weightiest_first(members: str, given: str | None) -> None:
    """What is no whole number of ten plain digits has no rank."""
    assert value("{rank: [a, b]}", members) == given


def test_the_opened_object_is_given_whole_whoever_reads_of_it() -> None:
    """As it was in the row, in its order, for a spread as for a value."""
    sections = "properties:\n  open: /p\n  rest: drop\n  drop: [b]\n  set: {copy: {opened: yes}}\n"
    made = properties(sections, '"p":{"b":1.10,"a":null,"c":"x"}')
    assert made == {"a": "null", "c": '"x"', "copy": '{"b":1.10,"a":null,"c":"x"}'}


@pytest.mark.parametrize("section", ["define:\n  all: {opened: yes}\n", ""])
def test_the_whole_row_has_the_columns_that_are_read_and_dropped(section: str) -> None:
    """Wherever it stands: every section reads the row as it came."""
    source = '"@all"' if section else "{opened: yes}"
    sections = f"{section}properties:\n  drop: [name, user, at]\nperson:\n  spread_set: [{{from: {source}}}]\n"
    outcome = mapper(sections).map_row(record(f'{{{ROW},"b":1}}'), True)
    assert isinstance(outcome, UnvalidatedEvent)
    assert outcome.note is not None
    assert outcome.note.set is not None
    assert sorted(outcome.note.set) == ["at", "b", "name", "user"]
    assert list(outcome.properties) == ["b"]
