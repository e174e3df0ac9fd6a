"""`backcast fetch duckdb`: write the rows of a query to a Parquet file, which `plan` then reads like any export.

A plan reads its source again when it is applied, byte for byte, and a table changes; so the rows are written down
first, and plans read files only. The rows are sorted by all their columns: the same rows make the same file, in
whatever order the database gives them.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import duckdb

from pipeline import ctrl_c
from pipeline.errors import UsageError
from pipeline.fetch.folder import digest_of
from pipeline.files import private, sync_folder

MEMORY = "512MB"
"""DuckDB's own limit; what a sort needs beyond it goes to a folder beside the file."""
_INEXACT = re.compile(r"\bU?HUGEINT\b|\bBIGNUM\b|\bINTERVAL\b|\bBIT\b|\bUNION\b|\bTIME WITH TIME ZONE\b")
"""Types that Parquet does not have: DuckDB would write them as the nearest one, so the values would differ."""


class QueryResult(NamedTuple):
    """The file that was written, its rows, bytes and sha256."""

    file: Path
    rows: int
    bytes: int
    digest: str


@private()
@ctrl_c.as_keyboard_interrupt()
def fetch_query(database: str | os.PathLike[str] | None, query: str, file: str | os.PathLike[str]) -> QueryResult:
    """Write the rows of one SELECT to a new Parquet file, sorted by all columns in their order.

    `database` is a DuckDB file, which is opened for reading only; None where the query names its files itself, as in
    `select * from 'events/*.csv'`. Extensions that are installed are loaded, and none is installed. Raises UsageError.
    """
    target = Path(file)
    if target.suffix != ".parquet" or target.name.startswith("."):
        raise UsageError(f"{target} is no name of a Parquet file", hint="give a file in .parquet to --out")
    if target.exists():
        raise UsageError(f"{target} exists already", hint="give a new file to --out, or remove that one")
    if database is not None and not Path(database).is_file():
        raise UsageError(f"there is no database {database}", hint="give a DuckDB file, or leave it out")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial, spill = (target.with_name(f".{target.name}.{suffix}") for suffix in ("part", "spill"))
    config: dict[str, str | bool | int | float | list[str]]
    config = {"memory_limit": MEMORY, "temp_directory": str(spill), "autoinstall_known_extensions": False}
    try:
        statements = duckdb.extract_statements(query)
        if len(statements) != 1 or statements[0].type is not duckdb.StatementType.SELECT:
            raise UsageError("the query is not one SELECT", hint="give one SELECT, which changes nothing")
        one = query.strip().rstrip(";")
        with duckdb.connect(
            ":memory:" if database is None else str(database), read_only=database is not None, config=config
        ) as connection:
            _refuse_inexact(connection, one)
            into = str(partial).replace("'", "''")
            connection.execute(
                f"copy (select * from (\n{one}\n) order by all) to '{into}'"
                " (format parquet, compression zstd, use_tmp_file false)"
            )
            counted = connection.execute("select count(*) from read_parquet(?)", [str(partial)]).fetchone()
    except duckdb.Error as error:
        partial.unlink(missing_ok=True)
        message = " ".join(str(error).split())
        raise UsageError(f"DuckDB cannot answer the query: {message}", hint="correct the query") from None
    finally:
        shutil.rmtree(spill, ignore_errors=True)
    with partial.open("rb") as stream:
        os.fsync(stream.fileno())
    digest, size = digest_of(partial), partial.stat().st_size
    partial.replace(target)
    sync_folder(target.parent)
    return QueryResult(target, counted[0] if counted else 0, size, digest)


def _refuse_inexact(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    for name, kind, *_ in connection.execute(f"describe select * from (\n{query}\n)").fetchall():
        if _INEXACT.search(kind):
            raise UsageError(
                f"the column {name} is of the type {kind}, which a Parquet file has not",
                hint=f'cast it, such as "{name}"::bigint or "{name}"::varchar',
            )
