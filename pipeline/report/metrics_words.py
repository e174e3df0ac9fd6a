"""The sentences and tables about the metrics of a verification, for the terminal and the page alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipeline.text import are, pluralize, printable, were
from pipeline.verify.number_findings import Against, Metric, Metrics

METRICS = {
    "month": "month", "week": "week, from Monday", "day": "day", "event": "event name", "platform": "platform ($os)",
    "country": "country ($geoip_country_code)",
}  # fmt: skip
"""Each metric as people name it, in the order of a page."""
_SIDES = {"#events": 0, "#events there": 0, "events differ": 40, "#users": 0, "#users there": 0, "users differ": 80}
_OLD = {"metric": 9, "period": 20, "name": 80, "#old tool": 0, "#plan": 0, "because": 160}


class Table(NamedTuple):
    """A table: its columns with the most characters of their cells (# for numbers), and its rows."""

    columns: dict[str, int]
    rows: Sequence[Sequence[str | int]]


def metric_sentences(metrics: Metrics) -> Iterator[str]:
    compared = sum(metrics.compared.values())
    found = f"{metrics.differing:,} of {compared:,} differ" if metrics.differing else f"all {compared:,} are equal"
    yield f"Events and users by UTC day, week, month, name, platform and country, plan and target: {found}."
    if metrics.split:
        persons = pluralize(metrics.split, "person")
        yield f"{persons} of the plan {are(metrics.split)} several at the target: merges are not in effect."
    if metrics.merged:
        persons = pluralize(metrics.merged, "person")
        yield f"{persons} at the target {are(metrics.merged)} several of the plan: others merged them."
    if metrics.unknown:
        yield f"Not known: {metrics.unknown}."
    if metrics.in_doubt:
        yield f"{pluralize(metrics.in_doubt, 'event')} in doubt may be there, and {are(metrics.in_doubt)} not expected."
    if metrics.left_out:
        yield f"{pluralize(metrics.left_out, 'event')} {were(metrics.left_out)} not counted: updates such as $identify."
    if isinstance(against := metrics.against, Against):
        yield (
            f"Old numbers of {against.file}, days in {against.zone}: {against.equal:,} equal, {against.explained:,}"
            f" differ for known reasons, {against.unexplained:,} not explained. Not in the file:"
            f" {pluralize(against.names_only_planned, 'event name')},"
            f" {pluralize(against.periods_only_planned, 'period')}."
        )
        if against.unknown_names:
            yield f"Not compared, because the plan has no such event: {', '.join(against.unknown_names[:5])}."


def metric_tables(metrics: Metrics, *, every: bool, why: bool = True) -> Iterator[Table]:
    """The numbers side by side, all or those that differ, with `why` users do; people who are split or merged; the old
    tool's numbers."""
    for metric, title in METRICS.items():
        shown = [row for row in metrics.rows if row.metric == metric and (every or row.differs)]
        yield Table({title: 80} | _SIDES, [
            (_name(row), row.events, row.events_found, _change(row.events, row.events_found),
             *("" if users is None else users for users in (row.users, row.users_found)), _people(row, why))
            for row in shown
        ])  # fmt: skip
    yield Table({"person": 9, "ids": 200}, [(kind, ", ".join(ids)) for kind, ids in metrics.people])
    if isinstance(metrics.against, Against):
        yield Table(_OLD, [
            (one.metric, one.period or "all", one.name or "all", one.old, one.planned,
             _parts({code.replace("_", " "): count for code, count in one.because.items()}
                    | {"not explained": one.unexplained}))
            for one in metrics.against.rows
        ])  # fmt: skip


def _name(row: Metric) -> str:
    if row.others:
        return f"{row.others:,} others"
    return row.name[:7] if row.metric == "month" else printable(row.name, 80) or "none"


def _change(planned: int, found: int) -> str:
    """How much more or less is there, and its share."""
    share = f" ({(found - planned) / planned:+.1%})" if planned else ""
    return f"{found - planned:+,}{share}" if found != planned else ""


def _people(row: Metric, why: bool) -> str:
    """How users differ, and why."""
    if row.users is None or row.users_found is None:
        return ""
    rest = row.users_found - row.users - row.split + row.merged
    events = "missing" if rest < 0 else "other"
    parts = {"by splits": row.split, "by merges": -row.merged, f"by {events} events": rest}
    return ": ".join(filter(None, (_change(row.users, row.users_found), _parts(parts) if why else "")))


def _parts(parts: dict[str, int]) -> str:
    return ", ".join(f"{count:+,} {what}" for what, count in parts.items() if count)
