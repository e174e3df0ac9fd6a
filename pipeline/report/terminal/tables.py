"""Texts, numbers and tables for a terminal.

Text of an export goes through `text`, never through rich's markup: a name such as `[red]` stays a name, and an
escape sequence is shown, not obeyed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeline.models import Reject
from pipeline.plan.sealed.manifest import Example
from pipeline.text import pluralize, printable
from pipeline.validator.codes import meaning

MOST_CODES = 5
MEANING_CHARACTERS = 400


def text(value: str, limit: int) -> Text:
    """Text of an export: printable, cut, without markup."""
    return Text(printable(value, limit), overflow="fold")


def number(count: int) -> str:
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


Cell = str | int | Text


def show_table(
    console: Console, columns: Mapping[str, int], rows: Iterable[Sequence[Cell]], most: int | None = None
) -> None:
    """Rows below their columns, each with the most characters of its cells; numbers as people read them.

    Nothing if there are no rows. If there are more than `most`, the others are counted.
    """
    every = list(rows)
    if not every:
        return
    shown = table(*columns)
    for row in every[:most]:
        cells = zip(row, columns.values(), strict=True)
        shown.add_row(*(text(one, limit) if isinstance(one, str) else _cell(one) for one, limit in cells))
    console.print(shown)
    show_more(console, len(every) - len(every[:most]))


def show_more(console: Console, count: int, noun: str = "") -> None:
    """How many are not shown; nothing if all are."""
    if count:
        console.print(Text(pluralize(count, f"more {noun}") if noun else f"{count:,} more", style="dim"))


def _cell(value: int | Text) -> str | Text:
    return number(value) if isinstance(value, int) else value


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


def show_counts(console: Console, title: str, counts: Mapping[str, int], most: int) -> None:
    """Names with their counts of rows, as `bounded` cuts them; nothing if there are none."""
    top = bounded(counts, most)
    others = [(Text(top.more, style="dim"), top.other_count)] if top.more else []
    show_table(console, {title: 120, "#rows": 0}, [*top.shown, *others])


def show_codes(
    console: Console, title: str, counts: Mapping[str, int], examples: Mapping[str, Example | Reject]
) -> None:
    """The most frequent codes with their counts, meanings and the place of an example; nothing if there are none."""
    codes = sorted(counts.items(), key=lambda item: -item[1])
    rows: list[Sequence[Cell]] = []
    for code, count in codes[:MOST_CODES]:
        example = examples.get(code)
        place = f" ({example.part}, row {example.row:,}: {example.detail})" if example else ""
        rows.append((count, code, f"{meaning(code)}{place}"))
    if others := codes[MOST_CODES:]:
        rows.append((sum(count for _, count in others), f"{len(others):,} more", ""))
    show_table(console, {f"#{title}": 0, "code": 80, "what it means": MEANING_CHARACTERS}, rows)


def codes_in_line(title: str, counts: Mapping[str, int]) -> str:
    """The same without what the codes mean, or ""."""
    codes = sorted(counts.items(), key=lambda item: -item[1])
    listed = [f"{count:,} {printable(code, 80)}" for code, count in codes[:MOST_CODES]]
    others = [f"{len(codes) - MOST_CODES:,} more codes"] if len(codes) > MOST_CODES else []
    return f"{title}: {', '.join(listed + others)}" if codes else ""


def show_notices(console: Console, notices: Sequence[tuple[str, str, str]], most: int = 20) -> None:
    """The notices of reading an export, one on a line."""
    for code, where, detail in notices[:most]:
        console.print(Text.assemble((f"{printable(code, 80)}: ", "yellow"), printable(f"{where}: {detail}", 400)))
    if len(notices) > most:
        console.print(Text(pluralize(len(notices) - most, "more notice"), style="dim"))
