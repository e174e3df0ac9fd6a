"""The scope of a plan: a table in which a person says which event names are imported (`plan --scope FILE`).

Names are those of the old tool, as the mapping reads them. A row with a name that is out of scope is skipped
(`out_of_scope`) before its merges and updates are read. Every name of the export has to be in the table, so that a new
name is a decision of a person.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

from pipeline.errors import UsageError
from pipeline.extractors.small_table import read_table
from pipeline.text import printable

EVENT, KEEP = "event", "keep"
YES = frozenset(("yes", "y", "true", "1", "x", "ja", "j", "wahr", "oui", "vrai", "sí", "si", "sì", "vero", "sim"))
NO = frozenset(("no", "n", "false", "0", "nein", "falsch", "non", "faux", "falso", "não", "nao"))
_HINT = f"write it as: {EVENT},{KEEP} (then: Signed Up,yes); `backcast survey EXPORT --scope FILE` makes the table"
MOST_NAMED = 100


class ScopeUsage:
    """Which names of a scope no row has, and which names of rows it lacks: how many, and the first ones."""

    def __init__(self, scope: Mapping[str, bool]) -> None:
        self._scope = scope
        self.absent = dict.fromkeys(scope)
        self.unlisted = 0
        self.examples: list[str] = []

    def add(self, name: str, rows: int) -> None:
        """Add an event name as the mapping reads it."""
        self.absent.pop(name, None)
        if name not in self._scope:
            self.unlisted += 1
            if self.unlisted <= MOST_NAMED:
                self.examples.append(f"{printable(name, 200)} ({rows:,})")


def read_scope(path: str | PathLike[str]) -> dict[str, bool]:
    """Each event name of a table, and whether it is kept. Raises UsageError for a table without the columns or without
    a name, for two rows about one name, and for a cell that is neither yes nor no."""
    scope: dict[str, bool] = {}
    for place, row in read_table(path, _HINT):
        cells = {name.casefold(): cell for name, cell in row.items()}
        name = cells.get(EVENT, "")
        keep = cells.get(KEEP, "").strip().casefold()
        if not name or not (keep in YES or keep in NO):
            what = f"{KEEP!r} is neither yes nor no: {keep!r}" if name else f"there is no {EVENT!r}"
            raise UsageError(f"--scope: {place}: {what}", hint=_HINT)
        if name in scope:
            raise UsageError(f"--scope: {place}: {name!r} is listed twice", hint="keep one of the two rows")
        scope[name] = keep in YES
    if not scope:
        raise UsageError(f"--scope: {path} has no row", hint=_HINT)
    return scope
