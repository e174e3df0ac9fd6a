"""The sections `files` and `lookup_files` of a mapping: how the files of an export are read, and what each is for."""

from __future__ import annotations

from codecs import lookup
from collections.abc import Mapping as Map

from pipeline.extractors.dialect import KINDS
from pipeline.mapper.language.kinds import (
    NAMES,
    TEXT,
    VALUES,
    YES,
    Call,
    Character,
    Choice,
    Keys,
    ListOf,
    TableOf,
    entry,
)


class Files(Keys):
    """How the files of the export are read and which of them count (`pipeline.extractors.file_rules`)."""

    header: str = entry(Choice(("yes", "no")), "whether delimited files begin with their column names", "")
    columns: tuple[str, ...] = entry(
        NAMES, "the columns of delimited files without a header; recognised by their number and by `like`", ()
    )
    columns_from: str = entry(TEXT, "the name of a file in the same folder or archive that has the columns' names", "")
    like: Map[str, str] = entry(TableOf(Choice(tuple(KINDS))), "what the values of some columns are like", dict)
    delimiter: str = entry(Character(), "what separates cells; recognised if left out", "")
    quotes: str = entry(Character(none="none"), 'the quotation mark, or none; " if left out', "")
    escape: str = entry(
        Character(none="none"),
        "what precedes a delimiter, line end or itself in a value; then \\N is null, \\t a tab; or none",
        "",
    )
    encoding: str = entry(
        TEXT,
        "the encoding of files without a byte order mark; if left out, utf-8, or recognised if there is a header",
        "",
    )
    rows: str = entry(TEXT, "the list of rows in JSON pages; none: objects are rows, whatever lists they have", "")
    folders: str = entry(
        Choice(("yes", "no")), "whether folders `key=value` are columns; if left out, yes, but no with `recognise`", ""
    )
    integers: tuple[str, ...] = entry(
        NAMES, "columns of integers, or paths such as user/id, that some program wrote as 42.0: they are read as 42", ()
    )
    nan: str = entry(
        Choice(("null", "reject")),
        "what becomes of a NaN or infinite value; if left out, null in Parquet, Avro and ORC, a reject in JSON",
        "",
    )
    only: tuple[str, ...] = entry(NAMES, "patterns of paths: files with other paths are ignored", ())
    skip: tuple[str, ...] = entry(NAMES, "patterns of paths: such files are ignored", ())
    apart: tuple[tuple[str, ...], ...] = entry(
        ListOf(NAMES),
        "pairs of patterns: a plan stops if there are files of both, since they have the same events",
        (),
    )
    manifest: str = entry(TEXT, "the kind of manifest that lists which files count", "")

    def conflict(self) -> tuple[str, str, str] | None:
        """The wrong key, such as a character that also has another meaning; what is wrong; and what to write."""
        delimiter, quotes = self.delimiter or ",", self.quotes or '"'
        try:
            lookup(self.encoding or "utf-8")
        except LookupError:
            return "encoding", f"unknown encoding {self.encoding!r}", "write latin-1, cp1252 or the like"
        for pair in self.apart:
            if len(pair) != 2:
                return "apart", f"`files: apart` has a group of {len(pair)} patterns", "write two in each pair"
        if delimiter == quotes:
            key = "quotes" if self.quotes else "delimiter"
            hint = "write `quotes: none` if the files have no quotes, or another `delimiter`"
            return (
                key,
                f"{key!r} cannot be {quotes!r}: that is the {'delimiter' if self.quotes else 'quotation mark'}",
                hint,
            )
        if self.escape == delimiter:
            return (
                "escape",
                f"'escape' cannot be {delimiter!r}: that is the delimiter",
                "write the character before a delimiter that belongs to a value",
            )
        if self.escape == quotes:
            hint = "delete 'escape': a doubled quotation mark within quotes stands for one"
            return "escape", f"'escape' cannot be {quotes!r}: that is the quotation mark", hint
        return None


class LookupFile(Keys):
    """Files of the export whose rows are entries of a table (`pipeline.plan.lookups`)."""

    file: tuple[str, ...] = entry(
        NAMES, "patterns of paths: these files have the entries; they have events only if `rows` is yes"
    )
    key: tuple[str, ...] = entry(
        NAMES,
        "the path of the value that a `lookup` looks for, such as /id; if there are several, the first in the row",
    )
    name: tuple[str, ...] = entry(
        NAMES,
        "the path of the name of a property: the rows with one key together are an object of names and values, as JSON",
        (),
    )
    value: tuple[Call, ...] = entry(
        VALUES,
        "the value that it finds: a path such as /name, or another value of these rows; if there are several, the first"
        " that the row has",
        (),
    )
    values: tuple[str, ...] = entry(
        NAMES, "or the paths of several values: it finds a JSON object of those in the row", ()
    )
    list: tuple[str, ...] = entry(
        NAMES,
        "or all rows with one key, as a JSON list of objects of the values at these paths; * for all columns but those"
        " of `key`",
        (),
    )
    joined: str = entry(
        YES,
        "whether these rows belong to rows of the export, so that a plan counts those whose key no row looks up; if"
        " left out, yes with `name` or `list`",
        "",
    )
    columns: tuple[str, ...] = entry(
        NAMES, "the columns of delimited files without a header; `files` says how these are written", ()
    )
    rows: str = entry(YES, "whether the rows of these files are also rows of the export; no if left out", "no")
    missing: str = entry(
        Choice(("stop", "notice")),
        "what a plan does if the export has no such file, or none with such values: it stops (default), or it shows a"
        " notice and the table is empty",
        "stop",
    )

    @property
    def is_joined(self) -> bool:
        """Whether every row of these files belongs to a row of the export."""
        return self.joined == "yes" or (not self.joined and bool(self.name or self.list))
