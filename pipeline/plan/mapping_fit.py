"""How the mapping of a plan, and the tracking plan, fit the rows that were read."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import UNSET, UnsetType

from pipeline.errors import BackcastError
from pipeline.mapper.inspection.field_uses import FieldUses
from pipeline.plan.request import Request
from pipeline.plan.samples.source_pairs import Shown
from pipeline.plan.sealed.facts import Coverage, TrackingSeal
from pipeline.plan.settled import CODES
from pipeline.plan.statistics.unmatched import MissingReferences, ReferenceUsage
from pipeline.plan.walk import Walk


def other_mapping(request: Request) -> str:
    """The mapping that recognises the rows; "" if it is the plan's own mapping, or if none does."""
    from pipeline.survey.recognition import guess_mapping

    try:
        found = guess_mapping(request.source)
    except BackcastError:
        return ""
    return "" if found == request.mapping.name else found


def coverage_of(request: Request, source: Walk) -> tuple[Coverage | None, MissingReferences | None]:
    """What becomes of each field and event name, and the references that no row matches; None without a mapping
    file."""
    counts, mapping = source.coverage, request.document
    if counts is None or mapping is None:
        return None, None
    uses = FieldUses(mapping, request.config.options, request.lookups)
    references = ReferenceUsage(request.references)
    duplicates = sum(source.skips[code] for code in CODES)
    coverage = counts.coverage(uses, references, items=mapping.decoder is not None, duplicates=duplicates)
    return coverage, references.missing() if coverage.rows else None


def compare_with_tracking_plan(
    request: Request, source: Walk, shown: Shown, row_at: Callable[[int], str]
) -> TrackingSeal | UnsetType:
    """What breaks the tracking plan; UNSET if a person gave none."""
    if request.thresholds.types is None:
        return UNSET
    from pipeline.plan.statistics.tracking_plan import TrackingPlan, compare

    return compare(TrackingPlan(request.thresholds.types), source.sample, shown, row_at)
