"""A format is one declaration, which discovery, blocks and rows find by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.errors import UnreadableExport
from pipeline.extractors import blocks, describe, line_blocks, open_source, rows
from pipeline.extractors.format import Format, Recognized, RowOptions, Sample
from pipeline.extractors.formats import FORMATS
from pipeline.extractors.jsonl_rows import JsonlRows
from pipeline.extractors.rows import Rows
from pipeline.models import Block, Dialect, Part

COMMENTED = b"# exported by hand\n"


def _recognize(sample: Sample) -> Recognized | None:
    return Recognized(Dialect()) if sample.text.startswith(COMMENTED) else None


def _blocks(part: Part, block_bytes: int, block_rows: int) -> Iterator[Block]:
    return line_blocks.blocks(part, block_bytes)


def _rows(part: Part, block: Block, content: bytes, options: RowOptions) -> Rows:
    lines = content.removeprefix(COMMENTED)
    return JsonlRows(lines, block.offset + len(content) - len(lines), observe=options.observe)


def test_a_new_format_is_one_declaration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text format of a lower priority is asked before the others."""
    file = tmp_path / "a.commented"
    file.write_bytes(COMMENTED + b'{"a":1}\n')
    monkeypatch.setitem(
        FORMATS, "commented", Format("commented", "commented lines", _blocks, _rows, recognize=_recognize, priority=-1)
    )
    (part,) = open_source([str(file)]).parts
    assert (part.format, describe(part)) == ("commented", "commented lines")
    (block,) = blocks(part)
    assert [list(record) for record in rows(part, block)] == [["a"]]


def test_a_part_of_an_unknown_format_is_not_read(tmp_path: Path) -> None:
    """As a plan of a later version could name one."""
    part = Part(0, "a", str(tmp_path / "a"), "", (), "later", Dialect(), 1, 1)
    with pytest.raises(UnreadableExport, match="'later'"):
        blocks(part)
