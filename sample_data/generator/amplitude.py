"""Amplitude's Export API: a zip of hours, each a gzip of JSON lines, named by the hour of *upload* in UTC.

A row of the web, of iOS and of Android means different things by `os_name` and `device_type`; `EMPTY` stands
for nothing; session −1 is no session; an event may stand in a far later hour than its own
(docs/know/exports.md#amplitude).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from sample_data.generator.spelling import hexes, row, spelled, uuid4

PROJECT = 274651
START = datetime(2022, 5, 10, 9, tzinfo=UTC)

PLATFORMS: dict[str, dict[str, Any]] = {
    "Web": {
        "os_name": "Chrome",
        "os_version": "101",
        "device_type": "Mac",
        "device_family": "Mac OS X",
        "library": "amplitude-ts/2.16.1",
        "country": "Germany",
        "region": "Berlin",
        "city": "Berlin",
        "language": "German",
    },
    "iOS": {
        "os_name": "ios",
        "os_version": "15.4.1",
        "device_type": "Apple iPhone 12 Mini",
        "device_family": "Apple iPhone",
        "device_brand": "Apple",
        "device_manufacturer": "Apple",
        "device_model": "iPhone13,1",
        "device_carrier": "Orange CI",
        "library": "amplitude-ios/8.8.0",
        "version_name": "2.3.0",
        "country": "Côte d'Ivoire",
        "region": "Abidjan",
        "city": "Abidjan",
        "language": "French",
    },
    "Android": {
        "os_name": "android",
        "os_version": "12",
        "device_type": "Samsung Galaxy S21",
        "device_family": "Samsung Galaxy",
        "device_brand": "samsung",
        "device_manufacturer": "samsung",
        "device_model": "SM-G991B",
        "device_carrier": "Turkcell",
        "library": "amplitude-android/2.36.1",
        "version_name": "2.2.9",
        "country": "Türkiye",
        "region": "İstanbul",
        "city": "İstanbul",
        "language": "Turkish",
    },
}

NULLS = [
    "adid",
    "amplitude_attribution_ids",
    "amplitude_event_type",
    "device_brand",
    "device_carrier",
    "device_manufacturer",
    "device_model",
    "dma",
    "global_user_properties",
    "idfa",
    "is_attribution_event",
    "location_lat",
    "location_lng",
    "partner_id",
    "paying",
    "sample_rate",
    "source_id",
    "start_version",
    "version_name",
]

INITIAL = {
    "initial_dclid": "EMPTY",
    "initial_fbclid": "EMPTY",
    "initial_gclid": "EMPTY",
    "initial_referrer": "https://search.example/",
    "initial_referring_domain": "search.example",
    "initial_utm_campaign": "EMPTY",
    "initial_utm_source": "newsletter",
}


class _Export:
    """Collects rows by the hour they were uploaded in."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.hours: dict[str, list[str]] = {}
        self.number = 0

    def add(self, kind: str, at: datetime, platform: str, late: timedelta = timedelta(0), **own: Any) -> dict[str, Any]:
        """Append one event with all the keys an export row has; `own` overrides any of them."""
        self.number += 1
        rng = self.rng
        at = at.replace(microsecond=rng.randrange(1000) * 1000)
        uploaded = at + late + timedelta(milliseconds=rng.randrange(80, 4_000))
        received = uploaded + timedelta(milliseconds=rng.randrange(10, 400))
        fields: dict[str, Any] = dict.fromkeys(NULLS)
        fields |= {
            "$insert_id": uuid4(rng),
            "$insert_key": hexes(rng, 34),
            "$schema": 13,
            "amplitude_id": 380_000_000_000 + rng.randrange(9_999_999),
            "app": PROJECT,
            "client_event_time": _text(at),
            "client_upload_time": _text(uploaded),
            "data": {"path": "/2/httpapi", "group_first_event": {}, "group_ids": {}},
            "data_type": "event",
            "device_id": uuid4(rng),
            "event_id": self.number,
            "event_properties": {},
            "event_time": _text(at),
            "event_type": kind,
            "group_properties": {},
            "groups": {},
            "ip_address": f"203.0.113.{rng.randrange(1, 255)}",
            "plan": {},
            "platform": platform or None,
            "processed_time": _text(received + timedelta(seconds=2)),
            "server_received_time": _text(received),
            "server_upload_time": _text(received + timedelta(milliseconds=40)),
            "session_id": -1,
            "user_creation_time": _text(START - timedelta(days=40)),
            "user_id": None,
            "user_properties": {},
            "uuid": uuid4(rng),
        }
        fields |= PLATFORMS.get(platform, {})
        fields |= own
        fields = dict(sorted(fields.items()))
        self.put(fields, received)
        return fields

    def put(self, fields: dict[str, Any], uploaded: datetime) -> None:
        """Append a finished row to the hour it was uploaded in; the hour is not zero-padded."""
        name = f"{PROJECT}/{PROJECT}_{uploaded:%Y-%m-%d}_{uploaded.hour}#0.json.gz"
        self.hours.setdefault(name, []).append(row(fields))


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S.%f}"


def members(seed: int = 274651) -> dict[str, list[str]]:
    """The zip's members in order: name to JSON lines, the same for the same seed."""
    export = _Export(seed)
    _web(export)
    _mobile(export)
    _servers(export)
    order = sorted(export.hours, key=lambda name: (len(name), name))
    return {name: export.hours[name] for name in order}


def _web(export: _Export) -> None:
    rng, devices = export.rng, [uuid4(export.rng) for _ in range(3)]
    for number, device in enumerate(devices):
        begin = START + timedelta(minutes=17 * number + 3)
        user = None if number == 2 else f"user-{number + 1}"
        session = int(begin.timestamp() * 1000)
        common: dict[str, Any] = {
            "device_id": device,
            "session_id": session,
            "amplitude_id": 381_000_000_000 + number,
        }
        first: dict[str, Any] = {
            "user_properties": dict(INITIAL),
            "is_attribution_event": False,
            "paying": None,
        }
        export.add("session_start", begin, "Web", **common, **first)
        location = "https://lumen.example/pricing?utm_source=newsletter&plan=pro%20plus#faq"
        page = {
            "[Amplitude] Page Location": location,
            "[Amplitude] Page URL": location.split("?")[0],
            "[Amplitude] Page Domain": "lumen.example",
            "[Amplitude] Page Path": "/pricing",
            "[Amplitude] Page Title": "Pricing – Lumen",
            "[Amplitude] Page Counter": 1,
            "utm_source": "newsletter",
            "referrer": "https://search.example/",
            "referring_domain": "search.example",
        }
        export.add(
            "[Amplitude] Page Viewed",
            begin + timedelta(seconds=1),
            "Web",
            event_properties=page,
            **common,
            **first,
        )
        click = {"[Amplitude] Element Text": "Try it 🚀", "[Amplitude] Element Tag": "button", **page}
        export.add(
            "[Amplitude] Element Clicked",
            begin + timedelta(seconds=9),
            "Web",
            event_properties=click,
            **common,
        )
        if user is None:
            continue
        known = {
            **common,
            "user_id": user,
            "user_properties": {**INITIAL, "tier": "pro", "seats": 4 + number},
        }
        export.add("$identify", begin + timedelta(seconds=30), "Web", **known)
        groups: dict[str, Any] = {"groups": {"company": ["acme", "acme labs"]}}
        groups["group_properties"] = {"company": {"acme": {"industry": "lighting", "employees": spelled("120")}}}
        order = {"$revenue": spelled("49.10"), "$price": spelled("24.55"), "$quantity": 2, "$currency": "EUR"}
        order |= {
            "items": [{"sku": "L-1"}, {"sku": "L-2"}],
            "ratio": spelled("1.10"),
            "id": spelled("9007199254740993"),
        }
        paid = export.add(
            "revenue_amount", begin + timedelta(minutes=2), "Web", event_properties=order, **groups, **known
        )
        export.add(
            "Plan Chosen",
            begin + timedelta(minutes=3),
            "Web",
            event_properties={"plan": "pro"},
            **groups,
            **known,
        )
        export.add("$exposure", begin + timedelta(minutes=4), "Web", event_properties=_exposure(rng), **known)
        if number == 0:
            # The same row again, in a later hour of the same export.
            export.put(paid, START + timedelta(hours=2))


def _exposure(rng: Random) -> dict[str, str]:
    return {"flag_key": "short-form", "variant": rng.choice(["control", "test"])}


def _mobile(export: _Export) -> None:
    for number, platform in enumerate(["iOS", "Android"]):
        begin = START + timedelta(hours=1, minutes=7 + number)
        device = uuid4(export.rng).upper() if platform == "iOS" else uuid4(export.rng) + "R"
        session = int(begin.timestamp() * 1000)
        common: dict[str, Any] = {"device_id": device, "user_id": f"user-{number + 3}", "session_id": session}
        installed = {"[Amplitude] Version": "2.3.0", "[Amplitude] Build": "231"}
        export.add("[Amplitude] Application Installed", begin, platform, event_properties=installed, **common)
        opened = installed | {"[Amplitude] From Background": False}
        export.add(
            "[Amplitude] Application Opened",
            begin + timedelta(seconds=1),
            platform,
            event_properties=opened,
            **common,
        )
        for step, screen in enumerate(["Home", "Lamps", "Réglages"]):
            export.add(
                "[Amplitude] Screen Viewed",
                begin + timedelta(seconds=4 + 3 * step),
                platform,
                event_properties={"[Amplitude] Screen Name": screen},
                **common,
            )
        offline: dict[str, Any] = {
            "event_properties": {"on": True, "level": 40 + number},
            "location_lat": 5.36,
            "location_lng": -4.0083,
        }
        export.add("Lamp Switched", begin + timedelta(minutes=5), platform, timedelta(hours=6), **offline, **common)
        export.add("session_end", begin + timedelta(minutes=9), platform, **common)


def _servers(export: _Export) -> None:
    begin = START + timedelta(hours=1, minutes=31)
    segment: dict[str, Any] = {
        "library": "segment",
        "user_id": "user-1",
        "user_properties": {"[Segment] Group": "acme", "tier": "EMPTY"},
    }
    export.add("Application Opened", begin, "iOS", **{**segment, "event_properties": {"from_background": "true"}})
    export.add("Order Completed", begin + timedelta(seconds=5), "", **segment, event_properties={"total": "12.50"})
    for number in range(3):
        export.add(
            "Invoice Sent",
            begin + timedelta(minutes=number),
            "",
            library="http/2.0",
            user_id=f"user-{number + 1}",
            event_properties={"number": number, "net": spelled(f"{100 + number}.00")},
        )
