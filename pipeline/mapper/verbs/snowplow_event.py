"""The decoder for Snowplow's enriched events, which every export route writes in its own form
(docs/know/exports.md#snowplow-forms)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from pipeline import values
from pipeline.json_limits import unsendable
from pipeline.mapper.codegen.conversions import as_boolean, as_number
from pipeline.mapper.codegen.runtime import encode
from pipeline.mapper.language.kinds import TEXTS, Call, Field, decoder
from pipeline.mapper.program.builder import Builder
from pipeline.mapper.program.functions import decoding
from pipeline.mapper.program.operations import Decode
from pipeline.values import NULL, BadValue, Record, Value

NUMBERS = (
    "txn_id domain_sessionidx geo_latitude geo_longitude page_urlport refr_urlport se_value tr_total tr_tax tr_shipping"
    " tr_total_base tr_tax_base tr_shipping_base ti_price ti_price_base ti_quantity pp_xoffset_min pp_xoffset_max"
    " pp_yoffset_min pp_yoffset_max br_colordepth br_viewwidth br_viewheight dvce_screenwidth dvce_screenheight"
    " doc_width doc_height"
)
BOOLEANS = (
    "br_features_pdf br_features_flash br_features_java br_features_director br_features_quicktime"
    " br_features_realplayer br_features_windowsmedia br_features_gears br_features_silverlight br_cookies"
    " dvce_ismobile"
)
TIMES = "collector_tstamp dvce_created_tstamp dvce_sent_tstamp refr_dvce_tstamp derived_tstamp true_tstamp"
ENTITIES = ("contexts", "derived_contexts")
PAYLOAD = "unstruct_event"
UNREADABLE = "unreadable_entities"
"""The column that says what is wrong with the entities that stay as they are."""

_COLUMN = re.compile(r"(contexts|unstruct_event)_(.+?)_([0-9]+)(?:_[0-9]+_[0-9]+|_recovered_.+)?")
_SCHEMA = re.compile(r"iglu:([^/]+)/([^/]+)/[^/]+/([0-9]+)-.*")
_TIME = re.compile(r"([0-9-]{10})[T ]([0-9:]{8})(?:\.([0-9]*?)0*)?(?:Z| ?UTC|\+00(?::?00)?)?")
_MILLISECONDS = len("2021-03-03 21:27:32.696")
_PREFIXES = frozenset(("contexts_", "unstruct_"))
_PREFIX = len("contexts_")


class _Unreadable(BadValue):
    """Entities in a shape other than Snowplow's: the cell stays a property as it is."""


class _Described(msgspec.Struct, gc=False):
    """Self-describing JSON: data, and the name of its schema."""

    schema: str
    data: Raw


class _Entities(msgspec.Struct, gc=False):
    data: list[_Described]


class _Payload(msgspec.Struct, gc=False):
    data: _Described


_decode_entities = msgspec.json.Decoder(_Entities).decode
_decode_payload = msgspec.json.Decoder(_Payload).decode


@decoder(
    "snowplow_event",
    "one shape for Snowplow's enriched events, whatever form they are exported in: the payload of a self-describing"
    " event is the object `unstruct_event`, entities are lists in columns contexts_VENDOR_NAME_MAJOR with member names"
    " in snake case, and the event's own numbers, booleans and times are typed. Entities that cannot be read stay as"
    " they are, and `unreadable_entities` says why",
    snowplow_event=Field(
        TEXTS, "name: the VENDOR_NAME_MAJOR of an entity, whose first one becomes the object of that name instead", True
    ),
)
def snowplow_event(_build: Builder, call: Call) -> Decode:
    return Decode("enriched_event", tuple(text for pair in call.arguments["snowplow_event"].items() for text in pair))


@decoding
def enriched_event(row: Record, *named: str) -> list[Record]:
    """The row in that shape. Raises BadValue for payloads and members that are not objects."""
    if "EVENT_ID" in row:
        row = {name.lower(): value for name, value in row.items()}
    entities: dict[str, list[Any]] = {}
    unreadable: list[str] = []
    for column in ENTITIES:
        value = row.pop(column, None)
        if not values.is_absent(value):
            read = _derived if column == "derived_contexts" and type(value) is str else _described
            try:
                described = read(column, value)
            except _Unreadable as error:
                row[column] = value
                unreadable.append(str(error))
                continue
            for name, data in described:
                entities.setdefault(name, []).append(data)
    value = row.pop(PAYLOAD, None)
    payload: Any = None
    if not values.is_absent(value) and (text := _json(PAYLOAD, value)):
        vendor, schema, payload = _payload(text)
        row.setdefault("event_vendor", vendor)
        row.setdefault("event_name", schema)
    further = []
    payloads: dict[str, Record] = {}
    for name, value in row.items():
        as_typed = _TYPES.get(name)
        if as_typed is not None:
            row[name] = as_typed(value)
        elif name[:_PREFIX] in _PREFIXES:
            further.append(name)
    for name in further:
        column, is_payload = _column(name)
        if not column:
            continue
        cell = row.pop(name)
        try:
            found = [members for one in _members(cell) if (members := _object(name, one)) is not None]
        except _Unreadable as error:
            if is_payload:
                raise
            row[name] = cell
            unreadable.append(str(error))
            continue
        if is_payload and found:
            payloads[name] = found[0]
        elif found:
            entities.setdefault(column, []).extend(found)
    if payloads:
        # Rows of other events have a struct whose members are all null.
        filled = [name for name, members in payloads.items() if members]
        event = f"_{_snake(values.text(row.get('event_name')) or '')}"
        if not payload:
            own_one = [name for name in filled if _column(name)[0].rpartition("_")[0].endswith(event)] or filled
            payload = payloads[(own_one or [*payloads])[0]]
        for name in filled:
            if payloads[name] is not payload:
                row[name] = Raw(encode(payloads[name]))
    if payload is not None:
        row[PAYLOAD] = payload
    own = _own_names(named)
    for column, listed in entities.items():
        name = own.get(column, "")
        if name:
            row[name] = listed[0]
        if not name or len(listed) > 1:
            row[column] = Raw(encode(listed))
    if unreadable:
        row[UNREADABLE] = "; ".join(unreadable)
    return [row]


@cache
def _own_names(named: tuple[str, ...]) -> dict[str, str]:
    """By the column of an entity: the name that the mapping gives it."""
    return {f"contexts_{column}": name for name, column in zip(named[::2], named[1::2], strict=True)}


def _members(cell: Value) -> Iterator[Value]:
    """The members of a list and of the lists in it; a value that is not a list is its only member."""
    for member in values.items(cell) or ():
        if type(member) is Raw and bytes(member)[:1] == b"[":
            yield from values.items(member) or ()
        else:
            yield member


def _described(column: str, value: Value) -> list[tuple[str, Record]]:
    """The entities of a cell, each with its column."""
    text = _json(column, value)
    if not text:
        return []
    try:
        found = _decode_entities(text).data
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _Unreadable(f"column {column!r}: {error}") from None
    return [(_names_of(one.schema)[2], _object(column, one.data) or {}) for one in found]


@lru_cache(1_024)
def _derived(column: str, value: str) -> list[tuple[str, Record]]:
    """`_described`, for entities that all events of a browser share; callers must not change them. Strings are
    decoded."""
    found = _described(column, value)
    return [(name, {member: _decoded(one) for member, one in data.items()}) for name, data in found]


def _decoded(value: Value) -> Value:
    return values.text(value) if type(value) is Raw and bytes(value)[:1] == b'"' else value


def _payload(text: bytes) -> tuple[str, str, Record]:
    """The vendor and the name of a self-describing event, and its data."""
    try:
        described = _decode_payload(text).data
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadValue(f"column {PAYLOAD!r}: {error}") from None
    vendor, name, _ = _names_of(described.schema)
    return vendor, name, _object(PAYLOAD, described.data) or {}


def _json(column: str, value: Value) -> bytes:
    """The JSON of a cell. Raises BadValue if it cannot be sent, since JSON inside a string was not checked before."""
    if type(value) is Raw and bytes(value)[:1] == b"{":
        return bytes(value)
    text = (values.text(value) or "").encode("utf-8", "surrogatepass")
    if problem := unsendable(text):
        raise BadValue(f"column {column!r}: {problem}")
    return text


def _object(column: str, value: Value) -> Record | None:
    """The members of an object without nulls, their names in snake case; None for an empty string and for null."""
    try:
        members = values.opened(value)
    except BadValue as error:
        raise _Unreadable(f"column {column!r}: {error}") from None
    if members is None:
        return None
    found: Record = {}
    for name, member in members.items():
        if member != NULL:
            new = _snake(name)
            while new in found:
                new = f"{new}_2"
            found[new] = member
    return found


@lru_cache(4_096)
def _snake(name: str) -> str:
    """The name as warehouse loaders write it."""
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).replace("-", "_").replace(".", "_").lower()


@lru_cache(4_096)
def _names_of(schema: str) -> tuple[str, str, str]:
    """Vendor, name and column of a schema such as iglu:com.acme/user/jsonschema/1-0-0."""
    match = _SCHEMA.fullmatch(schema)
    if match is None:
        raise _Unreadable(f"{schema[:100]!r} is not the name of a schema, such as iglu:com.acme/user/jsonschema/1-0-0")
    vendor, name, major = match.groups()
    return vendor, name, f"contexts_{_snake(vendor)}_{_snake(name)}_{major}"


@lru_cache(4_096)
def _column(name: str) -> tuple[str, bool]:
    """The column of the entities in a warehouse's column, and whether it is a payload's; "" for any other column."""
    match = _COLUMN.fullmatch(name)
    if match is None:
        return "", False
    return f"contexts_{_snake(match[2])}_{match[3]}", match[1] == PAYLOAD


def _number(value: Value) -> Value:
    """The number in a string; any other value unchanged."""
    if type(value) is str:
        return _number_in(value)
    with suppress(BadValue):
        return as_number(value)
    return value


@lru_cache(16_384)
def _number_in(text: str) -> Value:
    with suppress(BadValue):
        return as_number(text)
    return text


def _boolean(value: Value) -> Value:
    with suppress(BadValue):
        return as_boolean(value)
    return value


def _time(value: Value) -> Value:
    """A time in UTC as 2021-03-03T21:27:32.696Z, without trailing zeros; any other value unchanged."""
    text = value if type(value) is str else values.text(value) or ""
    if len(text) == _MILLISECONDS and text[10] == " " and text[19] == "." and text[-1] not in "0Z":
        return f"{text[:10]}T{text[11:]}Z"
    match = _TIME.fullmatch(text)
    if match is None:
        return value
    day, clock, fraction = match.groups()
    return f"{day}T{clock}.{fraction}Z" if fraction else f"{day}T{clock}Z"


_TYPES: dict[str, Callable[[Value], Value]] = {
    **dict.fromkeys(NUMBERS.split(), _number),
    **dict.fromkeys(BOOLEANS.split(), _boolean),
    **dict.fromkeys(TIMES.split(), _time),
}
