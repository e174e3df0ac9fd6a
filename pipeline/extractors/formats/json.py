"""JSON documents: a list of objects with or without brackets, objects over several lines, or pages with a list."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.extractors.format import Format, Recognized, Sample, when_called
from pipeline.extractors.json_texts import is_joined
from pipeline.models import Dialect, Part

PAGE_LISTS = ("data", "events", "records", "results", "rows")
"""Names that lists of rows have in pages. Lists with other names belong to a row, unless they are named explicitly."""
NO_PAGES = "none"
"""The name that a mapping gives in `rows` if objects with such lists are rows too."""


_TEMPLATE = re.compile(rb"\{[^{}\[\]\":\n]+\}[,;\t|]")
"""The start of a table whose columns are called {adid},{created_at}, as trackers that fill in templates write it."""


def is_table(start: bytes) -> bool:
    """Whether a text that starts with a brace is a table and not JSON."""
    return _TEMPLATE.match(start) is not None


def _recognize(sample: Sample) -> Recognized | None:
    """Comes after JSON lines: a page on one line is a row that a mapping can open, unless its list is named."""
    start = sample.text.lstrip(b" \t\r\n")
    if (
        start[:1] not in (b"{", b"[")
        or is_table(start)
        or not (sample.rules.rows not in ("", NO_PAGES) or is_document(start, sample.whole) or is_joined(start))
    ):
        return None
    dialect = Dialect(encoding=sample.encoding, bom=sample.bom)
    if start[:1] == b"[":
        return Recognized(dialect)
    from pipeline.extractors.json_documents import page_members

    members = page_members(start, (*PAGE_LISTS, sample.rules.rows))
    lists = sorted((member for member in members if member.of_objects), key=lambda member: member.length, reverse=True)
    usual = next((member.name for member in lists if member.name in PAGE_LISTS), "")
    chosen = sample.rules.rows or usual
    if chosen in ("", NO_PAGES):
        return Recognized(dialect)
    others = tuple(member.name for member in lists if member.name != chosen)
    dropped = tuple(member.name for member in members if member.name != chosen)
    dialect = Dialect(encoding=sample.encoding, bom=sample.bom, rows=(chosen, *others))
    return Recognized(dialect, raw_header=dropped)


def sampled_lines(text: bytes, whole: bool) -> list[bytes]:
    """The first lines of a sample that are not blank, without the last if the sample cuts it."""
    lines = text.split(b"\n")
    if not whole and len(lines) > 1:
        lines.pop()
    return [line.strip() for line in lines if line.strip()][:200]


def mostly_objects(text: bytes, whole: bool) -> bool:
    """Whether half of the lines are one object each."""
    lines = sampled_lines(text, whole)
    objects = sum(line.startswith(b"{") and line.endswith(b"}") for line in lines)
    return objects * 2 >= len(lines) and objects > 0


def is_document(text: bytes, whole: bool) -> bool:
    """Whether JSON text is one document: a list, or an object over several lines. Half of its lines may be items of a
    list. Broken rows of JSON lines do not count: they begin like objects but continue on no other line."""
    lines = sampled_lines(text, whole)
    if text[:1] == b"[" or (whole and len(lines) == 1 and lines[0].endswith(b"},")):
        return not mostly_objects(text, whole)
    if len(lines) < 2:
        return False
    if sum(line.startswith(b"{") for line in lines) * 2 < len(lines):
        return True
    goes_on = sum(line.endswith((b",", b"[", b"{", b":")) or line.startswith((b"]", b"}")) for line in lines)
    return goes_on * 2 >= len(lines) and not mostly_objects(text, whole)


def encoding_traits(dialect: Dialect) -> list[str]:
    return [dialect.encoding] if dialect.encoding != "utf-8" else []


def encoding_notices(part: Part, recognized: Recognized) -> Iterator[tuple[str, str]]:
    if part.dialect.encoding != "utf-8":
        yield "encoding", f"read as {part.dialect.encoding}"


def _traits(dialect: Dialect) -> list[str]:
    return [*([f"rows in {dialect.rows[0]!r}"] if dialect.rows else []), *encoding_traits(dialect)]


def _notices(part: Part, recognized: Recognized) -> Iterator[tuple[str, str]]:
    if part.dialect.rows:
        dropped = ", ".join(recognized.raw_header)
        yield (
            "pages",
            f"read as pages whose rows are the items of {part.dialect.rows[0]!r}"
            + (f"; not read: {dropped}" if dropped else ""),
        )
    yield from encoding_notices(part, recognized)


FORMAT = Format(
    "json", "JSON", when_called("json_documents:blocks"), when_called("json_documents:DocumentRows"),
    recognize=_recognize, priority=-1, traits=_traits, notices=_notices,
)  # fmt: skip
