"""Keeps only the events of a list in a window's file, for `--uuids`, and finds out which of the list it has."""

from __future__ import annotations

import gzip
import hashlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pipeline.errors import UsageError
from pipeline.fetch.checking import archived, lines_of
from pipeline.fetch.tool import Tool

SUFFIX = ".jsonl.gz"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def read_list(path: Path | None, tool: Tool) -> frozenset[str]:
    """The ids in a file, one per line; empty without a file. Raises UsageError."""
    if path is None:
        return frozenset()
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read the list of events in {path}: {error}",
            hint="give --uuids a UTF-8 file with one id per line",
        ) from None
    ids = frozenset(line.strip().lower() if tool.picks else line.strip() for line in lines) - {""}
    if tool.picks and (wrong := sorted(id for id in ids if not _UUID.fullmatch(id))):
        raise UsageError(f"{wrong[0]!r} in {path} is not a uuid", hint="give --uuids one uuid per line")
    if not ids:
        raise UsageError(f"{path} lists no event", hint="give --uuids a file with one id per line")
    return ids


def digest_of_ids(ids: frozenset[str]) -> str:
    """The sha256 of a list of ids, in whatever order; "" for none."""
    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest() if ids else ""


def keep_chosen(file: Path, is_archive: bool, places: Sequence[str], ids: frozenset[str]) -> int:
    """Replace a file with the lines that have one of these ids, byte for byte. Returns how many lines."""
    rows = 0
    with tempfile.TemporaryFile(dir=file.parent) as stream:
        with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as kept:
            for line in _lines(file, is_archive):
                if not ids.isdisjoint(_ids_of(line, places)):
                    kept.write(line.rstrip(b"\r\n") + b"\n")
                    rows += 1
        stream.seek(0)
        with file.open("wb") as target:
            shutil.copyfileobj(stream, target)
    return rows


def ids_in(file: Path, places: Sequence[str]) -> Iterator[str]:
    """The ids of all lines of a file that has only chosen events."""
    for line in _lines(file, is_archive=False):
        yield from _ids_of(line, places)


def _lines(file: Path, is_archive: bool) -> Iterator[bytes]:
    if is_archive:
        for _, lines in archived(file):
            yield from lines
    else:
        with file.open("rb") as stream:
            yield from lines_of(stream)


def _ids_of(line: bytes, places: Sequence[str]) -> list[str]:
    """The ids of a row; none for a line that cannot be read."""
    try:
        row: Any = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
    found = []
    for place in places:
        value = row
        for name in place.split("/"):
            value = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(value, str):
            found.append(value)
    return found
