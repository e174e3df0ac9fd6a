"""Writes a plan to files for the service's own importer: the destination of `--to file:DIR` and `--to s3://…`.

A batch settles when its lines are durable. They are appended to a file with the ending `.part`, and then their end and
digest are appended to `writing.jsonl` next to the manifest. A run that was killed cuts the file after the last batch in
`writing.jsonl`, and recognises by its digest a batch that was written but not settled. A full file is renamed and
then listed in the manifest. Batches are written one after the other, so the same plan gives the same files.

Nothing can be appended to an object of a store. So files for a store are written in a folder of the plan directory.
Each is copied to the store when it is full, before the manifest lists it, and is then removed from the folder.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from pipeline import storage
from pipeline.batcher import Batch, unpack
from pipeline.delivery.destination import Response, ResponseKind
from pipeline.delivery.written_files import (
    MANIFEST,
    PHASE_FOLDERS,
    FilesManifest,
    WrittenFile,
    digest_of,
    encoded,
    read_manifest,
    write_manifest,
)
from pipeline.encoder.encoded import spell_lines
from pipeline.errors import Unfinished, UnsafePlan, UsageError
from pipeline.files import sync_folder
from pipeline.ledger import Totals, lock_file, unlock
from pipeline.text import pluralize

FILE_BYTES = 1 << 30
"""A file has at most this many bytes. The importer reads files by ranges of 100 MB, and keeps its place in each, so a
larger file costs it nothing; one version listed at most 1,000 files of a bucket (docs/know/service.md#own-importer)."""
WRITING = "writing.jsonl"


class _Header(msgspec.Struct):
    """The first line of `writing.jsonl`: which file is being written."""

    path: str
    phase: str


class _Entry(msgspec.Struct):
    """A batch in that file: its end in bytes, and its digest."""

    end: int
    digest: str


class _Part:
    """The file that is being written."""

    def __init__(self, folder: Path, header: _Header, entries: list[_Entry]) -> None:
        self.header = header
        self.size = entries[-1].end if entries else 0
        self.digests = {entry.digest for entry in entries}
        self.last = entries[-1].digest if entries else ""
        path = folder / (header.path + ".part")
        self._file = path.open("a+b")
        if path.stat().st_size < self.size:
            self._file.close()
            raise _damaged(path)
        self._file.truncate(self.size)
        self._file.seek(0)
        self._digest, self.events = digest_of(self._file)
        self._state = (folder / WRITING).open("ab")

    def add(self, content: bytes, events: int, digest: str) -> None:
        """Append the lines of a batch, durably."""
        _append(self._file, content)
        self._digest.update(content)
        self.size += len(content)
        self.events += events
        _append(self._state, msgspec.json.encode(_Entry(self.size, digest)) + b"\n")
        self.digests.add(digest)
        self.last = digest

    def written(self) -> WrittenFile:
        return WrittenFile(self.header.path, self.header.phase, self.events, self.size, self._digest.hexdigest())

    def close(self) -> None:
        for file in (self._file, self._state):
            with suppress(OSError):  # what could not be written is in no settled batch
                file.close()


class FileDestination:
    """Writes to one place, which must be new, empty, or the same plan's: a folder, or a `bucket` through a folder.

    `send` is for one thread only. Raises UsageError and Busy for a place that cannot be used, Unfinished for a store
    that does not answer, and UnsafePlan for a place whose files have changed since they were written.
    """

    def __init__(self, folder: Path, plan: str, tool: str, *, bucket: str = "", file_bytes: int = FILE_BYTES) -> None:
        self.address = bucket or f"file:{folder}"
        self._folder = folder
        self._place = bucket or str(folder)
        self._bucket = bucket
        self._file_bytes = file_bytes
        self._phase = ""
        self._part: _Part | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"cannot write to {folder}: {error.strerror}", hint="name a folder that you may write to: --to file:DIR"
            ) from None
        self._lock = lock_file(folder / MANIFEST, str(folder))
        try:
            self._manifest = _manifest_for(folder, plan, tool, bucket)
            self._resume()
        except storage.StoreError as error:
            self.close()
            raise Unfinished(
                f"the store of {error.url} did not answer as expected: {error}",
                hint=f"{error.hint}, then run the same command again",
            ) from None
        except OSError as error:
            self.close()
            raise UsageError(
                f"cannot use {self._place}: {error}", hint="give yourself the right to read and write it"
            ) from None
        except BaseException:
            self.close()
            raise

    def _resume(self) -> None:
        """Resume where an earlier run stopped, at any step of its writing."""
        places = [os.path.join(self._place, file.path) for file in self._manifest.files]
        for file, place, status in zip(self._manifest.files, places, storage.statuses(places), strict=True):
            if isinstance(status, OSError) and not isinstance(status, FileNotFoundError):
                raise status
            if isinstance(status, OSError) or status.size != file.bytes:
                raise _damaged(place)
            if self._bucket:  # it was copied and listed, but not removed yet
                (self._folder / file.path).unlink(missing_ok=True)
        state = self._folder / WRITING
        if not state.exists():
            return
        header, entries = _read_state(state)
        if header is None or any(file.path == header.path for file in self._manifest.files):
            state.unlink()
            return
        final = self._folder / header.path
        if final.exists():  # it was renamed, but not listed yet
            final.rename(final.with_name(final.name + ".part"))
        self._part = _Part(self._folder, header, entries)

    def check(self, totals: Totals) -> None:
        """Raise UnsafePlan unless the files contain what the ledger says was written, apart from a batch in doubt."""
        written = self._manifest.events + (self._part.events if self._part is not None else 0)
        if not totals.settled <= written <= totals.settled + totals.in_doubt:
            raise UnsafePlan(
                f"{self._place} contains {pluralize(written, 'event')}, but the ledger says that the plan wrote"
                f" {totals.settled:,} there",
                hint="restore the files or the ledger; or plan again and write the new plan to another folder: its"
                " events keep their uuids",
            )

    def begin_phase(self, phase: str) -> None:
        self._phase = phase

    def send(self, batch: Batch) -> Response:
        """Write one batch. Raises Unfinished if the disk or the store does not take it."""
        lines = spell_lines(unpack(batch.body))
        content = b"".join(line + b"\n" for line in lines)
        digest = hashlib.sha256(content).hexdigest()[:32]
        known = self._part.digests if self._part is not None else ()
        if digest not in known and digest != self._manifest.last:
            try:
                self._room_for(len(content)).add(content, len(lines), digest)
            except OSError as error:
                raise self._unfinished(error) from None
        return Response(ResponseKind.SETTLED, 200)

    def _room_for(self, size: int) -> _Part:
        """The file to append to; a new one if the last one belongs to another phase or has no room."""
        part = self._part
        if part is not None and (
            part.header.phase != self._phase or (part.size and part.size + size > self._file_bytes)
        ):
            self._finish_part(part)
        if self._part is None:
            number = 1 + sum(file.phase == self._phase for file in self._manifest.files)
            header = _Header(f"{PHASE_FOLDERS[self._phase]}/{number:05d}.jsonl", self._phase)
            (self._folder / header.path).parent.mkdir(exist_ok=True)
            with (self._folder / WRITING).open("wb") as state:
                _append(state, msgspec.json.encode(header) + b"\n")
            self._part = _Part(self._folder, header, [])
            for folder in (self._folder, (self._folder / header.path).parent):
                sync_folder(folder)
        return self._part

    def _finish_part(self, part: _Part) -> None:
        part.close()
        final = self._folder / part.header.path
        final.with_name(final.name + ".part").rename(final)
        sync_folder(final.parent)
        self._part = None
        if self._bucket:
            storage.upload(str(final), f"{self._bucket}/{part.header.path}")
        self._manifest = self._manifest.with_file(part.written(), part.last)
        write_manifest(self._folder, self._manifest)
        if self._bucket:
            final.unlink()

    def finish(self) -> None:
        """Finish the last file and the manifest, since the whole plan is written. Raises Unfinished."""
        try:
            if self._part is not None:
                self._finish_part(self._part)
            if not self._manifest.complete:
                self._manifest = msgspec.structs.replace(self._manifest, complete=True)
                if self._bucket:
                    storage.write(f"{self._bucket}/{MANIFEST}", encoded(self._manifest))
                write_manifest(self._folder, self._manifest)
            (self._folder / WRITING).unlink(missing_ok=True)
        except OSError as error:
            raise self._unfinished(error) from None

    def _unfinished(self, error: OSError) -> Unfinished:
        hint = error.hint if isinstance(error, storage.StoreError) else "free some space there, or make it writable"
        return Unfinished(
            f"cannot write to {self._place}: {error.strerror or error}",
            hint=f"{hint}, and run the same command again; nothing is lost",
        )

    def close(self) -> None:
        if self._part is not None:
            self._part.close()
        unlock(self._lock)


def _manifest_for(folder: Path, plan: str, tool: str, bucket: str) -> FilesManifest:
    """The manifest of a folder, a new one if the folder is empty; likewise for a bucket, which one plan directory
    owns."""
    manifest = read_manifest(str(folder))
    if manifest is None:
        ours = (f"{MANIFEST}.lock", f"{MANIFEST}.new")  # the second is left if a run was killed before its first file
        others = [path.name for path in folder.iterdir() if path.name not in ours]
        if others:
            raise UsageError(
                f"{folder} is not empty: it contains {min(others)}", hint="name a new or empty folder: --to file:DIR"
            )
        manifest = FilesManifest(plan, tool, writer=os.urandom(16).hex() if bucket else msgspec.UNSET)
        write_manifest(folder, manifest)
    if manifest.plan != plan:
        raise UsageError(
            f"{folder} contains the files of another plan", hint="name a new or empty folder: --to file:DIR"
        )
    if bucket:
        _claim(bucket, manifest)
    return manifest


def _claim(bucket: str, manifest: FilesManifest) -> None:
    """Create the manifest of an otherwise empty bucket, which only one writer can; or find this writer's own."""
    place = f"{bucket}/{MANIFEST}"
    there = read_manifest(bucket)
    if there is None and not manifest.files:
        if others := storage.below(bucket):
            raise UsageError(
                f"{bucket} is not empty: it contains {min(others)}", hint="name a new or empty prefix with --to"
            )
        try:
            storage.create(place, encoded(manifest))
        except FileNotFoundError:
            raise UsageError(
                f"the bucket of {bucket} does not exist", hint="create the bucket first, or check its name in --to"
            ) from None
        there = read_manifest(bucket)
    if there is None:
        raise _damaged(place)
    if there.writer != manifest.writer:
        raise UsageError(
            f"{bucket} contains the files of another plan directory", hint="name a new or empty prefix with --to"
        )
    storage.refuse_replacing(place, encoded(there))


def _read_state(path: Path) -> tuple[_Header | None, list[_Entry]]:
    """What was being written; None if nothing was. An incomplete line is removed."""
    header, entries, good = None, [], 0
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                break
            with suppress(msgspec.MsgspecError):
                if header is None:
                    header = msgspec.json.decode(line, type=_Header)
                else:
                    entries.append(msgspec.json.decode(line, type=_Entry))
                good += len(line)
                continue
            raise _damaged(path)
    os.truncate(path, good)
    return header, entries


def _append(file: BinaryIO, content: bytes) -> None:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def _damaged(path: Path | str) -> UnsafePlan:
    return UnsafePlan(
        f"{path} changed after it was written",
        hint="restore it from a copy; or plan again and write the new plan to another folder: its events keep their"
        " uuids",
    )
