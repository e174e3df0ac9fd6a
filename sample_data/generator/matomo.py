"""Matomo's Live API: a JSON list of visits with their actions, and the same visits as CSV in UTF-16; and the rows that
the queries of docs/use/sources/matomo.md make of them in Matomo's database.

The site is in Auckland, so the time of an action is 13 hours ahead of UTC, written as if it were UTC; the times of a
visit are UTC. Labels are in the language that was asked for (docs/know/exports.md#matomo).
"""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from random import Random
from typing import Any

from sample_data.generator.spelling import hexes

START = int(datetime(2024, 1, 14, 20, 5, tzinfo=UTC).timestamp())
AUCKLAND = 13 * 3600
HOST = "https://lumen.example"
CLIENTS: list[dict[str, str]] = [
    {"deviceType": "Desktop", "deviceBrand": "Apple", "operatingSystemName": "Mac", "operatingSystemVersion": "14.2"}
    | {"browserName": "Safari", "browserVersion": "17.2", "resolution": "1728x1117", "countryCode": "nz"}
    | {"country": "Neuseeland", "languageCode": "en-nz", "continent": "Ozeanien"},
    {
        "deviceType": "Smartphone",
        "deviceBrand": "Samsung",
        "deviceModel": "Galaxy S21",
        "operatingSystemName": "Android",
    }
    | {"operatingSystemVersion": "13", "browserName": "Chrome Mobile", "browserVersion": "120.0", "countryCode": "at"}
    | {
        "resolution": "412x915",
        "country": "Österreich",
        "languageCode": "de-at",
        "continent": "Europa",
        "city": "Wien",
    },
    {"deviceType": "Tablet", "deviceBrand": "Unknown", "operatingSystemName": "iOS", "browserName": "Mobile Safari"}
    | {
        "resolution": "unknown",
        "countryCode": "xx",
        "country": "Unknown",
        "languageCode": "fr",
        "continent": "Unknown",
    },
]


def visits(seed: int = 11) -> list[dict[str, Any]]:
    """The visits, the latest first as the API returns them."""
    rng = Random(seed)
    return [_visit(rng, number) for number in reversed(range(6))]


def _visit(rng: Random, number: int) -> dict[str, Any]:
    begin = START + 3600 * number
    steps = _actions(number)
    actions = []
    for step, own in enumerate(steps):
        action = {"timestamp": begin + AUCKLAND + 37 * step, "icon": None, "timeSpent": "37"}
        if own["type"] not in ("goal", "ecommerceOrder"):
            action["pageId"] = str(9_000 + 20 * number + step)
        actions.append(action | own)
    return {
        "idSite": "3",
        "idVisit": str(700 + number),
        "visitIp": f"203.0.{rng.randrange(256)}.0",
        "visitorId": hexes(rng, 16),
        "userId": f"user-{number}" if number % 3 == 1 else None,
        "actionDetails": actions,
        "siteCurrency": "NZD",
        "firstActionTimestamp": begin,
        "lastActionTimestamp": begin + 37 * (len(steps) - 1),
        "visitorType": "returning" if number > 3 else "new",
        "referrerType": "campaign" if number == 4 else "direct" if number % 2 else "search",
        "referrerName": "frühling" if number == 4 else "",
        "referrerKeyword": "lampe" if number == 4 else "",
        "referrerUrl": "" if number % 2 else "https://search.example/",
        "dimension1": "vip" if number == 1 else None,
        **{name: "" for client in CLIENTS for name in client},
        **CLIENTS[number % len(CLIENTS)],
    }


def _actions(number: int) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = [
        {"type": "action", "url": f"{HOST}/", "pageTitle": "Lumen", "idpageview": "aB3dE6"},
        {"type": "action", "url": f"{HOST}/preise?utm_medium=e-mail", "pageTitle": "Preise – Lumen"},
    ]
    if number % 2:
        steps.append({"type": "event", "url": f"{HOST}/preise", "eventCategory": "Video", "eventAction": "Play"})
        steps[-1] |= {"eventName": "Einführung", "eventValue": "1.50"}
        steps.append({"type": "search", "siteSearchKeyword": "lampe", "siteSearchCount": "3"})
    if number % 3 == 0:
        steps.append({"type": "outlink", "url": "https://partner.example/a"})
        steps.append({"type": "download", "url": f"{HOST}/katalog.pdf"})
        steps.append({"type": "goal", "goalName": "Katalog", "goalId": "2", "goalPageId": "1", "revenue": "0"})
    if number % 3 == 1:
        items = [{"itemSKU": f"L-{one}", "itemName": "Lampe", "price": "24.55", "quantity": "1"} for one in (1, 2)]
        steps.append({"type": "ecommerceOrder", "orderId": f"A-{number}", "revenue": "49.10", "itemDetails": items})
    return steps


PREFIXES = ("http://", "http://www.", "https://", "https://www.")
CODES = {"Mac": "MAC", "Android": "AND", "iOS": "IOS", "Safari": "SF", "Chrome Mobile": "CM", "Mobile Safari": "MF"}
TYPES = {"Desktop": 0, "Smartphone": 1, "Tablet": 2}


def queried(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of the query of actions and of that of conversions, for the same visits."""
    actions: list[dict[str, Any]] = []
    conversions: list[dict[str, Any]] = []
    for visit in reversed(rows):
        for step, action in enumerate(visit["actionDetails"]):
            clock = datetime.fromtimestamp(action["timestamp"] - AUCKLAND, UTC)
            shared = _of_visit(visit) | {"server_time": f"{clock:%Y-%m-%d %H:%M:%S}.000000"}
            if "pageId" in action:
                actions.append(
                    {"idlink_va": int(action["pageId"]), **shared, **_names(action), "first_action": +(not step)}
                )
            else:
                conversions.append({**shared, **_conversion(action), "buster": step, "currency": "NZD"})
    return actions, conversions


def _of_visit(visit: dict[str, Any]) -> dict[str, Any]:
    """The columns of a visit; its client is written in codes."""
    types = {"direct": 1, "search": 2, "campaign": 6}
    return {
        "idsite": int(visit["idSite"]),
        "idvisit": int(visit["idVisit"]),
        "visitor_id": visit["visitorId"],
        "user_id": visit["userId"],
        "visit_start": visit["firstActionTimestamp"],
        "referer_type": types[visit["referrerType"]],
        "referer_name": visit["referrerName"] or None,
        "referer_keyword": visit["referrerKeyword"] or None,
        "referer_url": visit["referrerUrl"] or None,
        "config_os": CODES[visit["operatingSystemName"]],
        "config_os_version": visit["operatingSystemVersion"],
        "config_browser_name": CODES[visit["browserName"]],
        "config_browser_version": visit["browserVersion"],
        "config_device_type": TYPES[visit["deviceType"]],
        "config_device_model": visit["deviceModel"],
        "config_resolution": visit["resolution"],
        "location_browser_lang": visit["languageCode"],
        "location_country": visit["countryCode"],
        "location_city": visit["city"] or None,
        "ip": visit["visitIp"],
    }


def _names(action: dict[str, Any]) -> dict[str, Any]:
    """The columns of log_action that the query adds to an action."""
    url = action.get("url")
    found: dict[str, Any] = {"idpageview": action.get("idpageview")}
    if url is not None:
        scheme = 2 if url.startswith(PREFIXES[2]) else 0
        kind = {"outlink": 2, "download": 3}.get(action["type"], 1)
        found |= {"url_type": kind, "url_prefix": scheme, "url": url.removeprefix(PREFIXES[scheme])}
    for kind, member in ((4, "pageTitle"), (8, "siteSearchKeyword"), (12, "eventName")):
        if member in action:
            found |= {"name_type": kind, "name": action[member]}
    if action["type"] == "event":
        found |= {"event_category": action["eventCategory"], "event_action": action["eventAction"]}
        found |= {"custom_float": float(action["eventValue"])}
    return found | {"search_count": int(action.get("siteSearchCount", 0)) or None}


def _conversion(action: dict[str, Any]) -> dict[str, Any]:
    if action["type"] == "goal":
        return {"idgoal": int(action["goalId"]), "goal_name": action["goalName"], "revenue": float(action["revenue"])}
    return {"idgoal": 0, "idorder": action["orderId"], "revenue": 49.1, "products": action["itemDetails"]}


def document(rows: list[dict[str, Any]]) -> bytes:
    """The list as the API writes it."""
    return json.dumps(rows, separators=(",", ":")).replace("/", "\\/").encode()


def table_text(rows: list[dict[str, Any]]) -> bytes:
    """CSV in UTF-16 with a byte order mark; the columns are those of all visits, and lists are numbered."""
    flat = [_flat(row) for row in rows]
    names = list(dict.fromkeys(name for one in flat for name in one))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([[one.get(name, "") for name in names] for one in flat])
    return out.getvalue().encode("utf-16")


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, member in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(member, (dict, list)):
            found |= _flat(member, f"{prefix}{name}_")
        else:
            found[f"{prefix}{name}"] = "" if member is None else member
    return found
