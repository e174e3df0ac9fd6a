"""The decoder for warehouse tables of the Segment model, which RudderStack keeps too
(docs/know/exports.md#segment-tables, #rudderstack).

A row of such a table does not say which table it is of, and its custom columns stand among the model's own. The
decoder gives, of one row, one row with

* `table`: whatever table the row names itself, else tracks if it has the column `event_text`, else that of the
  setting, else aliases, pages, users or rudder_discards where the columns leave no doubt; an event's own table counts
  as tracks;
* `columns`: an object of the custom columns, that is of properties or traits; absent where there are none;
* `context_traits`: an object of the columns `context_traits_…`;
* the model's columns and the other `context_…` under their names in small letters, blank ones left out; times that
  are counts of microseconds (the data lake's) or end in ` UTC` (BigQuery's CSV) become ISO 8601, `_timestamp` becomes
  `timestamp`.

Blank custom columns of JSON and Parquet stay in tracks, pages and screens; elsewhere they may be a null that was once
a cell of CSV, and would overwrite what is known of a person or a group.
"""

from __future__ import annotations

from functools import partial

from msgspec import Raw

from pipeline import values
from pipeline.mapper.builder import Builder
from pipeline.mapper.functions import decoding
from pipeline.mapper.kinds import TEXT, YES, Field, verb
from pipeline.mapper.language import Call
from pipeline.mapper.program import Decode
from pipeline.timestamps import format_utc
from pipeline.values import BadValue, Record, Value

MODEL = frozenset(
    ("id", "anonymous_id", "user_id", "event", "event_text", "timestamp", "_timestamp", "original_timestamp", "sent_at",
     "received_at", "uuid_ts", "uuid", "loaded_at", "channel")
)  # fmt: skip
"""Columns that every table of events has or may have, and that are no property and no trait."""
OWN = {"groups": ("group_id",), "aliases": ("previous_id",), "": ("group_id", "previous_id")}
"""Further columns of the model, by table; "" where the table is not known."""
DISCARDS = ("row_id", "column_name", "column_value", "table_name")
_TABLES = frozenset(("tracks", "pages", "screens", "identifies", "users", "groups", "aliases", "rudder_discards"))
MICROSECOND_DIGITS = 16
"""So many digits has a count of microseconds from 2001 to 2286."""
_TIMES = ("_timestamp", "timestamp", "original_timestamp", "received_at")
_OF_A_CALL = ("timestamp", "original_timestamp", "sent_at", "anonymous_id", "user_id")
_CALLS = frozenset(("tracks", "pages", "screens"))
_TRAITS = "context_traits_"
_BLANK = Raw(b'""')

decoder = partial(verb, "decoder")


@decoder(
    "call_table",
    "a row of a warehouse table: its custom columns go into `columns`, and `table` says which it is, if it can be told",
    call_table=Field(YES, "yes", True),
    staged=Field(YES, "whether rows may stand in `data`, with their table's name in `metadata`"),
    setting=Field(TEXT, "the --set name that names the table of rows that do not name it themselves"),
)
def call_table(build: Builder, call: Call) -> Decode:
    table = build.options.settings.get(call.given.get("setting", ""), "").lower()
    return Decode("table_row", (call.given.get("staged") == "yes", table))


@decoding
def table_row(row: Record, staged: bool, table: str) -> list[Record]:
    """The one row that a row of a warehouse table becomes; `table` is what people call it."""
    inside, named = unwrapped(row) if staged else (row, "")
    return [decoded(inside, named, table)]


def unwrapped(row: Record) -> tuple[Record, str]:
    """The row inside a line of a staging file, and its table's name; another row as it is, and ""."""
    if row.keys().isdisjoint(("data", "metadata")):
        return row, ""
    inside, about = values.opened(row.get("data")), values.opened(row.get("metadata"))
    if inside is None or about is None:
        raise BadValue("a staging line needs `data` and `metadata`")
    return inside, (values.text(about.get("table")) or "").lower()


def decoded(row: Record, named: str, asked: str = "") -> Record:
    """One row as the decoder gives it; `named` is its table's name as it says itself, `asked` as people say."""
    if "ID" in row or "ROW_ID" in row:
        row = {name.lower(): value for name, value in row.items()}
    columns: Record = {}
    traits: Record = {}
    made: Record = {}
    for name, value in row.items():
        if name in MODEL or (name.startswith("context_") and not name.startswith(_TRAITS)):
            if not _blank(value):
                made[name] = value
        elif name.startswith(_TRAITS):
            if not _blank(value):
                traits[name[len(_TRAITS) :]] = value
        elif not values.is_absent(value):
            columns[name] = value
    for name in _TIMES:
        if name in made:
            made[name] = _instant(made[name])
    if "_timestamp" in made:
        made["timestamp"] = made.pop("_timestamp")
    table = _named(named, made) or _deduced(made, columns, asked)
    if table == "rudder_discards":
        return {"table": table, **made, **columns}
    for name in OWN.get(table, ()):
        if name in columns and not _blank(columns[name]):
            made[name] = columns.pop(name) if table else columns[name]
    if table not in _CALLS:
        columns = {name: value for name, value in columns.items() if not _blank(value)}
    if columns:
        made["columns"] = columns  # type: ignore[assignment]
    if traits:
        made["context_traits"] = traits  # type: ignore[assignment]
    if table:
        made["table"] = table
    return made


def _named(name: str, made: Record) -> str:
    """The table that a row names itself; an event's own table is one with a column for the event's name."""
    if not name or name in _TABLES or name.startswith("rudder_"):
        return name
    return "tracks" if "event" in made or "event_text" in made else ""


def _deduced(made: Record, columns: Record, asked: str) -> str:
    """The table of a row that does not name it: what people say, but for what only an event has; else told by its
    columns where they leave no doubt; else ""."""
    if "event_text" in made:
        return "tracks"
    if table := _named(asked, made):
        return table
    if all(name in columns for name in DISCARDS[:2] + DISCARDS[3:]):
        return "rudder_discards"
    if list(columns) == ["previous_id"]:
        return "aliases"
    if any(name in columns and _same(columns[name], made.get(f"context_page_{name}")) for name in ("url", "path")):
        return "pages"
    if "id" in made and made.keys().isdisjoint(_OF_A_CALL):
        return "users"
    return ""


def _instant(value: Value) -> Value:
    """A time as ISO 8601; what is neither of the two odd spellings stays as it is."""
    text = values.text(value) or ""
    if len(text) == MICROSECOND_DIGITS and text.isdecimal():
        return format_utc(int(text))
    return f"{text[:-4]}Z" if text.endswith(" UTC") else value


def _blank(value: Value) -> bool:
    return values.is_absent(value) or value == "" or value == _BLANK


def _same(one: Value, other: Value) -> bool:
    return not _blank(one) and values.text(one) == values.text(other)
