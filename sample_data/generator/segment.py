"""Segment: the S3 archive (gzip of JSON lines, a folder for each day they were received) and warehouse tables.

A folder is named by the midnight of its day in milliseconds. The warehouse's tables are the same calls: some as CSV
of BigQuery's and Redshift's kind, some as Parquet; of `identifies`, `groups` and `screens` only their path tells.
"""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from sample_data.generator.messages import OLD_USER, story, tables
from sample_data.generator.spelling import row

SOURCE = "8pT3xQnLkR"
WEB = {"library": {"name": "analytics.js", "version": "next-1.51.3"}}
APP = {"library": {"name": "analytics-ios", "version": "4.1.6"}}
SERVER = {"library": {"name": "analytics-ruby", "version": "2.4.0"}, "ip": "0.0.0.0"}


def calls(seed: int = 4) -> list[dict[str, Any]]:
    """The calls as the archive holds them; the same for the same seed."""
    made = story(seed, WEB, APP, SERVER)
    for call in made:
        mobile = "device" in call["context"]
        call.setdefault("channel", "mobile" if mobile else "client")
        call |= {"version": 2, "integrations": {}, "writeKey": "wk-1", "projectId": SOURCE}
        if call["context"].get("sessionStart"):
            call["context"] = {name: value for name, value in call["context"].items() if name != "sessionStart"}
    return made


def archive(seed: int = 4) -> dict[str, list[str]]:
    """The archive's files: path to JSON lines, by the day the calls were received."""
    days: dict[str, list[str]] = {}
    for call in calls(seed):
        received = datetime.fromisoformat(call["receivedAt"])
        midnight = int(datetime(received.year, received.month, received.day, tzinfo=UTC).timestamp() * 1000)
        days.setdefault(f"segment-logs/{SOURCE}/{midnight}/{midnight // 1000 + 7}.a1b2c3.gz", []).append(row(call))
    return days


def warehouse(seed: int = 4) -> dict[str, list[dict[str, Any]]]:
    """The tables that a warehouse keeps of the same calls, each row as it was loaded."""
    made = tables(calls(seed), OLD_USER)
    for rows in made.values():
        for one in rows:
            one["uuid_ts"] = one["loaded_at"] = "2023-04-21T04:00:00.000Z"
    return made


def table_text(rows: list[dict[str, Any]]) -> bytes:
    """CSV as BigQuery writes it: times end in UTC, null is nothing."""
    names = list(dict.fromkeys(name for one in rows for name in one))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([[_cell(one.get(name)) for name in names] for one in rows])
    return out.getvalue().encode()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value).removeprefix("\ue000")
    return text.replace("T", " ").removesuffix("Z") + " UTC" if len(text) == 24 and text.endswith("Z") else text


def table(rows: list[dict[str, Any]]) -> pa.Table:
    """The rows as Arrow, each column of one type: a text where they differ."""
    names = dict.fromkeys(name for one in rows for name in one)
    return pa.table({name: _column([_plain(one.get(name)) for one in rows]) for name in names})


def _plain(value: Any) -> Any:
    """A number that is spelled out as the number it is; a warehouse keeps no spelling."""
    if isinstance(value, str) and value.startswith("\ue000"):
        digits = value.removeprefix("\ue000")
        return float(digits) if "." in digits else int(digits)
    return value


def _column(values: list[Any]) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        values = [value if value is None else float(value) for value in values]
    elif len(kinds) > 1:
        values = [value if value is None else str(value) for value in values]
    return pa.array(values)
