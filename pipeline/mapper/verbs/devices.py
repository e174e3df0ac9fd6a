"""The verbs for browsers, systems and devices. They give the service's names (docs/know/exports.md#session-ids) for
what tools write, or for a browser's User-Agent.

ua-parser reads User-Agents; it is loaded when a row first needs it. A new User-Agent costs about 0.5 ms, a cached one a
lookup; an export has a few thousand of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, NamedTuple

from msgspec import Raw

from pipeline.mapper.language.kinds import VALUE, Call, Choice, Field, value
from pipeline.mapper.program.builder import Builder
from pipeline.mapper.program.expressions import Apply, Part, Value
from pipeline.mapper.program.functions import computed, function

PARTS = ("browser", "browser_version", "os", "os_version", "device_type")

LONGEST = 1_024
"""No browser writes more characters; the rest of a longer string is ignored."""
CACHED = 20_000

FAMILIES = {
    "Android": "Android Mobile",
    "Chrome Mobile": "Chrome",
    "Chrome Mobile WebView": "Chrome",
    "Chrome Mobile iOS": "Chrome iOS",
    "Chromium": "Chrome",
    "Edge": "Microsoft Edge",
    "Edge Mobile": "Microsoft Edge",
    "Facebook": "Facebook Mobile",
    "Firefox Mobile": "Firefox",
    "HeadlessChrome": "Chrome",
    "IE": "Internet Explorer",
    "IE Mobile": "Internet Explorer Mobile",
    "Mobile Safari UI/WKWebView": "Mobile Safari",
    "Opera Mobile": "Opera",
}
"""ua-parser's names to the service's (docs/know/exports.md#session-ids); any other stays."""

DESKTOPS = frozenset(("Windows", "Mac OS X", "Linux", "Chrome OS"))
LINUXES = frozenset(
    ("Ubuntu", "Debian", "Fedora", "Red Hat", "CentOS", "SUSE", "Gentoo", "Arch Linux", "Linux Mint", "Kubuntu",
     "Mandriva")
)  # fmt: skip
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")


class Agent(NamedTuple):
    """The parts of a User-Agent, in the service's words; None for a part it lacks. `browser_version` is a number."""

    browser: str | None = None
    browser_version: Raw | None = None
    os: str | None = None
    os_version: str | None = None
    device_type: str | None = None


@function()
@lru_cache(CACHED)
def agents(text: str | None) -> Agent:
    if not text:  # otherwise every pattern would be compiled and tested for nothing
        return Agent()
    text = text[:LONGEST]
    parsed = _parser()(text)
    browser, system = parsed.user_agent, parsed.os
    family = None if system is None else "Linux" if system.family in LINUXES else system.family
    digits = [] if system is None else [system.major, system.minor, system.patch]
    return Agent(
        browser=None if browser is None else FAMILIES.get(browser.family, browser.family),
        browser_version=None if browser is None else version_number(browser.major, browser.minor),
        os=family,
        os_version=".".join(part for part in digits if part) or None,
        device_type=_device_type(family, text),
    )


@cache
def _parser() -> Callable[[str], Any]:
    from ua_parser.basic import Resolver
    from ua_parser.core import Domain
    from ua_parser.loaders import load_lazy_builtins

    resolve, domains = Resolver(load_lazy_builtins()), Domain.USER_AGENT | Domain.OS
    return lambda text: resolve(text, domains)


def version_number(major: str | None, minor: str | None) -> Raw | None:
    """A version as the service's library writes it: 112 for 112.0, 16.4 for 16.4."""
    if major is None or not _NUMBER.fullmatch(major):
        return None
    fraction = (minor or "").rstrip("0") if (minor or "").isdecimal() else ""
    return Raw(f"{major}.{fraction}".encode() if fraction else major.encode())


def _device_type(system: str | None, text: str) -> str | None:
    """Desktop, Mobile or Tablet. Browsers of Android tablets leave out the word Mobile."""
    if system in DESKTOPS:
        return "Desktop"
    if system == "iOS":
        return "Tablet" if "iPad" in text else "Mobile"
    if system == "Android":
        return "Mobile" if "Mobile" in text or text.startswith("Dalvik") else "Tablet"
    return "Mobile" if system == "Windows Phone" else None


@value(
    "user_agent",
    "a part of a browser's User-Agent; missing if it has no such part",
    user_agent=Field(VALUE, "the text", True),
    part=Field(Choice(PARTS), "which part, in the service's own words", True),
)
def user_agent(build: Builder, call: Call) -> Value:
    return Part(Apply("agents", (build.text(call.arguments["user_agent"]),)), call.arguments["part"])


PART = Field(Choice(("name", "version")), "which part; the name if left out", default="name")

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
"""The version of Windows, by its kernel's version."""

UNKNOWN = frozenset(
    ("", "(not set)", "(none)", "(other)", "<na>", "n/a", "na", "none", "null", "other", "undefined", "unknown",
     "not set", "unk", "generic")
)  # fmt: skip
"""Strings that mean no browser, system or device, in lower case."""

DEVICES = (
    ("Tablet", frozenset(("tablet", "ipad", "tablets"))),
    ("Mobile", frozenset(("mobile", "smartphone", "phone", "phablet", "handset", "iphone", "ipod", "cellphone"))),
    ("Desktop", frozenset(("desktop", "laptop", "computer", "notebook", "pc", "mac", "macbook", "imac", "chromebook"))),
)
"""Words that show a device's type; the first that fits decides: a `Tablet PC` is a tablet."""

_VERSION = re.compile(r"v?([0-9]{1,9}(?:[._][0-9]{1,9})*)[^ ]*", re.IGNORECASE)
_NAMED_VERSION = re.compile(r"XP|Vista|ME|NT", re.IGNORECASE)
_WORDS = re.compile(r"[a-z]+")


@computed(
    "browser_name",
    "a browser's name as the service writes it, without its version; any other name stays",
    "text",
    browser_name=Field(VALUE, "the name, with or without a version, or a version alone", True),
    part=PART,
)
@lru_cache(CACHED)
def browser_part(text: str, part: str) -> str | Raw | None:
    """The name of a browser, or its version as a number with at most two parts: 118 for `Chrome 118.0.0`."""
    name, version = _split(text)
    if part == "version":
        major, minor, *_ = [*version.split("."), ""] if version else ("", "")
        return version_number(major, minor)
    lowered = name.lower().replace("-", " ")
    return None if name.lower() in UNKNOWN else BROWSERS.get(lowered, name)


@computed(
    "os_name",
    "a system's name as the service writes it, without its version; any other name stays",
    "text",
    os_name=Field(VALUE, "the name, with or without a version, or a version alone", True),
    part=PART,
)
@lru_cache(CACHED)
def system_part(text: str, part: str) -> str | None:
    """The name of a system, or its version as a string: 10.15.7 for `Mac OS X 10_15_7`."""
    name, version = _split(text)
    if part == "version":
        return (_NT.get(version, version) if name.lower().endswith("windows nt") else version) or None
    return None if name.lower() in UNKNOWN else SYSTEMS.get(name.lower(), name)


@computed(
    "device_type",
    "Desktop, Mobile or Tablet; missing for any other device",
    "text",
    device_type=Field(VALUE, "the type as a tool writes it, such as smartphone", True),
)
@lru_cache(CACHED)
def type_of_device(text: str) -> str | None:
    """Desktop, Mobile or Tablet, by the words in the string; None if none of them fits."""
    words = frozenset(_WORDS.findall(text.lower()))
    return next((name for name, known in DEVICES if words & known), None)


def _split(text: str) -> tuple[str, str]:
    """The name and the dotted version in a string such as `Chrome 118.0.0`, `Firefox/115` or `Windows XP`; "" if one is
    missing. What follows the version belongs to neither."""
    words = re.sub(r"/(?=v?[0-9])", " ", text).split()
    for at, word in enumerate(words):
        found = _VERSION.fullmatch(word)
        if found and (at or len(words) == 1):
            return " ".join(words[:at]), found.group(1).replace("_", ".")
        if at and words[at - 1].lower() == "windows" and at == len(words) - 1 and _NAMED_VERSION.fullmatch(word):
            return " ".join(words[:at]), word
    return " ".join(words), ""
