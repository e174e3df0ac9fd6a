"""The error tree, organised by what the operator should do next.

    BackcastError                     exit 1    our bug: report it
    ├── UsageError                    exit 2    change the command or the configuration
    │   ├── UnfitExport               exit 2    name the columns or tables that its files have
    │   ├── WrongFile                 exit 2    correct the file at file:line:column
    │   │   ├── MappingError          exit 2    correct the mapping file
    │   │   └── JobError              exit 2    correct the job file
    │   ├── Busy                      exit 2    another run uses this plan: wait for it
    │   └── OutOfMemory               exit 2    allow more memory, or use fewer workers
    ├── UnreadableExport              exit 3    repair the export, or fetch it again
    ├── UnsafePlan                    exit 4    plan again, or fix the failed checks
    │   ├── EmptyExport               exit 4    the export has no row: name another, or fetch it again
    │   ├── StalePlan                 exit 4    an input, the mapping or an option changed since the plan
    │   └── BrokenLedger              exit 4    the ledger is damaged: restore it from a copy
    ├── Refused                       exit 5    the service refused: fix the key, the quota or the events
    ├── Unfinished                    exit 6    run the same command again to resume
    ├── Differences                   exit 7    verification found differences: read the report, then repair
    └── Interrupted                   exit 130  stopped by hand: run again to resume

A bad *row* is never an exception: it is a reject with a code (see `pipeline.models.Reject`).
Facts are attributes, so that no caller has to parse a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class BackcastError(Exception):
    """Anything that stops a command. `str(error)` is what happened and where; `hint` is what to do."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        """Errors cross process borders whole: message, hint and facts."""
        return _rebuild, (type(self), self.message, self.__dict__.copy())


def _rebuild(kind: type[BackcastError], message: str, facts: dict[str, object]) -> BackcastError:
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.__dict__.update(facts)
    return error


class UsageError(BackcastError):
    """The command line, the environment or a configuration file is wrong."""

    exit_code = 2


class UnfitExport(UsageError):
    """A file of the export contradicts the command line; in a job, this one window cannot be planned."""


class WrongFile(UsageError):
    """A file that a person wrote is wrong at one place."""

    def __init__(self, message: str, *, file: str, line: int = 0, column: int = 0, hint: str = "") -> None:
        where = f"{file}:{line}:{column}" if line else file
        super().__init__(f"{message}, at {where}", hint=hint)
        self.file = file
        self.line = line
        self.column = column


class MappingError(WrongFile):
    """A mapping file is wrong at one place."""


class JobError(WrongFile):
    """A job file is wrong at one place."""


class Busy(UsageError):
    """Another process uses the plan or the job."""


class OutOfMemory(UsageError):
    """The system gives no more memory, or a limit on address space is too low."""


class UnreadableExport(BackcastError):
    """A file of the export cannot be read as a whole (a broken *row* is a reject instead)."""

    exit_code = 3

    def __init__(self, message: str, *, path: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.path = path


class UnsafePlan(BackcastError):
    """A check failed, or the plan must not be applied as requested. `details` are a line each."""

    exit_code = 4

    def __init__(self, message: str, *, details: Sequence[str] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.details = details


class EmptyExport(UnsafePlan):
    """An export can be read but has no row, so there is nothing to survey or to plan."""


class StalePlan(UnsafePlan):
    """What would be sent differs from what was sealed. `differences` has one line for each."""

    def __init__(self, message: str, *, differences: Sequence[str] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.differences = tuple(differences)


class BrokenLedger(UnsafePlan):
    """The ledger cannot be read as one."""


class Refused(BackcastError):
    """The service refused events, or the key or the request."""

    exit_code = 5

    def __init__(self, message: str, *, status: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


class Unfinished(BackcastError):
    """The run stopped before its end, and resumes when the command is run again.

    If an answer of the service stopped it, `status` is that answer's, and `retry_after` how many seconds it asked
    to wait; otherwise both are 0.
    """

    exit_code = 6

    def __init__(self, message: str, *, status: int = 0, retry_after: float = 0.0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.retry_after = retry_after


class Differences(BackcastError):
    """What arrived differs from what was settled."""

    exit_code = 7


class Interrupted(BackcastError):
    """A person stopped the run; what was in flight is settled or in doubt, and a run resumes."""

    exit_code = 130
