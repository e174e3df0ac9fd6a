"""The pairs of ids, each once: a piece of them at a time, in any process of the engine."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from pipeline.identity.ranged_files import CarriedRange
from pipeline.identity.stored_pairs import aggregated
from pipeline.transform.block import BlockTransformer


class PairTask(NamedTuple):
    """A piece of the pairs of ids."""

    block: CarriedRange


def aggregate_pairs(_: BlockTransformer, task: PairTask) -> pa.RecordBatch:
    """Each pair of a piece once (`pipeline.identity.observed_pairs.PAIRS`)."""
    return aggregated(task.block.batches())
