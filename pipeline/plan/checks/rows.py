"""Rows that are rejected, skipped or left out, fields and names that the mapping does not mention, and empty plans."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from pipeline.json_limits import NAN_IS_NULL
from pipeline.models import Finding
from pipeline.plan.checks import PlanFacts, check, parse_limit, stated
from pipeline.text import are, pluralize, printable, some_of
from pipeline.timestamps import WITHOUT_OFFSET

_NAMES_SHOWN, _NAME_CHARACTERS = 10, 60

_NOT_ISO = re.compile(r"not an ISO 8601 time: '(.*)'")
_MAPPING = re.compile(r"plan with -m (\S+)")
_FORM = re.compile("timestamp_format='([^']*)'")
_UNIT = re.compile("plan with --set timestamp_unit=.*")
_NAN = "plan with --set nan=null, to read NaN and infinity as null"
CUT_OFF = "the tool broke off the export; fetch it again"
REMEDIES = {
    "cut_off": CUT_OFF,
    "junk_distinct_id": "their id is a placeholder such as null or anonymous, and would merge strangers into one person"
    " for good; if it is really one person's id, allow it in a mapping of your own: `distinct_id: {first: [...],"
    " allow: ['0']}`",
    "rounded_number": "a spreadsheet rounded their ids or times and the digits are lost; export these rows again, and"
    " leave this file out",
    WITHOUT_OFFSET: "their times have no offset; name the zone of that clock with --timezone Area/City",
    "recent_timestamp": "they are under 48 hours old; leave them out with --until, or send them with --allow-recent,"
    " billed as live events",
}
"""The remedy for rows that were rejected for one reason, by the reject's text or by its code."""


def remedy_of(code: str, detail: str) -> str:
    """What would help a row that was rejected with this code and text, "" if no remedy is declared."""
    if counted := _UNIT.search(detail):
        return counted[0]
    written = _NOT_ISO.match(detail)
    if written:
        return _format_of(written[1])
    return _NAN if detail.endswith(NAN_IS_NULL) else REMEDIES.get(detail) or REMEDIES.get(code, "")


@lru_cache(4_096)
def _format_of(text: str) -> str:
    """The option that reads a time written like this one, "" if the text is not a time."""
    from pipeline.survey.clock import forms_of

    options = [f"--set timestamp_format='{form}'" for form in forms_of(text)]
    if not options:
        return ""
    return f"plan with {' or '.join(options)}, or write this `format` with `unit: format` under `time` of the mapping"


@check("rejects", "warning")
def rejects_within_the_limit(facts: PlanFacts) -> Finding | None:
    """Some rows were rejected, but no more than allowed."""
    return _rejects(facts) if _permitted(facts) else None


@check("max_rejects", "stop")
def too_many_rejects(facts: PlanFacts) -> Finding | None:
    """More rows were rejected than --max-rejects allows."""
    return None if _permitted(facts) else _rejects(facts)


def _permitted(facts: PlanFacts) -> bool:
    """Whether the limit permits the rejects. A percentage limits rows and bytes: one row may be half of a file."""
    limit = parse_limit(facts.thresholds.max_rejects)
    return limit.permits(_rejected(facts), facts.rows.read) and _bytes_permitted(facts)


def _bytes_permitted(facts: PlanFacts) -> bool:
    limit = parse_limit(facts.thresholds.max_rejects)
    return limit.percent is None or limit.permits(facts.rejected_bytes, facts.bytes_read)


def _rejected(facts: PlanFacts) -> int:
    """The rows and items of rows to which the limit applies."""
    return max(facts.rejects, facts.rows.rejected)


def _rejects(facts: PlanFacts) -> Finding | None:
    """How many rows were rejected, and each remedy that helps a third of them or more."""
    rejected, read = _rejected(facts), facts.rows.read
    if not rejected:
        return None
    limit = f"(limit {parse_limit(facts.thresholds.max_rejects)})"
    if not _bytes_permitted(facts):
        limit = f"with {facts.rejected_bytes / facts.bytes_read:.2%} of the bytes {limit[:-1]} of rows and of bytes)"
    detail = f"{rejected:,} of {pluralize(read, 'row')} ({rejected / read:.2%}) rejected {limit}"
    if rejected > facts.rows.rejected:
        items = f"{pluralize(rejected, 'row')} or items of rows rejected, of {pluralize(read, 'row')}"
        detail = f"{items} {limit}; nothing is sent of {facts.rows.rejected:,} of these rows"
    if _bytes_permitted(facts) and facts.rejected_bytes * facts.rows.read > 10 * rejected * facts.bytes_read:
        detail = f"{detail}; they have {facts.rejected_bytes / facts.bytes_read:.0%} of the bytes"
    remedies = {remedy: rows for remedy, rows in facts.remedies.items() if remedy != CUT_OFF}
    helped = {one: sum(rows for other, rows in remedies.items() if _helps(one, other)) for one in remedies}
    remedy, rows = max(helped.items(), key=lambda pair: (pair[1], pair[0]), default=("", 0))
    if rows * 3 >= rejected:
        sendable = "cannot" if remedy == REMEDIES["rounded_number"] else "can"
        first = next((one.partition("), ")[2] for one in facts.codes if REMEDIES.get(one.split()[0]) == remedy), "")
        detail = f"{detail}. {rows:,} of them{first and f', {first},'} {sendable} be sent: {remedy}"
    other = _MAPPING.search(remedy) if rows == rejected else None
    return stated(detail, rejected, facts.codes, options=["--mapping", other[1]] if other else ())


def _helps(remedy: str, other: str) -> bool:
    """Whether this remedy also helps rows that have another remedy, because it includes that one's formats."""
    mine, theirs = (set(_FORM.findall(one)) for one in (remedy, other))
    return remedy == other or bool(mine and mine < theirs)


@check("cut_off", "stop")
def export_that_the_tool_ended(facts: PlanFacts) -> Finding | None:
    """The tool wrote that it gave up: rows are missing, which no limit of rejected rows covers."""
    files = facts.remedies.get(CUT_OFF, 0)
    detail = f"{pluralize(files, 'file')} of the export {are(files)} incomplete: {CUT_OFF}"
    return stated(detail, files)


@check("open_choices", "stop")
def undecided_mapping(facts: PlanFacts) -> Finding | None:
    """The mapping is a draft: it lists choices that a person has to make. Their evidence quotes values."""
    choices = list(facts.open_choices)
    return stated(
        f"the mapping has {pluralize(len(choices), 'open choice')}: {', '.join(choices)}", len(choices), choices
    )


@check("zero_events", "stop")
def nothing_to_send(facts: PlanFacts) -> str | None:
    """No event to send means that the mapping, the window or the files are wrong; in a job it is normal."""
    return None if facts.in_series or any(facts.phases.values()) else "no event would be sent"


@check("keyless", "stop")
def keyless_rows_in_a_series(facts: PlanFacts) -> Finding | None:
    """Identical rows without a source key are numbered, which does not work across the windows of a job."""
    if not facts.in_series or facts.options.collapse_identical:
        return None
    events = pluralize(facts.keyless, "event")
    sentence = f"{events} without a source key, so identical ones cannot be told apart across windows"
    return stated(sentence, facts.keyless, options=["--collapse-identical"])


@check("merges", "stop")
def too_many_merges(facts: PlanFacts) -> Finding | None:
    """A job sends no more merges than its limit, because merges cannot be undone."""
    merges, limit = facts.people.identities.links, facts.max_merges
    if limit is None or merges <= limit:
        return None
    return stated(f"{pluralize(merges, 'merge')} to send (limit {limit:,})", merges)


@check("key_not_unique", "stop")
def conflicting_keys(facts: PlanFacts) -> Finding | None:
    """Rows with one source key differ in event name, UTC day or person: only one of them would be sent. This is only a
    warning if a person declared such rows to be one event."""
    conflicts = facts.key_conflicts
    more = "; …" if conflicts.rows > len(conflicts.examples) else ""
    return stated(
        f"{pluralize(conflicts.rows, 'row')} {are(conflicts.rows)} left out because a different event has the same"
        f" key: {'; '.join(conflicts.examples)}{more}",
        conflicts.rows,
        conflicts.examples,
        "warning" if facts.thresholds.allow_key_conflicts else "stop",
    )


@check("unmatched_reference", "stop")
def missing_references(facts: PlanFacts) -> Finding | None:
    """The mapping names a field that no row has; if it is required, no row has an event name, a person, a time or a
    key."""
    missing = facts.references
    return None if missing is None else Finding("", "stop" if missing.required else "warning", missing.detail)


@check("max_unmapped", "stop")
def too_many_unmapped(facts: PlanFacts) -> Finding | None:
    """More fields and event names than --max-unmapped allows are kept although the mapping does not name them."""
    coverage, allowed = facts.coverage, facts.thresholds.max_unmapped
    limit = None if allowed is None else parse_limit(allowed, "--max-unmapped")
    if limit is None or coverage is None or limit.permits(coverage.unmapped, coverage.met):
        return None
    fields = [one.field for one in coverage.fields if one.unmapped]
    events = [one.event for one in coverage.events if one.unmapped]
    return stated(
        f"{coverage.unmapped:,} of {coverage.met:,} fields and event names are kept although the mapping does not"
        f" name them (limit {limit}): {_some('field', fields, coverage.fields_total.unmapped)};"
        f" {_some('event name', events, coverage.events_total.unmapped)}",
        coverage.unmapped,
        [printable(name, _NAME_CHARACTERS) for name in (*fields, *events)],
    )


@check("not_in_scope", "stop")
def names_that_the_scope_lacks(facts: PlanFacts) -> Finding | None:
    """Every event name of the export has to be in the table of --scope, so that a person decides about it."""
    if facts.scope is None:
        return None
    names, count = facts.scope.examples, facts.scope.unlisted
    return stated(f"the table of --scope lacks {_some('event name', names, count)} of the export", count, names)


@check("scope_unused", "notice")
def names_of_the_scope_without_rows(facts: PlanFacts) -> Finding | None:
    """A name of the table that no row has may be misspelt. A window of a job has few of the names."""
    if facts.scope is None or facts.in_series:
        return None
    names = [printable(name, _NAME_CHARACTERS) for name in facts.scope.absent]
    detail = f"the table of --scope lists {_some('event name', names, len(names))} without a row"
    return stated(detail, len(names), names)


def _some(unit: str, names: Sequence[str], count: int) -> str:
    """How many there are, and the first names."""
    shown = some_of([printable(name, _NAME_CHARACTERS) for name in names], _NAMES_SHOWN, count=count)
    return f"{pluralize(count, unit)} ({shown})" if names else pluralize(count, unit)
