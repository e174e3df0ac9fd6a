"""The decoder for warehouse tables of the Segment model. RudderStack keeps the same model
(docs/know/exports.md#segment-tables, #rudderstack), and so does Jitsu with its own column names (#jitsu).

A row of such a table does not name its table, and its custom columns are mixed with the model's. For one row, the
decoder returns one row with

* `table`: the table that the row itself names, else tracks if it has the column `event_text`, else the one in the
  setting, else aliases, pages, users or rudder_discards if the columns are unambiguous; an event's own table counts as
  tracks;
* `columns`: an object of the custom columns, that is, of properties or traits; absent if there are none;
* `context_traits`: an object of the columns `context_traits_…`;
* the model's columns and the other `context_…` under their names in lower case, blank ones left out; times that
  are counts of microseconds (the data lake's) become ISO 8601, `_timestamp` becomes `timestamp`.

Columns of the loader that copied a table (`_fivetran_synced` and the like) stay columns.

Blank custom columns in JSON and Parquet stay in tracks, pages and screens. In other tables they may be a null that was
once a CSV cell, and would overwrite properties of a person or a group.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec import Raw

from pipeline import values
from pipeline.mapper.language.kinds import TEXT, YES, Call, Field, decoder
from pipeline.mapper.loader_columns import is_loader_column
from pipeline.mapper.program.builder import Builder
from pipeline.mapper.program.functions import decoding
from pipeline.mapper.program.operations import Decode
from pipeline.timestamps import format_utc
from pipeline.values import BadValue, Record, Value

MODEL = frozenset(
    ("id", "anonymous_id", "user_id", "event", "event_text", "timestamp", "_timestamp", "original_timestamp", "sent_at",
     "received_at", "uuid_ts", "uuid", "loaded_at", "channel")
)  # fmt: skip
"""Columns of event tables that are neither properties nor traits."""
OWN = {"groups": ("group_id",), "aliases": ("previous_id",), "": ("group_id", "previous_id")}
"""Further columns of the model, by table; "" means an unknown table."""
TYPES = {
    "track": "tracks",
    "page": "pages",
    "screen": "screens",
    "identify": "identifies",
    "group": "groups",
    "alias": "aliases",
}
"""The table of a call, by the type that Jitsu's rows have."""
DISCARDS = ("row_id", "column_name", "column_value", "table_name")
_TABLES = frozenset(("tracks", "pages", "screens", "identifies", "users", "groups", "aliases", "rudder_discards"))
MICROSECOND_DIGITS = 16
"""The digits of a count of microseconds from 2001 to 2286."""
_TIMES = ("_timestamp", "timestamp", "original_timestamp", "received_at")
_OF_A_CALL = ("timestamp", "original_timestamp", "sent_at", "anonymous_id", "user_id")
_CALLS = frozenset(("tracks", "pages", "screens"))
_TRAITS = "context_traits_"
_GROUP = "context_group_"
_BLANK = Raw(b'""')


@decoder(
    "call_table",
    "a row of a warehouse table: its custom columns go into `columns`, and `table` names its table if the row shows it",
    call_table=Field(YES, "yes", True),
    staged=Field(YES, "whether rows may be in `data`, with their table's name in `metadata`"),
    setting=Field(TEXT, "the --set name for the table of rows that do not name it themselves"),
)
def call_table(build: Builder, call: Call) -> Decode:
    table = build.options.settings.get(call.arguments.get("setting", ""), "").lower()
    return Decode("table_row", (call.arguments.get("staged") == "yes", table))


@decoding
def table_row(row: Record, staged: bool, table: str) -> list[Record]:
    """The one row that a row of a warehouse table becomes; `table` is the setting."""
    inner, named = unwrapped(row) if staged else (row, "")
    return [decoded(inner, named, table)]


def unwrapped(row: Record) -> tuple[Record, str]:
    """The row inside a line of a staging file, and its table's name; any other row as it is, and ""."""
    if row.keys().isdisjoint(("data", "metadata")):
        return row, ""
    inner, metadata = values.opened(row.get("data")), values.opened(row.get("metadata"))
    if inner is None or metadata is None:
        raise BadValue("a staging line needs `data` and `metadata`")
    return inner, (values.text(metadata.get("table")) or "").lower()


def decoded(row: Record, named: str, setting: str = "") -> Record:
    """One row as the decoder returns it; `named` is the table that the row names, `setting` the operator's."""
    if "ID" in row or "ROW_ID" in row or "MESSAGE_ID" in row:
        row = {name.lower(): value for name, value in row.items()}
    if "message_id" in row and "id" not in row:
        row, named = _of_jitsu(row)
    of_model, of_traits, custom = _sorted_columns(tuple(row))
    # A string, which most values are, is blank only if it is empty.
    model: Record = {
        name: value for name in of_model if (value if (value := row[name]).__class__ is str else not _blank(value))
    }
    traits: Record = {
        name.removeprefix(_TRAITS): value
        for name in of_traits
        if (value if (value := row[name]).__class__ is str else not _blank(value))
    }
    columns: Record = {
        name: value for name in custom if (value := row[name]).__class__ is str or not values.is_absent(value)
    }
    for name in _TIMES:
        if name in model:
            model[name] = _instant(model[name])
    if "_timestamp" in model:
        model["timestamp"] = model.pop("_timestamp")
    table = _named(named, model) or _deduced(model, columns, setting)
    if table == "rudder_discards":
        return {"table": table, **model, **columns}
    for name in OWN.get(table, ()):
        if name in columns and not _blank(columns[name]):
            model[name] = columns.pop(name) if table else columns[name]
    if table not in _CALLS:
        columns = {name: value for name, value in columns.items() if not _blank(value)}
    if columns:
        model["columns"] = columns  # type: ignore[assignment]
    if traits:
        model["context_traits"] = traits  # type: ignore[assignment]
    if table:
        model["table"] = table
    return model


@lru_cache(1_024)
def _sorted_columns(columns: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The columns of the model, and a loader's; those of traits; and the custom ones.

    Many rows of a table have the same columns.
    """
    model, traits, custom = [], [], []
    for name in columns:
        if name.startswith(_TRAITS):
            traits.append(name)
        elif name in MODEL or name.startswith("context_") or is_loader_column(name):
            model.append(name)
        else:
            custom.append(name)
    return tuple(model), tuple(traits), tuple(custom)


def _of_jitsu(row: Record) -> tuple[Record, str]:
    """A Jitsu row with the model's names, and the table of its call; "" for a row that has no type and is not an event.
    The group of a group call is in `context_group_…`, or without that prefix in a table of its own."""
    row = {("id" if name == "message_id" else name): value for name, value in row.items() if name != "write_key"}
    kind = values.text(row.pop("type", None))
    table = TYPES.get(kind or "", "") or ("tracks" if not kind and not _blank(row.get("event")) else "")
    if table == "groups":
        id = row.pop(f"{_GROUP}id", None)
        row = {(name.removeprefix(_GROUP)): value for name, value in row.items()}
        if _blank(row.get("group_id")) and not _blank(id):
            row["group_id"] = id
    return row, table


def _named(name: str, model: Record) -> str:
    """The model's table for the name of a table; an event's own table has a column for the event's name."""
    if not name or name in _TABLES or name.startswith("rudder_"):
        return name
    return "tracks" if "event" in model or "event_text" in model else ""


def _deduced(model: Record, columns: Record, setting: str) -> str:
    """The table of a row that does not name it: tracks if it has a column that only events have, else the setting, else
    the table that has unambiguous columns, else ""."""
    if "event_text" in model:
        return "tracks"
    if table := _named(setting, model):
        return table
    if all(name in columns for name in DISCARDS[:2] + DISCARDS[3:]):
        return "rudder_discards"
    if list(columns) == ["previous_id"]:
        return "aliases"
    if any(name in columns and _same(columns[name], model.get(f"context_page_{name}")) for name in ("url", "path")):
        return "pages"
    if "id" in model and model.keys().isdisjoint(_OF_A_CALL):
        return "users"
    return ""


def _instant(value: Value) -> Value:
    """A time in microseconds as ISO 8601; any other value unchanged."""
    text = values.text(value) or ""
    return format_utc(int(text)) if len(text) == MICROSECOND_DIGITS and text.isdecimal() else value


def _blank(value: Value) -> bool:
    return values.is_absent(value) or value == "" or value == _BLANK


def _same(one: Value, other: Value) -> bool:
    return not _blank(one) and values.text(one) == values.text(other)
