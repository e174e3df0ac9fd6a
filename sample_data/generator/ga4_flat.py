"""GA4's events as a query flattened them: a column for each parameter (docs/know/exports.md#ga4-flat)."""

from __future__ import annotations

import csv
import io
from typing import Any

from sample_data.generator import ga4

RECORDS = ("device", "geo", "traffic_source", "app_info", "ecommerce", "collected_traffic_source")


def table() -> bytes:
    """The rows of the sample of GA4 as CSV, each parameter and each property of the user in a column of its own."""
    rows = [_flat(row) for row in ga4.rows()]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(dict.fromkeys(name for one in rows for name in one)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def _flat(row: ga4.Row) -> dict[str, Any]:
    plain = {name: value for name, value in row.items() if not isinstance(value, dict | list)}
    for name in RECORDS:
        plain |= _members(name, row.get(name, {}))
    for group in ("event_params", "user_properties"):
        for one in row[group]:
            plain[f"{group}_{one['key']}"] = next(iter(one["value"].values()))
    return plain


def _members(name: str, record: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for member, value in record.items():
        found |= _members(f"{name}_{member}", value) if isinstance(value, dict) else {f"{name}_{member}": value}
    return found
