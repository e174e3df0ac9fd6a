"""Recognises a stream by its first bytes: its codecs, then its format, or why it is not part of an export.

Three results: rows (`Content`), nothing that could contain rows (`NoRows`: a picture, prose; a Notice if it is in a
folder), or something that may contain rows but cannot be read (UnreadableExport, with a hint).
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Callable
from contextlib import ExitStack
from typing import IO, NamedTuple

from pipeline.errors import UnreadableExport
from pipeline.extractors.containers import (
    BUFFER_BYTES,
    FETCH_AGAIN,
    Checked,
    codec_of,
    decompressed,
    is_brotli,
    rewound,
)
from pipeline.extractors.dialect import BOMS
from pipeline.extractors.file_rules import NO_RULES, FileRules
from pipeline.extractors.format import Recognized, Sample
from pipeline.extractors.formats import binary_format, text_format
from pipeline.models import Dialect

HEAD_BYTES = 64 * 1024
TABLE_HEAD_BYTES = 1024 * 1024
"""More of a table than that is read, because its first letter beyond ASCII decides its encoding."""
LONG_HEAD_BYTES = 4 * 1024 * 1024

Beside = Callable[[str], bytes] | None


class Content(NamedTuple):
    """Rows of a format (by name), and their codecs, outermost first.

    If the members have to be sniffed, `archive` is "zip" or "tar" and there is no format.
    """

    codecs: tuple[str, ...]
    format: str
    recognized: Recognized
    archive: str = ""


class NoRows(NamedTuple):
    """Nothing to read; `why` describes what it is. `empty`: there is not a single byte.

    `text` says that it is UTF-8 in these `codecs`, and may be rows whose form the text alone does not show.
    """

    why: str
    empty: bool = False
    text: bool = False
    codecs: tuple[str, ...] = ()


_FOREIGN = (
    (b"ARROW1", "an Arrow (Feather) file", "write it as Parquet first"),
    (b"SQLite format 3\x00", "an SQLite database", "write its table as CSV first"),
    (b"\xd0\xcf\x11\xe0", "an old or locked Office document", "save the sheet as .xlsx, without a password"),
    (b"PARE", "an encrypted Parquet file", "write it without encryption"),
    (b"\x04\x22\x4d\x18", "compressed by lz4", "unpack it first (lz4 -d)"),
    (b"\xff\x06\x00\x00sNaPpY", "compressed by snappy", "unpack it first (snzip -d)"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "unpack it first (7z x)"),
    (b"Rar!\x1a\x07", "a RAR archive", "unpack it first (unrar x)"),
    (b"\x1f\x9d", "compressed by compress (.Z)", "unpack it first (uncompress)"),
    (b"LZIP", "compressed by lzip", "unpack it first (lzip -d)"),
)
_MARKUP = (b"<?xml", b"<!doctype", b"<html", b"<error")
_NO_ROWS = (
    (b"\x89PNG\r\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"%PDF-", "a PDF document"),
    (b"\x00\x00\x00\x01Bud1", "a folder view of macOS"),
)


def sniff(
    stream: IO[bytes], path: str, *, inside: str = "", rules: FileRules = NO_RULES, beside: Beside = None
) -> Content | NoRows:
    """The content of a stored stream, by its start. `inside` names the archive that it is a member of.

    Raises UnreadableExport for damage, for a file compressed twice, and for anything that could contain rows but cannot
    be read.
    """
    codecs: list[str] = []
    with ExitStack() as stack:
        checked = stack.enter_context(io.BufferedReader(Checked(stream, path), BUFFER_BYTES))
        while True:
            head = checked.read(HEAD_BYTES)
            codec = codec_of(head)
            if not codec and not codecs and not binary_format(head) and is_brotli(head, path):
                codec = "brotli"
            if not codec:
                break
            codecs.append(codec)
            if len(codecs) > 1:
                raise UnreadableExport(
                    f"{path} is compressed twice ({codecs[1]} in {codecs[0]})",
                    path=path,
                    hint=f"decompress it once first: {_TAKE_OFF[codecs[0]]}",
                )
            inner = stack.enter_context(decompressed(stack.enter_context(rewound(head, checked)), codec))
            checked = stack.enter_context(io.BufferedReader(Checked(inner, path), BUFFER_BYTES))
        archive = _archive_of(head, path)
        if archive:
            if inside or (archive == "zip" and codecs):
                outer = inside or codecs[0]
                raise UnreadableExport(
                    f"{path} is a {archive} archive inside a {outer}",
                    path=path,
                    hint="unpack the outer one first",
                )
            return Content(tuple(codecs), "", Recognized(Dialect()), archive)
        if len(head) == HEAD_BYTES and not (head.startswith(b"{") or binary_format(head)):
            head += checked.read(TABLE_HEAD_BYTES)
        if len(head) >= HEAD_BYTES and b"\n" not in head:
            head += checked.read(LONG_HEAD_BYTES)
        whole = not checked.read(1)
    return _content(head, whole, path, tuple(codecs), rules, beside)


TEXT = "text that is neither JSON lines nor a table with at least two columns"
_CLAIMS_ROWS = re.compile(r"\.(jsonl?|ndjson|parquet|gz|zst|bz2|xz|br|zip|tar|tgz)$", re.IGNORECASE)
"""Names of files with rows. The content decides what a file is, but a file with such a name is never ignored as a
read-me, because damage to its first bytes makes it look like one."""
_TAKE_OFF = {"gzip": "gunzip", "zstd": "zstd -d", "bzip2": "bunzip2", "xz": "unxz", "brotli": "brotli -d"}


def _archive_of(head: bytes, path: str) -> str:
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"):
        return "zip"
    if len(head) >= tarfile.BLOCKSIZE and head[0]:
        try:
            tarfile.TarInfo.frombuf(head[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            if head[257:262] == b"ustar":
                raise UnreadableExport(
                    f"{path} is a tar with a damaged first header: {error}", path=path, hint=FETCH_AGAIN
                ) from None
            return ""
        return "tar"
    return ""


def _content(
    head: bytes, whole: bool, path: str, codecs: tuple[str, ...], rules: FileRules, beside: Beside
) -> Content | NoRows:
    if binary := binary_format(head):
        return Content(codecs, binary, Recognized(Dialect()))
    for magic, name, hint in _FOREIGN:
        if head.startswith(magic):
            raise UnreadableExport(f"{path} is {name}", path=path, hint=hint)
    for magic, name in _NO_ROWS:
        if head.startswith(magic):
            return NoRows(name)
    encoding, mark = next(((name, mark) for mark, name in BOMS if head.startswith(mark)), ("utf-8", b""))
    if not head:
        return NoRows("", empty=True)
    if not mark and not head.strip(b"\x00"):
        raise UnreadableExport(f"{path} begins with only zero bytes", path=path, hint=FETCH_AGAIN)
    if not mark and _is_bare_utf16(head):
        encoding = "utf-16-le" if head[1] == 0 else "utf-16-be"
    text = head[len(mark) :] if encoding == "utf-8" else _utf8(head, encoding)
    start = text.lstrip(b" \t\r\n")
    if not start and not whole:
        raise UnreadableExport(
            f"{path} begins with {len(text):,} bytes of blank lines", path=path, hint=f"remove them, or {FETCH_AGAIN}"
        )
    if not start:
        return NoRows("nothing but blank lines" if text else "", empty=not text)
    if start[:64].lower().startswith(_MARKUP):
        raise UnreadableExport(
            f"{path} is an HTML or XML page, often the error page of a failed download",
            path=path,
            hint="open it to see the error, move it out of the folder, and fetch the export again",
        )
    recognized = text_format(Sample(path, text, whole, encoding, bool(mark), rules, beside))
    if recognized is None:
        if _CLAIMS_ROWS.search(path):
            raise UnreadableExport(
                f"{path} is named like an export, but it is {TEXT}",
                path=path,
                hint=f"{FETCH_AGAIN}, or move it out of the folder",
            )
        return NoRows(TEXT, text=encoding == "utf-8" and not mark, codecs=codecs)
    return Content(codecs, *recognized)


def _utf8(head: bytes, encoding: str) -> bytes:
    text = head.decode(encoding, "replace").removeprefix("\ufeff")
    return text.rstrip("\ufffd").encode("utf-8", "surrogatepass")


def _is_bare_utf16(head: bytes) -> bool:
    """Whether every other of the first 200 bytes is zero: UTF-16 of a western language without a mark."""
    even, odd = head[:200:2], head[1:200:2]
    return len(odd) >= 4 and any(
        zeros.count(0) >= 0.9 * len(odd) and letters.count(0) == 0 for zeros, letters in ((even, odd), (odd, even))
    )
