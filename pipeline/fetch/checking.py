"""Whether a downloaded file is whole, and how many events it has: read from begin to end, as `plan` will read it."""

from __future__ import annotations

import gzip
import lzma
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from pipeline.http import CutOff

_GZIP = b"\x1f\x8b"
_PIECE = 1 << 18
_ANY = msgspec.json.Decoder(Any)
T = TypeVar("T")


class _Event(msgspec.Struct):
    event: str


def lines_of(stream: IO[bytes]) -> Iterator[bytes]:
    """The lines of a stream that is gzipped or not. Raises CutOff where it ends inside its compression."""
    head = stream.read(2)
    stream.seek(0)
    try:
        yield from gzip.GzipFile(fileobj=stream) if head == _GZIP else stream
    except (EOFError, OSError, zlib.error) as error:
        raise CutOff(f"the compressed body is cut off or damaged ({error})") from None


def count_events(file: Path) -> Counter[str]:
    """The events of a file of JSON lines by name; a line without a name counts as "".

    Raises CutOff where the last line is no JSON object: it is cut off, or it is Mixpanel's line `export terminated
    early` (mixpanel/mixpanel-utils#5).
    """
    decoder = msgspec.json.Decoder(_Event)
    counts: Counter[str] = Counter()
    last = True
    with file.open("rb") as stream:
        for line in lines_of(stream):
            if not line.strip():
                continue
            try:
                counts[_decoded(decoder, line).event] += 1
                last = True
            except (msgspec.MsgspecError, RecursionError):
                counts[""] += 1
                last = _is_object(line)
    if not last:
        raise CutOff("the last line is no whole event")
    return counts


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(_decoded(_ANY, line), dict)
    except RecursionError:  # `plan` rejects the row
        return line.rstrip().endswith(b"}")
    except msgspec.MsgspecError:
        return False


def _decoded(decoder: msgspec.json.Decoder[T], line: bytes) -> T:
    """What a line has. The file keeps each byte that is not UTF-8, and `plan` rejects its row."""
    try:
        return decoder.decode(line)
    except UnicodeDecodeError:
        return decoder.decode(line.decode("utf-8", "replace"))


def count_archived_lines(file: Path) -> int:
    """The lines of all files in a zip archive, each of which may be gzipped.

    Raises CutOff where the archive is cut off or damaged, or the last line of a file is no JSON object.
    """
    rows = 0
    try:
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                if not member.is_dir():
                    with archive.open(member) as stream:
                        rows += _count(lines_of(stream), member.filename)
    except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, ValueError, zlib.error, lzma.LZMAError) as error:
        # `zipfile` raises RuntimeError for a file that is encrypted, or compressed in a way that it does not know, and
        # ValueError for a name that cannot be read.
        raise CutOff(f"the archive is cut off or damaged ({error})") from None
    return rows


def _count(lines: Iterable[bytes], name: str) -> int:
    rows, last = 0, b"{}"
    for line in lines:
        if line.strip():
            rows, last = rows + 1, line
    if not _is_object(last):
        raise CutOff(f"the last line of {name} is no whole event")
    return rows
