"""paused-functions.json: the hog functions that `apply --pause-functions` turned off and has not turned on again."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pipeline.errors import UnsafePlan
from pipeline.files import private, sync_folder, write_atomically
from pipeline.plan.sealed.directory import Directory
from pipeline.text import printable

FORMAT = "backcast.paused-functions/1"
_NAME_CHARACTERS = 60


class PausedFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A function that was on, and is turned off while a plan is sent. It is recorded before it is turned off.

    `before` is its `updated_at` while it was on, and `content` the digest of what it was then. `after` is its
    `updated_at` once it was off, "" until the service has answered. `changed`: somebody changed it since, so that it is
    left as it is.
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

    format: str = FORMAT
    api: str
    project: str
    functions: Sequence[PausedFunction] = ()


def read_paused(directory: Directory) -> PausedFunctions | None:
    """What is recorded; None where nothing is off. Raises UnsafePlan for a record that cannot be read."""
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
    """Write the record durably, or remove it where no function is left in it."""
    if record.functions:
        write_atomically(directory.paused, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
    else:
        directory.paused.unlink(missing_ok=True)
        sync_folder(directory.path)


def named(functions: Sequence[PausedFunction]) -> str:
    """`'To the CRM' (0190…), 'Chat' (0191…)`: every one, since this may be the only place that tells."""
    return ", ".join(map(str, functions))
