"""The shape of a parsed mapping: what a YAML file says, checked and with its places, and nothing of how it runs.

Every section of a mapping reads the row *as it came*: no section sees what another did, so their order in the
file means nothing.
"""

from __future__ import annotations

from collections.abc import Mapping as Map
from dataclasses import dataclass, field
from typing import Any, NamedTuple

FORMAT = "backcast.mapping/1"


class Place(NamedTuple):
    """Where in a mapping file something stands; line and column count from 1."""

    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Call:
    """One verb and what it is given: nested calls, texts, lists and tables as its declaration says."""

    verb: str
    given: Map[str, Any]
    place: Place


@dataclass(frozen=True, slots=True)
class Recognise:
    """How a row of this tool is known: references that must be there, and ones that must not."""

    has: tuple[Call, ...]
    lacks: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """What `--set NAME=…` means, and the values it may have, any where there is no `one_of`.

    Where it is left out and the first row of a part has one of `found`, it is the first of `one_of`.
    """

    says: str
    one_of: tuple[str, ...] = ()
    found: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class TableFromPath:
    """How the path of a file names the table of its rows, as `--set table=NAME` does (`mapper.table_names`)."""

    known: tuple[str, ...]
    told: Call
    unless: tuple[Call, ...] = ()
    has: tuple[Call, ...] = ()
    otherwise: str | None = None


@dataclass(frozen=True, slots=True)
class Clock:
    """One place a time may stand, and how it is written.

    `unit` is iso, s, ms, us, ns, auto or `format`. `zone`: `utc`; `local`, a text without an offset shows the clock
    of the zone the operator names; `project`, numbers do too.
    """

    source: Call
    unit: Call | str = "iso"
    form: Call | None = None
    zone: str = "utc"
    space: str = "no"
    proof_unless: Call | None = None


@dataclass(frozen=True, slots=True)
class Ids:
    """The candidates for distinct_id, best first; `junk` are this tool's own placeholders."""

    first: tuple[Call, ...]
    junk: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Key:
    """What makes a row one event of the tool; without one of `needs` the row has no source key.

    `posthog` is what the service's own importer hashes, for `--set uuid=posthog`
    (docs/know/service.md#own-importer-mixpanel).
    """

    of: tuple[Call, ...]
    needs: tuple[Call, ...] = ()
    posthog: Call | None = None


@dataclass(frozen=True, slots=True)
class LinkRule:
    """When a row says that two ids are one person. `kind` is identify, alias, merge or person.

    `distinct_id` and `other` are candidates, best first; `of` is a list of ids that are all of one person, instead of
    them. Of a `person`, `distinct_id` is the tool's number and `version` tells which row about an id is the latest.
    """

    kind: str
    distinct_id: tuple[Call, ...] = ()
    other: tuple[Call, ...] = ()
    version: Call | None = None
    of: Call | None = None
    when: Call | None = None


@dataclass(frozen=True, slots=True)
class PairRule:
    """The two ids that an ordinary row bears: a user's, and the first of the others that is not the same."""

    user: Call
    anonymous: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Spread:
    """The members of an object in the row, taken one level up: all, or those with the named beginnings."""

    source: Call
    only: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()
    rename: Map[str, str] = field(default_factory=dict)
    prefix: str = ""
    strip: str = ""
    blank: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Blank:
    """Texts that stand for nothing in the named properties; those properties are left out."""

    values: tuple[str, ...]
    within: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Blanks:
    """What a blank value of a format is, for every reference: `missing`, or a `value` (the empty text).

    Only of delimited text there is a choice: its writers have no other way to write a null.
    """

    csv: str = "missing"

    @property
    def in_cells(self) -> bool:
        """Whether a blank cell of delimited text is a value."""
        return self.csv == "value"


@dataclass(frozen=True, slots=True)
class Properties:
    """What becomes of a row's properties. `open` None: the row's own columns are the properties."""

    open: Call | None = None
    rest: str = ""
    rename: Map[str, str] = field(default_factory=dict)
    drop: tuple[Call, ...] = ()
    set: Map[str, Call] = field(default_factory=dict)
    fill: Map[str, Call] = field(default_factory=dict)
    types: Map[str, str] = field(default_factory=dict)
    hash: Map[str, str] = field(default_factory=dict)
    blank: tuple[Blank, ...] = ()
    spread: tuple[Spread, ...] = ()
    reserved: tuple[str, ...] | None = None
    common: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Person:
    """What a row says about its person: what is set (latest wins), set once (first wins) and taken away."""

    set: Map[str, Call] = field(default_factory=dict)
    set_once: Map[str, Call] = field(default_factory=dict)
    spread_set: tuple[Spread, ...] = ()
    spread_set_once: tuple[Spread, ...] = ()
    unset: Call | None = None


@dataclass(frozen=True, slots=True)
class Persons:
    """What becomes of person properties, unless the command line asks for something else."""

    properties: str = ""
    policy: str = ""
    promoted: str = ""


@dataclass(frozen=True, slots=True)
class GroupUpdate:
    """What a row says about a group: its type, key and properties, or an object of all three (`open`)."""

    type: Call | None = None
    key: Call | None = None
    set: Call | None = None
    open: Call | None = None


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups an event belongs to: named one by one, or an object of type → key or list of keys.

    `set` is an object of type → key → properties: what the row says of groups beside being an event.
    """

    types: Map[str, Call] = field(default_factory=dict)
    open: Call | None = None
    setting: str = ""
    set: Call | None = None


@dataclass(frozen=True, slots=True)
class Profiles:
    """A row that is a profile, or has a list of them (`each`): the members with a profile's id and properties."""

    id: str
    properties: str
    each: Call | None = None
    rename: Map[str, str] = field(default_factory=dict)
    leave: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EventRule:
    """What becomes of one event name, beyond what becomes of all. `warn` is that of `SkipRule`, for `skip`."""

    name: str = ""
    skip: str = ""
    warn: str = ""
    link: LinkRule | None = None
    update: str = ""
    group: GroupUpdate | None = None
    profiles: Profiles | None = None
    rename: Map[str, str] = field(default_factory=dict)
    drop: tuple[Call, ...] = ()
    set: Map[str, Call] = field(default_factory=dict)
    fill: Map[str, Call] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SkipRule:
    """Rows left out, with the code they are counted under; with a sentence in `warn` they are a warning too."""

    when: Call
    code: str
    warn: str = ""


@dataclass(frozen=True, slots=True)
class Extra:
    """One more event of the same row, with its own name and properties."""

    event: Call
    properties: Map[str, Call] = field(default_factory=dict)
    when: Call | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """An example: rows as JSON text, and what becomes of them."""

    name: str
    row: str
    gives: tuple[Map[str, Any], ...]
    place: Place
    settings: Map[str, str] = field(default_factory=dict)
    zones: tuple[str, ...] = ()
    dialect: str = "contract"
    path: str = ""
    format: str = "json"


@dataclass(frozen=True, slots=True)
class Mapping:
    """One tool's mapping file. `file` is where it was read; `text` the file itself, for its digest."""

    tool: str
    title: str
    event: Call
    distinct_id: Ids
    time: tuple[Clock, ...]
    recognise: tuple[Recognise, ...] = ()
    settings: Map[str, Setting] = field(default_factory=dict)
    tables: Map[str, Map[str, str]] = field(default_factory=dict)
    blanks: Blanks = field(default_factory=Blanks)
    decoder: Call | None = None
    table_from_path: TableFromPath | None = None
    events: Map[str, EventRule] = field(default_factory=dict)
    unlisted: str = "keep"
    skip: tuple[SkipRule, ...] = ()
    uuid: Call | None = None
    key: Key | None = None
    received: tuple[Clock, ...] = ()
    links: tuple[LinkRule, ...] = ()
    pair: PairRule | None = None
    groups: Groups | None = None
    properties: Properties = field(default_factory=Properties)
    person: Person | None = None
    persons: Persons = field(default_factory=Persons)
    also: tuple[Extra, ...] = ()
    cases: tuple[Case, ...] = ()
    file: str = ""
    text: str = ""
