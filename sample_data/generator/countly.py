"""Countly's drill events as mongoexport writes them, a document a line (docs/know/exports.md#countly)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from sample_data.generator.spelling import row

START = datetime(2024, 3, 30, 22, 40, tzinfo=UTC)
APPS = ("65ed7b84c0ffee00000000aa", "65ed7b84c0ffee00000000bb")
PHONE = {"p": "iOS", "pv": "i17:2", "av": "4:2:1", "d": "iPhone15,2", "dt": "mobile", "mnf": "Apple", "r": "1170x2532"}
BROWSER = {"p": "Web", "brw": "Chrome", "av": "1:0", "r": "1440x900", "la": "de"}


def lines(seed: int = 35) -> list[str]:
    """The documents of two apps, one for the web and one for phones, in order of time."""
    rng = Random(seed)
    return [row(one) for one in sorted(_events(rng), key=lambda one: int(one["ts"]["$numberLong"]))]


def _events(rng: Random) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number in range(6):
        web, at = number % 2 == 0, START + timedelta(minutes=13 * number)
        app, up = APPS[0 if web else 1], {**(BROWSER if web else PHONE), "cc": "DE", "cty": "Berlin", "rgn": "BE"}
        view = "/preise" if web else "Cart"
        steps: list[tuple[str, int, dict[str, Any]]] = [
            ("[CLY]_session_begin", 0, {"sg": {"ended": "false"}}),
            ("[CLY]_view", 1, {"n": view, "sg": {"name": view, "visit": 1, "start": 1, "segment": up["p"]}}),
            ("[CLY]_view", 40, {"n": view, "sg": {"name": view, "segment": up["p"]}, "dur": 39}),
            ("[CLY]_custom", 60, {"n": "Purchase", "sg": {"items": 2, "currency": "EUR"}, "s": 49.1 + number}),
            ("[CLY]_session", 90, {"dur": 90}),
        ]
        # The fifth person comes back as who the first one turned out to be: another device id, the same number.
        uid, did = ("1", "user-1") if number == 4 else (str(number + 1), f"{rng.getrandbits(64):016x}")
        for event, seconds, own in steps:
            moment = int((at + timedelta(seconds=seconds)).timestamp() * 1000) + 120
            one: dict[str, Any] = {
                "_id": f"{rng.getrandbits(96):024x}_{uid}_{moment}",
                "a": app,
                "e": event,
                "uid": uid,
                "did": did,
            }
            one |= {"ts": {"$numberLong": str(moment)}, "c": 1, "s": 0, "dur": 0, "sg": {}, "up": up}
            one |= {"custom": {"plan": "pro"} if number == 4 else {}, "cd": {"$date": _text(at, seconds + 1)}}
            found.append(one | own)
    return found


def _text(moment: datetime, seconds: int) -> str:
    return f"{moment + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}.000Z"
