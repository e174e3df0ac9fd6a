"""Which table of a warehouse the rows of a file belong to, by its path (`table_from_path`).

Warehouses write a table into a folder, or a file, of its name: `prod/identifies/000.parquet`, `identifies.csv.gz`,
`segment.identifies_2024-01.csv`, `rudder-datalake/main/identifies/2023/04/20/21/part-0.parquet`. A part of a path names
a table if it consists of the table's name and of these: a schema before it (`segment.`, `table=`), `_view`
(docs/know/exports.md#segment-tables), a number or a date after it, and the endings of files. So `pages_viewed.csv` is
no table of pages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipeline.mapper.builder import Builder
from pipeline.mapper.functions import decode_row
from pipeline.mapper.language import Mapping, TableFromPath
from pipeline.mapper.references import find
from pipeline.models import Part, SealedOptions
from pipeline.values import Record

SETTING = "table"
"""The setting that names the table of all files; a table from a path reaches the mapper as this setting."""
_BEFORE = r"(?:[\w-]+[.=])*"
_AFTER = r"(?:_view)?(?:[-_.]?\d[-_.:\dtz]*(?:part[-_]?\d+)?|[-_.]part[-_.\d]*)?"
_ENDINGS = r"(?:\.(?:csv|tsv|txt|json|jsonl|ndjson|parquet|avro|snappy|gz|gzip|zst|bz2|xz|zip|tar|tgz))*"


def names_in(part: Part) -> tuple[str, ...]:
    """The names in a part's path, the outermost first: the folder that the operator named, the path inside it, and the
    path of an archive's member."""
    shown, _, member = part.path.partition("!")
    if part.path == "stdin":
        return ()
    depth = shown.count("/") + 2
    return (*part.file.replace("\\", "/").split("/")[-depth:], *(member.split("/") if member else ()))


def table_in_path(names: Sequence[str], known: Sequence[str]) -> str:
    """The table that the innermost of these names is of; "" where none is."""
    words = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
    form = re.compile(f"{_BEFORE}({words}){_AFTER}{_ENDINGS}", re.IGNORECASE)
    match = next(filter(None, map(form.fullmatch, reversed(names))), None)
    return match[1].lower() if match else ""


def table_of(mapping: Mapping, options: SealedOptions, names: Sequence[str], row: Record) -> str | None:
    """The table of a file, by the names in its path and by a row of it: "" where its rows name it themselves, or
    `--set table=NAME` does, and None where nothing names it."""
    rule = mapping.table_from_path
    assert rule is not None
    if options.settings.get(SETTING) or any(find(call, row) is not None for call in rule.unless):
        return "" if _names_its_table(mapping, rule, options, row) else None
    table = table_in_path(names, rule.known)
    if table or _names_its_table(mapping, rule, options, row):
        return table
    return rule.otherwise if any(find(call, row) is not None for call in rule.has) else None


def _names_its_table(mapping: Mapping, rule: TableFromPath, options: SealedOptions, row: Record) -> bool:
    """Whether a row, after decoding, names its table."""
    rows = [dict(row)]
    decode = Builder(mapping, options).decode()
    if decode is not None:
        rows = decode_row(decode, rows[0])
    return any(find(rule.told, decoded) is not None for decoded in rows)
