"""The types that a mapping gives to properties (`properties: types`)."""

from __future__ import annotations

from pipeline.mapper.language.kinds import Choice, Keys, entry

TYPES = ("number", "text", "boolean", "json", "list", "comma_number", "integer")


class PropertyType(Keys):
    """The type that a property is sent with."""

    kind: str = entry(Choice(TYPES), "the type; a value that has it already stays as it is written", name="as")
    otherwise: str = entry(
        Choice(("keep", "null", "reject", "stop")),
        "what becomes of a value that cannot be converted: keep sends it as it is, with a warning (default); null sends"
        " null, with a warning; reject rejects the row; stop keeps it, and the plan is not ready",
        "keep",
        name="else",
    )
