"""What is left of a plan whose events were discarded: everything with ids and values of people is removed.

`discarded.json` is written durably before the first file is removed, so a program that is stopped leaves either a whole
plan or one that says it was discarded; discarding it again removes the rest.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from pipeline.errors import UsageError
from pipeline.extractors.plan_detection import UNFINISHED
from pipeline.files import sync_folder, write_json
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.text import quoted


class Discarded(msgspec.Struct, frozen=True):
    """When the events of the `plan` (its digest) were discarded (ISO 8601, UTC), and whether its merges were kept."""

    plan: str
    at: str
    merges_kept: bool = False
    format: str = "backcast.discarded/1"


def read_discarded(directory: Directory) -> Discarded | None:
    """The marker of the plan here; None if its events were not discarded. Raises UsageError."""
    try:
        return msgspec.json.decode(directory.discarded.read_bytes(), type=Discarded)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"cannot read {directory.discarded}: {error}", hint="restore it from a copy") from None


def discarded_of(plan: Plan, directory: Directory) -> Discarded | None:
    """The marker of this very plan: the marker of an earlier plan in the same directory does not count."""
    found = read_discarded(directory)
    return found if found is not None and found.plan == plan.digest else None


def refuse_discarded(plan: Plan, directory: Directory) -> None:
    """Raise UsageError for a plan whose events were discarded."""
    if found := discarded_of(plan, directory):
        raise UsageError(
            f"the events of {directory.name} were discarded at {found.at}",
            hint="plan the export again into a new directory: its events get the same uuids. What is left of this plan:"
            f" backcast status {quoted(directory.name)}",
        )


def write_discarded(directory: Directory, marker: Discarded) -> None:
    """Record durably that the events of a plan are discarded."""
    write_json(directory.discarded, marker)


def _kept(merges: bool) -> tuple[str, ...]:
    """The names of the sealed files that stay."""
    return ("cells.jsonl", "drift.jsonl", *(("identities.jsonl", "requests.jsonl") if merges else ()))


def files_left(plan: Plan, directory: Directory) -> dict[str, str]:
    """The sealed files that the plan must still have, with their digests."""
    marker = discarded_of(plan, directory)
    if marker is None:
        return dict(plan.files)
    return {name: digest for name, digest in plan.files.items() if name in _kept(marker.merges_kept)}


def with_people(plan: Plan, directory: Directory, *, merges_kept: bool) -> list[Path]:
    """The files and folders here with events, ids or values of people.

    plan.json, the report, the ledger, the receipt and counts stay. `merges_kept`: the merges stay too, with the list of
    requests, by which the ledger names them; a later plan for the same target must not contradict them. The facts come
    last: as long as they exist, something is left to remove.
    """
    kept = {directory.path / name for name in _kept(merges_kept)}
    sealed = {directory.path / name.partition("/")[0] for name in plan.files}
    others = {
        directory.requests, directory.packs, directory.facts, directory.excluded, directory.stdin, directory.preflight,
        directory.answers, directory.profiles_before, directory.rehearsal, directory.verification,
        directory.differences, directory.continuity, directory.undo_list, directory.scratch,
        directory.source_verification, directory.source_differences,
        directory.path / "imported", directory.path / UNFINISHED, *directory.path.glob("files-????????????"),
        *directory.path.glob(".query-*"),
    }  # fmt: skip
    found = [path for path in (sealed | others) - kept if path.is_symlink() or path.exists()]
    return sorted(found, key=lambda path: (path == directory.facts, path))


def files_in(paths: list[Path]) -> Iterator[Path]:
    """The files among these paths and inside their folders, without links."""
    for path in paths:
        for file in path.rglob("*") if path.is_dir() and not path.is_symlink() else [path]:
            if file.is_file() and not file.is_symlink():
                yield file


def remove_people(plan: Plan, directory: Directory, marker: Discarded) -> None:
    """Remove what is left of these files, for a plan that has the marker."""
    for path in with_people(plan, directory, merges_kept=marker.merges_kept):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    sync_folder(directory.path)
