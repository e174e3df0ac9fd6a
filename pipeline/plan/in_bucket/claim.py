"""The claim of a plan in a bucket: only one ledger may send it, whichever machines have a working copy."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec

from pipeline.errors import BrokenLedger, UnsafePlan
from pipeline.ledger import read_marker
from pipeline.ledger.schema import now
from pipeline.plan.in_bucket.publication import Sender, advance, latest, mark, object_of
from pipeline.plan.in_bucket.working_copy import origin_of
from pipeline.plan.sealed.directory import Directory


def claim(directory: Directory) -> None:
    """Claim the plan for the ledger of its working copy, which is open; nothing for a plan that is in no bucket.

    To be called before a byte leaves. Raises BrokenLedger where another ledger sends it, UnsafePlan where another plan
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
        raise UnsafePlan(
            f"the plan in {url} is not the one that was opened here; nothing was sent",
            hint="somebody published another one meanwhile: look at it, then run the same command again",
        )
    sender = found.publication.sender
    if sender is None or (sender.ledger == marker.ledger and sender.target != marker.target):
        place = str(Path(directory.path).absolute())
        mine = Sender(marker.ledger, marker.plan, marker.target, socket.gethostname(), place, now())
        mark(url)
        if advance(url, found, msgspec.structs.replace(found.publication, sender=mine)):
            return
        found = latest(url)
        sender = found.publication.sender if found.publication is not None else None
    if sender is None or sender.ledger != marker.ledger:
        where = "another ledger" if sender is None else f"the ledger on {sender.host} in {sender.directory}"
        raise BrokenLedger(
            f"the plan in {url} is sent with {where}, and not with the one here; nothing was sent",
            hint="run the command there. With another ledger everything is sent again; only if that is what you want,"
            f" remove the object {object_of(url, found.number)}",
        )
