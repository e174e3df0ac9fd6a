"""Which target a job's state belongs to, and how far the job fills that target.

A state belongs to one target: a host, and a project on it. What one project got says nothing about another. So if the
job file, or the keys, name another target, all windows are open again, in a state of their own in `targets/` below the
first. And a job fills only up to the first live event of its target, if a personal key can ask for it: the earliest
moment that was ever found is remembered. Events of imports are not live (`pipeline.preflight.live`).
"""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pipeline.config import Secret
from pipeline.errors import BackcastError, Unfinished, UsageError
from pipeline.jobs.job import Job, state_file, windows_folder
from pipeline.jobs.state import State, read_facts
from pipeline.ledger import key_fingerprint, read_summary
from pipeline.management import ManagementClient
from pipeline.management.client import management_address
from pipeline.plan.sealed.directory import Directory
from pipeline.preflight.live import ANY_IMPORT, read_live
from pipeline.preflight.project import find_project
from pipeline.preflight.questions import Questions
from pipeline.preflight.run import PreflightRequest
from pipeline.targets import address_of
from pipeline.timestamps import format_utc, utc_now

Warn = Callable[[str], None]


def project_of_keys(request: PreflightRequest) -> str:
    """The id of the target's project, from the job file or the personal key; "" if neither shows it."""
    if request.options.project or not request.personal_key:
        return request.options.project or ""
    try:
        with _client(request) as client:
            known = find_project(client, request.project_key).known
            return client.project_id or "" if known else ""
    except BackcastError:
        return ""  # the check of the target says why


def at_target(job: Job, project: str, key: Secret, warn: Warn) -> Job:
    """The job with the state of its target. Raises UsageError if it is unknown whether a key belongs to the project."""
    first = _facts(job.state)
    if not first or _is_of(first, job, project, key):
        return job
    address = address_of(job.to)
    name = re.sub(r"[^A-Za-z0-9.]+", "-", address.partition("://")[2]).strip("-")
    folder = job.state / "targets" / (f"{name}-{project}" if project else name)
    facts = _facts(folder)
    if facts and not _is_of(facts, job, project, key):
        raise UsageError(
            f"{folder} belongs to another target", hint="name another folder under `state` in the job file"
        )
    if not facts:
        of = f"project {project} of {address}" if project else address
        warn(
            f"the target is now {of}: all windows are open for it, with a state in {folder}; what was sent to"
            f" {_named(first)} stays recorded in {job.state}"
        )
    return replace(job, state=folder)


def states_of(job: Job) -> Iterator[Path]:
    """The state folders of a job, each for one target, those that fit its file first."""
    every = [job.state, *sorted((job.state / "targets").glob("*"))]
    fits = [folder for folder in every if read_facts(state_file(folder)).get("target") == address_of(job.to)]
    if named := job.checks.project:
        fits = [folder for folder in fits if read_facts(state_file(folder)).get("project", named) == named]
    yield from fits
    yield from (folder for folder in every if folder not in fits)


def remember_target(state: State, project: str, key: Secret) -> None:
    """Record the project, and a salted hash of the key, so that a different one is noticed."""
    if project:
        state.remember(project=project)
    if key and not _is_key(state.facts(), key):
        salt = os.urandom(16)
        state.remember(key_salt=salt.hex(), key_check=key_fingerprint(key, salt))


def find_first_live(job: Job, state: State, request: PreflightRequest, now: int, warn: Warn) -> int | None:
    """The first live event of the target, in µs UTC, up to which the job fills, or None, also if the job
    allows live events. `now` is in µs UTC."""
    if job.live == "allow":
        return None
    facts = state.facts()
    before = int(facts["first_live"]) if facts.get("first_live") else None
    if not request.personal_key:
        if "live_asked" not in facts and "live_told" not in facts:
            warn("without a personal key, live events of the target cannot be checked: all windows are filled")
            state.remember(live_told="1")
        return before
    try:
        with _client(request) as client:
            project = find_project(client, request.project_key)
            if not project.known:
                raise Unfinished(project.check.detail)
            until = datetime.fromtimestamp(now // 1_000_000, UTC)
            found = read_live(Questions(client, None, ""), ANY_IMPORT, until).first
    except BackcastError as error:
        warn(f"cannot ask when live events of the target begin: {error.message}")
        return before
    first = min((moment for moment in (before, found) if moment is not None), default=None)
    asked = utc_now()
    state.remember(live_asked=asked, **({} if first is None else {"first_live": str(first)}))
    if first is not None and first != before:
        begin = f"live events of the target begin at {format_utc(first)}"
        warn(f"{begin}: the job fills up to then{_filled(job, state, first)}")
    return first


def _filled(job: Job, state: State, first: int) -> str:
    """What was filled after that moment before it was known, as the rest of a sentence."""
    late = [label for label, window in state.windows().items() if window.state == "done"]
    late = [label for label in late if job.calendar.window(label).end > first and state.has_sent(label)]
    return f"; {len(late):,} windows from {late[0]} on were filled before, so events may be there twice" if late else ""


def _client(request: PreflightRequest) -> ManagementClient:
    options = request.options
    address = management_address(request.to, options.api)
    return ManagementClient(address, request.personal_key, options.project, timeout=options.timeout)


def _facts(folder: Path) -> Mapping[str, str]:
    """What a state belongs to; if it is lost, what the ledgers next to it say; nothing if there is none."""
    if facts := read_facts(state_file(folder)):
        return facts
    for path in sorted(windows_folder(folder).glob("*/plan-*")):
        history = read_summary(Directory(path).ledger, most=0).history
        if history is not None:
            return {"target": history.to}
    return {}


def _is_of(facts: Mapping[str, str], job: Job, project: str, key: Secret) -> bool:
    """Whether a state belongs to the job's target."""
    if facts["target"] != address_of(job.to):
        return False
    before = facts.get("project", "")
    if before and project:
        return before == project
    if key and "key_check" in facts and not _is_key(facts, key):
        raise UsageError(
            f"the capture key is not the one with which {job.state} was filled, and it is unknown whether both belong"
            " to the same project; nothing was sent",
            hint="set BACKCAST_PERSONAL_KEY, which shows the project, or name another folder under `state` in the"
            " job file",
        )
    return True


def _is_key(facts: Mapping[str, str], key: Secret) -> bool:
    check = facts.get("key_check", "")
    return bool(check) and hmac.compare_digest(key_fingerprint(key, bytes.fromhex(facts["key_salt"])), check)


def _named(facts: Mapping[str, str]) -> str:
    project = facts.get("project")
    return f"project {project} of {facts['target']}" if project else facts["target"]
