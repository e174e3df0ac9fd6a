"""Who reads the object with the properties besides the properties themselves.

No section of a mapping sees what another did, so nobody else may read the object that the properties are changed in.
"""

from __future__ import annotations

import msgspec

from pipeline.mapper.program import expressions
from pipeline.mapper.program.operations import OpenProperties, Step


def opened_object(
    opening: OpenProperties, column: str | None, others: tuple[Step, ...]
) -> tuple[str | None, OpenProperties]:
    """The column whose object a reader may open with the row, and the step that takes the properties from it. `column`
    is that of `properties: open` if it is one, and `others` are all other steps."""
    shared = not _columns(opening.source).isdisjoint(_columns(others))
    whole = column is None or _is_read_whole(column, others)
    return None if whole else column, msgspec.structs.replace(opening, shared=shared)


def _is_read_whole(column: str, others: tuple[Step, ...]) -> bool:
    """Whether a step reads a column as a value, and not only members of its object. The text of an object that a reader
    opened is lost: its white space, and all but the last of the members with one name."""
    whole = expressions.Column(column)
    present = expressions.NotNull(whole)
    reads = members = 0
    for one in expressions.operations(others):
        match one:
            case expressions.Column():
                reads += one == whole
            case expressions.Member(of) | expressions.Spread(of) | expressions.Present(of):
                members += of in (whole, present)
    return reads > members


def _columns(found: object) -> set[str]:
    return {one.name for one in expressions.operations(found) if isinstance(one, expressions.Column)}
