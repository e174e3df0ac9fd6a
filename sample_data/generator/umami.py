"""Umami's tables as ClickHouse and PostgreSQL unload them to CSV, and as pages of its API.

Times have no zone and no fraction; a query has no question mark; what there is none of is an empty text. A visit
without an id has a session that another person behind the same address shares (docs/know/exports.md#umami).
"""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from sample_data.generator.spelling import uuid4

WEBSITE = "86d4095c-a2a8-4fc8-9521-103e858e2b41"
START = datetime(2024, 3, 30, 22, 40, tzinfo=UTC)
CLIENTS = [
    ("chrome", "Windows 10", "laptop", "1920x1080", "de-DE", "DE", "DE-BE", "Berlin"),
    ("crios", "iOS", "mobile", "390x844", "fr-FR", "FR", "FR-PAC", "Nice"),
    ("ios", "iOS", "tablet", "820x1180", "en-GB", "GB", "GB-ENG", "Leeds"),
    ("edge-chromium", "Windows 11", "desktop", "2560x1440", "en-US", "US", "US-CA", "Fresno"),
    ("samsung", "Android OS", "mobile", "412x915", "tr-TR", "TR", "TR-35", "İzmir"),
    ("firefox", "Linux", "desktop", "1680x1050", "", "", "", ""),
]
PAGES = [("/", "", "Lumen"), ("/preise", "plan=pro%20plus", "Preise – Lumen"), ("/kasse", "", "Kasse")]
CAMPAIGN = "utm_source=newsletter&utm_medium=email&utm_campaign=spring&gclid=Cj0-1"
ORDER = (
    ("revenue", "49.1000", "49.1000", "", 2),
    ("currency", "EUR", "", "", 1),
    ("gift", "true", "", "", 3),
    ("items", '["L-1", "L-2"]', "", "", 5),
    ("delivered", "2024-04-02T10:00:00.000Z", "", "2024-04-02 10:00:00", 4),
)
"""Properties of an order: key, the columns of its value, and its type."""
IDENTIFIED = (("plan", "pro", "", 1), ("seats", "4.0000", "4.0000", 2), ("vip", "true", "", 3))
COLUMNS = [
    "website_id",
    "session_id",
    "visit_id",
    "event_id",
    "hostname",
    "browser",
    "os",
    "device",
    "screen",
    "language",
    "country",
    "region",
    "city",
    "url_path",
    "url_query",
    "utm_source",
    "utm_medium",
    "utm_campaign",
    "utm_content",
    "utm_term",
    "referrer_path",
    "referrer_query",
    "referrer_domain",
    "page_title",
    "gclid",
    "fbclid",
    "msclkid",
    "ttclid",
    "li_fat_id",
    "twclid",
    "event_type",
    "event_name",
    "tag",
    "distinct_id",
    "created_at",
    "job_id",
]


def events(seed: int = 13) -> list[dict[str, Any]]:
    """The rows of website_event, in order of time."""
    rng = Random(seed)
    found = []
    for number, client in enumerate(CLIENTS):
        at = START + timedelta(minutes=13 * number)
        common: dict[str, Any] = dict.fromkeys(COLUMNS, "") | dict(zip(COLUMNS[5:13], client, strict=True))
        common |= {"website_id": WEBSITE, "session_id": uuid4(rng), "visit_id": uuid4(rng), "hostname": "lumen.example"}
        common["distinct_id"] = f"user-{number}" if number in (1, 3) else ""
        for step, (path, query, title) in enumerate(PAGES):
            own = {"url_path": path, "url_query": query, "page_title": title, "event_type": 1}
            if step == 0 and number % 2:
                own |= {"referrer_domain": "search.example", "referrer_path": "/s", "referrer_query": "q=lampe"}
                own |= {"url_query": CAMPAIGN} | dict(part.split("=") for part in CAMPAIGN.split("&"))
            elif step:
                own |= {"referrer_domain": "lumen.example", "referrer_path": PAGES[step - 1][0]}
            found.append(common | {"event_id": uuid4(rng), "created_at": _text(at, 41 * step)} | own)
        if number % 2:
            own = {"url_path": "/kasse", "event_type": 2, "event_name": "Order Completed", "tag": "b"}
            own |= {"event_id": uuid4(rng), "created_at": _text(at, 140)}
            found.append(common | own)
    return sorted(found, key=lambda row: row["created_at"])


def _text(moment: datetime, seconds: int) -> str:
    return f"{moment + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}"


def tables(seed: int = 13) -> dict[str, bytes]:
    """The CSV files, by the names of their tables."""
    rows, rng = events(seed), Random(seed + 1)
    sessions = {row["session_id"]: row for row in rows}
    session = [
        {name: row[name] for name in ("session_id", "website_id", *COLUMNS[5:13], "distinct_id", "created_at")}
        for row in sessions.values()
    ]
    data, properties = [], []
    for row in rows:
        for key, text, number, moment, kind in ORDER if row["event_type"] == 2 else ():
            one = {"event_data_id": uuid4(rng), "website_id": WEBSITE, "website_event_id": row["event_id"]}
            one |= {"data_key": key, "string_value": text, "number_value": number, "date_value": moment}
            properties.append(one | {"data_type": kind, "created_at": row["created_at"]})
    for row in sessions.values():
        for key, text, number, kind in IDENTIFIED if row["distinct_id"] else ():
            one = {"session_data_id": uuid4(rng), "website_id": WEBSITE, "session_id": row["session_id"]}
            one |= {"data_key": key, "string_value": text, "number_value": number, "date_value": "", "data_type": kind}
            data.append(one | {"distinct_id": row["distinct_id"], "created_at": row["created_at"]})
    return {
        "website_event": table_text(rows),
        "event_data": table_text(properties),
        "session": table_text(session),
        "session_data": table_text(data),
    }


def table_text(rows: list[dict[str, Any]]) -> bytes:
    """CSV with a header, as `COPY … TO … CSV HEADER` writes it."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()
