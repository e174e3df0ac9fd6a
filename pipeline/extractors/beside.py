"""The content of a file next to another one: in the same folder or archive, or in an archive of lookup files."""

from __future__ import annotations

import os
import re

from pipeline import storage
from pipeline.errors import UnreadableExport
from pipeline.extractors import archives
from pipeline.extractors.containers import BUFFER_BYTES, broken
from pipeline.extractors.sniffing import Content, sniff

_LOOKUP = "lookup"
"""Adobe delivers the column names in an archive with this in its name if a delivery has several files
(docs/know/exports.md#adobe)."""
_PAGE = re.compile(r"\A\d+-")
"""How the name of each of these files begins: `01-suite_2023-04-21.tsv.gz`."""


def beside(file: str, shown: str, codecs: tuple[str, ...], name: str) -> bytes:
    """The first bytes of the file `name`, b"" if there is no such file; enough for a row of column names.

    `file` is the file, or the archive whose outer layers are `codecs`; `shown` is its path in errors.
    """
    if codecs and (content := _member(file, shown, codecs, name)):
        return content
    folder = os.path.dirname(file)
    other = os.path.join(folder, name)
    try:
        return storage.read_range(other, 0, BUFFER_BYTES)
    except (FileNotFoundError, IsADirectoryError):
        pass
    except OSError as error:
        raise broken(error, other) from error
    for archive in _lookups(folder, file):
        with storage.opened(archive) as stream:
            sniffed = sniff(stream, archive)
        if isinstance(sniffed, Content) and sniffed.archive:
            content = _member(archive, archive, (*sniffed.codecs, sniffed.archive), name)
            if content:
                return content
    return b""


def _lookups(folder: str, file: str) -> list[str]:
    """The lookup archives of a file: those whose names begin like the file's up to its first dot, or else the only one
    in the folder. Columns differ between deliveries, so another delivery's archive would be wrong."""
    stem = _PAGE.sub("", os.path.basename(file).split(".")[0])
    paths = [os.path.join(folder, entry) for entry in storage.names_in(folder) if _LOOKUP in entry]
    paths = [path for path in paths if path != file]
    own = [path for path in paths if os.path.basename(path).startswith(stem)]
    return own or (paths if len(paths) == 1 else [])


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
