"""The values of every column in some rows, and what they show: how many are blank, different, strings, numbers,
times."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from pipeline import values
from pipeline.survey.fields import EXAMPLE_CHARACTERS, MOST_FIELDS, OBJECT, OBJECT_TEXT, kind_of
from pipeline.text import pluralize, printable
from pipeline.values import Record, Value

Steps = tuple[str, ...]
"""The path to a value: a column, or a column and a member of the object in it."""

INTEGER, NUMBER, LIST = ("integer", "integer in text"), ("number", "number in text"), ("list", "list in text")
OBJECTS = (OBJECT, OBJECT_TEXT)
IP = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}$|[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}$", re.ASCII)
"""An IP address."""
_FEW_ROWS = 10


def spelled(name: str) -> str:
    """A name in lower case with underscores."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[\W_]+", "_", words).strip("_").lower()


class Column:
    """One column, or one member of the objects in a column. `values` are those that are neither null nor blank, `rows`
    the numbers of their rows; `of` rows were read."""

    def __init__(self, steps: Steps, of: int) -> None:
        self.steps = steps
        self.of = of
        self.values: list[Value] = []
        self.rows: list[int] = []

    @property
    def path(self) -> str:
        """The name that a survey shows: `properties.plan`."""
        return ".".join(self.steps)

    @cached_property
    def name(self) -> str:
        """The last step in lower case with underscores: `eventName`, `Event Name` and `$event_name` are one name."""
        return spelled(self.steps[-1])

    @cached_property
    def kinds(self) -> Counter[str]:
        """How many values are of each kind (`pipeline.survey.fields.KINDS`)."""
        return Counter(map(kind_of, self.values))

    @cached_property
    def texts(self) -> Counter[str]:
        """How often each value occurs, as a string."""
        return Counter(values.text(value) or "" for value in self.values)

    @property
    def blank(self) -> float:
        """The share of rows without a value."""
        return 1 - len(self.values) / self.of if self.of else 1.0

    def share(self, *kinds: str) -> float:
        """The share of values of these kinds."""
        return sum(self.kinds[kind] for kind in kinds) / len(self.values) if self.values else 0.0

    def matching(self, pattern: re.Pattern[str]) -> float:
        """The share of values whose text matches."""
        found = sum(count for text, count in self.texts.items() if pattern.match(text))
        return found / len(self.values) if self.values else 0.0

    @property
    def is_text(self) -> bool:
        """Nearly all are plain strings: not numbers, times, uuids or objects."""
        return self.share("text") >= 0.9

    @property
    def repeats(self) -> bool:
        """Each value occurs twice on average; in a few rows, some value occurs twice."""
        different, rows = len(self.texts), len(self.values)
        return 0 < 2 * different <= rows or (rows < _FEW_ROWS and different < rows)

    @property
    def main_kind(self) -> str:
        """The kind of most values, "null" if there are none."""
        return self.kinds.most_common(1)[0][0] if self.kinds else "null"

    def evidence(self) -> str:
        """What the values show, in words."""
        if not self.values:
            return "no value in any row"
        examples = ", ".join(
            f'"{printable(text, EXAMPLE_CHARACTERS)}"' for text, _ in self.texts.most_common(3) if len(text) < 2_000
        )
        blank = f"{self.of - len(self.values):,} blank" if self.blank else "never blank"
        different = f"{pluralize(len(self.texts), 'different value')} in {pluralize(len(self.values), 'row')}"
        return f"{blank}, {different}, such as {examples or 'long strings'}"


def columns_of(records: Sequence[Record], most: int = MOST_FIELDS, depth: int = 2) -> dict[Steps, Column]:
    """Every column of these rows in the order of its first row, the members of objects after it. Objects, including
    those written as text, are opened to a depth of `depth` steps. Columns beyond `most` are left out."""
    columns: dict[Steps, Column] = {}

    def add(steps: Steps, row: int, value: Value) -> None:
        column = columns.get(steps)
        if column is None:
            if len(columns) >= most:
                return
            column = columns[steps] = Column(steps, len(records))
        text = "" if values.is_absent(value) else values.text(value) or ""
        if not text or text.isspace():
            return
        column.values.append(value)
        column.rows.append(row)
        if len(steps) < depth and text.lstrip()[:1] == "{":
            for member, inner in _members(value).items():
                add((*steps, member), row, inner)

    for row, record in enumerate(records):
        for name, value in record.items():
            add((name,), row, value)
    return columns


def _members(value: Value) -> Record:
    try:
        return values.opened(value) or {}
    except values.BadValue:
        return {}


def named(columns: Sequence[Column], names: Sequence[str]) -> list[Column]:
    """The columns with these names: those of the row itself before members of objects, then in the order of names."""
    ranks = {name: rank for rank, name in enumerate(names)}
    chosen = (column for column in columns if column.name in ranks and column.values)
    return sorted(chosen, key=lambda one: (len(one.steps), ranks[one.name]))
