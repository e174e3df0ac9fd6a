"""ORC files. Their blocks are read like those of Parquet."""

from __future__ import annotations

from pipeline.extractors.format import Format, when_called
from pipeline.extractors.formats.parquet import column_notices

FORMAT = Format(
    "orc", "ORC", when_called("orc_reader:blocks"), when_called("parquet_reader:ParquetRows"),
    magic=b"ORC", notices=column_notices("orc_reader:check"), fixed_columns=True,
)  # fmt: skip
