"""JSON documents: lists, objects over several lines and pages have the same rows as their JSON lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline import extractors
from pipeline.errors import UnreadableExport
from pipeline.extractors.file_rules import NO_RULES, FileRules
from pipeline.extractors.json_texts import compact
from pipeline.models import Part
from tests.support import parts
from tests.support.parts import located


def part_of(path: Path, content: bytes, rules: FileRules = NO_RULES) -> tuple[Part, list[str]]:
    path.write_bytes(content)
    source = extractors.open_source([str(path)], rules=rules)
    (part,) = source.parts
    return part, [note.detail for note in source.notes]


def read(part: Part, size: int = 1 << 22) -> list[Any]:
    """Each row as its members in JSON, or as its code."""
    return [row for _, row in located(part, block_bytes=size)]


def lines_of(path: Path, rows: list[str]) -> list[Any]:
    """The rows of the same records as JSON lines."""
    part = parts.part_of(path, "".join(f"{row}\n" for row in rows).encode())
    assert part.format == "jsonl"
    return read(part)


ROWS = [
    '{"event":"a","n":1.10,"p":{"x":[1,"]}",null],"y":{}}}',
    '{"event":"b \\"q\\" \\\\","n":12345678901234567890}',
    "{}",
]

LAYOUTS = {
    "a list on one line": "[" + ",".join(ROWS) + "]",
    "a list with a row a line": "[\n" + ",\n".join(ROWS) + "\n]\n",
    "a pretty list": json.dumps([json.loads(row, parse_float=str) for row in ROWS], indent=2).replace('"1.10"', "1.10"),
    "two lists": "[" + ROWS[0] + "]\n[" + ROWS[1] + ",\n" + ROWS[2] + "]",
    "objects over several lines": "\n".join(row.replace(",", ",\n ").replace("{", "{\n") for row in ROWS),
    "a pretty page": '{\n "total": 3,\n "events": [\n' + ",\n".join(ROWS) + '\n],\n "next": {"a": [1, 2]}\n}',
    "a page with a row a line": '{"events": [\n' + ",\n".join(ROWS) + '\n], "next": null}\n',
    "rows of a list without its brackets": ",\n".join(ROWS) + ",\n",
    "pages one after another": "".join(f'{{"page":1,\n"results":\n[{row}]}}\n' for row in ROWS),
    "an empty page between": f'{{\n"results": []\n}}{{\n"results": [{",".join(ROWS)}]\n}}{{"results":null}}',
}


SEVERAL = (
    "two lists", "objects over several lines", "pages one after another", "an empty page between",
    "rows of a list without its brackets",
)  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("size", [1, 7, 1 << 22])
def test_a_document_has_the_rows_of_its_json_lines(tmp_path: Path, name: str, size: int) -> None:
    """Whatever the pieces in which it is read; numbers keep their digits, and offsets are those of the rows' first
    bytes."""
    content = LAYOUTS[name].encode()
    part, _ = part_of(tmp_path / "a.json", content)
    assert part.format == "json"
    found = located(part, block_bytes=size)
    assert [row for _, row in found] == lines_of(tmp_path / "b", ROWS)
    assert all(content[at : at + 1] == b"{" for at, _ in found)
    assert sorted({at for at, _ in found}) == [at for at, _ in found]


def test_a_document_in_a_container_or_another_encoding(tmp_path: Path) -> None:
    """gzip, a byte order mark, and UTF-16."""
    text = LAYOUTS["a pretty list"]
    for number, content in enumerate(
        (gzip.compress(text.encode()), text.encode("utf-8-sig"), text.encode("utf-16"), b"\n" + text.encode())
    ):
        part, _ = part_of(tmp_path / f"{number}.json", content)
        assert read(part) == lines_of(tmp_path / "b", ROWS)


def test_items_that_are_not_objects_are_rejected(tmp_path: Path) -> None:
    """Each is rejected by itself, and so are a broken object and two values without a comma."""
    content = b'[{"a":1},\n 7, null, "x", [{"b":2}],\n {"a" 1}, {"a":1 2}, {"a":3} {"a":4}, {"a":"x\ny"}, {"a":5}]'
    part, _ = part_of(tmp_path / "a.json", content)
    assert read(part) == [{"a": "1"}, *["bad_json"] * 8, {"a": "5"}]


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_document_that_is_cut_is_named(tmp_path: Path, name: str) -> None:
    """At every byte: it ends between two documents, or the error names the file."""
    content = LAYOUTS[name].encode().strip()
    for cut in range(content.index(b"\n") + 1 if b"\n" in content else 2, len(content)):
        path = tmp_path / "a.json"
        path.write_bytes(content[:cut])
        try:
            opened = extractors.open_source([str(path)]).parts
            found = sum(isinstance(row, dict) for part in opened for row in read(part, 9))
        except UnreadableExport as error:
            assert error.path == "a.json"  # noqa: PT017
        else:
            assert name in SEVERAL or opened[0].format == "jsonl"
            assert found <= len(ROWS)


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b'[{"a":1},,{"a":2}]', "at byte 9 a list lacks an item before this byte"),
        (b'[{"a":1},\n]', "at byte 10 a list lacks an item before this byte"),
        (b'[{"a":1},\n \f,{"a":2}]', "at byte 12 a list lacks an item before this byte"),
        (b'[{"a":1}]\nend', "at byte 10 is neither an object nor a list"),
        (b'[{"a":1}] 7 [{"a":2}]', "at byte 10 is neither an object nor a list"),
        (b'{\n"events": [{"a":1}]\n}\n{\n"error": "late"\n}', "at byte 24 an object begins that has no list 'events'"),
        (b'{\n"events": [{"a":1}]\n}\n{\n"events": 7}', "the member 'events' is not a list"),
        (b'{\n"events": [{"a":1}]\n}\n{\n"events": [],\n"users": [{"a":1}]}', "a second list of objects, 'users'"),
        (b'{\n"events": [{"a":1}] [{"a":2}]\n}', "at byte 22 something follows the value of 'events'"),
        (b'{\n"events": [{"a":1}] x, "y": 2\n}', "at byte 22 something follows the value of 'events'"),
        (b'{\n"x": 7 "events": [{"a":0}], "events": [{"a":1}]\n}', "at byte 9 something follows the value of 'x'"),
        (b'{\n"x": [1] [{"b":1}], "events": [{"a":1}]\n}', "at byte 11 something follows the value of 'x'"),
        (b'{\n"x": {"a" 1} 7, "events": [{"a":1}]\n}', "at byte 15 something follows the value of 'x'"),
        (b'{\n"events": [{"a":1}], [{"a":2}], "x": 1\n}', "at byte 23 there is no name of a member"),
    ],
)
def test_what_is_between_rows_is_json(tmp_path: Path, content: bytes, cause: str) -> None:
    """Anything else stops with its byte, because rows after it could be lost."""
    part, _ = part_of(tmp_path / "a.json", content)
    assert part.format == "json"
    with pytest.raises(UnreadableExport, match=cause):
        read(part)


def test_a_broken_member_that_is_not_read_loses_no_row(tmp_path: Path) -> None:
    """It has an end, even at a line end in a string."""
    part, _ = part_of(tmp_path / "a.json", b'{\n"x": "a\n}b",\n"y": {"a" 1},\n"z": tru,\n"events": [{"a":1}]\n}')
    assert read(part) == [{"a": "1"}]


def test_the_list_of_a_page_is_reported_with_what_is_not_read(tmp_path: Path) -> None:
    """The longest list of objects with a usual name, or the named one, or none."""
    page = b'{\n"total": 2,\n"users": [{"id":1}],\n"events": [{"id":2},{"id":3}]\n}'
    part, notes = part_of(tmp_path / "a.json", page)
    assert notes == ["read as pages whose rows are the items of 'events'; not read: total, users"]
    assert extractors.describe(part) == "JSON, rows in 'events'"
    assert read(part) == [{"id": "2"}, {"id": "3"}]
    assert read(part_of(tmp_path / "a.json", page, FileRules(rows="none"))[0])[0]["total"] == "2"
    part, notes = part_of(tmp_path / "a.json", page, FileRules(rows="users"))
    assert read(part) == [{"id": "1"}]
    assert notes == ["read as pages whose rows are the items of 'users'; not read: total, events"]


def test_an_object_with_a_list_of_its_own_is_a_row(tmp_path: Path) -> None:
    """Events over several lines with their products are not pages of products."""
    content = b'{\n"event": "order",\n"products": [\n{"id": 1}\n]\n}\n{\n"event": "view"\n}\n'
    part, notes = part_of(tmp_path / "a.json", content)
    assert notes == []
    assert read(part) == [{"event": '"order"', "products": '[{"id":1}]'}, {"event": '"view"'}]


def test_a_page_on_one_line_is_a_row_of_json_lines_unless_its_list_is_named(tmp_path: Path) -> None:
    """A mapping can open it (`each`)."""
    content = b'{"page":0,"results":[{"id":1},{"id":2}]}\n{"page":1,"results":[{"id":3}]}\n'
    assert part_of(tmp_path / "a.json", content)[0].format == "jsonl"
    part, _ = part_of(tmp_path / "a.json", content, FileRules(rows="results"))
    assert read(part) == [{"id": "1"}, {"id": "2"}, {"id": "3"}]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.dictionaries(st.text(max_size=4), _JSON, max_size=4), min_size=1, max_size=5),
    st.sampled_from([None, 0, 1, 3]),
    st.integers(1, 60),
    st.booleans(),
)
@example([{"a\\": '"\\'}], None, 1, True)
def test_any_list_has_its_items_as_rows(
    tmp_path_factory: pytest.TempPathFactory, items: list[Any], indent: int | None, size: int, ascii_only: bool
) -> None:
    """Random values, indentation and pieces."""
    path = tmp_path_factory.mktemp("json") / "a.json"
    part, _ = part_of(path, json.dumps(items, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "replace"))
    if part.format == "jsonl":  # a list on one line of a file of one line
        return
    found = read(part, size)
    expected = [
        {key: json.dumps(value, separators=(",", ":"), ensure_ascii=ascii_only) for key, value in item.items()}
        for item in items
    ]
    assert [row if isinstance(row, str) else json.dumps(row) for row in found] == [json.dumps(row) for row in expected]


@settings(max_examples=200, deadline=None)
@given(_JSON, st.sampled_from([None, 0, 1, 3]))
def test_compact_json_of_a_value_has_its_tokens(value: Any, indent: int | None) -> None:
    """The text of a sound row and that of a damaged one are made in two ways, which agree."""
    text = json.dumps(value, indent=indent, ensure_ascii=False).encode("utf-8", "replace").decode("latin-1")
    whole = compact(text)
    assert compact(f"{text} x").removesuffix(b"x").rstrip() == whole
    assert json.loads(whole) == json.loads(text.encode("latin-1"))
