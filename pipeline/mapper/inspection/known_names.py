"""Which names of events and properties need no rule: names in `events` and `known`, texts that `event` produces, and
the service's own names, from its taxonomy and its SDKs (docs/know/exports.md#session-ids)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from pipeline.mapper.language import sections as language
from pipeline.mapper.program.builder import NO_TABLES, Tables
from pipeline.mapper.program.lookup_table import StoredTable
from pipeline.mapper.program.references import HOLE, calls_in

EVENTS = frozenset(
    (
        "$autocapture", "$dead_click", "$exception", "$feature_flag_called", "$pageleave", "$pageview", "$rageclick",
        "$screen", "$web_vitals", "Application Backgrounded", "Application Became Active", "Application Installed",
        "Application Opened", "Application Updated", "Deep Link Opened", "survey dismissed", "survey sent",
        "survey shown",
    )
)  # fmt: skip
_PROPERTIES = frozenset(
    (
        "$active_feature_flags", "$app_build", "$app_name", "$app_namespace", "$app_version", "$browser",
        "$browser_language", "$browser_version", "$current_url", "$device", "$device_id", "$device_manufacturer",
        "$device_model", "$device_name", "$device_type", "$el_text", "$event_type", "$feature_flag",
        "$feature_flag_response", "$groups", "$host", "$ip", "$lib", "$lib_version", "$locale", "$network_carrier",
        "$network_cellular", "$network_wifi", "$os", "$os_version", "$pathname", "$raw_user_agent", "$referrer",
        "$referring_domain", "$screen_density", "$screen_height", "$screen_name", "$screen_width", "$search_engine",
        "$session_id", "$timezone", "$timezone_offset", "$user_agent", "$viewport_height", "$viewport_width",
        "$window_id", "currency", "revenue", "title",
        "_kx", "dclid", "epik", "fbclid", "gad_source", "gbraid", "gclid", "gclsrc", "igshid", "irclid", "li_fat_id",
        "mc_cid", "msclkid", "qclid", "rdt_cid", "sccid", "ttclid", "twclid", "utm_campaign", "utm_content",
        "utm_medium", "utm_source", "utm_term", "wbraid",
    )
)  # fmt: skip
_PREFIXES = ("$feature/", "$geoip_", "$initial_", "$survey_", "$web_vitals_")


def is_service_property(name: str) -> bool:
    """Whether a property of this name means something to the service."""
    return name in _PROPERTIES or name.startswith(_PREFIXES)


class EventNames:
    """The names that a mapping names; `lookups` are the entries of its lookup files."""

    def __init__(self, mapping: language.Mapping, lookups: Tables = NO_TABLES) -> None:
        self._listed = {*mapping.events, *_made(mapping.event, mapping, {**mapping.tables, **lookups})}
        self._known = NamePatterns(mapping.known.events)
        self._templates = tuple(_templates(mapping.event))

    def is_named(self, name: str) -> bool:
        """Whether the mapping names this event, or the service gives the name a meaning."""
        if name in self._listed or name in EVENTS or self._known.match(name):
            return True
        return any(fnmatchcase(name, pattern) for pattern in self._templates)


class NamePatterns:
    """Names, and beginnings of names that end in `*`. A match costs the same however many there are."""

    def __init__(self, patterns: Iterable[str]) -> None:
        patterns = frozenset(patterns)
        self._begins = {pattern[:-1] for pattern in patterns if pattern.endswith("*")}
        self._lengths = sorted(set(map(len, self._begins)))
        self._names = {pattern for pattern in patterns if not pattern.endswith("*")}

    def match(self, name: str) -> bool:
        """Whether a name is one of these, or begins with one of the beginnings."""
        return name in self._names or any(name[:length] in self._begins for length in self._lengths)


def _made(given: Any, mapping: language.Mapping, tables: Tables) -> set[str]:
    """The fixed strings that a value can give."""
    if not isinstance(given, language.Call):
        return set().union(*(_made(one, mapping, tables) for one in given)) if isinstance(given, tuple) else set()
    arguments = given.arguments
    match given.verb:
        case "const":
            return {arguments["const"]}
        case "lookup":
            table = arguments.get("in", tables.get(arguments.get("table", ""), {}))
            fixed = () if isinstance(table, StoredTable) else table.values()  # too many names to compare with
            return {*fixed} | _made(arguments.get("else"), mapping, tables)
        case "ref":
            name = arguments["ref"]
            defined = mapping.define.get(name[1:]) if name.startswith("@") else None
            return _made(defined, mapping, tables)
        case _:
            inner = (one for name, one in arguments.items() if name != "when" or not isinstance(one, language.Call))
            return set().union(*(_made(one, mapping, tables) for one in inner))


def _templates(given: language.Call) -> Iterator[str]:
    """Patterns of what templates with fixed text can give."""
    for call in calls_in(given):
        fixed = call.arguments.get("template", "").replace("[", "?")
        fixed = HOLE.sub(lambda hole: "*" if hole.group(1) else "?", fixed)
        if fixed.strip("*"):
            yield fixed
