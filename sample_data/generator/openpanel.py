"""OpenPanel's tables as ClickHouse unloads them with FORMAT JSONEachRow (docs/know/exports.md#openpanel).

Columns without a value have an empty text, the country two NUL characters; 64-bit integers are texts; an anonymous
visitor's profile is the device.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from sample_data.generator.spelling import row, uuid4

START = datetime(2024, 3, 30, 22, 40, tzinfo=UTC)
CLIENTS = [
    ("Windows", "10", "Chrome", "122.0.0.0", "desktop", "", "", "DE", "Berlin"),
    ("iOS", "17.2", "Mobile Safari", "17.2", "mobile", "Apple", "iPhone", "FR", "Nice"),
    ("Android", "14", "Samsung Internet", "23.0", "mobile", "Samsung", "SM-S901B", "TR", "İzmir"),
    ("iOS", "17.2", "", "", "tablet", "Apple", "iPad", "\0\0", ""),
]
NAMES = ("os", "os_version", "browser", "browser_version", "device", "brand", "model", "country", "city")


def events(seed: int = 33) -> list[dict[str, Any]]:
    """The rows of `events`, in order of time."""
    rng, found = Random(seed), []
    for number, client in enumerate(CLIENTS):
        at, device, app = START + timedelta(minutes=13 * number), uuid4(rng).replace("-", ""), number == 3
        common: dict[str, Any] = dict(zip(NAMES, client, strict=True)) | {"device_id": device, "session_id": uuid4(rng)}
        common |= {"project_id": "lumen", "profile_id": f"user-{number}" if number % 2 else device, "groups": []}
        common |= {"sdk_name": "react-native" if app else "web", "sdk_version": "1.0.3", "referrer_name": ""}
        common |= {"origin": "" if app else "https://lumen.example", "path": "/", "referrer": "", "referrer_type": ""}
        common |= {"duration": "0", "revenue": "0", "region": "", "longitude": None, "latitude": None}
        steps: list[tuple[str, int, dict[str, Any]]] = [
            ("session_start", 0, {}),
            ("screen_view", 0, {"properties": {"__title": "Lumen", "__query.utm_source": "mail", "__reqId": "r-1"}}),
            ("screen_view", 41, {"path": "/preise", "referrer": "https://www.search.example/"}),
            ("session_end", 400, {"duration": "400000", "properties": {"__bounce": "false"}}),
        ]
        if number % 2:
            own = {"groups": ["acme"], "revenue": "4910", "properties": {"items": "2", "currency": "EUR"}}
            steps.insert(3, ("revenue", 90, own))
        for name, seconds, own in steps:
            moment = f"{at + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}.120"
            one = {
                "id": uuid4(rng),
                "name": name,
                **common,
                "properties": {},
                "created_at": moment,
                "imported_at": None,
            }
            found.append(one | own)
    return sorted(found, key=lambda one: one["created_at"])


def tables(seed: int = 33) -> dict[str, list[str]]:
    """The lines of the four tables, by their names."""
    users = sorted({one["profile_id"] for one in events(seed) if one["profile_id"] != one["device_id"]})
    made = {"project_id": "lumen", "created_at": "2024-03-30 22:41:00.000"}
    names = {"first_name": "Ada", "last_name": "", "avatar": ""}
    return {
        "events": [row(one) for one in events(seed)],
        "profiles": [
            row(
                {"id": user, "is_external": True, **names, "email": f"{user}@lumen.example"}
                | made
                | {"properties": {"plan": "pro"}}
            )
            for user in users
        ],
        "profile_aliases": [row({"project_id": "lumen", "profile_id": users[0], "alias": "old-1"} | made)],
        "groups": [
            row(
                {
                    "id": "acme",
                    "type": "company",
                    "name": "Acme",
                    "properties": {"plan": "pro"},
                    **made,
                    "version": "1",
                    "deleted": 0,
                }
            )
        ],
    }
