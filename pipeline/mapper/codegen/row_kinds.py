"""What the source of a mapper needs from its rows. The same source runs on two kinds of rows, with the same outcomes to
the byte: `pipeline.native` Members, in C, and in Python a `Row`, a dict that is read like Members.

A kind makes the objects that change a row by its names alone. `_native.pyi` has the arguments and results of those for
Members; those for a Row are alike. A row goes to Python if its properties are not a plain object in C. A value whose
new name is taken is not lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from pipeline.mapper.codegen.runtime import Spreader, Warnings, opened, text_of
from pipeline.mapper.loader_columns import is_loader_column, without_loader_columns
from pipeline.mapper.program.blanks import BlankRemover
from pipeline.native import native
from pipeline.values import NULL, BadValue, Record, Value

MOST_RENAMES = 30_000
"""The limit of `native.Renames`; a mapping with more is not compiled for Members."""
Change: TypeAlias = tuple[str, str | None]
"""The old name of a property, and the new one or None."""
Collided: TypeAlias = Callable[..., Warnings]
Taken: TypeAlias = tuple[tuple[str, Value], ...]
NewName: TypeAlias = Callable[[str], str | None]

_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode


class NotNative(Exception):
    """The program cannot run on Members."""


class Row(dict[str, Any]):
    """A row, or an object in it."""

    __slots__ = ()

    def text(self, name: str) -> str | None:
        value = self.get(name)
        if value.__class__ is Raw:
            try:
                return _decode_text(value)
            except msgspec.MsgspecError:
                return text_of(value)
        return value if value is None or value.__class__ is str else text_of(value)

    def given(self, name: str) -> Any:
        value = self.get(name)
        return None if value == NULL else value

    number = dict.get

    def as_dict(self) -> dict[str, Any]:
        return dict(self)

    def twin(self) -> Row:
        return Row(self)


class OddMembers(Row):
    """The members of an object in a row that is not plain, or of a value that is not an object."""

    __slots__ = ()


class _Renames:
    """`native.Renames` for a Row; `loaders` also drops a loader's columns."""

    def __init__(
        self, changes: Sequence[Change], collided: Collided, watched: frozenset[str], on_watched: Any, loaders: bool
    ) -> None:
        self._changes, self._collided = changes, collided
        self._numbers = {old: number for number, (old, _) in enumerate(changes)}
        self._old_names, self._loaders = set(self._numbers), loaders  # not a frozenset: that is slower to intersect
        self._watched, self._on_watched = watched, on_watched

    def __call__(self, row: Row, warnings: Warnings) -> Warnings:
        if not self._watched.isdisjoint(row):
            warnings = self._on_watched(row, warnings)
        if self._loaders:
            without_loader_columns(row, self._old_names)
        found = sorted(map(self._numbers.__getitem__, row.keys() & self._old_names))
        for (old, new), value in [(self._changes[number], row.pop(self._changes[number][0])) for number in found]:
            if new is not None and new in row:
                warnings = self._collided(old, new, value, row, warnings)
            elif new is not None:
                row[new] = value
        return warnings


def _spread(
    spreader: Spreader, collided: Collided, members: Any, properties: Any = None, warnings: Warnings = ()
) -> Any:
    """`native.Spread` for a Row, and the part of it that stays in Python."""
    spread = spreader(members.as_dict())
    if properties is None:
        return spread
    for name, value in spread.items():
        if properties.setdefault(name, value) is not value:
            warnings = collided(name, value, properties, warnings)
    return warnings


def _leave_out(each: Sequence[Callable[[Any], None]], properties: Any, warnings: Warnings) -> Warnings:
    for remove in each:
        remove(properties)
    return warnings


class PythonRows:
    row: Any = Row

    def opener(self) -> Callable[[Value], Any]:
        """The function that gives the members of an object, for reading only; None if the value is not an object."""
        return _open_row

    def properties_opener(self, blanks: frozenset[str], column: bool) -> Callable[[Value], Any]:
        """The function that gives the members of the object with the properties; the strings in `blanks` have none.
        Raises BadValue if a value is not an object. `column`: a reader opens this column, but not this value."""
        return partial(_open_properties, blanks)

    def renames(
        self, changes: Sequence[Change], collided: Collided, blanks: dict[str, frozenset[str]], loaders: bool
    ) -> Callable[[Any, Warnings], Warnings]:
        """`blanks` are strings by the name of a property; a property with such a value is left out first."""
        remove = partial(_leave_out_texts, blanks)
        return _Renames(changes, collided, frozenset(blanks), partial(_leave_out, (remove,)), loaders)

    def blanks(self, json: frozenset[str], cells: frozenset[str], names: frozenset[str], kept: str | None) -> Any:
        return BlankRemover(json, cells, names)

    def columns(self, new_name: NewName) -> Callable[[Any, Any, Taken], Taken]:
        """The function that copies the columns that have a new name to the properties (`keep_columns`)."""
        return partial(keep_columns, new_name)

    def spread(self, spreader: Spreader, collided: Collided) -> Callable[..., Any]:
        return partial(_spread, spreader, collided)


class NativeRows(PythonRows):
    """The same for `native.Members`. Raises NotNative."""

    row: Any = None if native is None else native.Members

    def opener(self) -> Callable[[Value], Any]:
        return native.Opener(again=True)  # the items of a row share values

    def properties_opener(self, blanks: frozenset[str], column: bool) -> Callable[[Value], Any]:
        return partial(_open_plain, (lambda value: None) if column else native.Opener())

    def renames(
        self, changes: Sequence[Change], collided: Collided, blanks: dict[str, frozenset[str]], loaders: bool
    ) -> Callable[[Any, Warnings], Warnings]:
        if len(changes) > MOST_RENAMES:
            raise NotNative
        each: list[Callable[[Any], None]] = [partial(_leave_out_texts, blanks)]
        # `native.Blanks` do not compare strings with a dict or list, and a reader may pass an object as either.
        if not any(text[:1] in ("{", "[") for texts in blanks.values() for text in texts):
            names_of: dict[frozenset[str], list[str]] = {}
            for name, texts in blanks.items():
                names_of.setdefault(texts, []).append(name)
            each = [native.Blanks(texts, texts, frozenset(names)) for texts, names in names_of.items()]
        leaves = is_loader_column if loaders else None
        return native.Renames(tuple(changes), collided, frozenset(blanks), partial(_leave_out, each), leaves)

    def blanks(self, json: frozenset[str], cells: frozenset[str], names: frozenset[str], kept: str | None) -> Any:
        return native.Blanks(json, cells, names, kept)

    def columns(self, new_name: NewName) -> Callable[[Any, Any, Taken], Taken]:
        return native.Spread(new_name, None, take, partial(keep_columns, new_name), True)

    def spread(self, spreader: Spreader, collided: Collided) -> Callable[..., Any]:
        texts = native.Blanks(spreader.blank, spreader.blank, frozenset()) if spreader.blank else None
        return native.Spread(spreader.new_name, texts, collided, partial(_spread, spreader, collided))


def map_dicts(map_row: Callable[..., Any]) -> Callable[..., Any]:
    """Turns a function that maps each row as a `Row` into one that maps rows that are dicts."""

    def map_dict(row: Record, scan: Any = None) -> Any:
        if scan is not None:
            scan.row(row)
        made = Row(row)
        if None in made.values():
            made = Row((name, value) for name, value in row.items() if value is not None)
        return map_row(made, scan)

    return map_dict


def _open_row(value: Any) -> Row | None:
    try:
        members = opened(value)
    except BadValue:
        return None
    return None if members is None else Row(members)


def _open_properties(blanks: frozenset[str], value: Any) -> Row:
    if value.__class__ is Raw:
        try:
            return Row(_decode_object(value))
        except msgspec.MsgspecError:
            pass
    elif value.__class__ is dict:
        return Row(value)
    if blanks and text_of(value) in blanks:
        return Row()
    return Row(opened(value) or {})


def _open_plain(opener: Callable[[Value], Any], value: Value) -> Any:
    members = opener(value)
    if members is None:
        raise BadValue("")  # its row is mapped again as a dict
    return members


def _leave_out_texts(blanks: dict[str, frozenset[str]], properties: Any) -> None:
    for name, texts in blanks.items():
        if name in properties and text_of(properties[name]) in texts:
            del properties[name]


def shown(scan: Any, row: Any, properties: Any, apart: bool) -> None:
    """Show a scan a native row, or the properties of a Row, which itself was shown before. `apart`: the properties are
    not a member of the row."""
    if row.__class__ is not Row:
        scan.members(row, properties if apart else None)
    elif properties is not row:
        scan.opened(properties)


# --- properties whose new name is taken


def kept(tool: str, name: str, value: Value, properties: Record) -> str:
    """Add a value whose name is taken as TOOL_name, TOOL_name_2, …; returns the name."""
    new, number = f"{tool}_{name}", 2
    while new in properties:
        new, number = f"{tool}_{name}_{number}", number + 1
    properties[new] = value
    return new


def renamed(
    tool: str, reserved: frozenset[str], old: str, new: str, value: Value, properties: Record, warnings: Warnings
) -> Warnings:
    """The row has both names: the old one stays, with a warning, unless the service would read it."""
    if old not in reserved:
        properties[old] = value
        return (*warnings, ("name_collision", f"{old!r} was to become {new!r}, but the row has that already"))
    name = kept(tool, old, value, properties)
    return (*warnings, ("name_collision", f"{old!r} became {name!r}, because the row has {new!r}"))


def collided(tool: str, name: str, value: Value, properties: Record, warnings: Warnings) -> Warnings:
    """The mapping sets a property that the row also has: the row's own moves to TOOL_name, with a warning."""
    own = properties[name]
    properties[name] = value
    if own is None or own == value:
        return warnings
    return (*warnings, ("name_collision", f"the row's own {name!r} became {kept(tool, name, own, properties)!r}"))


def column_name(named: frozenset[str], prefix: str, loaders: bool, name: str) -> str | None:
    """The property that a column becomes; None if a mapping names the column, or with `loaders` if it is a loader's."""
    return None if name in named or (loaders and is_loader_column(name)) else prefix + name


def keep_columns(new_name: NewName, row: Record, properties: Record, taken: Taken) -> Taken:
    """Add the columns of a row under their new names; returns `taken` and the columns whose new name is taken."""
    for name, value in row.items():
        new = None if value is None or value == NULL else new_name(name)
        if new is not None and properties.setdefault(new, value) is not value:
            taken = take(new, value, properties, taken)
    return taken


def take(new: str, value: Value, properties: Record, taken: Taken) -> Taken:
    return (*taken, (new, value))


def keep_taken(tool: str, prefix: str, taken: Taken, properties: Record, warnings: Warnings) -> Warnings:
    """Add columns whose name has another value already under TOOL_name, TOOL_name_2, …, each with a warning."""
    for name, value in taken:
        if properties[name] != value:
            new = kept(tool, name.removeprefix(prefix), value, properties)
            detail = f"the row also has a property {name!r}: its column became {new!r}"
            warnings = (*warnings, ("name_collision", detail))
    return warnings
