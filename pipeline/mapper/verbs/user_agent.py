"""The verb that reads a browser's User-Agent: what the service's own library would have written of it.

The texts are read by ua-parser, which is loaded when a mapping asks for it and not before. A new text
costs about 0.5 ms, a known one a lookup; an export has a few thousand of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from msgspec import Raw

from pipeline.mapper.builder import Builder
from pipeline.mapper.expressions import Apply, Part, Value
from pipeline.mapper.functions import function
from pipeline.mapper.kinds import VALUE, Choice, Field, verb
from pipeline.mapper.language import Call

PARTS = ("browser", "browser_version", "os", "os_version", "device_type")

LONGEST = 1_024
"""No browser writes more; what is longer is read so far."""
REMEMBERED = 20_000

BROWSERS = {
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
_LINUXES = frozenset(
    ("Ubuntu", "Debian", "Fedora", "Red Hat", "CentOS", "SUSE", "Gentoo", "Arch Linux", "Linux Mint", "Kubuntu",
     "Mandriva")
)  # fmt: skip
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")


class Agent(NamedTuple):
    """What a User-Agent says, in the service's words; None where it does not say. `browser_version` is a number."""

    browser: str | None = None
    browser_version: Raw | None = None
    os: str | None = None
    os_version: str | None = None
    device_type: str | None = None


class Agents:
    """Reads User-Agents, each once as long as it is remembered. The answer depends on the text alone."""

    def __init__(self, parse: Callable[[str], Any]) -> None:
        self._parse = parse
        self._known: dict[str | None, Agent] = {}

    def __call__(self, text: str | None) -> Agent:
        known = self._known.get(text)
        if known is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            known = self._known[text] = self._read((text or "")[:LONGEST])
        return known

    def _read(self, text: str) -> Agent:
        found = self._parse(text)
        browser, system = found.user_agent, found.os
        family = None if system is None else "Linux" if system.family in _LINUXES else system.family
        digits = [] if system is None else [system.major, system.minor, system.patch]
        return Agent(
            browser=None if browser is None else BROWSERS.get(browser.family, browser.family),
            browser_version=None if browser is None else _number(browser.major, browser.minor),
            os=family,
            os_version=".".join(part for part in digits if part) or None,
            device_type=_device_type(family, text),
        )


def _number(major: str | None, minor: str | None) -> Raw | None:
    """A version as the service's library writes it: 112 for 112.0, 16.4 for 16.4."""
    if major is None or not _NUMBER.fullmatch(major):
        return None
    fraction = (minor or "").rstrip("0") if (minor or "").isdecimal() else ""
    return Raw(f"{major}.{fraction}".encode() if fraction else major.encode())


def _device_type(system: str | None, text: str) -> str | None:
    """Desktop, Mobile or Tablet. A browser of an Android tablet is one that does not say Mobile."""
    if system in DESKTOPS:
        return "Desktop"
    if system == "iOS":
        return "Tablet" if "iPad" in text else "Mobile"
    if system == "Android":
        return "Mobile" if "Mobile" in text or text.startswith("Dalvik") else "Tablet"
    return "Mobile" if system == "Windows Phone" else None


@function(prepared=True)
@cache
def agents() -> Agents:
    """The one reader of this process."""
    from ua_parser.basic import Resolver
    from ua_parser.core import Domain
    from ua_parser.loaders import load_lazy_builtins

    resolve, asked = Resolver(load_lazy_builtins()), Domain.USER_AGENT | Domain.OS
    return Agents(lambda text: resolve(text, asked))


@verb(
    "value",
    "user_agent",
    "what a browser's User-Agent says; missing where it does not say",
    user_agent=Field(VALUE, "the text", True),
    part=Field(Choice(PARTS), "which part of it, in the service's own words", True),
)
def user_agent(build: Builder, call: Call) -> Value:
    return Part(Apply("agents", (build.text(call.given["user_agent"]),)), call.given["part"])
