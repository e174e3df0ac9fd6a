"""The results of a plan: its rehearsal, what the target answered before, its sending, what was read back, a receipt."""

from __future__ import annotations

from pipeline.charts.rate import rate
from pipeline.report.contents import Report
from pipeline.report.metrics_words import metric_sentences, metric_tables
from pipeline.report.records import LEVELS
from pipeline.report.registry import Values, on_page
from pipeline.report.source_words import source_sentences, source_tables
from pipeline.report.verification_words import canary_sentences, copies, done_about
from pipeline.report.wording import state_in_words
from pipeline.verify.number_findings import Metrics
from pipeline.verify.source_findings import SourceCheck

MOST_ROWS = 40
_TITLES = {
    "already_there": "Events of the plan that are there under their own uuids",
    "same_events": "Events of the plan that are there under other uuids",
}


@on_page(30, "rehearsal")
def rehearsal(report: Report) -> Values:
    """The run against the embedded local service, and what was read back there."""
    results = report.results
    if results.rehearsal is None:
        return None
    refusals = report.refusals if results.applied is None else []
    return {
        "run": results.rehearsal,
        "refusals": refusals,
        "verification": results.rehearsed,
        "copies": copies(results.rehearsed) if results.rehearsed is not None else "",
    }


@on_page(35, "preflight")
def preflight(report: Report) -> Values:
    """The last preflight of this plan; nothing without one."""
    found = report.preflight
    if found is None:
        return None
    facts = {check.name: check.facts for check in found.checks}
    there = [
        (title, cells[:MOST_ROWS]) for name, title in _TITLES.items() if (cells := facts.get(name, {}).get("cells"))
    ]
    return {
        "preflight": found,
        "checks": sorted(found.checks, key=lambda check: tuple(LEVELS).index(check.level)),
        "levels": LEVELS,
        "overlap": facts.get("cut_over", {}).get("names", [])[:MOST_ROWS],
        "there": there,
    }


@on_page(20, "sending")
def sending(report: Report) -> Values:
    """What was sent over all runs: when, what failed and why, what was refused and why."""
    if report.results.applied is None:
        return None
    sent = report.rate
    seconds = len(sent.settled) if sent is not None else 0
    return {
        "run": report.results.applied,
        "rate": None if sent is None else rate(sent.settled, sent.failed),
        "usual": 0 if sent is None or not seconds else sum(sent.settled.values()) / seconds,
        "refusals": report.refusals,
    }


@on_page(15, "canary")
def canary(report: Report) -> Values:
    """The sample that was sent before the rest, and what was read back of it."""
    result = report.results.canary
    if result is None:
        return None
    verification = result.verification
    return {
        "sentences": canary_sentences(result),
        "verification": verification,
        "copies": copies(verification),
        "remedies": done_about(verification),
    }


@on_page(10, "verification")
def verification(report: Report) -> Values:
    """What was read back from the target."""
    result = report.results.verification
    if result is None:
        return None
    return {"verification": result, "copies": copies(result), "remedies": done_about(result)}


@on_page(12, "metrics")
def metrics(report: Report) -> Values:
    """The numbers of charts, at the target and in the old tool, next to those of the plan."""
    result = report.results.verification
    found = None if result is None else result.metrics
    if not isinstance(found, Metrics):
        return None
    return {
        "metrics": found,
        "sentences": list(metric_sentences(found)),
        "tables": list(metric_tables(found, every=True)),
    }


@on_page(11, "source")
def source(report: Report) -> Values:
    """The target next to the project that it was moved from."""
    result = report.results.verification
    found = None if result is None else result.source
    if not isinstance(found, SourceCheck):
        return None
    return {"source": found, "sentences": list(source_sentences(found)), "tables": list(source_tables(found))}


@on_page(105, "receipt")
def receipt(report: Report) -> Values:
    """The receipt next to the plan, by which others check what was imported."""
    written, applied = report.receipt, report.results.applied
    if written is None:
        return None
    refused = applied.events.refused if applied is not None else 0
    return {"receipt": written, "then": state_in_words(written.state, refused)}
