"""`--report csv=FILE`: checks and counts, one a line, for a spreadsheet or a script.

Texts that a spreadsheet would run as a formula have an apostrophe before them, as in `rejects --format csv`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

from pipeline.report.check_files import check_file
from pipeline.report.check_files.checked import Checked, Place
from pipeline.report.contents import code_counts, phases_of
from pipeline.report.rejects import write_csv

COLUMNS = ("kind", "name", "level", "count", "file", "row", "detail", "remedy")
Line = tuple[str | int, ...]


@check_file("csv", begins=(b'"kind","name","level"',))
def csv(checked: Checked) -> bytes:
    """The file as UTF-8."""
    file = io.StringIO()
    write_csv(file, COLUMNS, _lines(checked))
    return file.getvalue().encode("utf-8", "backslashreplace")


def _lines(checked: Checked) -> Iterator[Line]:
    plan = checked.plan
    counts = {f"rows.{name}": getattr(plan.rows, name) for name in plan.rows.__struct_fields__}
    counts |= {f"events.{name}": count for name, count in phases_of(plan).items()}
    for name, count in (counts | {"events.made": plan.events.made}).items():
        yield "count", name, "", count, "", "", "", ""
    for kind, results in (("check", checked.checks), ("reject", checked.rejects), ("warning", checked.warnings)):
        for one in results:
            place = one.place or Place("")
            row = place.line or ""
            yield kind, one.name, one.level, one.count, place.file, row, one.detail, one.remedy
    for skip in code_counts(plan.skips):
        yield "skip", skip.code, "", skip.count, "", "", skip.meaning, ""
