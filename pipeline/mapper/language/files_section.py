"""The sections `files` and `lookup_files` of a mapping: how the files of an export are read, and what each is for."""

from __future__ import annotations

from codecs import lookup
from collections.abc import Mapping as Map

from pipeline.extractors.layouts import KINDS
from pipeline.mapper.language.kinds import NAMES, TEXT, YES, Character, Choice, Keys, ListOf, TableOf, entry


class Files(Keys):
    """How the files of the export are read and which of them count (`pipeline.extractors.file_rules`)."""

    header: str = entry(Choice(("yes", "no")), "whether delimited files begin with the names of their columns", "")
    columns: tuple[str, ...] = entry(
        NAMES, "the columns of delimited files without a header; recognised by their number and by `like`", ()
    )
    columns_from: str = entry(TEXT, "the name of a file in the same folder or archive that has the columns' names", "")
    like: Map[str, str] = entry(TableOf(Choice(tuple(KINDS))), "what the values of some columns are like", dict)
    delimiter: str = entry(Character(), "what separates cells; recognised when left out", "")
    quotes: str = entry(Character(none="none"), 'the quotation mark, or none; " when left out', "")
    escape: str = entry(
        Character(none="none"),
        "what is before a delimiter, line end or itself in a value; then \\N is null, \\t a tab; or none",
        "",
    )
    encoding: str = entry(
        TEXT, "the encoding of files without a byte order mark; left out: utf-8, recognised under a header", ""
    )
    rows: str = entry(TEXT, "the list of rows in JSON pages; none: objects are rows, whatever lists they have", "")
    folders: str = entry(
        Choice(("yes", "no")), "whether folders `key=value` are columns; left out: yes, but with `recognise` no", ""
    )
    integers: tuple[str, ...] = entry(
        NAMES, "columns of integers, or paths such as user/id, that some program wrote as 42.0: they are read as 42", ()
    )
    nan: str = entry(
        Choice(("null", "reject")),
        "what becomes of a value that is NaN or infinite; left out: null in Parquet, Avro and ORC, a reject in JSON",
        "",
    )
    only: tuple[str, ...] = entry(NAMES, "patterns of paths: files of other paths do not count", ())
    skip: tuple[str, ...] = entry(NAMES, "patterns of paths: such files do not count", ())
    apart: tuple[tuple[str, ...], ...] = entry(
        ListOf(NAMES),
        "pairs of patterns: files of both stop the plan, since they have the same events",
        (),
    )
    manifest: str = entry(TEXT, "the kind of manifest that lists which files count", "")

    def conflict(self) -> tuple[str, str, str] | None:
        """The key with a fault, such as a character that has another meaning too, what is wrong, and what to write."""
        delimiter, quotes = self.delimiter or ",", self.quotes or '"'
        try:
            lookup(self.encoding or "utf-8")
        except LookupError:
            return "encoding", f"there is no encoding {self.encoding!r}", "write latin-1, cp1252 or the like"
        for pair in self.apart:
            if len(pair) != 2:
                return "apart", f"`files: apart` has a group of {len(pair)} patterns", "name two in each pair"
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
            hint = "delete 'escape': a doubled quotation mark within quotes is one of the value"
            return "escape", f"'escape' cannot be {quotes!r}: that is the quotation mark", hint
        return None


class LookupFile(Keys):
    """Files of the export whose rows are entries of a table (`pipeline.plan.lookups`)."""

    file: tuple[str, ...] = entry(
        NAMES, "patterns of paths: these files have the entries, and no events unless `rows` asks for them"
    )
    key: tuple[str, ...] = entry(
        NAMES, "the path of the value that a `lookup` looks for, such as /id; of several the first that the row has"
    )
    value: tuple[str, ...] = entry(
        NAMES, "the path of the value that it finds, such as /name; of several the first that the row has", ()
    )
    values: tuple[str, ...] = entry(
        NAMES, "or the paths of several values: it finds an object of those that the row has, as JSON", ()
    )
    columns: tuple[str, ...] = entry(
        NAMES, "the columns of delimited files without a header, which are written as described under `files`", ()
    )
    rows: str = entry(YES, "whether the rows of these files are rows of the export too; no when left out", "no")
    missing: str = entry(
        Choice(("stop", "notice")),
        "what a plan does where the export has no such file, or none with such values: it stops (default), or it has a"
        " notice and the table is empty",
        "stop",
    )
