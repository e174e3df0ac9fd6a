"""Rejected rows, and events that the service refused, as records of one type and as CSV."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, groupby, islice, tee
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from pipeline.errors import Refused, UnsafePlan, UsageError
from pipeline.ledger import RefusalRecord, read_refused_events, read_summary, read_totals, was_ever_applied
from pipeline.mask import cells_of
from pipeline.models import Dialect, Reject
from pipeline.plan.sealed.directory import Directory, read_lines
from pipeline.plan.sealed.discarded import discarded_of
from pipeline.plan.sealed.manifest import Example, Plan
from pipeline.text import are, pluralize
from pipeline.validator.codes import meaning
from pipeline.validator.placeholder_ids import is_placeholder

REFUSED = "refused_event"
"""The code of every event that the service refused."""
LEFT_OUT = "plan"
"""The stage of a row that the plan leaves out for another one."""

MOST_PLACES = 5
"""Causes of refusals whose first row is looked up, for each of which a request is inflated."""
MOST_RECORDS = 1_000
MOST_COLUMNS = 8
_LACKING = {"distinct_id": ("missing_distinct_id", "junk_distinct_id"), "time": ("missing_timestamp",)}
"""The codes of rows for which another column might do, by the entry of a mapping."""
_VARIABLE = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|\d+")

Warn = Callable[[str], None]


class RefusedEvent(Reject, frozen=True, gc=False, kw_only=True):
    """An event that the service refused, with its row.

    `stage` is `send`, or `rehearse` if the local service refused it and the plan was not applied yet. For a merge, a
    group or a profile, `part` is its file in the plan, and `row` its line.
    """

    uuid: str


def rejected(plan: Plan, directory: Directory) -> Iterator[Reject]:
    """The rejected rows of a plan, then its refused events. Raises BrokenLedger."""
    yield from read_lines(directory.rejects, Reject)
    source, stage = refusing(directory)
    yield from _located(plan, directory, read_refused_events(source.ledger), stage)


def left_out(plan: Plan, directory: Directory, code: str) -> Iterator[Reject]:
    """The rows whose events the plan leaves out with this code, such as `superseded`, by the plan's facts.

    It has no rows that the mapping itself skips: a plan only counts those. `offset` is 0, since facts have none.
    """
    from pipeline.plan.requests.query import opened

    first = plan.examples.get(code)
    with opened(directory) as database:
        query = f"SELECT part, row FROM facts WHERE code = '{code}' ORDER BY part, row, position"
        for batch in database.stream(query):
            for part, row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                path = plan.parts[part].path
                known = first is not None and (first.part, first.row) == (path, row)
                yield Reject(path, row, 0, LEFT_OUT, code, first.detail if known and first else meaning(code), "")


def _located(plan: Plan, directory: Directory, refusals: Iterable[RefusalRecord], stage: str) -> Iterator[RefusedEvent]:
    """Refused events with their rows, or with their lines in files of the plan; both in the order of the ledger."""
    from pipeline.plan.requests.places import find_places

    for phase, of_phase in groupby(refusals, key=attrgetter("phase")):
        listed, named = tee(of_phase)
        places = find_places(plan, directory, phase, ((one.request, one.event) for one in named))
        for one, (file, row, offset, text) in zip(listed, places, strict=True):
            detail = f"{one.status} {one.detail}"
            yield RefusedEvent(file, row, offset, stage, REFUSED, detail, text, uuid=one.uuid)


class RefusalCause(NamedTuple):
    """Events that were refused for one cause, and where the first of them comes from, "" if that is not known."""

    cause: str
    events: int
    place: str = ""


def refusal_causes(
    plan: Plan, directory: Directory, *, rehearsed: bool = False, uuids: bool = False
) -> list[RefusalCause]:
    """Why events of a plan, or of its rehearsal, were refused, the most frequent cause first. Raises BrokenLedger.

    Answers that differ in nothing but numbers and ids are one cause. The rows of the first MOST_PLACES are looked up,
    unless the events of the plan were discarded. `uuids`: the place of each also has its uuid, and is that alone if
    the plan's facts cannot be read.
    """
    source = Directory(directory.rehearsal) if rehearsed else directory
    groups = group_refusals(read_refused_events(source.ledger))
    first = sorted((refusal for refusal, _ in groups[:MOST_PLACES]), key=attrgetter("phase", "request", "event"))
    places: dict[str, str] = {}
    with suppress(*((UnsafePlan, OSError) if uuids else ())):
        located = () if discarded_of(plan, directory) else _located(plan, directory, first, "send")
        places = {event.uuid: place_of(event) for event in located}
    causes = []
    for refusal, count in groups:
        place = [places.get(refusal.uuid, ""), f"uuid {refusal.uuid}" if uuids else ""]
        causes.append(RefusalCause(f"{refusal.status} {refusal.detail}", count, ", ".join(filter(None, place))))
    return causes


def group_refusals(refusals: Iterable[RefusalRecord]) -> list[tuple[RefusalRecord, int]]:
    """The first refused event of each cause, and how many have it, the most frequent cause first."""
    groups: dict[str, tuple[RefusalRecord, int]] = {}
    for refusal in refusals:
        cause = same_cause(f"{refusal.status} {refusal.detail}")
        first, count = groups.get(cause, (refusal, 0))
        groups[cause] = first, count + 1
    return sorted(groups.values(), key=lambda group: -group[1])


def same_cause(detail: str) -> str:
    """A string that is equal for answers that differ only in numbers and ids."""
    return _VARIABLE.sub("…", detail)


def superseded_in(plan: Plan) -> tuple[int, Example] | None:
    """The duplicates of a plan that differ from the event that is sent in their place: how many, and the first."""
    count, example = plan.skips.get("superseded", 0), plan.examples.get("superseded")
    return (count, example) if count and example is not None else None


def place_of(reject: Reject) -> str:
    """Where a rejected row or refused event comes from: file, row, item, and byte, or the row that a sheet shows."""
    if not reject.row:
        return reject.part
    item = f", item {reject.item:,}" if reject.item else ""
    if reject.sheet:
        return f"{reject.part}, row {reject.row:,}{item}, row {reject.offset:,} of the sheet {reject.sheet!r}"
    byte = f", byte {reject.offset:,}" if reject.offset not in (0, reject.row - 1) else ""
    return f"{reject.part}, row {reject.row:,}{item}{byte}"


def remedies_of(plan: Plan, directory: Directory) -> Iterator[str]:
    """Which columns have a value in the rows that were rejected without an id or a time, as sentences for who corrects
    the mapping; of MOST_RECORDS rows at most."""
    dialects = {part.path: part.dialect for part in plan.parts}
    for entry, codes in _LACKING.items():
        some = [*islice((one for one in read_lines(directory.rejects, Reject) if one.code in codes), MOST_RECORDS)]
        values: dict[str, list[str]] = {}
        for reject in some:
            for path, text in _filled(_record(reject, dialects[reject.part])):
                values.setdefault(path, []).append(text)
        ranked = sorted(values.items(), key=lambda one: (-len(one[1]), -len({*one[1]})))[:MOST_COLUMNS]
        if ranked:
            listed = ", ".join(
                f"{path} ({pluralize(len(of), 'row')}, {pluralize(len({*of}), 'value')})" for path, of in ranked
            )
            lacking = f"{pluralize(len(some), 'rejected row')} without {entry}"
            yield f"Columns with a value in {lacking}: {listed}. If one will do, add it to `{entry}` in the mapping."


def _record(reject: Reject, dialect: Dialect) -> Any:
    """The record of a reject, as far as it can be read."""
    delimited = dialect.header and not reject.sheet
    with suppress(msgspec.MsgspecError):
        record = cells_of(reject.record, dialect) if delimited else msgspec.json.decode(reject.record)
        return dict(zip(dialect.header, record, strict=False)) if isinstance(record, list) else record
    return None


def _filled(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The path of each member that has a value, and the value; words such as `NULL` do not count."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _filled(one, f"{path}/{name}")
    elif not isinstance(value, list) and not is_placeholder(str(value)):
        yield path, str(value)


def rejects_with(plan: Plan, directory: Directory, code: str) -> Iterator[Reject]:
    """The rejected rows, the refused events or the rows left out that have this code.

    Raises UsageError for one that no row of the plan has, with the nearest or all codes, or of which the plan knows no
    row; BrokenLedger.
    """
    codes = [*plan.rejects, *([REFUSED] if count_refused(directory) else [])]
    if code in codes:
        return (reject for reject in rejected(plan, directory) if reject.code == code)
    if code in plan.skips:
        return _skipped(plan, directory, code)
    codes += plan.skips
    similar = difflib.get_close_matches(code, codes, n=1)
    all_codes = f"its codes are {', '.join(codes)}" if codes else "no row was rejected, and no event was refused"
    raise UsageError(
        f"this plan has no rejected row or refused event with the code {code!r}",
        hint=f"did you mean {similar[0]!r}?" if similar else all_codes,
    )


def _skipped(plan: Plan, directory: Directory, code: str) -> Iterator[Reject]:
    found = left_out(plan, directory, code)
    if (first := next(found, None)) is not None:
        return chain([first], found)
    raise UsageError(
        f"{pluralize(plan.skips[code], 'row')} with the code {code!r} {are(plan.skips[code])} skipped, not rejected"
        f" ({meaning(code)}), and a plan lists no rows that the mapping skips",
        hint="the report has their number; `backcast mapping check MAPPING --against EXPORT` shows what skips them",
    )


def count_refused(directory: Directory) -> int:
    """How many refused events `rejected` yields. Raises BrokenLedger."""
    return read_totals(refusing(directory)[0].ledger).refused


def refusal(directory: Directory, *, rehearsed: bool = False) -> Refused:
    """The error of a run with refused events: their number, the answer to the first, and how to list them."""
    source = Directory(directory.rehearsal) if rehearsed else directory
    summary = read_summary(source.ledger, most=1)
    first = summary.refusals[0]
    service = "the local service" if rehearsed else "the service"
    hint = f"list them, with their rows: backcast rejects {directory.name}"
    if source.ledger != refusing(directory)[0].ledger:
        hint = f"read refused_events in {source.ledger}; `backcast rejects` lists what the plan's own target refused"
    return Refused(
        f"{service} refused {pluralize(summary.totals.refused, 'event')}; the first: {first.status} {first.detail}",
        status=first.status,
        hint=hint,
    )


def refusing(directory: Directory) -> tuple[Directory, str]:
    """The plan, or its rehearsal if the plan was not applied, and the stage in which events are refused there."""
    if was_ever_applied(directory.ledger):
        return directory, "send"
    return Directory(directory.rehearsal), "rehearse"
