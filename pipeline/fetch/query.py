"""The rows of a query as a Parquet file, which `plan` then reads like any export: `backcast fetch duckdb`.

A plan reads its source again byte for byte, but a table changes, so the rows are written to a file first; plans read
only files. The rows are sorted by all their columns: the same rows make the same file, in whatever order the database
returns them. Queries of other databases (`fetch.database`) are written by the same code.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import duckdb

from pipeline import ctrl_c
from pipeline.errors import Unfinished, UsageError
from pipeline.fetch.folder import digest_of
from pipeline.files import private, sync_folder

MEMORY = "512MB"
"""DuckDB's memory limit; whatever a sort needs beyond it goes to a folder next to the file."""
_INEXACT = re.compile(r"\bU?HUGEINT\b|\bBIGNUM\b|\bINTERVAL\b|\bBIT\b|\bUNION\b|\bTIME WITH TIME ZONE\b")
"""Types that Parquet does not have: DuckDB would write the nearest type, so the values would differ."""


class QueryResult(NamedTuple):
    """The file that was written, its rows, bytes and sha256."""

    file: Path
    rows: int
    bytes: int
    digest: str


class SortedFile:
    """A new Parquet file, and the DuckDB connection that sorts its rows; see `sorted_file`."""

    def __init__(self, target: Path, partial: Path, spill: Path, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self._target, self._partial, self._spill = target, partial, spill

    def write(self, query: str) -> QueryResult:
        """Write the rows of a query of DuckDB.

        Raises UsageError for columns that Parquet cannot represent exactly, Unfinished if the rows cannot be written to
        disk, and DuckDB's own error if it cannot answer the query.
        """
        self._refuse_inexact(query)
        try:
            return self._written(query)
        except (OSError, duckdb.Error) as error:
            if isinstance(error, duckdb.Error) and not self._is_of_disk(error):
                raise
            raise Unfinished(
                f"cannot write {self._target}: {' '.join(str(error).split())}",
                hint="free space there or make it writable, then run the same command again",
            ) from None

    def _is_of_disk(self, error: duckdb.Error) -> bool:
        """Whether writing failed rather than reading: then the message names the file."""
        ours = (self._partial.name, self._spill.name, "max_temp_directory_size")
        return isinstance(error, duckdb.OperationalError) and any(name in str(error) for name in ours)

    def _written(self, query: str) -> QueryResult:
        into = str(self._partial).replace("'", "''")
        self.connection.execute(
            f"copy (select * from (\n{query}\n) order by all) to '{into}'"
            " (format parquet, compression zstd, use_tmp_file false)"
        )
        counted = self.connection.execute("select count(*) from read_parquet(?)", [str(self._partial)]).fetchone()
        with self._partial.open("rb") as stream:
            os.fsync(stream.fileno())
        digest, size = digest_of(self._partial), self._partial.stat().st_size
        self._partial.replace(self._target)
        sync_folder(self._target.parent)
        return QueryResult(self._target, counted[0] if counted else 0, size, digest)

    def _refuse_inexact(self, query: str) -> None:
        for name, kind, *_ in self.connection.execute(f"describe select * from (\n{query}\n)").fetchall():
            if _INEXACT.search(kind):
                raise UsageError(
                    f"the column {name} has the type {kind}, which Parquet does not support",
                    hint=f'cast it, such as cast("{name}" as bigint) or cast("{name}" as varchar)',
                )


@contextlib.contextmanager
def sorted_file(file: str | os.PathLike[str], database: Path | None = None) -> Iterator[SortedFile]:
    """A new Parquet file that appears once it is complete. Without a database, DuckDB works in memory and next to it.

    Raises UsageError if the name does not end in .parquet or begins with a dot, or if the file exists. If an error
    occurs, no part of the file remains.
    """
    target = Path(file)
    if target.name.startswith("."):
        raise UsageError(f"{target} begins with a dot, so plan would ignore it", hint="choose another name with --out")
    if target.suffix != ".parquet":
        raise UsageError(f"{target} does not end in .parquet", hint="choose a name that ends in .parquet with --out")
    if target.exists():
        raise UsageError(f"{target} already exists", hint="choose a new file with --out, or delete that one")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial, spill = (target.with_name(f".{target.name}.{suffix}") for suffix in ("part", "spill"))
    config: dict[str, str | bool | int | float | list[str]]
    config = {"memory_limit": MEMORY, "temp_directory": str(spill), "autoinstall_known_extensions": False}
    try:
        with duckdb.connect(
            ":memory:" if database is None else str(database), read_only=database is not None, config=config
        ) as connection:
            yield SortedFile(target, partial, spill, connection)
    finally:
        partial.unlink(missing_ok=True)
        shutil.rmtree(spill, ignore_errors=True)


@private()
@ctrl_c.as_keyboard_interrupt()
def fetch_query(database: str | os.PathLike[str] | None, query: str, file: str | os.PathLike[str]) -> QueryResult:
    """Write the rows of one SELECT to a new Parquet file, sorted by all columns, in order.

    `database` is a DuckDB file, opened read-only; None if the query names its files itself, as in
    `select * from 'events/*.csv'`. Installed extensions are loaded; none are installed. Raises UsageError, and
    Unfinished if the rows cannot be written to disk.
    """
    if database is not None and not Path(database).is_file():
        raise UsageError(
            f"the database {database} does not exist",
            hint="check the path; leave it out if the query itself names its files",
        )
    try:
        with sorted_file(file, None if database is None else Path(database)) as out:
            statements = duckdb.extract_statements(query)
            if len(statements) != 1 or statements[0].type is not duckdb.StatementType.SELECT:
                raise UsageError(
                    "the query is not a single SELECT", hint="give exactly one SELECT statement with --query"
                )
            return out.write(query.strip().rstrip(";"))
    except duckdb.Error as error:
        message = " ".join(str(error).split())
        raise UsageError(f"DuckDB cannot answer the query: {message}", hint="correct the SQL of --query") from None
