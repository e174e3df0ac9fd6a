"""Rejected rows and refused events on a terminal: grouped by code, or one by one.

What is piped is one line for each row, which is neither folded nor, with --all, cut.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from pipeline.models import Reject
from pipeline.plan.sealed.manifest import Example
from pipeline.report.rejects import REFUSED, place_of, same_cause
from pipeline.report.terminal.tables import text
from pipeline.text import ELLIPSIS, pluralize, printable
from pipeline.validator.codes import meaning

NONE = "No row was rejected, and no event was refused."
DETAIL_CHARACTERS = 400
RECORD_CHARACTERS = 200
PIPED_CHARACTERS = 10_000
"""Of a row that is the example of its code; --all has the whole row, which may be 64 MiB long."""


def show_groups(
    console: Console, rejects: Iterable[Reject], command: str, superseded: tuple[int, Example] | None = None
) -> None:
    """Each code with its count, its meaning and the first row, the most frequent first; refused events by cause.

    `command` lists all of them. `superseded` are the duplicates that differ from the event that is sent, and the first.
    """
    groups: dict[tuple[str, str], tuple[Reject, int]] = {}
    for reject in rejects:
        group = reject.code, same_cause(reject.detail) if reject.code == REFUSED else ""
        first, count = groups.get(group, (reject, 0))
        groups[group] = first, count + 1
    if not groups:
        console.print(Text(NONE))
    for first, count in sorted(groups.values(), key=lambda group: -group[1]):
        refused = first.code == REFUSED
        words = f": {meaning(first.code)}" if not refused and meaning(first.code) else ""
        title = pluralize(count, "refused event" if refused else "rejected row")
        _title(console, title, f"{first.code}{words}")
        _show(console, first, PIPED_CHARACTERS, "for example ")
    if superseded is not None:
        count, example = superseded
        _title(console, pluralize(count, "duplicate"), f"superseded: {meaning('superseded')}")
        place = f"{example.part}, row {example.row:,}"
        _indented(console, f"for example {place}: {example.detail}", DETAIL_CHARACTERS, PIPED_CHARACTERS)
    if groups:
        console.print(Text("List all rejected rows and refused events (or --format jsonl, csv):"), soft_wrap=True)
        console.print(Text(f"  {command} --all", style="bold"), soft_wrap=True)


def show_each(console: Console, rejects: Iterable[Reject]) -> None:
    """Every rejected row and refused event."""
    empty = True
    for reject in rejects:
        empty = False
        console.print(text(reject.code, 80))
        _show(console, reject, None)
    if empty:
        console.print(Text(NONE))


def _title(console: Console, title: str, words: str) -> None:
    console.print(Text.assemble((title, "bold"), f", {words}"), soft_wrap=not console.is_terminal)


def _show(console: Console, reject: Reject, piped: int | None, before: str = "") -> None:
    """The place of a reject, why, and its row as it is in the export; into a pipe, at most `piped` characters of it."""
    _indented(console, f"{before}{place_of(reject)}: {reject.detail}", DETAIL_CHARACTERS, None)
    if reject.record:
        _indented(console, reject.record, RECORD_CHARACTERS, piped)


def _indented(console: Console, line: str, limit: int, piped: int | None) -> None:
    """A text whose folded lines begin below its first; into a pipe, one line. What is cut is counted."""
    most = limit if console.is_terminal else piped
    missing = max(0, len(line) - most) if most is not None else 0
    shown = printable(line[: len(line) - missing], 8 * len(line) + 1)
    if missing:
        shown += f"{ELLIPSIS} (+{missing:,} characters)"
    if console.is_terminal:
        console.print(Padding(Text(shown, overflow="fold"), (0, 0, 0, 2), expand=False))
    else:
        console.print(Text(f"  {shown}"), soft_wrap=True)
