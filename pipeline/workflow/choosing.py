"""Which mapping an export wants: recognised by its rows, or begun from a look at them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from pipeline.errors import UsageError
from pipeline.extract import blocks as read_blocks
from pipeline.extract import open_source
from pipeline.extract import rows as read_rows
from pipeline.mapping import load as load_mapping
from pipeline.mapping import recognise
from pipeline.schema import Part, Source
from pipeline.values import Record, raw

LOOKED_AT = 20
"""So many parts are looked at, and one row more of each."""
MOST_NAMED = 4
"""So many parts are named in an error."""


def guess_mapping(source: Source) -> str:
    """The mapping whose rows these look like. Two candidates are an error, never a guess."""
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


def _recognised(part: Part) -> list[set[str]]:
    """The mappings that know each of a part's first rows."""
    seen: list[set[str]] = []
    for block in read_blocks(part):
        for number, record in enumerate(read_rows(part, block, observe=False)):
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
    from pipeline.mapping.scaffold import Surveyed, SurveyedField
    from pipeline.mapping.scaffold import starting_mapping as scaffolded
    from pipeline.survey import survey

    source = open_source(sources, spool=spool)
    seen = survey(source)
    if seen.tool:
        return load_mapping(seen.tool).text
    record = _first_record(source)
    fields = tuple(
        SurveyedField(field.path, _usual_kind(field.types), field.null_rate, tuple(field.examples))
        for field in seen.fields
        if field.path in record
    )
    row = b",".join(msgspec.json.encode(name) + b":" + bytes(raw(value)) for name, value in record.items())
    return scaffolded(Surveyed("", fields, f"{{{row.decode()}}}"))


def _usual_kind(types: Mapping[str, int]) -> str:
    """The kind of most values, as people call it."""
    kinds = {kind: count for kind, count in types.items() if kind not in ("null", "blank")}
    return max(kinds, key=lambda kind: kinds[kind], default="null")


def _first_record(source: Source) -> Record:
    for part in source.parts:
        for block in read_blocks(part):
            for record in read_rows(part, block, observe=False):
                if isinstance(record, dict):
                    return record
    raise UsageError("no row of the export can be read", hint="look at it with: backcast survey")
