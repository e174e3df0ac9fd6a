"""Vercel Web Analytics: what a drain received, a JSON object a line (docs/know/exports.md#vercel)."""

from __future__ import annotations

import json
from random import Random

from sample_data.generator.spelling import row

START = 1_694_723_400_000
"""2023-09-14T20:30:00Z, in milliseconds."""


def events(seed: int = 31) -> list[str]:
    """Page views of six devices, some with a custom event after it."""
    rng = Random(seed)
    made = []
    for number in range(6):
        shared = {
            "schema": "vercel.analytics.v1", "projectId": "prj_lamps", "ownerId": "team_lamps",
            "dataSourceName": "web-analytics", "sessionId": rng.getrandbits(53), "deviceId": rng.getrandbits(64),
            "origin": "https://lamps.example", "path": f"/lampen/{number}", "route": "/lampen/[id]",
            "referrer": "https://search.example/" if number % 2 else "", "queryParams": "utm_source=mail",
            "country": "CH", "region": "ZH", "city": "Zürich", "osName": "macOS", "osVersion": "13.4",
            "clientName": "Chrome", "clientType": "browser", "clientVersion": "114.0.5735.90",
            "deviceType": "desktop", "sdkName": "@vercel/analytics", "sdkVersion": "1.0.0",
            "vercelEnvironment": "production",
        }  # fmt: skip
        at = START + number * 3_700_123
        made.append({**shared, "eventType": "pageview", "eventName": "", "eventData": "", "timestamp": at})
        if number % 3 == 0:
            bought = json.dumps({"lamp": f"l-{number}", "größe": "XL"}, ensure_ascii=False)
            made.append({
                **shared, "eventType": "event", "eventName": "Lamp Bought", "eventData": bought,
                "timestamp": at + 5_000, "sessionId": None,
            })  # fmt: skip
    return [row(one) for one in made]
