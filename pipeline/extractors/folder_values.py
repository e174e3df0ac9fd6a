"""Columns from the names of a file's folders: `event_name=purchase/dt=2024-01-01/part-0.parquet`.

Hive, Spark, Athena, Glue and Delta write tables this way, and leave these columns out of the files. A value is text
with escapes as in URLs; null is Hive's own word, or nothing (docs/know/exports.md#folders-with-values).
"""

from __future__ import annotations

import os.path
import re
from urllib.parse import unquote

from pipeline.models import Part

_FOLDER = re.compile(r"([^=/]+)=([^/]*)")
_NULLS = ("", "__HIVE_DEFAULT_PARTITION__")

Values = tuple[tuple[str, str | None], ...]


def folder_values(part: Part) -> Values:
    """(column, value) for each folder directly above a file or archive member, outermost first; None for NULL."""
    path = f"{os.path.dirname(part.file)}/{part.member}" if part.member else part.file
    found: dict[str, str | None] = {}
    for folder in reversed(path.split("/")[:-1]):
        match = _FOLDER.fullmatch(folder)
        if match is None:
            break
        value = unquote(match[2])
        found.setdefault(unquote(match[1]), None if value in _NULLS else value)
    return tuple(reversed(found.items()))
