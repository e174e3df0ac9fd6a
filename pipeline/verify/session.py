"""What a verification keeps while it runs, so that an interrupted one continues: the plan's folder `verification`.

session.json         what is compared, and when reading began
counts.json          the daily counts of the target
decoded/, landed/    events that were sent, and that landed, in pages (`Pages`)
expected.parquet     what should have arrived (`pipeline.verify.expected`)
values.jsonl, people.jsonl   results, piece by piece (`Journal`)
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.identity.database import file_at, files_in
from pipeline.ledger import lock_file, unlock
from pipeline.plan.sealed.directory import Directory

KEPT_SECONDS = 24 * 3600.0
"""After this long, everything is read again: much may have landed since."""
END = ["end"]
"""The cursor after the last page."""


class _SessionLine(msgspec.Struct):
    key: str
    started: float


class Session:
    """The folder of one verification, or the folder `within`, for one process at a time. A context manager.

    `key` is everything that decides what is read; a folder with another key, or an old one, is removed. At the end the
    folder is removed, unless an exception ends it.
    """

    def __init__(self, directory: Directory, *key: object, within: Path | None = None) -> None:
        self.path = within or directory.verification
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
            shutil.rmtree(self.path / "duckdb", ignore_errors=True)  # left by a process that was killed
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
        """What `make` returned the first time, possibly in an earlier run."""
        path = self.path / name
        try:
            return msgspec.json.decode(path.read_bytes(), type=kind)
        except (OSError, msgspec.MsgspecError):
            value = make()
            path.write_bytes(msgspec.json.encode(value))
            return value


class Journal:
    """The results of one step, one per line; a step that is resumed continues after them."""

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


class Pages:
    """Rows of events in files of one folder, written one after the other; each file knows where the next one begins.

    An incomplete file, which a power failure may leave, is written again, with all files after it.
    """

    def __init__(self, session: Session, name: str, schema: pa.Schema) -> None:
        self._folder = session.path / name
        self._folder.mkdir(exist_ok=True)
        self._schema = schema
        self._count = 0
        self.rows = 0
        self.cursor: Any = None
        """Where the next page begins: None for the first page, END after the last one."""
        files = sorted(self._folder.iterdir())
        for path in files:
            try:
                metadata = pq.read_metadata(path)
                cursor = msgspec.json.decode(metadata.metadata[b"cursor"])
            except (OSError, pa.ArrowException, KeyError):
                break
            self.cursor, self.rows, self._count = cursor, self.rows + metadata.num_rows, self._count + 1
        for path in files[self._count :]:
            path.unlink()

    def add(self, columns: Sequence[pa.Array], cursor: Any) -> None:
        """Write a page; the columns are those of the schema."""
        schema = self._schema.with_metadata({"cursor": msgspec.json.encode(cursor)})
        pq.write_table(
            pa.Table.from_arrays(list(columns), schema=schema), self._folder / f"{self._count:06d}.parquet",
            compression="zstd", write_statistics=False,
        )  # fmt: skip
        self.cursor, self.rows, self._count = cursor, self.rows + len(columns[0]), self._count + 1

    def finish(self) -> None:
        """Record that there is nothing more."""
        if self.cursor != END:
            self.add([pa.nulls(0, field.type) for field in self._schema], END)

    @property
    def relation(self) -> str:
        """All rows, for a query."""
        return files_in(self._folder)


def parquet(path: Path) -> str:
    """The rows of a file, for a query."""
    return f"read_parquet({file_at(path)})"


def _lines(path: Path) -> Iterator[bytes]:
    """The complete lines of a file, which may not exist; the end of a process may have cut the last one."""
    if path.exists():
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield line


def _truncate(path: Path, length: int) -> None:
    with path.open("r+b") as file:
        file.truncate(length)
