"""What was read: rows by part, and whether they balance."""

from __future__ import annotations

from pipeline.charts.calendar import calendar
from pipeline.extractors import describe
from pipeline.plan.file_dates import files_of_days
from pipeline.report.contents import Report
from pipeline.report.registry import Values, on_page

MOST_ON_PAGE = 120
"""Files listed one by one; the others are in plan.json."""


@on_page(30, "rows")
def rows(report: Report) -> Values:
    """The balance of the rows, and the counts of each part."""
    parts = report.plan.parts
    return {
        "parts": [(part, describe(part.part(index))) for index, part in enumerate(parts[:MOST_ON_PAGE])],
        "parts_left_out": max(0, len(parts) - MOST_ON_PAGE),
        "has_tables": any(part.table for part in parts),
        "calendar": calendar(files_of_days([part.path for part in parts]), "file", "files"),
    }
