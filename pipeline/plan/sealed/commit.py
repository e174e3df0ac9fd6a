"""Writes a plan into its directory completely or not at all, whatever stops the program.

A plan is written to DIR/unfinished-plan, so that an older plan in DIR stays whole. When its last file is there, that
folder is renamed to DIR/finished-plan: from then on the new plan counts. Its files then replace those of the older
plan, plan.json last. If a program is stopped on the way, the next one that reads or writes the plan does the rest
(`finish_commit`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

from pipeline.errors import Unfinished, UsageError
from pipeline.extractors.plan_detection import FINISHED, MARK, UNFINISHED, is_plan
from pipeline.files import OTHERS, sync_folder
from pipeline.ledger import check_nothing_sent, discard, lock_file, unlock
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.unfinished import clear

NOTE = (
    b"backcast is writing a plan here, or was stopped while it did. The same command goes on with the blocks\n"
    b"that are finished; another plan with this -o DIR begins anew, and this folder may be removed.\n"
)
LOCK = "plan.lock"


@contextlib.contextmanager
def staged_plan(directory: Directory) -> Iterator[Directory]:
    """A folder to write a plan into. On leaving without an error, the plan replaces the one in `directory`.

    Raises UsageError if the directory contains other files or cannot be written, and Busy if the older plan was
    applied (its ledger must stay, as the record of what was sent), or if another process is writing a plan there.
    """
    check_nothing_sent(directory.ledger)
    _refuse_foreign(directory)
    new = not directory.path.exists()
    lock = None
    try:
        directory.path.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(PermissionError):  # the directory may be another user's
            directory.path.chmod(directory.path.stat().st_mode & ~OTHERS)
        lock = lock_file(directory.path / "plan", str(directory.path))
        _settle(directory)
        work = Directory(directory.path / UNFINISHED)
        clear(work)
        work.path.mkdir(exist_ok=True)
        (work.path / MARK).write_bytes(NOTE)
    except OSError as error:
        if lock is not None:
            unlock(lock)
        raise UsageError(f"cannot write {directory.path}: {error.strerror}", hint="choose another -o DIR") from None
    try:
        yield work
        discard(directory.ledger)  # raises Busy if an apply has started meanwhile
        (work.path / MARK).unlink()
        sync_folder(work.path)
        work.path.rename(directory.path / FINISHED)
        sync_folder(directory.path)
        _settle(directory)
    except (Unfinished, KeyboardInterrupt):
        with contextlib.suppress(OSError):
            clear(work)
            (work.path / MARK).write_bytes(NOTE)
        raise
    except BaseException:
        shutil.rmtree(work.path, ignore_errors=True)
        raise
    finally:
        unlock(lock)
        if new and [one.name for one in directory.path.iterdir()] == [LOCK]:
            shutil.rmtree(directory.path, ignore_errors=True)


def finish_commit(directory: Directory) -> None:
    """Move a finished plan into place if a program was stopped before it could. Raises Busy, UsageError."""
    if not (directory.path / FINISHED).exists():
        return
    lock = lock_file(directory.path / "plan", str(directory.path))
    try:
        _settle(directory)
    except OSError as error:
        raise UsageError(
            f"cannot write {directory.path}: {error.strerror}", hint="give yourself write access to the plan directory"
        ) from None
    finally:
        unlock(lock)


def _settle(directory: Directory) -> None:
    finished = directory.path / FINISHED
    if not finished.exists():
        return
    if (finished / directory.plan.name).exists():
        if directory.plan.exists():  # the older plan: plan.json goes last, after all its other files
            shutil.rmtree(directory.rehearsal, ignore_errors=True)
            directory.discarded.unlink(missing_ok=True)
            for older in directory.replaced:
                if older.is_dir():
                    shutil.rmtree(older)
                else:
                    older.unlink(missing_ok=True)
            sync_folder(directory.path)
            directory.plan.unlink()
            sync_folder(directory.path)
        for file in sorted(finished.iterdir(), key=lambda file: file.name == directory.plan.name):
            file.replace(directory.path / file.name)
        sync_folder(directory.path)
    finished.rmdir()


def _refuse_foreign(directory: Directory) -> None:
    path = directory.path
    try:
        os.fsencode(path).decode()
    except UnicodeDecodeError:
        raise UsageError(
            f"the name of the directory for the plan is not UTF-8: {os.fsencode(path)!r}", hint="choose another -o DIR"
        ) from None
    if not path.is_dir() or is_plan(path):
        return
    foreign = sorted(one.name for one in path.iterdir() if one.name != LOCK and not one.name.startswith("."))
    if foreign:
        raise UsageError(
            f"{path} contains files that backcast did not write: {', '.join(foreign[:3])}"
            f"{', …' if foreign[3:] else ''}",
            hint="choose an empty or a new directory with -o",
        )
