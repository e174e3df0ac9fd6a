"""The working copy of a plan in a bucket: a folder of this machine with the same files, and with the ledger.

It is below the state folder of this user, by hashes of the URL: that of its parent first, so that the copies of plans
beside each other are beside each other, and a new plan finds those that were sent from here (`plan.earlier`).
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from contextlib import suppress
from os import PathLike, fspath
from pathlib import Path
from typing import NamedTuple

import msgspec

from pipeline import storage
from pipeline.errors import Unfinished, UnsafePlan, UsageError
from pipeline.files import private, write_atomically
from pipeline.ledger import Marker, discard, lock_file, marker_of, read_marker, unlock, write_marker
from pipeline.plan.in_bucket.publication import (
    Latest,
    Publication,
    SealedFile,
    answering,
    latest,
    object_of,
    plan_url,
)
from pipeline.plan.sealed.commit import finish_commit
from pipeline.plan.sealed.directory import Directory, digest_file
from pipeline.state_folder import VARIABLE, state_folder

"""The environment variable that names the state folder."""
_LOCK = ".bucket"
"""What is locked while the files of the copy are replaced; a hidden name, which a plan may be written beside."""


class Copied(NamedTuple):
    """A result as it was when the bucket got it: its size and time here, and what the bucket calls its content."""

    size: int
    mtime_ns: int
    there: storage.FileStatus


class Origin(msgspec.Struct):
    """`bucket.json`: whose copy this is, and which results are the same here and there."""

    url: str
    folder: str
    results: dict[str, Copied] = {}


def named(path: str | PathLike[str]) -> str:
    """A plan as people name it: the URL without its last slash, or the path in its shortest form. Raises UsageError."""
    text = fspath(path)
    return plan_url(text) if "://" in text else str(Path(text))


def directory_at(path: str | PathLike[str]) -> Directory:
    """The directory of a plan: this one, or the working copy of one in a bucket, brought up to date.

    Raises UsageError, UnsafePlan, Unfinished, and Busy where the copy has the ledger of another plan that was sent.
    """
    text = named(path)
    return _opened(text) if storage.is_remote(text) else Directory(Path(text))


def file_here(name: str, file: str) -> str:
    """The path of a file of a plan on this machine, by the name of the plan."""
    return str((copy_of(name).path if storage.is_remote(name) else Path(name)) / file)


def copy_of(url: str) -> Directory:
    """The working copy of a URL, which may not be there yet."""
    parent, _, _ = url.rpartition("/")
    path = state_folder() / "plans" / _hash(parent) / _hash(url)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"the folder for working copies of plans cannot be made: {path}: {error.strerror}",
            hint=f"name one that you may write with {VARIABLE}",
        ) from None
    return Directory(path, url)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def origin_of(directory: Directory) -> Origin | None:
    """The content of `bucket.json`; None for a plan that is in no bucket. Raises UnsafePlan where it cannot be read."""
    try:
        return msgspec.json.decode(directory.bucket.read_bytes(), type=Origin)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise UnsafePlan(
            f"{directory.bucket} cannot be read: {error}",
            hint="remove it, and name the plan by its URL: it is written again",
        ) from None


def write_origin(directory: Directory, origin: Origin) -> None:
    write_atomically(directory.bucket, msgspec.json.format(msgspec.json.encode(origin), indent=1))


class Locked:
    """Inside, no other process of this machine replaces the files of a working copy. Raises Busy."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def __enter__(self) -> None:
        self._lock = lock_file(self._directory.path / _LOCK, f"the working copy of {self._directory.url}")

    def __exit__(self, *_: object) -> None:
        unlock(self._lock)


def sealed_in(directory: Directory) -> tuple[Path, ...]:
    """The files that make a plan, plan.json first; not each plan has all of them."""
    results = (directory.report_json, directory.report_html)
    return (directory.plan, *(file for file in directory.replaced if file not in results), directory.stdin)


def results_in(directory: Directory) -> tuple[Path, ...]:
    """What people read after the steps that follow, each file where it is there."""
    return (directory.report_json, directory.report_html, directory.receipt, directory.differences)


@private()
def _opened(url: str) -> Directory:
    found = latest(url)
    publication = found.publication
    if publication is None:
        raise UsageError(
            f"{url} contains no plan that backcast published",
            hint=f"create one with: backcast plan SOURCE -o {url}",
        )
    directory = copy_of(url)
    finish_commit(directory)  # of a plan that was finished here and not published: it must not take its place later
    forget_stand_in(directory)
    _bring_files(directory, publication)
    _bring_results(directory, publication)
    if publication.sender is not None:
        _stand_in(directory, found)
    return directory


def _bring_files(directory: Directory, publication: Publication) -> None:
    """Download the files that are missing or not those of the plan that counts."""
    origin = origin_of(directory)
    known = origin is not None and origin.folder == publication.folder
    if known and not _to_bring(directory, publication.files, known=True):
        return
    with Locked(directory):
        old = digest_file(directory.plan) if directory.plan.exists() else ""
        if old != publication.files["plan.json"].sha256:
            discard(directory.ledger)
            shutil.rmtree(directory.rehearsal, ignore_errors=True)
            shutil.rmtree(directory.verification, ignore_errors=True)
            for file in (*sealed_in(directory), *results_in(directory)):
                if file.name not in publication.files and file.name != "plan.json":
                    file.unlink(missing_ok=True)
        for name in _to_bring(directory, publication.files, known=False):
            _download(directory, publication, name)
        write_origin(directory, Origin(directory.url, publication.folder, origin.results if origin and known else {}))


def _to_bring(directory: Directory, files: Mapping[str, SealedFile], *, known: bool) -> list[str]:
    """The files that are not here as they were sealed, plan.json first: with it the folder is one of a plan.

    Of a copy that is `known` to be that of the plan, plan.json is compared by its digest, and the others by size: it
    has their digests, which are compared when they are used.
    """
    ours = {file.name: file for file in sealed_in(directory)}
    if not {"plan.json"} <= files.keys() <= ours.keys():
        raise UnsafePlan(
            f"what was published in {directory.url} is no plan that this version reads",
            hint="use the version of backcast that published it, or plan again",
        )
    wanted = []
    for name, path in ours.items():
        sealed = files.get(name)
        if sealed is None:
            continue
        by_digest = not known or name == "plan.json"
        same = path.exists() and path.stat().st_size == sealed.bytes
        if not same or (by_digest and digest_file(path) != sealed.sha256):
            wanted.append(name)
    return wanted


def _download(directory: Directory, publication: Publication, name: str) -> None:
    """Download a file of the plan. Raises UnsafePlan where it is gone, or is not as it was sealed."""
    place = f"{directory.url}/{publication.folder}/{name}"
    hint = "restore the object, which the bucket may have a version of; or plan again"
    aside = directory.path / f"{name}.new"
    try:
        with answering(directory.url):
            try:
                storage.download(place, str(aside))
            except FileNotFoundError:
                if latest(directory.url).publication != publication:
                    raise Unfinished(
                        f"another plan was published in {directory.url} while this one was downloaded",
                        hint="run the same command again",
                    ) from None
                raise UnsafePlan(f"{place} is missing", hint=hint) from None
        if digest_file(aside) != publication.files[name].sha256:
            raise UnsafePlan(f"{place} is not as it was published", hint=hint)
        aside.replace(directory.path / name)
    finally:
        aside.unlink(missing_ok=True)


def _bring_results(directory: Directory, publication: Publication) -> None:
    """Download what another machine wrote for people to read. Who sends a plan is the only one to write of it."""
    marker = read_marker(directory.ledger)
    sender = publication.sender
    if sender is not None and marker is not None and marker.ledger == sender.ledger:
        return
    origin = origin_of(directory)
    assert origin is not None
    folder = f"{directory.url}/{publication.folder}"
    with answering(directory.url):
        there = storage.below(folder)
    changed = False
    for path in results_in(directory):
        status, known = there.get(f"{folder}/{path.name}"), origin.results.get(path.name)
        if status is None or (known is not None and known.there == status and path.exists()):
            continue
        aside = path.with_name(path.name + ".new")
        try:
            with answering(directory.url):
                storage.download(f"{folder}/{path.name}", str(aside))
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)
        here = path.stat()
        origin.results[path.name] = Copied(here.st_size, here.st_mtime_ns, status)
        changed = True
    if changed:
        write_origin(directory, origin)


def _stand_in(directory: Directory, found: Latest) -> None:
    """Write the marker of the ledger that sends the plan, where that is not here: so its absence is noticed."""
    assert found.publication is not None
    sender = found.publication.sender
    marker = read_marker(directory.ledger)
    if sender is None or (marker is not None and marker.ledger == sender.ledger):
        return
    write_marker(
        directory.ledger,
        Marker(
            plan=sender.plan, target=sender.target, ledger=sender.ledger, at=sender.since,
            elsewhere=f"{sender.host} in {sender.directory}", claim=object_of(directory.url, found.number),
        ),
    )  # fmt: skip


def forget_stand_in(directory: Directory) -> None:
    """Remove such a marker: the bucket's own record counts."""
    marker = read_marker(directory.ledger)
    if marker is not None and marker.elsewhere:
        with suppress(FileNotFoundError):
            marker_of(directory.ledger).unlink()
