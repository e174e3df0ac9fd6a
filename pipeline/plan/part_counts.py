"""What became of the rows of one part: each is counted once, or nothing is sealed (docs/know/promises.md#balance)."""

from __future__ import annotations

from pipeline.errors import BackcastError
from pipeline.models import Part
from pipeline.plan.filenames import as_text
from pipeline.plan.manifest import PartSeal


class PartCount:
    """Running counts of one part."""

    __slots__ = ("mapped", "rejected", "rows", "skipped")

    def __init__(self) -> None:
        self.rows = self.mapped = self.skipped = self.rejected = 0

    def seal(self, part: Part, digest: str) -> PartSeal:
        """The part as a plan seals it; `digest` is the sha256 of its bytes.

        Raises BackcastError where a row is missing.
        """
        if self.rows != self.mapped + self.skipped + self.rejected:
            raise BackcastError(
                f"{part.path} does not balance: {self.rows} rows read, {self.mapped} mapped,"
                f" {self.skipped} skipped, {self.rejected} rejected",
                hint="this is a defect of backcast; please report it with the mapping",
            )
        return PartSeal(
            part.path, part.bytes, digest, self.rows, self.mapped, self.skipped, self.rejected, part.format,
            part.codecs, part.dialect, as_text(part.file), as_text(part.member), part.mtime_ns, part.table,
        )  # fmt: skip
