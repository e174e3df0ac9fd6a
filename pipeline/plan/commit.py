"""How a plan comes to lie in its directory: all of it or nothing of it, whatever stops the program.

A plan is made in DIR/unfinished-plan, so that an older one in DIR stays whole meanwhile. When its last file is there,
that folder becomes DIR/finished-plan: from then on the new plan counts. Its files then take the places of the older
ones, plan.json last; whoever next looks for the plan does what is left to do of that (`finish_commit`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

from pipeline.errors import UsageError
from pipeline.extractors.plan_detection import FINISHED, MARK, UNFINISHED, is_plan
from pipeline.files import OTHERS, sync_folder
from pipeline.ledger import check_nothing_sent, discard, lock_file, unlock
from pipeline.plan.directory import Directory

SAYING = (
    b"backcast makes, or was stopped while it made, a plan here. What lies here is not of use:\n"
    b"plan again with the same -o DIR, or remove this folder.\n"
)
LOCK = "plan.lock"


@contextlib.contextmanager
def staged_plan(directory: Directory) -> Iterator[Directory]:
    """A place to make a plan in; when it is left without an error, the plan takes the place of what `directory` holds.

    Raises UsageError where the directory holds what is no plan of ours or cannot be written, and Busy where a ledger
    says that the older plan was applied (what was sent must stay provable), or another process makes a plan there.
    """
    check_nothing_sent(directory.ledger)
    _refuse_foreign(directory)
    new = not directory.path.exists()
    lock = None
    try:
        directory.path.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(PermissionError):  # of somebody else, who lets us write in it
            directory.path.chmod(directory.path.stat().st_mode & ~OTHERS)
        lock = lock_file(directory.path / "plan", f"{directory.path} for a plan")
        _settle(directory)
        work = Directory(directory.path / UNFINISHED)
        shutil.rmtree(work.path, ignore_errors=True)
        work.path.mkdir()
        (work.path / MARK).write_bytes(SAYING)
    except OSError as error:
        if lock is not None:
            unlock(lock)
        raise UsageError(f"cannot write {directory.path}: {error.strerror}", hint="choose another -o DIR") from None
    try:
        yield work
        discard(directory.ledger)  # or refuse: an apply may have begun meanwhile
        (work.path / MARK).unlink()
        sync_folder(work.path)
        work.path.rename(directory.path / FINISHED)
        sync_folder(directory.path)
        _settle(directory)
    finally:
        shutil.rmtree(work.path, ignore_errors=True)
        unlock(lock)
        if new and [one.name for one in directory.path.iterdir()] == [LOCK]:
            shutil.rmtree(directory.path, ignore_errors=True)


def finish_commit(directory: Directory) -> None:
    """Finish what a program that was stopped left to do of a plan that is finished. Raises Busy, UsageError."""
    if not (directory.path / FINISHED).exists():
        return
    lock = lock_file(directory.path / "plan", f"{directory.path} for a plan")
    try:
        _settle(directory)
    except OSError as error:
        raise UsageError(
            f"cannot write {directory.path}: {error.strerror}", hint="make the plan directory writable"
        ) from None
    finally:
        unlock(lock)


def _settle(directory: Directory) -> None:
    finished = directory.path / FINISHED
    if not finished.exists():
        return
    if (finished / directory.plan.name).exists():
        if directory.plan.exists():  # the older one: gone only when all of it is, so that none of the new one is taken
            shutil.rmtree(directory.rehearsal, ignore_errors=True)
            for older in directory.replaced:
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
            f"{path} holds what is no plan of backcast: {', '.join(foreign[:3])}{', …' if foreign[3:] else ''}",
            hint="choose an empty or a new directory with -o",
        )
