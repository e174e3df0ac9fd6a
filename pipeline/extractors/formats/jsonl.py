"""JSON lines: one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.errors import UnreadableExport
from pipeline.extractors.format import Format, Recognized, RowOptions, Sample
from pipeline.extractors.rows import Rows
from pipeline.models import Block, Dialect, Part


def _recognize(sample: Sample) -> Recognized | None:
    start = sample.text.lstrip(b" \t\r\n")
    if start[:1] in b"{[" and _is_document(start, sample.whole):
        raise UnreadableExport(
            f"{sample.path} is one JSON document over several lines, or a JSON list, not one record a line",
            path=sample.path,
            hint="write one record a line first: jq -c '.[]' FILE > FILE.jsonl (jq -c . for one record)",
        )
    if start[:1] == b"{" or _mostly_objects(start, sample.whole):
        return Recognized(Dialect(encoding=sample.encoding, bom=sample.bom))
    return None


def _sampled_lines(text: bytes, whole: bool) -> list[bytes]:
    lines = text.split(b"\n")
    if not whole and len(lines) > 1:
        lines.pop()
    return [line.strip() for line in lines if line.strip()][:200]


def _mostly_objects(text: bytes, whole: bool) -> bool:
    lines = _sampled_lines(text, whole)
    objects = sum(line.startswith(b"{") and line.endswith(b"}") for line in lines)
    return objects * 2 >= len(lines) and objects > 0


def _is_document(text: bytes, whole: bool) -> bool:
    """Whether JSON text is one document: a list, or an object whose lines are not objects."""
    if text[:1] == b"[":
        return not _mostly_objects(text, whole)
    lines = _sampled_lines(text, whole)
    return len(lines) > 1 and sum(line.startswith(b"{") for line in lines) * 2 < len(lines)


def _blocks(part: Part, block_bytes: int, block_rows: int) -> Iterator[Block]:
    from pipeline.extractors import line_blocks

    return line_blocks.blocks(part, block_bytes)


def _rows(part: Part, block: Block, content: bytes, options: RowOptions) -> Rows:
    from pipeline.extractors.jsonl_rows import JsonlRows

    return JsonlRows(content, block.offset, observe=options.observe, opens=options.opens, members=options.members)


def _traits(dialect: Dialect) -> list[str]:
    return [dialect.encoding] if dialect.encoding != "utf-8" else []


def _notices(part: Part, recognized: Recognized) -> Iterator[tuple[str, str]]:
    if part.dialect.encoding != "utf-8":
        yield "encoding", f"read as {part.dialect.encoding}"


FORMAT = Format("jsonl", "JSON lines", _blocks, _rows, recognize=_recognize, traits=_traits, notices=_notices)
