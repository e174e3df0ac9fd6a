"""The decoder for rows that a loader copied into a warehouse, and what loaders add to them
(docs/know/exports.md#warehouse-copies)."""

from __future__ import annotations

import re
from functools import lru_cache, partial

from msgspec import Raw

from pipeline import values
from pipeline.mapper.language.kinds import NAMES, TEXT, YES, Field, verb
from pipeline.mapper.language.sections import Call
from pipeline.mapper.loader_columns import RAW, is_loader_column
from pipeline.mapper.program.builder import Builder
from pipeline.mapper.program.functions import decoding, of_table
from pipeline.mapper.program.operations import Decode
from pipeline.models import Layout
from pipeline.values import Record

_PREFIX = "mp_reserved_"
"""What Singer's tap writes for a dollar sign."""
_NOT_A_WORD = re.compile(r"[^a-z0-9]+")

decoder = partial(verb, "decoder")


@decoder(
    "loaded",
    "a row that Fivetran, Airbyte, dlt or Stitch copied: Airbyte's raw record opened, names in capitals in small"
    " letters, and the columns in one object, but for the loader's own, which are next to it",
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


def _loaded_cells(columns: tuple[str, ...], into: str, staying: str, stripped: str, *words: str) -> Layout | None:
    """`loaded_row`, of a table in which no name depends on which other columns a row has."""
    stay, strip, names = _split(words, staying, stripped)
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


@decoding
@of_table(_loaded_cells)
def loaded_row(row: Record, into: str, staying: str, stripped: str, *words: str) -> list[Record]:
    """The one row that a loaded row becomes: `words` are so many columns that stay, so many prefixes, then the names.
    Raises BadValue for a record or an object that is none."""
    stay, strip, names = _split(words, staying, stripped)
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
        # A text stays one: as JSON it would be read again.
        kept = value if value.__class__ is str or value.__class__ is Raw else values.raw(value)
        values.put(members, name if tools in members else tools, kept)
    beside |= {name: row[name] for name in columns if name in stay}
    return [{**beside, into: members}]  # type: ignore[dict-item]


@lru_cache(256)
def _in_capitals(columns: tuple[str, ...]) -> bool:
    return not any(name != name.upper() for name in columns)


def _split(words: tuple[str, ...], staying: str, stripped: str) -> tuple[tuple[str, ...], ...]:
    prefixes = int(staying) + int(stripped)
    return words[: int(staying)], words[int(staying) : prefixes], words[prefixes:]


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
