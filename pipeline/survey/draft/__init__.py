"""Write a starting mapping from some rows of an export: a commented file that loads, whatever the rows contain.

It never refuses. What the rows do not show is an open choice in the file: a comment with the candidates and their
evidence, and an entry under `open`, which keeps the mapping unfinished until a person decides. `answers` are decisions
that a person has already made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from pipeline.extractors.file_rules import ESCAPE, FOLDERS, HEADER, NAN, rules_set
from pipeline.mapper import available
from pipeline.mapper.language.scalars import comment, quoted, scalar
from pipeline.mapper.language.sections import FORMAT
from pipeline.survey.columns import LIST, Column
from pipeline.survey.draft.decisions import Choice, Decisions, Option
from pipeline.survey.draft.event import event_section
from pipeline.survey.draft.people import people_sections
from pipeline.survey.draft.properties import key_section, property_sections
from pipeline.survey.draft.time import time_sections
from pipeline.survey.fields import OBJECT, OBJECT_TEXT
from pipeline.survey.tables import Table
from pipeline.text import pluralize, printable

__all__ = ["FREE", "Choice", "Draft", "custom_answer", "draft_mapping"]

MOST_COLUMNS = 120
"""How many columns the comment at the end lists."""
MOST_TABLES = 8
_UNFINISHED = Option("open", "the mapping stays unfinished until such rows are sent or you delete the entry `cases`")
_ACCEPTED = Option("not sent", "leave such rows out; a plan counts them, and stops at --max-rejects")


class Draft(msgspec.Struct, frozen=True):
    """A starting mapping and its open choices. `columns` are the references to its columns, by name."""

    text: str
    choices: tuple[Choice, ...]
    columns: Mapping[str, str]


def draft_mapping(
    table: Table,
    unique: Mapping[str, int],
    answers: Mapping[str, str] | None = None,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Draft:
    """The starting mapping of a table. `unique` are the columns whose values no two rows share, with how many rows have
    one; `answers` are YAML strings by the name of a choice, and `settings` say how files are read (--set)."""
    known = Decisions(table, unique, answers or {}, settings)
    sections = [event_section(known), people_sections(known), time_sections(known), key_section(known)]
    sections += [property_sections(known), _columns(known)]
    _choose_files(known)
    body = "\n".join(sections) + "\n"
    from pipeline.survey.draft.cases import cases_of  # it compiles the mapping

    cases, unsent = cases_of(_head(known, "") + body, table.records, table.form)
    columns = {column.path: known.ref(column) for column in known.columns.values()}
    choices = list(known.choices)
    if unsent and not choices and "cases" not in known.answers:  # other choices may settle it
        choices.append(Choice("cases", f"{unsent}.", (_UNFINISHED, _ACCEPTED)))
    elif known.answers.get("cases") == _ACCEPTED.text:
        unsent = ""
    return Draft(_head(known, unsent) + body + cases, tuple(choices), columns)


FREE = {
    "column": ("a column, or =TEXT for a fixed text", "the name of a column"),
    "tool": ("or a name such as my_tool", "a new tool's name: a letter, then letters, digits and _, in lower case"),
}
"""What else than an option answers a choice, in a question, and in the error for another answer."""


def custom_answer(choice: Choice, text: str, columns: Mapping[str, str]) -> str:
    """An answer other than the options, as YAML: a column, several of them for an id (the first that a row has), or
    `=TEXT` for a fixed string; or the name of a tool that is not a shipped one. "" for anything else."""
    if choice.free == "tool":
        return text if re.fullmatch("[a-z][a-z0-9_]*", text) and text not in available() else ""
    if not choice.free:
        return ""
    if text.startswith("=") and len(text) > 1:
        return f"{{const: {scalar(text[1:])}}}"
    several = text.strip("[] ").split(",") if choice.name == "distinct_id" and text not in columns else [text]
    found = [columns.get(one.strip()) or one.strip() for one in several]
    if not all(one in columns.values() for one in found):
        return ""
    return f"[{', '.join(found)}]" if len(found) > 1 else found[0]


def _head(known: Decisions, unsent: str) -> str:
    """The first lines of the file. `unsent` says which rows of the cases are not sent."""
    undecided = {choice.name: choice.sentence for choice in known.choices}
    if unsent:
        undecided["cases"] = f"{unsent}. Change the mapping so that such rows are sent, or delete this entry"
        undecided["cases"] += " to leave them out"
    table = known.table
    lines = [
        f"format: {FORMAT}",
        f"tool: {known.tool}      # part of every uuid: never change it after the first send",
        f"title: {scalar((known.table.name or 'my') + ' export')}",
        "",
    ]
    if undecided:
        lines += [
            "# This is a draft. Each entry below is a choice that the rows do not decide, marked OPEN further down.",
            "# Decide it there, then delete its entry here: a plan is not ready while one is left.",
            "open:",
            *(f"  {name}: {quoted(printable(sentence, 600))}" for name, sentence in undecided.items()),
            "",
        ]
    files = [f"{name}: {scalar(known.settings[name])}" for name in (ESCAPE, FOLDERS, NAN) if name in known.settings]
    if columns := rules_set(known.settings).columns:
        files.append(f"columns: [{', '.join(map(scalar, columns))}]")
    files += ["header: no"] * known.nameless + ["escape: none"] * table.unsure
    files += [f"rows: {scalar(table.rows)}      # each item of this list is a row"] if table.rows else []
    if known.floats:
        files.append(f"integers: [{', '.join(map(scalar, known.floats))}]      # ids written as 42.0 are read as 42")
    if files:
        lines += ["files:", *(f"  {one}" for one in files), ""]
    if known.nulls:
        lines += [f"blanks: {{texts: [{quoted(known.nulls)}]}}      # null, as the database writes it", ""]
    return "\n".join([*lines, "# A reference is a property's name; /column is a column of the row itself.", ""])


def _choose_files(known: Decisions) -> None:
    """Add the choices about the export's files."""
    table = known.table
    if not table.name:
        question = "no file or folder names the tool of the rows. Its name is part of every uuid."
        known.choose(Choice("tool", question, (Option(known.tool, "a name for the source"),), "tool"))
    if table.others:
        names = ", ".join(
            f"{name or 'one without a name'} ({pluralize(files, 'file')})" for name, files in table.others[:MOST_TABLES]
        )
        question = f"the export has other tables, whose rows this mapping does not fit: {names}."
        evidence = "plan the files of one table at a time, each with its own mapping"
        known.choose(Choice("tables", question, (Option(table.name or "this table", evidence),)))
    if table.beside:
        names = ", ".join(printable(name, 60) for name in table.beside[:MOST_TABLES])
        question = f"each row is a page whose list {table.rows} has the rows; its other members are not read: {names}."
        options = (
            Option(table.rows, "each item of the list is a row"),
            Option("none", "a page is one row, with the list in it"),
        )
        known.choose(Choice("rows", question, options))
    if known.nameless and HEADER not in known.settings:
        question = "the first row has values, not names, so the columns are called column_1, column_2 and so on."
        known.choose(Choice("header", question, (Option("no", "the first row is a row like the others"),)))
    if known.rounded:
        question = (
            f"a spreadsheet rounded numbers in {', '.join(known.rounded)}, so different ids and times became equal."
        )
        evidence = "rows with such ids and times are rejected; export the table again, without a spreadsheet"
        known.choose(Choice("rounded", question, (Option("rejected", evidence),)))
    if table.unsure:
        question = (
            "backslashes may be a database's escapes or literal: if \\t in a cell is a tab, write {escape: '\\'}."
        )
        known.choose(Choice("escape", question, (Option("none", "backslashes are literal"),)))


def _columns(known: Decisions) -> str:
    """Every column as a comment."""
    listed = list(known.columns.values())
    lines = [
        "",
        "# Every column, the share of rows without it, and some of its values:",
        *map(_described, listed[:MOST_COLUMNS]),
    ]
    if len(listed) > MOST_COLUMNS:
        lines.append(f"#   and {len(listed) - MOST_COLUMNS:,} more: see them with `backcast survey`")
    return "\n".join(lines)


def _described(column: Column) -> str:
    examples = [printable(text, 40) for text, _ in column.texts.most_common(3)]
    shown = ", ".join(json.dumps(example, ensure_ascii=False) for example in examples)
    nested = column.main_kind in (OBJECT, OBJECT_TEXT, *LIST)
    show = f", such as {shown}" if shown and not nested else ""
    return comment(f"  {scalar(column.path)}: {column.main_kind}, {column.blank:.0%} missing{show}", 300)
