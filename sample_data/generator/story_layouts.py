"""The story of Fernway as each tool exports it: what a layout cannot hold is missing there, and nothing else.

Mixpanel has the clock of the project, which moved from Berlin to New York, and its last days of a file are the first of
the next one. Its export has no teams' properties, and a table of no tool in particular (`generic`) has no teams.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from sample_data.generator.messages import tables
from sample_data.generator.segment import table_text
from sample_data.generator.spelling import lines, row
from sample_data.generator.story import MOVED, Call, Person

CUTS = (date(2023, 3, 6), date(2023, 12, 31), date(2024, 9, 30), date(2025, 3, 2))
"""The days on which the files of Mixpanel's export begin and end."""
AGENTS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.2"
    " Safari/605.1.15",
    "Mozilla/5.0 (X11; Linux x86_64; rv:121.0) Gecko/20100101 Firefox/121.0",
)
BROWSERS = (("Chrome", 120, "Windows"), ("Safari", 17, "Mac OS X"), ("Firefox", 121, "Linux"))
PHONES = {
    "ios": {"system": "iOS", "version": "17.2", "maker": "Apple", "model": "iPhone14,5"},
    "android": {"system": "Android", "version": "14", "maker": "Google", "model": "Pixel 7"},
}


def _browser(person: Person) -> int:
    """Which of the browsers somebody uses."""
    return int(person.device[0], 16) % len(BROWSERS)


def _uuid(call: Call) -> str:
    """A UUID with the number of the call at its end."""
    return f"0186b4f2-7c00-7000-8000-{call.number:012x}"


def _milliseconds(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# --- Mixpanel ---------------------------------------------------------------------------------------------------------


def mixpanel(calls: list[Call]) -> dict[str, bytes]:
    """Three responses of the export API, and the people as the Engage API has them."""
    files = {}
    for first, last in pairwise(CUTS):
        found = [call for call in calls if call.kind != "group" and first <= _wall(call).date()]
        rows = [_mixpanel_row(call) for call in found if _wall(call).date() <= last or last == CUTS[-1]]
        files[f"{first}_{last}.jsonl"] = lines(rows)
    people = {call.user: call for call in calls if call.kind == "identify"}
    profiles = [
        {"$distinct_id": user, "$properties": {"$email": call.own["email"], "plan": call.own["plan"],
         "$created": call.own["signed_up"] + "T00:00:00", "$city": call.person.place.city}}
        for user, call in people.items() if call.person
    ]  # fmt: skip
    files["people.jsonl"] = lines([row(profile) for profile in profiles])
    return files


def _wall(call: Call) -> datetime:
    """What the project's clock read."""
    zone = ZoneInfo("Europe/Berlin" if call.at < MOVED[1] else "America/New_York")
    return call.at.astimezone(zone).replace(tzinfo=None)


def _mixpanel_row(call: Call) -> str:
    person, own = call.person, dict(call.own)
    seconds = int(_wall(call).replace(tzinfo=UTC).timestamp())
    made: dict[str, Any] = {"time": seconds, "distinct_id": call.user or (person.device if person else "")}
    made["$insert_id"] = f"{call.number:016x}"
    if call.kind == "identify" and person:
        name, own = "$identify", {"$identified_id": call.user, "$anon_id": person.device}
    else:
        name = {"$pageview": "$mp_web_page_view", "$screen": "$mp_page_view"}.get(call.name, call.name)
    if person:
        made |= {"$device_id": person.device} | ({"$user_id": call.user} if call.user else {})
        place = person.place
        made |= {"$city": place.city, "$region": place.region, "mp_country_code": place.code}
    if call.platform == "web" and person:
        browser, version, system = BROWSERS[_browser(person)]
        made |= {"mp_lib": "web", "$browser": browser, "$browser_version": version, "$os": system}
    elif person:
        phone = PHONES[person.platform]
        made |= {"mp_lib": "iphone" if person.platform == "ios" else person.platform, "$os": phone["system"]}
        made |= {"$os_version": phone["version"], "$manufacturer": phone["maker"], "$model": phone["model"]}
    if name == "$mp_web_page_view":
        made |= {"$current_url": call.url, "current_page_title": call.page[1], "current_url_path": call.page[0],
                 "current_domain": "fernway.example"} | call.utm  # fmt: skip
        made |= {"$referrer": call.referrer} if call.referrer else {}
    elif name == "$mp_page_view":
        own = {"$screen_name": own["screen"]}
    made |= own | ({"team": call.team} if call.team else {})
    received = _milliseconds(call.received)
    made |= {"$mp_api_timestamp_ms": received, "mp_processing_time_ms": received + 400}
    return row({"event": name, "properties": made})


# --- Amplitude --------------------------------------------------------------------------------------------------------


def amplitude(calls: list[Call]) -> dict[str, bytes]:
    """Rows as Amplitude exports them, a file a quarter."""
    quarters: dict[str, list[str]] = {}
    for call in calls:
        quarter = f"{call.received.year}Q{(call.received.month + 2) // 3}"
        quarters.setdefault(f"events_{quarter}.json", []).append(row(_amplitude_row(call)))
    return {name: lines(rows) for name, rows in quarters.items()}


def _amplitude_row(call: Call) -> dict[str, Any]:
    person, own, user = call.person, dict(call.own), {}
    made: dict[str, Any] = {"$insert_id": f"{call.number:08x}", "event_time": _space(call.at)}
    made |= {"server_received_time": _space(call.received), "user_id": call.user or None}
    name = {
        "$pageview": "[Amplitude] Page Viewed", "$screen": "[Amplitude] Screen Viewed",
        "Application Installed": "[Amplitude] Application Installed",
        "Application Opened": "[Amplitude] Application Opened",
    }.get(call.name, call.name)  # fmt: skip
    if call.kind == "identify":
        name, user, own = "$identify", own, {}
    elif call.kind == "group":
        name, own = "$groupidentify", {}
        made["group_properties"] = {"team": {call.team: call.own}}
    elif name.startswith("[Amplitude] Page"):
        own = {"[Amplitude] Page Location": call.url, "[Amplitude] Page Domain": "fernway.example",
               "[Amplitude] Page Path": call.page[0], "[Amplitude] Page Title": call.page[1], **call.utm}  # fmt: skip
        own |= {"referrer": call.referrer} if call.referrer else {}
    elif name.startswith("[Amplitude] Screen"):
        own = {"[Amplitude] Screen Name": own["screen"]}
    elif name.startswith("[Amplitude]"):
        own = {"[Amplitude] Version": own["version"]}
    if "revenue" in own:
        own = {f"${key}" if key in ("revenue", "currency") else key: value for key, value in own.items()}
    made |= {"event_type": name, "event_properties": own, "user_properties": user}
    if call.team:
        made["groups"] = {"team": [call.team]}
    if person:
        place = person.place
        made |= {"device_id": person.device, "country": place.country, "region": place.region, "city": place.city}
    if call.platform == "web" and person:
        browser, version, system = BROWSERS[_browser(person)]
        made |= {"platform": "Web", "os_name": browser, "os_version": str(version), "device_family": system}
    elif person:
        phone = PHONES[person.platform]
        made |= {"platform": phone["system"], "os_name": person.platform, "os_version": phone["version"],
                 "device_brand": phone["maker"], "device_type": phone["model"]}  # fmt: skip
    return made


def _space(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S.%f}"[:23]


# --- Segment and RudderStack ------------------------------------------------------------------------------------------


def segment(calls: list[Call]) -> dict[str, bytes]:
    """Tables of Segment's warehouse."""
    return _warehouse(calls, {"uuid_ts": "2025-03-04T04:00:00.000Z"})


def rudderstack(calls: list[Call]) -> dict[str, bytes]:
    """Tables of RudderStack's warehouse."""
    return _warehouse(calls, {"context_source_id": "2DTlLPQxignYp4ag9sISgGN2uY7"})


def _warehouse(calls: list[Call], more: dict[str, Any]) -> dict[str, bytes]:
    """The calls as tables in CSV: one for each event, and those of the other calls. `tracks`, which repeats the rows of
    the events' own tables, is left out."""
    found = tables([_message(call) for call in calls])
    del found["tracks"]
    return {f"{name}.csv": table_text([one | more for one in rows]) for name, rows in found.items()}


def _message(call: Call) -> dict[str, Any]:
    person = call.person
    kind = {"$pageview": "page", "$screen": "screen"}.get(call.name, "track") if call.kind == "event" else call.kind
    context: dict[str, Any] = {"groupId": call.team} if call.team else {}
    if person and person.platform == "web":
        url = {"url": call.url, "path": call.page[0], "title": call.page[1], "referrer": call.referrer or None}
        campaign = {name.removeprefix("utm_").replace("campaign", "name"): value for name, value in call.utm.items()}
        context |= {"library": {"name": "analytics.js"}, "userAgent": AGENTS[_browser(person)], "page": url}
        context |= {"campaign": campaign} if campaign else {}
    elif person:
        phone = PHONES[person.platform]
        context |= {"library": {"name": f"analytics-{person.platform}"}}
        context |= {"os": {"name": phone["system"], "version": phone["version"]}}
        context |= {"device": {"type": person.platform, "manufacturer": phone["maker"], "model": phone["model"]}}
    else:
        context |= {"library": {"name": "analytics-python"}}
    own: dict[str, Any] = {} if kind in ("page", "screen") else dict(call.own)
    made = {
        "messageId": f"ajs-{call.number:08x}", "type": kind, "anonymousId": person.device if person else None,
        "userId": call.user or None, "timestamp": _iso(call.at), "originalTimestamp": None,
        "sentAt": None, "receivedAt": _iso(call.received), "context": context, "event": call.name,
    }  # fmt: skip
    made |= {"traits": own} if kind in ("identify", "group") else {"properties": own}
    made |= {"groupId": call.team} if kind == "group" else {}
    return made | ({"name": call.own["screen"]} if kind == "screen" else {})


# --- PostHog ----------------------------------------------------------------------------------------------------------


def posthog(calls: list[Call]) -> dict[str, bytes]:
    """A batch export of events."""
    return {"events.jsonl": lines([row(_posthog_row(call)) for call in calls])}


def _posthog_row(call: Call) -> dict[str, Any]:
    person, own, name = call.person, dict(call.own), call.name
    if call.kind == "identify" and person:
        name, own = "$identify", {"$anon_distinct_id": person.device, "$set": own}
    elif call.kind == "group":
        name, own = "$groupidentify", {"$group_type": "team", "$group_key": call.team, "$group_set": own}
    elif name == "$pageview":
        own = {"$current_url": call.url, "$host": "fernway.example", "$pathname": call.page[0], "title": call.page[1]}
        own |= call.utm | ({"$referrer": call.referrer} if call.referrer else {})
    elif name == "$screen":
        own = {"$screen_name": own["screen"]}
    if call.team and call.kind == "event":
        own["$groups"] = {"team": call.team}
    if person:
        own |= {"$device_id": person.device, "$geoip_city_name": person.place.city}
        own |= {"$geoip_country_code": person.place.code}
    if person and person.platform == "web":
        browser, version, system = BROWSERS[_browser(person)]
        own |= {"$lib": "web", "$browser": browser, "$browser_version": version, "$os": system}
    elif person:
        own |= {"$lib": f"posthog-{person.platform}", "$os": PHONES[person.platform]["system"]}
    return {
        "uuid": _uuid(call), "timestamp": _iso(call.at), "created_at": _iso(call.received), "event": name,
        "distinct_id": call.user or (person.device if person else ""), "properties": own,
    }  # fmt: skip


# --- A table ----------------------------------------------------------------------------------------------------------


def generic(calls: list[Call]) -> dict[str, bytes]:
    """The events as a CSV of one's own: no teams, and no rows that are no events."""
    events = [call for call in calls if call.kind == "event"]
    names = ("board", "plan", "seats", "revenue", "currency", "method", "screen")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["uuid", "time", "event", "user", "device", "platform", "city", "url", *names])
    for call in events:
        writer.writerow(_cells(call, names))
    return {"events.csv": out.getvalue().encode()}


def _cells(call: Call, names: Iterable[str]) -> list[Any]:
    person = call.person
    known = [call.user, person.device if person else "", call.platform, person.place.city if person else ""]
    url = quote(call.url, safe=":/?&=-") if call.page[0] else ""
    return [_uuid(call), _iso(call.at), call.name, *known, url, *(call.own.get(name, "") for name in names)]


LAYOUTS = (mixpanel, amplitude, segment, rudderstack, posthog, generic)
