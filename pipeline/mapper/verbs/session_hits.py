"""The decoder for sessions of Universal Analytics, whose hits are a list in each row
(docs/know/exports.md#universal-analytics)."""

from __future__ import annotations

from functools import partial

from msgspec import Raw

from pipeline import values
from pipeline.mapper.codegen.runtime import encode
from pipeline.mapper.language.kinds import YES, Field, verb
from pipeline.mapper.language.sections import Call
from pipeline.mapper.loader_columns import is_loader_column
from pipeline.mapper.program.builder import Builder
from pipeline.mapper.program.functions import decoding
from pipeline.mapper.program.operations import Decode
from pipeline.values import BadValue, Record

SESSION = "session_"
IN_ORDER = "in_order"
"""The column of an ITEM that is among the items of its transaction."""

decoder = partial(verb, "decoder")


@decoder(
    "session_hits",
    "one row for each object in the column `hits`, with the other columns as session_NAME, but for a loader's; a hit of"
    " the type TRANSACTION gets the ITEM hits with its transaction's id as the list `items`, and those get `in_order`",
    session_hits=Field(YES, "yes", True),
)
def session_hits(_build: Builder, _call: Call) -> Decode:
    return Decode("hits_of_session", ())


@decoding
def hits_of_session(row: Record) -> list[Record]:
    """A row for each hit of a session, in their order, without its nulls.

    Raises BadValue for hits that are no objects.
    """
    hits: list[Record] = []
    for member in values.items(row.pop("hits", None)) or []:
        hit = values.opened(member)
        if hit is None:
            raise BadValue("column 'hits': a list of objects was expected")
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
    """The transaction's id in a hit of a type; "" for other hits, and without one."""
    if values.text(hit.get("type")) != kind:
        return ""
    return values.text((values.opened(hit.get(column)) or {}).get("transactionId")) or ""
