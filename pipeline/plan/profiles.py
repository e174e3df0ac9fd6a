"""Writes the profile updates of people from pieces of the updates, in any process of the engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from pipeline.encoder.event import Encoder
from pipeline.encoder.updates import SealedGroup, SealedPerson, encode_profile
from pipeline.identity.last_values import LastValues, last_values_in
from pipeline.identity.persons import PersonCounts, Wanted, final_persons
from pipeline.identity.settings import parse_policy
from pipeline.mapper.compiler import Mapper
from pipeline.models import SealedOptions
from pipeline.transform.block import BlockTransformer
from pipeline.validator.rules import ValidationContext, event_too_large

if TYPE_CHECKING:
    import pyarrow as pa

SURELY_SMALL = 100_000
"""An update with fewer bytes of properties than this passes every size rule, however it is encoded."""
T = TypeVar("T", SealedGroup, SealedPerson)


class Updates(msgspec.Struct, frozen=True):
    """Some updates on their way to any process, as an Arrow stream, which travels like the bytes of a block."""

    content: bytes | memoryview | None

    @classmethod
    def of(cls, batches: Sequence[pa.RecordBatch]) -> Updates:
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batches[0].schema) as stream:
            for batch in batches:
                stream.write_batch(batch)
        return cls(sink.getvalue().to_pybytes())

    def batches(self) -> Iterable[pa.RecordBatch]:
        """The updates."""
        import pyarrow as pa

        return list(pa.ipc.open_stream(pa.py_buffer(self.content)))


class ProfileTask(NamedTuple):
    """A piece of the updates of persons, which has all updates of each, and those people in it who get no profile."""

    block: Updates
    unwanted: frozenset[str]


class WrittenProfiles(NamedTuple):
    """The lines of persons.jsonl that came from a piece."""

    lines: bytes
    counts: PersonCounts


def write_profiles(transformer: BlockTransformer, task: ProfileTask) -> WrittenProfiles:
    """The profile updates of a piece."""
    counts = PersonCounts()
    profiles = profiles_of(
        last_values_in(task.block.batches()), counts, transformer.mapper, transformer.encoder,
        transformer.config.options, transformer.context,
        wanted=(lambda ids: [one not in task.unwanted for one in ids]) if task.unwanted else None,
    )  # fmt: skip
    return WrittenProfiles(msgspec.json.Encoder().encode_lines(list(profiles)), counts)


def profiles_of(
    finals: Iterator[LastValues],
    counts: PersonCounts,
    mapper: Mapper,
    encoder: Encoder,
    options: SealedOptions,
    rules: ValidationContext,
    *,
    wanted: Wanted | None = None,
) -> Iterator[SealedPerson]:
    """The profile updates that are sent, under the plan's policy. `counts` is filled on the way."""
    persons = final_persons(
        finals, parse_policy(options.profile_policy), mapper.hasher, counts,
        wanted=wanted, removes=options.dialect == "posthog", per_event=rules.per_event,
    )  # fmt: skip
    return fitting(persons, encode_profile, counts.left_out, "large_person", encoder, options, rules)


def fitting(
    updates: Iterable[T],
    encode: Callable[[T, Encoder, str], bytes],
    left_out: Counter[str],
    code: str,
    encoder: Encoder,
    options: SealedOptions,
    rules: ValidationContext,
) -> Iterator[T]:
    """The updates that are small enough to be sent; the others are counted in `left_out` under `code`."""
    for update in updates:
        if update.size < SURELY_SMALL or event_too_large(encode(update, encoder, options.dialect), rules) is None:
            yield update
        else:
            left_out[code] += 1
