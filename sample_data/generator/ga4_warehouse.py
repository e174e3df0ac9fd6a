"""Google Analytics 4's events as Fivetran copies them, in flat columns (docs/know/exports.md#ga4-copies)."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

START = datetime(2024, 3, 30, 22, 40, tzinfo=UTC)
PAGES = ("https://lumen.example/?utm_campaign=spring", "https://lumen.example/preise")


def table(seed: int = 37) -> bytes:
    """The table `event` as CSV: three browsers and a phone, one of them without consent."""
    rng, rows = Random(seed), []
    for number in range(4):
        at, phone = START + timedelta(minutes=13 * number), number == 3
        common: dict[str, Any] = {
            "_fivetran_synced": "2024-04-03 05:06:07",
            "user_pseudo_id": "" if number == 2 else f"{rng.randrange(10**9)}.{rng.randrange(10**9)}",
            "user_id": "user-1" if number == 1 else "",
            "platform": "IOS" if phone else "WEB",
            "stream_id": "3206015529",
            "is_intraday": "False",
            "date": at.strftime("%Y-%m-%d"),
            "device_category": "mobile" if phone else "desktop",
            "device_operating_system": "iOS" if phone else "Windows",
            "device_operating_system_version": "17.2" if phone else "Windows 10",
            "device_web_info_browser": "" if phone else "Chrome",
            "geo_country": "Germany",
            "geo_city": "(not set)" if number else "Berlin",
            "traffic_source_source": "news" if number else "(direct)",
            "param_ga_session_id": "" if number == 2 else str(int(at.timestamp())),
        }
        view = "screen_view" if phone else "page_view"
        steps: list[dict[str, Any]] = [{"name": view, "param_page_location": "" if phone else page} for page in PAGES]
        steps.append({"name": "purchase", "ecommerce_purchase_revenue": "49.10", "param_currency": "EUR"})
        for step, own in enumerate(steps):
            moment = at + timedelta(seconds=31 * step, microseconds=rng.randrange(10**6))
            place = {"_fivetran_id": f"{rng.getrandbits(64):016x}", "timestamp": f"{moment:%Y-%m-%d %H:%M:%S.%f}"}
            rows.append(place | common | {"param_firebase_screen": "Cart" if phone else ""} | own)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(dict.fromkeys(name for one in rows for name in one)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()
