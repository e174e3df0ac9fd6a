"""The working copy of a plan in a bucket: a folder on this machine with the same files, and with the ledger.

It is below this user's state folder, under hashes of the URL; the hash of the parent comes first, so that the copies of
neighbouring plans are neighbours, and a new plan finds those that were sent from here (`plan.earlier`).
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from os import PathLike, fspath
from pathlib import Path
from typing import NamedTuple

import msgspec

from pipeline import storage
from pipeline.errors import BackcastError, Unfinished, UnsafePlan, UsageError
from pipeline.files import private, write_json
from pipeline.ledger import Marker, discard, lock_file, marker_of, read_marker, unlock, write_marker
from pipeline.plan.in_bucket.publication import (
    Latest,
    Publication,
    SealedFile,
    Sender,
    answering,
    latest,
    object_of,
    plan_url,
)
from pipeline.plan.sealed.commit import finish_commit
from pipeline.plan.sealed.directory import Directory, digest_file
from pipeline.plan.sealed.discarded import remove_people, write_discarded
from pipeline.plan.sealed.manifest import read_plan
from pipeline.state_folder import VARIABLE, state_folder

_LOCK = ".bucket"
"""Locked while the files of the copy are replaced. The name is hidden, so that a plan may be written next to it."""


class Copied(NamedTuple):
    """A result as it was when it was copied to the bucket: its size and time here, and the bucket's id of its
    content."""

    size: int
    mtime_ns: int
    there: storage.FileStatus


class Origin(msgspec.Struct):
    """`bucket.json`: whose copy this is, and which results are the same here and there."""

    url: str
    folder: str
    results: dict[str, Copied] = {}


def named(path: str | PathLike[str]) -> str:
    """A plan as people name it: the URL without a trailing slash, or the path in its shortest form. Raises
    UsageError."""
    text = fspath(path)
    return plan_url(text) if "://" in text else str(Path(text))


def directory_at(path: str | PathLike[str]) -> Directory:
    """The directory of a plan: the one given, or the working copy of a plan in a bucket, brought up to date.

    Raises UsageError, UnsafePlan, Unfinished, and Busy if the copy has the ledger of another plan that was sent.
    """
    text = named(path)
    return _opened(text) if storage.is_remote(text) else Directory(Path(text))


def file_here(name: str, file: str) -> str:
    """The path of a plan's file on this machine, given the plan's name."""
    return str((copy_of(name).path if storage.is_remote(name) else Path(name)) / file)


def copy_of(url: str) -> Directory:
    """The working copy of a URL, which may not exist yet."""
    parent, _, _ = url.rpartition("/")
    path = state_folder() / "plans" / _hash(parent) / _hash(url)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot make the folder for working copies of plans: {path}: {error.strerror}",
            hint=f"set {VARIABLE} to a folder that you may write",
        ) from None
    return Directory(path, url)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def origin_of(directory: Directory) -> Origin | None:
    """The content of `bucket.json`; None for a plan that is not in a bucket. Raises UnsafePlan if it cannot be read."""
    try:
        return msgspec.json.decode(directory.bucket.read_bytes(), type=Origin)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise UnsafePlan(
            f"cannot read {directory.bucket}: {error}",
            hint="remove that file, and name the plan by its URL, which writes the file again",
        ) from None


@contextmanager
def locked(directory: Directory) -> Iterator[None]:
    """Within it, no other process on this machine replaces the files of a working copy. Raises Busy."""
    lock = lock_file(directory.path / _LOCK, f"the working copy of {directory.url}")
    try:
        yield
    finally:
        unlock(lock)


def sealed_in(directory: Directory) -> dict[str, Path]:
    """The files here that make up a plan, by their names relative to the directory, plan.json first."""
    results = (directory.report_json, directory.report_html)
    found = (directory.plan, *(one for one in directory.replaced if one not in results), directory.stdin)
    files = [file for one in found for file in (sorted(one.iterdir()) if one.is_dir() else [one]) if file.exists()]
    return {file.relative_to(directory.path).as_posix(): file for file in files}


def _is_known(directory: Directory, name: str) -> bool:
    """Whether a plan can have a file of this name."""
    own = (directory.plan, *directory.replaced, directory.stdin)
    folder, _, file = name.rpartition("/")
    return (folder or file) in {one.name for one in own} and file not in ("", ".", "..") and "\\" not in file


def results_in(directory: Directory) -> tuple[Path, ...]:
    """The files with the results of later steps, which people read; only those that exist."""
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
    finish_commit(directory)  # a plan finished here but not published must not take its place later
    forget_stand_in(directory)
    _bring_files(directory, publication)
    if publication.discarded is not None:
        write_discarded(directory, publication.discarded)
        remove_people(read_plan(directory), directory, publication.discarded)
    else:
        directory.discarded.unlink(missing_ok=True)  # the same plan was published again since
    _bring_results(directory, publication)
    _stand_in(directory, found)
    return directory


def _bring_files(directory: Directory, publication: Publication) -> None:
    """Download the files that are missing or do not belong to the plan that counts."""
    origin = origin_of(directory)
    known = origin is not None and origin.folder == publication.folder
    if known and not _to_bring(directory, publication.files, known=True):
        return
    with locked(directory):
        old = digest_file(directory.plan) if directory.plan.exists() else ""
        if old != publication.files["plan.json"].sha256:
            discard(directory.ledger)
            shutil.rmtree(directory.rehearsal, ignore_errors=True)
            shutil.rmtree(directory.verification, ignore_errors=True)
            shutil.rmtree(directory.source_verification, ignore_errors=True)
            results = {file.name: file for file in results_in(directory)}
            for name, file in (sealed_in(directory) | results).items():
                if name not in publication.files and name != "plan.json":
                    file.unlink(missing_ok=True)
        for name in _to_bring(directory, publication.files, known=False):
            _download(directory, publication, name)
        write_json(
            directory.bucket, Origin(directory.url, publication.folder, origin.results if origin and known else {})
        )


def _to_bring(directory: Directory, files: Mapping[str, SealedFile], *, known: bool) -> list[str]:
    """The files that differ here from how they were sealed, plan.json first: with it, the folder is a plan's.

    If the copy is `known` to be of this plan, only plan.json is compared by its digest, and the other files by size:
    plan.json has their digests, which are compared when the files are used.
    """
    if "plan.json" not in files or not all(_is_known(directory, name) for name in files):
        raise UnsafePlan(
            f"this version cannot read the plan that was published in {directory.url}",
            hint="use the version of backcast that published it, or plan again",
        )
    wanted = []
    for name, sealed in sorted(files.items(), key=lambda one: one[0] != "plan.json"):
        path = directory.path / name
        by_digest = not known or name == "plan.json"
        same = path.exists() and path.stat().st_size == sealed.bytes
        if not same or (by_digest and digest_file(path) != sealed.sha256):
            wanted.append(name)
    return wanted


def _download(directory: Directory, publication: Publication, name: str) -> None:
    """Download a file of the plan. Raises UnsafePlan if it is gone or changed since it was sealed."""
    place = f"{directory.url}/{publication.folder}/{name}"
    hint = "restore the object, if the bucket keeps versions; or plan again"
    try:
        with _downloaded(directory, place, name) as aside:
            if digest_file(aside) != publication.files[name].sha256:
                raise UnsafePlan(f"{place} changed after it was published", hint=hint)
    except FileNotFoundError:
        if latest(directory.url).publication != publication:
            raise Unfinished(
                f"another plan was published in {directory.url} while this one was downloaded",
                hint="run the same command again",
            ) from None
        raise UnsafePlan(f"{place} is missing", hint=hint) from None


@contextmanager
def _downloaded(directory: Directory, place: str, name: str) -> Iterator[Path]:
    """Download an object next to the file that it replaces; on leaving without an error it takes the file's place.
    Raises FileNotFoundError."""
    aside = directory.path / f"{name}.new"
    aside.parent.mkdir(exist_ok=True)
    try:
        gone = False
        with answering(directory.url):
            try:
                storage.download(place, str(aside))
            except FileNotFoundError:
                gone = True
        if gone:
            raise FileNotFoundError(place)
        yield aside
        aside.replace(directory.path / name)
    finally:
        aside.unlink(missing_ok=True)


def _bring_results(directory: Directory, publication: Publication) -> None:
    """Download what another machine wrote for people to read. Only the sender of a plan writes it."""
    if publication.sender is not None and _is_sender(directory, publication.sender):
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
        with _downloaded(directory, f"{folder}/{path.name}", path.name):
            pass
        here = path.stat()
        origin.results[path.name] = Copied(here.st_size, here.st_mtime_ns, status)
        changed = True
    if changed:
        write_json(directory.bucket, origin)


def _is_sender(directory: Directory, sender: Sender) -> bool:
    """Whether the ledger of a working copy is the one that sends the plan."""
    marker = read_marker(directory.ledger)
    return marker is not None and marker.ledger == sender.ledger


def _stand_in(directory: Directory, found: Latest) -> None:
    """If the ledger that sends the plan is not here, write its marker, so that its absence is noticed."""
    assert found.publication is not None
    sender = found.publication.sender
    if sender is None or _is_sender(directory, sender):
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


def copy_results(directory: Directory, warn: Callable[[str], None]) -> None:
    """Copy results that changed here to the plan's bucket. Does nothing for a plan that is not in one.

    If that fails, `warn` gets a line: the step itself did not fail.
    """
    try:
        origin = origin_of(directory)
        if origin is None:
            return
        found = latest(origin.url).publication
        if found is None or found.folder != origin.folder:
            warn(f"the results are only in {directory.path}: {origin.url} has another plan by now")
        elif found.sender is not None and not _is_sender(directory, found.sender):
            warn(f"the results are only in {directory.path}: the plan in {origin.url} is being sent elsewhere")
        else:
            write_json(directory.bucket, upload_results(directory, origin))
    except (OSError, BackcastError) as error:
        warn(
            f"the results are only in {directory.path}, because copying them to the bucket failed: {error}; the next"
            " rehearse, apply or verify copies them"
        )


def upload_results(directory: Directory, origin: Origin) -> Origin:
    """Upload the results that differ there. Returns what is the same afterwards. Raises UsageError, Unfinished."""
    lists = sorted(directory.undo_list.glob("*")) if directory.undo_list.is_dir() else []
    for file in (*results_in(directory), *lists):
        if not file.is_file():
            continue
        name = file.relative_to(directory.path).as_posix()
        here, known = file.stat(), origin.results.get(name)
        if known is not None and (known.size, known.mtime_ns) == (here.st_size, here.st_mtime_ns):
            continue
        place = f"{origin.url}/{origin.folder}/{name}"
        with answering(origin.url):
            storage.upload(str(file), place)
            origin.results[name] = Copied(here.st_size, here.st_mtime_ns, storage.status(place))
    return origin
