"""One rule, one code, one test for each side of its border."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import mapper as language
from pipeline.encoder.event import Encoder
from pipeline.extractors import blocks, open_source, rows
from pipeline.extractors.jsonl_rows import JsonlRows
from pipeline.mapper.language.loader import parse
from pipeline.models import GroupUpdate, PersonUpdate, RejectReason, SealedOptions, UnvalidatedEvent
from pipeline.options import Limits
from pipeline.transform.events import Events
from pipeline.transform.rows import RowTransformer
from pipeline.validator import rules as validate
from pipeline.validator.rules import (
    RULES,
    Rule,
    ValidationContext,
    check,
    check_update,
    event_too_large,
    fast_test,
    skip_code,
)
from pipeline.values import Record
from tests.support import tiny_tool as tiny
from tests.support.odd_mappings import FLAT
from tests.support.tiny_tool import AS_OF, HOUR, THEN

SMILE = "😀"
"""One character, two UTF-16 units, four bytes."""


def rules(**options: Any) -> ValidationContext:
    """The rules of a plan with these options."""
    return ValidationContext.of(SealedOptions(**{"as_of": AS_OF, **options}), Limits())


def draft(**members: Any) -> UnvalidatedEvent:
    """A good draft, except for these members."""
    return UnvalidatedEvent(**{"event": "Seen", "distinct_id": "u-1", "time": THEN, "properties": {}, **members})


def code_of(members: dict[str, Any], **options: Any) -> str:
    """The code for a draft, "" for a good one."""
    fault = check(draft(**members), rules(**options))
    return fault.code if fault else ""


BORDERS: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"event": None}, "missing_event"),
    ({"event": ""}, "missing_event"),
    ({"event": " \t"}, "missing_event"),
    ({"event": "x" * 200}, ""),
    ({"event": "x" * 201}, "long_event"),
    ({"event": SMILE * 100}, ""),
    ({"event": SMILE * 100 + "x"}, "long_event"),
    ({"event": "é" * 200}, ""),
    ({"distinct_id": None}, "missing_distinct_id"),
    ({"distinct_id": ""}, "missing_distinct_id"),
    ({"distinct_id": " \n"}, "missing_distinct_id"),
    ({"distinct_id": None, "placeholder_id": "null"}, "junk_distinct_id"),
    ({"distinct_id": "u-1", "placeholder_id": "null"}, ""),
    ({"distinct_id": "x" * 200}, ""),
    ({"distinct_id": "x" * 201}, "long_distinct_id"),
    ({"distinct_id": SMILE * 200}, ""),
    ({"distinct_id": SMILE * 201}, "long_distinct_id"),
    ({"distinct_id": "a\0b"}, "bad_value"),
    ({"distinct_id": "a\x01b"}, ""),
    ({"distinct_id": "9.91214E+15"}, "rounded_number"),
    ({"distinct_id": "-9,91214e+15"}, "rounded_number"),
    ({"distinct_id": "1E+15"}, "rounded_number"),
    ({"distinct_id": "$team_1.2E+15"}, "rounded_number"),
    ({"distinct_id": "1.25E+02"}, ""),
    ({"distinct_id": "9.91214E15"}, ""),
    ({"distinct_id": "ann+15"}, ""),
    ({"time": RejectReason("rounded_number", "rounded")}, "rounded_number"),
    ({"time": None}, "missing_timestamp"),
    ({"time": RejectReason("bad_timestamp", "not a time")}, "bad_timestamp"),
    ({"time": 0}, ""),
    ({"time": -1}, "ancient_timestamp"),
    ({"time": AS_OF + 1}, "future_timestamp"),
    ({"time": AS_OF}, "recent_timestamp"),
    ({"time": AS_OF - 48 * HOUR + 1}, "recent_timestamp"),
    ({"time": AS_OF - 48 * HOUR}, ""),
    ({"event": None, "distinct_id": None, "time": None}, "missing_event"),  # the first broken rule is reported
]
"""Each rule at its border: the last good value, and the next one with the rule's code."""


@pytest.mark.parametrize(("members", "expected"), BORDERS)
def test_each_rule_at_its_border(members: dict[str, Any], expected: str) -> None:
    """The last good value passes; the next one has the rule's code. The same holds on the fast path: once an event of
    that name was good, the next row of it gets the same checks."""
    assert code_of(members) == expected
    good, other = draft(key="k-1", properties={"p": 1}), draft(**{"key": "k-2", "properties": {"p": 1}, **members})
    if "event" in members and not expected:
        good.event = members["event"]
    made = walk([good, other], SealedOptions(as_of=AS_OF), Limits(), frozenset())
    assert ([reject.code for reject in made.rejects] or [""]) == [expected]
    assert made.count == 1 + (not expected)


def test_every_rule_has_a_code_of_its_own_or_says_bad_value() -> None:
    """Codes are stable: this list is the contract. With the option that accepts billing, recent events are sent; future
    ones are not."""
    times = (AS_OF, AS_OF - 1, AS_OF + 1, -1)
    codes = ["", "", "future_timestamp", "ancient_timestamp"]
    assert [code_of({"time": time}, allow_recent=True) for time in times] == codes
    assert [rule.code for rule in RULES] == [
        "missing_event", "long_event", "junk_distinct_id", "missing_distinct_id", "long_distinct_id",
        "bad_value", "rounded_number", "missing_timestamp", "bad_timestamp", "ancient_timestamp", "future_timestamp",
        "recent_timestamp", "old_timestamp", "padded_id", "person_less_id",
    ]  # fmt: skip
    codes = [
        code_of({name: "é" * 101}, dialect=form)
        for name in ("event", "distinct_id")
        for form in ("contract", "posthog")
    ]
    assert codes == ["", "long_event", "", "long_distinct_id"]


@pytest.mark.parametrize(
    ("time", "options", "expected"),
    [
        (THEN, {"since": THEN}, ""),
        (THEN - 1, {"since": THEN}, "outside_window"),
        (THEN - 1, {"until": THEN}, ""),
        (THEN, {"until": THEN}, "outside_window"),
        (THEN, {"since": THEN, "until": THEN + 1}, ""),
        (THEN, {"since": 0, "until": 0}, "outside_window"),
    ],
)
def test_the_window_is_half_open(time: int, options: dict[str, int], expected: str) -> None:
    """`since` is in, `until` is out, so that adjacent windows neither overlap nor leave a gap. People who asked to be
    forgotten are left out too: exactly these ids, none that are similar."""
    assert skip_code(time, ("u-1",), rules(**options)) == expected
    chosen = ValidationContext.of(SealedOptions(as_of=AS_OF), Limits(), frozenset({"u-1"}))
    assert [skip_code(THEN, (one,), chosen) for one in ("u-1", "U-1", "u-10", None)] == ["excluded_id", "", "", ""]


def test_an_event_may_have_900_kib_and_no_byte_more() -> None:
    """Encoded, as it is in the request. The service keeps it as JSON inside JSON, with two quotes around it and a
    backslash before each of its own, where it stays under a million. A lower limit is possible."""
    fits = b'"' * 400_000 + b"x" * 199_997
    for event, more, message in (
        (b"x" * 921_600, 921_601, "the event has 921601 bytes; the limit is 921600"),
        (fits, 599_998, "stored as text the event has 1000000 bytes; the limit is 999999"),
    ):
        assert (len(event) + 1, event_too_large(event, rules())) == (more, None)
        assert event_too_large(event + b"x", rules()) == RejectReason("event_too_large", message)
    small, large = (draft(key="k", properties={"p": "x" * length}) for length in (1, 400))
    made = walk([small, large], SealedOptions(as_of=AS_OF), Limits(event_bytes=450), frozenset())
    assert [reject.code for reject in made.rejects] == ["event_too_large"]


class FromDrafts(tiny.TinyMapper):
    """A mapper that gives a copy of the next draft for each row, since encoding may take one apart."""

    def __init__(self, drafts: list[UnvalidatedEvent]) -> None:
        super().__init__(SealedOptions(as_of=AS_OF))
        self.drafts = iter(deepcopy(drafts))

    def map_row(self, record: Record, scan: Any = None) -> UnvalidatedEvent:
        return next(self.drafts)


def walk(drafts: list[UnvalidatedEvent], options: SealedOptions, limits: Limits, excluded: frozenset[str]) -> Events:
    """What the transform makes of drafts, each in a row of its own."""
    lines = JsonlRows(b"".join(b'{"row":%d}\n' % row for row in range(len(drafts))))
    context = ValidationContext.of(options, limits, excluded)
    return RowTransformer(lines, FromDrafts(drafts), Encoder("tiny", options), context).run()


NAMES = st.sampled_from([None, "", " ", "Seen", "Seen", "Seen", "é" * 200, "x" * 201, SMILE * 101])
IDS = st.sampled_from(
    [None, "", " ", " u", "u\t", "u-1", "u-1", "u-1", "u-2", "a\0b", "\x7f", "\u2028", "é", "x" * 200, "x" * 201]
)
TIMES = st.one_of(
    st.none(),
    st.just(RejectReason("bad_timestamp", "no")),
    st.sampled_from([-1, 0, THEN, THEN, THEN, THEN + 1, AS_OF, AS_OF + 1, AS_OF - 48 * HOUR, AS_OF - 48 * HOUR + 1]),
)
DRAFTS = st.builds(
    draft,
    event=NAMES,
    distinct_id=IDS,
    time=TIMES,
    properties=st.sampled_from(["", "x" * 100, "x" * 400, "\0" * 50]).map(lambda text: {"p": text}),
    key=st.sampled_from([None, "k-1", "k-2"]),
    uuid=st.sampled_from([None, None, None, "0829736a-b140-570d-ac78-774cecf956e2"]),
    placeholder_id=st.sampled_from(["", "null"]),
    warnings=st.sampled_from([(), (), (("odd", "a warning"),)]),
)
GOOD = st.builds(
    draft,
    distinct_id=st.sampled_from(["u-1", "u-2"]),
    time=st.sampled_from([THEN - 1, THEN, THEN + 1]),
    properties=st.sampled_from(["", "x" * 400]).map(lambda text: {"p": text}),
    key=st.just("k-1"),
)
"""What the fast path is for: once the event's name is known, it decides alone."""


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(GOOD, DRAFTS), min_size=1, max_size=12),
    st.booleans(),
    st.sampled_from([(None, None), (THEN, None), (THEN, THEN + 1)]),
    st.sampled_from([frozenset[str](), frozenset({"u-2"})]),
)
def test_the_fast_path_agrees_with_the_rules(
    drafts: list[UnvalidatedEvent], allow_recent: bool, window: tuple[int | None, int | None], excluded: frozenset[str]
) -> None:
    """A row that the transform passes quickly is one that every rule passes; all others have the rule's code."""
    options = SealedOptions(as_of=AS_OF, allow_recent=allow_recent, since=window[0], until=window[1])
    limits = Limits()
    chosen = ValidationContext.of(options, limits, excluded)
    encoder = Encoder("tiny", options)
    expected: list[tuple[str, str]] = []
    for one in drafts:
        code = skip_code(one.time, (one.distinct_id,), chosen)
        fault = None if code else check(one, chosen)
        if not code and fault is None:
            written = deepcopy(one)
            written.uuid = "00000000-0000-0000-0000-000000000000"
            fault = event_too_large(encoder.encode(written), chosen)
        expected.append(
            ("skip", code) if code else ("reject", fault.code) if fault else ("event", one.distinct_id or "")
        )
    made = walk(drafts, options, limits, excluded)
    sent = [json.loads(event)["properties"]["distinct_id"] for event in made.events]
    assert sent == [name for what, name in expected if what == "event"]
    assert [reject.code for reject in made.rejects] == [name for what, name in expected if what == "reject"]
    assert sorted(made.skips.elements()) == sorted(name for what, name in expected if what == "skip")
    assert made.rows == len(drafts) == made.mapped + made.skips.total() + len(made.rejects)


ADDED: list[tuple[str, Any]] = [
    ("name", lambda draft: draft.event == "Seen"),
    ("id", lambda draft: draft.distinct_id == "u-2"),
    ("time", lambda draft: isinstance(draft.time, int) and draft.time % 2 == 1),
    ("key", lambda draft: draft.key == "k-1"),
    ("properties", lambda draft: len(draft.properties.get("p") or "") > 90),
    ("note", lambda draft: draft.note is None and draft.uuid is None),
]
"""Rules that may be added, with what each of them refuses."""


def refusing(name: str, refuses: Any) -> Any:
    """A rule without a quick test, of a code of its own."""
    return Rule(f"added_{name}", "reject", "refused", lambda draft, context: "refused" if refuses(draft) else None)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_rule_that_is_added_applies_to_every_row(data: st.DataObject) -> None:
    """Wherever it is among the rules and whatever rows came before, a new rule is applied to each row."""
    drafts = data.draw(st.lists(st.one_of(GOOD, DRAFTS), min_size=1, max_size=10))
    chosen = rules()
    with pytest.MonkeyPatch.context() as patch:
        for name, refuses in data.draw(st.lists(st.sampled_from(ADDED), max_size=2, unique_by=lambda one: one[0])):
            at = data.draw(st.integers(0, len(validate.RULES)))
            added = (*validate.RULES[:at], refusing(name, refuses), *validate.RULES[at:])
            patch.setattr(validate, "RULES", added)
        expected = [fault.code for one in drafts if (fault := check(one, chosen)) is not None]
        made = walk(drafts, SealedOptions(as_of=AS_OF), Limits(), frozenset())
    assert [reject.code for reject in made.rejects] == expected
    assert made.mapped == len(drafts) - len(expected)


def test_a_rule_that_is_added_applies_to_people_and_groups() -> None:
    """The same rules apply to what a row says of a person or a group as to an event."""
    updates = [PersonUpdate("u-2", THEN, None), GroupUpdate("team", "t", THEN, {})]
    assert [check_update(one, rules()) for one in updates] == [None, None]
    refused = refusing("id", lambda draft: draft.distinct_id in ("u-2", "$team_t"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validate, "RULES", (*RULES, refused))
        assert [fault.code for one in updates if (fault := check_update(one, rules()))] == ["added_id"] * 2


@pytest.mark.parametrize("members", [False, True])
def test_rules_that_are_added_apply_to_rows_read_in_c(members: bool) -> None:
    """Also if a usual row of the same name came first, which takes the fast path; a name about which a rule warns does
    not take it."""
    options = SealedOptions(as_of=AS_OF, zones=(("UTC", ""),))
    mapper = language.compile(parse(FLAT, "flat"), options)
    row = b'{"name":"%s","user":"u-%d","at":1672531358,"id":"i-%d","a":1}'
    data = b"\n".join(row % (b"Odd" if number % 2 else b"Seen", number % 3, number) for number in range(30))
    named = Rule("odd_name", "warning", "odd", lambda draft, context: "odd" if draft.event == "Odd" else None, "True")
    refused = refusing("id", lambda draft: draft.distinct_id == "u-2")
    found = []
    for rule in (refused, named):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(validate, "RULES", (*RULES, rule))
            made = RowTransformer(JsonlRows(data, members=members), mapper, Encoder("flat", options), rules()).run()
        found.append(([(one.row, one.code) for one in made.rejects], made.mapped, made.warnings["odd_name"]))
    assert found == [([(row, "added_id") for row in range(3, 31, 3)], 20, 0), ([], 30, 15)]


@settings(max_examples=100, deadline=None)
@given(one=DRAFTS, allow_recent=st.booleans())
def test_what_a_rule_declares_of_usual_rows_is_true(one: UnvalidatedEvent, allow_recent: bool) -> None:
    """No rule refuses a draft that passes the quick test, if it passes another draft of the same name."""
    chosen = rules(allow_recent=allow_recent)
    usual = fast_test()
    assert usual is not None, "each rule here declares something; else every row goes the slow way"
    if usual(one.time, one.distinct_id, chosen.newest) and check(draft(event=one.event), chosen) is None:
        assert check(one, chosen) is None


def test_a_reject_has_the_place_and_the_content_of_its_row(tmp_path: Path) -> None:
    """File, row from 1, byte offset, stage, code, a sentence, and the row itself."""
    first = tiny.row(key="k-1")
    path = tiny.write(tmp_path / "a.jsonl", [first, tiny.row(id="", key="k-2")])
    (part,) = open_source([str(path)]).parts
    (block,) = blocks(part)
    options = SealedOptions(as_of=AS_OF)
    encoder = Encoder("tiny", options)
    made = RowTransformer(rows(part, block), tiny.TinyMapper(options), encoder, rules(), part.path).run()
    (reject,) = made.rejects
    text = path.read_text().splitlines()
    assert (reject.part, reject.row, reject.offset) == ("a.jsonl", 2, len(text[0]) + 1)
    assert (reject.stage, reject.code, reject.record) == ("validate", "missing_distinct_id", text[1])
