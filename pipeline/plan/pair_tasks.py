"""The pairs of ids, each once: a piece of them at a time, in any process of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pipeline.transform.block import BlockTransformer

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.identity.ranged_files import CarriedRange


class PairTask(NamedTuple):
    """A piece of the pairs of ids."""

    block: CarriedRange


def aggregate_pairs(_: BlockTransformer, task: PairTask) -> pa.RecordBatch:
    """Each pair of a piece once (`pipeline.identity.observed_pairs.PAIRS`)."""
    from pipeline.identity.stored_pairs import aggregated

    return aggregated(task.block.batches())
