"""The decoder for rows that a loader copied into a warehouse, and what loaders add to them
(docs/know/exports.md#warehouse-copies)."""

from __future__ import annotations

import re
from functools import lru_cache, partial

from msgspec import Raw

from pipeline import values
from pipeline.mapper.codegen.runtime import encode
from pipeline.mapper.language.kinds import NAMES, TEXT, YES, Field, verb
from pipeline.mapper.language.sections import Call
from pipeline.mapper.program.builder import Builder
from pipeline.mapper.program.functions import decoding
from pipeline.mapper.program.operations import Decode
from pipeline.values import Record

BOOKKEEPING = ("_fivetran_", "_airbyte_", "_dlt_", "_sdc_")
"""How the names of loaders' own columns begin: Fivetran's, Airbyte's, dlt's and Stitch's."""
RAW = "_airbyte_data"
"""The column of Airbyte's raw tables that has the whole record."""
_PREFIX = "mp_reserved_"
"""What Singer's tap writes for a dollar sign."""
_NOT_A_WORD = re.compile(r"[^a-z0-9]+")

decoder = partial(verb, "decoder")


@decoder(
    "loaded",
    "a row that Fivetran, Airbyte, dlt or Stitch copied: without the loader's own columns, Airbyte's raw record opened,"
    " names in capitals in small letters, and the columns in one object",
    loaded=Field(YES, "yes", True),
    into=Field(TEXT, "the object that the columns become members of, beside its own", True),
    stay=Field(NAMES, "columns that stay columns"),
    names=Field(NAMES, "names of the tool: $browser for a column browser, _browser or mp_reserved_browser"),
    strip=Field(
        NAMES,
        "prefixes that names lose, where no column has the rest for its name; a dot in a name becomes an underscore",
    ),
)
def loaded(_build: Builder, call: Call) -> Decode:
    stay, strip = call.arguments.get("stay", ()), call.arguments.get("strip", ())
    names = call.arguments.get("names", ())
    counts = (str(len(stay)), str(len(strip)))
    return Decode("loaded_row", (call.arguments["into"], *counts, *stay, *strip, *names))


@decoding
def loaded_row(row: Record, into: str, staying: str, stripped: str, *words: str) -> list[Record]:
    """The one row that a loaded row becomes: `words` are so many columns that stay, so many prefixes, then the names.
    Raises BadValue for a record or an object that is none."""
    prefixes = int(staying) + int(stripped)
    stay, strip, names = words[: int(staying)], words[int(staying) : prefixes], words[prefixes:]
    if not any(name != name.upper() for name in row):
        row = {name.lower(): value for name, value in row.items()}
    if strip:
        renamed = _plain_names(tuple(row), strip)
        row = {renamed[name]: value for name, value in row.items()}
    if RAW in row:
        row = values.opened(row[RAW]) or {}
    members = values.opened(row.get(into)) or {}
    for name, tools in _members(tuple(row), into, stay, names):
        members[name if tools in members else tools] = row[name]
    kept = {name: row[name] for name in stay if name in row}
    written = {
        name: value if value.__class__ is str or value.__class__ is Raw else values.raw(value)
        for name, value in members.items()
    }
    return [{**kept, into: Raw(encode(written))}]


@lru_cache(256)
def _plain_names(names: tuple[str, ...], prefixes: tuple[str, ...]) -> dict[str, str]:
    """The name of each column without the first prefix that it has; it keeps its name where two would have one."""
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
    """The columns of a row that become members, each with the name that it gets unless another member has that.

    The rows of a table have the same columns.
    """
    own = {_word(name): name for name in names}
    found = []
    # Of several spellings the plainest is the tool's; the others are of properties that somebody made up.
    for name in sorted(columns, key=_underscores):
        if name not in stay and name != into and not is_bookkeeping(name):
            tools = own.get(_word(name.removeprefix(_PREFIX)), name)
            found.append((name, name if tools in columns else tools))
    return tuple(found)


@lru_cache(4_096)
def _underscores(name: str) -> int:
    return len(name) - len(name.lstrip("_"))


def is_bookkeeping(name: str) -> bool:
    """Whether a column is a loader's own, and no part of what it copied."""
    return name.startswith(BOOKKEEPING)


@lru_cache(4_096)
def _word(name: str) -> str:
    return _NOT_A_WORD.sub("_", name.lower()).strip("_")
