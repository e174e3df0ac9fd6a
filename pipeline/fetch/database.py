"""`backcast fetch adbc`: the rows of a query of any database with an ADBC driver, as a Parquet file.

ADBC returns the rows as Arrow batches, one after another, so memory does not grow with their number
(https://arrow.apache.org/adbc/). Each driver is a separate package: `adbc-driver-postgresql`, `-snowflake`,
`-bigquery`, `-flightsql`, `-sqlite`. Nothing is committed, so a query changes nothing in a database with transactions.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import duckdb
import pyarrow as pa

from pipeline import ctrl_c
from pipeline.config import Secret
from pipeline.errors import UsageError
from pipeline.fetch.query import QueryResult, sorted_file
from pipeline.files import private

if TYPE_CHECKING:
    from adbc_driver_manager.dbapi import Connection

URI = "BACKCAST_ADBC_URI"
PASSWORD = "BACKCAST_ADBC_PASSWORD"
OPTIONS = "BACKCAST_ADBC_OPTIONS"
_SECRETS = ("auth", "credential", "header", "key", "pass", "pwd", "secret", "token", "uri")
"""If an option's name contains one of these, the command line refuses it: every user of the machine can read that."""
_HEADER = ".call_header."
"""In options of Flight SQL, this precedes the name of a header, whose value may be a secret whatever the name."""
_WORD = 6
"""Words of a secret with at least this many characters are also masked by themselves."""
_HARMLESS = ("auth_type", "auth_uri", "authority", "cache_mfa_token", "redirect_uri", "token_type", "token_uri")
"""Options of the drivers for Flight SQL, Snowflake and BigQuery whose names end like this are not secrets."""


@private()
@ctrl_c.as_keyboard_interrupt()
def fetch_database(
    driver: str,
    query: str,
    file: str | os.PathLike[str],
    *,
    options: Mapping[str, str] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> QueryResult:
    """Write the rows of one SELECT of a database to a new Parquet file, sorted by all columns, in order.

    `driver` is the short name of an installed package (`postgresql` for adbc-driver-postgresql), or whatever ADBC's
    driver manager finds: the name of a manifest, or a shared library. `options` are the driver's own, without secrets;
    the address comes from BACKCAST_ADBC_URI, a password outside the address from BACKCAST_ADBC_PASSWORD, and other
    options from BACKCAST_ADBC_OPTIONS, a JSON object. Values are as the driver returns them: PostgreSQL's `numeric` is
    a string with all its digits. Raises UsageError, and Unfinished if the rows cannot be written to disk.
    """
    given = dict(options or {})
    secrets = {name: Secret(given.pop(name)) for name in list(given) if secret_option(name)} | _secrets(environment)
    with (
        sorted_file(file) as out,
        _reported(driver, secrets),
        _connected(driver, secrets, given) as connection,
        connection.cursor() as cursor,
    ):
        # Only a query is valid in parentheses, so neither a change nor a second statement can run.
        cursor.execute(f"select * from (\n{query.strip().rstrip(';')}\n) as fetched")
        batches = cursor.fetch_record_batch()
        _refuse_opaque(batches.schema)
        out.connection.register("fetched", batches)
        return out.write("from fetched")


def secret_option(name: str) -> bool:
    """Whether, by its name, a driver's option belongs in the environment."""
    name = name.lower()
    last = name.rpartition(".")[2]
    return _HEADER in name or (any(part in last for part in _SECRETS) and not last.endswith(_HARMLESS))


def _secrets(environment: Mapping[str, str]) -> dict[str, Secret]:
    text = environment.get(OPTIONS) or "{}"
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise UsageError(
            f"{OPTIONS} is not a JSON object of strings",
            hint='set it to a value such as {"adbc.flight.sql.authorization_header": "Bearer …"}',
        )
    found |= {name: environment[key] for name, key in (("uri", URI), ("password", PASSWORD)) if environment.get(key)}
    return {name: Secret(value) for name, value in found.items()}


def _manager() -> ModuleType:
    try:
        return import_module("adbc_driver_manager.dbapi")
    except ImportError:
        hint = "install it with the driver's package: pip install 'backcast[adbc]' adbc-driver-postgresql"
        raise UsageError("ADBC's driver manager is not installed", hint=hint) from None


def _connected(driver: str, secrets: Mapping[str, Secret], options: Mapping[str, str]) -> Connection:
    manager = _manager()
    given = dict(options) | {name: secret.reveal() for name, secret in secrets.items()}
    connection: Connection = manager.connect(driver=_library(driver), db_kwargs=given, autocommit=False)
    return connection


def _library(driver: str) -> str:
    """The shared library of an installed package, otherwise the name itself, for the driver manager to find."""
    if not driver.isidentifier():
        return driver
    try:
        package: Any = import_module(f"adbc_driver_{driver}")
    except ImportError:
        return driver
    return str(package._driver_path()) if hasattr(package, "_driver_path") else driver


@contextlib.contextmanager
def _reported(driver: str, secrets: Mapping[str, Secret]) -> Iterator[None]:
    """Reports errors of the driver and connection, also while rows arrive, in one sentence and without secrets."""
    errors = _manager().Error
    try:
        yield
    except (errors, pa.ArrowException, duckdb.Error, OSError) as error:
        message = str(error)
        for text in _texts(secrets):
            message = message.replace(text, "***")
        message = " ".join(message.split())
        if "Could not load" in message:
            hint = f"install it: pip install adbc-driver-{driver}"
            raise UsageError(f"the ADBC driver {driver} is not installed", hint=hint) from None
        hint = "correct the query or the options"
        hint += f", or the address in {URI}" if "uri" in secrets else f"; {URI} is not set"
        raise UsageError(f"the driver {driver} cannot answer the query: {message}", hint=hint) from None


def _texts(secrets: Mapping[str, Secret]) -> list[str]:
    """What must not be shown: the secrets, their words, such as the token of `Bearer TOKEN`, and the address's
    password, both as written and decoded."""
    texts = {secret.reveal() for secret in secrets.values()}
    for text in list(texts):
        texts.update(word for word in text.split() if len(word) >= _WORD)
        with contextlib.suppress(ValueError):
            password = urlsplit(text).password or ""
            texts |= {password, unquote(password)}
    return sorted(texts - {""}, key=len, reverse=True)


def _refuse_opaque(schema: pa.Schema) -> None:
    """Refuses columns whose type the driver does not know: their values are raw protocol bytes."""
    for field in schema:
        if isinstance(field.type, pa.OpaqueType) and not pa.types.is_string(field.type.storage_type):
            raise UsageError(
                f"the column {field.name} has the type {field.type.type_name}, which the driver returns as bytes",
                hint=f'cast it in the query, such as cast("{field.name}" as varchar)',
            )
