"""The sentences and tables about a target and its source project, for the terminal and the page alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipeline.report.metrics_words import Table, metric_tables
from pipeline.text import pluralize, printable
from pipeline.verify.source_findings import SourceCheck


def source_sentences(found: SourceCheck) -> Iterator[str]:
    equal = "equal, except for what is explained" if found.because or found.persons.because or found.later else "equal"
    plans = pluralize(len(found.plans), "plan")
    yield f"Source and target: {'they differ' if found.differs else equal} ({plans})."
    counts = {"missing": found.missing, "different": found.different, "extra": found.extra}
    yield (
        f"Events: {found.events:,} at the source{f' until {found.until}' if found.until else ''}, {found.found:,} at"
        f" the target; {_listed(counts) or 'every uuid agrees'}."
    )
    if found.because:
        yield f"Left out by the plans: {_listed(found.because)}."
    if found.later:
        yield f"Not compared: {pluralize(found.later, 'event')} that the source ingested later, for the next catch-up."
    if found.updates:
        yield f"{pluralize(found.updates, 'update')} of the source, such as $identify, by persons and groups only."
    if found.others:
        yield f"{pluralize(found.others, 'event')} of the target without marks of the plans, so of other senders."
    persons = found.persons
    whole, ids = (
        _listed({kind: persons.wrong.get(kind, 0) for kind in kinds})
        for kinds in (("split", "merged"), ("missing", "extra"))
    )
    wrong = "; ".join(filter(None, (whole, ids and f"ids: {ids}")))
    yield (
        f"Persons: {persons.persons:,} with {pluralize(persons.ids, 'id')} at the source, {persons.persons_found:,}"
        f" with {persons.ids_found:,} at the target; {wrong or 'the same ids are one person'}"
        + (f". Explained by the plans: {_listed(persons.because)}." if persons.because else ".")
    )
    for one in found.groups:
        state = f"{one.missing:,} missing" if one.missing else "none missing"
        if one.left_out:
            state += ", left out by --group-types"
        elif one.number != one.number_found:
            state += f"; its number is {one.number} at the source and {one.number_found} at the target"
        yield f"Groups of the type {printable(one.type, 80)}: {one.groups:,}; {state}."
    compared = sum(found.metrics.compared.values())
    yield f"Numbers of charts: {found.metrics.differing:,} of {compared:,} differ by more than what is left out."


def source_tables(found: SourceCheck) -> Iterator[Table]:
    """Ids and groups that differ, names and days, events, and the numbers of charts."""
    yield Table({"person": 9, "ids": 200}, [(kind, ", ".join(ids)) for kind, ids in found.persons.examples])
    yield Table(
        {"group type": 80, "missing": 200}, [(one.type, ", ".join(one.keys)) for one in found.groups if one.keys]
    )
    columns = {"event": 80, "UTC day": 10, "#source": 0, "#target": 0, "#explained": 0}
    yield Table(columns, [(one.event, one.day, one.events, one.found, one.explained) for one in found.rows])
    events = [(one.kind.replace("_", " "), one.uuid, one.event, one.day, one.code) for one in found.differences]
    yield Table({"difference": 10, "uuid": 36, "event": 80, "UTC day": 10, "code": 40}, events)
    if found.metrics.differing:
        yield from metric_tables(found.metrics, every=False, why=False)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count)
