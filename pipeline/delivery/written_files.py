"""The files that `apply --to file:DIR|s3://…` writes for the service's own importer, and the manifest next to them.

A place is a folder by its path, or a prefix of a store by its URL.

    DIR/manifest.json           counts and digests, of each file and in all
    DIR/1-identities/00001.jsonl, DIR/2-groups/…, DIR/3-events/…, DIR/4-persons/…

The importer takes every file below a prefix of a bucket, in an order that nobody can rely on across ids. So each
phase has a folder of its own to be imported by itself, and the manifest is in none of them
(docs/know/service.md#own-importer).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from pipeline import storage
from pipeline.errors import UnsafePlan
from pipeline.files import write_atomically
from pipeline.plan.sealed.directory import PHASES

MANIFEST = "manifest.json"
PHASE_FOLDERS = {phase: f"{number}-{phase}" for number, phase in enumerate(PHASES, 1)}


class WrittenFile(msgspec.Struct, frozen=True):
    """A finished file: its path below the folder, its phase, and its content in events, bytes and SHA-256."""

    path: str
    phase: str
    events: int
    bytes: int
    sha256: str


class FilesManifest(msgspec.Struct, frozen=True, omit_defaults=False):
    """`manifest.json`: what is written of the plan with the digest `plan`. `complete`: all of it is.

    `sha256` covers the lines that `sha256sum` prints for the files in order. `last` is the digest of the last batch
    that was written, by which the next run recognises it. `writer` identifies the plan directory, for a store.
    """

    plan: str
    tool: str
    complete: bool = False
    events: int = 0
    bytes: int = 0
    sha256: str = ""
    files: Sequence[WrittenFile] = ()
    last: str = ""
    writer: str | msgspec.UnsetType = msgspec.UNSET
    format: str = "backcast.files/1"

    def with_file(self, file: WrittenFile, last: str) -> FilesManifest:
        files = [*self.files, file]
        lines = "".join(f"{one.sha256}  {one.path}\n" for one in files)
        return msgspec.structs.replace(
            self,
            events=self.events + file.events,
            bytes=self.bytes + file.bytes,
            sha256=hashlib.sha256(lines.encode()).hexdigest(),
            files=files,
            last=last,
        )


def read_manifest(place: str) -> FilesManifest | None:
    """The manifest of a place; None if it has none. Raises OSError, and UnsafePlan for one that is damaged."""
    path = os.path.join(place, MANIFEST)
    try:
        return msgspec.json.decode(storage.read(path), type=FilesManifest)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise UnsafePlan(
            f"cannot read {path}: {error}", hint="restore it, or write the plan to another folder"
        ) from None


def encoded(manifest: FilesManifest) -> bytes:
    """The manifest as it is in its file."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def write_manifest(folder: Path, manifest: FilesManifest) -> None:
    """Write the manifest completely or not at all, durably."""
    write_atomically(folder / MANIFEST, encoded(manifest))


def digest_of(file: BinaryIO) -> tuple[hashlib._Hash, int]:
    """The SHA-256 of the rest of a file, to be continued, and the number of lines there."""
    digest, lines = hashlib.sha256(), 0
    while piece := file.read(1 << 20):
        digest.update(piece)
        lines += piece.count(b"\n")
    return digest, lines


def changed_files(place: str, manifest: FilesManifest) -> Iterator[str]:
    """What is wrong with the files of a place, judging by their digests: a sentence for each file that changed.

    Raises OSError if one cannot be read, or if a store does not list them.
    """
    for file in manifest.files:
        path = os.path.join(place, file.path)
        try:
            with storage.opened(path) as content:
                digest, _ = digest_of(content)
        except FileNotFoundError:
            yield f"{path} is missing"
            continue
        if digest.hexdigest() != file.sha256:
            yield f"{path} was changed after it was written: its digest differs from that in {MANIFEST}"
    known = {os.path.join(place, file.path) for file in manifest.files}
    for path in files_to_import(place):
        if path not in known:
            yield f"{path} does not belong to the plan, but would be imported too"


def files_to_import(place: str) -> Iterator[str]:
    """The files in the folders of the phases, in order. Raises OSError."""
    for name in PHASE_FOLDERS.values():
        yield from storage.below(os.path.join(place, name))
