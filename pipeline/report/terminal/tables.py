"""Texts, numbers and tables for a terminal.

Text of an export goes through `text`, never through rich's markup: a name such as `[red]` stays a name, and an
escape sequence is shown, not obeyed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeline.models import Reject
from pipeline.plan.sealed.manifest import Example
from pipeline.text import printable
from pipeline.validator.codes import meaning

MOST_CODES = 5
MEANING_CHARACTERS = 400


def text(value: str, limit: int) -> Text:
    """Text of an export: printable, cut, without markup."""
    return Text(printable(value, limit), overflow="fold")


def number(count: int) -> str:
    """A count as people read it."""
    return f"{count:,}"


def table(*columns: str) -> Table:
    """A plain table; a column whose name starts with # has numbers. Cells fold on a narrow terminal."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        if name.startswith("#"):
            shown.add_column(name[1:], justify="right", no_wrap=True)
        else:
            shown.add_column(name, overflow="fold")
    return shown


class TopCounts(NamedTuple):
    """The first names of many with their counts; `more` says how many others there are, `other_count` is their sum."""

    shown: list[tuple[str, int]]
    more: str
    other_count: int


def bounded(counts: Mapping[str, int], most: int, total: int | None = None) -> TopCounts:
    """The first `most` of the counts, in their order. `total` is the sum of all names where `counts` lacks some."""
    every = list(counts.items())
    others, counted = every[most:], sum(counts.values())
    total = counted if total is None else max(counted, total)
    more = f"and {len(others):,} more" if total == counted else f"and more than {len(others):,} more"
    other_count = total - sum(count for _, count in every[:most])
    return TopCounts(every[:most], more if other_count else "", other_count)


def show_counts(
    console: Console, title: str, unit: str, counts: Mapping[str, int], most: int, total: int | None = None
) -> None:
    """Names with their counts, as `bounded` cuts them; nothing where there are none."""
    if not counts:
        return
    shown, top = table(title, f"#{unit}"), bounded(counts, most, total)
    for name, count in top.shown:
        shown.add_row(text(name, 120), number(count))
    if top.more:
        shown.add_row(Text(top.more, style="dim"), number(top.other_count))
    console.print(shown)


def show_codes(
    console: Console,
    title: str,
    counts: Mapping[str, int],
    examples: Mapping[str, Example | Reject] = MappingProxyType({}),
) -> None:
    """The most frequent codes with their counts, meanings and the place of an example; nothing where there are none."""
    if not counts:
        return
    shown = table(f"#{title}", "code", "what it means")
    codes = sorted(counts.items(), key=lambda item: -item[1])
    for code, count in codes[:MOST_CODES]:
        example = examples.get(code)
        place = f" ({example.part}, row {example.row:,}: {example.detail})" if example else ""
        shown.add_row(number(count), text(code, 80), text(f"{meaning(code)}{place}", MEANING_CHARACTERS))
    if others := codes[MOST_CODES:]:
        shown.add_row(number(sum(count for _, count in others)), f"{len(others):,} more", "")
    console.print(shown)


def show_notices(console: Console, notices: Sequence[tuple[str, str, str]], most: int = 20) -> None:
    """The notices of reading an export, one on a line."""
    for code, where, detail in notices[:most]:
        console.print(Text.assemble((f"{printable(code, 80)}: ", "yellow"), printable(f"{where}: {detail}", 400)))
    if len(notices) > most:
        console.print(Text(f"{len(notices) - most:,} more notices", style="dim"))
