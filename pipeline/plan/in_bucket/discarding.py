"""Discards the events of a plan in a bucket: first publishes the plan without those files, then removes them."""

from __future__ import annotations

import msgspec

from pipeline import storage
from pipeline.plan.in_bucket.publication import advance, answering, latest, mark, replaced
from pipeline.plan.in_bucket.working_copy import origin_of, results_in
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.discarded import Discarded


def publish_discarded(directory: Directory, marker: Discarded, gone: set[str]) -> None:
    """Publish that the plan no longer has the files in `gone`. Does nothing for a plan that is not in a bucket.

    Raises UnsafePlan if another plan took its place, UsageError, Unfinished.
    """
    origin = origin_of(directory)
    if origin is None:
        return
    found = latest(origin.url)
    publication = found.publication
    if publication is not None and publication.folder == origin.folder:
        if publication.discarded is not None:
            return
        left = {name: file for name, file in publication.files.items() if name.partition("/")[0] not in gone}
        mark(origin.url)
        if advance(origin.url, found, msgspec.structs.replace(publication, files=left, discarded=marker)):
            return
    raise replaced(origin.url, "discarded")


def remove_objects(directory: Directory) -> None:
    """Remove the objects that a plan published as discarded no longer has. Raises UsageError, Unfinished."""
    origin = origin_of(directory)
    if origin is None:
        return
    publication = latest(origin.url).publication
    if publication is None or publication.folder != origin.folder or publication.discarded is None:
        return
    folder = f"{origin.url}/{origin.folder}"
    kept = {path.name for path in results_in(directory) if path != directory.differences}
    kept |= publication.files.keys()
    with answering(origin.url):
        storage.remove([place for place in storage.below(folder) if place.removeprefix(f"{folder}/") not in kept])
