"""What a process of an engine does: it makes a transformer from the config, once, and runs tasks.

It may join at any moment, and may be on another machine. So before computing anything it checks that it has the
parent's versions and sees the plan, and before reading a file, that it is the same file.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import pickle
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.engines.agreement import refuse_other_file, refuse_other_versions, this_process
from pipeline.errors import UsageError
from pipeline.extractors.stream import is_plain

if TYPE_CHECKING:
    from pipeline.transform.block import BlockTransformer

_OWN: dict[int, tuple[str, BlockTransformer, set[str]]] = {}
"""By thread, since a process of Dask may have several: the digest of the config, the transformer, and the files known
to be the parent's."""


def run(digest: str, given: Callable[[], bytes], packed: bytes) -> bytes:
    """The pickled result of a pickled function and its task, and None; or None and the error it raised.

    Raises nothing itself: an engine would log the error together with the task's input. `given` returns the config.
    """
    result = error = None
    collects = gc.isenabled()
    gc.disable()  # a block makes millions of objects, none of them in a cycle
    try:
        transformer, known = _own(digest, given)
        function, task = pickle.loads(packed)
        _refuse_other_parts(transformer, (one.block for one in getattr(task, "tasks", ())), known)
        result = function(transformer, task)
    except Exception as raised:
        _OWN.pop(threading.get_ident(), None)  # it may keep a part of this task
        error = _picklable(raised)
    finally:
        if collects:
            gc.enable()
    return pickle.dumps((result, error), pickle.HIGHEST_PROTOCOL)


def run_there(digest: str, file: Path, packed: bytes) -> bytes:
    """`run`, in a process that reads the config from the plan's directory."""
    return run(digest, lambda: _read(digest, file), packed)


def _read(digest: str, file: Path) -> bytes:
    """The config in the plan's directory. Raises UsageError if this process does not see the plan."""
    try:
        given = file.read_bytes()
        why = "it has a different file there"
    except OSError as error:
        given, why = b"", str(error)
    if hashlib.sha256(given).hexdigest() != digest:
        raise UsageError(
            f"the worker {this_process()} does not see the plan in {file.parent}: {why}",
            hint="put the plan on storage that every worker has under the same path (-o)",
        )
    return given


def _own(digest: str, given: Callable[[], bytes]) -> tuple[BlockTransformer, set[str]]:
    """The transformer of an earlier task with the same config, or a new one."""
    from pipeline.transform.block import BlockTransformer

    own = _OWN.get(threading.get_ident())
    if own is None or own[0] != digest:
        found, config = pickle.loads(given())
        refuse_other_versions(found)
        _retain_freed_memory()
        own = _OWN[threading.get_ident()] = digest, BlockTransformer(config), set()
        gc.collect()
        gc.freeze()
    return own[1:]


def _refuse_other_parts(transformer: BlockTransformer, blocks: Iterable[Any], known: set[str]) -> None:
    """Compare each file of the export that this process opens itself, once. If they are objects in a store, compare
    only the first: its name is the same everywhere, and each comparison costs a request."""
    parts = transformer.config.parts
    for part in {block.part: parts[block.part] for block in blocks if block.content is None}.values():
        key = part.file if is_plain(part) else ""
        if key not in known:
            refuse_other_file(part)
            known.add(key)


def forget(digest: str) -> None:
    """Release what the threads of this process keep for a config."""
    for thread, own in list(_OWN.items()):
        if own[0] == digest:
            _OWN.pop(thread, None)


def release_memory() -> None:
    """Return the memory of past blocks to the system: the process waits now, while the parent may need memory."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _retain_freed_memory() -> None:
    """Keep freed pieces of a few MiB for the next block: returning each to the system costs a page fault per 4 KiB."""
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(-3, 64 << 20)  # M_MMAP_THRESHOLD
        libc.mallopt(-1, 128 << 20)  # M_TRIM_THRESHOLD


def _picklable(error: Exception) -> Exception:
    """The error itself if it can be pickled, otherwise an error with its name and message."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
