"""The verbs for decoders, which turn one row of an unusual shape into plain rows before any other section reads it.

Decoders for a single tool have their own modules, except the one for sessions of Universal Analytics, whose hits are a
list in each row (docs/know/exports.md#universal-analytics). docs/know/exports.md#warehouse-copies lists what loaders
add.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Raw

from pipeline import values
from pipeline.mapper.codegen.runtime import encode
from pipeline.mapper.language.kinds import NAMES, TEXT, TEXTS, YES, Field
from pipeline.mapper.loader_columns import RAW, is_loader_column
from pipeline.mapper.program.functions import decodes, of_table, only_with
from pipeline.mapper.program.references import value_at
from pipeline.models import Layout, RejectReason, Skip
from pipeline.values import BadValue, Record


@decodes(
    "explode",
    "one row for each object in a list, each with the other columns of the row; an item that cannot be sent is rejected"
    " by itself",
    explode=Field(TEXT, "the column with the list", True),
    prefix=Field(TEXT, "a prefix for the names of the other columns", default=""),
)
def exploded(row: Record, column: str, prefix: str) -> list[Record | RejectReason]:
    """A row for each object in the list of a column, with the other columns; any other item is a separate reject."""
    members = values.items(row.pop(column, None))
    shared: Record = {prefix + name: value for name, value in row.items()}
    records: list[Record | RejectReason] = []
    for member in members or []:
        try:
            inside = values.opened(member)
        except BadValue as error:
            records.append(RejectReason("bad_value", f"column {column!r}: {error}"))
            continue
        if inside is None:
            records.append(RejectReason("bad_value", f"column {column!r}: expected a list of objects"))
        else:
            record = {**shared, **inside}
            for name in [] if shared.keys().isdisjoint(inside) else shared:
                values.put(record, name, shared[name])
            records.append(record)
    return records


NO_TIME = Skip("no_time")


@decodes(
    "each_time",
    "one row for each column with a time, with all columns of the row: the column's name in this table becomes the"
    " column `event`, and its time the column `time`. A blank time makes no row; a wrong one is rejected by itself",
    each_time=Field(
        TEXTS, "name: column. Add new names at the end, because the place of a name is part of its events' uuids", True
    ),
)
def events_of_times(row: Record, times: tuple[tuple[str, str], ...]) -> list[Record | RejectReason | Skip]:
    """A row for each time; NO_TIME for a missing one, so that the others keep their places."""
    found: list[Record | RejectReason | Skip] = []
    for name, path in times:
        time = value_at(path, row)
        if not (values.text(time) or "").strip():
            found.append(NO_TIME)
            continue
        record: Record = {"event": name, "time": time}
        for other, value in row.items():
            values.put(record, other, value)
        found.append(record)
    return found


@decodes(
    "lower_names",
    "the names of all columns in lower case, in rows with one of these columns: Snowflake writes names in capitals",
    lower_names=Field(NAMES, "columns by which such rows are recognised, such as EVENT_ID", True),
)
@only_with(lambda columns: columns)
def with_lower_names(row: Record, columns: tuple[str, ...]) -> list[Record]:
    """The row, its names in lower case if it has one of `columns`. If two names become one, a value wins over none, and
    the first over the second."""
    if row.keys().isdisjoint(columns):
        return [row]
    lowered: Record = {}
    for name, value in row.items():
        if lowered.get(name.lower()) is None:
            lowered[name.lower()] = value
        elif value is not None:
            values.put(lowered, name.lower(), value)
    return [lowered]


@decodes(
    "lift",
    "members of objects become columns, unless the row has a column of that name",
    lift=Field(NAMES, "the columns with the objects; the earlier one wins", True),
    where=Field(TEXT, "only rows with this column", default=""),
)
@only_with(lambda columns, where: (where,) if where else columns)
def lifted(row: Record, columns: tuple[str, ...], where: str) -> list[Record]:
    """The row with the members of the objects in `columns` added to its own columns. Raises BadValue if one is not an
    object."""
    if where and values.is_absent(row.get(where)):
        return [row]
    inside: Record = {}
    for column in columns:
        members = values.opened(row.get(column))
        if members is not None:
            del row[column]
            inside = {**members, **inside}
    return [{**inside, **row}]


def _nested_cells(names: tuple[str, ...], columns: tuple[str, ...]) -> Layout | None:
    """`nested` for a table; None if one of the objects is also a column."""
    if not set(columns).isdisjoint(names):
        return None
    inside = {name: (columns.index(column), member) for name, column, member in _nested_members(names, columns)}
    return Layout(tuple((number, *inside.get(name, (-1, name))) for number, name in enumerate(names)), columns)


@decodes(
    "nest",
    "columns such as properties.plan become members of one column; if a name has several dots, the first one counts",
    nest=Field(NAMES, "the columns, without the dot", True),
)
@of_table(_nested_cells)
def nested(row: Record, columns: tuple[str, ...]) -> list[Record]:
    """The row, with columns such as `NAME.member` as members of the object NAME, for each NAME in `columns`. Raises
    BadValue if a column of that name is something else."""
    found: dict[str, Record] = {}
    for name, column, member in _nested_members(tuple(row), columns):
        value = row.pop(name)
        # A string stays a string: encoded as JSON it would be read again.
        kept = value.__class__ is str or value.__class__ is Raw
        found.setdefault(column, {})[member] = value if kept else Raw(encode(value))
    for column, members in found.items():
        whole = {**members, **(own := values.opened(row.get(column)) or {})}
        for member in [] if members.keys().isdisjoint(own) else members:
            values.put(whole, member, members[member])
        row[column] = whole  # type: ignore[assignment]
    return [row]


@lru_cache(256)
def _nested_members(names: tuple[str, ...], columns: tuple[str, ...]) -> tuple[tuple[str, str, str], ...]:
    """The names in a row that are members of one of the columns, each with the column and the member."""
    pieces = [(name, *name.partition(".")) for name in names]
    return tuple((name, column, member) for name, column, dot, member in pieces if dot and column in columns)


SESSION = "session_"
IN_ORDER = "in_order"
"""The column of an ITEM that is also in the item list of its transaction."""


@decodes(
    "session_hits",
    "one row for each object in the column `hits`, with the other columns as session_NAME, except a loader's; a hit of"
    " type TRANSACTION gets the ITEM hits with its transaction's id as the list `items`, and those get `in_order`",
    session_hits=Field(YES, "yes", True),
)
def hits_of_session(row: Record) -> list[Record]:
    """A row for each hit of a session, in order, without its nulls.

    Raises BadValue if a hit is not an object.
    """
    hits: list[Record] = []
    for member in values.items(row.pop("hits", None)) or []:
        hit = values.opened(member)
        if hit is None:
            raise BadValue("column 'hits': expected a list of objects")
        hits.append({name: value for name, value in hit.items() if not values.is_absent(value)})
    shared: Record = {
        name if is_loader_column(name) else SESSION + name: value
        for name, value in row.items()
        if not values.is_absent(value)
    }
    orders = {id: hit for hit in hits if (id := _transaction(hit, "TRANSACTION", "transaction"))}
    items: dict[str, list[Record]] = {}
    for hit in hits:
        id = _transaction(hit, "ITEM", "item")
        if id in orders:
            items.setdefault(id, []).append(values.opened(hit["item"]) or {})
            hit[IN_ORDER] = values.TRUE
    for id, listed in items.items():
        orders[id]["items"] = Raw(encode(listed))
    return [{**shared, **hit} for hit in hits]


def _transaction(hit: Record, kind: str, column: str) -> str:
    """The transaction's id in a hit of this type; "" for other hits, and if it has none."""
    if values.text(hit.get("type")) != kind:
        return ""
    return values.text((values.opened(hit.get(column)) or {}).get("transactionId")) or ""


_PREFIX = "mp_reserved_"
"""What Singer's tap writes instead of a dollar sign."""
_Names = tuple[str, ...]
_NOT_A_WORD = re.compile(r"[^a-z0-9]+")


def _loaded_cells(columns: tuple[str, ...], into: str, stay: _Names, names: _Names, strip: _Names) -> Layout | None:
    """`loaded_row` for a table in which no name depends on which other columns a row has."""
    plain = columns
    if _in_capitals(columns):
        plain = tuple(name.lower() for name in columns)
    elif any(name == name.upper() != name.lower() for name in columns):
        return None
    if strip:
        renamed = _plain_names(plain, strip)
        if any(renamed[name] != _plain_names((name,), strip)[name] for name in plain):
            return None
        plain = tuple(renamed[name] for name in plain)
    number_of = {name: number for number, name in enumerate(plain)}
    members = _members(plain, into, stay, names)
    if not members or RAW in plain or into in plain or len(number_of) < len(plain):
        return None
    if len({tools for _, tools in members}) < len(members):
        return None
    if any(_members((name,), into, stay, names) != ((name, tools),) for name, tools in members):
        return None
    beside = sorted(plain, key=lambda name: not is_loader_column(name))
    kept = tuple((number_of[name], -1, name) for name in beside if name in stay or is_loader_column(name))
    return Layout((*kept, *((number_of[name], 0, tools) for name, tools in members)), (into,), always=True)


@decodes(
    "loaded",
    "a row that Fivetran, Airbyte, dlt or Stitch copied: Airbyte's raw record is opened, names in capitals become lower"
    " case, and all columns go into one object except the loader's own, which stay next to it",
    loaded=Field(YES, "yes", True),
    into=Field(TEXT, "the object that receives the columns, in addition to its own members", True),
    stay=Field(NAMES, "columns that stay columns", default=()),
    names=Field(NAMES, "names of the tool: $browser for a column browser, _browser or mp_reserved_browser", default=()),
    strip=Field(
        NAMES,
        "prefixes to remove from names, unless another column has the rest as its name; a dot becomes an underscore",
        default=(),
    ),
)
@of_table(_loaded_cells)
def loaded_row(row: Record, into: str, stay: _Names, names: _Names, strip: _Names) -> list[Record]:
    """The one row that a loaded row becomes: `stay` are columns that stay, `strip` prefixes. Raises BadValue if a
    record or an object is something else."""
    columns = tuple(row)
    if _in_capitals(columns):
        row = {name.lower(): value for name, value in row.items()}
        columns = tuple(row)
    if strip:
        renamed = _plain_names(columns, strip)
        row = {renamed[name]: value for name, value in row.items()}
        columns = tuple(row)
    beside = {name: row[name] for name in columns if is_loader_column(name)}
    if RAW in row:
        row = values.opened(row[RAW]) or {}
        columns = tuple(row)
    members: Record = dict(values.opened(row[into]) or {}) if into in row else {}
    for name, tools in _members(columns, into, stay, names):
        value = row[name]
        # A string stays a string: as JSON it would be read again.
        kept = value if value.__class__ is str or value.__class__ is Raw else values.raw(value)
        values.put(members, name if tools in members else tools, kept)
    beside |= {name: row[name] for name in columns if name in stay}
    return [{**beside, into: members}]  # type: ignore[dict-item]


@lru_cache(256)
def _in_capitals(columns: tuple[str, ...]) -> bool:
    return not any(name != name.upper() for name in columns)


@lru_cache(256)
def _plain_names(names: tuple[str, ...], prefixes: tuple[str, ...]) -> dict[str, str]:
    """The name of each column without the first prefix that it has; a column keeps its name if two would share one."""
    found: dict[str, str] = {}
    taken = set(names)
    for name in names:
        text = name.replace(".", "_")
        text = next((text.removeprefix(prefix) for prefix in prefixes if text.startswith(prefix)), text)
        if not text or text in taken:
            text = name
        taken.add(text)
        found[name] = text
    return found


@lru_cache(256)
def _members(
    columns: tuple[str, ...], into: str, stay: tuple[str, ...], names: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """The columns of a row that become members, each with its new name unless another member has that name.

    The rows of a table have the same columns.
    """
    own = {_word(name): name for name in names}
    found = []
    # Among several spellings the plainest is the tool's; the others are of invented properties.
    for name in sorted(columns, key=_underscores):
        if name not in stay and name != into and not is_loader_column(name):
            tools = own.get(_word(name.removeprefix(_PREFIX)), name)
            found.append((name, name if tools in columns else tools))
    return tuple(found)


@lru_cache(4_096)
def _underscores(name: str) -> int:
    return len(name) - len(name.lstrip("_"))


@lru_cache(4_096)
def _word(name: str) -> str:
    return _NOT_A_WORD.sub("_", name.lower()).strip("_")
