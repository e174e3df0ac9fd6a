"""What counts as missing in a row (`blanks` of a mapping), in addition to the blank cells that a reader leaves out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from msgspec import Raw

from pipeline.mapper.codegen.runtime import literals, text_of
from pipeline.mapper.language.sections import Mapping
from pipeline.mapper.program import expressions
from pipeline.mapper.program.operations import LeaveOutBlanks
from pipeline.values import BadValue, Record, Value

_BACKSLASH = ord("\\")


class BlankRemover:
    """Removes the members of a row that count as missing. It looks only at `names`, or at all members if that is empty.

    `json` are such strings in JSON values, `cells` in cells of CSV, Parquet and Avro.
    """

    def __init__(self, json: Iterable[str], cells: Iterable[str], names: Collection[str]) -> None:
        self._json, self._cells, self._names = frozenset(json), frozenset(cells), names
        self._literals = literals(self._json)

    def __call__(self, row: Record) -> None:
        cells, literals = self._cells, self._literals
        for name in self._names or list(row):
            value = row.get(name)
            kind: type = value.__class__
            if kind is str:
                if value in cells:
                    del row[name]
            elif kind is Raw:
                json = bytes(value)  # type: ignore[arg-type]
                if json in literals or (_BACKSLASH in json and _text(value) in self._json):
                    del row[name]
            elif value is not None and kind is not dict and _text(value) in cells:  # the reader opens objects to a dict
                del row[name]


def _text(value: Value) -> str | None:
    try:
        return text_of(value)
    except BadValue:
        return None


def leave_out_blanks(mapping: Mapping) -> LeaveOutBlanks | None:
    """The step that leaves out the blanks of a mapping; None if it needs none."""
    blanks = mapping.blanks
    json = (*blanks.texts, *([""] if blanks.json == "missing" else []))
    cells = (*blanks.texts, *([""] if blanks.parquet == "missing" else []))
    return LeaveOutBlanks(json, cells, blanks.within) if json or cells else None


def blanks_of_opened(mapping: Mapping, source: expressions.Value | None) -> tuple[str, ...]:
    """The strings that are missing in the column with the properties, which is opened before the row's blanks are left
    out."""
    if not isinstance(source, expressions.Column) or source.name not in (mapping.blanks.within or (source.name,)):
        return ()
    return mapping.blanks.texts


def blank_remover(mapping: Mapping) -> Callable[[Record], None] | None:
    """A function that removes a row's blanks as the mapper does, or None."""
    step = leave_out_blanks(mapping)
    return None if step is None else BlankRemover(step.json, step.cells, step.names)
