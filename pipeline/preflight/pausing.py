"""Turns off the hog functions that would fire on a plan while it is sent, and turns them on again.

Each function is recorded durably before it is turned off, and stays recorded until it was seen to be on again. So
wherever a run is killed, the record names every function that is off. Only destinations are turned off: a
transformation also changes live events, which would be stored unchanged for good.

A function is turned on only if it is exactly as this program left it: off, with the `updated_at` of our own change; or,
if the answer to that change never came, off with the content that it had before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from pipeline.errors import BackcastError, Refused, UsageError
from pipeline.ledger import lock_file, unlock
from pipeline.management.operations import RETRIEVE_FUNCTION, UPDATE_FUNCTION
from pipeline.management.problems import NotFound, ServiceProblem
from pipeline.preflight.firing import matched, stopped_by_service
from pipeline.preflight.target import Target
from pipeline.report.records import PausedFunction, PausedFunctions, named, read_paused, write_paused
from pipeline.text import pluralize
from pipeline.verify.settle import wait_to_settle

if TYPE_CHECKING:
    from pipeline.management.client import ManagementClient
    from pipeline.models import Step
    from pipeline.plan.sealed.directory import Directory
    from pipeline.plan.sealed.manifest import Plan
    from pipeline.preflight.run import PreflightRequest

_TRANSFORMATION = "transformation"
_VOLATILE = ("enabled", "updated_at", "status", "version", "bytecode", "transpiled", "created_by")
"""Fields of a function that may change although its behaviour was not changed."""
Found = Literal["ours", "on", "gone", "changed"]


class Resumed(msgspec.Struct, frozen=True):
    """What became of the functions that were recorded as off: turned `on`, `changed` by someone and left as they are,
    or still `off` because of `problem`."""

    on: Sequence[PausedFunction] = ()
    changed: Sequence[PausedFunction] = ()
    off: Sequence[PausedFunction] = ()
    problem: BackcastError | None = None

    def warnings(self) -> Iterator[str]:
        """A sentence for each kind of function that is now off."""
        if self.changed:
            yield (
                f"{pluralize(len(self.changed), 'hog function')} that backcast turned off for this import was changed"
                f" since, so it stays off: {named(self.changed)}"
            )
        if self.off:
            yield f"{pluralize(len(self.off), 'hog function')} could not be turned on again: {named(self.off)}"


class Pausing:
    """The functions of a target's project that are off while the plan in `directory` is sent. A context manager.

    Only one process at a time does this for a plan. `request` has a personal key. Raises UsageError, Busy, UnsafePlan;
    Refused and Unfinished for answers of the service.
    """

    def __init__(self, request: PreflightRequest, directory: Directory, plan: Plan | None = None) -> None:
        if not request.personal_key:
            raise UsageError(
                "turning hog functions off and on needs a personal key, and there is none; nothing was sent",
                hint="set BACKCAST_PERSONAL_KEY, or give --personal-key-file; its scope is hog_function:write",
            )
        self.directory = directory
        self._target = Target(request, plan, directory if plan is not None else None)
        self._lock = lock_file(directory.paused, "the record of hog functions that are off")
        try:
            self._record = self._opened()
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Pausing:
        return self

    def __exit__(self, *_: object) -> None:
        self._target.__exit__()
        unlock(self._lock)

    @property
    def _client(self) -> ManagementClient:
        client = self._target.client
        assert client is not None
        return client

    @property
    def recorded(self) -> Sequence[PausedFunction]:
        """The functions that are recorded as off."""
        return self._record.functions

    def would_fire(self, names: Collection[str] | None = None) -> list[PausedFunction]:
        """The destinations that are on and would, or may, fire on events of these names; None: of the plan's names."""
        if names is None:
            assert self._target.planned is not None
            names = self._target.planned.names.keys()
        found = []
        for item in self._client.hog_functions.list(enabled=True):
            listed = item.plain()
            if matched(listed, names).verdict == "no" or listed.get("type") == _TRANSFORMATION:
                continue
            record = self._retrieve(str(listed.get("id")))
            if record and matched(record, names).verdict != "no" and not stopped_by_service(record):
                found.append(_entry(record))
        return found

    def notice(self, functions: Sequence[PausedFunction]) -> str:
        """What a person must know before these are turned off, or ""."""
        off = [*functions, *(one for one in self.recorded if one.id not in {function.id for function in functions})]
        if not off:
            return ""
        return (
            f"{pluralize(len(off), 'hog function')} will be off until the events are sent and settled: {named(off)}."
            " Live events that arrive meanwhile do not reach them, not even later"
        )

    def pause(self, functions: Sequence[PausedFunction]) -> None:
        """Turn these off, recording each first; those that an earlier run left off stay off. After an error all are on
        again, or recorded."""
        try:
            for entry in self.recorded:
                self._review(entry)
            for chosen in functions:
                record = self._retrieve(chosen.id)
                if not record.get("enabled"):
                    continue
                entry = _entry(record)
                self._keep(entry, "ours")
                answer = self._client.call(UPDATE_FUNCTION, entry.id, body={"enabled": False}).json()
                self._keep(_after(entry, answer), "ours")
        except BaseException as error:
            left = self.resume()
            if isinstance(error, ServiceProblem) and isinstance(error, Refused):
                off = f"; {named(left.off)} may be off" if left.off else ""
                raise Refused(
                    f"cannot turn off the hog functions that would fire: {error}{off}; nothing was sent",
                    hint=error.hint,
                ) from error
            raise

    def resume(self) -> Resumed:
        """Turn on every function that is as it was left. An error of the service ends this, and is kept in the
        result."""
        on = []
        try:
            for entry in self.recorded:
                if self._review(entry) == "ours":
                    self._client.call(UPDATE_FUNCTION, entry.id, body={"enabled": True})
                    self._keep(entry, "on")
                    on.append(entry)
        except BackcastError as error:
            return self._resumed(on, error)
        return self._resumed(on)

    def _resumed(self, on: Sequence[PausedFunction], problem: BackcastError | None = None) -> Resumed:
        changed = [entry for entry in self.recorded if entry.changed]
        return Resumed(on, changed, [entry for entry in self.recorded if not entry.changed], problem)

    def _opened(self) -> PausedFunctions:
        """The record, which must be of the target's project."""
        client, project = self._client, self._target.project
        if not project.known:
            kind = Refused if project.check.level == "stop" else UsageError
            raise kind(
                f"the project of the hog functions is not known: {project.check.detail}; nothing was sent",
                hint=project.check.hint or "name it with --project",
            )
        here = PausedFunctions(api=client.base_url, project=client.project_id or "")
        record = read_paused(self.directory)
        if record is None:
            return here
        if (record.api, record.project) != (here.api, here.project):
            raise UsageError(
                f"hog functions of another project are off for this plan: {named(record.functions)}, of project"
                f" {record.project} at {record.api}",
                hint=f"turn them on first: backcast resume-functions {self.directory.name} --to {record.api}"
                f" --project {record.project}",
            )
        return record

    def _review(self, entry: PausedFunction) -> Found:
        """What a recorded function is now; the record is updated."""
        record = self._retrieve(entry.id)
        found = _found(entry, record)
        self._keep(_after(entry, record) if found == "ours" else entry, found)
        return found

    def _keep(self, entry: PausedFunction, found: Found) -> None:
        """Record this function as it was found; a function that is on, or deleted, is removed from the record."""
        others = [other for other in self.recorded if other.id != entry.id]
        if found in ("ours", "changed"):
            others.append(msgspec.structs.replace(entry, changed=found == "changed"))
        if others != list(self.recorded):
            self._record = msgspec.structs.replace(self._record, functions=others)
            write_paused(self.directory, self._record)

    def _retrieve(self, id: str) -> Mapping[str, Any]:
        """A function's record, empty if it was deleted."""
        try:
            record = self._client.call(RETRIEVE_FUNCTION, id).json()
        except NotFound:
            return {}
        return record if isinstance(record, dict) else {}


@contextmanager
def pausing_for(
    request: PreflightRequest, directory: Directory, plan: Plan | None, warn: Callable[[str], None], *, pauses: bool
) -> Iterator[Pausing | None]:
    """What turns functions off for a plan, if `pauses`; else, functions that an earlier run left off are first turned
    on. `directory` has the record of what is off; it is the plan's directory, if there is a plan.

    Without a personal key it only names them. Raises as Pausing does.
    """
    left = read_paused(directory)
    if pauses:
        with Pausing(request, directory, plan) as pausing:
            yield pausing
        return
    if left is not None and not request.personal_key:
        warn(f"hog functions that an earlier run left off stay off without a personal key: {named(left.functions)}")
    elif left is not None:
        resumed = resume_functions(request, directory)
        for line in resumed.warnings():
            warn(line)
        if resumed.problem is not None:
            raise resumed.problem
    yield None


@contextmanager
def paused(
    pausing: Pausing | None, functions: Sequence[PausedFunction], settle: float, step: Step, warn: Callable[[str], None]
) -> Iterator[None]:
    """Within it, these functions are off, and those that an earlier run left off. However it ends, they are turned on
    `settle` seconds after the last event was accepted; `warn` names those that stay off. None does nothing."""
    if pausing is None:
        yield
        return
    pausing.pause(functions)
    try:
        yield
    finally:
        if pausing.recorded:
            wait_to_settle(pausing.directory.ledger, settle, step)
        for line in pausing.resume().warnings():
            warn(line)


def resume_functions(request: PreflightRequest, directory: Directory) -> Resumed:
    """Turn on the functions that an earlier run left off. Raises UsageError, Busy, UnsafePlan, Refused, Unfinished."""
    if read_paused(directory) is None:
        return Resumed()
    with Pausing(request, directory) as pausing:
        return pausing.resume()


def _entry(record: Mapping[str, Any]) -> PausedFunction:
    """The entry for a function that is on, as it is recorded before it is turned off."""
    name = str(record.get("name") or "without a name")
    return PausedFunction(
        id=str(record.get("id")), name=name, before=str(record.get("updated_at")), content=_content(record)
    )


def _content(record: Mapping[str, Any]) -> str:
    stable = {name: value for name, value in record.items() if name not in _VOLATILE}
    return hashlib.sha256(json.dumps(stable, sort_keys=True).encode()).hexdigest()


def _found(entry: PausedFunction, record: Mapping[str, Any]) -> Found:
    """The function's state now, compared with how it was left."""
    if not record:
        return "gone"
    if record.get("enabled"):
        return "on"
    if entry.after:
        return "ours" if str(record.get("updated_at")) == entry.after else "changed"
    return "ours" if _content(record) == entry.content else "changed"


def _after(entry: PausedFunction, record: Mapping[str, Any]) -> PausedFunction:
    """The entry for a function that is off as we left it, with the time at which it was turned off."""
    return entry if entry.after else msgspec.structs.replace(entry, after=str(record.get("updated_at") or ""))
