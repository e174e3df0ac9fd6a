"""Calls of the Segment model: what three browsers, an app and a server sent, and the same as rows of a warehouse.

Two users sign in on one browser without a reset between; the server makes up an anonymousId for each request; one
call was sent twice; a junk user id, a bot and a group call without a group are among them
(docs/know/exports.md#segment-traps).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random
from typing import Any

from sample_data.generator.spelling import row, spelled, uuid4

START = datetime(2023, 4, 20, 21, 40, tzinfo=UTC)
SAFARI = (
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/16.4 "
    "Safari/605.1.15"
)
EDGE = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/112.0.0.0 Safari/537.36 "
    "Edg/112.0.1722.34"
)
PIXEL = (
    "Mozilla/5.0 (Linux; Android 13; Pixel 6) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/112.0.0.0 Mobile "
    "Safari/537.36"
)
BOT = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
AGENTS = (SAFARI, EDGE, PIXEL)
APP: dict[str, Any] = {
    "app": {"name": "Lumen", "version": "2.3.0", "build": "231", "namespace": "example.lumen"},
    "device": {"id": "B5372DB0-C21E-11E4-8DFC-AA07A5B093DB", "advertisingId": "7A3CBEA0-BDF5-11E4-8DFC-AA07A5B093DB",
               "adTrackingEnabled": True, "manufacturer": "Apple", "model": "iPhone13,1", "name": "Ada’s iPhone",
               "type": "ios"},
    "os": {"name": "iPhone OS", "version": "16.4.1"},
    "network": {"bluetooth": False, "carrier": "Orange CI", "cellular": True, "wifi": False},
    "screen": {"width": 375, "height": 812, "density": 3},
    "locale": "fr-CI",
    "timezone": "Africa/Abidjan",
}  # fmt: skip


class Story:
    """Collects calls in the order they were received."""

    def __init__(self, seed: int, context: dict[str, Any]) -> None:
        self.rng = Random(seed)
        self.context = context
        self.calls: list[dict[str, Any]] = []
        self.at = START

    def add(self, kind: str, context: dict[str, Any] | None = None, **own: Any) -> dict[str, Any]:
        """Append one call, some seconds after the last one; `own` overrides any of its keys."""
        rng = self.rng
        self.at += timedelta(seconds=rng.randrange(5, 400), milliseconds=rng.randrange(1000))
        drift = timedelta(milliseconds=rng.randrange(20, 900))
        call: dict[str, Any] = {
            "messageId": f"ajs-next-{uuid4(rng)}",
            "type": kind,
            "anonymousId": None,
            "userId": None,
            "timestamp": _iso(self.at),
            "originalTimestamp": _iso(self.at - drift),
            "sentAt": _iso(self.at - drift + timedelta(seconds=1)),
            "receivedAt": _iso(self.at + timedelta(seconds=1)),
            "context": {**self.context, **(context or {})},
        }
        call |= own
        self.calls.append(call)
        return call


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def page(path: str, title: str, referrer: str = "") -> dict[str, str]:
    """The page a call was made on, as the browser's library tells it."""
    url, search = f"https://lumen.example{path}", path[path.find("?") :] if "?" in path else ""
    return {"path": path.split("?")[0], "referrer": referrer, "search": search, "title": title, "url": url}


def story(seed: int, web: dict[str, Any], app: dict[str, Any], server: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls; `web`, `app` and `server` are what a library of that kind adds to each context."""
    told = Story(seed, {})
    _browsers(told, web)
    _app(told, APP | app)
    _server(told, server)
    again = dict(told.calls[3])
    again["sentAt"] = again["receivedAt"] = _iso(told.at + timedelta(minutes=5))
    return [*told.calls, again]


def _browsers(told: Story, web: dict[str, Any]) -> None:
    rng = told.rng
    for number, agent in enumerate(AGENTS):
        anonymous = uuid4(rng)
        session = int(told.at.timestamp() * 1000)
        place = {"ip": f"203.0.113.{number + 7}", "locale": "de-DE", "timezone": "Europe/Berlin"}
        seen = {**web, **place, "userAgent": agent, "sessionId": session}
        first = page("/pricing?utm_source=mail&plan=pro%20plus", "Pricing – Lumen", "https://search.example/")
        campaign = {"name": "spring", "source": "mail", "medium": "email", "id": "c-7"}
        landed = {**seen, "page": first, "campaign": campaign}
        told.add("page", landed, anonymousId=anonymous, name="Pricing", properties={**first, "plan": "pro"})
        there = {**seen, "page": page("/docs", "Docs – Lumen 📚")}
        told.add("page", there, anonymousId=anonymous, properties=page("/docs", "Docs – Lumen 📚"))
        told.add("track", there, anonymousId=anonymous, event="Plan Chosen", properties={"plan": "pro", "url": "own"})
        for user in [f"user-{number + 1}"] if number else ["user-1", "user-1b"]:
            who = {"anonymousId": anonymous, "userId": user}
            traits = {"email": f"{user}@lumen.example", "tier": "pro", "seats": 4 + number}
            told.add("identify", there, **who, traits=traits)
            told.add("group", there, **who, groupId="acme", traits={"name": "Acme", "employees": spelled("120")})
            order = {"order_id": spelled("9007199254740993"), "revenue": spelled("49.10"), "currency": "EUR",
                     "products": [{"sku": "L-1", "price": spelled("24.55")}, {"sku": "L-2"}]}  # fmt: skip
            told.add("track", {**there, "groupId": "acme"}, **who, event="Order Completed", properties=order)
            told.add("identify", there, **who, traits={})
    told.add("page", {**web, "userAgent": BOT, "page": first}, anonymousId=uuid4(rng), properties=first)
    told.add("group", web, anonymousId=anonymous, userId="user-3", groupId="", traits={"name": "Nobody"})


def _app(told: Story, app: dict[str, Any]) -> None:
    anonymous = uuid4(told.rng).upper()
    session = int(told.at.timestamp())
    app = {**app, "sessionId": session}
    installed = {"version": "2.3.0", "build": "231"}
    told.add("track", app, anonymousId=anonymous, event="Application Installed", properties=installed)
    opened = installed | {"from_background": False}
    began = {**app, "sessionStart": True}
    told.add("track", began, anonymousId=anonymous, event="Application Opened", properties=opened)
    told.add("screen", app, anonymousId=anonymous, name="Lamps", properties={"count": 3})
    told.add("track", app, anonymousId=anonymous, event="Application Backgrounded", properties={})
    told.add("track", app, anonymousId=anonymous, event="Application Foregrounded", properties={})
    told.add("identify", app, anonymousId=anonymous, traits={"city": "Abidjan"})
    told.add("alias", app, userId="user-4", previousId=anonymous)
    remembered = {**app, "traits": {"city": "Abidjan", "email": "user-4@lumen.example"}}
    who = {"anonymousId": anonymous, "userId": "user-4"}
    told.add("track", remembered, **who, event="Lamp Switched", properties={"level": spelled("-0.0"), "on": True})
    told.add("track", {**app, "sessionId": 1234567890}, **who, event="Lamp Switched", properties={"level": 80})
    told.add("track", app, **who, event="Application Crashed", properties={"reason": "low memory"})


def _server(told: Story, server: dict[str, Any]) -> None:
    """Numeric ids and addresses beside each other; an anonymousId for each request; times of several spellings."""
    for number, user in enumerate([97980, "ada@lumen.example", "user-2", "null"]):
        at = told.at + timedelta(seconds=30)
        own: dict[str, Any] = {"userId": user, "anonymousId": uuid4(told.rng), "channel": "server"}
        if number == 0:
            own["timestamp"] = at.strftime("%Y-%m-%dT%H:%M:%S.123456Z")
        if number == 1:
            local = at + timedelta(hours=5, minutes=30)
            own["timestamp"] = local.strftime("%Y-%m-%dT%H:%M:%S.500+05:30")
        told.add("track", server, **own, event="Invoice Paid", properties={"total": spelled("19.90"), "number": number})


@cache
def snake(name: str) -> str:
    """A name as a column's: `Plan Type` and `planType` are `plan_type`."""
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()).strip("_")


TABLES = {"page": "pages", "screen": "screens", "identify": "identifies", "group": "groups", "alias": "aliases"}


OLD_USER = {
    "id": "user-0", "email": "user-0@lumen.example", "tier": "free", "received_at": "2022-11-02T09:00:00.000Z",
}  # fmt: skip
"""A user of before these calls, who has a profile and nothing else."""


def tables(calls: list[dict[str, Any]], *old: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The calls as rows of tables: `tracks` without custom columns, a table for each event, `users` with those of
    before, and the rest."""
    found: dict[str, list[dict[str, Any]]] = {}
    users = {one["id"]: dict(one) for one in old}
    for call in calls:
        common = {"id": call["messageId"], "anonymous_id": call["anonymousId"]}
        if call["userId"] is not None:
            common["user_id"] = str(call["userId"])
        for name in ("timestamp", "originalTimestamp", "sentAt", "receivedAt"):
            common[snake(name)] = call[name]
        common |= _flat("context", call["context"])
        own = _flat("", call.get("properties") or call.get("traits") or {})
        kind = call["type"]
        if kind == "track":
            named = common | {"event": snake(call["event"]), "event_text": call["event"]}
            found.setdefault("tracks", []).append(named)
            found.setdefault(snake(call["event"]), []).append(named | own)
            continue
        for name, column in (("name", "name"), ("groupId", "group_id"), ("previousId", "previous_id")):
            if call.get(name):
                common[column] = call[name]
        found.setdefault(TABLES[kind], []).append(common | own)
        if kind == "identify" and call["userId"]:
            user = users.setdefault(call["userId"], {"id": call["userId"]})
            user |= own | {"received_at": call["receivedAt"]}
    found["users"] = list(users.values())
    return found


def _flat(stem: str, members: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in members.items():
        column = f"{stem}_{snake(name)}" if stem else snake(name)
        if isinstance(value, dict):
            flat |= _flat(column, value)
        elif value is not None:
            flat[column] = row(value) if isinstance(value, list) else value
    return flat
