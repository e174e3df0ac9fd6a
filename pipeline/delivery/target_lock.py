"""One run per target: two plans of one import in parallel would send some events twice, or in another order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipeline.config import Secret
from pipeline.errors import Busy
from pipeline.ledger import lock_file, unlock
from pipeline.options import ApplyOptions
from pipeline.state_folder import state_folder
from pipeline.targets import address_of, files_of


@contextmanager
def target_lock(plan: str, to: str, key: Secret, options: ApplyOptions, warn: Callable[[str], None]) -> Iterator[None]:
    """Within it, no other run of this user sends to the same project of the same target. Raises Busy, which names the
    `plan` of the other run.

    A dry run sends nothing, and files have a lock of their own. If no lock can be written, `warn` gets a line and the
    run goes on: the ledger still keeps one plan from being sent twice at once.
    """
    if options.dry_run or options.allow_beside or files_of(to) is not None:
        yield
        return
    address = address_of(to)
    project = hashlib.sha256(f"{address}\n{key.reveal()}".encode()).hexdigest()[:32]
    path = state_folder() / "targets" / project
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(path.name + ".lock").touch()
    except OSError as error:
        warn(f"cannot write a lock for {address} in {path.parent}: {error.strerror}; send no other plan meanwhile")
        yield
        return
    lock = lock_file(path, lambda holder: _busy(address, holder), f" with the plan {plan}")
    try:
        yield
    finally:
        unlock(lock)


def _busy(address: str, holder: str) -> Busy:
    return Busy(
        f"another run is sending to {address}: {holder}",
        hint="wait for it; or give --allow-beside if the two plans share no event and no person",
    )
