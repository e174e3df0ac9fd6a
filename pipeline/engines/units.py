"""What engines of other machines have in common: a few blocks are computed at once, anywhere.

A *unit* is a function and a few consecutive tasks. A process that runs one gives back everything that came of it, and
retains nothing but the compiled mapping: so a unit may be run again anywhere when its process is lost, and its result
is the same. An exception of a task is part of the result, since an engine would log it with what the task was given.

A process may join at any moment, and may be on another machine. So each one makes sure, before it computes anything,
that it has the versions of the process that asked; and before it reads a file, that this is the same file.
"""

from __future__ import annotations

import copyreg
import gc
import hashlib
import io
import pickle
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from pipeline import storage
from pipeline.engines.agreement import (
    Expected,
    refuse_other_file,
    refuse_other_files,
    refuse_other_versions,
    this_process,
    unfit,
    versions,
)
from pipeline.engines.processes import content_of, picklable, retain_freed_memory, with_content
from pipeline.errors import Unfinished
from pipeline.extractors.stream import is_plain
from pipeline.models import Block, Part
from pipeline.text import pluralize

if TYPE_CHECKING:
    from pipeline.batcher import Envelope
    from pipeline.engines import Rest
    from pipeline.transform.block import BlockTransformer
    from pipeline.transform.tasks import TransformConfig

R = TypeVar("R")
W = TypeVar("W")

FEWEST, MOST = 4, 8
"""Blocks of a unit: of the first ones few, so that a small export is spread over all processes; then more, because what
was aggregated over a unit is aggregated once more in the parent. With up to 32 a worker's peak was 720 MiB where rows
are short, and with 8 it is 317 (6,000,000 rows of 180 bytes)."""
MOST_BYTES = 2 * 4 * 1024 * 1024
"""Bytes of blocks that travel with a unit because no worker can read them by itself."""


AGAIN = "run the same command again: a plan begins anew, and what was sent is not sent again"


class WorkersEnded(Exception):
    """So many processes ended, one after the other, while they ran the unit that is waited for."""

    def __init__(self, times: int) -> None:
        super().__init__(times)
        self.times = times


class _Given(NamedTuple):
    """What a process needs before its first unit: the versions that it must have, the plan's tables that it opens, and
    the config with the envelope, pickled."""

    versions: Mapping[str, str]
    tables: Sequence[Expected]
    config: bytes


class _Answer(NamedTuple):
    """The results of the tasks, in order; what was retained of them; and the error that ended the unit, if any."""

    results: list[Any]
    retained: Any
    error: Exception | None


class UnitEngine(ABC):
    """An engine that runs units. `count` is the number of processes that were there at its start; with an `address`
    they are a cluster of others."""

    def __init__(self, address: str, count: int) -> None:
        self._address = address
        self.count = count
        self._config = b""
        self._digest = ""
        self._digests: set[str] = set()
        self._parts: Sequence[Part] = ()
        self._seen: Expected | None = None

    @abstractmethod
    def __enter__(self) -> UnitEngine: ...

    @abstractmethod
    def __exit__(self, *raised: object) -> None: ...

    @abstractmethod
    def _ask(self, function: Callable[[], R]) -> Mapping[str, R]:
        """The result of a function in each process, by its name."""

    @abstractmethod
    def _run(self, units: Iterator[bytes]) -> Iterator[bytes]:
        """`run_unit` of each unit with the config, in order. Takes only a few units ahead."""

    def configure(self, config: TransformConfig, envelope: Envelope | None = None) -> None:
        self._parts = config.parts
        tables = [Expected(str(path.absolute()), digest) for path, digest in config.tables.items()]
        self._config = _packed(_Given(versions(), tables, _packed((config, envelope))))
        self._digest = hashlib.sha256(self._config).hexdigest()
        self._digests.add(self._digest)
        if self._address:
            first = [_expected(part) for part in config.parts if is_plain(part)][:1]
            for wrong in self._ask(partial(unfit, [*first, *tables])).values():
                if wrong is not None:
                    raise wrong

    def reads(self, file: Path) -> bool:
        if not self._address:
            return True
        self._seen = Expected(str(file.absolute()), status=storage.status(str(file)))
        answers = self._ask(partial(unfit, [self._seen]))
        return bool(answers) and not any(answers.values())

    def walk(
        self, function: Callable[[BlockTransformer, W], R], tasks: Iterable[W], rest: Rest[Any] | None = None
    ) -> Iterator[tuple[W, R]]:
        """Each task with its result, in the order of the tasks."""
        waiting: deque[list[W]] = deque()

        def units() -> Iterator[bytes]:
            for some in _units_of(tasks, max(self.count, 1)):
                waiting.append([_without_content(task) for task in some])
                yield _packed((function, rest and rest.ask, [_sent(task) for task in some], self._files_of(some)))

        try:
            for packed in self._run(units()):
                answer: _Answer = pickle.loads(packed)
                yield from zip(waiting.popleft(), answer.results, strict=False)  # fewer results where one failed
                if answer.error is not None:
                    raise answer.error
                if rest is not None:
                    rest.add(answer.retained)
        except WorkersEnded as ended:
            work = self._work_of(waiting[0])
            raise Unfinished(
                f"{pluralize(ended.times, 'worker')} ended, one after the other, while they worked on {work}; the usual"
                " reason is too little memory",
                hint=f"give each worker more memory, or start fewer of them on a machine; then {AGAIN}",
            ) from None

    def _work_of(self, tasks: Sequence[Any]) -> str:
        """What people call these tasks: their first and last blocks."""
        blocks = [task.block for task in tasks if isinstance(getattr(task, "block", None), Block)]
        if not blocks:
            return "a table of the plan"
        ends = [f"block {block.index} of {self._parts[block.part].path}" for block in (blocks[0], blocks[-1])]
        return " to ".join(dict.fromkeys(ends))

    def _files_of(self, tasks: Sequence[Any]) -> list[Expected]:
        """The files that a process opens for these tasks: one of the export for a block without content, and the file
        that stands for the plan's own directory, once it was asked for, for everything else without content."""
        files: dict[Expected, None] = {}
        for task in tasks:
            block = getattr(task, "block", None)
            if content_of(task) is not None:
                continue
            if isinstance(block, Block):
                files[_expected(self._parts[block.part])] = None
            elif self._seen is not None:
                files[self._seen] = None
        return list(files)


def _expected(part: Part) -> Expected:
    return Expected(part.file, part.digest, part.status, part.path)


def _units_of(tasks: Iterable[Any], processes: int) -> Iterator[list[Any]]:
    unit: list[Any] = []
    carried = units = 0
    for task in tasks:
        unit.append(task)
        carried += len(content_of(task) or b"")
        if len(unit) == min(MOST, FEWEST << units // processes) or carried >= MOST_BYTES:
            yield unit
            unit, carried, units = [], 0, units + 1
    if unit:
        yield unit


def _sent(task: Any) -> Any:
    """The task as it can be pickled: what was cut from a larger buffer is a view of it."""
    content = content_of(task)
    return task if content is None else with_content(task, bytes(content))


def _without_content(task: Any) -> Any:
    return task if content_of(task) is None else with_content(task, None)


def _packed(value: object) -> bytes:
    content = io.BytesIO()
    _Pickler(content, pickle.HIGHEST_PROTOCOL).dump(value)
    return content.getvalue()


class _Pickler(pickle.Pickler):
    """A path that leaves this process is absolute, since another process has another working directory."""

    dispatch_table = copyreg.dispatch_table | {type(Path()): lambda path: (Path, (str(path.absolute()),))}


# -- in a process of the engine ------------------------------------------------------------------------------


class _Own(msgspec.Struct):
    """What a thread retains: its transformer, and the files that are known to be those of the process that asked."""

    digest: str
    transformer: BlockTransformer
    known: set[str] = msgspec.field(default_factory=set)


_OWN: dict[int, _Own] = {}
"""By thread: a process of Dask may have several."""


def run_unit(config: bytes, digest: str, unit: bytes) -> bytes:
    """Run a unit, with the transformer of an earlier one where it has the same config. Raises nothing of the tasks."""
    results: list[Any] = []
    retained = error = None
    collects = gc.isenabled()
    gc.disable()  # a block makes millions of objects, none of them in a cycle
    try:
        own = _own(config, digest)
        function, ask, tasks, files = pickle.loads(unit)
        refuse_other_files(files, own.known)
        results.extend(function(own.transformer, task) for task in tasks)
        retained = None if ask is None else ask(own.transformer)
    except Exception as raised:
        _OWN.pop(threading.get_ident(), None)  # it may retain a part of this unit
        error = picklable(raised)
    finally:
        if collects:
            gc.enable()
    return pickle.dumps(_Answer(results, retained, error), pickle.HIGHEST_PROTOCOL)


def _own(config: bytes, digest: str) -> _Own:
    """What this thread retains for a config. Raises UsageError where this process would make other events of it."""
    from pipeline.transform.block import BlockTransformer

    own = _OWN.get(threading.get_ident())
    if own is None or own.digest != digest:
        given: _Given = pickle.loads(config)
        refuse_other_versions({this_process(): versions()}, given.versions)
        for table in given.tables:
            refuse_other_file(table)
        retain_freed_memory()
        own = _OWN[threading.get_ident()] = _Own(digest, BlockTransformer(*pickle.loads(given.config)))
    return own


def forget(digests: Collection[str]) -> None:
    """Release what the threads of this process retain for these configs, among it the project key."""
    for thread, own in list(_OWN.items()):
        if own.digest in digests:
            _OWN.pop(thread, None)
