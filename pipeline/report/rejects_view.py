"""Rejected rows and refused events on a terminal: grouped by code, or one by one."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from pipeline.models import Reject
from pipeline.report.rejects import REFUSED, place_of, same_cause
from pipeline.report.tables import text
from pipeline.text import pluralize
from pipeline.validator.codes import meaning

NONE = "No row was rejected, and no event was refused."
DETAIL_CHARACTERS = 400
RECORD_CHARACTERS = 200


def show_groups(console: Console, rejects: Iterable[Reject], command: str) -> None:
    """Each code with its count, its meaning and the first row, the most frequent first; refused events by cause.

    `command` lists all of them.
    """
    groups: dict[tuple[str, str], tuple[Reject, int]] = {}
    for reject in rejects:
        group = reject.code, same_cause(reject.detail) if reject.code == REFUSED else ""
        first, count = groups.get(group, (reject, 0))
        groups[group] = first, count + 1
    if not groups:
        console.print(Text(NONE))
        return
    for first, count in sorted(groups.values(), key=lambda group: -group[1]):
        refused = first.code == REFUSED
        words = f": {meaning(first.code)}" if not refused and meaning(first.code) else ""
        title = pluralize(count, "refused event" if refused else "rejected row")
        console.print(Text.assemble((title, "bold"), f", {first.code}{words}"))
        _show(console, first, "for example ")
    console.print(Text("List all of them (or --format jsonl, csv):"))
    console.print(Text(f"  {command} --all", style="bold"), soft_wrap=True)


def show_each(console: Console, rejects: Iterable[Reject]) -> None:
    """Every rejected row and refused event."""
    empty = True
    for reject in rejects:
        empty = False
        console.print(text(reject.code, 80))
        _show(console, reject)
    if empty:
        console.print(Text(NONE))


def _show(console: Console, reject: Reject, before: str = "") -> None:
    """The place of a reject, why, and its row as it is in the export."""
    _indented(console, text(f"{before}{place_of(reject)}: {reject.detail}", DETAIL_CHARACTERS))
    if reject.record:
        _indented(console, text(reject.record, RECORD_CHARACTERS))


def _indented(console: Console, line: Text) -> None:
    """A text whose folded lines begin below its first."""
    console.print(Padding(line, (0, 0, 0, 2), expand=False))
