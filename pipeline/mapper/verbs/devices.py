"""The verbs for browsers, systems and devices as tools write them, in the service's own words
(docs/know/exports.md#session-ids)."""

from __future__ import annotations

import re
from functools import lru_cache, partial

from msgspec import Raw

from pipeline.mapper.language.kinds import VALUE, Choice, Field, verb
from pipeline.mapper.language.sections import Call
from pipeline.mapper.program.builder import Builder
from pipeline.mapper.program.expressions import Apply, Constant, Value
from pipeline.mapper.program.functions import function
from pipeline.mapper.verbs.user_agent import BROWSERS as FAMILIES
from pipeline.mapper.verbs.user_agent import CACHED, LINUXES, version_number

value = partial(verb, "value")

PART = Field(Choice(("name", "version")), "which part; the name when left out")

_SPELLINGS = {
    "Android Mobile": "android browser, android webkit",
    "Chrome": "google chrome, chrome webview, android webview, chromium webview, headless chrome, chrome for android,"
    " chrome dev, chrome beta, chrome desktop",
    "Chrome iOS": "crios, chrome for ios",
    "Firefox": "mozilla firefox, firefox for android",
    "Firefox iOS": "fxios, firefox mobile ios, firefox for ios",
    "Internet Explorer": "msie, microsoft internet explorer",
    "Internet Explorer Mobile": "iemobile",
    "Microsoft Edge": "edg, edge chromium, edge ios, edge webview, edge webview2, edgios, edga, ms edge, msedge,"
    " microsoft edge mobile",
    "Mobile Safari": "safari mobile, ios safari, safari ios, safari (in app), ios, ios webview, iphone, ipad,"
    " mobile safari ui/wkwebview",
    "Opera": "opr, opera next, opera touch, opera gx",
    "Opera Mini": "opera mini",
    "Safari": "safari, apple safari, safari desktop",
    "Samsung Internet": "samsung, samsung browser, samsungbrowser, samsung internet for android",
}
BROWSERS = {old.lower(): new for old, new in FAMILIES.items()} | {
    old: new for new, spellings in _SPELLINGS.items() for old in (new.lower(), *spellings.split(", "))
}
"""The service's name of a browser, by another name in lower case with spaces for hyphens."""

SYSTEMS = {
    old: new
    for new, spellings in {
        "Android": "android, android os, androidos",
        "Chrome OS": "chrome os, chromeos, chromium os, cros, chromebook",
        "Linux": ", ".join(("linux", "gnu/linux", *(name.lower() for name in LINUXES))),
        "Mac OS X": "mac os x, mac os, macos, mac, macosx, macos x, osx, os x, macintosh, mac osx",
        "Windows": "windows, microsoft windows, win, windows nt, windows server, win32",
        "Windows Phone": "windows phone, windows phone os, windows mobile",
        "iOS": "ios, iphone os, iphone, ipod",
        "iPadOS": "ipados, ipad os",
    }.items()
    for old in spellings.split(", ")
}
"""The service's name of a system, by another name in lower case."""
_NT = {"5.1": "XP", "5.2": "XP", "6.0": "Vista", "6.1": "7", "6.2": "8", "6.3": "8.1", "10.0": "10"}
"""The version of Windows, by the one of its kernel."""

UNKNOWN = frozenset(
    ("", "(not set)", "(none)", "(other)", "<na>", "n/a", "na", "none", "null", "other", "undefined", "unknown",
     "not set", "unk", "generic")
)  # fmt: skip
"""Texts that stand for no browser, system or device, in lower case."""

DEVICES = (
    ("Tablet", frozenset(("tablet", "ipad", "tablets"))),
    ("Mobile", frozenset(("mobile", "smartphone", "phone", "phablet", "handset", "iphone", "ipod", "cellphone"))),
    ("Desktop", frozenset(("desktop", "laptop", "computer", "notebook", "pc", "mac", "macbook", "imac", "chromebook"))),
)
"""Words by which a device has a type, the first that fits: a `Tablet PC` is a tablet."""

_VERSION = re.compile(r"v?([0-9]{1,9}(?:[._][0-9]{1,9})*)[^ ]*", re.IGNORECASE)
_NAMED_VERSION = re.compile(r"XP|Vista|ME|NT", re.IGNORECASE)
_WORDS = re.compile(r"[a-z]+")


@value(
    "browser_name",
    "a browser's name as the service writes it, without its version; any other name stays",
    browser_name=Field(VALUE, "the name, with or without a version, or a version alone", True),
    part=PART,
)
def browser_name(build: Builder, call: Call) -> Value:
    return Apply(
        "browser_part", (build.text(call.arguments["browser_name"]), Constant(call.arguments.get("part", "name")))
    )


@value(
    "os_name",
    "a system's name as the service writes it, without its version; any other name stays",
    os_name=Field(VALUE, "the name, with or without a version, or a version alone", True),
    part=PART,
)
def os_name(build: Builder, call: Call) -> Value:
    return Apply("system_part", (build.text(call.arguments["os_name"]), Constant(call.arguments.get("part", "name"))))


@value(
    "device_type",
    "Desktop, Mobile or Tablet; missing for any other device",
    device_type=Field(VALUE, "the type as a tool writes it, such as smartphone", True),
)
def device_type(build: Builder, call: Call) -> Value:
    return Apply("type_of_device", (build.text(call.arguments["device_type"]),))


@function(needs=1)
@lru_cache(CACHED)
def browser_part(text: str, part: str) -> str | Raw | None:
    """The name of a browser, or its version as a number of at most two places: 118 for `Chrome 118.0.0`."""
    name, version = _split(text)
    if part == "version":
        major, minor, *_ = [*version.split("."), ""] if version else ("", "")
        return version_number(major, minor)
    lowered = name.lower().replace("-", " ")
    return None if name.lower() in UNKNOWN else BROWSERS.get(lowered, name)


@function(needs=1)
@lru_cache(CACHED)
def system_part(text: str, part: str) -> str | None:
    """The name of a system, or its version as text: 10.15.7 for `Mac OS X 10_15_7`."""
    name, version = _split(text)
    if part == "version":
        return (_NT.get(version, version) if name.lower().endswith("windows nt") else version) or None
    return None if name.lower() in UNKNOWN else SYSTEMS.get(name.lower(), name)


@function(needs=1)
@lru_cache(CACHED)
def type_of_device(text: str) -> str | None:
    """Desktop, Mobile or Tablet, by the words of the text; None where none fits."""
    words = frozenset(_WORDS.findall(text.lower()))
    return next((name for name, known in DEVICES if words & known), None)


def _split(text: str) -> tuple[str, str]:
    """The name and the version, with dots, in a text such as `Chrome 118.0.0`, `Firefox/115` or `Windows XP`; "" where
    one is missing. What follows the version belongs to neither."""
    words = re.sub(r"/(?=v?[0-9])", " ", text).split()
    for at, word in enumerate(words):
        found = _VERSION.fullmatch(word)
        if found and (at or len(words) == 1):
            return " ".join(words[:at]), found.group(1).replace("_", ".")
        if at and words[at - 1].lower() == "windows" and at == len(words) - 1 and _NAMED_VERSION.fullmatch(word):
            return " ".join(words[:at]), word
    return " ".join(words), ""
