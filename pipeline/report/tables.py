"""Texts, numbers and tables for a terminal.

Text of an export goes through `text`, never through rich's markup: a name such as `[red]` stays a name, and an
escape sequence is shown, not obeyed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeline.text import printable


def text(value: str, limit: int) -> Text:
    """Text of an export: printable, cut, without markup."""
    return Text(printable(value, limit), overflow="fold")


def number(count: int) -> str:
    """A count as people read it."""
    return f"{count:,}"


def heading(console: Console, title: str, subtitle: str) -> None:
    """The first line of a result."""
    console.print(Text.assemble((title, "bold"), "  ", (printable(subtitle, 400), "dim")))


def table(*columns: str) -> Table:
    """A plain table; a column whose name starts with # has numbers. Cells fold on a narrow terminal."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        if name.startswith("#"):
            shown.add_column(name[1:], justify="right", no_wrap=True)
        else:
            shown.add_column(name, overflow="fold")
    return shown


def show_counts(console: Console, title: str, unit: str, counts: Mapping[str, int], most: int) -> None:
    """Names with their counts, the first `most` of them, and the sum of the others."""
    if not counts:
        return
    shown = table(title, f"#{unit}")
    for name, count in list(counts.items())[:most]:
        shown.add_row(text(name, 120), number(count))
    others = list(counts.values())[most:]
    if others:
        shown.add_row(Text(f"{len(others):,} others", style="dim"), number(sum(others)))
    console.print(shown)


def show_notices(console: Console, notices: Sequence[tuple[str, str, str]], most: int = 20) -> None:
    """The notices of reading an export, one on a line."""
    for code, where, detail in notices[:most]:
        console.print(Text.assemble((f"{printable(code, 80)}: ", "yellow"), printable(f"{where}: {detail}", 400)))
    if len(notices) > most:
        console.print(Text(f"{len(notices) - most:,} more notices", style="dim"))
