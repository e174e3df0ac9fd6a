r"""Cells with backslashes, as databases write them: `\N` is null, `\t` a tab, and `\` before a delimiter, a quote or a
line end makes it part of the cell (COPY of Postgres, INTO OUTFILE of MySQL, TSV of ClickHouse, UNLOAD ESCAPE of
Redshift, Snowflake, Hive; docs/know/exports.md#database-text).

Before cells are cut, each escaped character is replaced by a surrogate, which no text contains; afterwards each
surrogate becomes what it stands for. So a reader of cells sees no escaped delimiter, quote or line end, and `\N` is
recognised before it is unescaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

_FIRST = 0xD800
_MASKED = re.compile("[\ud800-\ud8ff]")
_MEANS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_STANDS_FOR = {_FIRST + code: _MEANS.get(chr(code), chr(code)) for code in range(256)}
_NULL = chr(_FIRST + ord("N"))


@cache
def _escapes(escape: str) -> re.Pattern[str]:
    return re.compile(re.escape(escape) + "([\0-\xff])", re.DOTALL)


def masked_lines(lines: Iterable[str], escape: str, quote: str, *, cut: bool) -> Iterator[tuple[str, int]]:
    """Lines as a reader of cells may see them, each with the number of lines it has: an escaped line end ends none.

    A last line whose end is escaped is left out, since it continues, unless it is `cut` there.
    """
    text, count = "", 0
    for line in lines:
        text, count = text + line, count + 1
        if not _goes_on(text, escape):
            yield _mask(text, escape, quote), count
            text, count = "", 0
    if text and cut:
        yield _mask(text, escape, quote), count


def _goes_on(text: str, escape: str) -> bool:
    """Whether the line end is escaped: an odd number of escapes comes before it."""
    line = text[:-1]
    return text[-1:] == "\n" and (len(line) - len(line.rstrip(escape))) % 2 == 1


def _mask(text: str, escape: str, quote: str) -> str:
    if escape not in text:
        return text
    text = _escapes(escape).sub(lambda found: chr(_FIRST + ord(found[1])), text)
    return text.replace(f"{quote}{_NULL}{quote}", f"{quote}N{quote}") if quote else text  # in quotes it is a string


def unmasked(cell: str) -> str | None:
    r"""The value of a cell; None if it is `\N` and nothing else, without quotes."""
    if cell == _NULL:
        return None
    return cell.translate(_STANDS_FOR) if _MASKED.search(cell) else cell


_CELL = rb"(?:^|[,\t;|\x01])%b(?=[,\t;|\x01]|\r?$)"
_NULL_CELL = re.compile(_CELL % rb"\\N", re.MULTILINE)
_QUOTED_CELL = re.compile(_CELL % rb'"[^\n"]*"', re.MULTILINE)


_ESCAPED_BREAK = re.compile(rb'\\[",\t;|\x01\n]')
_BACKSLASH = re.compile(rb"\\(.?)", re.DOTALL)


def may_escape(sample: bytes) -> bool:
    """Whether a backslash is before a delimiter, a quote or a line end, so that cells may have it as an escape."""
    return _ESCAPED_BREAK.search(sample) is not None


def is_unsure(sample: bytes, delimiter: str) -> bool:
    r"""Whether backslashes may be escapes or literal: text as databases write it, without `\N`, in which backslashes
    come only before characters that can be escaped. Cells with JSON, which has its own escapes, do not count."""
    if delimiter not in "\t|\x01" or b"\\" not in sample or _QUOTED_CELL.search(sample):
        return False
    cells = re.split(rb"[\n%b]" % re.escape(delimiter.encode()), sample)
    followed = [after for cell in cells if cell[:1] not in (b"{", b"[") for after in _BACKSLASH.findall(cell)]
    return bool(followed) and all(after in b"bfnrtv0\\" for after in followed if after)


def has_nulls(sample: bytes) -> bool:
    r"""Whether a cell is `\N`, which only writers of such text produce."""
    return _NULL_CELL.search(sample) is not None


def is_quoted(sample: bytes) -> bool:
    """Whether every other line has a quoted cell, so that quotation marks do not belong to the text."""
    return 2 * sum(1 for _ in _QUOTED_CELL.finditer(sample)) >= sample.count(b"\n")
