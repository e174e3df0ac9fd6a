"""The files of a plan directory. Each can be read by a person, and `ls` shows the state of the plan.

plan.json           the plan: what was read, what would be sent, the digests that seal the rest
report.json         the same for programs, with rehearsal and verification results added
report.html         the same for people
blocks.jsonl        a line for each block: its place, its rows, its digest
copies.jsonl        the decisions on duplicates, by block
identities.jsonl    the merges to send, which come first
identities.parquet  every pair of ids, the decision on it, and the reason
groups.jsonl        the group updates to send; then the properties set once for persons before all events
persons.jsonl       the profile updates to send, which come last
identified.bin      under --persons identified: the hashes of the ids that get a profile
uuids.bin           in a job: the uuid of each event, in the order in which they are sent
cells.jsonl         counts of event x UTC day x outcome
rejects.jsonl       rejected rows: file, row, offset, code, text
ledger.sqlite       what was sent, and the responses
sent-to.json        the target that something was sent to; reveals a lost ledger (`pipeline.ledger.marker`)
excluded-ids.txt    with --exclude-ids: the ids left out
stdin               the standard input, so that it can be read again
rehearsal/          the same plan applied to the local service, with a ledger and a store of its own
plan.lock           the process that writes, or last wrote, a plan here
unfinished-plan/    a plan being written, or left by a program that was stopped (`pipeline.plan.commit`)
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Directory:
    """The files of one plan."""

    path: Path

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    @property
    def report_json(self) -> Path:
        return self.path / "report.json"

    @property
    def report_html(self) -> Path:
        return self.path / "report.html"

    @property
    def blocks(self) -> Path:
        return self.path / "blocks.jsonl"

    @property
    def copies(self) -> Path:
        return self.path / "copies.jsonl"

    @property
    def identities(self) -> Path:
        return self.path / "identities.jsonl"

    @property
    def pairs(self) -> Path:
        return self.path / "identities.parquet"

    @property
    def groups(self) -> Path:
        return self.path / "groups.jsonl"

    @property
    def persons(self) -> Path:
        return self.path / "persons.jsonl"

    @property
    def identified(self) -> Path:
        return self.path / "identified.bin"

    @property
    def uuids(self) -> Path:
        return self.path / "uuids.bin"

    @property
    def cells(self) -> Path:
        return self.path / "cells.jsonl"

    @property
    def rejects(self) -> Path:
        return self.path / "rejects.jsonl"

    @property
    def ledger(self) -> Path:
        return self.path / "ledger.sqlite"

    @property
    def stdin(self) -> Path:
        return self.path / "stdin"

    @property
    def rehearsal(self) -> Path:
        return self.path / "rehearsal"

    @property
    def excluded(self) -> Path:
        return self.path / "excluded-ids.txt"

    @property
    def replaced(self) -> tuple[Path, ...]:
        """The files beside plan.json that are removed when another plan replaces this one."""
        return (
            self.report_json, self.report_html, self.blocks, self.copies, self.identities, self.pairs,
            self.groups, self.persons, self.identified, self.uuids, self.cells, self.rejects, self.excluded,
        )  # fmt: skip

    @property
    def scratch(self) -> Path:
        return self.path / "scratch"


_LINES_AT_ONCE = 500


class LinesWriter:
    """Writes a file of JSON lines; `count` is the number of lines. `close` returns the sha256 of the file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=1 << 18)
        self._hash = hashlib.sha256()
        encoder = msgspec.json.Encoder()
        self._encode, self._encode_lines = encoder.encode, encoder.encode_lines
        self.count = 0

    def write(self, value: Any) -> None:
        line = self._encode(value) + b"\n"
        self._hash.update(line)
        self._file.write(line)
        self.count += 1

    def write_all(self, values: Iterable[Any]) -> None:
        rest = iter(values)
        while some := list(islice(rest, _LINES_AT_ONCE)):
            lines = self._encode_lines(some)
            self._hash.update(lines)
            self._file.write(lines)
            self.count += len(some)

    def close(self) -> str:
        """Flush the file to disk and return its sha256."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return self._hash.hexdigest()

    def __enter__(self) -> LinesWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._file.closed:
            self._file.close()


def read_lines(path: Path, kind: type[T]) -> Iterator[T]:
    """The values of a file of JSON lines, one at a time."""
    decode = msgspec.json.Decoder(kind).decode
    with path.open("rb") as file:
        for line in file:
            yield decode(line)


def digest_file(path: Path) -> str:
    """The sha256 of a file, as lower-case hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
