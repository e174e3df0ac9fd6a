"""The cases of a starting mapping: rows of the export, and what becomes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from pipeline.extractors.changed_rows import integers_in
from pipeline.mapper.compiler import compile_mapping
from pipeline.mapper.inspection.cases import describe, gives_lines, row_of
from pipeline.mapper.language.scalars import json_scalar, quoted
from pipeline.models import SealedOptions, UnvalidatedEvent
from pipeline.values import Record, raw

_AS_OF = 4_102_444_800_000_000
"""The instant for which cases are run: 2100-01-01."""
_ADVICE = (
    "# What rows of the export give. After you change this file they may give something else:",
    "# `backcast mapping test FILE --update-cases` shows the difference and writes it here.",
)
MOST_CASES = 3
ROW_CHARACTERS = 20_000
"""A longer row is used as a case only if no shorter one exists."""


def cases_of(text: str, records: Sequence[Record], form: str) -> tuple[str, str]:
    """The cases of a mapping in YAML, drawn from these rows, and why it is unfinished ("" if all rows are sent)."""
    from pipeline.mapper.language.loader import parse

    mapping = parse(text, "new mapping")
    zones = ("UTC",) if "zone: local" in text else ()
    mapper = compile_mapping(mapping, SealedOptions(as_of=_AS_OF, zones=tuple((zone, "") for zone in zones)))

    def outcomes_of(row: str) -> list[Any]:
        result = mapper.map_row(row_of(mapping, row, form))
        return result if isinstance(result, list) else [result]

    lines, unsent, names = ["", *_ADVICE, "cases:"], [], Counter[str]()
    rows = (_json({**record, **integers_in(record, mapping.files.integers)}) for record in records)
    for number, row in enumerate(_chosen(rows, outcomes_of), 1):
        outcomes = [describe(outcome) for outcome in outcomes_of(row)]
        codes = [str(one.get("reject") or one.get("skip")) for one in outcomes if "reject" in one or "skip" in one]
        if codes:
            unsent.append(f"row {number} of the cases is not sent ({', '.join(codes)})")
            lines.append("  # Unfinished: this row is not sent. Decide what is open, then write what the row gives.")
        name = next((one["event"] for one in outcomes if "event" in one), "not sent")
        names[name] += 1
        name += f" ({names[name]})" if names[name] > 1 else ""
        lines += [f"  - name: {quoted(name)}", f"    row: {json_scalar(row)}"]
        lines += ["    format: csv"] * (form == "csv") + [f"    zones: [{zone}]" for zone in zones] + ["    gives:"]
        lines += gives_lines(outcomes, "      ")
    return "\n".join(lines) + "\n", "; ".join(unsent)


def _chosen(rows: Iterable[str], outcomes_of: Any) -> list[str]:
    """Up to three different rows of different events; rows that are not sent come last."""
    by_event: dict[str, str] = {}
    others: dict[str, None] = {}
    for row in rows:
        if len(row) > ROW_CHARACTERS and (by_event or others):
            continue
        first = next(iter(outcomes_of(row)), None)
        name = (first.event or "") if isinstance(first, UnvalidatedEvent) and "event" in describe(first) else ""
        if name and name not in by_event:
            by_event[name] = row
        elif len(others) < MOST_CASES or not name:
            others[row] = None
        if len(by_event) == MOST_CASES:
            break
    return list(dict.fromkeys([*by_event.values(), *others]))[:MOST_CASES]


def _json(record: Record) -> str:
    """A row as one line of JSON, each value as it was read."""
    members = b",".join(msgspec.json.encode(name) + b":" + bytes(raw(value)) for name, value in record.items())
    text = b"{" + members + b"}"
    return (msgspec.json.format(text, indent=-1) if b"\n" in text or b"\r" in text else text).decode()
