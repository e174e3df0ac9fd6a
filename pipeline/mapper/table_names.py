"""Finds the table of a warehouse that the rows of a file belong to, from the file's path (`table_from_path`).

Warehouses write a table into a folder or a file named after it: `prod/identifies/000.parquet`, `identifies.csv.gz`,
`segment.identifies_2024-01.csv`, `rudder-datalake/main/identifies/2023/04/20/21/part-0.parquet`. A part of a path names
a table if it is the table's name, perhaps with a schema before it (`segment.`, `table=`), and after it `_view`
(docs/know/exports.md#segment-tables), a number or a date, and file endings. So `pages_viewed.csv` is not a table of
pages. A `*` in a known name stands for any letters, digits, underscores and dots; since `step_2` may be such a name,
only a date, a part or a long number may follow it. A known name `key=*` is a folder, and what follows its key is the
table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipeline.mapper.language.sections import Mapping, TableFromPath
from pipeline.mapper.program.builder import Builder
from pipeline.mapper.program.functions import decode_row
from pipeline.mapper.program.references import find
from pipeline.models import Part, SealedOptions
from pipeline.values import Record

SETTING = "table"
"""The setting that names the table of all files; a table from a path reaches the mapper as this setting."""
_BEFORE = r"(?:[\w-]+[.=])*"
_AFTER = r"(?:_view)?(?:[-_.]?\d[-_.:\dtz]*(?:part[-_]?\d+)?|[-_.]part[-_.\d]*)?"
_AFTER_ANY = r"(?:[-_.]\d{4}-?\d\d(?:-?\d\d)?|[-_.]\d{6,}|(?:[-_.]\d+)?[-_.]part[-_.\d]*)?"
_ENDING = "(?:csv|tsv|txt|json|jsonl|ndjson|parquet|avro|xlsx|snappy|gz|gzip|zst|bz2|xz|br|zip|tar|tgz)"
_ENDINGS = rf"(?:\.{_ENDING})*"
_ANY = rf"(?!(?:part|{_ENDING})(?:[-_.]|$)|data(?:_\d+)+(?:\.|$))[a-z_][\w.]*?"
"""Names that are not tables but programs' names for a table's files, such as `part-00000` and `data_0_0_0`."""


def names_in(part: Part) -> tuple[str, ...]:
    """The names in a part's path, the outermost first: the folder that the operator named, with the folders around it
    if it is a folder `key=value`; the path inside it; and the path of an archive's member."""
    shown, _, member = part.path.partition("!")
    if part.path == "stdin":
        return ()
    depth = shown.count("/") + 2
    names = part.file.replace("\\", "/").split("/")
    while "=" in names[-depth:][0] and depth < len(names):
        depth += 1
    return (*names[-depth:], *(member.split("/") if member else ()))


def table_in_path(names: Sequence[str], known: Sequence[str]) -> str:
    """The table of the innermost name that belongs to a table; "" if none does."""
    exact = [re.escape(name) for name in sorted(known, key=len, reverse=True) if "*" not in name]
    open_ended = [re.escape(name).replace(r"\*", _ANY) for name in known if "*" in name]
    forms = [
        re.compile(f"{_BEFORE}({'|'.join(words)}){after}{_ENDINGS}", re.IGNORECASE)
        for words, after in ((exact, _AFTER), (open_ended, _AFTER_ANY))
        if words
    ]
    matches = (form.fullmatch(name) for name in reversed(names) for form in forms)
    match = next(filter(None, matches), None)
    return match[1].lower().rpartition("=")[2] if match else ""


def table_of(mapping: Mapping, options: SealedOptions, names: Sequence[str], row: Record) -> str | None:
    """The table of a file, by the names in its path and by one of its rows; "" if its rows or `--set table=NAME` name
    it, and None if nothing does."""
    rule = mapping.table_from_path
    assert rule is not None
    setting = options.settings.get(SETTING)
    if setting and table_in_path((setting,), [name.rpartition("=")[2] for name in rule.known if "*" in name]):
        return ""
    if setting or any(find(call, row) is not None for call in rule.unless):
        return "" if _names_its_table(mapping, rule, options, row) else None
    table = table_in_path(names, rule.known)
    if table or _names_its_table(mapping, rule, options, row):
        return table
    return rule.otherwise if any(find(call, row) is not None for call in rule.has) else None


def _names_its_table(mapping: Mapping, rule: TableFromPath, options: SealedOptions, row: Record) -> bool:
    """Whether a row, after decoding, names its table."""
    decode = Builder(mapping, options).decode()
    rows = [dict(row)] if decode is None else [one for one in decode_row(decode, dict(row)) if isinstance(one, dict)]
    return any(find(rule.told, decoded) is not None for decoded in rows)
