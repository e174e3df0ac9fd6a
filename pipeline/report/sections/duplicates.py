"""Duplicates that are left out: by code, and by the file that they are in."""

from __future__ import annotations

from pipeline.report.contents import DUPLICATES, Report
from pipeline.report.registry import Values, on_page

MOST_FILES = 20


@on_page(58, "duplicates")
def duplicates(report: Report) -> Values:
    """The codes with their counts, and the files with most; nothing without duplicates."""
    codes = [row for row in report.skips if row.code in DUPLICATES]
    if not codes:
        return None
    empty = {part.path for part in report.plan.parts if not part.mapped}
    return {
        "codes": codes,
        "whole": [one for one in report.copies if one.path in empty][:MOST_FILES],
        "files": report.copies[:MOST_FILES],
        "more": len(report.copies[MOST_FILES:]),
        "names": [row.code for row in codes],
    }
