"""The grammar of a mapping file: which keys a section has and what each may hold.

One declaration drives three readers: the loader (pipeline.mapper.loader), the JSON Schema for editors
(pipeline.mapper.editor_schema) and the starting file (pipeline.mapper.scaffold). Verbs declare their own
arguments with the same kinds, in the modules of pipeline.mapper.verbs.
"""

from __future__ import annotations

from pipeline.mapper import language
from pipeline.mapper.kinds import (
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
    Field,
    Json,
    ListOf,
    Section,
    TableOf,
    Verbs,
)

UNITS = ("iso", "format", "s", "ms", "us", "ns", "auto")
TYPES = ("number", "text", "boolean", "json", "list")

LINK = Section(
    "link",
    language.LinkRule,
    {
        "kind": Field(
            Choice(("identify", "alias", "merge", "person")),
            "identify: a device joins a user; alias: two ids of a person; merge: the same, without order;"
            " person: `distinct_id` is the tool's number of a person, never an id, and `other` an id of that person",
            True,
        ),
        "distinct_id": Field(CANDIDATES, "the id that stays: the first of these that names somebody"),
        "other": Field(CANDIDATES, "the id that is absorbed: the first of these that names somebody else"),
        "version": Field(VALUE, "for kind person: of rows about one id, the one with the greatest number counts"),
        "of": Field(VALUE, "instead of these two: a list of ids, all of one person"),
        "when": Field(CONDITION, "only rows of which this holds"),
    },
    either=(("distinct_id", "other"), ("of",)),
)

PAIR = Section(
    "pair",
    language.PairRule,
    {
        "user": Field(VALUE, "the id of a user", True),
        "anonymous": Field(CANDIDATES, "other ids, such as a device's: the first that is there and is not the user's"),
    },
)

SETTING = Section(
    "setting",
    language.Setting,
    {
        "says": Field(TEXT, "what it means", True),
        "one_of": Field(NAMES, "the values it may have; any when left out"),
        "found": Field(VALUES, "references: it is the first of `one_of` where the first row of a file has one of them"),
    },
    short="says",
)

TABLE_FROM_PATH = Section(
    "table_from_path",
    language.TableFromPath,
    {
        "known": Field(NAMES, "the tables: a file of another one stops the plan", True),
        "told": Field(VALUE, "where a decoded row has its table, if its columns or a setting tell it", True),
        "unless": Field(VALUES, "references by which rows tell their table whatever their file is called"),
        "has": Field(VALUES, "of no table's name, but with one of these: a file of the table `else`"),
        "else": Field(TEXT, "the table of such files", into="otherwise"),
    },
)

CLOCK = Section(
    "clock",
    language.Clock,
    {
        "from": Field(VALUE, "where the time stands", True, into="source"),
        "unit": Field(Either(UNITS), "how it is written; iso when left out; auto tells s from ms by size"),
        "format": Field(VALUE, "for unit format: a form such as %d/%m/%Y %H:%M", into="form"),
        "zone": Field(
            Choice(("utc", "local", "project")),
            "whose clock a text without an offset shows: UTC's (default) or the project's (local); "
            "project: numbers too show the project's clock, as if it stood in UTC",
        ),
        "space": Field(YES, "whether iso may have a space for the T"),
        "proof_unless": Field(CONDITION, "rows whose times prove nothing about the zone"),
    },
)

SPREAD = Section(
    "spread",
    language.Spread,
    {
        "from": Field(VALUE, "the object", True, into="source"),
        "only": Field(NAMES, "only these members; a name ending in * is a beginning"),
        "except": Field(NAMES, "not these members", into="leave"),
        "rename": Field(TEXTS, "new names of members"),
        "strip": Field(TEXT, "a beginning to take off the members' names"),
        "prefix": Field(TEXT, "a beginning to put before the members' names"),
        "blank": Field(NAMES, "texts that stand for nothing: such members are left out"),
    },
    short="from",
)
SPREADS = ListOf(SPREAD)

BLANKS = Section(
    "blanks",
    language.Blanks,
    {
        "csv": Field(
            Choice(("missing", "value")),
            "a blank cell of a delimited file is missing, as if the row had no such column (default), or a value: the"
            " empty text. Quotes around it make no difference",
        ),
    },
)

BLANK = Section(
    "blank",
    language.Blank,
    {
        "values": Field(NAMES, "texts that stand for nothing", True),
        "in": Field(NAMES, "the properties they are left out of", True, into="within"),
    },
)

_CHANGES = {
    "rename": Field(TEXTS, "old name: new name; where the new one is taken, the old one stays, with a warning"),
    "drop": Field(VALUES, "properties left out"),
    "set": Field(VALUE_TABLE, "name: value; a row's own value of that name moves to TOOL_name, with a warning"),
    "fill": Field(VALUE_TABLE, "name: value, only where the row has no such property"),
}

PROPERTIES = Section(
    "properties",
    language.Properties,
    {
        "open": Field(VALUE, "the object that holds the properties; left out: the row itself"),
        "rest": Field(TEXT, "`drop`, `keep`, or the beginning that columns named nowhere get; left out: TOOL_"),
        **_CHANGES,
        "types": Field(TableOf(Choice(TYPES)), "property: type; what cannot be converted stays, with a warning"),
        "hash": Field(TEXTS, "property: name of a keyed hash that takes its place (BACKCAST_HASH_KEY)"),
        "blank": Field(ListOf(BLANK), "texts that stand for nothing"),
        "spread": Field(SPREADS, "objects whose members become properties"),
        "reserved": Field(NAMES, "names that mean something to the service and become TOOL_name"),
        "common": Field(NAMES, "properties found in most rows: a hint for speed, never for meaning"),
    },
)

PERSON = Section(
    "person",
    language.Person,
    {
        "set": Field(VALUE_TABLE, "person property: value; the latest wins"),
        "set_once": Field(VALUE_TABLE, "person property: value; the first wins"),
        "spread_set": Field(SPREADS, "objects whose members are set"),
        "spread_set_once": Field(SPREADS, "objects whose members are set once"),
        "unset": Field(VALUE, "a list or an object: the names of properties that the person has no more"),
    },
)

PERSONS = Section(
    "persons",
    language.Persons,
    {
        "properties": Field(Choice(("final", "none")), "final: the last values, sent once (default)"),
        "policy": Field(TEXT, "how they meet a live profile: fill-only (default), overwrite or prefix=TEXT"),
        "promoted": Field(
            Choice(("leave", "final")),
            "event properties that the service copies to the person: leave it what arrives last (default), or final",
        ),
    },
)

GROUP_UPDATE = Section(
    "group",
    language.GroupUpdate,
    {
        "type": Field(VALUE, "the group's type"),
        "key": Field(VALUE, "the group's key"),
        "set": Field(VALUE, "an object: the group's properties"),
        "open": Field(VALUE, "or an object of type, key and properties: one update for each key in it"),
    },
)

GROUPS = Section(
    "groups",
    language.Groups,
    {
        "types": Field(VALUE_TABLE, "group type: its key, or a list of keys of which the first counts"),
        "open": Field(VALUE, "an object of group type and key, or list of keys"),
        "setting": Field(TEXT, "the --set name whose value lists, with commas, properties that are group types"),
        "set": Field(VALUE, "an object of type, key and properties: what the row says of groups beside being an event"),
    },
)

PROFILES = Section(
    "profiles",
    language.Profiles,
    {
        "id": Field(TEXT, "the column with the person's id", True),
        "properties": Field(TEXT, "the column with an object of the person's properties", True),
        "each": Field(VALUE, "a list of objects with these two; a row without it is a profile itself"),
        "rename": Field(TEXTS, "new names of properties"),
        "except": Field(NAMES, "not these properties", into="leave"),
    },
)

EVENT_RULE = Section(
    "event rule",
    language.EventRule,
    {
        "as": Field(TEXT, "the new name", into="name"),
        "skip": Field(TEXT, "the code under which such rows are left out"),
        "warn": Field(TEXT, "beside skip, where they are a warning too: a sentence on what is lost"),
        "link": Field(LINK, "the row states a merge and becomes a link"),
        "update": Field(Choice(("person",)), "the row says something about its person and nothing else"),
        "group": Field(GROUP_UPDATE, "the row says something about a group and nothing else"),
        "profiles": Field(PROFILES, "the row is no event but the latest state of one person, or of many"),
        **_CHANGES,
    },
    short="as",
)

CASE = Section(
    "case",
    language.Case,
    {
        "name": Field(TEXT, "what the case shows", True),
        "row": Field(Json(), "the row as JSON text", True),
        "gives": Field(
            ListOf(
                Section(
                    "outcome",
                    dict,
                    {
                        "event": Field(TEXT, "the event's name"),
                        "distinct_id": Field(TEXT, "its distinct_id"),
                        "timestamp": Field(TEXT, "its time, as 2020-12-30T12:00:00Z"),
                        "uuid": Field(TEXT, "the source's own uuid"),
                        "key": Field(NAMES, "the parts of its dedupe key; `none` for a row without"),
                        "properties": Field(Json(), "all of its properties, exactly"),
                        "has": Field(Json(), "properties that must be among them"),
                        "lacks": Field(NAMES, "properties that must not be there"),
                        "warnings": Field(NAMES, "the codes of its warnings; none when left out"),
                        "skip": Field(TEXT, "the row is left out, with this code"),
                        "reject": Field(TEXT, "the row cannot be sent, with this code"),
                        "link": Field(NAMES, "kind, the id that stays, the id that is absorbed"),
                        "pair": Field(NAMES, "of an event: its anonymous id and its user's"),
                        "set": Field(Json(), "what is said of its person, exactly; or of a group"),
                        "set_once": Field(Json(), "what is said of its person once, exactly"),
                        "unset": Field(NAMES, "the properties that its person has no more"),
                        "person": Field(TEXT, "the row says something of this person and is no event"),
                        "group": Field(NAMES, "the row says something of a group and is no event: its type and key"),
                    },
                )
            ),
            "what becomes of it, in order",
            True,
        ),
        "settings": Field(TEXTS, "as given with --set"),
        "zones": Field(NAMES, "as given with --timezone"),
        "dialect": Field(Choice(("contract", "posthog")), "the target's spelling"),
        "path": Field(TEXT, "the file that the row stands in, with its folders (`table_from_path`)"),
        "format": Field(
            Choice(("json", "csv")),
            "csv: every value is the text of a cell, and blank ones are what `blanks` says; json when left out",
        ),
    },
    placed=True,
)

MAPPING = Section(
    "mapping",
    language.Mapping,
    {
        "tool": Field(TEXT, "the tool's name; part of every uuid, so never change it", True),
        "title": Field(TEXT, "what the export is called, for people", True),
        "recognise": Field(
            ListOf(
                Section(
                    "recognise",
                    language.Recognise,
                    {
                        "has": Field(VALUES, "references that every row has", True),
                        "lacks": Field(VALUES, "references that no row has"),
                    },
                )
            ),
            "how an export of this tool is known: one of these fits",
        ),
        "settings": Field(TableOf(SETTING), "--set names this mapping takes, and what each means"),
        "tables": Field(TableOf(TEXTS), "lookup tables, by name"),
        "blanks": Field(
            BLANKS, "by format, what a blank value is to every reference; in JSON and Parquet it is a value"
        ),
        "decoder": Field(Verbs("decoder"), "what turns one odd row into plain ones"),
        "table_from_path": Field(
            TABLE_FROM_PATH, "how the table of a file is told by its folders and name, as if by --set table=NAME"
        ),
        "event": Field(VALUE, "the event's name", True),
        "events": Field(TableOf(EVENT_RULE), "what becomes of single event names"),
        "unlisted": Field(Choice(("keep", "reject")), "events not listed: kept (default), or rejects `unmapped_event`"),
        "skip": Field(
            ListOf(
                Section(
                    "skip",
                    language.SkipRule,
                    {
                        "when": Field(CONDITION, "the rows", True),
                        "code": Field(TEXT, "the code they are counted under", True),
                        "warn": Field(TEXT, "where they are a warning too: a sentence on what is lost"),
                    },
                )
            ),
            "rows left out",
        ),
        "distinct_id": Field(
            Section(
                "distinct_id",
                language.Ids,
                {
                    "first": Field(CANDIDATES, "candidates, best first; junk ids are passed over", True),
                    "junk": Field(NAMES, "this tool's own words for nobody, in any case"),
                },
                short="first",
            ),
            "who did it",
            True,
        ),
        "time": Field(ListOf(CLOCK), "when: the first of these that the row has", True),
        "received": Field(ListOf(CLOCK), "when the tool received it: the first that the row has"),
        "uuid": Field(VALUE, "the source's own UUID, used where it is one"),
        "key": Field(
            Section(
                "key",
                language.Key,
                {
                    "of": Field(VALUES, "the parts", True),
                    "needs": Field(VALUES, "without one of these, a row has no key"),
                    "posthog": Field(VALUE, "what the service's own importer hashes, for --set uuid=posthog"),
                },
            ),
            "what makes a row one event of the tool",
        ),
        "links": Field(ListOf(LINK), "rows that show two ids of one person, beside being events"),
        "pair": Field(PAIR, "the ids that rows bear beside each other"),
        "groups": Field(GROUPS, "the groups of an event"),
        "properties": Field(PROPERTIES, "what becomes of the properties"),
        "person": Field(PERSON, "what a row says about its person; it travels apart from the event"),
        "persons": Field(PERSONS, "what becomes of that"),
        "also": Field(
            ListOf(
                Section(
                    "extra",
                    language.Extra,
                    {
                        "event": Field(VALUE, "the extra event's name", True),
                        "properties": Field(VALUE_TABLE, "its properties"),
                        "when": Field(CONDITION, "only rows of which this holds"),
                    },
                )
            ),
            "further events of the same row",
        ),
        "cases": Field(ListOf(CASE), "examples, run by `backcast mapping test`"),
    },
)
