"""Finds the mapping of an export: a shipped one that recognises its rows, or a starting mapping from a survey of
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as Map
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pipeline.errors import EmptyExport, UnreadableExport, UsageError
from pipeline.extractors import open_source
from pipeline.extractors.file_rules import ROWS, FileRules, refuse_unknown, refuse_unused, rules_set
from pipeline.extractors.formats.json import NO_PAGES
from pipeline.mapper import Mapping, recognise
from pipeline.mapper import load as load_mapping
from pipeline.mapper.program.references import found_in, references_of
from pipeline.mapper.registry import fits, is_lookup_file
from pipeline.models import Part, SealedOptions, Source
from pipeline.survey.tables import Table, largest_table, list_of_rows, records_of, rows_of, unique_columns
from pipeline.text import quoted
from pipeline.values import Record

if TYPE_CHECKING:
    from pipeline.survey.draft import Draft

MOST_PARTS = 20
"""How many parts of an export are read to recognise it."""
MOST_ROWS = 21
"""How many rows of each of these parts are read."""
MOST_PAGES = 3
"""How many rows of a part show whether they are pages."""
MOST_NAMED = 4
"""How many parts an error names."""
RECOGNISED_ROWS = 50
CHILD = "_dlt_parent_id"
"""The columns of a table that dlt makes from the items of a list (docs/know/exports.md#dlt-lists)."""
MOST_KEYS = 5
"""How many columns are compared over many rows."""
SAMPLE_ROWS = 200_000
"""How many rows are compared to find a key."""


def guess_mapping(source: Source) -> str:
    """The mapping that recognises these rows. Raises UsageError for several candidates, never guessing, and for none.

    Raises EmptyExport and UnreadableExport, too.
    """
    if not source.parts:
        raise no_rows(source.notes)
    parts = [part for part in source.parts if not is_lookup_file(part.path)] or source.parts
    rows = {part.path: [record for record, _ in records_of(part, MOST_ROWS)] for part in parts[:MOST_PARTS]}
    candidates = sorted(recognised_by(list(chain.from_iterable(rows.values()))))
    if len(candidates) == 1:
        return candidates[0]
    by_part = {path: sorted(recognised_by(records)) for path, records in rows.items() if records}
    if len({tuple(names) for names in by_part.values()}) > 1:
        children = {path for path, records in rows.items() if records and all(CHILD in record for record in records)}
        unknown = {path: "a child table of dlt's" if path in children else "no known tool" for path in by_part}
        tools = [f"{path} looks like {' or '.join(names) or unknown[path]}" for path, names in by_part.items()]
        hint = "plan each tool's files separately, each with its own -m MAPPING and -o DIR"
        if children:
            hint = "child tables have list items, not events: leave them out, or join them to their parent rows first"
        raise UsageError(f"the files of this export come from different tools: {_some(tools)}", hint=hint)
    reason = f"it could be any of {', '.join(candidates)}" if candidates else "it does not look like any known tool"
    raise UsageError(
        f"cannot tell which mapping this export needs: {reason}",
        hint="name it with -m MAPPING; `backcast mapping list` lists mappings, `backcast survey` shows the fields",
    )


def opened_pages(
    source: Source,
    paths: Sequence[str],
    spool: Path,
    rules: FileRules,
    mapping: Mapping | None = None,
    settings: Map[str, str] | None = None,
) -> Source:
    """The source with the items of a list as its rows, if its rows are pages with one list of objects; otherwise the
    source itself.

    A list that the operator or the mapping names takes precedence, and so does a mapping that recognises the pages. If
    `mapping` is given, pages are opened only if it recognises their items; a mapping that recognises nothing has to
    find what every event needs in the items, and nothing in the pages. Items that no mapping recognises are rows only
    if a page has nothing else but what says which page it is. `settings` are those of --set. Raises UsageError,
    UnreadableExport.
    """
    step = max(1, -(-len(source.parts) // MOST_PARTS))
    parts = source.parts[::step]
    if rules.rows or "-" in paths or not parts or any(part.format not in ("json", "jsonl") for part in parts):
        return source
    try:
        (name, beside), records = _pages_of(parts[0])
        if not name or any(_pages_of(part)[0][0] != name for part in parts[1:]):
            return source
        if any(fits(mapping, record) for record in records) if mapping else recognised_by(records):
            return source
        opened = open_source(paths, spool=spool, rules=replace(rules, rows=name))
        items = [record for record, _ in records_of(opened.parts[0], MOST_ROWS)]
    except UnreadableExport:  # the walk over the rows as they are has the better words for it
        return source
    if mapping is None:
        known = bool(recognised_by(items)) or not beside
    elif mapping.recognise:
        known = all(fits(mapping, record) for record in items)
    else:
        known = _reads_items(mapping, settings or {}, records, items)
    return opened if known else source


def _reads_items(mapping: Mapping, settings: Map[str, str], pages: Sequence[Record], items: Sequence[Record]) -> bool:
    """Whether a mapping finds each field that every event needs in most items, and none of its fields in a page."""
    references = references_of(mapping, SealedOptions(as_of=0, settings=settings))
    needed = {reference.slot for reference in references if reference.slot}
    if mapping.decoder is not None or any(found_in(references, mapping, page) for page in pages):
        return False
    slots = Counter(slot for item in items for slot in {one.slot for one in found_in(references, mapping, item)})
    return bool(needed) and all(2 * slots[slot] > len(items) for slot in needed)


def _pages_of(part: Part) -> tuple[tuple[str, tuple[str, ...]], list[Record]]:
    """The result of `list_of_rows` for the first rows of a part, and these rows."""
    records = [record for record, _ in records_of(part, MOST_PAGES)]
    return list_of_rows(Table("", (part,), tuple(records))) if records else ("", ()), records


def recognised_by(records: Sequence[Record]) -> list[str]:
    """The shipped mappings that recognise more than half of these rows, the most frequent first."""
    votes = Counter(name for record in records for name in recognise(record))
    return [name for name, count in votes.most_common() if 2 * count > len(records)]


def no_rows(notes: Iterable[tuple[str, str, str]]) -> EmptyExport:
    """The error for an export without a row; `notes` are (code, part, detail) from opening it."""
    empty = [f"{part}: {detail}" for code, part, detail in notes if code == "empty_file"]
    detail = f" ({_some(empty)})" if empty else ""
    return EmptyExport(
        f"the export has no rows{detail}",
        hint="check the path, and whether the export is complete; fetch it again if not",
    )


def _some(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - MOST_NAMED:,} more" if len(texts) > MOST_NAMED else ""
    return "; ".join(texts[:MOST_NAMED]) + more


class Starter:
    """Writes the starting mapping of an export; answers can settle the choices that it leaves open."""

    def __init__(self, sources: Sequence[str], spool: Path, settings: Map[str, str] = MappingProxyType({})) -> None:
        """Open an export according to `settings`, and read some of its rows. Raises UsageError, EmptyExport,
        UnreadableExport."""
        refuse_unknown(settings)
        rules = rules_set(settings)
        source = open_source(sources, spool=spool, rules=rules)
        refuse_unused(settings, source.parts)
        self.notices = [(note.code, note.where, note.detail) for note in source.notes]
        if not source.parts:
            raise no_rows(source.notes)
        table = largest_table(source)
        if table is None:
            if not any(True for part in source.parts for _ in islice(rows_of(part), 1)):
                raise no_rows(source.notes)
            survey = f"backcast survey {' '.join(map(quoted, sources))}"
            raise UsageError("no row of the export can be read", hint=f"to see why: {survey}")
        tools = recognised_by(table.records[:RECOGNISED_ROWS])
        self._pages = table
        """The table whose rows are pages, if the rows of the draft are the items of a list in them."""
        if not tools and (opened := _opened_pages(table, sources, spool, rules)) is not None:
            table = opened
            tools = recognised_by(table.records[:RECOGNISED_ROWS])
        self._table = table
        self._settings = settings
        self.tool = tools[0] if len(tools) == 1 else ""
        """The shipped mapping that recognises the rows, or ""."""
        names = [] if self.tool else _names_of_keys(table.records)
        self._unique = unique_columns(table.parts, names[:MOST_KEYS], SAMPLE_ROWS)

    def draft(self, answers: Map[str, str] | None = None) -> Draft:
        """The starting mapping, with answers to some of its choices; for a known tool, the shipped mapping."""
        from pipeline.survey.draft import Draft, draft_mapping

        if self.tool:
            return Draft(load_mapping(self.tool).text, (), {})
        pages = (answers or {}).get(ROWS) == NO_PAGES
        table, unique = (self._pages, {}) if pages else (self._table, self._unique)
        return draft_mapping(table, unique, answers, self._settings)


def _names_of_keys(records: Sequence[Record]) -> list[str]:
    from pipeline.survey.columns import columns_of
    from pipeline.survey.roles.ids import keys_in

    keys = keys_in(columns_of(records).values())
    keys.sort(key=lambda column: len(column.texts) < len(column.values))
    return list(dict.fromkeys(column.steps[0] for column in keys))


def _opened_pages(table: Table, sources: Sequence[str], spool: Path, rules: FileRules) -> Table | None:
    """The items of the list in pages that are one line each, as a table; None if rows are not pages."""
    name, beside = list_of_rows(table)
    if not name or rules.rows:
        return None
    paths = [str(spool / "stdin") if source == "-" else source for source in sources]
    try:
        opened = largest_table(open_source(paths, spool=spool, rules=replace(rules, rows=name)))
    except UnreadableExport:  # other files of the export are not such pages
        return None
    return None if opened is None else replace(opened, rows=name, beside=beside)
