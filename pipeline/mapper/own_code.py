"""The user's own code of a mapping (`python: clean.py:clean`): a function that gets each finished event.

A plan seals the text of the file, so an apply runs the code that was planned. The function runs after the mapping and
before the validator. It is the user's code with the user's rights: nothing confines it, and `registry.load` reads it
only for a mapping that is named by its path.
"""

from __future__ import annotations

import hashlib
import sys
import time
import types
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import msgspec

from pipeline.errors import MappingError
from pipeline.mapper.language.kinds import Place
from pipeline.mapper.own_events import CHANGED_ID, LINK_LEFT_OUT, GivenEvent, WrongResult
from pipeline.models import ItemOutcomes, Link, OwnCode, RejectReason, Skip, UnvalidatedEvent
from pipeline.uuids import SEPARATOR, Hasher

ERROR, RESULT = "python_error", "python_result"

Function = Callable[[dict[str, Any]], Any]


class Cost(msgspec.Struct):
    """How many events went through the code in this process, and how long that took."""

    events: int = 0
    nanoseconds: int = 0


def read(named: str, mapping: Path, place: Callable[[], Place]) -> OwnCode:
    """The code that a mapping file names. `place` is where it does; only an error asks for it. Raises MappingError."""
    file, _, function = named.rpartition(":")
    if not file or not function.isidentifier():
        raise place().error(
            f"{named!r} does not name a function", "write the file and the function: python: clean.py:clean"
        )
    path = mapping.parent / file
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except OSError as error:
        hint = "check the path, which is relative to the mapping's folder"
        raise place().error(f"cannot read {path}: {error.strerror}", hint) from None
    except UnicodeDecodeError as error:
        raise place().error(f"{path} is not UTF-8: {error.reason}", "save the file as UTF-8") from None
    return OwnCode(file, function, hashlib.sha256(content).hexdigest(), text)


@lru_cache(maxsize=16)
def load(code: OwnCode) -> Function:
    """Run the file once in this process and return the function. Raises MappingError."""
    module = types.ModuleType(f"backcast_own_code_{code.digest[:16]}")
    module.__file__ = code.file
    # A command's output holds only its result, such as that of `plan --json`.
    module.__dict__["print"] = partial(_print, print)
    sys.modules[module.__name__] = module  # dataclasses and pickle look for it there
    try:
        exec(compile(code.text, code.file, "exec", dont_inherit=True), module.__dict__)
    except SyntaxError as error:
        line, column = error.lineno or 1, error.offset or 1
        raise MappingError(
            f"the file is not valid Python: {error.msg}",
            file=code.file,
            line=line,
            column=column,
            hint="correct that line",
        ) from None
    except (Exception, SystemExit) as error:
        raise MappingError(
            f"the file cannot be imported: {_described(error)}", file=code.file, line=_line_of(error, code.file) or 1,
            column=1, hint="it may import the standard library and installed packages, but no file next to it",
        ) from None  # fmt: skip
    function = module.__dict__.get(code.function)
    if not callable(function):
        there = [name for name, one in vars(module).items() if isinstance(one, types.FunctionType)]
        raise MappingError(
            f"the file has no function {code.function!r}", file=code.file,
            hint=f"its functions: {', '.join(there)}" if there else "define it at the top level of the file",
        )  # fmt: skip
    checked: Function = function
    return checked


def _print(own: Callable[..., None], *texts: object, **how: Any) -> None:
    own(*texts, **{"file": sys.stderr, **how})


class OwnCodeRunner:
    """Runs the code on the outcomes of rows. `cost` adds up while it does."""

    def __init__(self, code: OwnCode, hasher: Hasher) -> None:
        self._function = load(code)
        self._file = code.file
        self._hasher = hasher
        self.cost = Cost()

    def after(self, map_row: Callable[..., Any]) -> Callable[..., Any]:
        def map_row_and_run(row: Any, scan: Any = None) -> Any:
            result = map_row(row, scan)
            if result.__class__ is UnvalidatedEvent:
                made = self._run(result, 0, 0)
                return made[0] if len(made) == 1 else made
            if result.__class__ is ItemOutcomes:
                return self._run_items(result)
            return self._run_all(result, 0, 0) if isinstance(result, list) else result

        return map_row_and_run

    def _run_items(self, outcomes: ItemOutcomes) -> ItemOutcomes:
        made, start = ItemOutcomes(), 0
        for end in outcomes.ends:
            made += self._run_all(outcomes[start:end], start, len(made))
            made.ends.append(len(made))
            start = end
        return made

    def _run_all(self, outcomes: list[Any], before: int, after: int) -> list[Any]:
        """The outcomes of one item. The first is at position `before` in its row, and at `after` once the code has
        run."""
        made: list[Any] = []
        renamed: set[str | None] = set()
        for position, outcome in enumerate(outcomes, before):
            if outcome.__class__ is UnvalidatedEvent:
                of_event = self._run(outcome, position, after + len(made))
                renamed.update(one.mapped_id for one in of_event if one.__class__ is UnvalidatedEvent)
                made += of_event
            else:
                made.append(outcome)
        renamed.discard(None)
        if not renamed:
            return made
        return [
            Skip(CHANGED_ID, LINK_LEFT_OUT)
            if one.__class__ is Link and not renamed.isdisjoint((one.distinct_id, one.other))
            else one
            for one in made
        ]

    def _run(self, event: UnvalidatedEvent, before: int, after: int) -> list[Any]:
        """What an event becomes; `before` is its position in its row by the mapping, `after` that of the result."""
        started = time.perf_counter_ns()
        try:
            given = GivenEvent(event, self._uuid(event, before))
            try:
                returned = self._function(given.plain)
            except (Exception, SystemExit) as error:
                where = _line_of(error, self._file)
                at = f", at {self._file}:{where}" if where else f", in {self._file}"
                return [RejectReason(ERROR, _described(error) + at)]
            try:
                return given.outcomes(returned, shifted=before != after)
            except WrongResult as wrong:
                return [RejectReason(RESULT, str(wrong))]
            except Exception as error:  # from an object that the code returned, such as a list that contains itself
                return [RejectReason(RESULT, f"what it returned cannot be read: {_described(error)}")]
        finally:
            self.cost.events += 1
            self.cost.nanoseconds += time.perf_counter_ns() - started

    def _uuid(self, event: UnvalidatedEvent, position: int) -> str | None:
        """The uuid that the event has without the code; None if only the whole source decides it."""
        if event.uuid is not None or event.key is None:
            return event.uuid
        return self._hasher(f"{event.key}{SEPARATOR}{position}" if position else event.key)


def _described(error: BaseException) -> str:
    """The type and the first line of an exception; it is the user's and may have any text."""
    try:
        text = str(error)
    except Exception:
        text = ""
    first = text.strip().partition("\n")[0][:300]
    first = first.encode("utf-8", "backslashreplace").decode()
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _line_of(error: BaseException, file: str) -> int:
    """The last line of the user's file that an exception passed through, or 0."""
    line = 0
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
