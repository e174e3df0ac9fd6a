"""The files of a delivery of an Adobe data feed, and its manifest: a text file that lists them with their MD5
(docs/know/exports.md#adobe)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipeline import storage
from pipeline.errors import UnreadableExport
from pipeline.extractors.containers import FETCH_AGAIN
from pipeline.models import Part

HITS, HEADERS = "hit_data.tsv", "column_headers.tsv"
"""The file with the hits in an archive, and the file with the names of their columns."""
_BEGINNING_BYTES = 4096


class Listed(NamedTuple):
    """A file in a manifest. `digest` is its MD5 or "", `records` the number of its rows or None."""

    name: str
    has_hits: bool
    digest: str = ""
    records: int | None = None


def manifests_beside(parts: Sequence[Part]) -> Iterator[str]:
    """The manifests in the folders of the parts. A manifest has no rows, so it is not a part itself."""
    for folder in sorted({os.path.dirname(part.file) for part in parts}):
        for path in (os.path.join(folder, name) for name in storage.names_in(folder) if name.endswith(".txt")):
            beginning = storage.read_range(path, 0, _BEGINNING_BYTES)
            if b"Data-File" in beginning or b"Datafeed-Manifest-Version" in beginning:
                yield path


def listed_files(manifest: str) -> list[Listed]:
    """The files that a manifest lists."""
    files: list[Listed] = []
    for line in storage.read(manifest).decode("utf-8", "replace").splitlines():
        key, _, value = (piece.strip() for piece in line.partition(":"))
        if key in ("Data-File", "Lookup-File"):
            files.append(Listed(value, key == "Data-File"))
        elif key == "MD5-Digest" and files:
            files[-1] = files[-1]._replace(digest=value.lower())
        elif key == "Record-Count" and files and value.isdecimal():
            files[-1] = files[-1]._replace(records=int(value))
    return files


def beside(manifest: str, name: str) -> str:
    """The path of another file in the folder of a manifest."""
    return os.path.join(os.path.dirname(manifest), name)


def unpacked(parts: Sequence[Part], place: str) -> list[Part]:
    """The parts that came from a file: decompressed, or unpacked into its folder or one named after it."""
    whole = name = os.path.basename(place)
    for ending in (".gz", ".tar", ".tgz", ".zip"):
        name = name.removesuffix(ending)
    bare = beside(place, name)
    return [part for part in parts if bare in (part.file, os.path.dirname(part.file))] or [
        part for part in parts if name != whole and part.file == beside(place, HITS)
    ]


def refuse_changed(place: str, file: Listed, manifest_path: str) -> None:
    if not file.digest:
        return
    with storage.opened(place) as stream:
        actual = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if actual != file.digest:
        raise UnreadableExport(
            f"{file.name} is not the file that {manifest_path} lists: its MD5 is {actual}, the manifest says"
            f" {file.digest}",
            path=file.name,
            hint=FETCH_AGAIN,
        )


def refuse_other_count(parts: list[Part], file: Listed, manifest_path: str) -> None:
    from pipeline.extractors import blocks, rows

    hits = [part for part in parts if os.path.basename(part.file) in (HITS, file.name.removesuffix(".gz"))]
    count = sum(1 for part in hits for block in blocks(part) for _ in rows(part, block, observe=False))
    if hits and count != file.records:
        raise UnreadableExport(
            f"{hits[0].path} has {count} rows, but {manifest_path} lists {file.records} for {file.name}",
            path=hits[0].path,
            hint=FETCH_AGAIN,
        )
