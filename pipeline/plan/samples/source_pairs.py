"""Rows of the source next to the events that they become, each property with the rule that gives it.

Plans are mailed and printed, so values and ids are masked unless a person asks for them. Names of fields, properties
and events, times and uuids are shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec import Raw

from pipeline.mask import MASK, masked_value
from pipeline.text import printable
from pipeline.values import Value

_text = msgspec.json.Decoder(str).decode
NAME_CHARACTERS = 200
VALUE_CHARACTERS = 120
MOST_FIELDS = 60
"""At most this many fields and properties of one pair are listed."""


class SourceField(msgspec.Struct, frozen=True):
    """One field of a row, as a mapping refers to it, and where it goes; `by` is the rule that leaves it out, if one
    does."""

    field: str
    value: str
    to: list[str]
    by: str = ""


class SentProperty(msgspec.Struct, frozen=True):
    """One property of an event, or a member next to the properties. `fields` are the fields of the row that it comes
    from (each that the row has, if there are several candidates); `rule` gives it, in a `line` of the mapping file, or
    0."""

    name: str
    value: str
    fields: list[str]
    rule: str
    line: int


class SourcePair(msgspec.Struct, frozen=True):
    """A row and the event that it becomes. `row` counts from 1 in its file. `event_rule` is the entry of `events` in
    the mapping, or "". `more_fields` and `more_properties` count what is not listed."""

    event: str
    year: int
    file: str
    row: int
    event_rule: str
    fields: list[SourceField]
    more_fields: int
    members: list[SentProperty]
    properties: list[SentProperty]
    more_properties: int


class SourcePairs(msgspec.Struct, frozen=True):
    """The pairs, which are the lines of source-pairs.jsonl, those of the most frequent names first. `kinds` counts the
    different combinations of event name and UTC year; `values` and `ids` say whether they are shown."""

    kinds: int
    values: bool
    ids: bool
    pairs: int


class Shown(NamedTuple):
    """Whether values of properties, and ids, are shown unmasked."""

    values: bool = False
    ids: bool = False

    def text(self, value: Value | Mapping[str, Value], ids: frozenset[str], *, is_id: bool, clear: bool = False) -> str:
        """A value as a string, masked or cut. While ids are masked, no value shows any of the strings in `ids`."""
        if not (clear or (self.ids if is_id else self.values)):
            return masked_value(Raw(msgspec.json.encode(value)) if isinstance(value, dict) else value)
        text = as_text(value)
        if isinstance(value, Raw) and text[:1] == '"':
            text = f'"{characters(value)}"'
        elif (
            isinstance(value, Raw | dict) and not self.ids and not clear and "\\" in text
        ):  # an id could be spelled with escapes
            return masked_value(Raw(text.encode()))
        if not self.ids and not clear:
            for one in ids:
                text = re.sub(rf"(?<!\w){re.escape(one)}(?!\w)", MASK, text)
        return cut(text)


def as_text(value: Value | Mapping[str, Value]) -> str:
    """A value as JSON; a string from a table as it is."""
    if isinstance(value, str):
        return value
    return bytes(value if isinstance(value, Raw) else msgspec.json.encode(value)).decode("utf-8", "replace")


def characters(value: Value | Mapping[str, Value]) -> str:
    """The characters of a string, or the digits of a number; other values, and strings that are not Unicode, as
    JSON."""
    text = as_text(value)
    if isinstance(value, str) or text[:1] != '"':
        return text
    try:
        return _text(text)
    except msgspec.MsgspecError:
        return text[1:-1]


def cut(text: str) -> str:
    """The beginning of a string without control characters, and how many characters are missing."""
    missing = len(text) - VALUE_CHARACTERS
    if missing <= 0:
        return printable(text, 6 * VALUE_CHARACTERS)
    return f"{printable(text[:VALUE_CHARACTERS], 6 * VALUE_CHARACTERS)} … (+{missing:,} characters)"
