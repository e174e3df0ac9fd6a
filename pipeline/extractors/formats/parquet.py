"""Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pipeline import out_of_memory
from pipeline.extractors.dialect import name_notices
from pipeline.extractors.format import Format, Recognized, when_called
from pipeline.models import Part


def column_notices(check: str) -> Callable[[Part, Recognized], Iterator[tuple[str, str]]]:
    """Notices about the column names that `check`, a function of an Arrow reader, returns."""

    def notices(part: Part, recognized: Recognized) -> Iterator[tuple[str, str]]:
        if not part.codecs:
            out_of_memory.require_for_arrow()
            yield from name_notices(when_called(check)(part))

    return notices


FORMAT = Format(
    "parquet", "Parquet", when_called("parquet_reader:blocks"), when_called("parquet_reader:ParquetRows"),
    magic=b"PAR1", notices=column_notices("parquet_reader:check"), fixed_columns=True,
)  # fmt: skip
