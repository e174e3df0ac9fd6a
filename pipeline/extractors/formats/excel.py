"""Excel workbooks (.xlsx, .xlsm): the rows of one sheet, whose first row names the columns.

A workbook is a zip, so discovery calls `workbook` before it looks for members of an archive.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator

from pipeline import storage
from pipeline.extractors.dialect import name_notices, title_notices
from pipeline.extractors.file_rules import FileRules
from pipeline.extractors.format import Format, Recognized, when_called
from pipeline.models import Dialect, Part

NAME = "excel"


def workbook(file: str, path: str, rules: FileRules) -> Recognized | None:
    """The sheet to read, if a zip is a workbook; None for any other zip and for a damaged one. A sheet without rows has
    no header. Raises UnreadableExport for a workbook that cannot be read."""
    try:
        with storage.opened(file) as stream, zipfile.ZipFile(stream) as archive:
            if "xl/workbook.xml" not in archive.namelist():
                return None
    except (zipfile.BadZipFile, ValueError, OSError):
        return None
    found: Recognized = when_called("excel_reader:recognize")(file, path, rules.sheet, rules.header)
    return found


def _traits(dialect: Dialect) -> list[str]:
    return [f"sheet {dialect.sheet!r}"]


def _notices(part: Part, recognized: Recognized) -> Iterator[tuple[str, str]]:
    yield from when_called("excel_reader:notices")(part)
    yield from title_notices(part.dialect)
    yield from name_notices(recognized.raw_header)


FORMAT = Format(
    NAME, "Excel", when_called("excel_reader:blocks"), when_called("excel_rows:ExcelRows"),
    traits=_traits, notices=_notices, fixed_columns=True,
)  # fmt: skip
