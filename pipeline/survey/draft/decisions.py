"""The choices of a draft, and what its sections know about the table while they are written."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from pipeline.extractors.file_rules import COLUMNS, rules_set
from pipeline.mapper import available
from pipeline.mapper.language.scalars import comment, scalar
from pipeline.mapper.program.references import path_of
from pipeline.survey.columns import Column, Steps, columns_of
from pipeline.survey.roles.ids import is_integer_as_float, people_in
from pipeline.survey.roles.properties import properties_in
from pipeline.survey.roles.times import clocks_in
from pipeline.survey.tables import Table
from pipeline.text import pluralize
from pipeline.timestamps import lost_digits
from pipeline.values import Record

MOST_OPTIONS = 6
NULL = r"\N"
"""What databases write for null when they unload a table as text."""
DEPTH = 4
"""The most steps that a path has, such as /relationships/profile/data/id."""


@dataclass(frozen=True, slots=True)
class Option:
    """One answer to a choice: its YAML text in the mapping, and its evidence in words."""

    text: str
    evidence: str


class Choice(msgspec.Struct, frozen=True):
    """What the rows do not show. The draft uses the first of `options`. `free` says which other answers it takes:
    `column` (another column, or `=TEXT` for a fixed string), `tool` (another name), or "" for none."""

    name: str
    question: str
    options: tuple[Option, ...]
    free: Literal["", "column", "tool"] = ""

    @property
    def sentence(self) -> str:
        """The choice in one line, as the file has it under `open`."""
        others = " or ".join(f"{one.text} ({one.evidence})" for one in self.options[1:])
        return f"{self.question} The draft uses {self.options[0].text}{f', not {others}' if others else ''}"


class Decisions:
    """A table and its columns by role, the answers that a person gave, and the choices that are open.

    `dropped` are the columns that an event has elsewhere: its name, time, id and key.
    """

    def __init__(
        self, table: Table, unique: Mapping[str, int], answers: Mapping[str, str], settings: Mapping[str, str]
    ) -> None:
        self.table = table
        self.unique = unique
        self.answers = answers
        self.settings = settings
        self.nameless = table.headless and COLUMNS not in settings
        """Whether the columns have no names, neither in the files nor from a person."""
        self.choices: list[Choice] = []
        self.dropped: list[Steps] = []
        tool = _in_ascii(table.name) or "my_tool"
        # A shipped tool of this name has its own uuids.
        self.tool = answers.get("tool", f"{tool}_export" if tool in available() else tool)
        self.nulls = NULL if table.form == "csv" and any(NULL in record.values() for record in table.records) else ""
        """The string that means null in delimited files, or ""."""
        records: Sequence[Record] = table.records
        if self.nulls:
            records = [{name: one for name, one in row.items() if one != self.nulls} for row in records]
        self.columns = columns_of(records, depth=DEPTH)
        self.opened = properties_in(self.columns.values())
        clocks = clocks_in(self.columns.values())
        # Numbers that only look like times are more often ids.
        self.clocks = [one for one in clocks if one.known] or clocks
        timed = {one.column.steps for one in self.clocks}
        self.untimed = [column for column in self.columns.values() if column.steps not in timed]
        self.people = people_in(self.untimed)
        ids = {one.column.steps for one in self.people}
        found = ["/".join(one.column.steps) for one in self.people if is_integer_as_float(one.column)]
        self.floats = rules_set(settings).integers or found
        roled = [*(one.column for one in self.clocks), *(one.column for one in self.people)]
        self.rounded = [one.path for one in roled if any(map(lost_digits, one.texts))]
        """The columns of times and of ids that have numbers whose last digits are lost."""
        self.others = [column for column in self.untimed if column.steps not in ids or not self.people[0].known]
        """The columns that are neither times nor ids of persons."""

    def ref(self, column: Column) -> str:
        """The reference to a column, or to a member of the properties by its name."""
        steps = column.steps
        if self.opened is not None and len(steps) == 2 and steps[0] == self.opened.steps[0]:
            name = steps[1]
            if name and name[0] not in "/@":
                return scalar(name)
        return scalar("".join(path_of(step) for step in steps))

    def choose(self, choice: Choice) -> tuple[str, list[str]]:
        """The value that the draft uses: an answer, or the first option with comments that mark it as open."""
        if choice.name in self.answers:
            return self.answers[choice.name], []
        if choice not in self.choices:
            self.choices.append(choice)
        lines = [
            f"OPEN {choice.name}: {choice.question}",
            *(f"  {one.text}    {one.evidence}" for one in choice.options),
        ]
        return choice.options[0].text, [comment(line) for line in lines]


def _in_ascii(name: str) -> str:
    """A name in lower-case ASCII with underscores: häßlich is haesslich, Événements evenements. "" without letters."""
    plain = re.sub("(?<=[aou])\u0308", "e", unicodedata.normalize("NFKD", name.casefold()))
    return re.sub(r"[^a-z0-9_]+", "_", plain.encode("ascii", "ignore").decode()).strip("_")


def rows_without(column: Column) -> set[int]:
    """The numbers of the rows that have no value in a column."""
    return set(range(column.of)) - set(column.rows)


def some_rows_have(some: int, of: int) -> str:
    """The beginning of a sentence, with counts since a share of few rows would be 0 %: `1 of 301 rows has`."""
    return f"{some:,} of {pluralize(of, 'row')} {'has' if some == 1 else 'have'}"
