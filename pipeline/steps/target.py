"""The target of a step: what it answers before something is sent, and the project that is read back."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pipeline import config
from pipeline.config import Secret
from pipeline.errors import UnsafePlan, UsageError
from pipeline.ledger import check_project, read_project
from pipeline.options import ApplyOptions, VerifyOptions
from pipeline.plan.in_bucket import directory_at
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan, ReplayedPlan
from pipeline.steps.keys import KeySource, Warn
from pipeline.targets import address_of, is_loopback
from pipeline.text import quoted

if TYPE_CHECKING:
    from pipeline.preflight.run import Preflight, PreflightRequest


def warn_of_silence(address: str, warn: Warn) -> None:
    """Warn that nothing listens at an address of this machine: otherwise later errors would seem to be about the
    key."""
    parts = urlsplit(address)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if is_loopback(address):
        try:
            socket.create_connection((parts.hostname, port), timeout=2).close()
        except OSError as error:
            warn(
                f"nothing answers at {address} ({error.strerror or error}): start the service there"
                f" (backcast service --port {port}), or name another target (--to us|eu|URL)"
            )


def check_before_sending(
    request: PreflightRequest,
    plan: Plan,
    directory: Directory,
    options: ApplyOptions,
    checked: Callable[[Preflight, bool], None],
    warn: Warn,
) -> Preflight:
    """Check the target before anything is sent; without a personal key, as far as that is possible. `checked` is called
    with the result and whether there is a personal key. Raises UnsafePlan if sending would do harm."""
    from pipeline.preflight.run import check_target
    from pipeline.report.records import read_preflight

    if request.personal_key:
        found = check_target(request, plan, directory, read_preflight(directory))
        if not found.reused:
            record_preflight(request, plan, directory, found, warn)
    else:
        found = check_target(request)
    checked(found, bool(request.personal_key))
    refuse_stops(found, "sent", ", which `backcast preflight` lists")
    again = f"backcast apply {quoted(directory.name)} --to {quoted(request.to)}"
    check_project(directory.ledger, directory.name, found.project_id, None, again)
    if isinstance(plan.replays, ReplayedPlan):
        earlier = directory_at(plan.replays.directory)
        key = None if options.rotated_key else request.project_key
        check_project(earlier.ledger, earlier.name, found.project_id, key, again)
    return found


def record_preflight(request: PreflightRequest, plan: Plan, directory: Directory, found: Preflight, warn: Warn) -> None:
    """Write what the target answered next to the plan. A directory that cannot be written only causes a warning."""
    from pipeline.report.records import write_preflight

    try:
        write_preflight(directory, plan.digest, address_of(request.to), request.options.max_already_there, found)
    except OSError as error:
        warn(f"could not write the result to {directory.preflight}: {error.strerror}")


def refuse_stops(found: Preflight, done: str, listed: str = "") -> None:
    """Raise UnsafePlan for a target that is not ready; then nothing was `done`. `listed` says where all stops are
    listed."""
    if found.stops:
        first, *others = found.stops
        more = f", and {len(others)} more{listed}" if others else ""
        raise UnsafePlan(f"the target is not ready: {first.detail}{more}; nothing was {done}", hint=first.hint)


def project_to_read(
    directory: Directory, to: str, options: VerifyOptions, key: Secret, keys: KeySource
) -> tuple[VerifyOptions, str]:
    """The options with the project to read, and its name, "" if the key may not read it: the named project, the one to
    which `apply` sent, or that of the keys.

    Raises UsageError if none is known. Raises UnsafePlan if the plan was sent to another one: what is found there says
    nothing about the plan, and a repair would send all of it again.
    """
    from pipeline.management import ManagementClient
    from pipeline.preflight.project import find_project, key_of, project_record

    project = options.project or read_project(directory.ledger) or None
    with ManagementClient(options.api or to, key, project, timeout=10.0) as client:
        if project is None:
            found = find_project(client, keys.project or config.given_project_key(keys.files.project_key_file))
            if client.project_id is None and not is_loopback(address_of(to)):
                hint = "name it with --project ID; its URL shows it"
                raise UsageError(f"which project of {to}? {found.check.detail}", hint=hint)
            # A local service has only project 1, unless its --keys has more.
            project, record = client.project_id or "1", found.record or {}
        else:
            record = project_record(client)
    again = f"backcast verify {quoted(directory.name)} --to {quoted(to)}"
    check_project(directory.ledger, directory.name, project, key_of(record), again)
    return replace(options, project=project), str(record.get("name") or "")
