"""The C part. Positional arguments are checked: TypeError for another type or count. Objects that are stored get a
reference of their own. Times are microseconds since 1970 in UTC."""

from collections.abc import Callable, Iterator
from typing import Any

class Members:
    """The members of one row, or of its opened object, as a dict[str, Raw] in their order, or dict[str, Value] where
    Header created them.

    Text is not copied: the object has a reference to the bytes that Lines reads, or to the values of Header. A name or
    a value of Members as a value is a TypeError.
    """

    def get(self, name: str, default: Any = None, /) -> Any: ...
    def setdefault(self, name: str, value: Any, /) -> Any: ...
    def keys(self) -> list[str]: ...
    def values(self) -> list[Any]: ...
    def items(self) -> list[tuple[str, Any]]: ...
    def text(self, name: str, /) -> str | None:
        """`pipeline.values.text` of a member; TypeError for opened ones."""

    def number(self, name: str, /) -> Any:
        """An int for a whole number of at most 18 digits, else what `get` returns."""

    def given(self, name: str, /) -> Any:
        """The value; None where it is missing or JSON null."""

    def shape(self) -> int:
        """A hash of the names in their order, and of those of opened members, the same within a process."""

    def twin(self) -> Members:
        """The same members in an object of their own; TypeError for opened ones."""

    def as_dict(self) -> dict[str, Any]: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: object) -> bool: ...
    def __getitem__(self, name: str) -> Any: ...
    def __setitem__(self, name: str, value: Any) -> None: ...
    def __delitem__(self, name: str) -> None: ...

class Lines:
    """Reads JSON lines: Members of a plain line, the line's bytes for any other; with `observe`, (line, Members) where
    a plain line has an integer beyond 2^53. At most 4 names can be opened (ValueError)."""

    def __init__(self, data: bytes, opens: tuple[str, ...], observe: bool) -> None: ...
    def __iter__(self) -> Iterator[Members | bytes | tuple[bytes, Members]]: ...
    def __next__(self) -> Members | bytes | tuple[bytes, Members]: ...

class Renames:
    """Drops and renames properties: a change is (old name, new name or None). All are removed before one is added.

    A call returns the warnings: `collided(old, new, value, properties, warnings)` returns them where both names exist,
    `on_watched(properties, warnings)` before all changes of a row with a watched name. `leaves` is called once with
    each name that no change has, and says whether it is dropped. At most 2^30 changes (ValueError).
    """

    def __init__(
        self,
        changes: tuple[tuple[str, str | None], ...],
        collided: Callable[[str, str, Any, Any, Any], Any],
        watched: frozenset[str],
        on_watched: Callable[[Any, Any], Any],
        leaves: Callable[[str], bool] | None = None,
    ) -> None: ...
    def __call__(self, properties: Members, warnings: Any, /) -> Any: ...

class Spread:
    """Adds the members of an object to properties, under the names that `new_name` returns, None for none; it is called
    once with each. `blanks` leaves out those that it takes for missing, `without_nulls` those that are null.

    A call returns the warnings: `collided(name, value, properties, warnings)` returns them if the properties have
    the name. If two members get one name, or there are more than 1,024, all is left to `slow`, with the same arguments.

    With the object alone a call returns Members of its own, under the new names; None if it is left to Python.
    """

    def __init__(
        self,
        new_name: Callable[[str], str | None],
        blanks: Blanks | None,
        collided: Callable[[str, Any, Any, Any], Any],
        slow: Callable[[Members, Members, Any], Any],
        without_nulls: bool = False,
    ) -> None: ...
    def __call__(self, object: Members, properties: Members = ..., warnings: Any = ..., /) -> Any: ...

class Writer:
    """Appends an event to `text`. False, with nothing appended, where `pipeline.encoder.event.Encoder.write` is needed:
    a reserved name, an empty `$ip`, an id to be escaped, no properties, or `most` bytes and more."""

    def __init__(self, reserved: frozenset[str], tail: bytes, tail_beside_ip: bytes) -> None: ...
    def __call__(
        self, text: bytearray, head: bytes, distinct_id: str, properties: Members, ending: bytes, most: int, /
    ) -> bool: ...

class Observer:
    """Records what a plan needs of events: appends to `names`, `distinct_ids` and `notes`, and collects times in
    columns."""

    def __init__(self, names: list[str], distinct_ids: list[str], notes: list[Any]) -> None: ...
    def __call__(self, draft: Any, time: int, distinct_id: str, properties: Any, /) -> int:
        """What remains for the caller, as bits: 1 the event sets `$set`, 2 it has `$groups`."""

    def add(
        self, event: str, distinct_id: str, time: int, received: int | None, wall: int | None, note: Any, /
    ) -> None: ...
    def cut(self, events: int, walls: int, /) -> None:
        """Keeps the first `events` events with their notes, and the first `walls` wall times. ValueError for fewer."""

    def columns(self) -> tuple[bytes, bytes, bytes, bytes, bytes]:
        """Times, receive times, wall times and the receive times of those, and the numbers of events with a note, as
        int64."""

    @property
    def walls(self) -> int: ...

class Appender:
    """Appends ordinary events, whose properties are Members, to `text` and to the columns of a
    `pipeline.encoder.buffer.EventBuffer`; `slow` has the same arguments and appends others. `endings` are those of
    whole seconds, milliseconds and microseconds. TypeError for a `type` that is not a msgspec.Struct."""

    def __init__(
        self, slow: Callable[..., Any], type: type, writer: Writer, heads: dict[str, bytes],
        is_valid: Callable[[Any, Any, int], bool], newest: int, most: int, endings: tuple[bytes, bytes, bytes],
        ends: list[int], times: list[int], keys: list[str], rows: list[int], own: dict[int, str],
        observer: Callable[[Any, int, str, Any], int] | None, /,
    ) -> None: ...  # fmt: skip
    def __call__(self, text: bytearray, row: int, outcome: Any, /) -> int | None:
        """None if the outcome is not an ordinary event, else what the observer returns, 0 without one."""

class Reader:
    """Reads ordinary texts, and calls `slow` with the same arguments for all others. By its `kind`:

    `iso`, of (text, space): (µs, whether in UTC, whether cut), as `pipeline.timestamps.read_iso`.
    `format`, of a text: as `iso`, as `pipeline.mapper.codegen.timeformat.TimeFormat.read` with this `format`.
    `placeholder`, of an id: False for one that is none of `words` in any case, as
    `pipeline.validator.placeholder_ids.is_placeholder`.
    `uuid`, of a text or None: as `pipeline.mapper.runtime.clean_uuid`.

    ValueError for another kind, for a format without Y, m or d or with a directive that is not one of Y, m, d, H, M and
    S, or is there twice, for a word that is not of 1 to 63 ASCII characters, and for more than 256.
    """

    def __init__(
        self, kind: str, slow: Callable[..., Any], words: frozenset[str] = frozenset(), format: str = ...
    ) -> None: ...
    def __call__(self, text: Any, space: bool = ..., /) -> Any: ...

class Header:
    """Creates Members of a list or tuple with one value for each of its names, or, without names, of a dict. None is a
    missing value. A dict with names beyond the limit is returned as it is.

    ValueError for a name that is given twice, and for another number of values.
    """

    def __init__(self, names: tuple[str, ...] = ...) -> None: ...
    def __call__(self, values: list[Any] | tuple[Any, ...] | dict[str, Any], /) -> Any: ...

class Cells:
    """Creates Members of a list of so many cells, each a str: `places` are (column, object, name), the number of a
    column from 0, that of one of `objects`, or -1 for a member of its own, and its name there. Objects are dicts behind
    all others, in the order in which they get their first member; with `always` all of them exist, in their own order.
    A cell is missing that is the empty text, except with `blanks`, and so is one without a place.

    Without `objects` every place is in object 0, which is returned as JSON (bytes). A name is given to one place of an
    object. ValueError for another number of cells, for a column or an object that does not exist, and for more than 16
    objects.
    """

    def __init__(
        self,
        columns: int,
        places: tuple[tuple[int, int, str], ...],
        objects: tuple[str, ...] = ...,
        blanks: bool = False,
        always: bool = False,
    ) -> None: ...
    def __call__(self, cells: list[str], /) -> Any: ...

class Delimited:
    """Iterates over the records of delimited text as lists of str, one list for each: a blank line is an empty one. It
    ends at the end of the data or before a record that is not ordinary: then `at` is where that begins, and may be set
    to where reading goes on. `lines` are those of the last record, `rows` counts the records.

    With `cells`, a record is the Members that these create, a blank line is left out, and a record with another number
    of cells is not ordinary. `last` returns the cells of the last record; none once `at` was set, or reading ended.

    `delimiter` and `quote` are the numbers of ASCII characters, which differ, else ValueError; `quote` is -1 for none.
    """

    at: int
    def __init__(self, data: bytes, delimiter: int, quote: int, cells: Cells = ...) -> None: ...
    def __iter__(self) -> Delimited: ...
    def __next__(self) -> Any: ...
    def last(self) -> list[str]: ...
    @property
    def rows(self) -> int: ...
    @property
    def lines(self) -> int: ...

class Opener:
    """The members of an object, as `pipeline.mapper.runtime.opened` finds them: of a value that is one or a text of
    one. Missing and null have none, and of Members and dicts with Python's values None is missing. None for every value
    that is no plain object, in the sense of Lines.

    With `again`, the same Raw once more gives the same Members, which then must not be changed."""

    def __init__(self, again: bool = False) -> None: ...
    def __call__(self, value: Any, /) -> Members | None: ...

class Blanks:
    """Removes the members that are missing by their text: one of `json` for a JSON value, of `cells` for any other.
    With `names`, only members of these names; never the one that is called `kept`."""

    def __init__(
        self, json: frozenset[str], cells: frozenset[str], names: frozenset[str], kept: str | None = None
    ) -> None: ...
    def __call__(self, members: Members, /) -> None: ...
