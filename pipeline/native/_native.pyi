"""The C part. Positional arguments are checked: TypeError for another type or count. Objects that are stored get a
reference of their own. Times are microseconds since 1970 in UTC."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

def fill(text: bytearray, ends: list[int], times: list[int], uuids: bytes, /) -> None:
    """Writes the time and the uuid (16 bytes each) of every event into `text` before its end.

    ValueError for a time outside 1970 to 9999 and for an end without room before it.
    """

def event_hashes(run: bytes, ends: bytes, /) -> bytes:
    """Four uint64 of each event of a filled run: the two halves of its xxh3-128 digest, without its comma, and what
    `fingerprints` returns. `ends` are int64.

    ValueError where no event ends at one of `ends`.
    """

def fingerprints(run: bytes, ends: bytes, /) -> bytes:
    """Two hashes (uint64) of each event of a filled run: of its distinct_id, and of everything before its time.
    `ends` are int64.

    ValueError where no event ends at one of `ends`.
    """

def number_names(names: list[str], /) -> tuple[list[str], bytes]:
    """The different names in the order of their first, and for each of the list its number among them (uint32)."""

def uuids5(namespace: bytes, keys: list[str], /) -> bytes:
    """UUIDv5 of each key, 16 bytes apiece; `namespace` has 16 bytes."""

def unsafe_integers(text: bytes, /) -> list[str]:
    """The integers of a JSON text that are beyond 2^53, as `pipeline.json_limits.unsafe_integers`."""

class Members:
    """The members of one row, or of its opened object, as a dict[str, Raw] in their order, or dict[str, Value] where
    Header created them.

    Text is not copied: the object has a reference to the bytes that Lines reads, or to the values of Header. A name or
    a value of Members as a value is a TypeError.
    """

    def get(self, name: str, default: Any = None, /) -> Any: ...
    def pop(self, name: str, default: Any = ..., /) -> Any: ...
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
    """Drops and renames properties: a change is (old name, new name or None, whether it is removed before all others).

    A call returns the warnings: `collided(old, new, value, properties, warnings)` returns them where both names exist,
    `on_watched(properties, warnings)` before all changes of a row with a watched name. `leaves` is called once with
    each name that no change has, and says whether it is dropped, before all others. At most 2^30 changes (ValueError).
    """

    def __init__(
        self,
        changes: tuple[tuple[str, str | None, bool], ...],
        collided: Callable[[str, str, Any, Any, Any], Any],
        watched: frozenset[str],
        on_watched: Callable[[Any, Any], Any],
        leaves: Callable[[str], bool] | None = None,
    ) -> None: ...
    def __call__(self, properties: Members, warnings: Any, /) -> Any: ...

class Columns:
    """Adds every column of a row that is not in `named` and not null to its properties, with `prefix` before its name.
    Returns the columns whose new name exists already, with their values, or None. `leaves` is called once with each
    such column, and says whether it is left out.
    ValueError for the row's own Members."""

    def __init__(self, named: frozenset[str], prefix: str, leaves: Callable[[str], bool] | None = None) -> None: ...
    def __call__(self, row: Members, properties: Members, /) -> list[tuple[str, Any]] | None: ...

class Spread:
    """Adds the members of an object to properties, under the names that `new_name` returns, None for none; it is called
    once with each. `blanks` leaves out those that it takes for missing.

    A call returns the warnings: `collided(name, value, properties, warnings)` returns them where the properties have
    the name. Where two members get one name, and for more than 256, all is left to `slow`, with the same arguments.

    With the object alone a call returns Members of its own, under the new names; None where it is left to Python.
    """

    def __init__(
        self,
        new_name: Callable[[str], str | None],
        blanks: Blanks | None,
        collided: Callable[[str, Any, Any, Any], Any],
        slow: Callable[[Members, Members, Any], Any],
    ) -> None: ...
    def __call__(self, object: Members, properties: Members = ..., warnings: Any = ..., /) -> Any: ...

class Sets:
    """Adds properties, each given as its name, whether a value that is there stays, and the column of the row that is
    copied, or None. None is no value, and neither is a column that is missing or null.

    A call takes one value for each without a column, and returns the warnings: `collided(name, value, properties,
    warnings)` returns them where the properties have another object under the name, or any where a column is copied.
    """

    def __init__(
        self, names: tuple[tuple[str, bool, str | None], ...], collided: Callable[[str, Any, Any, Any], Any]
    ) -> None: ...
    def __call__(self, properties: Members, warnings: Any, row: Members, /, *values: Any) -> Any: ...

class Numbers:
    """Converts properties of these names as `pipeline.mapper.codegen.conversions.as_number` does; null stays.

    A call returns the warnings: `slow(name, value, properties, warnings)` converts what is no ordinary number or text
    of one, and returns them.
    """

    def __init__(self, names: tuple[str, ...], slow: Callable[[str, Any, Any, Any], Any]) -> None: ...
    def __call__(self, properties: Members, warnings: Any, /) -> Any: ...

class Writer:
    """Appends an event to `text`. False, with nothing appended, where `pipeline.encoder.event.Encoder.write` is needed:
    a reserved name, an empty `$ip`, an id to be escaped, no properties, or `most` bytes and more."""

    def __init__(self, reserved: frozenset[str], tail: bytes, tail_beside_ip: bytes) -> None: ...
    def __call__(
        self, text: bytearray, head: bytes, distinct_id: str, properties: Members, ending: bytes, most: int, /
    ) -> bool: ...

class Appender:
    """Appends ordinary events to the columns of a block, as `pipeline.transform.rows.RowTransformer.append` does, which
    is its `slow`: False, with nothing appended, for any other outcome. `type` is that of events, `heads` has the
    beginning of events by their names, `endings` what follows after whole seconds, milliseconds and microseconds."""

    def __init__(
        self,
        slow: Callable[[bytearray, int, Any], bool],
        type: type,
        writer: Writer,
        heads: dict[str | None, bytes],
        is_valid: Callable[[Any, Any, int], bool],
        newest: int,
        most: int,
        endings: tuple[bytes, bytes, bytes],
        ends: list[int],
        times: list[int],
        keys: list[str],
        rows: list[int],
        own: dict[int, str],
    ) -> None: ...
    def __call__(self, text: bytearray, row: int, outcome: Any, /) -> bool: ...

class IdAccumulator:
    """Ids with their first time, events, lowest position, whether one is a user's, and last time. At most 2^31 - 1
    entries, as in every accumulator; `bytes` counts characters of texts and bytes of values."""

    def add_id(self, id: str, time: int, user: bool, position: int, /) -> None: ...
    def columns(self) -> tuple[Any, ...]:
        """The ids as a list, and the other columns of `pipeline.identity.columns.IdColumns`."""

    def __len__(self) -> int: ...
    @property
    def bytes(self) -> int: ...

class PairAccumulator:
    """Pairs of ids: kinds (a bit from 1 to 2^30 each, ValueError for others), first and last time, rows, position of
    the first."""

    def add_pair(self, anonymous: str, user: str, kind: int, time: int | None, position: int, /) -> None: ...
    def columns(self) -> tuple[Any, ...]:
        """The fields of `pipeline.identity.columns.PairColumns`, in the order of the anonymous ids.
        OverflowError beyond 2 GiB of texts, as below."""

    def __len__(self) -> int: ...
    @property
    def bytes(self) -> int: ...

class PropertyAccumulator:
    """Properties of owners: the last value of `set`, or without one the first of `set_once`, as JSON by `json_of`,
    which returns bytes (else TypeError)."""

    def __init__(self, json_of: Callable[[Any], Any]) -> None: ...
    def set(self, owner: str, values: Mapping[str, Any], time: int, received: int, /) -> None: ...
    def set_once(self, owner: str, values: Mapping[str, Any], time: int, received: int, /) -> None: ...
    def rows(self) -> list[tuple[str, str, int, int, int, int, Any]]: ...
    def columns(self) -> tuple[Any, ...]:
        """The fields of `pipeline.identity.columns.PropertyColumns`, in the order of the owners."""

    def __len__(self) -> int: ...
    @property
    def bytes(self) -> int: ...

class Observer:
    """Records what a plan needs of events: appends names to `names`, collects times in columns, and aggregates ids and
    notes where it has accumulators. `first_row` is the position of the block's row 0, `absent` stands for a missing
    receive time. Ids of the latest events are aggregated only by `columns`."""

    def __init__(
        self,
        names: list[str],
        ids: IdAccumulator | None,
        pairs: PairAccumulator | None,
        properties: PropertyAccumulator | None,
        first_row: int,
        absent: int,
    ) -> None: ...
    def __call__(self, row: int, draft: Any, time: int, distinct_id: str, properties: Any, /) -> int:
        """What remains for the caller, as bits: 1 the event sets `$set`, 2 it has `$groups`, 4 its note."""

    def add(self, event: str, time: int, received: int | None, wall: int | None, /) -> None: ...
    def cut(self, events: int, walls: int, /) -> None:
        """Removes all events and wall times after so many. ValueError where there are fewer."""

    def columns(self) -> tuple[bytes, bytes, bytes, bytes]:
        """Times, receive times, wall times and the receive times of those, as int64."""

    @property
    def walls(self) -> int: ...

class Tally:
    """Counts the rows that have each name by what became of them, an outcome from 0 to 65,535: a row counts under 0
    until `settle` says otherwise of the latest one (ValueError outside the range).

    A row is its Members, and beside them those of an opened object that is none of them. `show` is called with each
    row, in the same way, that is one of the first three with one of its names since the previous `take`. `take` returns
    (outcome, level, name, rows) since its previous call, level 0 for the row, 1 for an opened object, and from 2 those
    of `levels`: objects inside of the row, or inside of the opened object, by their names. `members_of` returns the
    dict of an object that Opener does not open. ValueError for more than 62 levels, and for one that is given twice.
    """

    def __init__(
        self,
        show: Callable[..., None] | None = None,
        levels: tuple[tuple[bool, tuple[str, ...]], ...] = (),
        members_of: Callable[[Any], dict[str, Any]] = ...,
    ) -> None: ...
    def __call__(self, row: Members, opened: Members = ..., /) -> None: ...
    def settle(self, outcome: int, /) -> None: ...
    def begin_item(self) -> None: ...
    def settle_items(self, outcomes: list[int], /) -> None: ...
    def take(self) -> list[tuple[int, int, str, int]]: ...

class Drift:
    """Counts what the properties of events are, as `pipeline.transform.drift.DriftCounts` does. `len` is the number of
    entries, one for each property of an event name in a month."""

    def add(
        self,
        runs: list[bytes],
        sizes: bytes,
        names: list[str],
        name_of: bytes,
        times: bytes,
        rows: list[int],
        place: int,
        /,
    ) -> None:
        """Counts the events of `runs`, each followed by a comma; of each: its size (int64), the index of its name
        (uint32), its time (int64) and its row in a block, whose row 0 is at `place`. ValueError for another text."""

    def take(self) -> list[tuple[str, int, int, list[tuple[Any, ...]]]]:
        """(event, month, events, entries) since the previous call. An entry has the property's name as JSON; counts and
        first places by kind (uint64); first and last day; the smallest hashes (uint32); and of long texts their number,
        the greatest length, how many have it, the place of the first of these, and their smallest hashes (uint32)."""

    def __len__(self) -> int: ...
    @property
    def events(self) -> int: ...

class Reader:
    """Reads ordinary texts, and calls `slow` with the same arguments for all others. By its `kind`:

    `iso`, of (text, space): (µs, whether in UTC, whether cut), as `pipeline.timestamps.read_iso`.
    `format`, of a text: as `iso`, as `pipeline.mapper.codegen.timeformat.TimeFormat.read` with this `format`.
    `number`, of a value: as `pipeline.mapper.codegen.conversions.as_number`.
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
    missing value, and so is the empty text without `blanks`. A dict with names beyond the limit is returned as it is.

    ValueError for a name that is given twice, and for another number of values.
    """

    def __init__(self, names: tuple[str, ...] = ..., blanks: bool = False) -> None: ...
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
    """Iterates over the records of delimited text as lists of str, from `at` on, one list for each: a blank line is an
    empty one. It ends at the end of the data or before a record that is not ordinary: then `at` is where that begins,
    and may be set to where reading goes on. `lines` are those of the last record, `rows` counts the records.

    With `cells`, a record is the Members that these create, a blank line is left out, and a record with another number
    of cells is not ordinary. `last` returns the cells of the last record; none once `at` was set, or reading ended.

    `delimiter` and `quote` are the numbers of ASCII characters, which differ, else ValueError; `quote` is -1 for none.
    """

    at: int
    def __init__(self, data: bytes, delimiter: int, quote: int, at: int = 0, cells: Cells = ...) -> None: ...
    def __iter__(self) -> Delimited: ...
    def __next__(self) -> Any: ...
    def last(self) -> list[str]: ...
    @property
    def rows(self) -> int: ...
    @property
    def lines(self) -> int: ...

class Table:
    """Iterates over so many rows of a table as Members. A column is a list of values, of which None is a missing one,
    or of texts in UTF-8 as Arrow has them: a bit for each that is there, or None; the offsets of the texts in a buffer;
    that buffer, None where no text has a character; the number of the first row's text; and whether offsets have 8
    bytes instead of 4. The Members refer to that buffer.

    ValueError for buffers with fewer texts than rows, and for a text outside of its buffer.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        columns: tuple[list[Any] | tuple[Any, Any, Any, int, bool], ...],
        rows: int,
    ) -> None: ...
    def __iter__(self) -> Table: ...
    def __next__(self) -> Members: ...

class AvroDecoder:
    """Decodes the rows of an Avro block, of which it is given the bytes and the number of rows: a list of dicts, or
    with `members` of Members without the nulls. Objects and lists in them are msgspec.Raw.

    `schema` is what `pipeline.extractors.avro_values.described` returns, else ValueError. None for a block with a value
    for which a function of the schema returns an object of type `unusual`, or with a text that is no UTF-8, NaN, a date
    outside of the years 1 to 9999, too many or too few bytes, or names beyond the limit.
    """

    def __init__(self, schema: tuple[Any, ...], unusual: type) -> None: ...
    def __call__(self, content: bytes, rows: int, members: bool, /) -> list[Any] | None: ...

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
