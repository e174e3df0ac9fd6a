"""Native against Python: the same mutated exports are planned by both, block by block.

    python -m tests.support.differential                      200,000 rows of every tool, both sides at once
    python -m tests.support.differential --rows 5000 --seed 7

Each side is a process of its own, so that nothing of one is in the other: one has the C part, the other
BACKCAST_NATIVE=0. They digest all that a plan learns of a block (counts, warnings and their places, rejects, keys,
what they state of people) and all that is sent of it. If two differ, both are asked again, and what differs is
shown.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import structs

from pipeline import mapper as language
from pipeline.extractors import blocks, open_source
from pipeline.mapper.inspection.field_uses import nested_levels
from pipeline.mapper.language.loader import parse
from pipeline.models import SealedOptions
from pipeline.native import AVAILABLE
from pipeline.options import Limits
from pipeline.transform.block import BlockTransformer, observe_block
from pipeline.transform.field_counts import Counted
from pipeline.transform.tasks import Task, TransformConfig
from tests.support.mutations import Mutator, sample_rows
from tests.support.odd_mappings import EVERYTHING, FLAT, ROWS

ROOT = Path(__file__).resolve().parent.parent.parent
AS_OF = 1_800_000_000_000_000
FILE_ROWS = 200
BLOCK_BYTES = 1 << 16
"""Small, so that blocks end within a file."""
TOOLS = (
    "mixpanel amplitude segment rudderstack posthog segment-warehouse clevertap june openpanel statsig umami "
    "ga4-warehouse mixpanel-warehouse mparticle countly heap braze pendo generic everything flat"
)
SETTINGS: dict[str, dict[str, str]] = {name: {} for name in TOOLS.split()} | {
    "mixpanel": {"groups": "company"},
    "heap": {"table": "pageviews"},
    "braze": {"table": "users.behaviors.CustomEvent"},
    "generic": {"event": "event", "distinct_id": "distinct_id", "timestamp": "timestamp"},
    "everything": {"groups": "team"},
}
"""The mappings that are tried in turn, with their settings."""
FORMATS = ("jsonl", "csv", "jsonl", "parquet", "jsonl", "avro")
"""The formats of an export's rows, in turn; a table has only those that are objects."""
SANITIZED = {"PYTHONMALLOC": "malloc", "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
"""Python keeps memory of its own, in which no sanitizer notices a byte too many; at exit it leaves much to the
system."""
SAMPLES = {"generic": "rejects"}
"""The tool whose samples a mapping's rows are, if they are not its own."""


@cache
def text_of(name: str) -> str:
    """The source of a mapping."""
    return {"everything": EVERYTHING, "flat": FLAT}.get(name) or (ROOT / "mappings" / f"{name}.yaml").read_text("utf-8")


def content_of(number: int) -> tuple[str, bytes]:
    """The `number`-th export: its mapping, and its bytes. The first row is as its tool wrote it."""
    name = list(SETTINGS)[number % len(SETTINGS)]
    base = ROWS.get(name) or sample_rows(SAMPLES.get(name, name))
    mutator = Mutator(number)
    lines = [base[number % len(base)], *mutator.rows(base, FILE_ROWS - 1)]
    return name, b"\n".join(lines) + mutator.chance.choice((b"\n", b"", b"\r\n", b"\n\n"))


def written(number: int, folder: Path) -> tuple[str, Path]:
    """The `number`-th export as a file in one of the FORMATS: its mapping and its path."""
    name, content = content_of(number)
    kind = FORMATS[number // 2 % len(FORMATS)]
    path = folder / f"export.{kind}"
    if kind == "jsonl":
        path.write_bytes(content)
        return name, path
    rows = _as_table([row for row in map(_object_of, content.splitlines()) if row])
    if kind == "csv":
        _write_csv(path, rows, Random(number))
    elif kind == "avro":
        _write_avro(path, rows)
    else:
        _write_parquet(path, rows)
    return name, path


def _object_of(line: bytes) -> dict[str, Any]:
    """The members of a line that a table can have; none if it is not an object."""
    try:
        found = json.loads(line)
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _as_table(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with the columns that most of them have; an object or a list is written as JSON."""
    columns = [name for name, _ in Counter(name for row in rows for name in row).most_common(60) if name.strip()]
    return [
        {name: json.dumps(value) if isinstance(value := row.get(name), dict | list) else value for name in columns}
        for row in rows
    ]


def _write_csv(path: Path, rows: list[dict[str, Any]], chance: Random) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=chance.choice(",;\t"), quoting=chance.choice((0, 1)))
    writer.writeheader()
    for row in rows:
        writer.writerow({name: {True: "true", False: "false"}.get(cell, cell) if isinstance(cell, bool) else cell
                         for name, cell in row.items()})  # fmt: skip
    lines = text.getvalue().encode().splitlines(keepends=True)
    for _ in range(chance.randrange(4)):  # a cell too many, a quote that is not closed, a byte that is not UTF-8
        lines[chance.randrange(1, len(lines))] += chance.choice((b"x,y\r\n", b'"open\r\n', b"\xff\r\n", b"\r\n"))
    path.write_bytes(b"".join(lines))


def _write_avro(path: Path, rows: list[dict[str, Any]]) -> None:
    fields = [{"name": f"c{at}", "type": ["null", "boolean", "long", "double", "string"]} for at in range(len(rows[0]))]
    names = {name: field["name"] for name, field in zip(rows[0], fields, strict=True)}
    for name, field in zip(rows[0], fields, strict=True):
        if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) and name not in names.values():
            names[name] = field["name"] = name
    small = [{names[name]: _bounded(value) for name, value in row.items()} for row in rows]
    schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
    with path.open("wb") as file:
        fastavro.writer(file, schema, small, codec="deflate")


def _bounded(value: Any) -> Any:
    """An integer beyond 64 bits as a string."""
    return str(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def _write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    columns = {}
    for name in rows[0]:
        values = [_bounded(row[name]) for row in rows]
        kinds = {type(value) for value in values if value is not None}
        if len(kinds) > 1:
            values = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
        columns[name] = values
    pq.write_table(pa.table(columns), path)


def walked(number: int, folder: Path) -> Iterator[tuple[str, Any]]:
    """The result of an export: (what it is, the value itself) for each block."""
    name, path = written(number, folder)
    mapping = parse(text_of(name), name)
    # Numbers with another remainder have a window, excluded ids or a limit: options that take another path.
    since, until = (1_500_000_000_000_000, 1_690_000_000_000_000) if number % 5 == 1 else (None, None)
    options = SealedOptions(
        as_of=AS_OF,
        zones=(("Europe/Berlin", ""),),
        settings=SETTINGS[name],
        since=since,
        until=until,
        allow_recent=number % 2 == 0,
        persons="identified" if number % 7 == 3 else "all",
        person_properties="none" if number % 11 == 5 else "final",
    )
    parts = open_source([str(path)]).parts
    excluded = frozenset({"324172", "u-1"}) if number % 5 == 2 else frozenset[str]()
    counted = Counted(nested_levels(mapping, options))
    config = TransformConfig(
        lambda chosen: language.compile(mapping, chosen), options, Limits(), parts, excluded, counted=counted
    )
    transformer = BlockTransformer(config)
    for block in blocks(parts[0], block_bytes=BLOCK_BYTES):
        task = Task(block.index, block, limit=FILE_ROWS // 8 if number % 13 == 6 else None)
        notes, content, _ = observe_block(transformer, task)
        sampled = [part.tolist() if isinstance(part, np.ndarray) else part for part in notes.sampled]
        for field, found in notes._replace(fields=None, sampled=sampled)._asdict().items():
            yield f"block {block.index}: {field}", sorted(found.items()) if isinstance(found, dict) else found
        for field in fields(notes.fields):
            yield (
                f"block {block.index}: {field.name} of the coverage",
                sorted(getattr(notes.fields, field.name).items()),
            )
        staged = task._replace(seal=notes.digest, block=structs.replace(block, content=content))
        yield f"block {block.index}: sent", transformer.planned(staged).events


def walk(first: int, count: int) -> Iterator[dict[str, Any]]:
    """The digest of each export; or its error, which is a bug of ours."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, first + count):
            digest, rows, mapped, warned = hashlib.sha256(), 0, 0, 0
            try:
                for what, found in walked(number, Path(folder)):
                    digest.update(f"{what}\0{found!r}".encode("utf-8", "backslashreplace"))
                    rows += found if what.endswith(": rows") else 0
                    mapped += found if what.endswith(": mapped") else 0
                    warned += sum(count for _, count in found) if what.endswith(": warnings") else 0
            except Exception:
                yield {"number": number, "error": traceback.format_exc()}
                continue
            yield {"number": number, "digest": digest.hexdigest(), "rows": rows, "mapped": mapped, "warnings": warned}


def sides_of(rows: int, seed: int, environment: dict[str, str]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The results of native and Python for each export, next to each other."""
    words = ["--walk", str(seed), str(max(1, -(-rows // FILE_ROWS)))]
    running = [_side(native, words, environment) for native in (True, False)]
    try:
        for one, other in zip(*(process.stdout or () for process in running), strict=True):
            yield json.loads(one), json.loads(other)
    finally:
        for process in running:
            process.kill()
            process.communicate()


def _side(native: bool, words: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    env = {**os.environ, "BACKCAST_NATIVE": "1" if native else "0", **(environment if native else {})}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.differential", *words],
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    )


def differences(number: int, environment: dict[str, str]) -> list[str]:
    """How the two sides differ for one export, one per line."""
    shown = []
    for native in (True, False):
        process = _side(native, ["--show", str(number)], environment)
        shown.append([json.loads(line) for line in process.communicate()[0].splitlines()])
    found = []
    for (what, one), (_, other) in zip(*shown, strict=False):
        if one != other:
            at = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
            cut = slice(max(0, at - 150), at + 250)
            found.append(f"{what}\n    native {one[cut]}\n    python {other[cut]}")
    return found


def compared(rows: int, seed: int, environment: dict[str, str] | None = None) -> tuple[list[str], dict[str, int]]:
    """(what went wrong, how much was compared). Only the native side has `environment`."""
    wrong: list[str] = []
    counts = {"exports": 0, "rows": 0, "mapped": 0, "warnings": 0}
    for one, other in sides_of(rows, seed, environment or {}):
        counts["exports"] += 1
        for name in ("rows", "mapped", "warnings"):
            counts[name] += other.get(name, 0)
        if "error" in one or "error" in other:
            wrong.append(f"export {one['number']}:\n{one.get('error')}\n{other.get('error')}")
        elif one != other:
            wrong.append("\n  ".join([f"export {one['number']}:", *differences(one["number"], environment or {})]))
    return wrong, counts


def main() -> int:
    """Compare, and print what differs."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--rows", type=int, default=200_000)
    asked.add_argument("--seed", type=int, default=0, help="the number of the first export")
    asked.add_argument("--preload", help="libraries that the native side loads first: those of the sanitizers")
    asked.add_argument("--walk", type=int, nargs=2, help=argparse.SUPPRESS)
    asked.add_argument("--show", type=int, help=argparse.SUPPRESS)
    given = asked.parse_args()
    if (given.walk or given.show is not None) and (os.environ["BACKCAST_NATIVE"] == "1") != AVAILABLE:
        sys.exit("this side lacks the C part: python -m pipeline.native.build")
    if given.walk:
        for one in walk(*given.walk):
            print(json.dumps(one), flush=True)
        return 0
    if given.show is not None:
        with tempfile.TemporaryDirectory() as folder:
            for what, found in walked(given.show, Path(folder)):
                print(json.dumps([what, repr(found)]))
        return 0
    wrong, counts = compared(given.rows, given.seed, SANITIZED | {"LD_PRELOAD": given.preload} if given.preload else {})
    for one in wrong[:20]:
        print(one)
    print(f"{counts}: {len(wrong)} exports differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
