"""The plug-ins of a plan: what it used from installed packages, sealed, and what has changed since."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from pipeline.extractors import formats
from pipeline.mapper import Mapping
from pipeline.mapper.language import plugin_verbs
from pipeline.mapper.registry import of_packages
from pipeline.models import Part
from pipeline.plan.sealed.facts import PluginSeal
from pipeline.plugins import FORMATS, KINDS, VERBS, Plugin, by_name, digest_of


def used_plugins(name: str, mapping: Mapping, parts: Iterable[Part]) -> list[PluginSeal]:
    """What a plan uses from packages; `name` is its mapping's name or path. Raises UsageError."""
    used = []
    if packaged := of_packages().get(name):
        used.append(_seal(packaged[0][0], name, hashlib.sha256(mapping.text.encode()).hexdigest()))
    of_formats = by_name(FORMATS)
    used += [_current(FORMATS, one) for one in sorted({part.format for part in parts}) if one in of_formats]
    used += [_current(VERBS, one) for one in mapping.verbs]
    return used


def broken_plugins(*, mappings: bool) -> list[tuple[str, str, str]]:
    """Notices about what was left out: formats that cannot be loaded, verbs with the name of a shipped one, `mappings`
    that were not consulted."""
    from pipeline.mapper.registry import problems

    found = [*formats.problems(), *plugin_verbs.taken(), *(problems() if mappings else ())]
    return [("broken_plugin", plugin.origin, error.message) for plugin, error in found]


def _current(group: str, name: str) -> PluginSeal:
    plugin, module = (formats.of_package(name)[:2]) if group == FORMATS else plugin_verbs.load(name)
    return _seal(plugin, name, digest_of(module))


def _seal(plugin: Plugin, name: str, digest: str) -> PluginSeal:
    return PluginSeal(KINDS[plugin.group], name, plugin.package, plugin.version, digest)
