"""Exports of any size, of rows like those of the sample exports: what `compare.py --mappings` plans.

The files of a sample that have events are repeated, each copy with ids and times of its own, and written in their own
format again; all other files, such as lookup tables and manifests, stay as they are.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.api import plan_export
from pipeline.extractors.patterns import matches
from pipeline.mapper import available, load
from pipeline.options import PlanOptions
from pipeline.plan.requests.query import opened
from pipeline.plan.sealed.freshness import open_plan

golden: Any = import_module("tests.golden.samples")
"""Imported by its name, since for mypy it belongs to the folder of the golden files."""

VARYING = re.compile(
    r"(?P<member>\"(?:idVisit|pageId|idvisit|idlink_va)\": ?\"?)(?P<number>[0-9]+)"
    r"|(?P<uuid>[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12})"
    r"|(?P<clock>[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:)(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
    r"|(?P<digits>(?<![\w.+-])20[0-9]{8})(?P<low>[0-9]{4})(?![\w.-])"
    r"|(?P<epoch>(?<![\w.+-])1[0-9]{9})(?P<rest>[0-9]{3}|[0-9]{6})?(?![\w.-])"
    r"|(?P<id>(?<![A-Za-z0-9])(?=[A-Za-z]*[0-9][A-Za-z]*[0-9])[0-9A-Za-z]{16,}(?![A-Za-z0-9])|(?<!\w)[a-z]{20,}(?!\w))"
)
"""Ids and times in a file. Matomo's ids are small numbers, which only their names show."""
COPY = 100_000
"""The number that a copy adds to each of them."""
MANIFEST = ".txt"
"""A file with the digests of others, which are no longer true."""


@dataclass(frozen=True, slots=True)
class Export:
    """A large export: its path, the arguments for `plan`, and the uncompressed bytes of the rows."""

    mapping: str
    files: tuple[Path, ...]
    words: tuple[str, ...]
    bytes: int


def names() -> list[str]:
    """The samples, by the names of their golden files."""
    return [name for name in golden.GOLDEN if name != "rejects"]


def without_sample(measured: set[str]) -> list[str]:
    """The shipped mappings that no sample was planned with."""
    return sorted(set(available()) - measured)


def export(name: str, size: int, folder: Path) -> Export:
    """Write an export of about this many bytes of rows."""
    sample = golden.GOLDEN[name]
    sources = [golden.SAMPLES / source for source in sample.files]
    words: list[str] = []
    for option, value in sample.asked.items():
        given = [f"{key}={one}" for key, one in value.items()] if isinstance(value, dict) else [value]
        for one in given:
            words += [{"mapping": "-m", "settings": "--set"}.get(option, f"--{option}"), one]
    with tempfile.TemporaryDirectory() as scratch:
        plan = plan_export(sources, Path(scratch) / "plan", PlanOptions(**sample.asked))
        _, directory = open_plan(Path(scratch) / "plan")
        with opened(directory) as database:
            numbers = {part for (part,) in database.rows("SELECT DISTINCT part FROM facts")}
        parts = {(str(plan.parts[number].file), str(plan.parts[number].member)) for number in numbers}
        lookups = tuple(pattern for one in load(plan.mapping.name).lookup_files.values() for pattern in one.file)
    # The bytes of more copies: those of the first include headers, which in small files of Avro are most of it.
    few, more = (
        sum(
            _repeated(Path(file).name, Path(file).read_bytes(), times, _members(parts, file))[1]
            for file in _files(parts)
        )
        for times in (1, 3)
    )
    times = max(1, round(1 + 2 * (size - few) / (more - few)))
    total = 0
    written = []
    for source in sources:
        for path in [source] if source.is_file() else sorted(one for one in source.rglob("*") if one.is_file()):
            target = folder / path.relative_to(golden.SAMPLES)
            target.parent.mkdir(parents=True, exist_ok=True)
            content = path.read_bytes()
            if str(path) in _files(parts):
                content, grown = _repeated(path.name, content, times, _members(parts, str(path)))
                total += grown
            elif path.suffix == MANIFEST:
                continue
            elif matches(path.name, lookups):
                content, _ = _repeated(path.name, content, times, set())  # its ids are those of the copies
            target.write_bytes(content)
        written.append(folder / source.relative_to(golden.SAMPLES))
    if "mapping" not in sample.asked:
        words += ["-m", plan.mapping.name]
    return Export(plan.mapping.name, tuple(written), tuple(words), total)


def _files(parts: set[tuple[str, str]]) -> list[str]:
    return sorted({file for file, _ in parts})


def _members(parts: set[tuple[str, str]], file: str) -> set[str]:
    return {member for one, member in parts if one == file}


def _repeated(name: str, content: bytes, times: int, members: set[str]) -> tuple[bytes, int]:
    """The file with its rows that many times, and their uncompressed bytes."""
    if name.endswith(".zip"):
        return _zip(content, times, members)
    if name.endswith(".tar.gz"):
        return _tar(content, times, members)
    if name.endswith(".gz"):
        inside, size = _repeated(name.removesuffix(".gz"), gzip.decompress(content), times, members)
        return gzip.compress(inside, 6, mtime=0), size
    if name.endswith(".avro"):
        return _avro(content, times)
    if name.endswith(".parquet"):
        return _parquet(content, times)
    text = content.decode("utf-8", "surrogateescape")
    grown = _text(name, text, times).encode("utf-8", "surrogateescape")
    return grown, len(grown)


def _zip(content: bytes, times: int, members: set[str]) -> tuple[bytes, int]:
    out, total = io.BytesIO(), 0
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        for member in old.namelist():
            inside = old.read(member)
            if member in members:
                inside, size = _repeated(member, inside, times, set())
                total += size
            new.writestr(member, inside)
    return out.getvalue(), total


def _tar(content: bytes, times: int, members: set[str]) -> tuple[bytes, int]:
    out, total = io.BytesIO(), 0
    with tarfile.open(fileobj=io.BytesIO(content)) as old, tarfile.open(fileobj=out, mode="w:gz") as new:
        for entry in old:
            source = old.extractfile(entry)
            if source is None:
                continue
            inside = source.read()
            if entry.name in members:
                inside, size = _repeated(entry.name, inside, times, set())
                total += size
            entry.size = len(inside)
            new.addfile(entry, io.BytesIO(inside))
    return out.getvalue(), total


def _text(name: str, text: str, times: int) -> str:
    """Lines of JSON or of delimited text, whose first line is a header in a .csv, or one JSON document with a list."""
    if text.startswith(("{\n", "[")):
        document = json.loads(text)
        lists = [document] if isinstance(document, list) else [one for one in document.values() if type(one) is list]
        rows = max(lists, key=len)
        once = json.dumps(rows)
        rows[:] = [row for number in range(times) for row in json.loads(varied(once, number))]
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    head = text[: text.index("\n") + 1] if name.endswith(".csv") else ""
    body = text[len(head) :]
    body += "" if body.endswith("\n") else "\n"
    return head + "".join(varied(body, number) for number in range(times))


def _avro(content: bytes, times: int) -> tuple[bytes, int]:
    reader = fastavro.reader(io.BytesIO(content))
    schema, rows = reader.writer_schema, list(reader)
    packed, plain = io.BytesIO(), io.BytesIO()
    grown = [_varied_value(row, number) for number in range(times) for row in rows]
    fastavro.writer(packed, schema, grown, codec=reader.codec)
    fastavro.writer(plain, schema, grown)
    return packed.getvalue(), plain.tell()


def _parquet(content: bytes, times: int) -> tuple[bytes, int]:
    table = pq.ParquetFile(io.BytesIO(content)).read(use_threads=False)
    rows = table.to_pylist()
    grown = pa.concat_tables(
        pa.Table.from_pylist([_varied_value(row, number) for row in rows], schema=table.schema)
        for number in range(times)
    )
    out = io.BytesIO()
    pq.write_table(grown, out, row_group_size=10_000, compression="zstd")
    return out.getvalue(), grown.nbytes


def varied(text: str, number: int) -> str:
    """The content with the ids and times of a copy; copy 0 is unchanged."""
    return VARYING.sub(lambda found: _changed(found, number), text) if number else text


def _varied_value(value: Any, number: int) -> Any:
    if not number:
        return value
    if isinstance(value, str):
        return varied(value, number)
    if isinstance(value, datetime):
        return value + timedelta(seconds=number)
    if isinstance(value, int) and value > 10**9 and value.__class__ is int:
        return int(varied(str(value), number))
    if isinstance(value, dict):
        return {key: _varied_value(one, number) for key, one in value.items()}
    if isinstance(value, list):
        return [_varied_value(one, number) for one in value]
    return value


def _changed(found: re.Match[str], number: int) -> str:
    whole = found.group()
    match found.lastgroup:
        case "number":
            return f"{found['member']}{int(found['number']) + number * COPY}"
        case "uuid":
            return whole[:24] + f"{(int(whole[24:], 16) + number) % (1 << 48):012x}"
        case "second":
            seconds = (int(found["minute"]) * 60 + int(found["second"]) + number) % 3_600
            return f"{found['clock']}{seconds // 60:02}:{seconds % 60:02}"
        case "low":
            seconds = (int(found["low"][:2]) * 60 + int(found["low"][2:]) + number) % 3_600
            return f"{found['digits']}{seconds // 60:02}{seconds % 60:02}"
        case "epoch" | "rest":
            return str(int(found["epoch"]) + number) + (found["rest"] or "")
        case _ if whole.isdigit():
            return f"{whole[:-6]}{(int(whole[-6:]) + number) % 1_000_000:06}"
    return f"{whole[:-6]}{(zlib.crc32(whole.encode()) + number) % (1 << 24):06x}"
