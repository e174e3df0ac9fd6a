"""The months in which the time zone of the data was measured."""

from __future__ import annotations

from msgspec.structs import asdict

from pipeline.clock_offsets import offset_name
from pipeline.plan.sealed.facts import MonthEvidence
from pipeline.report.contents import Report
from pipeline.report.registry import Values, on_page


@on_page(70, "zone")
def zone(report: Report) -> Values:
    """The measured and the expected offset of each month."""
    return {"months": list(map(_month, report.plan.zone_evidence))}


def _month(evidence: MonthEvidence) -> dict[str, object]:
    return {
        **asdict(evidence),
        "offset": offset_name(evidence.offset),
        "expected": " or ".join(map(offset_name, evidence.expected)),
    }
