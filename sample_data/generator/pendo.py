"""Pendo Data Sync: Avro files with their manifest, below a folder for each application, for visitors and for accounts.

The second export has the first day again, as a finalised day, and the third one matched events alone, as Pendo makes it
after a change of rules. Columns are those of Pendo's documentation, layout and manifest those of its loader
(docs/know/exports.md#pendo).
"""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import fastavro

Row = dict[str, Any]

ROOT = "datasync/5721/-323232"
EXPORTS = ("0b9e7b1c-aaaa-4000-8000-000000000001", "7c1d0e2f-bbbb-4000-8000-000000000002",
           "1e9a3c4d-cccc-4000-8000-000000000003")  # fmt: skip
DAYS = ("2023-06-01", "2023-06-02")
PAGE, FEATURE, TRACK, GUIDE = "q95zvVQ6m5wyBz7Page", "84eKv2U6eGlGgFeature", "RLyUkC9TYIYwTrack", "y79LPO5hn8iSGuide"
AGENT = ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/114.0.0.0"
         " Safari/537.36")  # fmt: skip
_TEXTS = ("eventSource", "visitorId", "oldVisitorId", "accountId", "url", "title", "elementPath", "propertiesJson",
          "trackTypeId", "remoteIp", "userAgent", "country", "region", "language", "browser", "guideId", "guideStepId",
          "pollId", "pollResponse", "version")  # fmt: skip
_MILLIS = {"type": "long", "logicalType": "timestamp-millis"}


def events(day: str, *, final: bool, seed: int = 13) -> list[Row]:
    """The events of a day. The finalised ones have one that came late, and lack one that Pendo took out."""
    rng = Random(f"{seed} {day}")
    start = datetime.fromisoformat(day).replace(tzinfo=UTC)
    found: list[Row] = []

    def add(kind: str, minute: float, **columns: Any) -> None:
        found.append({
            "eventId": f"{rng.getrandbits(96):024x}", "periodId": start.date(), "eventType": kind,
            "browserTimestamp": start + timedelta(minutes=minute), "appId": -323232, **columns,
        })  # fmt: skip

    for number, (name, account) in enumerate([("ada@example.com", "acme"), ("bo@example.com", "globex"), ("", "")]):
        anonymous = f"_PENDO_T_{rng.getrandbits(48):012x}"
        common = {
            "eventSource": "web", "accountId": account, "remoteIp": f"203.0.113.{number}", "userAgent": AGENT,
            "country": ("DE", "US", "FR")[number], "region": ("be", "co", "pac")[number], "language": "de-DE",
            "latitude": 52.5 + number, "longitude": 13.25, "browser": "Chrome", "version": "2.192.0",
        }  # fmt: skip
        at = 600 + 60 * number
        add("load", at, **common, visitorId=anonymous, url="https://app.example/", title="Start")
        if name:
            add("identify", at + 1, **common, visitorId=name, oldVisitorId=anonymous)
            known = {**common, "visitorId": name, "url": "https://app.example/preise?plan=pro"}
            add("load", at + 2, **known, title="Preise")
            add("focus", at + 3, **known, elementPath="INPUT#seats")
            add("change", at + 3.5, **known, elementPath="INPUT#seats")
            add("click", at + 4, **known, elementPath="BUTTON#kaufen", propertiesJson=json.dumps({"seats": 3 + number}))
            add("track", at + 5, **known, trackTypeId=TRACK, propertiesJson='{"total":49.10,"währung":"EUR"}')
            add("guideSeen", at + 6, **known, guideId=GUIDE, guideStepId="step-1")
            add("pollResponse", at + 7, **known, guideId=GUIDE, pollId="poll-1", pollResponse=str(8 + number))
            add("meta", at + 8, **known)
    late = found.pop()
    if final:
        del found[2]
        found.append(late)
    return found


def _avro(name: str, rows: list[Row], fields: list[Row]) -> bytes:
    target = io.BytesIO()
    schema = {"type": "record", "name": name, "namespace": "io.pendo.example", "fields": fields}
    fastavro.writer(target, schema, rows, sync_marker=b"backcast-samples")
    return target.getvalue()


def _events(rows: list[Row]) -> bytes:
    fields: list[Row] = [{"name": "eventId", "type": "string"}, {"name": "eventType", "type": "string"}]
    fields += [{"name": "periodId", "type": {"type": "int", "logicalType": "date"}}]
    fields += [{"name": "browserTimestamp", "type": _MILLIS}, {"name": "appId", "type": "long"}]
    fields += [{"name": name, "type": ["null", "double"], "default": None} for name in ("latitude", "longitude")]
    fields += [{"name": name, "type": ["null", "string"], "default": None} for name in ("matchableId", *_TEXTS)]
    return _avro("Event", rows, fields)


def _names(id_name: str, id_: str, name: str) -> bytes:
    fields = [{"name": id_name, "type": "string"}, {"name": "name", "type": "string"}]
    return _avro("Definition", [{id_name: id_, "name": name}], fields)


def _metadata(rows: list[Row]) -> bytes:
    """Visitors or accounts, their metadata in columns for each group and name."""
    names = [name for name in rows[0] if name not in ("id", "auto__lastupdated")]
    fields: list[Row] = [{"name": "id", "type": "string"}, {"name": "auto__lastupdated", "type": _MILLIS}]
    return _avro("Metadata", rows, [*fields, *({"name": name, "type": ["null", "string", "long"]} for name in names)])


def files() -> dict[str, bytes]:
    """Every file of the export by its path."""
    first, second, third = EXPORTS
    made = {
        f"{ROOT}/{first}/allevents-{DAYS[0]}.avro": _events(events(DAYS[0], final=False)),
        f"{ROOT}/{second}/allevents-{DAYS[0]}.avro": _events(events(DAYS[0], final=True)),
        f"{ROOT}/{second}/allevents-{DAYS[1]}.avro": _events(events(DAYS[1], final=False)),
    }
    clicks = [row for row in events(DAYS[1], final=False) if row["eventType"] == "click"]
    matched = _events([{**row, "matchableId": f"Feature/{FEATURE}"} for row in clicks])
    made[f"{ROOT}/{third}/matchedEvents/Feature/{FEATURE}.avro"] = matched
    for export, track in ((first, "Bestellung"), (second, "Order Completed")):
        made |= {
            f"{ROOT}/{export}/allpages.avro": _names("pageId", PAGE, "Prices"),
            f"{ROOT}/{export}/allfeatures.avro": _names("featureId", FEATURE, "Buy button"),
            f"{ROOT}/{export}/alltracktypes.avro": _names("trackTypeId", TRACK, track),
            f"{ROOT}/{export}/allguides.avro": _names("guideId", GUIDE, "Welcome"),
        }
    made[f"{ROOT}/exportmanifest.json"] = _manifest()
    at = datetime(2023, 6, 3, 2, tzinfo=UTC)
    visitors = [
        {"id": name, "auto__lastupdated": at, "auto__firstvisit": 1685600000000, "agent__email": name,
         "agent__plan": plan}
        for name, plan in (("ada@example.com", "pro"), ("bo@example.com", None))
    ]  # fmt: skip
    accounts = [
        {"id": name, "auto__lastupdated": at, "agent__name": title, "custom__seats": seats}
        for name, title, seats in (("acme", "Acme", 7), ("globex", "Globex", 30))
    ]
    root = ROOT.rpartition("/")[0]
    for kind, rows in (("visitor", visitors), ("account", accounts)):
        folder = f"{root}/{kind}/{first}"
        made[f"{folder}/{kind}s.avro"] = _metadata(rows)
        listed = {"counter": 1, "rootUrl": f"gs://example/{folder}", f"{kind}s": {"files": [f"{kind}s.avro"]}}
        made[f"{root}/{kind}/exportmanifest.json"] = json.dumps({"exports": [listed]}, indent=1).encode()
    return made


def _manifest() -> bytes:
    listed = []
    for number, (export, days) in enumerate(zip(EXPORTS, (DAYS[:1], DAYS, ()), strict=True), 1):
        periods: list[Row] = [
            {"periodId": f"{day}T00:00:00Z", "allEvents": {"files": [f"allevents-{day}.avro"]}, "matchedEvents": []}
            for day in days
        ]
        if not days:
            matched = {"id": f"Feature/{FEATURE}", "files": [f"matchedEvents/Feature/{FEATURE}.avro"]}
            periods = [{"periodId": f"{DAYS[1]}T00:00:00Z", "matchedEvents": [matched]}]
        names = {"page": "allpages", "feature": "allfeatures", "trackType": "alltracktypes", "guide": "allguides"}
        definitions = {f"{kind}DefinitionsFile": [f"{name}.avro"] for kind, name in names.items()} if days else {}
        url = f"gs://example/{ROOT}/{export}"
        listed.append({"counter": number, "rootUrl": url, **definitions, "timeDependent": periods})
    return json.dumps({"exports": listed}, indent=1).encode()
