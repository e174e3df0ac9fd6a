"""A row or a value as a report may show it: names and the ids of a row unchanged, values masked, cut short.

Reports are mailed and printed, and a row contains what people typed. A row may be broken, which may be why it was
rejected, so it is masked token by token and never parsed.
"""

from __future__ import annotations

import csv
import io
import re
from typing import Any, Literal

from msgspec import Raw

from pipeline.models import Dialect
from pipeline.text import printable

MASK = "•••"
RECORD_CHARACTERS = 400
VALUE_CHARACTERS = 80
IDS = frozenset(
    (
        "distinct_id", "$distinct_id", "user_id", "$user_id", "userId", "device_id", "$device_id", "anonymousId",
        "anonymous_id", "user_pseudo_id", "uuid", "$insert_id", "insert_id", "messageId", "message_id", "event_id",
    )
)  # fmt: skip
"""Members whose values are ids."""
SHOWN = IDS | {"event", "event_type", "event_name", "type", "time", "timestamp", "event_time", "event_timestamp"}
"""Members whose values are ids, times and names of events: shown, since they identify the row."""

_TOKEN = re.compile(
    r'(?P<text>"(?:[^"\\]|\\.)*(?:"|\Z))(?P<colon>\s*:)?|(?P<mark>[\[\]{}:,\s]+)|(?P<word>[^"\[\]{}:,\s]+)', re.DOTALL
)
_KNOWN_WORDS = frozenset(("true", "false", "null", "NaN", "Infinity", "-Infinity"))
_READ = 8_192
"""At most this many characters of a row are read: a row may be 64 MiB long."""


def masked(record: str, dialect: Dialect | None = None, known: frozenset[str] = SHOWN) -> str:
    """The row's text, values masked, at most 400 characters, without control characters.

    `dialect` is given for a delimited row; without it the text is taken for JSON. `known` are
    the members that are shown.
    """
    text = record[:_READ]
    if dialect is not None and dialect.header and not dialect.sheet:  # a row of a sheet is a JSON list
        return printable(_masked_cells(text, dialect, known), RECORD_CHARACTERS)
    return printable(_masked_json(text, known), RECORD_CHARACTERS)


def masked_value(value: Any) -> str:
    """A single value of a row (`pipeline.values.Value`): the names of its members and its ids are masked too."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{MASK}"' if value else '""'
    if not isinstance(value, Raw):
        return MASK
    text = bytes(memoryview(value)[:_READ]).decode("utf-8", "replace")
    return printable(_masked_json(text, frozenset()), VALUE_CHARACTERS)


def _masked_json(text: str, known: frozenset[str] = SHOWN) -> str:
    pieces = []
    key = ""
    for token in _TOKEN.finditer(text):
        if token["mark"] is not None:
            pieces.append(token["mark"])
        elif token["colon"] is not None:
            key = token["text"].strip('"')
            pieces.append(token[0])
        elif key in known or token["word"] in _KNOWN_WORDS:
            pieces.append(token[0])
        elif token["text"] is not None:
            pieces.append(f'"{MASK}"')
        else:
            pieces.append(MASK)
    return "".join(pieces)


def cells_of(text: str, dialect: Dialect) -> list[str]:
    """The cells of a delimited row; none if it is broken."""
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=dialect.delimiter, quotechar=dialect.quote or None,
        escapechar=dialect.escape or None, quoting=quoting,
    )  # fmt: skip
    try:
        return next(reader, [])
    except csv.Error:
        return []


def _masked_cells(text: str, dialect: Dialect, known: frozenset[str]) -> str:
    cells = cells_of(text, dialect) or [MASK]
    # All cells are masked if their names are uncertain.
    names = dialect.header if len(cells) == len(dialect.header) else ("",) * len(cells)
    return dialect.delimiter.join(
        cell if name in known or not cell else MASK for name, cell in zip(names, cells, strict=True)
    )
