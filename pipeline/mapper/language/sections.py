"""The mapping language: every section of a mapping file, as the class that the loader fills.

Each key is declared once, with what it takes, its help and its default. The loader in this package, the JSON Schema for
editors and the reference in the docs read these declarations. Verbs declare their arguments with the same kinds, in the
modules of pipeline.mapper.verbs.

Every section of a mapping reads the row *as it came*: no section sees what another did, so their order in the file does
not matter.
"""

from __future__ import annotations

from collections.abc import Mapping as Map

from pipeline.mapper.language.case_section import Case as Case
from pipeline.mapper.language.files_section import Files, LookupFile
from pipeline.mapper.language.kinds import (
    CANDIDATES,
    CONDITION,
    NAMES,
    TEXT,
    TEXTS,
    VALUE,
    VALUE_TABLE,
    VALUES,
    YES,
    Choice,
    Either,
    Keys,
    ListOf,
    TableOf,
    Verbs,
    entry,
    section,
)
from pipeline.mapper.language.kinds import Call as Call
from pipeline.mapper.language.kinds import Place as Place
from pipeline.mapper.language.types_section import PropertyType
from pipeline.models import OwnCode

FORMAT = "backcast.mapping/1"
UNITS = ("iso", "format", "s", "ms", "us", "ns", "auto")


class Recognise(Keys):
    has: tuple[Call, ...] = entry(VALUES, "references that every row has")
    lacks: tuple[Call, ...] = entry(VALUES, "references that no row has", ())


class Setting(Keys):
    """If it is left out and the first row of a part has one of `found`, its value is the first of `one_of`."""

    says: str = entry(TEXT, "what it means")
    one_of: tuple[str, ...] = entry(NAMES, "the values it may have; if left out, any", ())
    found: tuple[Call, ...] = entry(
        VALUES, "references: if the first row of a file has one of them, the value is the first of `one_of`", ()
    )


class TableFromPath(Keys):
    """How the path of a file determines the table of its rows, as `--set table=NAME` does (`mapper.table_names`)."""

    known: tuple[str, ...] = entry(
        NAMES, "the tables, * for any letters, key=* for any folder of a key: a file of any other table stops the plan"
    )
    told: Call = entry(VALUE, "where a decoded row has its table, if its columns or a setting name it")
    unless: tuple[Call, ...] = entry(
        VALUES, "references by which rows name their table, whatever their file is called", ()
    )
    has: tuple[Call, ...] = entry(
        VALUES, "if a file's name is not a table's and its rows have one of these, they belong to the table `else`", ()
    )
    otherwise: str | None = entry(TEXT, "the table for such files", None, name="else")


class Clock(Keys):
    source: Call = entry(VALUE, "the value with the time", name="from")
    unit: Call | str = entry(
        Either(UNITS), "how it is written; iso if left out; auto tells s, ms and us apart by size", "iso"
    )
    form: Call | None = entry(VALUE, "for unit format: a pattern such as %d/%m/%Y %H:%M", None, name="format")
    zone: str = entry(
        Choice(("utc", "local", "project")),
        "the clock of a time without an offset: UTC (default) or the project's clock (local); "
        "project: numbers are on the project's clock too, as if it were UTC",
        "utc",
    )
    space: str = entry(YES, "whether iso may have a space instead of T, and then an offset as ` UTC` or ` +0000`", "no")
    date: str = entry(YES, "whether iso may be a date alone, which means midnight", "no")
    proof_unless: Call | None = entry(
        CONDITION,
        "rows whose times prove nothing about the zone; with it, local clocks too are compared with `received`",
        None,
    )


class Ids(Keys):
    first: tuple[Call, ...] = entry(CANDIDATES, "candidates, best first; placeholder ids are passed over")
    junk: tuple[str, ...] = entry(NAMES, "this tool's own placeholder ids, in any case", ())
    allow: tuple[str, ...] = entry(NAMES, "ids of persons that look like placeholders, such as 0; they never merge", ())


class Key(Keys):
    of: tuple[Call, ...] = entry(VALUES, "the parts")
    needs: tuple[Call, ...] = entry(VALUES, "if any of these is missing, the row has no key", ())
    keep: str = entry(
        Choice(("latest", "earliest")),
        "which of several rows with one key counts: the one received latest (default) or earliest",
        "latest",
    )
    equal: str = entry(
        Choice(("content", "values")),
        "when rows without a key are equal, and are numbered: if they are written alike (default), or if their values "
        "are equal, in any format of a table: without nulls and empty objects and lists, numbers by their value",
        "content",
    )
    posthog: Call | None = entry(VALUE, "what the service's own importer hashes, for --set uuid=posthog", None)
    """docs/know/service.md#own-importer-mixpanel"""


class LinkRule(Keys):
    """When a row states that two ids are one person. `distinct_id` and `other` are candidates, best first."""

    kind: str = entry(
        Choice(("identify", "alias", "user", "merge", "seen", "service", "dangerous", "person")),
        "identify: a device joins its first user, never two users; alias: two ids of a person, users' or not;"
        " user: like alias, and `distinct_id` is a user's id; merge: like alias, without order;"
        " seen: two ids on an ordinary row, without order, never two users;"
        " service: a merge in the service itself, which refuses it if `other` was identified before;"
        " dangerous: one that it never refuses;"
        " person: `distinct_id` is the tool's number of a person, not an id, and `other` an id of that person",
    )
    distinct_id: tuple[Call, ...] = entry(
        CANDIDATES, "the id that stays: the first of these that identifies a person", ()
    )
    other: tuple[Call, ...] = entry(
        CANDIDATES, "the id that is absorbed: the first of these that identifies a person and is another id", ()
    )
    version: Call | None = entry(
        VALUE, "for kind person: if several rows are about one id, the one with the greatest number counts", None
    )
    of: Call | None = entry(VALUE, "instead of these two: a list of ids, all of one person", None)
    when: Call | None = entry(CONDITION, "only rows for which this is true", None)


LINK = section("link", LinkRule, either=(("distinct_id", "other"), ("of",)))


class PairRule(Keys):
    user: Call = entry(VALUE, "the id of a user")
    anonymous: tuple[Call, ...] = entry(
        CANDIDATES, "other ids, such as a device's: the first that the row has and that differs from the user's", ()
    )


class Spread(Keys):
    """The members of an object in the row, taken one level up."""

    source: Call = entry(VALUE, "the object", name="from")
    only: tuple[str, ...] = entry(NAMES, "only these members; a name ending in * is a prefix", ())
    leave: tuple[str, ...] = entry(NAMES, "not these members", (), name="except")
    rename: Map[str, str] = entry(TEXTS, "new names of members", dict)
    strip: str = entry(TEXT, "a prefix to remove from the members' names", "")
    prefix: str = entry(TEXT, "a prefix to add to the members' names", "")
    blank: tuple[str, ...] = entry(NAMES, "texts that mean no value: members with one are left out", ())


SPREADS = ListOf(section("spread", Spread, short="from"))


class Blanks(Keys):
    """What counts as missing, for every reference and as a property, as if the row did not have it."""

    csv: str = entry(
        Choice(("missing", "value")),
        "a blank cell of a delimited file is missing (default), or a value: the empty text. Quotes around it make no"
        " difference",
        "missing",
    )
    json: str = entry(
        Choice(("missing", "value")), 'the empty text "" in JSON is missing, or a value (default)', "value"
    )
    parquet: str = entry(
        Choice(("missing", "value")), "the empty text of Parquet and Avro is missing, or a value (default)", "value"
    )
    texts: tuple[str, ...] = entry(NAMES, "texts that are missing in every format, such as (not set)", ())
    within: tuple[str, ...] = entry(
        NAMES,
        "`json`, `parquet` and `texts` apply to columns, properties and members with these names",
        (),
        name="in",
    )

    @property
    def in_cells(self) -> bool:
        """Whether a blank cell of delimited text is a value."""
        return self.csv == "value"


class Blank(Keys):
    values: tuple[str, ...] = entry(NAMES, "texts that mean no value")
    within: tuple[str, ...] = entry(NAMES, "the properties from which they are left out", name="in")


class Changes(Keys):
    """Changes of properties: for every row, or for the rows of one event."""

    rename: Map[str, str] = entry(
        TEXTS, "old name: new name, all at once; if the new name is taken, the old one stays, with a warning", dict
    )
    drop: tuple[Call, ...] = entry(VALUES, "properties left out", ())
    set: Map[str, Call] = entry(
        VALUE_TABLE,
        "name: value; a row's own value of that name moves to TOOL_name (or TOOL_name_2 and so on), with a warning",
        dict,
    )
    fill: Map[str, Call] = entry(VALUE_TABLE, "name: value, used only if the row has no such property", dict)


class Properties(Changes):
    open: Call | None = entry(VALUE, "the object with the properties; if left out, the row itself", None)
    rest: str = entry(
        TEXT,
        "the columns that the mapping does not name: `drop` leaves them out, `keep` keeps their names, anything else"
        " is a prefix for their names (with `open`; if left out, TOOL_). Without `open`, all columns stay; with `drop`,"
        " only those that `rename` and `fill` name, next to what `set`, `spread` and `groups` set",
        "",
    )
    types: Map[str, PropertyType] = entry(
        TableOf(section("type", PropertyType, short="as")),
        "property, by the name with which it is sent: type; what cannot be converted stays, with a warning",
        dict,
    )
    hash: Map[str, str] = entry(TEXTS, "property: name of a keyed hash that replaces it (BACKCAST_HASH_KEY)", dict)
    blank: tuple[Blank, ...] = entry(ListOf(section("blank", Blank)), "texts that mean no value", ())
    spread: tuple[Spread, ...] = entry(SPREADS, "objects whose members become properties", ())
    reserved: tuple[str, ...] | None = entry(
        NAMES, "names that mean something to the service and become TOOL_name", None
    )
    common: tuple[str, ...] = entry(NAMES, "properties of most rows: a hint for speed, never for meaning", ())


class Person(Keys):
    set: Map[str, Call] = entry(VALUE_TABLE, "person property: value; the latest wins", dict)
    set_once: Map[str, Call] = entry(VALUE_TABLE, "person property: value; the first wins", dict)
    spread_set: tuple[Spread, ...] = entry(SPREADS, "objects whose members are set", ())
    spread_set_once: tuple[Spread, ...] = entry(SPREADS, "objects whose members are set once", ())
    unset: Call | None = entry(VALUE, "a list or an object: the names of properties to remove from the person", None)


class Persons(Keys):
    """The defaults of options of the command line."""

    properties: str = entry(Choice(("final", "none")), "final: the last values, sent once (default)", "")
    policy: str = entry(
        TEXT, "how they are combined with a live profile: fill-only (default), overwrite or prefix=TEXT", ""
    )
    promoted: str = entry(
        Choice(("leave", "final")),
        "event properties that the service copies to the person: leave it the values that arrive last (default), or"
        " final",
        "",
    )


class GroupUpdate(Keys):
    type: Call | None = entry(VALUE, "the group's type", None)
    key: Call | None = entry(VALUE, "the group's key", None)
    set: Call | None = entry(VALUE, "an object: the group's properties", None)
    open: Call | None = entry(VALUE, "or an object of type, key and properties: one update for each key in it", None)


class Groups(Keys):
    types: Map[str, Call] = entry(VALUE_TABLE, "group type: its key, or a list of keys of which the first counts", dict)
    open: Call | None = entry(VALUE, "an object of group type and key, or list of keys", None)
    setting: str = entry(TEXT, "the --set name whose value lists, with commas, properties that are group types", "")
    set: Call | None = entry(
        VALUE, "an object of type, key and properties: group updates made by rows that are events, too", None
    )


class Profiles(Keys):
    id: str = entry(TEXT, "the column with the person's id")
    properties: str = entry(TEXT, "the column with an object of the person's properties")
    each: Call | None = entry(
        VALUE, "a list of objects with these two; a row without the list is itself a profile", None
    )
    rename: Map[str, str] = entry(TEXTS, "new names of properties", dict)
    leave: tuple[str, ...] = entry(NAMES, "not these properties", (), name="except")


class EventRule(Changes):
    name: str = entry(TEXT, "the new name", "", name="as")
    skip: str = entry(TEXT, "the code under which such rows are left out", "")
    warn: str = entry(TEXT, "with skip: also warn about such rows; a sentence on what is lost", "")
    link: LinkRule | None = entry(LINK, "the row states a merge and becomes a link", None)
    update: str = entry(Choice(("person",)), "the row updates its person and is not an event", "")
    group: GroupUpdate | None = entry(
        section("group", GroupUpdate), "the row updates a group and is not an event", None
    )
    profiles: Profiles | None = entry(
        section("profiles", Profiles), "the row is not an event but the latest state of one or more persons", None
    )


class SkipRule(Keys):
    when: Call = entry(CONDITION, "the rows")
    code: str = entry(TEXT, "the code under which they are counted")
    warn: str = entry(TEXT, "also warn about such rows; a sentence on what is lost", "")


class WarnRule(Keys):
    code: str = entry(TEXT, "the code under which such rows are counted")
    of: Call = entry(VALUE, "what is wrong, in words; a row without this value has no such warning")


class Known(Keys):
    """Names that stay as they are because a person has checked them. They change no event."""

    events: tuple[str, ...] = entry(NAMES, "names of events; a name ending in * is a prefix", ())
    fields: tuple[str, ...] = entry(NAMES, "properties, and other /columns; a name ending in * is a prefix", ())


class Extra(Keys):
    event: Call = entry(VALUE, "the extra event's name")
    properties: Map[str, Call] = entry(VALUE_TABLE, "its properties", dict)
    when: Call | None = entry(CONDITION, "only rows for which this is true", None)


class Mapping(Keys):
    """One mapping file. `file` is its name in errors; `text` is its content, for its digest; `code` is the content of
    the file that `python` names; `verbs` are those of installed packages."""

    tool: str = entry(TEXT, "the tool's name; part of every uuid, so never change it")
    title: str = entry(TEXT, "what the export is called, for people")
    recognise: tuple[Recognise, ...] = entry(
        ListOf(section("recognise", Recognise)), "how to recognise an export of this tool: a row fits any of these", ()
    )
    files: Files = entry(section("files", Files), "how files are read, and which of them count", Files)
    open: Map[str, str] = entry(
        TEXTS,
        "choices that are still open, each with its evidence: a plan is not ready while one is left. `mapping new`"
        " writes them; delete an entry when you have decided",
        dict,
    )
    settings: Map[str, Setting] = entry(
        TableOf(section("setting", Setting, short="says")),
        "the --set names this mapping takes, and what each means",
        dict,
    )
    tables: Map[str, Map[str, str]] = entry(TableOf(TEXTS), "lookup tables, by name", dict)
    lookup_files: Map[str, LookupFile] = entry(
        TableOf(section("lookup file", LookupFile, either=(("value",), ("name", "value"), ("values",), ("list",)))),
        "lookup tables whose entries are rows of other files of the export, by name",
        dict,
    )
    define: Map[str, Call] = entry(
        VALUE_TABLE,
        "named values, each computed once per row: `@name` refers to one, `@name/member` to a member of it; a"
        " definition may use those above it",
        dict,
    )
    blanks: Blanks = entry(
        section("blanks", Blanks),
        "what counts as missing, by format and by text; in JSON and Parquet a blank text is a value by default",
        Blanks,
    )
    decoder: Call | None = entry(Verbs("decoder"), "turns one row of an unusual shape into plain rows", None)
    table_from_path: TableFromPath | None = entry(
        section("table_from_path", TableFromPath),
        "how the folders and name of a file give the table of its rows, as if by --set table=NAME",
        None,
    )
    event: Call = entry(VALUE, "the event's name")
    events: Map[str, EventRule] = entry(
        TableOf(section("event rule", EventRule, short="as")), "rules for single event names", dict
    )
    unlisted: str = entry(
        Choice(("keep", "reject")), "events not listed: keep (default), or reject with `unmapped_event`", "keep"
    )
    skip: tuple[SkipRule, ...] = entry(ListOf(section("skip", SkipRule)), "rows left out", ())
    warn: tuple[WarnRule, ...] = entry(ListOf(section("warn", WarnRule)), "rows that are sent with a warning", ())
    distinct_id: Ids = entry(section("distinct_id", Ids, short="first"), "the person's id")
    time: tuple[Clock, ...] = entry(
        ListOf(section("clock", Clock), least=1), "the event's time: the first of these that the row has"
    )
    received: tuple[Clock, ...] = entry(
        ListOf(section("clock", Clock)), "when the tool received it: the first that the row has", ()
    )
    uuid: Call | None = entry(VALUE, "the source's own UUID, used if it is a valid one", None)
    key: Key | None = entry(section("key", Key), "what makes a row one event of the tool", None)
    links: tuple[LinkRule, ...] = entry(ListOf(LINK), "rows that are events and also show two ids of one person", ())
    pair: PairRule | None = entry(section("pair", PairRule), "the two ids that ordinary rows have", None)
    groups: Groups | None = entry(section("groups", Groups), "the groups of an event", None)
    properties: Properties = entry(section("properties", Properties), "changes of the properties", Properties)
    person: Person | None = entry(
        section("person", Person), "what a row states about its person; it is sent apart from the event", None
    )
    persons: Persons = entry(section("persons", Persons), "how person properties are sent", Persons)
    also: tuple[Extra, ...] = entry(ListOf(section("extra", Extra)), "further events of the same row", ())
    python: str = entry(
        TEXT,
        "your own code, as `file.py:function`, the file relative to the mapping's folder: a function that gets each"
        " finished event and returns it, a list of events, or None",
        "",
    )
    known: Known = entry(
        section("known", Known),
        "names that stay as they are: `plan --max-unmapped` does not count them, and they change no event",
        Known,
    )
    cases: tuple[Case, ...] = entry(ListOf(section("case", Case)), "examples, run by `backcast mapping test`", ())
    file: str = ""
    text: str = ""
    code: OwnCode | None = None
    verbs: tuple[str, ...] = ()


MAPPING = section("mapping", Mapping)
