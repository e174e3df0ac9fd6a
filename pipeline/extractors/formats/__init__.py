"""The registry of formats: every module of this package that declares a FORMAT."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from pipeline.errors import UnreadableExport
from pipeline.extractors.format import Format, Recognized, Sample
from pipeline.models import Part

_DECLARED: list[Format] = [import_module(f"{__name__}.{module.name}").FORMAT for module in iter_modules(__path__)]
FORMATS = {format.name: format for format in _DECLARED}


def format_of(part: Part) -> Format:
    """The format of a part. Raises UnreadableExport for a name that this version does not have."""
    if part.format not in FORMATS:
        raise UnreadableExport(
            f"{part.path} is of the format {part.format!r}, which this version cannot read",
            path=part.path,
            hint="use the version that made the plan, or plan again",
        )
    return FORMATS[part.format]


def binary_format(head: bytes) -> str:
    """The name of the format whose magic a stream starts with, or ""."""
    return next((format.name for format in FORMATS.values() if format.magic and head.startswith(format.magic)), "")


def text_format(sample: Sample) -> tuple[str, Recognized] | None:
    """The name of the first text format that recognises a sample, and its result. Raises UnreadableExport."""
    for format in sorted(FORMATS.values(), key=lambda format: format.priority):
        if format.recognize is not None and (recognized := format.recognize(sample)) is not None:
            return format.name, recognized
    return None


def describe(part: Part) -> str:
    """How a part is stored, in one line for a report: `CSV, delimiter ";", utf-16, in gzip in zip`."""
    format = format_of(part)
    containers = "".join(f" in {name}" for name in reversed(part.codecs))
    return ", ".join([format.title, *format.traits(part.dialect)]) + ("," + containers if containers else "")
