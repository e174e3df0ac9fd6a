"""Publishing a plan into a bucket: it is uploaded under a prefix of its own, and then made the plan that counts in one
step. And claiming it: only one ledger may send it, whichever machines have a working copy."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path

import msgspec

from pipeline import storage
from pipeline.errors import BackcastError, BrokenLedger, Busy, UsageError
from pipeline.files import private, write_json
from pipeline.ledger import read_marker
from pipeline.plan.in_bucket.publication import (
    MARK,
    Latest,
    Publication,
    SealedFile,
    Sender,
    advance,
    answering,
    latest,
    mark,
    names_in,
    number_of,
    object_of,
    replaced,
)
from pipeline.plan.in_bucket.working_copy import (
    Origin,
    copy_of,
    forget_stand_in,
    locked,
    named,
    origin_of,
    sealed_in,
    upload_results,
)
from pipeline.plan.sealed.directory import Directory, digest_file
from pipeline.timestamps import utc_now

_FOLDER = re.compile(r"plan-[0-9a-f]{32}")


@contextmanager
def published_plan(path: str | PathLike[str]) -> Iterator[Directory]:
    """The directory to write a plan into. For a URL it is the working copy, which is published on leaving without an
    error.

    Raises UsageError, also if the prefix has other objects; Busy if the plan there was sent, or another one was
    published meanwhile; Unfinished if the store does not answer.
    """
    text = named(path)
    if not storage.is_remote(text):
        yield Directory(Path(text))
        return
    before = _replaceable(text)
    leftovers = _leftovers(text, before)
    mark(text)  # a prefix that cannot be written is noticed before hours of planning
    with private():
        directory = copy_of(text)
    with locked(directory):
        forget_stand_in(directory)
        yield directory
        with private():
            _publish(directory, before)
    with suppress(BackcastError), answering(text):
        storage.remove(leftovers)  # otherwise the next plan removes them


def _replaceable(url: str) -> Latest:
    """What counts in a prefix, if another plan may replace it. Raises Busy if it was sent."""
    before = latest(url)
    if before.publication is not None and (sender := before.publication.sender) is not None:
        raise Busy(
            f"the plan in {url} was applied to {sender.target}, from {sender.host} in {sender.directory}; backcast"
            " does not replace it",
            hint="choose another prefix with -o; or, only if what was sent does not matter, remove the object"
            f" {object_of(url, before.number)}",
        )
    return before


def _leftovers(url: str, before: Latest) -> list[str]:
    """The objects that are not needed once another plan counts: those of this plan, and of plans that never counted.

    A process that is uploading one of them now began before this plan counts, so its number will be taken. Raises
    UsageError if the prefix has objects that are not backcast's.
    """
    names = names_in(url)
    with answering(url):
        try:
            folders = storage.folders_in(url)
        except FileNotFoundError:
            folders = []
    foreign = [name for name in names if name != MARK and not number_of(name)]
    foreign += [f"{name}/" for name in folders if not _FOLDER.fullmatch(name)]
    if foreign:
        raise UsageError(
            f"{url} has objects that backcast did not publish: {', '.join(sorted(foreign)[:3])}"
            f"{', …' if foreign[3:] else ''}",
            hint="choose an empty or a new prefix with -o",
        )
    with answering(url):
        objects = [name for folder in folders for name in storage.below(f"{url}/{folder}")]
    return objects + [f"{url}/{name}" for name in names if 0 < number_of(name) <= before.number]


def _publish(directory: Directory, before: Latest) -> None:
    url, folder = directory.url, f"plan-{os.urandom(16).hex()}"
    files = sealed_in(directory)
    publication = Publication(
        folder, {name: SealedFile(file.stat().st_size, digest_file(file)) for name, file in files.items()}, utc_now()
    )
    try:
        with answering(url):
            for name, file in files.items():
                storage.upload(str(file), f"{url}/{folder}/{name}")
        origin = upload_results(directory, Origin(url, folder))
        if not advance(url, before, publication):
            raise Busy(
                f"another plan was published in {url}, or the one there was applied, while this one was being made",
                hint=f"look at it with: backcast status {url}; or choose another prefix with -o",
            )
    except BaseException:
        # If the store did not answer, the publication may have been written all the same: then its files stay.
        with suppress(BackcastError), answering(url):
            found = latest(url).publication
            if found is None or found.folder != folder:
                storage.remove(list(storage.below(f"{url}/{folder}")))
        raise
    write_json(directory.bucket, origin)


def claim(directory: Directory) -> None:
    """Claim the plan for the ledger of its working copy, which is open. Does nothing for a plan that is not in a
    bucket.

    Must be called before a byte leaves. Raises BrokenLedger if another ledger sends it, UnsafePlan if another plan
    took its place, UsageError, Unfinished.
    """
    origin = origin_of(directory)
    if origin is None:
        return
    marker = read_marker(directory.ledger)
    assert marker is not None
    url = origin.url
    found = latest(url)
    if found.publication is None or found.publication.folder != origin.folder:
        raise replaced(url, "sent")
    sender = found.publication.sender
    if sender is None or (sender.ledger == marker.ledger and sender.target != marker.target):
        place = str(Path(directory.path).absolute())
        mine = Sender(marker.ledger, marker.plan, marker.target, socket.gethostname(), place, utc_now())
        mark(url)
        if advance(url, found, msgspec.structs.replace(found.publication, sender=mine)):
            return
        found = latest(url)
        sender = found.publication.sender if found.publication is not None else None
    if sender is None or sender.ledger != marker.ledger:
        where = "another ledger" if sender is None else f"the ledger on {sender.host} in {sender.directory}"
        raise BrokenLedger(
            f"the plan in {url} is being sent with {where}, not with the one here; nothing was sent",
            hint="run the command there. A new ledger would send everything again; if you want that, delete the"
            f" object {object_of(url, found.number)}",
        )
