"""What a format declares: how it is recognised, how its parts are cut into blocks, and how a block's rows are read.

Each module of `pipeline.extractors.formats` declares one format as FORMAT and is found automatically, so a new format
is one file there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

import msgspec

from pipeline.extractors.file_rules import FileRules
from pipeline.extractors.rows import RowOptions, Rows
from pipeline.models import Block, Dialect, Part

__all__ = ["Format", "Recognized", "RowOptions", "Sample", "when_called"]


class Sample(NamedTuple):
    """The beginning of a file, decompressed, for formats to recognise.

    `text` is UTF-8 without byte order mark if `encoding` is a UTF-16, else the stored bytes. `whole`: the sample is all
    of it. `rules` are declarations about the export's files. `beside` returns the content of the file with a given name
    in the same folder or archive, or b"".
    """

    path: str
    text: bytes
    whole: bool
    encoding: str
    bom: bool
    rules: FileRules
    beside: Callable[[str], bytes] | None = None


class Recognized(NamedTuple):
    """A stream of a format. `raw_header` are column names as written; `values` is why the first row is not a header;
    `unsure` says that its backslashes may or may not be escapes."""

    dialect: Dialect
    raw_header: tuple[str, ...] = ()
    values: str = ""
    unsure: bool = False


def _no_traits(dialect: Dialect) -> list[str]:
    return []


def _no_notices(part: Part, recognized: Recognized) -> Iterator[tuple[str, str]]:
    return iter(())


def when_called(place: str) -> Callable[..., Any]:
    """The function `module:name` of this package, imported when called: most exports have one format."""
    module, _, name = place.partition(":")

    def call(*arguments: Any) -> Any:
        return getattr(import_module(f"{__package__}.{module}"), name)(*arguments)

    return call


class Format(msgspec.Struct, frozen=True):
    """One format. `name` is written into plans and never changes; `title` is for people.

    A binary format has a `magic`, the bytes that every file begins with. A text format has `recognize`, which gets a
    sample and returns None if the text has another format; text formats are tried by `priority`, lowest first. It may
    raise UnreadableExport, with a hint, for a text that is almost of the format.

    `blocks(part, block_bytes, block_rows)` and `rows(part, block, content, options)` are those of
    `pipeline.extractors`; they import what they need when called (`when_called`). `traits` are the words of a dialect
    that a report shows. `notices` yields (code, detail) pairs about a new part; it may raise UnreadableExport. With
    `fixed_columns`, every row of a part has the same columns; with `layouts`, rows that are Members can have a layout.
    """

    name: str
    title: str
    blocks: Callable[[Part, int, int], Iterator[Block]]
    rows: Callable[[Part, Block, bytes, RowOptions], Rows]
    magic: bytes = b""
    recognize: Callable[[Sample], Recognized | None] | None = None
    priority: int = 0
    traits: Callable[[Dialect], list[str]] = _no_traits
    notices: Callable[[Part, Recognized], Iterator[tuple[str, str]]] = _no_notices
    fixed_columns: bool = False
    layouts: bool = False
