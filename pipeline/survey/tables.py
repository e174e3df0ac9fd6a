"""The tables of an export: files whose rows have the same columns, with some rows of the largest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from msgspec import Raw

from pipeline import values
from pipeline.errors import UnreadableExport
from pipeline.extractors import blocks as read_blocks
from pipeline.extractors import rows as read_rows
from pipeline.extractors.header import UNSURE_ESCAPES
from pipeline.extractors.rows import Rows
from pipeline.models import BrokenRow, Part, Source
from pipeline.values import Record, Value, text

MOST_ROWS = 2_000
"""How many rows of the table are kept to find its fields."""
MOST_PARTS = 60
"""The columns of this many files are compared."""
HEAD_ROWS = 20
SIMILAR = 0.6
"""The share of columns that two files of one table have in common."""
_PAGING = re.compile(
    r"^(?:object|url|status|success|ok|links|_links|meta|metadata|paging|pagination|included|limit|offset|per_page"
    r"|(?:has|is)_?more|end_of_stream|(?:start|end|since|until|from|to)(?:_?(?:time|date|at))?"
    r"|.*(?:next|prev|cursor|count|total|page).*)$",
    re.IGNORECASE,
)
"""Members of a page that say which of the pages it is, or which time span it covers."""
_BLOCK_BYTES = 256 * 1024
_ENDINGS = re.compile(r"(?:\.[A-Za-z][A-Za-z0-9]{0,8})+$")
_NUMBERING = re.compile(
    r"(?:[-_. ]*(?:part|run|page|chunk)?[-_. #=]*\d[\d\-_:T.]*Z?|[-_.][0-9a-f]{8}-[0-9a-f-]{20,})+$"
)
_NOT_A_NAME = re.compile(r"|data|exports?|stdin|dump|out|output|file|rows|part(?:[-_]?\d.*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Table:
    """Some rows of one table. `others` are the names of the export's other tables, with the number of files of each.

    If each file is a page on one line, `rows` is the list that has the rows, and `beside` names the page's other
    members, except those that say which page it is. `unsure`: a file's backslashes may be escapes or literal.
    """

    name: str
    parts: tuple[Part, ...]
    records: tuple[Record, ...]
    others: tuple[tuple[str, int], ...] = ()
    rows: str = ""
    beside: tuple[str, ...] = ()
    unsure: bool = False

    @property
    def form(self) -> str:
        """The format of its rows in the cases of a mapping: csv or json."""
        return "csv" if self.parts and self.parts[0].format == "csv" else "json"

    @property
    def headless(self) -> bool:
        """Whether its columns have no names."""
        return bool(self.parts) and self.parts[0].dialect.headless is True


def largest_table(source: Source) -> Table | None:
    """The table with the most bytes; None if no row can be read. Raises UnreadableExport if no file can be read."""
    groups: list[tuple[set[str], list[Part]]] = []
    problem: UnreadableExport | None = None
    step = max(1, -(-len(source.parts) // MOST_PARTS))
    for part in source.parts[::step]:
        try:
            records = [record for record, _ in records_of(part, HEAD_ROWS)]
        except UnreadableExport as error:
            problem = error
            continue
        if not records:
            continue
        names = {name for record in records for name in record}
        for known, parts in groups:
            if len(known & names) >= SIMILAR * len(known | names):
                known |= names
                parts.append(part)
                break
        else:
            groups.append((names, [part]))
    if not groups:
        if problem is not None:
            raise problem
        return None
    groups.sort(key=lambda group: -sum(source.sizes[part.index] for part in group[1]))
    parts = groups[0][1]
    share = max(HEAD_ROWS, MOST_ROWS // len(parts))
    kept = [record for part in parts for record in _readable(part, share)][:MOST_ROWS]
    others = tuple((table_name([part.path for part in group]), len(group)) for _, group in groups[1:])
    paths = [part.path for part in parts]
    unsure = any(note.code == UNSURE_ESCAPES and note.where in paths for note in source.notes)
    return Table(table_name(paths), tuple(parts), tuple(kept), others, unsure=unsure)


def list_of_rows(table: Table) -> tuple[str, tuple[str, ...]]:
    """The list of objects that is more than half of each row, with the row's other members; "" if rows are not pages.

    Members that say which page it is, such as `has_more`, are left out. Rows that have other members as well are pages
    only if a file has one or two of them: a person's row may have a list, too.
    """
    if any(part.format not in ("json", "jsonl") for part in table.parts):
        return "", ()
    found: set[str] = set()
    beside: dict[str, None] = {}
    for record in table.records:
        lengths = {name: len(bytes(values.raw(value))) for name, value in record.items()}
        name = max(lengths, key=lambda one: lengths[one], default="")
        if 2 * lengths.get(name, 0) <= sum(lengths.values()) or not _is_list_of_objects(record[name]):
            return "", ()
        found.add(name)
        beside |= dict.fromkeys(member for member in record if member != name and not _PAGING.search(member))
    if len(found) != 1 or (beside and len(table.records) > 2 * len(table.parts)):
        return "", ()
    return found.pop(), tuple(beside)


def _is_list_of_objects(value: Value) -> bool:
    items = values.items(value) or []
    return bool(items) and all(bytes(item)[:1] == b"{" for item in items if isinstance(item, Raw))


def _readable(part: Part, most: int) -> list[Record]:
    records = []
    try:
        for record, _ in records_of(part, most):
            records.append(record)  # one by one: rows before an error count
    except UnreadableExport:
        pass
    return records


def table_name(paths: Sequence[str]) -> str:
    """What the files are called, without endings, dates and numbers, or the folder they are in, unless that is a value
    of a column (`key=value`); "" if there is no such name."""
    names: Counter[str] = Counter()
    for path in paths:
        *folders, file = re.split(r"[/!]", path)
        named = (file, *(folder for folder in reversed(folders) if "=" not in folder))
        steps = (_NUMBERING.sub("", _ENDINGS.sub("", step)) for step in named)
        names[next((one for one in steps if not _NOT_A_NAME.fullmatch(one)), "")] += 1
    return names.most_common(1)[0][0] if names else ""


def rows_of(part: Part) -> Iterator[tuple[Rows, int, Record | BrokenRow]]:
    """The rows of a part, including unreadable ones, each with its block's rows and its number among them."""
    for block in read_blocks(part, block_bytes=_BLOCK_BYTES):
        rows = read_rows(part, block, observe=False, blanks=True)
        for number, record in enumerate(rows):
            yield rows, number, record


def records_of(part: Part, most: int | None = None) -> Iterator[tuple[Record, int]]:
    """The records among the first `most` rows of a part (None: all rows), each with a hash of its text."""
    for rows, number, record in islice(rows_of(part), most):
        if isinstance(record, dict):
            yield record, hash(rows.text(number))


def unique_columns(parts: Sequence[Part], names: Sequence[str], most: int) -> dict[str, int]:
    """The columns without a value that occurs in two different rows, and how many rows have a value in each.

    At most `most` rows are read, shared fairly among the parts. Copies of a row are one row.
    """
    rows_by_value: dict[str, dict[int, int]] = {name: {} for name in names}
    unread = most
    for number, part in enumerate(parts if names else ()):
        share = max(1, unread // (len(parts) - number))
        try:
            for record, row in records_of(part, share):
                unread -= 1
                for name in list(rows_by_value):
                    value = text(record.get(name))
                    if value and rows_by_value[name].setdefault(hash(value), row) != row:
                        del rows_by_value[name]
        except UnreadableExport:
            continue
    return {name: len(rows) for name, rows in rows_by_value.items()}
