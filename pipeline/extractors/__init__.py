"""Reads an export: finds its parts, cuts them into blocks, and reads the rows of a block.

    open_source(paths) -> Source          parts in time order, with notices about what was left out
    blocks(part) -> Iterator[Block]       fixed boundaries: a function of the part's content alone
    rows(part, block) -> Rows             in a worker process: records, or the reasons why rows have none

Nothing is read whole: a part streams through its containers, and a worker has one block in memory. A broken
*row* is a `BrokenRow` with a code; a broken *file* is `UnreadableExport` (exit 3) with a hint.
A format is one file in `formats/` (see `pipeline.extractors.format`); a codec is one row in `containers.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from msgspec import UNSET

from pipeline.extractors.format import RowOptions
from pipeline.extractors.formats import describe, format_of
from pipeline.extractors.rows import Rows
from pipeline.extractors.stream import content_of, digest_of, refuse_changed
from pipeline.lazily import lazily
from pipeline.models import BLOCK_BYTES, BLOCK_ROWS, Block, Layout, Part

if TYPE_CHECKING:
    from pipeline.extractors.choice import choose_parts
    from pipeline.extractors.discovery import open_source, refuse_unnamed

__all__ = [
    "Rows", "blocks", "choose_parts", "describe", "digest_of", "has_fixed_columns", "open_source", "refuse_changed",
    "refuse_unnamed", "rows",
]  # fmt: skip
__getattr__ = lazily(__name__, {"choice": "choose_parts", "discovery": "open_source refuse_unnamed"})


def blocks(part: Part, *, block_bytes: int = BLOCK_BYTES, block_rows: int = BLOCK_ROWS) -> Iterator[Block]:
    """The blocks of a part, in order. The same part has the same boundaries on any machine.

    Lines and delimited parts are cut at the first record end at or after each `block_bytes` of decompressed
    content, Parquet at `block_rows` rows of each row group, Avro at the end of one of the file's own blocks.
    Raises UnreadableExport, also halfway, for a part that is truncated or damaged.
    """
    return format_of(part).blocks(part, block_bytes, block_rows)


def rows(
    part: Part,
    block: Block,
    *,
    observe: bool = True,
    opens: Sequence[str] = (),
    members: bool = False,
    blanks: bool = False,
    layout_of: Callable[[tuple[str, ...]], Layout | None] | None = None,
    unread: Container[str] = (),
) -> Rows:
    """The rows of one block, read in the calling process.

    A block without content is read from the file itself. Without `observe` there are no warnings. `opens` names members
    of JSON lines whose objects are opened with the row (`pipeline.extractors.jsonl_rows`). With `members`, rows may be
    `pipeline.native` Members instead of dicts, in the layout that `layout_of` gives for the block's columns; if it
    gives none, or rows have columns of their own, all rows are dicts. A blank cell of delimited text is missing from
    its record, or with `blanks` an empty string. A value that cannot be read breaks no row if its column is in
    `unread`.
    """
    if part.dialect.folders or part.dialect.integers:
        from pipeline.extractors.changed_rows import ChangedRows

        bare = replace(part, dialect=replace(part.dialect, folders=UNSET, integers=UNSET))
        read_bare = rows(bare, block, observe=observe, opens=opens, blanks=blanks, unread=unread)
        return ChangedRows(read_bare, part.dialect.folders or (), part.dialect.integers or ())
    form = format_of(part)
    read = partial(form.rows, part, block, content_of(part, block))
    layout: Layout | None = Layout()
    if members and layout_of is not None:
        columns = read(RowOptions()).columns
        layout = None if columns is None else layout_of(tuple(columns))
    if layout is None or (layout.places and not form.layouts):
        return read(RowOptions(observe, opens, blanks=blanks, unread=unread))
    return read(RowOptions(observe, opens, members, blanks, layout, unread))


def has_fixed_columns(part: Part) -> bool:
    """Whether every row of a part has the same columns."""
    return format_of(part).fixed_columns
