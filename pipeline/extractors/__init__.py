"""Read an export: find its parts, cut them into blocks, and give the rows of a block.

    open_source(paths) -> Source          parts in time order, and what was noticed while finding them
    blocks(part) -> Iterator[Block]       fixed boundaries: a function of the part's content alone
    rows(part, block) -> Rows             in a worker process: records, or why a row is none

Nothing is read whole: a part streams through its containers, and a block is what a worker holds. A broken
*row* is a `BrokenRow` with a code; a broken *file* is `UnreadableExport` (exit 3) with what to do about it.
A format is one file in `formats/` (see `pipeline.extractors.format`); a codec is one row in `containers.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pipeline.extractors.rows import Rows
from pipeline.models import BLOCK_BYTES, BLOCK_ROWS, Block, Part, Source

__all__ = [
    "Rows", "blocks", "describe", "digest_of", "has_fixed_columns", "open_source", "refuse_changed", "refuse_unnamed",
    "rows",
]  # fmt: skip


def open_source(paths: Sequence[str], *, spool: Path | None = None, header: str = "") -> Source:
    """The parts of an export, from files, folders, globs, archives, and `-` for standard input.

    Each file is recognised by its content. Folders are walked in natural order (`2024-1-1_9` before
    `2024-1-1_10`); members of an archive are parts of their own. What is left out is left out with a Notice
    (`ignored_file`, `empty_file`, `same_file`), and what was sniffed that a person may doubt is told by one
    (`dialect`, `encoding`, `duplicate_column`, `outside_name`). Standard input is kept as `spool`/stdin, because a plan
    must be able to read its source again.

    `header` is yes or no where people say whether delimited files begin with their columns' names. Otherwise a first
    row of values is reported by a Notice (`no_header`) and read as a row, its columns `column_1`, `column_2` and so on.

    Raises UsageError when nothing is named or found, UnreadableExport for a missing, damaged or foreign file.
    """
    from pipeline.extractors import discovery

    return discovery.open_source(paths, spool=spool, header=header)


def refuse_unnamed(source: Source) -> None:
    """Raises UnreadableExport where a file seems to have no header and people did not say so: columns that a mapping
    names are not there, or a row would be lost that was taken for names."""
    from pipeline.extractors import discovery

    discovery.refuse_unnamed(source)


def blocks(part: Part, *, block_bytes: int = BLOCK_BYTES, block_rows: int = BLOCK_ROWS) -> Iterator[Block]:
    """The blocks of a part, in order. The same part gives the same boundaries on any machine.

    Lines and delimited parts are cut at the first record end at or after each `block_bytes` of decompressed
    content, Parquet at `block_rows` rows of each row group. Raises UnreadableExport, also halfway, for a part
    that is truncated or damaged.
    """
    from pipeline.extractors.formats import format_of

    return format_of(part).blocks(part, block_bytes, block_rows)


def rows(
    part: Part,
    block: Block,
    *,
    observe: bool = True,
    opens: Sequence[str] = (),
    members: bool = False,
    blanks: bool = False,
) -> Rows:
    """The rows of one block, read in the calling process.

    A block without content is read from the file itself. Without `observe` no warnings are gathered.
    `opens` names members of JSON lines that hold an object to be opened with the row
    (`pipeline.extractors.jsonl_rows`).
    With `members`, rows may come as `pipeline.native` Members instead of dicts. A blank cell of delimited text is
    missing from its record, or with `blanks` the empty text.
    """
    from pipeline.extractors.format import RowOptions
    from pipeline.extractors.formats import format_of
    from pipeline.extractors.stream import content_of

    return format_of(part).rows(part, block, content_of(part, block), RowOptions(observe, opens, members, blanks))


def digest_of(part: Part, given_up: Callable[[], bool] = lambda: False) -> str:
    """sha256, as lower-case hex, of the part's stored bytes (a member's, as its archive gives them).

    `given_up` is asked now and then whether anybody still waits; where nobody does, "" is soon given.
    """
    from pipeline.extractors import stream

    return stream.digest_of(part, given_up)


def refuse_changed(part: Part) -> None:
    """Raises UnreadableExport where the part's file is not of the size and the time that it was found with."""
    from pipeline.extractors import stream

    stream.refuse_changed(part)


def has_fixed_columns(part: Part) -> bool:
    """Whether every row of a part has the same columns."""
    from pipeline.extractors.formats import format_of

    return format_of(part).fixed_columns


def describe(part: Part) -> str:
    """One line about how a part is stored, for a report: `CSV, delimiter ";", utf-16, in gzip in zip`."""
    from pipeline.extractors import formats

    return formats.describe(part)
