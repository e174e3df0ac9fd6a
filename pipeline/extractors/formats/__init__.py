"""The registry of formats: every module of this package that declares a FORMAT."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from pipeline.errors import UnreadableExport
from pipeline.extractors.format import Format, Recognized, Sample
from pipeline.models import Part

FORMATS: dict[str, Format] = {
    found.name: found for found in (import_module(f"{__name__}.{one.name}").FORMAT for one in iter_modules(__path__))
}
"""By name."""


def format_of(part: Part) -> Format:
    """The format of a part. Raises UnreadableExport for a name that this version does not know."""
    found = FORMATS.get(part.format)
    if found is None:
        raise UnreadableExport(
            f"{part.path} is of the format {part.format!r}, which this version cannot read",
            path=part.path,
            hint="use the version that made the plan, or plan again",
        )
    return found


def binary_format(head: bytes) -> str:
    """The name of the format whose magic a stream begins with, or ""."""
    return next((one.name for one in FORMATS.values() if one.magic and head.startswith(one.magic)), "")


def text_format(sample: Sample) -> tuple[str, Recognized] | None:
    """The first text format that recognises a sample, with its result. Raises UnreadableExport."""
    for one in sorted(FORMATS.values(), key=lambda one: one.priority):
        if one.recognize is not None and (found := one.recognize(sample)) is not None:
            return one.name, found
    return None


def describe(part: Part) -> str:
    """One line for a report: the format, what is unusual in its dialect, its containers from the inside out."""
    found = format_of(part)
    inside = "".join(f" in {name}" for name in reversed(part.codecs))
    return ", ".join([found.title, *found.traits(part.dialect)]) + ("," + inside if inside else "")
