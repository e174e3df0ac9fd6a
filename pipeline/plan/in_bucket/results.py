"""What people read after each step is copied back into the bucket: report, receipt, differences, the undo list."""

from __future__ import annotations

from collections.abc import Callable

from pipeline import storage
from pipeline.errors import BackcastError
from pipeline.ledger import read_marker
from pipeline.plan.in_bucket.publication import answering, latest
from pipeline.plan.in_bucket.working_copy import Copied, Origin, origin_of, results_in, write_origin
from pipeline.plan.sealed.directory import Directory


def copy_results(directory: Directory, warn: Callable[[str], None]) -> None:
    """Copy results that changed here into the bucket of a plan; nothing for a plan that is in none.

    Where that fails, `warn` gets a line: the step itself did not fail.
    """
    try:
        origin = origin_of(directory)
        if origin is None:
            return
        found = latest(origin.url).publication
        marker = read_marker(directory.ledger)
        if found is None or found.folder != origin.folder:
            warn(f"the results are in {directory.path} alone: {origin.url} has another plan by now")
        elif found.sender is not None and (marker is None or marker.ledger != found.sender.ledger):
            warn(f"the results are in {directory.path} alone: the plan in {origin.url} is sent elsewhere")
        else:
            write_origin(directory, upload_results(directory, origin))
    except (OSError, BackcastError) as error:
        warn(
            f"the results are in {directory.path} and could not be copied to the bucket: {error}; the next rehearse,"
            " apply or verify copies them"
        )


def upload_results(directory: Directory, origin: Origin) -> Origin:
    """Upload the results that are not the same there. Returns what is the same then. Raises UsageError, Unfinished."""
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
