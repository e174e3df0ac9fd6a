"""The registry of formats: every module of this package that declares a FORMAT, and those of installed packages."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from pipeline import plugins
from pipeline.errors import UnreadableExport, UsageError
from pipeline.extractors.format import Format, Recognized, Sample
from pipeline.models import Part
from pipeline.plugins import Plugin

_DECLARED: list[Format] = [import_module(f"{__name__}.{module.name}").FORMAT for module in iter_modules(__path__)]
FORMATS = {format.name: format for format in _DECLARED}


def format_of(part: Part) -> Format:
    """The format of a part. Raises UnreadableExport if this version does not have it, and UsageError if several
    packages have one of that name."""
    packages = plugins.by_name(plugins.FORMATS).get(part.format, [])
    if part.format in FORMATS and not packages:
        return FORMATS[part.format]
    if packages:
        return of_package(part.format)[2]
    raise UnreadableExport(
        f"{part.path} has the format {part.format!r}, which this version cannot read",
        path=part.path,
        hint="use the version and the packages that made the plan, or plan again",
    )


@cache
def of_package(name: str) -> tuple[Plugin, ModuleType, Format]:
    """A format of an installed package. Raises UsageError if it cannot be loaded or shares its name with another."""
    packages = plugins.by_name(plugins.FORMATS)[name]
    if len(packages) > 1 or name in FORMATS:
        shipped = ["backcast itself"] if name in FORMATS else []
        raise plugins.collision("format", name, [*shipped, *(plugin.origin for plugin in packages)])
    plugin = packages[0]
    module, found = plugin.load()
    format = getattr(found, "FORMAT", None) if isinstance(found, ModuleType) else found
    if not isinstance(format, Format):
        raise plugin.broken(f"{plugin.value} declares no FORMAT")
    if format.name != name:
        raise plugin.broken(f"{plugin.value} calls it {format.name!r}, its entry point {name!r}")
    return plugin, module, format


@cache
def problems() -> tuple[tuple[Plugin, UsageError], ...]:
    """What is wrong with the formats of installed packages. Loads them all to find out."""
    found = []
    for plugin in plugins.installed(plugins.FORMATS):
        try:
            of_package(plugin.name)
        except UsageError as error:
            found.append((plugin, error))
    return tuple(found)


def _usable() -> list[Format]:
    """All formats, except those of packages that cannot be loaded; a notice of every plan reports these."""
    broken = {plugin.name for plugin, _ in problems()}
    names = dict.fromkeys(plugin.name for plugin in plugins.installed(plugins.FORMATS) if plugin.name not in broken)
    return [*FORMATS.values(), *(of_package(name)[2] for name in names)]


def binary_format(head: bytes) -> str:
    """The name of the format whose magic a stream starts with, or ""."""
    return next((format.name for format in _usable() if format.magic and head.startswith(format.magic)), "")


def text_format(sample: Sample) -> tuple[str, Recognized] | None:
    """The name of the first text format that recognises a sample, and its result. Raises UnreadableExport."""
    for format in sorted(_usable(), key=lambda format: format.priority):
        if format.recognize is not None and (recognized := format.recognize(sample)) is not None:
            return format.name, recognized
    return None


def describe(part: Part) -> str:
    """How a part is stored, in one line for a report: `CSV, delimiter ";", utf-16, in gzip in zip`."""
    format = format_of(part)
    containers = "".join(f" in {name}" for name in reversed(part.codecs))
    return ", ".join([format.title, *format.traits(part.dialect)]) + ("," + containers if containers else "")
