"""Verbs and decoders of installed packages (`pipeline.plugins`). A module is imported when a mapping uses its verb."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any

from pipeline.errors import UsageError
from pipeline.mapper.language.kinds import FAMILIES
from pipeline.mapper.program.functions import DECODERS, FUNCTIONS
from pipeline.plugins import VERBS, Plugin, by_name, collision

_REGISTRIES: tuple[dict[str, Any], ...] = (*FAMILIES.values(), FUNCTIONS, DECODERS)


@cache
def names() -> dict[str, list[Plugin]]:
    """The verbs of installed packages, by name. A name of backcast's own keeps its meaning (`taken`)."""
    return {name: plugins for name, plugins in by_name(VERBS).items() if name not in _shipped()}


@cache
def taken() -> tuple[tuple[Plugin, UsageError], ...]:
    """The verbs of installed packages that are not used, because backcast itself has a verb of that name."""
    return tuple(
        (plugins[0], collision("verb", name, ["backcast itself", *(plugin.origin for plugin in plugins)]))
        for name, plugins in by_name(VERBS).items()
        if name in _shipped()
    )


def load(name: str) -> tuple[Plugin, ModuleType]:
    """Declare a package's verb. Raises UsageError if it cannot be loaded, or two packages have it."""
    plugins = names()[name]
    if len(plugins) > 1:
        raise collision("verb", name, [plugin.origin for plugin in plugins])
    declared = _declared(plugins[0].module, plugins[0].package)
    if isinstance(declared, UsageError):
        raise declared
    if not any(name in verbs for verbs in FAMILIES.values()):
        raise plugins[0].broken(f"{plugins[0].module} declares no verb of that name")
    return plugins[0], declared


@cache
def problems() -> tuple[tuple[Plugin, UsageError], ...]:
    """What is wrong with the verbs of installed packages; loads them to find out."""
    found = [*taken()]
    for name, plugins in names().items():
        try:
            load(name)
        except UsageError as error:
            found.append((plugins[0], error))
    return tuple(found)


@cache
def _shipped() -> frozenset[str]:
    """Backcast's own verbs; first called before any package's verb is loaded."""
    from pipeline.mapper import verbs as declared  # noqa: F401

    return frozenset(name for verbs in FAMILIES.values() for name in verbs)


@cache
def _declared(module: str, package: str) -> ModuleType | UsageError:
    """A module, after its verbs were added, once per process. If it would replace something, or has a verb without an
    entry point, none of its verbs is added."""
    own = {name: plugins[0] for name, plugins in names().items() if {one.package for one in plugins} == {package}}
    plugin = next(plugin for plugin in own.values() if plugin.module == module)
    before = [dict(registry) for registry in _REGISTRIES]
    try:
        imported, _ = plugin.load()
        for number, (registry, old) in enumerate(zip(_REGISTRIES, before, strict=True)):
            for name, declared in registry.items():
                if name in old and declared is not old[name]:
                    raise plugin.broken(f"{module} declares {name!r}, which already exists")
                if name not in old and number < len(FAMILIES) and name not in own:
                    raise plugin.broken(f"{module} declares the verb {name!r}, which has no entry point")
    except UsageError as error:
        for registry, old in zip(_REGISTRIES, before, strict=True):
            registry.clear()
            registry.update(old)
        return error
    return imported
