"""Random joined tables against the model of joins."""

import gzip
import random
import re
from collections import Counter
from pathlib import Path
from zipfile import ZipFile

import msgspec
import pytest

from pipeline import plan_export
from pipeline.options import PlanOptions
from pipeline.plan import lookup_rows
from pipeline.plan import lookups as plan_lookups
from pipeline.plan.requests.store import read_events
from pipeline.plan.sealed.directory import EVENTS
from pipeline.plan.sealed.freshness import open_plan
from tests.models.joins import Joined, joined, text_of, without_event

KEYS = ["1", "1.0", '"1"', '"é"', r'"\u00e9"', '"a\\"b,c"', '"x y"', '" x y"', "10000000000000000001", "true"]
OTHERS = ["null", '""', '"灯"', "1E2", '"1E2"', "-0.0"]
NAMES = ['"a"', '"b c"', '"灯"', '"$ip"', '"q\\"q"', "null", "7", '""']
VALUES = [
    "1.10",
    "-0.0",
    "12345678901234567890",
    '"x"',
    r'"\u00e9\/"',
    "null",
    "[1, 2.50]",
    '{"b":1,"a":null}',
    '""',
    "",
]
decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
MAPPING = """
format: backcast.mapping/1
tool: shop
title: A shop
lookup_files:
  pairs: {file: "pairs*", key: [/key], name: /name, value: /value, missing: notice}
  items: {file: "items*", key: /key, list: "*", missing: notice}
  last: {file: "last*", key: /key, values: [/name, /value], joined: yes, missing: notice}
event: {const: Seen}
distinct_id: [{const: u-1}]
time: {from: /at}
properties:
  rest: drop
  set:
    pairs: {type: json, of: {lookup: /id, table: pairs}}
    items: {type: json, of: {lookup: /id, table: items}}
    last: {type: json, of: {lookup: /id, table: last}}
    id: /id
"""


def line_of(row: Joined) -> str:
    given = zip(("key", "name", "value"), row, strict=True)
    return "{" + ",".join(f'"{name}":{value}' for name, value in given if value) + "}\n"


def write(folder: Path, name: str, text: str, how: str) -> None:
    """A file as it is, in gzip, or in an archive."""
    if how == "zip":
        with ZipFile(folder / f"{name}.zip", "w") as archive:
            archive.writestr(f"{name}.jsonl", text)
    elif how == "gz":
        (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    else:
        (folder / f"{name}.jsonl").write_text(text)


@pytest.mark.parametrize("seed", range(6))
def test_joined_rows_are_those_of_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """In any number of files, in any container, in memory and on disk; values keep their bytes."""
    chance = random.Random(seed)
    monkeypatch.setattr(plan_lookups, "MOST_ENTRIES", chance.choice([0, 3, 250_000]))
    monkeypatch.setattr(lookup_rows, "_AT_ONCE", chance.choice([1, 7, 50_000]))
    keys = [*KEYS, *OTHERS]
    rows = [
        Joined(chance.choice([*keys, ""]), chance.choice(NAMES), chance.choice(VALUES))
        for _ in range(chance.choice([1, 40, 400]))
    ]
    rows.append(Joined('"sure"', '"a"', "1.10"))
    (tmp_path / "export").mkdir()
    cuts = sorted(chance.randrange(len(rows) + 1) for _ in range(3))
    some = (
        [rows] if seed % 2 else [rows[first:last] for first, last in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    )
    for table in ("pairs", "items", "last"):
        for number, part in enumerate(one for one in some if one):
            text = f'{{"of":"{table}"}}\n' + "".join(map(line_of, part))  # equal files would be read once
            write(tmp_path / "export", f"{table}-{number}", text, chance.choice(["plain", "gz", "zip"]))
    asked = chance.sample(keys, chance.randrange(1, len(keys)))
    events = "".join(f'{{"id":{key},"at":"2023-01-02T03:04:05Z"}}\n' for key in asked)
    write(tmp_path / "export", "events", events, "plain")
    (tmp_path / "shop.yaml").write_text(MAPPING)
    options = PlanOptions(mapping=str(tmp_path / "shop.yaml"), workers=0)
    plan = plan_export([str(tmp_path / "export")], tmp_path / "plan", options)

    expected, texts = joined(rows), {text_of(key) for key in asked}
    sent = [event for _, events in read_events(open_plan(tmp_path / "plan")[1], EVENTS) for event in events]
    found = [decode(decode(event)["properties"]) for event in sent]
    shown = [[bytes(one.get(name, b"")).decode() for name in ("id", "pairs", "items", "last")] for one in found]
    tables = (expected.objects, expected.lists, expected.last)
    wanted = [[key.replace("null", ""), *(table.get(text_of(key), "") for table in tables)] for key in asked]
    assert sorted(shown) == sorted(wanted)

    counted: Counter[str] = Counter()
    for example in (example for gate in plan.gates if gate.name == "unjoined_rows" for example in gate.examples):
        count, keys_of, table = re.fullmatch(r"(\d+) rows? .* (\d+) keys? of the table '(\w+)', .*", example).groups()
        counted[table] += int(count)
        counted[f"keys of {table}"] += int(keys_of)
    left = {"pairs": expected.named_rows, "items": expected.rows, "last": expected.rows}
    for table, of_table in left.items():
        assert (counted[table], counted[f"keys of {table}"]) == without_event(of_table, texts)
    changed = [detail for code, _, detail in plan.notices if code == "lookup_changed" and "'pairs'" in detail]
    assert bool(changed) == bool(expected.changed)
    if len(some) == 1:
        assert changed == [] or int(changed[0].split()[0]) == len(expected.changed)
