"""The small files that steps after a plan write beside it, and that its report and later steps read.

preflight.json              what a target answered before the plan was sent to it
paused-functions.json       the hog functions that `apply --pause-functions` turned off and has not turned on again
profiles-before.jsonl       what live profiles had where the plan writes
receipt.json                the receipt, as far as a report shows it; `pipeline.proof.receipt` writes it
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from pipeline.errors import UnsafePlan
from pipeline.files import private, sync_folder, write_atomically, write_json
from pipeline.plan.sealed.directory import Directory
from pipeline.plan.sealed.manifest import Plan
from pipeline.text import printable
from pipeline.timestamps import utc_now

if TYPE_CHECKING:
    from pipeline.preflight.run import Preflight

PREFLIGHT_FORMAT = "backcast.preflight/1"
CUT_OVER = "cut_over"
Level = Literal["ok", "warning", "stop", "unknown"]
LEVELS = {"stop": "stop", "warning": "warning", "unknown": "could not check", "ok": "ok"}
"""How each level is written for people, the most urgent first."""
_NAME_CHARACTERS = 60
Record = TypeVar("Record")


def read_record(path: Path, kind: type[Record]) -> Record | None:
    """A JSON file as a value of this type; None if it cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


class _Planned(msgspec.Struct):
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check: its name, its level and why. `hint` is what to do about it, "" without advice.

    `ok`: proved. `warning`: an import may do harm, a person decides. `stop`: it would do harm. `unknown`: it could not
    be checked.
    """

    name: str
    level: Level
    detail: str
    hint: str = field(default="", compare=False)
    facts: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The numbers and examples behind the detail, for programs and the report; JSON values."""


class PreflightResult(msgspec.Struct, frozen=True, kw_only=True):
    """A preflight of a plan: `to` is the address and `project` the project's id, `at` when (ISO 8601, UTC).

    `digest` is the plan's; `most` the limit of events that may be there already.
    """

    format: str = PREFLIGHT_FORMAT
    digest: str
    to: str
    project: str
    at: str
    most: str
    checks: list[Check]

    @property
    def cut_over(self) -> Check | None:
        """The check of where live events begin; None if it was not answered."""
        return next((check for check in self.checks if check.name == CUT_OVER and "first_live" in check.facts), None)

    def age(self, now: datetime) -> float:
        """How many seconds ago it was."""
        return (now - datetime.fromisoformat(self.at)).total_seconds()


def preflight_of(directory: Directory, digest: str) -> PreflightResult | None:
    """The last preflight of the plan with this digest; None without one."""
    found = read_preflight(directory)
    return found if found is not None and found.digest == digest else None


def read_preflight(directory: Directory) -> PreflightResult | None:
    """The last preflight of a plan of this directory, not necessarily of the one that is there now; None without."""
    return read_record(directory.preflight, PreflightResult)


@private()
def write_preflight(directory: Directory, digest: str, to: str, most: str, preflight: Preflight) -> None:
    """Record a preflight. Raises OSError."""
    checks = list(preflight.checks)
    result = PreflightResult(digest=digest, to=to, project=preflight.project_id, at=utc_now(), most=most, checks=checks)
    write_json(directory.preflight, result)


class PausedFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A function that was on, and is turned off while a plan is sent. It is recorded before it is turned off.

    `before` is its `updated_at` while it was on, and `content` the digest of what it was then. `after` is its
    `updated_at` once it was off, "" until the service has answered. `changed`: it was changed since, so it is left as
    it is.
    """

    id: str
    name: str
    before: str
    content: str
    after: str = ""
    changed: bool = False

    def __str__(self) -> str:
        return f"{printable(self.name, _NAME_CHARACTERS)!r} ({printable(self.id, _NAME_CHARACTERS)})"


class PausedFunctions(msgspec.Struct, frozen=True, kw_only=True):
    """The functions of one project: `api` is the address of its management API, `project` its id."""

    format: str = "backcast.paused-functions/1"
    api: str
    project: str
    functions: Sequence[PausedFunction] = ()


def read_paused(directory: Directory) -> PausedFunctions | None:
    """What is recorded; None if nothing is off. Raises UnsafePlan for a record that cannot be read."""
    try:
        return msgspec.json.decode(directory.paused.read_bytes(), type=PausedFunctions)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnsafePlan(
            f"{directory.paused} cannot be read: {error}",
            hint="restore it from a copy; else turn the project's hog functions on by hand, and remove it",
        ) from None


def paused_in(directory: Directory) -> Sequence[PausedFunction]:
    """The functions that are recorded as off. Raises UnsafePlan."""
    recorded = read_paused(directory)
    return () if recorded is None else recorded.functions


@private()
def write_paused(directory: Directory, record: PausedFunctions) -> None:
    """Write the record durably, or remove it if it has no function any more."""
    if record.functions:
        write_json(directory.paused, record)
    else:
        directory.paused.unlink(missing_ok=True)
        sync_folder(directory.path)


def named(functions: Sequence[PausedFunction]) -> str:
    """`'To the CRM' (0190…), 'Chat' (0191…)`: every one, since they may be listed nowhere else."""
    return ", ".join(map(str, functions))


class ProfileBefore(msgspec.Struct, frozen=True):
    """One live profile: the id that the plan writes to, the person that it belonged to, and the values of the
    properties that the plan writes; `absent` are those that it did not have."""

    distinct_id: str
    person: str
    properties: dict[str, Any]
    absent: list[str]


@private()
def write_profiles_before(directory: Directory, digest: str, profiles: Iterable[ProfileBefore]) -> None:
    """Replace the file by what a preflight of the plan with this digest read. Raises OSError."""
    write_atomically(directory.profiles_before, msgspec.json.Encoder().encode_lines([_Planned(digest), *profiles]))


def read_profiles_before(directory: Directory, digest: str) -> Iterator[ProfileBefore]:
    """The profiles of the plan with this digest; none if no preflight read any.

    What is overwritten cannot be read any more, so this is what is known of it for an undo: a sample of the profiles,
    or all of them where they are few (`pipeline.preflight.checks.people.MOST`).
    """
    try:
        head, *lines = directory.profiles_before.read_bytes().splitlines()
        if msgspec.json.decode(head, type=_Planned).digest != digest:
            return
    except (OSError, ValueError):
        return
    yield from map(msgspec.json.Decoder(ProfileBefore).decode, lines)


class _Signature(msgspec.Struct):
    public_key: str = ""


class _Receipt(msgspec.Struct):
    written: str
    state: str
    plan: _Planned
    signature: _Signature | None = None


class WrittenReceipt(msgspec.Struct, frozen=True):
    """A receipt next to the plan: when it was written, the plan's state then, the sha256 of its file, and the public
    key of its signature, "" if it is not signed."""

    written: str
    state: str
    sha256: str
    public_key: str


def written_receipt(plan: Plan, directory: Directory) -> WrittenReceipt | None:
    """The receipt of exactly this plan in its directory, if there is one that can be read."""
    try:
        content = directory.receipt.read_bytes()
        receipt = msgspec.json.decode(content, type=_Receipt)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return None
    if receipt.plan.digest != plan.digest:
        return None
    key = "" if receipt.signature is None else receipt.signature.public_key
    return WrittenReceipt(receipt.written, receipt.state, hashlib.sha256(content).hexdigest(), key)
