"""What a verification keeps while it runs, so that an interrupted one continues: the folder `verification` of the plan.

Fingerprints are kept in pages, files of records that are sorted by the last bits of their uuid, which are random in
every version of one. So both sides can be compared part by part, and memory does not grow with the history. An index
has a line for each page, with the names that are new in it and where the next page begins. A page that is not in the
index, or not whole, is written again.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.ledger import lock_file, unlock
from pipeline.plan.sealed.directory import Directory
from pipeline.verify.expected import FINGERPRINT, LANDED, Candidate, Expected, Fingerprints, digest_of, identity
from pipeline.verify.landed import Row
from pipeline.verify.values import landed_properties

PARTS = 256
KEPT_SECONDS = 24 * 3600.0
"""What was read so long ago is read again: much may have landed since."""
_AT_ONCE = 100_000
"""Fingerprints of the plan that are written as one page."""
_STARTS = np.dtype("<u8")


class _PageLine(msgspec.Struct):
    """A page of the index: its file, the (event, UTC day) of cells that are new in it, and where the next one begins.

    `extra` is the length of a file beside the pages that belongs to it.
    """

    file: str
    cells: list[tuple[str, str]]
    cursor: Any
    extra: int = 0


class _SessionLine(msgspec.Struct):
    key: str
    started: float


class Session:
    """The folder of one verification, for one process at a time. Use as a context manager.

    `key` is everything that decides what is read; a folder of another key, or an old one, is removed. The folder is
    removed at the end, and kept where an exception ends it.
    """

    def __init__(self, directory: Directory, *key: object) -> None:
        self.path = directory.verification
        self._key = hashlib.sha256(msgspec.json.encode(key)).hexdigest()
        self._lock: IO[bytes] | None = None
        self.resumed = False

    def __enter__(self) -> Session:
        self._lock = lock_file(self.path, "the verification of this plan")
        try:
            header = self.path / "session.json"
            try:
                before = msgspec.json.decode(header.read_bytes(), type=_SessionLine)
                self.resumed = before.key == self._key and 0 <= time.time() - before.started < KEPT_SECONDS
            except (OSError, msgspec.MsgspecError):
                self.resumed = False
            if not self.resumed:
                shutil.rmtree(self.path, ignore_errors=True)
                self.path.mkdir(parents=True)
                header.write_bytes(msgspec.json.encode(_SessionLine(self._key, time.time())))
        except BaseException:
            self._unlock()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            shutil.rmtree(self.path, ignore_errors=True)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            unlock(self._lock)
            Path(self._lock.name).unlink(missing_ok=True)

    def kept(self, name: str, kind: Any, make: Any) -> Any:
        """What `make` returned first, also in an earlier run."""
        path = self.path / name
        try:
            return msgspec.json.decode(path.read_bytes(), type=kind)
        except (OSError, msgspec.MsgspecError):
            value = make()
            path.write_bytes(msgspec.json.encode(value))
            return value


class Journal:
    """The results of one step, piece by piece, each in a line; a step that is resumed begins after them."""

    def __init__(self, session: Session, name: str, kind: Any) -> None:
        self._path = session.path / name
        self._decode = msgspec.json.Decoder(kind).decode
        self.done = 0
        good = 0
        for line in _lines(self._path):
            try:
                self._decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                break
            self.done += 1
            good += len(line)
        if self._path.exists():
            _truncate(self._path, good)

    def add(self, result: object) -> None:
        """Write one result."""
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(result) + b"\n")
        self.done += 1

    def __iter__(self) -> Iterator[Any]:
        return map(self._decode, _lines(self._path))


class Cells:
    """Numbers for cells (event, UTC day), one numbering for both sides."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._new: list[tuple[str, str]] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def names(self) -> list[tuple[str, str]]:
        """(event, UTC day) of each, by its number."""
        return list(self._numbers)

    def number(self, event: str, day: str) -> int:
        """The number of a cell, which may be new."""
        key = event, day
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._numbers)
            self._new.append(key)
        return found

    def take_new(self) -> list[tuple[str, str]]:
        """The cells that are new since the last call."""
        new, self._new = self._new, []
        return new


class Pages:
    """The fingerprints of one side, in pages. The side that is written first is opened first, for the cells."""

    def __init__(self, session: Session, name: str, cells: Cells, *, beside: str = "") -> None:
        self._folder = session.path / name
        self._folder.mkdir(exist_ok=True)
        self._index = self._folder / "index.jsonl"
        self._beside = session.path / beside if beside else None
        self._cells = cells
        self._pages: list[tuple[Path, NDArray[np.uint64]]] = []
        self._pending: list[Fingerprints] = []
        self.count = 0
        self.cursor: Any = None
        """Where the next page begins, None at the begin."""
        self._load()

    def _load(self) -> None:
        good = extra = 0
        for line in _lines(self._index):
            try:
                page = msgspec.json.decode(line, type=_PageLine)
                path = self._folder / page.file
                starts = np.fromfile(path, _STARTS, PARTS + 1)
            except (OSError, msgspec.MsgspecError):
                break
            if len(starts) <= PARTS or path.stat().st_size != starts.nbytes + int(starts[-1]) * FINGERPRINT.itemsize:
                break
            for event, day in page.cells:
                self._cells.number(event, day)
            self._pages.append((path, starts))
            self.count += int(starts[-1])
            self.cursor, good, extra = page.cursor, good + len(line), page.extra
        self._cells.take_new()
        if self._index.exists():
            _truncate(self._index, good)
        if self._beside is not None:
            self._beside.touch()
            _truncate(self._beside, extra)

    def add_expected(self, expected: Expected, cursor: Any) -> None:
        """Add the events of one block of the plan; they are written with those of others, and at `flush`."""
        fingerprints = np.frombuffer(expected.fingerprints, FINGERPRINT).copy()
        if len(fingerprints):
            numbers = np.array([self._cells.number(*cell) for cell in expected.cells], np.uint32)
            fingerprints["cell"] = numbers[fingerprints["cell"]]
        self._pending.append(fingerprints)
        self.count += len(fingerprints)
        if self._beside is not None and expected.candidates:
            with self._beside.open("ab") as file:
                file.write(msgspec.json.Encoder().encode_lines(expected.candidates))
        self.cursor = cursor
        if sum(map(len, self._pending)) >= _AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Write what is pending."""
        if self._pending:
            fingerprints = np.concatenate(self._pending)
            self._pending.clear()
            self._write(fingerprints, self.cursor)

    def finish(self, cursor: Any) -> None:
        """Write what is pending, and that there is nothing more."""
        self.cursor = cursor
        self._pending.append(np.empty(0, FINGERPRINT))
        self.flush()

    def add_landed(self, rows: list[Row], cursor: Any) -> None:
        """Add a page of events that landed."""
        self._write(fingerprints_of(rows, self._cells), cursor)
        self.count += len(rows)
        self.cursor = cursor

    def _write(self, fingerprints: Fingerprints, cursor: Any) -> None:
        where = fingerprints["lo"] % np.uint64(PARTS)
        order = np.argsort(where, kind="stable")
        starts = np.searchsorted(where[order], np.arange(PARTS + 1)).astype(_STARTS)
        path = self._folder / f"{len(self._pages):06d}"
        with path.open("wb") as file:
            file.write(starts.tobytes() + fingerprints[order].tobytes())
        extra = self._beside.stat().st_size if self._beside is not None else 0
        with self._index.open("ab") as file:
            line = _PageLine(path.name, self._cells.take_new(), cursor, extra)
            file.write(msgspec.json.encode(line) + b"\n")
        self._pages.append((path, starts))

    def candidates(self) -> Iterator[Candidate]:
        """What was written beside the pages."""
        assert self._beside is not None
        decode = msgspec.json.Decoder(Candidate).decode
        return map(decode, _lines(self._beside))

    def parts(self) -> Iterator[Fingerprints]:
        """All fingerprints, part by part."""
        return (self.part(number) for number in range(PARTS))

    def part(self, number: int) -> Fingerprints:
        """The fingerprints of one part; those of equal uuids are in the same one."""
        pieces = []
        for path, starts in self._pages:
            first, last = int(starts[number]), int(starts[number + 1])
            if last > first:
                offset = starts.nbytes + first * FINGERPRINT.itemsize
                pieces.append(np.fromfile(path, FINGERPRINT, last - first, offset=offset))
        return np.concatenate(pieces) if pieces else np.empty(0, FINGERPRINT)


def fingerprints_of(rows: list[Row], cells: Cells) -> Fingerprints:
    """The fingerprints of events that landed."""
    records = []
    for uuid, event, distinct_id, timestamp, text in rows:
        values = 0
        if text is not None:
            properties = landed_properties(text)
            values = 1 if properties is None else digest_of(properties)
        own = identity(uuid, event, distinct_id, timestamp)
        records.append((*own, values, -1, 0, cells.number(event, timestamp[:10]), 0, LANDED))
    return np.array(records, FINGERPRINT)


def _lines(path: Path) -> Iterator[bytes]:
    """The whole lines of a file, which may not exist; the last may have been cut by the end of a process."""
    if path.exists():
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield line


def _truncate(path: Path, length: int) -> None:
    with path.open("r+b") as file:
        file.truncate(length)
