"""The content of a file that lies beside another one: in its folder, in its archive, or in an archive of lookups."""

from __future__ import annotations

import os

from pipeline.errors import UnreadableExport
from pipeline.extractors import archives
from pipeline.extractors.containers import BUFFER_BYTES, broken
from pipeline.extractors.sniffing import Content, sniff

_LOOKUP = "lookup"
"""Adobe delivers the column names in an archive of this name where a delivery has several files
(docs/know/exports.md#adobe)."""


def beside(file: str, shown: str, codecs: tuple[str, ...], name: str) -> bytes:
    """The first bytes of the file `name`, b"" where there is none: enough for a row of column names.

    `file` is the file, or the archive whose outer layers are `codecs`; `shown` its path for errors.
    """
    if codecs and (content := _member(file, shown, codecs, name)):
        return content
    folder = os.path.dirname(file)
    try:
        with open(os.path.join(folder, name), "rb") as stream:
            return stream.read(BUFFER_BYTES)
    except OSError:
        pass
    for archive in _lookups(folder, file):
        with open(archive, "rb") as stream:
            sniffed = sniff(stream, archive)
        if isinstance(sniffed, Content) and sniffed.archive:
            content = _member(archive, archive, (*sniffed.codecs, sniffed.archive), name)
            if content:
                return content
    return b""


def _lookups(folder: str, file: str) -> list[str]:
    """The archives of lookups in a folder: first the one that begins with the same name up to its first dot."""
    stem = os.path.basename(file).split(".")[0]
    names = sorted(entry for entry in os.listdir(folder) if _LOOKUP in entry)
    paths = [os.path.join(folder, entry) for entry in sorted(names, key=lambda entry: not entry.startswith(stem))]
    return [path for path in paths if path != file and os.path.isfile(path)]


def _member(file: str, shown: str, codecs: tuple[str, ...], name: str) -> bytes:
    try:
        for member in archives.members(file, shown, codecs):
            if member.name.rpartition("/")[2] == name and member.stream is not None:
                return member.stream.read(BUFFER_BYTES)
    except UnreadableExport:
        raise
    except OSError as error:
        raise broken(error, shown) from error
    return b""
