"""The mapping of an export: a shipped one that recognises its rows, or a starting mapping from a survey of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path

import msgspec

from pipeline.errors import EmptyExport, UsageError
from pipeline.extractors import blocks as read_blocks
from pipeline.extractors import open_source
from pipeline.extractors import rows as read_rows
from pipeline.mapper import load as load_mapping
from pipeline.mapper import recognise
from pipeline.models import Part, Source
from pipeline.values import Record, raw, text

MOST_PARTS = 20
"""How many parts of an export are read to recognise it."""
MOST_ROWS = 21
"""How many rows of each of these parts are read."""
MOST_NAMED = 4
"""How many parts an error names."""
_BLOCK_BYTES = 256 * 1024


def guess_mapping(source: Source) -> str:
    """The mapping that recognises these rows. Several candidates are a UsageError, never a guess; so is no candidate.

    Raises EmptyExport, UnreadableExport.
    """
    if not source.parts:
        raise no_rows(source.notes)
    rows = {part.path: [record for record, _ in _records(part, MOST_ROWS)] for part in source.parts[:MOST_PARTS]}
    candidates = sorted(recognised_by(list(chain.from_iterable(rows.values()))))
    if len(candidates) == 1:
        return candidates[0]
    by_part = {path: sorted(recognised_by(records)) for path, records in rows.items() if records}
    if len({tuple(names) for names in by_part.values()}) > 1:
        tools = [f"{path} looks like {' or '.join(names) or 'no known tool'}" for path, names in by_part.items()]
        raise UsageError(
            f"the files of this export are not of one tool: {_some(tools)}",
            hint="plan them one by one, each with its own -m MAPPING and -o DIR",
        )
    reason = f"it could be any of {', '.join(candidates)}" if candidates else "it looks like no known tool"
    raise UsageError(
        f"cannot tell which mapping this export needs: {reason}",
        hint="name it with -m MAPPING; `backcast mapping list` shows them, `backcast survey` the fields",
    )


def recognised_by(records: Sequence[Record]) -> list[str]:
    """The shipped mappings that recognise more than half of these rows, the most frequent first."""
    votes = Counter(name for record in records for name in recognise(record))
    return [name for name, count in votes.most_common() if 2 * count > len(records)]


def no_rows(notes: Iterable[tuple[str, str, str]]) -> EmptyExport:
    """The error for an export without a row; `notes` are (code, part, detail) from opening it."""
    empty = [f"{part}: {detail}" for code, part, detail in notes if code == "empty_file"]
    detail = f" ({_some(empty)})" if empty else ""
    return EmptyExport(
        f"the export has no row{detail}", hint="check what was exported, fetch it again, or name another"
    )


def _some(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - MOST_NAMED:,} more" if len(texts) > MOST_NAMED else ""
    return "; ".join(texts[:MOST_NAMED]) + more


def _records(part: Part, most: int | None = None) -> Iterator[tuple[Record, int]]:
    """The records among the first `most` rows of a part, each with a hash of its text; without a number, all."""
    numbered = (
        (rows, number, record)
        for block in read_blocks(part, block_bytes=_BLOCK_BYTES)
        for rows in [read_rows(part, block, observe=False, blanks=True)]
        for number, record in enumerate(rows)
    )
    for rows, number, record in islice(numbered, most):
        if isinstance(record, dict):
            yield record, hash(rows.text(number))


def starting_mapping(sources: Sequence[str], spool: Path) -> str:
    """The text of a starting mapping: the shipped one of a known tool, else one built from the columns of the rows.

    Raises UsageError where no column can be the event, the person or the time; EmptyExport, UnreadableExport.
    """
    from pipeline.mapper.scaffold import KEYS, Surveyed, SurveyedField
    from pipeline.mapper.scaffold import starting_mapping as scaffolded
    from pipeline.survey import survey

    source = open_source(sources, spool=spool)
    surveyed = survey(source)
    if not surveyed.rows:
        raise no_rows(surveyed.notices)
    if surveyed.tool:
        return load_mapping(surveyed.tool).text
    first = next(((part, record) for part in source.parts for record, _ in _records(part)), None)
    if first is None:
        raise UsageError("no row of the export can be read", hint="see why with: backcast survey")
    part, record = first
    unique = _unique(source, [name for name in record if name.lower() in KEYS])
    fields = tuple(
        SurveyedField(
            field.path, _main_kind(field.types), field.null_rate, tuple(field.examples), unique.get(field.path, 0)
        )
        for field in surveyed.fields
        if field.path in record
    )
    row = b",".join(msgspec.json.encode(name) + b":" + bytes(raw(value)) for name, value in record.items())
    form = "csv" if part.dialect.header else "json"
    return scaffolded(Surveyed("", fields, f"{{{row.decode()}}}", form))


def _unique(source: Source, names: Sequence[str]) -> dict[str, int]:
    """The columns of which no value is in two different rows, with how many rows have a value.

    As many rows are read as by a survey, shared fairly among the parts. Copies of a row are one row.
    """
    from pipeline.survey import SAMPLE_ROWS

    rows_by_value: dict[str, dict[int, int]] = {name: {} for name in names}
    unread = SAMPLE_ROWS
    for number, part in enumerate(source.parts if names else ()):
        share = max(1, unread // (len(source.parts) - number))
        for record, row in _records(part, share):
            unread -= 1
            for name in list(rows_by_value):
                value = text(record.get(name))
                if value and rows_by_value[name].setdefault(hash(value), row) != row:
                    del rows_by_value[name]
    return {name: len(rows) for name, rows in rows_by_value.items()}


def _main_kind(types: Mapping[str, int]) -> str:
    """The kind of most values that are not empty."""
    kinds = {kind: count for kind, count in types.items() if kind not in ("null", "blank")}
    return max(kinds, key=lambda kind: kinds[kind], default="null")
