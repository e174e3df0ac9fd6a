"""By which months the time zone of the data was measured."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.clock_offsets import offset_name
from pipeline.report.contents import Report
from pipeline.report.registry import Values, on_page


@on_page(70, "zone")
def zone(report: Report) -> Values:
    """The measured and the expected offset of each month."""
    return {"months": list(map(_month, report.plan.zone_evidence))}


def _month(evidence: Mapping[str, object]) -> dict[str, object]:
    expected = evidence.get("expected")
    names = [offset_name(int(one)) for one in expected] if isinstance(expected, list) else []
    offset = evidence.get("offset")
    return {
        **evidence,
        "offset": offset_name(offset) if isinstance(offset, int) else "",
        "expected": " or ".join(names),
    }
