"""The values that packages exchange, without behaviour.

An *export* is what a tool exported; a *source* is its files; a *part* is one file or archive member; a *block* is a
fixed run of rows in a part; a *record* is a row as read (`pipeline.values.Record`); an *event* is a row as sent; a
*batch* is one request.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as Map
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from pipeline.options import PlanOptions
from pipeline.storage import FileStatus

BLOCK_BYTES = 4 * 1024 * 1024
"""A block ends at the first record end after each 4 MiB of decompressed bytes."""
BLOCK_ROWS = 5_000
"""A block of a columnar part (Parquet) has this many rows."""


class Layout(NamedTuple):
    """What a table's rows become: `places` are (column, object, name): the number of a column, that of one of `objects`
    or -1 for a column, and its name there; a column without a place is left out. Objects come after the columns; with
    `always` also those without members. Without places the rows stay as they are."""

    places: tuple[tuple[int, int, str], ...] = ()
    objects: tuple[str, ...] = ()
    always: bool = False


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a delimited part is written. `header` names the columns, duplicates numbered (`a`, `a__2`).
    `header_row` is the header's row, counted from 1 including blank ones, if it is not the first row that is not blank.

    If it is `headless`, the first row is data, and the columns are called `column_1`, `column_2` and so on; if there is
    a header, this is UNSET, which is not written into a plan. `rows` are the names of lists in JSON pages: first the
    list whose items are rows, then others that are not read. `sheet` is the sheet of a workbook that is read, and
    `folders` are the columns that its folders name (`pipeline.extractors.folder_values`). `integers` are columns whose
    `42.0` is 42 (`pipeline.extractors.changed_rows`). `nan` says whether a NaN or an infinity is null, or rejects
    its row; UNSET means null in binary formats, which have such numbers, and a reject in JSON, which has none.
    """

    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    encoding: str = "utf-8"
    bom: bool = False
    header: tuple[str, ...] = ()
    header_row: int | msgspec.UnsetType = msgspec.UNSET
    headless: bool | msgspec.UnsetType = msgspec.UNSET
    rows: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    sheet: str | msgspec.UnsetType = msgspec.UNSET
    folders: tuple[tuple[str, str | None], ...] | msgspec.UnsetType = msgspec.UNSET
    integers: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    nan: Literal["null", "reject"] | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class Part:
    """One file, or one member of an archive, of an export.

    `path` is what people see: relative to the source's root, members after `!` (`jan.zip!1/1_2024-01-01_0#1.json.gz`).
    `file` is its path on this machine or its URL in a store; `member` the name inside the archive or "".
    `codecs` are the containers to remove, outermost first (`("gzip",)`, `("zip", "gzip")`); `format` is the name of the
    format inside them (`pipeline.extractors.format`).
    `bytes`, `mtime_ns` and `etag` are the file's own (the archive's, for a member), as in `FileStatus`. `digest` is the
    sha256 of the part's stored bytes (the member's, in an archive), as lower-case hex, "" until it was read completely.
    `table` is the table of its rows, if the mapping reads it from the path (`table_from_path`).
    """

    index: int
    path: str
    file: str
    member: str
    codecs: tuple[str, ...]
    format: str
    dialect: Dialect
    bytes: int
    mtime_ns: int
    digest: str = ""
    table: str = ""
    etag: str = ""

    @property
    def status(self) -> FileStatus:
        """The file as it was when the part was found."""
        return FileStatus(self.bytes, self.mtime_ns, self.etag)


class Block(msgspec.Struct, frozen=True):
    """A fixed run of rows in a part: the unit of work, of resuming and of sealing.

    `offset` and `length` count bytes of the decompressed part (rows, for Parquet and Avro). `content` is None when the
    part is a plain file, so that a worker reads the range itself; otherwise the block's bytes (Arrow IPC for Parquet).
    """

    part: int
    index: int
    offset: int
    length: int
    content: bytes | memoryview | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """The parts of one export, in a fixed order, and notices from the search.

    `sizes` are the bytes of each part; for an archive's member, its own. `copies` are the files that have the same
    bytes as a part, each with its size and the part's path; `plan.precheck` restores those that belong to another
    table. `lookups` are files whose rows are entries of lookup tables. `unread` are files that are left out although
    their names are like those of files that are read.
    """

    parts: tuple[Part, ...]
    notes: tuple[Notice, ...] = ()
    sizes: tuple[int, ...] = ()
    copies: tuple[tuple[Part, int, str], ...] = ()
    lookups: tuple[Part, ...] = ()
    unread: tuple[str, ...] = ()


class Notice(NamedTuple):
    """Something that a person may want to check but that stops nothing: a stable code, the file and a sentence."""

    code: str
    where: str
    detail: str


class BrokenRow(NamedTuple):
    """What a reader returns instead of a record when the row cannot be read: a reject of stage `read`."""

    code: str
    detail: str


class Skip(NamedTuple):
    """A row (or one event of it) that the mapping leaves out, with its code; with a `detail` it is a warning too."""

    code: str
    detail: str = ""


class RejectReason(NamedTuple):
    """A row (or one event of it) that cannot be sent: a reject, with its code and a sentence."""

    code: str
    detail: str


class Note(msgspec.Struct, gc=False):
    """The ids and person properties of a row next to its event. Only a plan uses it.

    `user` is the id of a user, `anonymous` another id of the same person, such as a device's. `set` and `set_once` are
    properties of the person, `unset` the names of removed ones.
    """

    user: str | None = None
    anonymous: str | None = None
    set: Map[str, Any] | None = None
    set_once: Map[str, Any] | None = None
    unset: tuple[str, ...] = ()


class UnvalidatedEvent(msgspec.Struct, gc=False):
    """One event as the mapper returns it: mapped, but neither validated nor encoded.

    `time` and `received` are microseconds since 1970 in UTC; None if the row has none.
    Instead, `time` may be the RejectReason of reading it. `wall` is the clock reading before a zone was applied, for
    the proof of the zone (None if the source states UTC).
    `key` is the tool's dedupe key (parts joined by uuids.SEPARATOR), None for a row without one.
    `uuid` is a source's own UUID as canonical lower-case text, used unchanged.
    `properties` are sent in this order, except `distinct_id`. `warnings` are (code, detail) pairs.
    `mapped_id` is the id before the mapping's own code changed it, None if it did not. `rule` is the number of the
    mapping's rule for the event's name, or 0.
    """

    event: str | None
    distinct_id: str | None
    time: int | RejectReason | None
    properties: dict[str, Any]
    key: str | None = None
    uuid: str | None = None
    received: int | None = None
    wall: int | None = None
    placeholder_id: str = ""
    warnings: tuple[tuple[str, str], ...] = ()
    note: Note | None = None
    rule: int = 0
    mapped_id: str | None = None


class PersonUpdate(msgspec.Struct, gc=False):
    """A row that updates its person and nothing else. Never an event of its own.

    `time` is None if the row has none, as in an export of profiles. `row_key` is the tool's dedupe key of a row
    without an event, here and below.
    """

    distinct_id: str | None
    time: int | RejectReason | None
    note: Note | None = None
    received: int | None = None
    placeholder_id: str = ""
    warnings: tuple[tuple[str, str], ...] = ()
    row_key: str | None = None


class GroupUpdate(msgspec.Struct, gc=False):
    """A row that updates a group and nothing else. Never an event of its own. `distinct_id` is the row's person."""

    type: str
    key: str
    time: int | RejectReason | None
    set: Map[str, Any]
    received: int | None = None
    warnings: tuple[tuple[str, str], ...] = ()
    distinct_id: str | None = None
    row_key: str | None = None


class Link(msgspec.Struct, frozen=True, gc=False):
    """A merge that a row states: `other` is absorbed by `distinct_id`. Never an event of its own.

    `kind` is `identify` (a device or anonymous id joins a user), `alias` (two ids of one person), `user` (the same, but
    `distinct_id` is a user's id), `merge` (two ids of one person, without order), `seen` (the same, but never two
    users), `service` (a merge that the service itself made or refused by its rules) or `person`: `other` is an id of
    the person that `distinct_id` numbers, after the version of that statement and SEPARATOR. The plan decides on links
    and dates them before the first event of either id.
    """

    kind: str
    distinct_id: str
    other: str
    time: int | None = None
    received: int | None = None
    row_key: str | None = None


MapperResult: TypeAlias = UnvalidatedEvent | PersonUpdate | GroupUpdate | Link | Skip | RejectReason
"""The mapper's result for one row; a list of them if one row has several."""


class ItemOutcomes(list[Any]):
    """What the items of one row become, one after the other; `ends` has the number of outcomes up to each item's last.

    An item that cannot be sent is rejected by itself; the others are sent.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[int] = []


class Reject(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A row that cannot be sent, or one `item` of a row (counted from 1), with its location. `row` counts records from
    1; `offset` is in the decompressed part, and `record` is the whole row. In a workbook `sheet` is the sheet that is
    read, and `offset` the row's number there."""

    part: str
    row: int
    offset: int
    stage: str
    code: str
    detail: str
    record: str
    item: int = 0
    sheet: str = ""


Step = Callable[[str, int, int], None]
"""Called with the name of a step other than the main one, how much of it is done, and how much there is."""


class Finding(msgspec.Struct, frozen=True):
    """The result of a check of a plan, for a person to review; `level` is `stop`, `warning`, `open`, `notice` or
    `accepted`.

    `count` is in how many places it was found, and `examples` describes some of them. `options` are words of the
    command line with which a plan has no such finding, as far as the check knows them. `reason` is why a
    finding of the level `accepted` was accepted, or which rule made it stop. Each is UNSET if there is none, and is not
    written into a plan then.
    """

    name: str
    level: str
    detail: str
    count: int | msgspec.UnsetType = msgspec.UNSET
    examples: list[str] | msgspec.UnsetType = msgspec.UNSET
    options: list[str] | msgspec.UnsetType = msgspec.UNSET
    reason: str | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class SealedOptions:
    """The options of a plan that decide what is sent, as the plan seals them.

    `zones` are (zone name, local date from which it applies or "") in order; `since`/`until` are microseconds UTC,
    half-open; `as_of` is the plan's instant, in microseconds UTC. `identities` is the sha256 of the operator's pairs.
    `promoted_properties` is `final` or, if they are not sent, UNSET, which is not written into a plan. `provenance` is
    whether events carry the import's own properties, or which marks they carry in addition. `scope` says which event
    names, as the mapping reads them, are kept; UNSET if all are. Plans without the policies
    on users were made with `first`.
    """

    as_of: int
    zones: tuple[tuple[str, str], ...] = ()
    since: int | None = None
    until: int | None = None
    settings: Map[str, str] = field(default_factory=dict)
    dialect: str = "contract"
    name: str = ""
    provenance: bool | tuple[str, ...] = True
    allow_recent: bool = False
    collapse_identical: bool = False
    limit: int | None = None
    excluded_ids: str = ""
    person_properties: str = "final"
    profile_policy: str = "fill-only"
    persons: str = "all"
    max_ids_per_person: int = PlanOptions.max_ids_per_person
    shared_devices: str = "first"
    joined_users: str = "first"
    identities: str = ""
    group_types: tuple[str, ...] = ()
    promoted_properties: str | msgspec.UnsetType = msgspec.UNSET
    scope: Map[str, bool] | msgspec.UnsetType = msgspec.UNSET

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks of `--provenance`, in the order of `option_types.MARKS`."""
        return () if isinstance(self.provenance, bool) else self.provenance

    def of_table(self, table: str) -> SealedOptions:
        """The options for the rows of a table, which are mapped as with `--set table=NAME`."""
        return replace(self, settings={**self.settings, "table": table}) if table else self


class OwnCode(msgspec.Struct, frozen=True):
    """The user's own code in a mapping, as a plan seals it. `file` is its path as written in the mapping, `digest` the
    sha256 of its text."""

    file: str
    function: str
    digest: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.file}:{self.function}"
