"""The results of a plan: its rehearsal, its sending, and what was read back."""

from __future__ import annotations

from pipeline.report.contents import Report
from pipeline.report.registry import Values, on_page
from pipeline.report.wording import COLLAPSE


@on_page(80, "rehearsal")
def rehearsal(report: Report) -> Values:
    """The run against the embedded local service, and what was read back there."""
    results = report.results
    if results.rehearsal is None:
        return None
    return {"run": results.rehearsal, "verification": results.rehearsed, "collapse": COLLAPSE}


@on_page(90, "sending")
def sending(report: Report) -> Values:
    """What was sent over all runs."""
    return None if report.results.applied is None else {"run": report.results.applied}


@on_page(100, "verification")
def verification(report: Report) -> Values:
    """What was read back from the target."""
    result = report.results.verification
    return None if result is None else {"verification": result, "collapse": COLLAPSE}
