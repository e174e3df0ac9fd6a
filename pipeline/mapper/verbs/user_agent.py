"""The verb that reads a browser's User-Agent into the properties that the service's own library would have sent.

The texts are read by ua-parser, which is loaded when a mapping asks for it and not before. A new text
costs about 0.5 ms, a cached one a lookup; an export has a few thousand of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from msgspec import Raw

from pipeline.mapper.language.kinds import VALUE, Choice, Field, verb
from pipeline.mapper.language.sections import Call
from pipeline.mapper.program.builder import Builder
from pipeline.mapper.program.expressions import Apply, Part, Value
from pipeline.mapper.program.functions import function

PARTS = ("browser", "browser_version", "os", "os_version", "device_type")

LONGEST = 1_024
"""No browser writes more characters; the rest of a longer text is ignored."""
CACHED = 20_000

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
LINUXES = frozenset(
    ("Ubuntu", "Debian", "Fedora", "Red Hat", "CentOS", "SUSE", "Gentoo", "Arch Linux", "Linux Mint", "Kubuntu",
     "Mandriva")
)  # fmt: skip
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")


class Agent(NamedTuple):
    """The parts of a User-Agent, in the service's words; None where it lacks one. `browser_version` is a number."""

    browser: str | None = None
    browser_version: Raw | None = None
    os: str | None = None
    os_version: str | None = None
    device_type: str | None = None


class Agents:
    """Reads and caches User-Agents. The result depends on the text alone."""

    def __init__(self, parse: Callable[[str], Any]) -> None:
        self._parse = parse
        self._cache: dict[str | None, Agent] = {}

    def __call__(self, text: str | None) -> Agent:
        agent = self._cache.get(text)
        if agent is None:
            if len(self._cache) >= CACHED:
                self._cache.clear()
            # Of a missing one every pattern would be compiled and tried in vain.
            agent = self._cache[text] = self._read(text[:LONGEST]) if text else Agent()
        return agent

    def _read(self, text: str) -> Agent:
        parsed = self._parse(text)
        browser, system = parsed.user_agent, parsed.os
        family = None if system is None else "Linux" if system.family in LINUXES else system.family
        digits = [] if system is None else [system.major, system.minor, system.patch]
        return Agent(
            browser=None if browser is None else BROWSERS.get(browser.family, browser.family),
            browser_version=None if browser is None else version_number(browser.major, browser.minor),
            os=family,
            os_version=".".join(part for part in digits if part) or None,
            device_type=_device_type(family, text),
        )


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


@function(prepared=True)
@cache
def agents() -> Agents:
    """The one reader of this process."""
    from ua_parser.basic import Resolver
    from ua_parser.core import Domain
    from ua_parser.loaders import load_lazy_builtins

    resolve, domains = Resolver(load_lazy_builtins()), Domain.USER_AGENT | Domain.OS
    return Agents(lambda text: resolve(text, domains))


@verb(
    "value",
    "user_agent",
    "a part of a browser's User-Agent; missing where it has none",
    user_agent=Field(VALUE, "the text", True),
    part=Field(Choice(PARTS), "which part, in the service's own words", True),
)
def user_agent(build: Builder, call: Call) -> Value:
    return Part(Apply("agents", (build.text(call.arguments["user_agent"]),)), call.arguments["part"])
