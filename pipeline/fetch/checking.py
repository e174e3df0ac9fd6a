"""Whether a downloaded file is complete, and how many events it has: reads it through, as `plan` will read it."""

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
    """The lines of a stream, gzipped or not. Raises CutOff if its compressed data ends too early."""
    head = stream.read(2)
    stream.seek(0)
    try:
        yield from gzip.GzipFile(fileobj=stream) if head == _GZIP else stream
    except (EOFError, OSError, zlib.error) as error:
        raise CutOff(f"the compressed body is cut off or damaged ({error})") from None


def count_events(file: Path) -> Counter[str]:
    """The events of a file of JSON lines by name; a line without a name counts as "".

    Raises CutOff if the last line is not a JSON object: it is cut off, or it is Mixpanel's line `export terminated
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
        raise CutOff("the last line is not a complete event")
    return counts


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(_decoded(_ANY, line), dict)
    except RecursionError:  # `plan` rejects the row
        return line.rstrip().endswith(b"}")
    except msgspec.MsgspecError:
        return False


def _decoded(decoder: msgspec.json.Decoder[T], line: bytes) -> T:
    """The content of a line. The file keeps bytes that are not UTF-8, and `plan` rejects their rows."""
    try:
        return decoder.decode(line)
    except UnicodeDecodeError:
        return decoder.decode(line.decode("utf-8", "replace"))


def count_archived_lines(file: Path) -> int:
    """The lines of all files in a zip archive, each of which may be gzipped.

    Raises CutOff if the archive is cut off or damaged, or the last line of a file is not a JSON object.
    """
    try:
        return sum(_count(lines, name) for name, lines in archived(file))
    except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, ValueError, zlib.error, lzma.LZMAError) as error:
        # `zipfile` raises RuntimeError for a file that is encrypted or compressed in an unknown way, and ValueError for
        # a name that cannot be read.
        raise CutOff(f"the archive is cut off or damaged ({error})") from None


def archived(file: Path) -> Iterator[tuple[str, Iterator[bytes]]]:
    """The files of a zip archive, with their lines."""
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                with archive.open(member) as stream:
                    yield member.filename, lines_of(stream)


def _count(lines: Iterable[bytes], name: str) -> int:
    rows, last = 0, b"{}"
    for line in lines:
        if line.strip():
            rows, last = rows + 1, line
    if not _is_object(last):
        raise CutOff(f"the last line of {name} is not a complete event")
    return rows
