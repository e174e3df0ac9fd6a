"""The part written in C does what Python does: the same rows, the same events, the same bytes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from pipeline import mapper as language
from pipeline import values
from pipeline.encoder.event import Encoder
from pipeline.extractors.jsonl_rows import JsonlRows
from pipeline.mapper.language.loader import parse
from pipeline.models import BrokenRow, Note, SealedOptions, UnvalidatedEvent
from pipeline.native import AVAILABLE, build, native
from pipeline.options import Limits
from pipeline.transform.events import Events
from pipeline.transform.observer import Observer
from pipeline.transform.rows import RowTransformer
from pipeline.transform.statements import StatementSettings, statements_of
from pipeline.validator.rules import ValidationContext
from tests.support.commands import in_process
from tests.support.odd_mappings import EVERYTHING, FLAT

# ruff: noqa: SIM905, RUF005 - words in rows are easier to read than lists of quoted words

ROOT = Path(__file__).parent.parent.parent
AS_OF = 1_800_000_000_000_000
needs_native = pytest.mark.skipif(not AVAILABLE, reason="backcast was installed without a compiler")


def plain(value: Any) -> Any:
    """A row or value with every Raw as bytes and Members as dicts, for comparison."""
    if AVAILABLE and isinstance(value, native.Members):
        value = value.as_dict()
    if isinstance(value, dict):
        return [(name, plain(member)) for name, member in value.items()]
    return bytes(value) if isinstance(value, Raw) else value


def read_by(data: bytes, *, members: bool, opens: tuple[str, ...], observe: bool) -> tuple[list[Any], list[Any]]:
    """A reader's result: the rows, and the warnings in the order of the rows."""
    rows = JsonlRows(data, observe=observe, opens=opens, members=members)
    found: list[Any] = []
    for row in rows:
        found.append(tuple(row) if isinstance(row, BrokenRow) else dict(plain(row)))
    return found, sorted(rows.warnings)


NAMES = st.sampled_from(["a", "event", "properties", "time", "é", '"', "a b", "\\u0061", "x" * 20, ""])
NUMBERS = st.sampled_from(
    "0 -0 1 -1 01 1. .5 1.50 1e5 1E+05 1e-7 1e99 1e100 1e400 -1E400 9007199254740992 9007199254740993 "
    "-9007199254740993 12345678901234567890 1234567890123456.5 NaN Infinity - + 0x1 1e 1672531358 1672531358123".split()
    + ["1" * 310 + "e99", "1" * 310 + "e-99", "1" * 199, "1" * 200, "9" * 309, "1" * 5000, "0e400"]
)
STRINGS = st.sampled_from(
    ['""', '"a"', '"é灯😀"', '"\\n\\t\\/\\b\\f\\r\\"\\\\"', '"\\u00e9"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\udc00x"']
    + ['"\\ud800\\u0041"', '"\\u12"', '"\\x"', '"tab\there"', '"open', '"\x00"', '"' + "y" * 70 + '"', '"a\\":1"']
    + ['"a":"', '"seventeen letters"', '"\x7f"', '"\\u0000"']
)
WORDS = st.sampled_from(["null", "true", "false", "nul", "True", "", "[]", "{}", "[1,]", "{,}", "[[[[]]]]"])
SPACE = st.sampled_from(["", "", "", " ", "\t", "  ", "\r", "\x0b", "\u00a0"])


def joined(opening: str, parts: list[str], closing: str, space: str) -> str:
    """A JSON list or object with some white space."""
    return f"{opening}{space}{f'{space},{space}'.join(parts)}{space}{closing}"


def lists(value: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """JSON lists and objects with these values."""
    member = st.builds(lambda name, space, one: f'"{name}"{space}:{space}{one}', NAMES, SPACE, value)
    return st.builds(joined, st.just("["), st.lists(value, max_size=3), st.just("]"), SPACE) | st.builds(
        joined, st.just("{"), st.lists(member, max_size=5), st.just("}"), SPACE
    )


VALUES = st.recursive(NUMBERS | STRINGS | WORDS, lists, max_leaves=12)
GOOD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.sampled_from(["event", "properties", "a", "é", "time"]), GOOD, max_size=5)
LINES = st.one_of(
    lists(VALUES).map(str.encode),
    st.builds(
        lambda row, ascii: json.dumps(row, ensure_ascii=ascii).encode("utf-8", "surrogatepass"), OBJECTS, st.booleans()
    ),
    st.binary(max_size=30).map(lambda some: b'{"a":"' + some.replace(b"\n", b"") + b'"}'),
    st.sampled_from([b"", b" ", b"\r", b"[1]", b"1", b'{"a":1}x', b'{"a":1}{"a":2}', b'\xef\xbb\xbf{"a":1}', b"{"]),
    st.integers(60, 70).map(lambda deep: b'{"a":' + b"[" * deep + b"]" * deep + b"}"),
    st.integers(60, 70).map(lambda deep: b'{"properties":' + b'{"a":' * deep + b"1" + b"}" * deep + b"}"),
)


@needs_native
@settings(max_examples=200, deadline=None)
@given(
    lines=st.lists(LINES, max_size=6),
    end=st.sampled_from([b"\n", b"", b"\r\n"]),
    observe=st.booleans(),
    opens=st.sampled_from([(), ("properties",), ("properties", "a")]),
)
@example([b'{"event":1,"properties":{"a":1,"a":2}}'], b"\n", True, ("properties",))
@example([b'{"a":1,"properties":{"a":1},"a":2}', b'{"a":1}'], b"\n", True, ("properties",))
@example([b'{"a":12345678901234567890}', b"x", b'{"a":{"b":9007199254740993}}'], b"", True, ())
def test_each_line_becomes_the_row_that_python_reads(
    lines: list[bytes], end: bytes, observe: bool, opens: tuple[str, ...]
) -> None:
    """Whatever the lines contain, rows, broken rows and warnings are those of the reader in Python."""
    data = b"\n".join(lines) + end
    expected = read_by(data, members=False, opens=opens, observe=observe)
    assert read_by(data, members=True, opens=opens, observe=observe) == expected


@needs_native
@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.text(), GOOD, max_size=40), st.data())
def test_members_behave_as_a_dict(row: dict[str, Any], data: st.DataObject) -> None:
    """Any sequence of lookups and changes gives what a dict of Raw gives, in its order."""
    line = json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass")
    (expected,) = read_by(line, members=False, opens=(), observe=False)[0]
    (members,) = JsonlRows(line, observe=False, members=True)
    if isinstance(members, (dict, BrokenRow)):
        return  # half of a surrogate pair: Python read it
    names = [*row, "new", "a" * 3, "$set"]
    for _ in range(8):
        name = data.draw(st.sampled_from(names))
        match data.draw(st.sampled_from(["get", "setdefault", "set", "delete", "in", "text"])):
            case "get":
                assert plain(members.get(name)) == expected.get(name)
            case "setdefault":
                assert plain(members.setdefault(name, Raw(b"1"))) == expected.setdefault(name, b"1")
            case "set":
                members[name] = "text"
                expected[name] = "text"
            case "delete" if name in expected:
                del members[name]
                del expected[name]
            case "text" if isinstance(expected.get(name, b""), bytes):
                value = expected.get(name, b"null")
                said = json.loads(value) if value[:1] == b'"' else None if value == b"null" else value.decode()
                assert members.text(name) == said
            case _:
                assert (name in members) == (name in expected)
        assert dict(plain(members)) == expected
        assert list(members) == members.keys() == list(expected)
        assert [plain(value) for value in members.values()] == list(expected.values())
        assert (len(members), bool(members)) == (len(expected), bool(expected))


@cache
def mapper_of(name: str) -> Any:
    """A shipped mapping, or one of those above, compiled."""
    named = FLAT.replace("properties: {", "properties: {rest: drop, ")
    some = f"{FLAT}blanks: {{json: missing, texts: [Web, '-1'], in: [user, odd]}}\n"
    # Columns under their own names next to properties of these names.
    blanks = EVERYTHING.replace("  open: /properties\n", "  open: /properties\n  rest: keep\n")
    blanks += 'blanks: {texts: [NA, null, q"uote]}\n'
    # The object with the properties is computed, so that it is not opened with its row.
    first = EVERYTHING.replace("  open: /properties\n", "  open: {first: [/properties, /odd]}\n")
    texts = {"everything": EVERYTHING, "flat": FLAT, "named": named, "some": some, "blanks": blanks, "first": first}
    text = texts.get(name) or (ROOT / "mappings" / f"{name}.yaml").read_text("utf-8")
    options = SealedOptions(as_of=AS_OF, zones=(("Europe/Berlin", ""),), settings=SETTINGS.get(name, {}))
    return language.compile(parse(text, name), options), options


SETTINGS = {"mixpanel": {"groups": "company"}, "everything": {"groups": "team"}, "blanks": {"groups": "team"}}
SETTINGS["first"] = SETTINGS["everything"]
COLUMNS = {
    "mixpanel": ("event", "properties", "extra"),
    "amplitude": (
        "event_type event_time event_properties user_properties groups group_properties device_id user_id uuid "
        "$insert_id session_id platform os_name os_version device_family device_type country server_upload_time "
        "server_received_time amplitude_id language odd $set"
    ).split(),
    "everything": ("name", "user", "properties", "when", "title", "lang", "odd", "city"),
    "flat": ("name", "user", "at", "id", "city", "noise", "$ip", "$geoip_city_name", "odd", "$set"),
}
COLUMNS |= dict.fromkeys(("named", "some"), COLUMNS["flat"])
COLUMNS |= dict.fromkeys(("blanks", "first"), COLUMNS["everything"])
PROPERTIES = {
    "mixpanel": (
        "time distinct_id $insert_id $user_id $device_id $city $geoip_city_name $region mp_lib $lib utm_source $ip "
        "$set current_page_title title $initial_referrer $initial_referring_domain mp_processing_time_ms $import alias "
        "$distinct_ids $identified_id $anon_id company $geoip_disable historical_migration token mp_api é"
    ).split(),
    "everything": (
        "at id device page $pathname gone kept noise kind price amount total other test got city region b c title size "
        "count more utm_source first_page plan team $ip $set $set_once é"
    ).split()
    + ["a b", "ab"],
    "amplitude": [
        *"utm_source referrer $revenue revenue title $host odd $set $ip distinct_id".split(),
        *(f"[Amplitude] {one}" for one in ("Page Location", "Page URL", "Page Title", "Screen Name", "Link URL")),
    ],
}
PROPERTIES["blanks"] = PROPERTIES["everything"]
PROPERTIES["first"] = PROPERTIES["everything"]
EVENT_NAMES = "Seen Left Bought merge $mp_web_page_view $mp_click $identify $create_alias $merge".split()
EVENT_NAMES += ["[Amplitude] Page Viewed", "[Amplitude] Screen Viewed", "$groupidentify", "$exposure", "session_start"]
TEXTS = st.sampled_from(
    [*EVENT_NAMES, "", " ", "u-1", "null", "NA", "EMPTY", "Web", "iOS", "Windows", "0", "anonymous", 'q"uote', "灯\n"]
    + ["2023-01-02 03:04:05.678901", "2023-01-02T03:04:05Z", "2023-10-29 02:30:00", "true", "x" * 201, '{"a":1}']
    + ["12345678-1234-4234-8234-123456789abc", "\u0085", "Germany", "-1"]
)
ODD = [1672531358, 1672531358123, 1698539400, 1672531358.25, 0, -1, 1e300, 2**53 + 1, 10**25, 4_000_000_000]
SCALARS = TEXTS | st.sampled_from(ODD) | st.none() | st.booleans()
THINGS = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(TEXTS, SCALARS, max_size=3)


@st.composite
def rows_of(draw: st.DrawFn, name: str) -> bytes:
    """A row with columns and properties that the mapping knows."""
    row = draw(st.dictionaries(st.sampled_from(COLUMNS[name]), THINGS, max_size=12))
    column = "event_properties" if name == "amplitude" else "properties"
    if name in PROPERTIES and draw(st.integers(0, 9)):
        row[column] = draw(st.dictionaries(st.sampled_from(PROPERTIES[name]), THINGS, max_size=14))
        if draw(st.booleans()):
            row[column] |= {"time": 1672531358, "at": 1672531358, "$insert_id": "i", "id": "i", "distinct_id": "u"}
    if draw(st.booleans()):
        row |= {
            one: draw(st.sampled_from(EVENT_NAMES)) for one in ("event", "event_type", "name") if one in COLUMNS[name]
        }
        row |= {one: "u-1" for one in ("user", "device_id") if one in COLUMNS[name]}
        row |= {"event_time": "2023-01-02 03:04:05.678901"} if name == "amplitude" else {}
        row |= {"at": 1672531358, "id": "i"} if name in ("flat", "named", "some") else {}
    return json.dumps(row, ensure_ascii=draw(st.booleans())).encode()


def made(name: str, data: bytes, *, members: bool) -> dict[str, Any]:
    """All that the rows become, to be compared."""
    mapper, options = mapper_of(name)
    assert mapper.map_members is not None
    rows = JsonlRows(data, opens=mapper.opens, members=members)
    rules = ValidationContext.of(options, Limits())
    events: Events = RowTransformer(rows, mapper, Encoder(mapper.tool, options), rules).run()
    found = {one.name: getattr(events, one.name) for one in fields(events) if one.name != "content"}
    arrays = {name: value.tolist() for name, value in found.items() if isinstance(value, np.ndarray)}
    users, *tables = statements_of(events, 0, StatementSettings(AS_OF, persons=True))
    said = {"users": users, "statements": [table.to_pylist() for table in tables]}
    del found["notes"], found["named"], found["stated"]
    return found | arrays | said | {"events": events.events}


@needs_native
@pytest.mark.parametrize("name", ["mixpanel", "amplitude", "everything", "flat", "named", "some", "blanks", "first"])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_each_row_becomes_the_events_that_python_makes(name: str, data: st.DataObject) -> None:
    """Events, rejects, skips, links, warnings and all else of a block are the same either way."""
    lines = b"\n".join(data.draw(st.lists(rows_of(name), min_size=1, max_size=5)))
    expected = made(name, lines, members=False)
    assert made(name, lines, members=True) == expected


TEXTS = st.sampled_from(["u", "v", "\u00e9", ""])
OBSERVED = st.tuples(
    TEXTS, TEXTS, st.integers(0, 9), st.none() | st.integers(0, 9), st.none() | st.integers(0, 9),
    st.none() | st.builds(Note, TEXTS), st.dictionaries(st.sampled_from(["$set", "$groups", "x"]), st.integers()),
    st.booleans(),
)  # fmt: skip
"""The last element says whether it goes the slow way."""


@needs_native
@given(rows=st.lists(OBSERVED), cut=st.none() | st.integers(0, 20))
def test_what_a_plan_retains_of_an_event_is_the_same(rows: list[Any], cut: int | None) -> None:
    """Names, ids, notes and columns, and what is left to the caller; also if the last events are taken back."""
    kept = []
    for kind in (Observer, native.Observer):
        lists: tuple[list[Any], ...] = ([], [], [])
        observed = kind(*lists)
        left = []
        for row, (event, who, time, received, wall, note, properties, slow) in enumerate(rows):
            walls = observed.walls
            if slow:
                observed.add(event, who, time, received, wall, note)
                if row == cut:
                    observed.cut(row, walls)
                    break
                continue
            draft = UnvalidatedEvent(event, who, time, properties, received=received, wall=wall, note=note)
            left.append(observed(draft, time, who, properties))
        kept.append((lists, observed.columns(), observed.walls, left))
    assert kept[0] == kept[1]


@needs_native
def test_the_events_compared_are_events() -> None:
    """The rows above are not only rejects: a plain one of each mapping is mapped, in the C part's own way."""
    flat = {"name": "Seen", "user": "u", "at": 1672531358, "id": "i", "city": "Bonn", "a": 1}
    amplitude = {"event_type": "Seen", "event_time": "2023-01-02 03:04:05", "device_id": "d", "$insert_id": "i"}
    properties = {"time": 1672531358, "distinct_id": "u", "$insert_id": "i", "a": 1}
    usual: dict[str, Any] = {
        "mixpanel": {"event": "Seen", "properties": properties},
        "amplitude": {**amplitude, "event_properties": {"a": 1}},
        "everything": {"name": "Bought", "user": "u", "properties": {"at": 1672531358, "id": "i", "price": 1.10}},
        "flat": flat,
        "named": flat,
    }
    for name, row in usual.items():
        (record,) = JsonlRows(json.dumps(row).encode(), opens=mapper_of(name)[0].opens, members=True)
        assert isinstance(record, native.Members)
        assert made(name, json.dumps(row).encode(), members=True)["mapped"] == 1


def test_a_mapping_that_asks_for_more_is_left_to_python() -> None:
    """A mapping that reads an object as well as opening it has no mapper of Members."""
    again = EVERYTHING.replace("spread: [{from: more,", "spread: [{from: /properties,")
    mapper = language.compile(parse(again, "mine"), SealedOptions(as_of=AS_OF, zones=(("UTC", ""),)))
    assert mapper.map_members is None


@needs_native
@settings(max_examples=100, deadline=None)
@given(lists(VALUES), st.booleans(), st.booleans())
@example('{"a":1,"a":2}', False, False)
@example('{"a":null,"b":{"c":[1]}} ', True, True)
@example('"\\ud800"', False, True)
def test_an_object_is_opened_as_python_opens_it(text: str, quoted: bool, as_raw: bool) -> None:
    """A value, or a string with one; anything unusual is left to Python."""
    json_text = json.dumps(text).encode() if quoted else text.encode("utf-8", "surrogatepass")
    value = Raw(json_text) if as_raw else json_text.decode("utf-8", "surrogatepass")
    found = native.Opener()(value)
    if found is not None:
        opened = values.opened(value) or {}
        assert {name: bytes(one) for name, one in found.as_dict().items()} == {
            name: bytes(one) for name, one in opened.items()
        }
        assert list(found.twin()) == list(opened)


@needs_native
def test_rows_of_the_same_names_in_their_order_have_one_shape() -> None:
    """Values are not part of a shape; the names in an opened object and their places are."""
    alike = [b'{"a":1,"p":{"b":2}}', b'{"a":[3],"p":{"b":null}}']
    others = [
        b'{"p":{"b":2},"a":1}',
        b'{"a":1,"p":{"c":2}}',
        b'{"a":1,"b":2}',
        b'{"a":1,"p":{}}',
        b"{}",
        b'{"p":{"a":1}}',
    ]
    rows = [next(iter(native.Lines(line, ("p",), False))) for line in (*alike, *others)]
    assert rows[0].shape() == rows[1].shape()
    assert len({row.shape() for row in rows}) == len(rows) - 1
    del rows[0]["a"]
    assert rows[0].shape() not in {row.shape() for row in rows[1:]}


def test_without_the_c_part_all_is_python() -> None:
    """BACKCAST_NATIVE=0 leaves it out, rows are dicts, and `--version` says which path runs, and why."""
    script = (
        "from pipeline.native import AVAILABLE; from pipeline.extractors.jsonl_rows import JsonlRows;"
        "print(AVAILABLE, [type(row).__name__ for row in JsonlRows(b'{}', members=True)]);"
        "from pipeline.cli import main; main(['--version'])"
    )
    given: Any = {"cwd": ROOT, "env": {**os.environ, "BACKCAST_NATIVE": "0"}, "text": True, "check": True}
    told = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, **given).stdout.splitlines()
    assert told[0] == "False ['dict']"
    assert told[1].endswith(", without its C part: BACKCAST_NATIVE is 0")
    assert not AVAILABLE or in_process("--version").stdout.strip().endswith(", with its C part")


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")
def test_what_does_not_load_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that lacks a symbol compiles without a message: the build says so, and keeps the previous one. The same
    holds without a compiler."""
    (tmp_path / "lacking.c").write_text("void *nowhere(void); void *PyInit__native(void) { return nowhere(); }")
    (tmp_path / build.NAME).write_text("the one before")
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    monkeypatch.setattr(build, "FLAGS", ("-O0", "-fPIC"))
    said = build.build(tmp_path)
    assert said.startswith("what was compiled does not load: ")
    assert "nowhere" in said
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build.build(tmp_path) != ""
    assert (tmp_path / build.NAME).read_text() == "the one before"


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")
def test_the_c_part_compiles_without_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler prints nothing, and its result can be loaded."""
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-Werror"))
    found = build.build(tmp_path)
    if found == "Python's headers are not installed":
        pytest.skip(found)
    assert found == ""
    script = "import _native; print(_native.Lines.__name__)"
    ran = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "Lines"
