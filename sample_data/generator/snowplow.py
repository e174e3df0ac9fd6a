"""Snowplow's enriched events as each way out writes them: stream archive, table of a warehouse, JSON of the SDKs.

An event here is its own columns, the entities of the tracker and of enrichment, and a payload, each of these as the
name of a schema and data in camel case. Warehouses write members in snake case (docs/know/exports.md#snowplow-forms).
"""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

from sample_data.generator.spelling import hexes, uuid4

_NAMES = (
    "app_id platform etl_tstamp collector_tstamp dvce_created_tstamp event event_id txn_id name_tracker "
    "v_tracker v_collector v_etl user_id user_ipaddress user_fingerprint domain_userid domain_sessionidx "
    "network_userid geo_country geo_region geo_city geo_zipcode geo_latitude geo_longitude geo_region_name "
    "ip_isp ip_organization ip_domain ip_netspeed page_url page_title page_referrer page_urlscheme "
    "page_urlhost page_urlport page_urlpath page_urlquery page_urlfragment refr_urlscheme refr_urlhost "
    "refr_urlport refr_urlpath refr_urlquery refr_urlfragment refr_medium refr_source refr_term mkt_medium "
    "mkt_source mkt_term mkt_content mkt_campaign contexts se_category se_action se_label se_property se_value "
    "unstruct_event tr_orderid tr_affiliation tr_total tr_tax tr_shipping tr_city tr_state tr_country "
    "ti_orderid ti_sku ti_name ti_category ti_price ti_quantity pp_xoffset_min pp_xoffset_max pp_yoffset_min "
    "pp_yoffset_max useragent br_name br_family br_version br_type br_renderengine br_lang br_features_pdf "
    "br_features_flash br_features_java br_features_director br_features_quicktime br_features_realplayer "
    "br_features_windowsmedia br_features_gears br_features_silverlight br_cookies br_colordepth br_viewwidth "
    "br_viewheight os_name os_family os_manufacturer os_timezone dvce_type dvce_ismobile dvce_screenwidth "
    "dvce_screenheight doc_charset doc_width doc_height tr_currency tr_total_base tr_tax_base tr_shipping_base "
    "ti_currency ti_price_base base_currency geo_timezone mkt_clickid mkt_network etl_tags dvce_sent_tstamp "
    "refr_domain_userid refr_dvce_tstamp derived_contexts domain_sessionid derived_tstamp event_vendor "
    "event_name event_format event_version event_fingerprint true_tstamp"
)
COLUMNS = _NAMES.split()
"""The columns of the archive, in their order."""

SNOWPLOW, MOBILE, SHOP = "com.snowplowanalytics.snowplow", "com.snowplowanalytics.mobile", "com.lumen"
PATH = "enriched/good/run=2023-11-15-02-00-00/part-00000.gz"
START = datetime(2023, 11, 14, 22, 40, tzinfo=UTC)
CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/118.0.0.0 Safari/537.36"
)
SAFARI = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.1"
    " Mobile/15E148 Safari/604.1"
)
YAUAA = "nl.basjes/yauaa_context/jsonschema/1-0-4"
AGENTS = {
    CHROME: {"agentClass": "Browser", "agentName": "Chrome", "agentVersion": "118", "agentVersionMajor": "118",
             "deviceBrand": "Unknown", "deviceClass": "Desktop", "deviceName": "Desktop",
             "operatingSystemName": "Windows NT", "operatingSystemVersion": "10.0", "webviewAppVersion": "??"},
    SAFARI: {"agentClass": "Browser", "agentName": "Safari", "agentVersion": "17.1", "agentVersionMajor": "17",
             "deviceBrand": "Apple", "deviceClass": "Phone", "deviceName": "Apple iPhone",
             "operatingSystemName": "iOS", "operatingSystemVersion": "17.1", "webviewAppVersion": "??"},
}  # fmt: skip
PLACES = [
    {"geo_country": "DE", "geo_region": "BE", "geo_city": "Berlin", "geo_zipcode": "10115", "geo_latitude": 52.5323,
     "geo_longitude": 13.3846, "geo_region_name": "Land Berlin", "geo_timezone": "Europe/Berlin"},
    {"geo_country": "TR", "geo_region": "35", "geo_city": "İzmir", "geo_latitude": 38.4127, "geo_longitude": 27.1384,
     "geo_region_name": "İzmir", "geo_timezone": "Europe/Istanbul"},
]  # fmt: skip

Described = tuple[str, dict[str, Any]]
"""The name of a schema such as com.acme/user/jsonschema/1-0-0, and data."""


class Event(NamedTuple):
    """One enriched event. Times in `own` are datetimes."""

    own: dict[str, Any]
    entities: list[Described]
    derived: list[Described]
    payload: Described | None


def events(seed: int = 19) -> list[Event]:
    """Visits in two browsers and in an app, a webhook, copies, one id with two fingerprints, a robot."""
    rng = Random(seed)
    found = [*_visit(rng, 0), *_visit(rng, 1), *_app(rng), *_server(rng)]
    first, clicked, viewed = found[0], found[2], found[3]
    later = first.own["collector_tstamp"] + timedelta(seconds=4)
    # A copy that was collected again has its own derived time; its fingerprint is of what the tracker sent.
    found.append(first._replace(own=first.own | {"collector_tstamp": later, "derived_tstamp": later}))
    found.append(viewed)
    found.append(
        clicked._replace(own=clicked.own | {"event_id": first.own["event_id"], "event_fingerprint": hexes(rng, 32)})
    )
    robot = {
        "category": "SPIDER_OR_ROBOT",
        "primaryImpact": "UNKNOWN",
        "reason": "FAILED_UA_EXCLUDE",
        "spiderOrRobot": True,
    }
    spider = ("com.iab.snowplow/spiders_and_robots/jsonschema/1-0-0", robot)
    found.append(first._replace(own=first.own | {"event_id": uuid4(rng)}, derived=[spider]))
    return found


def _own(
    rng: Random, at: datetime, name: str, event: str = "unstruct", vendor: str = SNOWPLOW, **more: Any
) -> dict[str, Any]:
    seconds = timedelta(milliseconds=rng.randrange(200, 1900))
    return {
        "app_id": "lumen",
        "etl_tstamp": at + timedelta(minutes=2),
        "collector_tstamp": at + seconds,
        "dvce_created_tstamp": at + timedelta(seconds=70),
        "event": event,
        "event_id": uuid4(rng),
        "name_tracker": "sp1",
        "v_collector": "ssc-2.9.2-kinesis",
        "v_etl": "snowplow-enrich-kinesis-3.9.0",
        "dvce_sent_tstamp": at + timedelta(seconds=70) + seconds,
        "derived_tstamp": at,
        "event_vendor": vendor,
        "event_name": name,
        "event_format": "jsonschema",
        "event_version": "1-0-0",
        "event_fingerprint": hexes(rng, 32),
    } | more  # fmt: skip


def _visit(rng: Random, number: int) -> list[Event]:
    """A visit in a browser: pages, heartbeats, clicks, a structured event, an order in each way of tracking one."""
    agent = (CHROME, SAFARI)[number]
    at = START + timedelta(minutes=31 * number)
    common: dict[str, Any] = PLACES[number] | {
        "platform": "web", "v_tracker": "js-3.17.0", "user_ipaddress": ("203.0.113.9", "203.0.113.x")[number],
        "domain_userid": uuid4(rng), "domain_sessionidx": 1 + number, "domain_sessionid": uuid4(rng),
        "network_userid": ("00000000-0000-0000-0000-000000000000", uuid4(rng))[number], "useragent": agent,
        "br_lang": ("de-DE", "tr-TR")[number], "br_cookies": True, "br_colordepth": "24", "br_viewwidth": 1200,
        "br_viewheight": 800, "os_timezone": "Europe/Berlin", "dvce_screenwidth": 1920, "dvce_screenheight": 1080,
        "doc_charset": "UTF-8",
    }  # fmt: skip
    derived = [(YAUAA, AGENTS[agent])]
    made = []

    def add(
        name: str,
        path: str,
        payload: Described | None = None,
        more: dict[str, Any] | None = None,
        entities: list[Described] | None = None,
    ) -> None:
        nonlocal at
        at += timedelta(seconds=rng.randrange(4, 50), milliseconds=rng.randrange(1000))
        page = {"page_url": f"https://lumen.example{path}", "page_urlscheme": "https", "page_urlhost": "lumen.example",
                "page_urlport": 443, "page_urlpath": path.partition("?")[0]}  # fmt: skip
        if "?" in path:
            page["page_urlquery"] = path.partition("?")[2]
        own = _own(rng, at, name, **(common | page | (more or {})))
        made.append(
            Event(
                own, [(f"{SNOWPLOW}/web_page/jsonschema/1-0-0", {"id": page_view}), *(entities or [])], derived, payload
            )
        )

    page_view = uuid4(rng)
    campaign = {
        "mkt_medium": "cpc",
        "mkt_source": "google",
        "mkt_campaign": "spring",
        "mkt_clickid": "Cj0-1",
        "mkt_network": "Google",
    }
    referrer = {"page_referrer": "https://www.google.com/", "refr_urlscheme": "https", "refr_urlhost": "www.google.com",
                "refr_urlport": 443, "refr_urlpath": "/", "refr_medium": "search", "refr_source": "Google"}  # fmt: skip
    viewed = {"event": "page_view", "page_title": "Lumen"}
    add("page_view", "/?utm_source=google&gclid=Cj0-1", None, viewed | campaign | referrer)
    add("page_ping", "/?utm_source=google&gclid=Cj0-1", None, {"event": "page_ping", "pp_yoffset_max": 900})
    add(
        "link_click",
        "/",
        (
            f"{SNOWPLOW}/link_click/jsonschema/1-0-1",
            {"targetUrl": "https://lumen.example/lampen", "elementClasses": ["nav", "big"], "elementId": "n1"},
        ),
    )
    page_view = uuid4(rng)
    user = {"user_id": ("user-1", "NULL")[number]}
    add("page_view", "/lampen", None, viewed | user | {"page_title": "Lampen – Lumen"})
    add(
        "event",
        "/lampen",
        None,
        user
        | {
            "event": "struct",
            "event_vendor": "com.google.analytics",
            "se_category": "video",
            "se_action": "Video Played",
            "se_label": "Größe",
            "se_value": 12.5,
        },
    )
    items = [
        (f"{SHOP}/lamp/jsonschema/1-0-0", {"sku": f"L-{one}", "colorTemperature": 2700 + one, "isDimmable": one == 1})
        for one in (1, 2)
    ]
    add(
        "lamp_switched",
        "/lampen",
        (f"{SHOP}/lamp_switched/jsonschema/1-0-0", {"isOn": True, "roomName": "Küche", "level": 0.5}),
        user | {"event_vendor": SHOP},
        items,
    )
    if number:
        add(
            "transaction",
            "/kasse",
            None,
            user
            | {"event": "transaction", "tr_orderid": "A-7", "tr_total": 49.1, "tr_tax": 7.84, "tr_currency": "EUR"},
        )
        add(
            "transaction_item",
            "/kasse",
            None,
            user
            | {
                "event": "transaction_item",
                "ti_orderid": "A-7",
                "ti_sku": "L-1",
                "ti_price": 24.55,
                "ti_quantity": 2,
                "ti_currency": "EUR",
            },
        )
    else:
        shop = f"{SNOWPLOW}.ecommerce"
        order = (
            f"{shop}/transaction/jsonschema/1-0-0",
            {"transactionId": "A-6", "revenue": 24.55, "currency": "EUR", "paymentMethod": "card"},
        )
        product = (
            f"{shop}/product/jsonschema/1-0-0",
            {"id": "L-1", "category": "lamps", "price": 24.55, "currency": "EUR"},
        )
        add(
            "snowplow_ecommerce_action",
            "/kasse",
            (f"{shop}/snowplow_ecommerce_action/jsonschema/1-0-2", {"type": "transaction"}),
            user | {"event_vendor": shop},
            [order, product],
        )
    return made


def _app(rng: Random) -> list[Event]:
    """A visit in an app, which begins before midnight and ends after it."""
    at = START + timedelta(minutes=70)
    session: dict[str, Any] = {
        "sessionIndex": 8,
        "sessionId": uuid4(rng),
        "userId": uuid4(rng),
        "previousSessionId": uuid4(rng),
        "storageMechanism": "LOCAL_STORAGE",
        "firstEventId": uuid4(rng),
    }
    session["firstEventTimestamp"] = f"{at + timedelta(seconds=70):%Y-%m-%dT%H:%M:%S}.000Z"
    phone: dict[str, Any] = {
        "osType": "ios",
        "osVersion": "17.1",
        "deviceManufacturer": "Apple Inc.",
        "deviceModel": "iPhone15,2",
        "carrier": "Vodafone",
        "networkType": "wifi",
        "batteryLevel": 71,
    }
    common: dict[str, Any] = {
        "platform": "mob",
        "v_tracker": "ios-5.6.0",
        "useragent": "Lumen/7 CFNetwork/1485 Darwin/23.1.0",
        "br_lang": "de-DE",
        "dvce_screenwidth": 393,
        "dvce_screenheight": 852,
        "user_id": "user-1",
    }
    screen = uuid4(rng)
    made = []
    steps: list[tuple[str, str, dict[str, Any]]] = [
        (MOBILE, "application_install", {}),
        (SNOWPLOW, "application_foreground", {"foregroundIndex": 1}),
        (MOBILE, "screen_view", {"name": "Räume", "id": screen, "previousName": "Start"}),
        (SNOWPLOW, "application_error", {"message": "timeout", "programmingLanguage": "SWIFT", "isFatal": False}),
        (SNOWPLOW, "application_background", {"backgroundIndex": 1}),
    ]
    for number, (vendor, name, data) in enumerate(steps):
        at += timedelta(minutes=4 * number, milliseconds=rng.randrange(1000))
        entities: list[Described] = [
            (f"{SNOWPLOW}/client_session/jsonschema/1-0-2", session | {"eventIndex": number + 1}),
            (f"{SNOWPLOW}/mobile_context/jsonschema/1-0-3", phone),
            (f"{MOBILE}/application/jsonschema/1-0-0", {"version": "2.3.0", "build": "417"}),
            (f"{MOBILE}/screen/jsonschema/1-0-0", {"name": "Räume", "id": screen, "type": "list"}),
        ]
        if number == 2:
            entities.append(
                (f"{SNOWPLOW}/geolocation_context/jsonschema/1-1-0", {"latitude": 52.53, "longitude": 13.38})
            )
        own = _own(rng, at, name, vendor=vendor, **common)
        made.append(Event(own, entities, [], (f"{vendor}/{name}/jsonschema/1-0-0", data)))
    return made


def _server(rng: Random) -> list[Event]:
    """A webhook, which has no id of anybody."""
    own = _own(
        rng, START + timedelta(hours=3), "delivered", vendor="com.mailtool", platform="srv", v_tracker="com.mailtool-v1"
    )
    return [Event(own, [], [], ("com.mailtool/delivered/jsonschema/1-0-0", {"messageId": "m-1"}))]


# -- forms ------------------------------------------------------------------------------------------------------------


def archive(made: list[Event]) -> bytes:
    """Tab-separated values without a header: entities and payload are self-describing JSON."""
    text = io.StringIO(newline="")
    for event in made:
        cells = dict(event.own) | {"contexts": _listed(event.entities), "derived_contexts": _listed(event.derived)}
        if event.payload is not None:
            cells["unstruct_event"] = _json(
                _described(f"{SNOWPLOW}/unstruct_event/jsonschema/1-0-0", _described(*event.payload))
            )
        text.write("\t".join(_cell(cells.get(name)) for name in COLUMNS) + "\n")
    return text.getvalue().encode()


def lines(made: list[Event]) -> list[str]:
    """JSON as the analytics SDKs make it of a row of the archive."""
    found = []
    for event in made:
        own = {name: _iso(value) + "Z" if isinstance(value, datetime) else value for name, value in event.own.items()}
        found.append(_json(own | _columns(event, snake=False)))
    return found


def table_text(made: list[Event]) -> bytes:
    """atomic.events as a warehouse with JSON columns unloads it to CSV, with the whole version in their names."""
    rows = [
        dict(event.own)
        | {
            f"{name}_0_0": _json([data] if isinstance(data, dict) else data)
            for name, data in _columns(event, snake=False).items()
        }
        for event in made
    ]
    names = [name for name in COLUMNS if name not in ("contexts", "derived_contexts", "unstruct_event")]
    names += sorted({name for row in rows for name in row} - set(names))
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow(
            [str(row[name]).lower() if isinstance(row.get(name), bool) else _cell(row.get(name)) for name in names]
        )
    return out.getvalue().encode()


def table(made: list[Event]) -> pa.Table:
    """atomic.events with typed columns: entities are lists of structs, whose missing members are null."""
    rows = [event.own | {name: value or None for name, value in _columns(event, snake=True).items()} for event in made]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows])


def _columns(event: Event, *, snake: bool) -> dict[str, Any]:
    """The columns of a warehouse for entities and payload."""
    found: dict[str, Any] = {}
    for schema, data in [*event.entities, *event.derived]:
        found.setdefault(_column("contexts", schema), []).append(_snakes(data) if snake else data)
    if event.payload is not None:
        schema, data = event.payload
        found[_column("unstruct_event", schema)] = _snakes(data) if snake else data
    return found


def _column(kind: str, schema: str) -> str:
    vendor, name, _, version = schema.split("/")
    return f"{kind}_{vendor.replace('.', '_')}_{name}_{version.partition('-')[0]}"


def _snakes(data: dict[str, Any]) -> dict[str, Any]:
    return {re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower(): value for name, value in data.items()}


def _described(schema: str, data: Any) -> dict[str, Any]:
    return {"schema": f"iglu:{schema}", "data": data}


def _listed(entities: list[Described]) -> str | None:
    if not entities:
        return None
    return _json(_described(f"{SNOWPLOW}/contexts/jsonschema/1-0-1", [_described(*one) for one in entities]))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _iso(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03d}"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    return _iso(value).replace("T", " ") if isinstance(value, datetime) else str(value)
