"""RudderStack: raw calls from object storage, a warehouse's staging lines, and Parquet tables of the data lake.

Times carry the gateway's +05:30; the data lake counts microseconds and calls one column `_timestamp`; a staging line
names its table, and a value that did not fit its column stands in `rudder_discards` (docs/know/exports.md#rudderstack).
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa

from sample_data.generator.messages import OLD_USER, story, tables
from sample_data.generator.segment import table
from sample_data.generator.spelling import row

SOURCE = "2DTlLPQxignYp4ag9sISgGN2uY7"
DESTINATION = "27CHciD6leAhurSyFAeN4dp14qZ"
_BROWSER = "com.rudderlabs.javascript"
WEB = {
    "app": {"name": "RudderLabs JavaScript SDK", "namespace": _BROWSER, "version": "2.31.0"},
    "library": {"name": "RudderLabs JavaScript SDK", "version": "2.31.0"},
    "os": {"name": "", "version": ""},
    "screen": {"density": 2, "width": 1440, "height": 900, "innerWidth": 1440, "innerHeight": 789},
}
APP = {"library": {"name": "rudder-ios-library", "version": "1.13.0"}}
SERVER = {"library": {"name": "RudderLabs Ruby SDK", "version": "2.0.0"}}
_GATEWAY = timezone(timedelta(hours=5, minutes=30))
_STAGED = ("tracks", "order_completed", "plan_chosen", "pages", "screens", "identifies", "users", "groups", "aliases")
_LAKE = (
    "tracks", "order_completed", "plan_chosen", "lamp_switched", "invoice_paid", "pages", "screens", "identifies",
    "users", "groups", "aliases", "rudder_discards",
)  # fmt: skip
DISCARDED = {
    "row_id": "ajs-next-1", "column_name": "total", "column_value": "n/a", "table_name": "invoice_paid",
    "received_at": "2023-04-20T21:41:00.000Z", "uuid_ts": "2023-04-21T03:00:00.000Z",
}  # fmt: skip
_TIMES = ("timestamp", "original_timestamp", "sent_at", "received_at")


def calls(seed: int = 5) -> list[dict[str, Any]]:
    """The calls as object storage holds them; the same for the same seed."""
    made = story(seed, WEB, APP, SERVER)
    for call in made:
        mobile, server = "device" in call["context"], call.get("channel") == "server"
        call["channel"] = "server" if server else "mobile" if mobile else "web"
        call |= {"rudderId": f"r-{call['userId'] or call['anonymousId']}", "request_ip": "198.51.100.7"}
        call["integrations"] = {"All": True}
        for name in ("timestamp", "receivedAt"):
            moment = datetime.fromisoformat(call[name]).astimezone(_GATEWAY)
            call[name] = moment.isoformat(timespec="milliseconds")
        if call["type"] == "identify" and not server:
            call["context"] = {**call["context"], "traits": call.pop("traits")}
    return made


def logs(seed: int = 5) -> dict[str, list[str]]:
    """The files of object storage: path to JSON lines, by the day the calls were received."""
    days: dict[str, list[str]] = {}
    for call in calls(seed):
        day = call["receivedAt"][:10]
        stamp = int(datetime.fromisoformat(f"{day}T12:00:00+00:00").timestamp())
        name = f"{stamp}.{SOURCE}.0f6f9a3e-5a1f-4a53-9d57-3f1e2b1c7a10.json.gz"
        days.setdefault(f"rudder-logs/{SOURCE}/{day}/{name}", []).append(row(call))
    return days


def warehouse(seed: int = 5) -> dict[str, list[dict[str, Any]]]:
    """The tables of the same calls, with the columns that RudderStack adds."""
    made = calls(seed)
    for call in made:
        traits = call["context"].get("traits")
        if call["type"] == "identify" and traits is not None:
            call["traits"] = traits
    found = tables(made, OLD_USER)
    by_id = {call["messageId"]: call for call in made}
    for rows in found.values():
        for one in rows:
            one |= {"context_source_id": SOURCE, "context_source_type": "http", "context_destination_id": DESTINATION}
            one |= {"context_request_ip": "198.51.100.7", "uuid_ts": "2023-04-21T03:00:00.000Z"}
            if one["id"] in by_id:
                one["channel"] = by_id[one["id"]]["channel"]
    return found


def staging(seed: int = 5) -> list[str]:
    """Lines of a staging file: a row and its table each, and one value that was discarded."""
    lines = []
    for name in _STAGED:
        for one in warehouse(seed).get(name, []):
            about = {"table": name, "columns": dict.fromkeys(one, "string"), "receivedAt": one["received_at"]}
            lines.append(row({"data": one, "metadata": about, "userId": ""}))
    about = {"table": "rudder_discards", "columns": dict.fromkeys(DISCARDED, "string")}
    return [*lines, row({"data": DISCARDED, "metadata": about, "userId": ""})]


def lake(seed: int = 5) -> dict[str, pa.Table]:
    """Tables of the data lake: path to table, with every time as microseconds since 1970."""
    made: dict[str, pa.Table] = {}
    for name, rows in (warehouse(seed) | {"rudder_discards": [DISCARDED]}).items():
        if name not in _LAKE:
            continue
        counted = [{_renamed(key): _microseconds(key, value) for key, value in one.items()} for one in rows]
        made[f"rudder-datalake/main/{name}/2023/04/20/21/part-0.parquet"] = table(counted)
    return made


def _renamed(column: str) -> str:
    return "_timestamp" if column == "timestamp" else column


def _microseconds(column: str, value: Any) -> Any:
    if column not in (*_TIMES, "uuid_ts") or value is None:
        return value
    epoch = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    return (datetime.fromisoformat(value) - epoch) // timedelta(microseconds=1)
