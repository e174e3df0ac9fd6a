"""What `backcast mapping list` lists: the mappings, and what installed packages add to them and to the language."""

from __future__ import annotations

from typing import Any

from pipeline import plugins
from pipeline.extractors import formats
from pipeline.mapper import registry
from pipeline.mapper.language import plugin_verbs
from pipeline.mapper.language.kinds import FAMILIES
from pipeline.plugins import Plugin


def listing() -> dict[str, list[dict[str, str]]]:
    """`mappings`, and the `formats` and `verbs` of packages; those of a package have its `package` and `version`.

    `problems` are those of packages: what cannot be used, and why.
    """
    broken = [*registry.problems(), *formats.problems(), *plugin_verbs.problems()]
    unusable = {(plugin.group, plugin.name) for plugin, _ in broken}
    mappings: list[dict[str, str]] = []
    for name, mapping in registry.usable():
        origins = registry.of_packages().get(name, [])
        if not origins or (len(origins) == 1 and name not in registry.shipped()):
            mappings.append({"name": name, "tool": mapping.tool, "title": mapping.title, **_of(origins)})
    return {
        "mappings": mappings,
        "formats": [
            {"name": plugin.name, "title": formats.of_package(plugin.name)[2].title, **_origin(plugin)}
            for plugin in plugins.installed(plugins.FORMATS)
            if (plugin.group, plugin.name) not in unusable
        ],
        "verbs": [
            {"name": plugin.name, "title": _help(plugin.name), **_origin(plugin)}
            for plugin in plugins.installed(plugins.VERBS)
            if (plugin.group, plugin.name) not in unusable
        ],
        "problems": [
            {"kind": plugins.KINDS[plugin.group], "name": plugin.name, **_origin(plugin), "error": error.message}
            for plugin, error in broken
        ],
    }


def _of(origins: list[tuple[Plugin, Any]]) -> dict[str, str]:
    return _origin(origins[0][0]) if origins else {}


def _origin(plugin: Plugin) -> dict[str, str]:
    return {"package": plugin.package, "version": plugin.version}


def _help(name: str) -> str:
    return next(verbs[name].help for verbs in FAMILIES.values() if name in verbs)
