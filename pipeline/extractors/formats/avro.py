"""Avro object container files."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.extractors.format import Format, Recognized, when_called
from pipeline.models import Part


def _notices(part: Part, recognized: Recognized) -> Iterator[tuple[str, str]]:
    """No notices. A header that cannot be read stops discovery before other files are read."""
    if not part.codecs:
        when_called("avro_reader:check")(part)
    return iter(())


FORMAT = Format(
    "avro", "Avro", when_called("avro_reader:blocks"), when_called("avro_reader:AvroRows"),
    magic=b"Obj\x01", notices=_notices, fixed_columns=True,
)  # fmt: skip
