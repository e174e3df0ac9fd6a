"""The mapping language: strict YAML, and errors that say where and what to write instead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from pipeline.errors import MappingError, UsageError
from pipeline.mapper import available, load, recognise
from pipeline.mapper.compiler import compile_mapping
from pipeline.mapper.inspection.cases import row_of
from pipeline.mapper.language.editor_schema import editor_schema
from pipeline.mapper.language.files_section import Files
from pipeline.mapper.language.kinds import FAMILIES
from pipeline.mapper.language.loader import parse
from pipeline.mapper.language.sections import Call
from pipeline.mapper.registry import folder
from pipeline.models import SealedOptions, UnvalidatedEvent
from pipeline.values import Record
from tests.support.small_mappings import HEAD, record


def fault(text: str) -> MappingError:
    """The error of a mapping file."""
    with pytest.raises(MappingError) as caught:
        parse(text, "shop.yaml")
    return caught.value


def repeated(count: int, before: str, inner: str, after: str) -> str:
    """A string within this many pairs of strings."""
    return before * count + inner + after * count


DEEP = repeated(3000, "{not: ", "{present: a}", "}")
CHOICE = repeated(120, "{when: {present: a}, then: a, else: ", "a", "}")
MANY = f"[{', '.join(f'/a{number}' for number in range(200))}]"


TOO_LARGE = [
    (f"skip: [{{when: {DEEP}, code: x}}]\n", (7, 189), "nested more than 32 levels deep"),
    (f"uuid: {repeated(200_000, '[', '', ']')}\n", (7, 38), "nested more than 32 levels deep"),
    (f"uuid: {repeated(3000, '{lower: ', 'a', '}')}\n", (7, 255), "nested more than 32 levels deep"),
    (f"uuid: {CHOICE}\n", (7, 1094), "nested more than 32 levels deep"),
    (f"pair: {{user: a, anonymous: {MANY}}}\n", (7, 211), "'anonymous' takes at most 32, not 200"),
    (f"links: [{{kind: alias, distinct_id: {MANY}, other: a}}]\n", (7, 219), "'distinct_id' takes at most 32"),
    (f"uuid: {'/a' * 5000}\n", (7, 7), "'uuid' has more than 64 steps"),
    (f"uuid: {{json: '{repeated(3000, '[', '', ']')}'}}\n", (7, 14), "'json' is nested too deeply"),
    (f"cases: [{{name: a, row: '{repeated(9000, '[', '', ']')}', gives: {{}}}}]\n", (7, 24), "'row' is nested too"),
]


@pytest.mark.parametrize(
    ("more", "place", "message", "hint"),
    [
        ("evnts: {}\n", (7, 1), "mapping has no key 'evnts'", "did you mean 'events'?"),
        ("properties:\n  renam: {a: b}\n", (8, 3), "properties has no key 'renam'", "did you mean 'rename'?"),
        ("types: {}\n", (7, 1), "mapping has no key 'types'", "write it under 'groups' or 'properties'"),
        ("tool: other\n", (7, 1), "'tool' occurs twice", "keep one of the two"),
        ("properties:\n  rename:\n    a: b\n    a: c\n", (10, 5), "'a' occurs twice", ""),
        ("unlisted: maybe\n", (7, 11), "'unlisted' cannot be 'maybe'", "it takes: keep, reject"),
        ("uuid: {frist: [a]}\n", (7, 8), "unknown value 'frist'", "did you mean 'first'?"),
        ("uuid: {lookup: a, tabel: b}\n", (7, 19), "lookup has no key 'tabel'", "did you mean 'table'?"),
        ("uuid: {hash: a}\n", (7, 7), "hash lacks 'key'", ""),
        ("skip: [{when: {is: a}, code: x}]\n", (7, 15), "is lacks 'of'", ""),
        ("skip: [{when: present, code: x}]\n", (7, 15), "'when' takes a condition", ""),
        ("uuid: &a /id\n", (7, 7), "anchors and aliases", ""),
        ("uuid: *a\n", (7, 7), "anchors and aliases", ""),
        ("events:\n  <<: {a: b}\n", (8, 3), "merges", ""),
        ("uuid: !!str /id\n", (7, 7), "tags", ""),
        ("uuid: {json: '{a}'}\n", (7, 14), "'json' takes JSON text", ""),
        ("uuid: ''\n", (7, 7), "'uuid' is empty", ""),
        ("events: [a]\n", (7, 9), "'events' takes a table", "write `name: value` lines below 'events'"),
        ("uuid: [a\n", None, "not YAML", ""),
        *((more, place, message, "") for more, place, message in TOO_LARGE),
    ],
)
def test_an_error_has_its_place_and_the_nearest_name(
    more: str, place: tuple[int, int] | None, message: str, hint: str
) -> None:
    """The error has file, line and column, and what was probably meant. A mapping that is too large is refused before
    it exceeds Python's own limits."""
    error = fault(HEAD + more)
    assert message in str(error)
    if place is not None:
        assert (error.line, error.column) == place
        assert str(error).endswith(f"at shop.yaml:{place[0]}:{place[1]}")
    if hint:
        assert error.hint == hint


@pytest.mark.parametrize(
    ("files", "place", "message", "hint"),
    [
        (r'{delimiter: "\0"}', (7, 20), r"'delimiter' cannot be '\x00'", "ends no line and is not NUL"),
        (r'{quotes: "\n"}', (7, 17), r"'quotes' cannot be '\n'", "ends no line and is not NUL"),
        (r'{escape: "\r"}', (7, 17), r"'escape' cannot be '\r'", "ends no line and is not NUL"),
        ("{delimiter: ''}", (7, 20), "'delimiter' takes one character, and none is given", "delete 'delimiter'"),
        ("{quotes: ''}", (7, 17), "'quotes' takes one character, and none is given", "or `none`"),
        ("{escape: }", (7, 17), "'escape' takes one character, and none is given", "or `none`"),
        ("{delimiter: '||'}", (7, 20), "'delimiter' takes one character, not '||'", "delete 'delimiter'"),
        ("{delimiter: none}", (7, 20), "'delimiter' takes one character, not 'none'", "write one character"),
        ("{quotes: None}", (7, 17), "'quotes' takes one character, not 'None'", "write one character, or `none`"),
        (r"{delimiter: \t}", (7, 20), r"'delimiter' takes one character, not '\\t'", r'write "\t", in double quotes'),
        ("{delimiter: Tab}", (7, 20), "not 'Tab'", r'write "\t", in double quotes'),
        (r"{delimiter: ^A}", (7, 20), "not '^A'", r'write "\x01", in double quotes'),
        (r"{escape: '\\'}", (7, 17), r"not '\\\\'", r'write "\\", in double quotes'),
        ("{delimiter: þ}", (7, 20), "'delimiter' cannot be 'þ': it is not an ASCII character", "convert the files"),
        ("{quotes: «}", (7, 17), "'quotes' cannot be '«'", "convert the files"),
        ("{escape: 😀}", (7, 17), "'escape' cannot be '😀'", "convert the files"),
        ("{delimiter: [a]}", (7, 20), "'delimiter' takes text", ""),
        ("{delimiter: a, quotes: a}", (7, 31), "'quotes' cannot be 'a': that is the delimiter", "`quotes: none`"),
        ("{quotes: ','}", (7, 17), "'quotes' cannot be ',': that is the delimiter", "another `delimiter`"),
        ("{delimiter: '\"'}", (7, 20), "'delimiter' cannot be '\"': that is the quotation mark", "`quotes: none`"),
        ("{escape: ','}", (7, 17), "'escape' cannot be ',': that is the delimiter", "the character before"),
        ("{escape: '\"'}", (7, 17), "'escape' cannot be '\"': that is the quotation mark", "delete 'escape'"),
        ("{encoding: utf-9}", (7, 19), "unknown encoding 'utf-9'", "write latin-1"),
    ],
)
def test_what_is_declared_of_delimited_files_is_what_a_reader_can_take(
    files: str, place: tuple[int, int], message: str, hint: str
) -> None:
    """One ASCII character that does not end a line and has one meaning, a known encoding; the error has its place."""
    error = fault(f"{HEAD}files: {files}\n")
    assert message in str(error)
    assert (error.line, error.column) == place
    assert hint in (error.hint or "")


NOT_CHARACTERS = ["ab", "\0", "\n", "\r", "é", "😀"]


@pytest.mark.parametrize("key", ["delimiter", "quotes", "escape"])
def test_the_editor_schema_knows_the_characters_of_delimited_files(key: str) -> None:
    """An editor accepts each that the loader reads, and marks the others."""
    schema = jsonschema.Draft202012Validator(editor_schema()["properties"]["files"])
    for number in range(1, 128):
        assert schema.is_valid({key: chr(number)}) == (chr(number) not in "\r\n")
    assert not any(schema.is_valid({key: text}) for text in NOT_CHARACTERS)
    assert schema.is_valid({key: "none"}) == (key != "delimiter")
    assert schema.is_valid({key: 0})
    assert parse(f"{HEAD}files: {{{key}: 0}}\n", "shop.yaml").files == Files(**{key: "0"})
    # A quotation mark that the file does not use can be the delimiter or the escape.
    files = parse(f"""{HEAD}files: {{delimiter: '"', quotes: none, escape: "\\x7f"}}\n""", "shop.yaml").files
    assert files == Files(delimiter='"', quotes="none", escape="\x7f")


def test_as_much_as_the_limits_allow_is_compiled() -> None:
    """The deepest values in the last of the most candidates; a table with more names than Members take works with
    dicts."""
    nested = repeated(26, "{when: {present: a}, then: a, else: ", "a", "}")
    candidates = ", ".join([*(f"/a{number}" for number in range(31)), nested])
    names = "".join(f"    a{number}: b{number}\n" for number in range(30_001))
    text = HEAD.replace("/user", f"[{candidates}]") + f"properties:\n  rename:\n{names}"
    holes = "".join(f"{{a{number}}}" for number in range(300))
    mapper = compile_mapping(parse(f"{text}uuid: {{template: '{holes}'}}\n", "shop.yaml"), SealedOptions(as_of=0))
    assert mapper.map_members is None
    (made,) = [mapper.map_row(record('{"name":"Seen","a30":"u-1","at":1,"a30000":1}'))]
    assert isinstance(made, UnvalidatedEvent)
    assert (made.distinct_id, list(made.properties)) == ("u-1", ["name", "at", "b30000", "b30"])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("uuid: {lookup: a, table: nope}\n", "unknown table 'nope'"),
        (f"uuid: {{item: '{'9' * 5000}', of: a}}\n", "`item` is not a whole number of at most nine digits"),
        ("uuid: {template: 'a}'}\n", "the template contains a single { or }"),
        ("uuid: {first: [" + repeated(30, "{first: [a, ", "a", "]}") + "]}\n", "nested more than"),
        ("events: {Bought: Bought}\n", "changes nothing"),
    ],
)
def test_a_check_says_what_a_plan_would_say(tmp_path: Path, call: Any, more: str, message: str) -> None:
    """An error that appears only when a mapping is compiled is an error of `mapping check` too: exit 2 with its
    place."""
    (tmp_path / "shop.yaml").write_text(HEAD + more, "utf-8")
    said = call("mapping", "check", tmp_path / "shop.yaml")
    assert said.code == 2
    assert message in said.two_lines[0]
    assert "shop.yaml:7:" in said.two_lines[0]


def test_a_file_that_is_not_a_mapping_says_what_it_lacks(tmp_path: Path) -> None:
    """The error about a missing key has the help of that key; the first line names the language, and a file of another
    version is not read. A misspelt name is answered with the right one, and a path works like a name."""
    error = fault("format: backcast.mapping/1\ntool: shop\ntitle: Shop\nevent: /name\n")
    assert ("lacks 'distinct_id'" in str(error), error.hint) == (True, "distinct_id: the person's id")
    assert "format: backcast.mapping/1" in str(fault(HEAD.replace("mapping/1", "mapping/2")))
    for text in ("- a\n", ""):
        assert "a mapping file has to be a table" in str(fault(text))
    with pytest.raises(UsageError) as caught:
        load("mixpannel")
    assert caught.value.hint == "did you mean 'mixpanel'?"
    (tmp_path / "shop.yaml").write_text(HEAD)
    assert load(str(tmp_path / "shop.yaml")).tool == "shop"


@pytest.mark.parametrize("text", ["no", "010", "1_000", "2023-01-02", "~", "1.10", "0x1F", ".inf"])
def test_every_scalar_is_the_string_in_the_file(text: str) -> None:
    """YAML's guesses at types never reach a mapping."""
    mapping = parse(f"{HEAD}uuid: {{const: {text}}}\n", "shop.yaml")
    assert isinstance(mapping.uuid, Call)
    assert mapping.uuid.arguments == {"const": text}


@pytest.mark.parametrize(
    ("row", "names"),
    [
        ({"event": "a", "properties": {"time": 1, "distinct_id": "u"}}, ["mixpanel"]),
        ({"event_type": "a", "event_time": "2023-01-02 03:04:05", "device_id": "d"}, ["amplitude"]),
        ({"uuid": "x", "event": "a", "distinct_id": "u", "properties": {"time": 1}, "timestamp": "t"}, ["posthog"]),
        (dict.fromkeys(("website_event_id", "website_id", "data_key", "data_type", "created_at"), "1"), ["umami"]),
        ({"event": "a", "user": "u"}, []),
    ],
)
def test_a_row_is_recognised_by_its_columns(row: dict[str, object], names: list[str]) -> None:
    """Each shipped mapping recognises its own rows and no others; recognising changes nothing."""
    held: Record = record(json.dumps(row))
    assert recognise(held) == names
    assert list(held) == list(row)


@pytest.mark.parametrize("name", available())
def test_the_row_of_a_case_is_recognised_by_its_own_mapping_alone(name: str) -> None:
    """Or by none, if it is less than a whole row; at least one is whole."""
    mapping = load(name)
    found = {tuple(recognise(row_of(mapping, case.row, case.format))) for case in mapping.cases}
    assert found - {()} == ({(name,)} if mapping.recognise else set())


OF_NO_TOOL = """
id name time
id event time user_id
event timestamp user_id
event_name created_at user_id email
event_type event_time user_id
event_time event_type product_id category_id category_code brand price user_id user_session
id created_at user_id type
id session_id event_type created_at
message_id timestamp user_id type text
type messageId timestamp text
from_user_id to_user_id time amount
name first last count
date visitors pageviews bounce_rate
date users sessions pageviews
id table_name
events batch_id
results
event_id metric timestamp data
"""


@pytest.mark.parametrize("columns", OF_NO_TOOL.strip().splitlines())
def test_a_table_that_anybody_could_have_is_of_no_tool(columns: str) -> None:
    """People name its mapping themselves: an import with another tool's mapping cannot be undone."""
    assert recognise(record(json.dumps(dict.fromkeys(columns.split(), "2024-01-01T00:00:00Z")))) == []


def test_the_editor_schema_accepts_the_shipped_mappings() -> None:
    """What loads is also valid for an editor, which knows every verb and marks what the loader would refuse."""
    schema = jsonschema.Draft202012Validator(editor_schema())
    schema.check_schema(editor_schema())
    assert {f"{family}-{name}" for family, verbs in FAMILIES.items() for name in verbs} <= {*editor_schema()["$defs"]}
    assert not schema.is_valid(yaml.load(HEAD + "evnts: {}\n", Loader=yaml.BaseLoader))
    quick = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    for name in available():
        given = yaml.load((folder() / f"{name}.yaml").read_text(), Loader=quick)
        given["cases"] = given["cases"][:1]  # they have one form
        schema.validate(given)
