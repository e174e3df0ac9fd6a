"""Why rows were rejected: a bar for each code, on the first screen of the page."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.charts.bars import bar
from pipeline.report.contents import Report
from pipeline.report.registry import Values, on_first_screen

MOST_REASONS = 10


class RejectBar(NamedTuple):
    """Why rows were rejected."""

    reason: str
    code: str
    rows: int
    picture: str


@on_first_screen(10, "reasons")
def reasons(report: Report) -> Values:
    """The most frequent codes in words; nothing where no row was rejected, which the totals say."""
    if not report.rejects:
        return None
    most = max(row.count for row in report.rejects)
    bars = [
        RejectBar(row.meaning or row.code, row.code, row.count, bar(row.count, most))
        for row in report.rejects[:MOST_REASONS]
    ]
    return {"bars": bars, "more": len(report.rejects[MOST_REASONS:])}
