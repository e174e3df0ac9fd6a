"""Heap Connect: Avro files and manifests as in S3, and the same tables as a warehouse unloads them to CSV and Parquet.

Two syncs: the second adds page views, has a sign-up again that the first had, and replaces the whole tables `users` and
`click_buy`, whose definition was changed. Ids are 64-bit numbers, times in S3 are texts without a zone, and dates of
users are microseconds (docs/know/exports.md#heap). A click stands in the tables of two labels.
"""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import fastavro
import pyarrow as pa

Row = dict[str, Any]

START = datetime(2024, 3, 10, 22, 40, tzinfo=UTC)
BUCKET = "s3://heap-rs3-lumen"
_CLIENTS = [
    ("Chrome 118.0.0", "Mac OS X 10.15", "Desktop", "United States", "California", "San Francisco"),
    ("Mobile Safari 17.4", "iOS 17.4", "Mobile", "Germany", "Berlin", "Berlin"),
    ("Edge 121.0.0", "Windows 10", "Desktop", "Turkey", "İzmir", "İzmir"),
    ("Firefox 115", "Linux", "Tablet", None, None, None),
]
_CLIENT = ("browser", "platform", "device_type", "country", "region", "city")
_SESSION = ("library", *_CLIENT, "ip", "referrer", "landing_page", "landing_page_query", "utm_source", "utm_medium",
            "utm_campaign", "heap_device_id", "device", "carrier", "app_name", "app_version")  # fmt: skip
_PAGE = ("domain", "path", "query", "hash", "title", "heap_previous_page", "view_controller")
_ACTION = ("type", "href", "target_tag", "target_text", "hierarchy")
_IDS = {"event_id": "long", "user_id": "long", "session_id": ["null", "long"], "time": "string"}


def _texts(names: tuple[str, ...]) -> dict[str, Any]:
    """Columns of texts that may be null."""
    return {name: ["null", "string"] for name in names}


COLUMNS: dict[str, dict[str, Any]] = {
    "users": {"user_id": "long", "joindate": "long", "last_modified": "long"}
    | _texts(("identity", "handle", "_email", "plan")),
    "user_migrations": {"from_user_id": "long", "to_user_id": "long", "time": "string"},
    "sessions": _IDS | _texts(_SESSION),
    "pageviews": _IDS | _texts((*_SESSION, *_PAGE)),
    "click_buy": _IDS | _texts((*_SESSION, *_PAGE, *_ACTION)),
    "click_buy_on_shop": _IDS | _texts((*_SESSION, *_PAGE, *_ACTION)),
    "sign_up": _IDS | _texts(("library", "type", "plan_name")) | {"seats": ["null", "int"]},
    "_event_metadata": {"event_name": "string"},
}
"""Table: its columns with their types in Avro."""
WHOLE = {1: tuple(COLUMNS), 2: ("users", "click_buy")}
"""Sync: the tables that it has as a whole."""


def syncs(seed: int = 20) -> dict[int, dict[str, list[Row]]]:
    """Sync: the rows of each of its tables; a column that is null is left out."""
    rng = Random(seed)
    made: dict[int, dict[str, list[Row]]] = {1: {name: [] for name in COLUMNS}, 2: {}}
    first, second = made[1], made[2]
    pages: list[Row] = []
    for number in range(6):
        at = START + timedelta(minutes=17 * number)
        user, session = rng.getrandbits(53), rng.getrandbits(62) | 1 << 61
        app = number == 5
        client = dict(zip(_CLIENT, _CLIENTS[number % 4], strict=True))
        common = {"user_id": user, "session_id": session, "library": "web", **client, "ip": f"203.0.113.{number}",
                  "landing_page": "https://shop.example/?utm_source=mail", "landing_page_query": "?utm_source=mail",
                  "utm_source": "mail", "utm_campaign": "spring"}  # fmt: skip
        if number % 2:
            common |= {"referrer": "https://www.google.com/"}
        if app:
            common = {"user_id": user, "session_id": session, "library": "ios", "platform": "iOS 17.4",
                      "device_type": "Mobile", "device": "iPhone 15", "carrier": "O2", "app_name": "Lumen",
                      "app_version": "3.1", "heap_device_id": f"{rng.getrandbits(64):016x}"}  # fmt: skip
        shown = {key: value for key, value in common.items() if value is not None}
        first["sessions"].append({"event_id": rng.getrandbits(60), "time": text_of(at), **shown})
        for step, (path, title) in enumerate((("/", "Lumen"), ("/preise", "Preise – Lumen"), ("/kasse", "Kasse"))):
            page = {"domain": "shop.example", "path": path, "title": title}
            if step == 0:
                page |= {"query": "?utm_source=mail&gclid=Cj0-1", "hash": "#top"}
            else:
                page["heap_previous_page"] = ("/", "/preise")[step - 1]
            if app:
                page = {"view_controller": title, "title": title}
            seen = at + timedelta(seconds=40 * step, milliseconds=rng.randrange(1000))
            pages.append({"event_id": rng.getrandbits(60), "time": text_of(seen), **shown, **page})
        clicked = {"event_id": rng.getrandbits(60), "time": text_of(at + timedelta(seconds=95)), **shown, **page}
        clicked |= {"type": "touch" if app else "click", "target_tag": "button", "target_text": "Kaufen", "hierarchy": "@div;|@button;"}  # noqa: E501  # fmt: skip
        if not app:
            first["click_buy_on_shop"].append(clicked)
        first["click_buy"].append(clicked)
        if number % 3 == 0:
            known = rng.getrandbits(53)
            server = rng.getrandbits(60)
            first["sign_up"].append({"event_id": server, "user_id": known, "session_id": rng.getrandbits(60),
                                     "time": text_of(at + timedelta(seconds=120)), "library": "server",
                                     "type": "Sign Up", "plan_name": "pro", "seats": number + 1})  # fmt: skip
            first["user_migrations"].append(_migrated(user, known, at))
            profile = {"user_id": known, "identity": f"u-{number}", "_email": f"u{number}@example.com"}
            if number == 3:  # identified again under another identity: a chain
                later = rng.getrandbits(53)
                first["user_migrations"].append(_migrated(known, later, at + timedelta(hours=1)))
                profile["user_id"] = later
            first["users"].append({**profile, **_dates(at), "plan": "free"})
        else:
            first["users"].append({"user_id": user, **_dates(at)})
    first["pageviews"], second["pageviews"] = pages[:12], pages[12:]
    first["_event_metadata"].append({"event_name": "Sign Up"})
    # Incremental, with a row that was there before; the two others are replaced.
    second["sign_up"] = [first["sign_up"][0]]
    second["users"] = [
        {**row, "plan": "pro", "last_modified": row["last_modified"] + 86_400_000_000} for row in first["users"]
    ]
    second["click_buy"] = [row for row in first["click_buy"] if row["type"] == "click"]
    return made


def _migrated(old: int, new: int, at: datetime) -> Row:
    return {"from_user_id": old, "to_user_id": new, "time": text_of(at + timedelta(seconds=119))}


def _dates(at: datetime) -> Row:
    microseconds = int(at.timestamp()) * 1_000_000
    return {"joindate": microseconds, "last_modified": microseconds + 120_000_000}


def text_of(at: datetime) -> str:
    """A time as S3 and Redshift write it."""
    return at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def bucket() -> dict[str, bytes]:
    """The files of the bucket by their paths: Avro with Snappy, a manifest for each sync, and the operator's names."""
    found = {"heap_names.csv": b"table,name\nsign_up,Signed Up\n"}
    for number, tables in syncs().items():
        entries = []
        for name, rows in tables.items():
            path = f"sync_{number}/{name}/part-00000-{number}f5e.avro"
            found[path] = avro(name, rows)
            entries.append(
                {
                    "name": name,
                    "files": [f"{BUCKET}/{path}"],
                    "incremental": name not in WHOLE[number],
                    "columns": list(COLUMNS[name]),
                }
            )
        content = {"dump_id": number, "tables": entries, "property_definitions": f"{BUCKET}/definitions_{number}.json"}
        found[f"manifests/sync_{number}.json"] = json.dumps(content).encode()
    return found


def avro(name: str, rows: list[Row]) -> bytes:
    """The Avro file of one table."""
    fields = [{"name": column, "type": type_} for column, type_ in COLUMNS[name].items()]
    target = io.BytesIO()
    schema = {"type": "record", "name": "row", "fields": fields}
    fastavro.writer(target, schema, rows, codec="snappy", sync_marker=b"backcast-samples")
    return target.getvalue()


def tables() -> dict[str, list[Row]]:
    """The rows of each table after both syncs, as a warehouse has them."""
    first, second = syncs().values()
    return {
        name: second.get(name, []) if name in WHOLE[2] else [*first[name], *second.get(name, [])]
        for name in COLUMNS
        if name != "_event_metadata"
    }


def all_events() -> list[Row]:
    """The rows of `all_events`: those of the tables of events, and of no use beside them."""
    return [
        {**{name: row.get(name) for name in _IDS}, "event_table_name": table}
        for table, rows in tables().items()
        if "event_id" in COLUMNS[table] and table != "sessions"
        for row in rows
    ]


def table_text(columns: list[str], rows: list[Row], *, capitals: bool = False) -> bytes:
    """A table as CSV; dates of users are times there. `capitals` writes the names as Snowflake does."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.upper() for column in columns] if capitals else columns)
    writer.writerows([_cell(column, row.get(column)) for column in columns] for row in rows)
    return text.getvalue().encode()


def _cell(column: str, value: Any) -> Any:
    if column not in ("joindate", "last_modified"):
        return value
    return text_of(datetime.fromtimestamp(value / 1_000_000, UTC))


def parquet_table(name: str, rows: list[Row]) -> pa.Table:
    """A table with typed times, as a warehouse writes Parquet."""
    types = {"long": pa.int64(), "int": pa.int32()}
    arrays = []
    for column, type_ in COLUMNS[name].items():
        values = [row.get(column) for row in rows]
        if column == "time":
            moments = [datetime.fromisoformat(str(value)) for value in values]
            arrays.append(pa.array(moments, pa.timestamp("us")))
        elif column in ("joindate", "last_modified"):
            arrays.append(pa.array(values, pa.int64()).cast(pa.timestamp("us", "UTC")))
        else:
            written = type_ if isinstance(type_, str) else type_[1]
            arrays.append(pa.array(values, types.get(written, pa.string())))
    return pa.table(arrays, names=list(COLUMNS[name]))
