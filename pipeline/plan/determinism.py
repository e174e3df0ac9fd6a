"""Is the mapping's own code deterministic? It runs over some rows twice, each time in a fresh process.

The two differ in all that an event must not depend on (docs/know/promises.md#purity): the seed of hashes, the time zone
(the date is never the same in both), the locale, the clock, and the order of the rows, which shows state that is kept
from one call to the next.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from pipeline.errors import BackcastError, MappingError
from pipeline.extractors import blocks as read_blocks
from pipeline.extractors import rows as read_rows
from pipeline.mapper import Mapping
from pipeline.mapper.language.parsed import place_of
from pipeline.models import Block, RejectReason, UnvalidatedEvent
from pipeline.text import printable
from pipeline.values import raw

if TYPE_CHECKING:
    from pipeline.transform.tasks import TransformConfig

MOST_PARTS, MOST_ROWS = 8, 50
"""Rows are tried of so many files, and so many of each, spread over its first block."""
BLOCK_BYTES = 256 * 1024
ENVIRONMENTS = (
    {"PYTHONHASHSEED": "1", "TZ": "EAST-14", "LC_ALL": "C", "LANG": "C"},
    {"PYTHONHASHSEED": "2", "TZ": "WEST+12", "LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"},
)
TIMEOUT = 300
_MAIN = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer);from pipeline.plan.determinism import main; main()"
)
_SHOWN = 80

Trial = list[tuple[int, int, list[dict[str, bytes]]]]
"""Of each row its part, its number in the part from 1, and its outcomes, each by its members as JSON."""


def check_deterministic(mapping: Mapping, config: TransformConfig) -> None:
    """Raise MappingError, naming the row, the event and the property, where two runs of the code differ."""
    parts = config.parts[:MOST_PARTS]
    blocks = [one for part in parts for one in islice(read_blocks(part, block_bytes=BLOCK_BYTES, block_rows=500), 1)]
    blocks = [one if one.content is None else replace(one, content=bytes(one.content)) for one in blocks]
    given = pickle.dumps(sys.path) + pickle.dumps((config, blocks))
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _MAIN, "backwards" if number else "forwards"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **environment},
        )
        for number, environment in enumerate(ENVIRONMENTS)
    ]  # fmt: skip
    try:
        with ThreadPoolExecutor(len(running)) as pool:
            first, second = pool.map(lambda process: _result(mapping, process, given), running)
    finally:
        for process in running:
            process.kill()
            process.wait()
    for (part, row, one), (_, _, other) in zip(first, second, strict=True):
        if one != other:
            raise _wrong(mapping, f"row {row} of {config.parts[part].path} {_difference(one, other)}")


def _result(mapping: Mapping, process: subprocess.Popen[bytes], given: bytes) -> Trial:
    try:
        result, errors = process.communicate(given, TIMEOUT)
    except subprocess.TimeoutExpired:
        raise _wrong(mapping, f"some rows took more than {TIMEOUT} seconds", "does it wait for something?") from None
    if process.returncode:
        last = errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise _wrong(mapping, f"it ended the process that ran it (exit {process.returncode}): {printable(last, 300)}")
    trial: Trial | BackcastError = pickle.loads(result)
    if isinstance(trial, BackcastError):
        raise trial
    return trial


def _wrong(
    mapping: Mapping,
    what: str,
    hint: str = "an event may depend on its row alone: leave out clocks, random numbers, the order of sets,"
    " and what is kept from one call to the next",
) -> MappingError:
    file, line, column = place_of(mapping, "python")
    return MappingError(f"{mapping.python}: {what}", file=file, line=line, column=column, hint=hint)


def _difference(one: list[dict[str, bytes]], other: list[dict[str, bytes]]) -> str:
    """The first member in which the outcomes of a row differ, in words."""
    absent: dict[str, bytes] = {}
    for before, after in zip_longest(one, other, fillvalue=absent):
        for name in dict.fromkeys([*before, *after]):
            if before.get(name) != after.get(name):
                event = before.get("event") or after.get("event") or b"a skip or a reject"
                of = f"of {printable(event.decode(), _SHOWN)}"
                shown = " and then ".join(_shown(members.get(name)) for members in (before, after))
                return f"gives another result each time: {printable(name, _SHOWN)} {of} is {shown}"
        if list(before) != list(after):
            return "gives its properties in another order each time"
    return "gives another result each time"


def _shown(value: bytes | None) -> str:
    return "absent" if value is None else printable(value.decode("utf-8", "replace"), _SHOWN)


def main() -> None:
    """In a fresh process: run the code over the rows and write what it gives."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the code prints is none of the result
    config, blocks = pickle.load(sys.stdin.buffer)
    trial: Trial | BackcastError
    try:
        trial = _tried(config, blocks, backwards=sys.argv[1] == "backwards")
    except BackcastError as error:
        trial = error
    with output:
        pickle.dump(trial, output)


def _tried(config: TransformConfig, blocks: list[Block], *, backwards: bool) -> Trial:
    from pipeline.transform.block import BlockTransformer

    transformer = BlockTransformer(config)
    rows = [
        (block.part, number, transformer.mapper_of(config.parts[block.part]), record)
        for block in blocks
        for number, record in _sample(transformer, block)
    ]
    if backwards:
        rows.reverse()
    made = [(part, row, [_members(one) for one in _outcomes(mapper, record)]) for part, row, mapper, record in rows]
    return made[::-1] if backwards else made


def _sample(transformer: Any, block: Block) -> Iterator[tuple[int, Any]]:
    part = transformer.config.parts[block.part]
    mapper = transformer.mapper_of(part)
    rows = read_rows(part, block, observe=False, opens=mapper.opens, blanks=mapper.blanks, unread=mapper.unread)
    records = list(rows)
    step = -(-len(records) // MOST_ROWS) or 1
    for number in range(0, len(records), step):
        if isinstance(records[number], dict):
            yield number + 1, records[number]


def _outcomes(mapper: Any, record: Any) -> list[Any]:
    result = mapper.map_row(record, False)
    return result if isinstance(result, list) else [result]


def _members(outcome: Any) -> dict[str, bytes]:
    if isinstance(outcome, RejectReason):
        return {"the reject": outcome.code.encode()}  # its text may have the address of an object
    if not isinstance(outcome, UnvalidatedEvent):
        return {"the outcome": repr(outcome).encode("utf-8", "backslashreplace")}
    members = {name: msgspec.json.encode(getattr(outcome, name)) for name in ("event", "distinct_id", "uuid")}
    members["timestamp"] = repr(outcome.time).encode()
    return members | {f"properties[{name!r}]": bytes(raw(value)) for name, value in outcome.properties.items()}
