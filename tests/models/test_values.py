"""The product's events of random rows and mappings, compared with the model of the mapping language."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.models.values import Items, Outcome, Row, canonical, decoded, delimited, outcome, text
from tests.support.modelled import HEAD, sent

BASE = 1_600_000_000
VALUES = ("1.10", '"x"', "12345678901234567890", "-0.0", '"12.50"', '"-"', '"\\u00e9"', "true", '{"k": 1.0}', "null")
TEXTS = ('"x"', '"12.50"', '"-"', '"1.10"', '"y"', '"a,b"', '"7"', '"0"')
NAMES = ("a", "b", "c", "shop_a", "shop_b", "shop_a_2", "$set", "token", "distinct_id", "shop_$set", "shop_token")


def difference(expected: Outcome, found: dict[str, str]) -> tuple[str, list[str]]:
    """What is wrong with the properties of an event, and what is lost of members with one name: the documents do not
    say that all are sent, so the loss is counted. A null may be there or not."""
    left = {name: value for name, value in found.items() if value != "null"}
    wanted = {name: text(value) for name, value in expected.properties.items() if value != "null"}
    wrong = [
        f"{name} is {left.get(name)}, not {value}" for name, value in wanted.items() if left.pop(name, None) != value
    ]
    spare = [(base, text(value), wrong) for base, value in expected.displaced if value != "null"]
    lost: list[str] = []
    for name, values in expected.contested.items():
        texts, got = [*map(text, values)], left.pop(name, "null")
        wrong += [] if got in texts else [f"{name} is {got}, none of {texts}"]
        spare += [(name, value, lost) for value in texts if value != got]
    for base, value, reported in spare:
        place = re.compile(rf"\w*({re.escape(base)}|{re.escape(base.removeprefix('$'))})(_\d+)?")
        other = next((name for name, got in left.items() if place.fullmatch(name) and got == value), "")
        if left.pop(other, None) is None:
            reported.append(f"{value} of {base} is lost")
    return "; ".join(wrong + [f"{name} is {value}, which nothing asks for" for name, value in left.items()]), lost


def written(rows: Sequence[Row], form: str) -> bytes:
    """Rows as a file: JSON lines with their names and digits as they are, or a table of strings."""
    if form == "jsonl":
        return "\n".join(map(text, rows)).encode()
    names = list(dict.fromkeys(name for row in rows for name, _ in row))
    cells = [[json.loads(text(dict(row).get(name, "null"))) for name in names] for row in rows]
    if form == "csv":
        return delimited([names, *([str(cell or "") for cell in row] for row in cells)], {})
    made = io.BytesIO()
    pq.write_table(pa.table([list(column) for column in zip(*cells, strict=True)], names), made)
    return made.getvalue()


def compare(mapping: dict[str, Any], rows: Sequence[Row], form: str = "jsonl") -> None:
    """Raise AssertionError if the product makes other properties of the rows than the model."""
    plan, events = sent(HEAD | mapping, {f"rows.{form}": written(rows, form)})
    reported = [(datetime.fromisoformat(event.timestamp).timestamp(), event.own_properties()) for event in events]
    found = {(at, properties.get("n")): properties for at, properties in reported}
    expected = [(outcome(mapping, one), one) for row in rows for one in decoded(mapping.get("decoder", {}), row)]
    counted = sum(plan.warnings.get(code, 0) for code in ("name_collision", "duplicate_key"))
    wrong, collisions = [], sum(made.collisions for made, _ in expected)
    for made, row in expected:
        at = float(text(dict(row)["at"]).strip('"'))
        bad, lost = difference(made, found.pop((at, dict(row).get("n")), {}))
        collisions += len(lost)
        wrong += [f"{text(row)}\n    {bad or lost}"] if bad or (lost and collisions > counted) else []
    wrong += [f"{counted} of {collisions} collisions are counted"] if counted < collisions else []
    assert not wrong, f"{form}, {json.dumps(mapping)}\n" + "\n".join([*wrong, *map(str, found)])


def rows_of(chance: Random, names: Sequence[str], values: Sequence[str], count: int) -> list[Row]:
    """Rows with the columns of every event and some of these names."""
    rows: list[Row] = []
    for at in range(count):
        head: Row = [("name", chance.choice(('"Bought"', '"Seen"'))), ("user", '"u-1"'), ("at", str(BASE + at))]
        some = zip(names, chance.sample(values, len(names)), strict=True)
        rows.append(head + [one for one in some if chance.random() < 0.6])
    return rows


def sections(chance: Random) -> tuple[dict[str, Any], list[Row], str]:
    """Changes of properties that compete for names, in `properties` and in the rule of an event."""
    form = chance.choice(("jsonl", "jsonl", "csv", "parquet"))
    rename = {old: new for old, new in zip("abc", chance.sample("abcdegh", 3), strict=True) if old != new}
    free = [name for name in "abcde" if name not in {*rename, *rename.values()} or name == "d"]
    changes: dict[str, Any] = {
        "rename": rename,
        "set": {name: chance.choice(({"const": "set"}, "/user")) for name in chance.sample(free, min(2, len(free)))},
        "fill": {"f": {"const": "fill"}},
    }
    rule = {name: {"const": "rule"} for name in chance.sample("abcd", chance.choice((0, 2)))}
    mapping: dict[str, Any] = {"properties": changes, "blanks": {"texts": ["-"]}}
    mapping |= {"events": {"Bought": {"set": rule}}} if rule else {}
    rows = rows_of(chance, chance.sample(NAMES, 7), VALUES if form == "jsonl" else TEXTS, 12)
    if form == "jsonl" and chance.random() < 0.6:
        changes |= {"open": "/p"} | chance.choice(({}, {"rest": "keep"}, {"rest": "drop"}, {"rest": "x_"}))
        more: Row = [("x", "1"), ("shop_x", "2"), ("x_x", "3"), ("x", "4")]
        rows = [[*row[:3], ("x", "8"), ("p", [*row[3:], *chance.sample(more, 2)])] for row in rows]
    else:
        changes |= {"rest": "keep", "drop": ["name", "user", "at"]}
    return mapping, rows, form


def decoders(chance: Random) -> tuple[dict[str, Any], list[Row]]:
    """Decoders by which two members get one name."""
    loaded = {"loaded": "yes", "into": "p", "stay": ["name", "user", "at"], "names": ["$os"]}
    kinds: list[tuple[dict[str, Any], str]] = [
        ({"nest": ["p"]}, "p.x p.y p.x.z q"),
        ({"lower_names": ["ID"]}, "ID id PLAN plan Plan"),
        (loaded, "x y os _os $os"),
        ({"explode": "items"}, "x y z"),
        ({"explode": "items", "prefix": "s_"}, "x s_x z"),
        ({"lift": ["p", "q"]}, "x y"),
    ]
    decoder, names = chance.choice(kinds)
    rows = rows_of(chance, names.split(), VALUES[:5], 8)
    for row in rows:
        inner: Row = [(name, str(at)) for at, name in enumerate(chance.sample(("x", "y", "s_x", "$os", "ID"), 3))]
        if "explode" in decoder:
            head = row[:3] if "prefix" in decoder else []
            row.append(("items", Items([("n", str(n)), *head, *inner] for n in range(2))))
        elif "lower_names" not in decoder:
            row.append(("p", inner))
    drop = [prefix + name for prefix in {"", decoder.get("prefix", "")} for name in ("name", "user", "at")]
    opened = {"open": "/p", "rest": "drop"} if decoder.keys() & {"nest", "loaded"} else {"rest": "keep", "drop": drop}
    return {"decoder": decoder, "properties": opened}, rows


def compare_files(chance: Random) -> None:
    """Cells with delimiters, marks and letters of an encoding are what the file says, with and without a header."""
    files = {"quotes": chance.choice(("none", "'", '"')), "delimiter": chance.choice((",", ";", "\t", "|"))}
    files |= chance.choice(({}, {"encoding": "latin-1"}, {"encoding": "cp1252"}))
    files |= {"escape": "\\"} if files["quotes"] == "none" and chance.random() < 0.7 else {}
    letters = "x\"'é7" + (f"{files['delimiter']}\\\n" if files["quotes"] != "none" or "escape" in files else "")
    names = ["name", "user", "at", "a", "b"]
    rows = [["Seen", "u-1", str(BASE + at), *("".join(chance.choices(letters, k=3)) for _ in "ab")] for at in range(12)]
    reported = files if chance.random() < 0.5 else files | {"columns": names, "header": "no"}
    mapping = HEAD | {"files": reported, "properties": {"rest": "keep", "drop": names[:3]}}
    content = delimited([names, *rows][len(reported) - len(files) and 1 :], files)
    plan, events = sent(mapping, {"rows.csv": content})
    found = [
        {name: json.loads(value) for name, value in one.own_properties().items()}
        for one in sorted(events, key=lambda one: one.timestamp)
    ]
    assert found == [dict(zip("ab", row[3:], strict=True)) for row in rows], f"{reported}\n{content!r}\n{plan.rejects}"


def compare_copies(chance: Random) -> None:
    """Rows are copies if the canonical content of their key is the same: as many events as there are contents."""
    numbers = "1 1.0 0 -0.0 0.10 1e2 100 12345678901234567 12345678901234567.0 1.23456789012345671 1.23456789012345672"
    forms = ('{"x":%s,"y":%s}', '{"y":%s,"x":%s}', "[%s,%s]")
    keys = [chance.choice(forms) % (*chance.choices(numbers.split(), k=2),) for _ in range(30)]
    rows = [f'{{"name":"Seen","user":"u-1","at":{BASE},"v":{value}}}' for value in keys]
    rows.append(f'{{"name":"Seen","user":"u-1","at":{BASE},"v":7,"k":"k-1"}}')
    key = {"of": [{"canonical": "/v"}]} if chance.random() < 0.5 else {"of": ["/k"], "needs": ["/k"], "equal": "values"}
    _, events = sent(HEAD | {"key": key}, {"rows.jsonl": "\n".join(rows).encode()}, collapse_identical=True)
    contents = {canonical(json.loads(value, parse_int=Decimal, parse_float=Decimal)) for value in keys}
    assert len(events) == len(contents) + 1, f"{len(events)} events of {len(contents) + 1} contents, {key}: {keys}"


def check(seed: int) -> None:
    """Compare the product with the model for this seed; an AssertionError says what differs."""
    chance = Random(seed)
    match seed % 5:
        case 0 | 1:
            compare(*sections(chance))
        case 2:
            compare(*decoders(chance))
        case 3:
            compare_files(chance)
        case _:
            compare_copies(chance)


@pytest.mark.parametrize("seed", range(40))
def test_an_event_has_what_the_mapping_says_of_its_row(seed: int) -> None:
    """Properties, files and copies agree with the model."""
    check(seed)
