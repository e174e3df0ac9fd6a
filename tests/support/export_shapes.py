"""Small exports in the formats of many tools, with a person's decisions and who did what in each row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

T = 1_672_628_645
"""2023-01-02T03:04:05Z, the time of the first row of every export; each row is a second later."""


@dataclass(frozen=True)
class Shape:
    """An export in the format of one tool: its file, a person's decisions, and who did what in each row."""

    file: str
    text: str
    events: Sequence[str]
    people: Sequence[str]
    answers: Mapping[str, str] = field(default_factory=dict)
    open: Sequence[str] = ()


def lines(rows: Iterable[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def table(header: str, rows: Iterable[str], delimiter: str = ",") -> str:
    return "\n".join([header, *rows]).replace(",", delimiter) + "\n"


def iso(row: int, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(T + row, UTC).strftime(form)


R = range(6)
U = ["u-1", "u-2", "u-1", "u-3", "u-2", "u-1"]
HALF = ["", "u-1", "", "u-1", "u-2", ""]
DEVICE = ["d-1", "d-1", "d-2", "d-1", "d-2", "d-3"]
MIXED = ["d-1", "u-1", "d-2", "u-1", "u-2", "d-3"]
CLICK = ["page_view", "click", "page_view", "purchase", "click", "page_view"]
UUIDS = [f"5f2b8f0e-1111-4222-8333-44445555666{row}" for row in R]
LOAD = ["load", "click", "load", "track", "click", "load"]
BRAZE = ["users.behaviors.CustomEvent", "users.messages.email.Open"] * 3
GA4_PARAMS = [
    {"key": "page_location", "value": {"string_value": "https://a.example/"}},
    {"key": "ga_session_id", "value": {"int_value": "1672628000"}},
]
RELATED = {"profile": U, "metric": CLICK}
NULL, PAYLOAD = r"\N", '"{""n"": 1}"'
UA = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"

SHAPES = {
    "heap pageviews": Shape(
        "pageviews.csv",
        table(
            "event_id,user_id,session_id,time,library,domain,path,query,title,country",
            (f"{9_007_199_254_740_993 + row},{U[row]},77,{iso(row)}.000,web,a.example,/p,,P,France" for row in R),
        ),
        ["$pageview"] * 6,
        U,
        {"event": "{const: $pageview}", "zone": "utc"},
        ["event", "zone"],
    ),
    "pendo": Shape(
        "allevents.jsonl",
        lines(
            {"eventId": f"e{row}", "periodId": "2023-01-02T00:00:00Z", "browserTimestamp": (T + row) * 1000}
            | {"eventType": LOAD[row], "visitorId": U[row], "accountId": "acme", "url": "https://a.example/x"}
            | {"properties": '{"plan":"pro"}', "remoteIp": "203.0.113.7", "userAgent": UA}
            for row in R
        ),
        LOAD,
        U,
    ),
    "ga4": Shape(
        "events_20230102.json",
        lines(
            {"event_date": "20230102", "event_timestamp": str((T + row) * 1_000_000), "event_name": CLICK[row]}
            | {"event_params": GA4_PARAMS, "event_bundle_sequence_id": "7"}
            | ({"user_id": HALF[row]} if HALF[row] else {})
            | {"user_pseudo_id": f"81705390.170000640{DEVICE[row][-1]}", "device": {"category": "desktop"}}
            | {"geo": {"country": "France"}, "items": [], "platform": "WEB"}
            for row in R
        ),
        CLICK,
        [HALF[row] or f"81705390.170000640{DEVICE[row][-1]}" for row in R],
    ),
    "snowplow": Shape(
        "atomic.tsv",
        table(
            "app_id,platform,collector_tstamp,dvce_created_tstamp,event,event_id,user_id,user_ipaddress,domain_userid,"
            "network_userid,geo_country,page_url,useragent,dvce_sent_tstamp,derived_tstamp,event_vendor,event_name",
            (
                f"shop,web,{iso(row + 9)}.500,{iso(row)}.100,{('page_view', 'struct', 'unstruct')[row % 3]},"
                f"{UUIDS[row]},{HALF[row]},203.0.113.7,{DEVICE[row]},n-{row},FR,https://a.example/,{UA},{iso(row)}.200,"
                f"{iso(row)}.000,com.snowplow,{CLICK[row]}"
                for row in R
            ),
            "\t",
        ),
        CLICK,
        MIXED,
        {"zone": "utc"},
        ["zone"],
    ),
    "matomo visits": Shape(
        "visits.csv",
        table(
            "idSite,idVisit,visitIp,visitorId,userId,actions,lastActionTimestamp,firstActionTimestamp,serverTimePretty,"
            "visitorType,referrerType,countryCode,deviceType,browserName",
            (
                f"1,{100 + row},203.0.113.0,aabbccdd0011223{DEVICE[row][-1]},{HALF[row]},3,{T + row + 60},{T + row},"
                f'"Jan 2, 2023 03:04:05",{("new", "returning")[row % 2]},direct,fr,Desktop,Chrome'
                for row in R
            ),
        ),
        ["visit"] * 6,
        [HALF[row] or f"aabbccdd0011223{DEVICE[row][-1]}" for row in R],
        {"event": "{const: visit}"},
        ["event"],
    ),
    "umami": Shape(
        "website_event.csv",
        table(
            "website_id,session_id,visit_id,event_id,hostname,browser,os,country,url_path,url_query,referrer_domain,page_title,"
            "event_type,event_name,distinct_id,created_at",
            (
                f"w-1,s-{DEVICE[row]},v-{row},{UUIDS[row]},a.example,chrome,Mac OS,FR,/p,,,P,"
                f"{1 + row % 2},{('', 'signup')[row % 2]},{HALF[row]},{iso(row)}"
                for row in R
            ),
        ),
        ["$pageview", "signup"] * 3,
        [HALF[row] or f"s-{DEVICE[row]}" for row in R],
        {"event_without_name": "{const: $pageview}", "distinct_id": "[/distinct_id, /session_id]", "zone": "utc"},
        ["event_without_name", "distinct_id", "zone"],
    ),
    "braze": Shape(
        "braze.json",
        lines(
            {"event_type": BRAZE[row], "id": f"b{row}", "properties": {"name": "Added"}, "time": T + row}
            | {
                "user": {"user_id": f"aa{row % 2}", "device_id": DEVICE[row]}
                | ({"external_user_id": HALF[row]} if HALF[row] else {})
            }
            for row in R
        ),
        BRAZE,
        [HALF[row] or f"aa{row % 2}" for row in R],
        {"distinct_id": "[/user/external_user_id, /user/user_id]"},
        ["distinct_id"],
    ),
    "kissmetrics": Shape(
        "1.json",
        lines(
            {"_p": U[row], "_t": T + row}
            | ({"_n": "visited site", "url": "https://a.example/"} if row % 3 else {"plan": "pro"})
            for row in R
        ),
        ["set", "visited site", "visited site"] * 2,
        U,
        {"event_without_name": "{const: set}", "tool": "kissmetrics"},
        ["event_without_name", "tool"],
    ),
    "clevertap": Shape(
        "clevertap.jsonl",
        lines(
            {"profile": {"objectId": f"o-{user}", "platform": "Web", "identity": user, "profileData": {"plan": "pro"}}}
            | {"ts": int(iso(row, "%Y%m%d%H%M%S")), "eventName": ["App Launched", "Charged"][row % 2]}
            | {"event_props": {"Amount": 5}, "session_props": {"utm_source": "x"}}
            for row, user in enumerate(U)
        ),
        ["App Launched", "Charged"] * 3,
        U,
        {"zone": "utc"},
        ["zone"],
    ),
    "database dump": Shape(
        "dump.csv",
        table(
            "id,user_id,cookie_id,event_type,created_at,payload",
            (
                f"{900_000 + row},{(NULL, 'u-1', '0', 'u-1', 'u-2', NULL)[row]},{DEVICE[row]},{CLICK[row]},"
                f"{iso(row, '%d/%b/%Y:%H:%M:%S +0000')},{NULL if row else PAYLOAD}"
                for row in R
            ),
        ),
        CLICK,
        MIXED,
        {"tool": "shop"},
        ["tool"],
    ),
    "members of members": Shape(
        "events.jsonl",
        lines(
            {"type": "event", "id": f"i{row}"}
            | {"attributes": {"timestamp": T + row, "event_properties": {"n": row}, "is_event": "true"}}
            | {"relationships": {kind: {"data": {"type": kind, "id": values[row]}} for kind, values in RELATED.items()}}
            for row in R
        ),
        CLICK,
        U,
        {"event": "/relationships/metric/data/id"},
        ["event"],
    ),
    "countly": Shape(
        "drill_events.json",
        lines(
            {"_id": f"{row:040d}", "uid": U[row], "did": f"d-{U[row]}", "ts": (T + row) * 1000}
            | {"cd": iso(row + 60, "%Y-%m-%dT%H:%M:%SZ"), "e": ["[CLY]_view", "[CLY]_session"][row % 2]}
            | {"n": f"name {row}", "s": 0, "c": 1, "dur": 0, "sg": {"view": "Home"}, "up": {"cc": "FR"}}
            for row in R
        ),
        ["[CLY]_view", "[CLY]_session"] * 3,
        U,
    ),
    "vercel": Shape(
        "vercel.jsonl",
        lines(
            {"schema": "vercel.analytics.v1", "eventType": ["pageview", "event"][row % 2]}
            | {"eventName": [None, "signup"][row % 2], "eventData": [None, '{"plan":"pro"}'][row % 2]}
            | {"timestamp": (T + row) * 1000, "projectId": "p", "sessionId": 1000 + row}
            | {"deviceId": 2_000_000_000_000 + row % 3, "origin": "https://a.example", "path": "/p"}
            | {"country": "FR", "osName": "iOS"}
            for row in R
        ),
        ["pageview", "signup"] * 3,
        [str(2_000_000_000_000 + row % 3) for row in R],
    ),
    "orders": Shape(
        "orders.csv",
        table(
            "id,customer_id,status,total_cents,currency,created_at,updated_at",
            (
                f"{row},{U[row]},{('paid', 'open')[row % 2]},{1250 + row},EUR,"
                f"{iso(row, '%Y-%m-%dT%H:%M:%SZ')},{iso(row + 999, '%Y-%m-%dT%H:%M:%SZ')}"
                for row in R
            ),
        ),
        ["Order Placed"] * 6,
        U,
        {"event": "{const: Order Placed}", "amounts": "divide"},
        ["event", "amounts"],
    ),
    "log": Shape(
        "applog.jsonl",
        lines(
            {"what": "x", "action": ["login", "logout"][row % 2], "account": {"member_no": U[row], "team": "t"}}
            | {"at": (T + row) * 1_000_000_000}
            for row in R
        ),
        ["login", "logout"] * 3,
        U,
    ),
    "spreadsheet": Shape(
        "Tickets 2023.csv",
        "Ticket/No.;Kunde;Vorgangs~art;Angelegt am;Gebühr\n"
        + "".join(f"T-{row};{U[row]};{('Neu', 'Zu')[row % 2]};{iso(row, '%d/%m/%Y %H:%M:%S')};1,50\n" for row in R),
        ["Ticket"] * 6,
        U,
        {"event": "{const: Ticket}", "day_or_month": '"%d/%m/%Y %H:%M:%S"', "zone": "utc"},
        ["event", "day_or_month", "zone"],
    ),
    "day and hour": Shape(
        "visits.csv",
        table("visitor,date,time,action", (f"{U[row]},02.01.2023,{iso(row, '%H:%M:%S')},{CLICK[row]}" for row in R)),
        CLICK,
        U,
        {"zone": "utc"},
        ["zone"],
    ),
    "no header": Shape(
        "calls.csv",
        table(
            f"{U[0]},signup,{iso(0)},203.0.113.7",
            (f"{U[row]},{('signup', 'call')[row % 2]},{iso(row)},203.0.113.7" for row in R[1:]),
        ),
        ["signup", "call"] * 3,
        U,
        {"event": "/column_2", "distinct_id": "[/column_1]", "zone": "utc", "header": "no"},
        ["event", "distinct_id", "zone", "header"],
    ),
    "sensor": Shape(
        "readings.jsonl",
        lines(
            {"serial": f"s{row % 2}", "measured": iso(row, "%Y-%m-%dT%H:%M:%S+00:00"), "value": 1.5 + row} for row in R
        ),
        ["readings"] * 6,
        ["s0", "s1"] * 3,
        {"event": "{const: readings}", "distinct_id": "/serial"},
        ["event", "distinct_id"],
    ),
}
