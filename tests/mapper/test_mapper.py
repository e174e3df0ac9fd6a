"""The compiled mapper: what stays untouched, what changes in which order, and what is reported."""

from __future__ import annotations

import pytest
from msgspec import Raw

from pipeline import uuids
from pipeline.errors import UsageError
from pipeline.mapper import compile as compile_mapping
from pipeline.mapper import load
from pipeline.models import Note, RejectReason, SealedOptions, Skip, UnvalidatedEvent
from tests.support.small_mappings import HEAD, ROW, as_json, drafted, mapper, properties, record

DROP = "properties:\n  drop: [name, user, at]\n"


def test_an_untouched_value_is_the_very_same_object() -> None:
    """A value that the mapping does not touch is passed on, not copied or read."""
    row = record(f'{{{ROW},"a":1.10,"b":"x"}}')
    kept = row["a"], row["b"]
    draft = mapper(DROP + "  rename: {b: c}\n").map_row(row)
    assert isinstance(draft, UnvalidatedEvent)
    assert draft.properties["a"] is kept[0]
    assert draft.properties["c"] is kept[1]


OPENED = f"{DROP}  open: /properties\n".replace("user, at]", "user, at, /secret]")
BESIDE = '"properties":{"a":1},"region":"eu","secret":1,"none":null,"a":2'
RENAMES = f"rename: {{{', '.join(f'f{n}: F{n}' for n in range(10))}}}"
MANY = DROP.replace("at]", f"at, {', '.join(f'g{n}' for n in range(10))}]") + f"  {RENAMES}\n"
COMMON = f"  common: [{', '.join([*(f'f{n}' for n in range(10)), 'g0', 'g1', 'g2', 'g3'])}]\n"
UUID = "0b9e7b1c-0000-4000-8000-000000000001"
EVENTS = "events:\n  Bought: {as: purchase, rename: {price: revenue}, fill: {currency: {const: EUR}}}\n"
PROPERTIES: dict[str, tuple[str, str, dict[str, str], list[str]]] = {
    "the row's own order, a renamed one last": (DROP + "  rename: {a: z}\n", '"b":1,"a":2', {"b": "1", "z": "2"}, []),
    "sections never see each other's work": (
        DROP + "  rename: {a: b}\n  set: {c: a, d: a, e: name}\n",
        '"a":1', {"b": "1", "c": "1", "d": "1", "e": '"Bought"'}, [],
    ),
    "an old name whose new one is taken stays": (
        DROP + "  rename: {a: b}\n", '"a":1,"b":2', {"b": "2", "a": "1"}, ["name_collision"],
    ),
    "a set value moves the row's own aside": (
        DROP + "  set: {b: a}\n", '"a":1,"b":2', {"a": "1", "b": "1", "shop_b": "2"}, ["name_collision"],
    ),
    "a property may be set from itself": (DROP + "  set: {b: {lower: b}}\n", '"b":"X"', {"b": '"x"'}, []),
    "`fill` never replaces": (DROP + "  fill: {b: a}\n", '"a":1,"b":0', {"a": "1", "b": "0"}, []),
    "`fill` stands in": (DROP + "  fill: {b: a}\n", '"a":1', {"a": "1", "b": "1"}, []),
    "many names": (MANY, '"g3":1,"f7":1,"f2":1,"x":1', {"x": "1", "F2": "1", "F7": "1"}, []),
    "many names, some of them common": (
        MANY + COMMON, '"g3":1,"f7":1,"f2":1,"x":1', {"x": "1", "F2": "1", "F7": "1"}, [],
    ),
    "columns beside an object of properties": (OPENED, BESIDE, {"a": "1", "shop_region": '"eu"', "shop_a": "2"}, []),
    "columns beside it under their own names": (
        OPENED + "  rest: keep\n", BESIDE, {"a": "1", "region": '"eu"', "shop_a": "2"}, ["name_collision"],
    ),
    "no columns beside it": (OPENED + "  rest: drop\n", BESIDE, {"a": "1"}, []),
    "names that the service acts on": (
        DROP, '"$set":{"a":1},"token":"t"', {"shop_$set": '{"a":1}', "shop_token": '"t"'}, [],
    ),
    "names that the mapping allows": (DROP + "  reserved: [token]\n", '"$set":{"a":1}', {"$set": '{"a":1}'}, []),
    "texts of numbers": (
        DROP + "  types: {a: number, b: number, c: number}\n",
        '"a":"1.10","b":"x","c":null', {"a": "1.10", "b": '"x"', "c": "null"}, ["bad_value"],
    ),
    "integers": (
        DROP + "  types: {a: integer, b: {as: integer, else: null}, c: {as: integer}, d: integer}\n",
        '"a":"12.0","b":1.5,"c":90071992547409931,"d":1e3',
        {"a": "12", "b": "null", "c": "90071992547409931", "d": "1e3"}, ["nulled_value", "bad_value"],
    ),
    "what has its type stays as it is written": (
        DROP + "  types: {a: {as: number, else: null}, b: list, c: {as: json, else: null}, d: text}\n",
        '"a":1.10,"b":[ 1.10, 2],"c":{ "x":1 },"d":"\\u00e9"',
        {"a": "1.10", "b": "[ 1.10, 2]", "c": '{ "x":1 }', "d": '"\\u00e9"'}, [],
    ),
    "what must be converted": (
        DROP + "  types: {a: {as: number, else: stop}}\n", '"a":"x"', {"a": '"x"'}, ["unconverted:a"],
    ),
    "what cannot be converted": (
        DROP + "  set: {out: {type: number, of: a}}\n", '"a":"x"', {"a": '"x"', "out": '"x"'}, ["bad_value"],
    ),
    "zero is a value for the rules of an event": (
        EVENTS + DROP, '"price":0', {"revenue": "0", "currency": '"EUR"'}, [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROPERTIES)
def test_properties(name: str) -> None:
    """What becomes of them, in their order, and the warnings; nothing is lost."""
    sections, members, expected, codes = PROPERTIES[name]
    draft = drafted(sections, members)
    assert [(name, as_json(value)) for name, value in draft.properties.items()] == [*expected.items()]
    assert [code for code, _ in draft.warnings] == codes


@pytest.mark.parametrize(
    ("sections", "members", "outcome"),
    [
        ("events: {Bought: {skip: seen}}\n", "", Skip("seen")),
        ("events: {Seen: $pageview}\nunlisted: reject\n", "", RejectReason("unmapped_event", "Bought")),
        ("skip: [{when: {is: 'true', of: test}, code: test_row}]\n", ',"test":true', Skip("test_row")),
        ("skip: [{when: {is: 'true', of: test}, code: test_row}]\n", ',"test":false', "Bought"),
        (EVENTS, "", "purchase"),
        (
            "properties: {types: {a: {as: number, else: reject}}}\n",
            ',"a":"x"',
            RejectReason("bad_value", "a: not a number: 'x'"),
        ),
    ],
)
def test_rows_are_renamed_skipped_and_rejected_by_name_or_condition(
    sections: str, members: str, outcome: object
) -> None:
    """A skip has the code from the mapping; a mapping may require that every event is known."""
    made = mapper(sections).map_row(record(f"{{{ROW}{members}}}"))
    assert (made.event if isinstance(made, UnvalidatedEvent) else made) == outcome


@pytest.mark.parametrize(
    ("sections", "members", "field", "expected"),
    [
        ("key: {of: [name, id, extra], needs: [id]}\n", '"id":7', "key", "Bought\x1f7\x1f"),
        ("key: {of: [name, id, extra], needs: [id]}\n", '"id":" ","extra":1', "key", None),
        ("key: {of: [name, id, extra], needs: [id]}\n", "", "key", None),
        ("uuid: id\n", f'"id":"{UUID.upper()}"', "uuid", UUID),
        *(("uuid: id\n", f'"id":{other}', "uuid", None) for other in (f'"{UUID[:8]}{UUID[9:]}"', '"7"', "7", "null")),
        ("uuid: id\n", '"id":"00000000-0000-0000-0000-000000000000"', "uuid", None),
    ],
)
def test_a_key_needs_its_parts_and_a_uuid_is_a_real_one(
    sections: str, members: str, field: str, expected: str | None
) -> None:
    """A row without a required part of the key has no key; other parts may be missing. A source's uuid is accepted in
    its canonical spelling only."""
    assert getattr(drafted(sections, members), field) == expected


@pytest.mark.parametrize(
    ("at", "time"),
    [
        ('"1609329600"', 1_609_329_600_000_000),
        ("1609329600.5", 1_609_329_600_500_000),
        ("1.6093296e9", 1_609_329_600_000_000),
        *((missing, None) for missing in ("null", '""')),
        *((fault, "bad_timestamp") for fault in ("true", "[1]", '"soon"', '{"a":1}', '"1,5"')),
    ],
)
def test_times_of_any_spelling(at: str, time: int | str | None) -> None:
    """A count is read from a number or a string; what is missing is missing, and the draft has any other fault."""
    made = mapper("").map_row(record(f'{{"name":"a","user":"u","at":{at}}}'))
    assert isinstance(made, UnvalidatedEvent)
    assert (made.time.code if isinstance(made.time, RejectReason) else made.time) == time


def test_only_what_rules_name_is_kept() -> None:
    """With `rest: drop` and no object of properties, a new column of the export does not reach an event."""
    sections = """events: {Bought: {rename: {r: R}, fill: {f: /x}, set: {s: /y}}}
groups: {open: $groups, types: {team: g}}
properties:
  rest: drop
  reserved: [token]
  rename: {a: A, name: title}
  fill: {b: /x}
  set: {c: /y, x: /x}
  spread: {from: /o}
"""
    members = '"a":1,"b":2,"c":3,"x":4,"y":5,"o":{"m":6},"g":7,"$groups":{"t":"k"},"r":8,"f":9,"s":10,"$set":{"q":1}'
    expected = {"A": "1", "title": '"Bought"', "b": "2", "c": "5", "x": "4", "m": "6", "R": "8", "f": "9", "s": "5"}
    assert properties(sections, members) == {**expected, "$groups": '{"t":"k"}'}
    assert drafted(sections, members).warnings == ()
    assert properties("properties: {rest: drop}\n", members) == {}


def test_an_opened_object_is_taken_as_it_is() -> None:
    """A reader may hand the properties over opened."""
    made = mapper("properties: {open: /properties}\n")
    assert made.opens == ("properties",)
    row = record(f'{{{ROW},"properties":null}}')
    row["properties"] = {"a": Raw(b"1.10")}  # type: ignore[assignment]
    draft = made.map_row(row)
    assert isinstance(draft, UnvalidatedEvent)
    assert draft.properties == {"a": Raw(b"1.10")}


def noted(sections: str, members: str) -> UnvalidatedEvent:
    """The event of a row, with its note."""
    event = mapper(sections).map_row(record(f"{{{ROW}{members}}}"))
    assert isinstance(event, UnvalidatedEvent)
    return event


def test_person_properties_of_a_row_are_not_part_of_its_event() -> None:
    """A note has them, values unchanged. Parts that cannot be read are a warning."""
    sections = f"{DROP}person: {{set: {{email: mail}}, set_once: {{first: price}}, unset: gone}}\n"
    event = noted(sections, ',"mail":"a@b","price":1.10,"gone":["x"]')
    assert event.note == Note(set={"email": Raw(b'"a@b"')}, set_once={"first": Raw(b"1.10")}, unset=("x",))
    assert list(event.properties) == ["mail", "price", "gone"]
    assert noted(sections, "").note is None
    event = noted(DROP + "person: {spread_set: [traits]}\n", ',"traits":"none"')
    assert [code for code, _ in event.warnings] == ["bad_value"]
    assert (event.note, list(event.properties)) == (None, ["traits"])


@pytest.mark.parametrize(
    ("members", "pair"),
    [
        ('"mine":"u","a":"d","b":"e"', ("u", "d")),
        ('"mine":"u","a":"u","b":"e"', ("u", "e")),
        ('"mine":7,"b":8', ("7", "8")),
        ('"mine":"u","a":""', ("u", None)),
    ],
)
def test_a_row_has_a_users_id_and_the_first_other(members: str, pair: tuple[str, str | None]) -> None:
    """An id equal to the user's says nothing."""
    assert noted(DROP + "pair: {user: mine, anonymous: [a, b]}\n", f",{members}").note == Note(*pair)


def test_members_are_spread() -> None:
    """An object's members come one level up, chosen, renamed and prefixed."""
    rules = "from: a, only: [x_*, y], except: [x_2], rename: {y: why}, strip: x_, prefix: a_, blank: [NA]"
    sections = f"{DROP}  spread: [{{{rules}}}]\n"
    made = properties(sections, '"a":{"x_1":1.0,"x_2":2,"x_3":"NA","y":3,"z":4}')
    assert made == {"a": '{"x_1":1.0,"x_2":2,"x_3":"NA","y":3,"z":4}', "a_1": "1.0", "why": "3"}
    assert mapper(sections).map_row(record(f'{{{ROW},"a":[1]}}')) == RejectReason(
        "bad_value", "an object was expected: Expected `object`, got `array`"
    )


def test_one_row_can_give_further_events() -> None:
    """An extra event has the row's person and time, its own properties, and a key of its own."""
    sections = (
        f"{DROP}key: {{of: [id], needs: [id]}}\n"
        "also: [{event: {const: Tip}, properties: {amount: tip}, when: {present: tip}}]\n"
    )
    made = mapper(sections).map_row(record(f'{{{ROW},"id":7,"tip":2}}'))
    assert isinstance(made, list)
    first, second = made
    assert isinstance(first, UnvalidatedEvent)
    assert isinstance(second, UnvalidatedEvent)
    assert (second.event, second.distinct_id, second.time) == ("Tip", first.distinct_id, first.time)
    assert second.properties == {"amount": Raw(b"2")}
    assert (first.key, second.key) == ("7", "7\x1falso1")
    assert isinstance(mapper(sections).map_row(record(f'{{{ROW},"id":7}}')), UnvalidatedEvent)


def test_a_tools_own_junk_is_passed_over() -> None:
    """A mapping adds its tool's placeholders, in upper or lower case."""
    head = HEAD.replace("distinct_id: /user", "distinct_id: {first: [/user, /anon], junk: [nobody]}")
    made = mapper("", head).map_row(record('{"name":"a","user":"NoBody","anon":"a-1","at":1}'))
    assert isinstance(made, UnvalidatedEvent)
    assert (made.distinct_id, made.placeholder_id, made.warnings) == ("a-1", "", (("junk_distinct_id", "NoBody"),))
    made = mapper("", head).map_row(record('{"name":"a","user":"nobody","at":1}'))
    assert isinstance(made, UnvalidatedEvent)
    assert (made.distinct_id, made.placeholder_id) == (None, "nobody")


def test_the_wall_clock_is_kept_for_the_proof_of_the_zone() -> None:
    """A draft with a project's local clock keeps what the clock showed; the mapper says that its drafts do."""
    made = mapper("", zones=(("Asia/Kolkata", ""),))
    draft = made.map_row(record(f"{{{ROW}}}"))
    assert isinstance(draft, UnvalidatedEvent)
    assert draft.wall == 1_609_329_600_000_000
    assert draft.time == draft.wall - 19_800_000_000
    assert made.zone_evidence
    assert not mapper("", HEAD.replace(", zone: project", "")).zone_evidence


@pytest.mark.parametrize("received", ["99999999999999999999", "-1", '"soon"', "true", "null"])
def test_a_broken_receive_time_is_absent(received: str) -> None:
    """A broken receive time proves nothing and does not cost the event."""
    sections = f"received: {{from: got, unit: ms}}\n{DROP}"
    draft = drafted(sections, f'"got":{received}')
    assert (draft.received, draft.time) == (None, 1_609_329_600_000_000)
    assert drafted(sections, '"got":1609329601000').received == 1_609_329_601_000_000


def test_imported_mixpanel_rows_prove_nothing() -> None:
    """A row with $import has no wall time."""
    made = compile_mapping(load("mixpanel"), SealedOptions(as_of=0))
    for mark, wall in (("", 1_609_329_600_000_000), (',"$import":true', None)):
        draft = made.map_row(record(f'{{"event":"a","properties":{{"time":1609329600,"distinct_id":"u"{mark}}}}}'))
        assert isinstance(draft, UnvalidatedEvent)
        assert draft.wall == wall


def test_the_namespace_is_of_tool_and_source() -> None:
    """Two projects of one tool have different uuids; Mixpanel can have the service's own."""
    assert mapper("").space == uuids.namespace("shop", "")
    assert mapper("", settings={"source": "eu"}).space == uuids.namespace("shop", "eu")
    own = compile_mapping(load("mixpanel"), SealedOptions(as_of=0, settings={"uuid": "posthog"}))
    assert own.space == uuids.POSTHOG_MIXPANEL


def test_an_unknown_setting_names_the_nearest() -> None:
    """A misspelt --set is answered with the right name."""
    with pytest.raises(UsageError) as caught:
        mapper("", settings={"sourc": "eu"})
    assert caught.value.hint == "did you mean --set source=…?"
    with pytest.raises(UsageError, match="needs the setting 'event'"):
        compile_mapping(load("generic"), SealedOptions(as_of=0))


def test_columns_that_parquet_leaves_empty_are_not_properties() -> None:
    """None is a column without a value; JSON null is a value."""
    row = {**record(f'{{{ROW},"a":null}}'), "b": None, "c": 0, "d": 1.5, "e": True, "f": ""}
    draft = mapper(DROP).map_row(row)
    assert isinstance(draft, UnvalidatedEvent)
    assert draft.properties == {"a": Raw(b"null"), "c": 0, "d": 1.5, "e": True, "f": ""}
