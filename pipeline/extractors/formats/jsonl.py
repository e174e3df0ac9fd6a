"""JSON lines: one JSON object per line."""

from __future__ import annotations

from pipeline.extractors.format import Format, Recognized, Sample, when_called
from pipeline.extractors.formats.json import encoding_notices, encoding_traits, is_table, mostly_objects
from pipeline.models import Dialect


def _recognize(sample: Sample) -> Recognized | None:
    """Comes after documents over several lines (`pipeline.extractors.formats.json`)."""
    start = sample.text.lstrip(b" \t\r\n")
    if not is_table(start) and (start[:1] == b"{" or mostly_objects(start, sample.whole)):
        return Recognized(Dialect(encoding=sample.encoding, bom=sample.bom))
    return None


FORMAT = Format(
    "jsonl", "JSON lines", when_called("line_blocks:blocks"), when_called("jsonl_rows:rows"),
    recognize=_recognize, traits=encoding_traits, notices=encoding_notices,
)  # fmt: skip
