"""What the service makes of the files of `apply --to file:DIR|s3://…`: they are imported into the embedded local
service, line by line as its importer reads them, and compared there with the plan's ledger like any other target."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pipeline import storage
from pipeline.batcher import Envelope, seal_batch
from pipeline.config import Secret
from pipeline.delivery.capture import CaptureDestination
from pipeline.delivery.destination import ResponseKind
from pipeline.delivery.written_files import changed_files, files_to_import, read_manifest
from pipeline.errors import Differences, Unfinished, UnsafePlan, UsageError
from pipeline.files import private
from pipeline.ledger import check_target
from pipeline.local_service import LocalService
from pipeline.management import ManagementClient
from pipeline.options import VerifyOptions
from pipeline.plan.sealed.contents import check_tables
from pipeline.plan.sealed.phases import line_blocks
from pipeline.targets import address_of, files_of
from pipeline.verify.reconcile import verify
from pipeline.verify.steps import depth_of

if TYPE_CHECKING:
    from pipeline.models import Step
    from pipeline.plan.sealed.directory import Directory
    from pipeline.plan.sealed.manifest import Plan
    from pipeline.verify import Verification

LINES, BYTES = 2_000, 4 << 20
"""One request to the local service has at most this many lines and bytes."""


class Imported(NamedTuple):
    """The comparison and, if it found differences, a sentence for each fault of the files themselves."""

    verification: Verification
    faults: Sequence[str]


@private()
def compare_files(
    plan: Plan,
    directory: Directory,
    to: str,
    options: VerifyOptions,
    *,
    progress: Step = lambda name, done, total: None,
) -> Imported:
    """Compare the written files with the ledger: their digests, and what importing them results in.

    Raises UsageError if a repair is requested, UnsafePlan if nothing was written there, and Differences if the
    files were changed but still have the events of the plan.
    """
    place = files_of(to)
    assert place is not None
    if options.repair:
        raise UsageError(
            "--repair works for a service, not for files",
            hint="restore the files from a copy; or plan again and write the new plan to another folder: its events"
            " keep their uuids",
        )
    check_target(directory.ledger, address_of(to))
    manifest = read_manifest(place)
    if manifest is None or manifest.plan != plan.digest:
        raise UnsafePlan(
            f"{place} contains no files of this plan",
            hint=f"write them first: backcast apply {directory.path} --to {to}",
        )
    check_tables(plan, directory)
    depth = depth_of(options)._replace(whole=True)  # everything that lands comes from these files, whatever its marks
    faults = list(changed_files(place, manifest))
    store = directory.path / "imported"
    shutil.rmtree(store, ignore_errors=True)
    store.mkdir()
    try:
        with LocalService(store / "store.duckdb") as service:
            destination = CaptureDestination(service.url, key=Secret(service.capture_key))
            try:
                lines = 0
                for number, chunk in _chunks(place):
                    faults += _send(destination, Envelope(service.capture_key), number, chunk)
                    lines += len(chunk)
                    progress("lines of the files", lines, max(manifest.events, lines))
            finally:
                destination.close()
            with ManagementClient(service.url, Secret(service.personal_key), str(service.project_id)) as client:
                found = verify(plan, directory, client, depth=depth, progress=progress)
    finally:
        shutil.rmtree(store, ignore_errors=True)
    if faults and not found.differs:
        more = f", and {len(faults) - 1:,} more such faults" if len(faults) > 1 else ""
        raise Differences(
            f"{faults[0]}{more}; the events in the files are still those of the plan",
            hint="restore the files before they are imported",
        )
    return Imported(found, faults)


class _Line(NamedTuple):
    path: str
    number: int


def _chunks(place: str) -> Iterator[tuple[_Line, list[bytes]]]:
    """The lines of all files, phase by phase and in chunks, with the place of the first line."""
    for path in files_to_import(place):
        first = 1
        with storage.opened(path) as file:
            for chunk in line_blocks(file, LINES, BYTES):
                yield _Line(path, first), [line.rstrip(b"\r\n") for line in chunk]
                first += len(chunk)


def _send(destination: CaptureDestination, envelope: Envelope, place: _Line, lines: Sequence[bytes]) -> list[str]:
    """Send lines to the local service. Returns a sentence for each line that it does not take."""
    response = destination.send(seal_batch(lines, 0, envelope))
    if response.kind is ResponseKind.SETTLED:
        return []
    if response.kind not in (ResponseKind.POISON, ResponseKind.TOO_LARGE):
        raise Unfinished(f"the local service failed: {response.detail}", hint="run the same command again")
    if len(lines) == 1:
        return [f"{place.path}, line {place.number} is not an event that the service takes: {response.detail}"]
    half = len(lines) // 2
    return [
        *_send(destination, envelope, place, lines[:half]),
        *_send(destination, envelope, place._replace(number=place.number + half), lines[half:]),
    ]
