"""Which mapping an export wants: recognised by its rows, or begun from a look at them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
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

LOOKED_AT = 20
"""So many parts are looked at, and one row more of each."""
_LOOK_BYTES = 256 * 1024
MOST_NAMED = 4
"""So many parts are named in an error."""


def guess_mapping(source: Source) -> str:
    """The mapping whose rows these look like. Two candidates are an error, never a guess; so is an empty export."""
    if not source.parts:
        raise no_rows(source.notes)
    seen = {part.path: _recognised(part) for part in source.parts[:LOOKED_AT]}
    candidates = _likely([names for rows in seen.values() for names in rows])
    if len(candidates) == 1:
        return candidates[0]
    by_part = {path: _likely(rows) for path, rows in seen.items() if rows}
    if len({tuple(names) for names in by_part.values()}) > 1:
        told = [f"{path} looks like {' or '.join(names) or 'none we know'}" for path, names in by_part.items()]
        more = f"; and {len(told) - MOST_NAMED:,} more" if len(told) > MOST_NAMED else ""
        raise UsageError(
            f"the files of this export are not of one tool: {'; '.join(told[:MOST_NAMED])}{more}",
            hint="plan them one by one, each with its own -m MAPPING and -o DIR",
        )
    found = f"it could be any of {', '.join(candidates)}" if candidates else "it looks like none we know"
    raise UsageError(
        f"the mapping of this export is not plain: {found}",
        hint="name it with -m MAPPING; `backcast mapping list` shows them, `backcast survey` the fields",
    )


def no_rows(notes: Iterable[tuple[str, str, str]]) -> EmptyExport:
    """The error for an export without a row; `notes` are what was noticed while it was opened."""
    empty = [f"{where}: {detail}" for code, where, detail in notes if code == "empty_file"]
    more = f"; and {len(empty) - MOST_NAMED:,} more" if len(empty) > MOST_NAMED else ""
    seen = f" ({'; '.join(empty[:MOST_NAMED])}{more})" if empty else ""
    hint = "check what was exported, fetch it again, or name another"
    return EmptyExport(f"the export holds no row{seen}", hint=hint)


def _recognised(part: Part) -> list[set[str]]:
    """The mappings that know each of a part's first rows."""
    seen: list[set[str]] = []
    for block in read_blocks(part):
        for number, record in enumerate(read_rows(part, block, observe=False, blanks=True)):
            if isinstance(record, dict):
                seen.append(set(recognise(record)))
            if number >= LOOKED_AT:
                break
        break
    return seen


def _likely(rows: Sequence[set[str]]) -> list[str]:
    """The mappings that know more than half of some rows, by name."""
    counts = Counter(name for names in rows for name in names)
    return sorted(name for name, count in counts.items() if count * 2 > len(rows))


def starting_mapping(sources: Sequence[str], spool: Path) -> str:
    """The text of a mapping to begin with: the shipped one of a known tool, else one made from a look at the rows.

    Raises UsageError where no column can be the event, the person or the time; UnreadableExport.
    """
    from pipeline.mapper.scaffold import KEYS, Surveyed, SurveyedField
    from pipeline.mapper.scaffold import starting_mapping as scaffolded
    from pipeline.survey import survey

    source = open_source(sources, spool=spool)
    seen = survey(source)
    if not seen.rows:
        raise no_rows(seen.notices)
    if seen.tool:
        return load_mapping(seen.tool).text
    part, record = _first_record(source)
    unique = _unique(source, [name for name in record if name.lower() in KEYS])
    fields = tuple(
        SurveyedField(one.path, _usual_kind(one.types), one.null_rate, tuple(one.examples), unique.get(one.path, 0))
        for one in seen.fields
        if one.path in record
    )
    row = b",".join(msgspec.json.encode(name) + b":" + bytes(raw(value)) for name, value in record.items())
    form = "csv" if part.dialect.header else "json"
    return scaffolded(Surveyed("", fields, f"{{{row.decode()}}}", form))


def _unique(source: Source, names: Sequence[str]) -> dict[str, int]:
    """The columns of which no value stands in two different rows of those looked at, with how many rows have one.

    As many rows are looked at as by a survey, shared fairly among the parts. Copies of a row are one row.
    """
    from pipeline.survey import SAMPLE_ROWS

    seen: dict[str, dict[int, int]] = {name: {} for name in names}
    left = SAMPLE_ROWS
    for number, part in enumerate(source.parts if names else ()):
        share = max(1, left // (len(source.parts) - number))
        for whole, record in islice(_records_of(part), share):
            left -= 1
            for name in list(seen):
                value = text(record.get(name))
                if value and seen[name].setdefault(hash(value), whole) != whole:
                    del seen[name]
    return {name: len(values) for name, values in seen.items()}


def _records_of(part: Part) -> Iterator[tuple[int, Record]]:
    """Each row of a part that can be read, with a hash of it as it stands."""
    for block in read_blocks(part, block_bytes=_LOOK_BYTES):
        rows = read_rows(part, block, observe=False)
        for number, record in enumerate(rows):
            if isinstance(record, dict):
                yield hash(rows.text(number)), record


def _usual_kind(types: Mapping[str, int]) -> str:
    """The kind of most values, as people call it."""
    kinds = {kind: count for kind, count in types.items() if kind not in ("null", "blank")}
    return max(kinds, key=lambda kind: kinds[kind], default="null")


def _first_record(source: Source) -> tuple[Part, Record]:
    """The first row that can be read, with all of its columns, and the part that it stands in."""
    for part in source.parts:
        for block in read_blocks(part):
            for record in read_rows(part, block, observe=False, blanks=True):
                if isinstance(record, dict):
                    return part, record
    raise UsageError("no row of the export can be read", hint="look at it with: backcast survey")
