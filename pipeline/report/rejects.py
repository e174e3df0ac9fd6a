"""Rejected rows, and events that the service refused, as records of one type and as CSV."""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby, tee
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

from pipeline.errors import Refused, UsageError
from pipeline.ledger import RefusalRecord, read_refused_events, read_summary, read_totals, was_ever_applied
from pipeline.models import Reject
from pipeline.options import PathText
from pipeline.plan.sealed.directory import EVENTS, Directory, read_lines, sealed_file
from pipeline.plan.sealed.freshness import open_plan, transform_config_for
from pipeline.plan.sealed.manifest import Example, Plan, SealedBlock
from pipeline.text import pluralize

if TYPE_CHECKING:
    pass

REFUSED = "refused_event"
"""The code of every event that the service refused."""

FORMULA = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""First characters of a formula in a spreadsheet, full-width forms included (OWASP: CSV injection)."""
GUARD = "'"
"""Prefix of such a text, and of a text that starts with this prefix, so that removing it once restores every text."""

MOST_PLACES = 5
"""Causes of refusals whose first row is looked up, which reads a block of the export for each."""
_VARIABLE = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|\d+")

Warn = Callable[[str], None]


class RefusedEvent(Reject, frozen=True, gc=False, kw_only=True):
    """An event that the service refused, with its row.

    `stage` is `send`, or `rehearse` where the local service refused it and the plan was not applied yet. Of a merge, a
    group or a profile, `part` is its file in the plan, and `row` its line. `row` is 0 where the export could not be
    read.
    """

    uuid: str


def rejected(plan: Plan, directory: Directory) -> Iterator[Reject]:
    """The rejected rows of a plan, then its refused events. Raises BrokenLedger."""
    yield from read_lines(directory.rejects, Reject)
    source, stage = _refusing(directory)
    numbers = {refusal.block for refusal in read_refused_events(source.ledger) if refusal.phase == EVENTS}
    yield from _located(plan, source, read_refused_events(source.ledger), numbers, stage)


def _located(
    plan: Plan,
    source: Directory,
    refusals: Iterable[RefusalRecord],
    numbers: Collection[int],
    stage: str,
) -> Iterator[RefusedEvent]:
    """Refused events with their rows, in the order of the ledger. `numbers` are the blocks of the phase events."""
    for phase, of_phase in groupby(refusals, key=attrgetter("phase")):
        if phase == EVENTS:
            yield from _of_rows(plan, source, of_phase, numbers, stage)
        else:
            yield from _of_lines(sealed_file(phase, source), of_phase, stage)


class RefusalCause(NamedTuple):
    """Events that were refused for one cause, and where the first of them comes from, "" where that is not known."""

    cause: str
    events: int
    place: str = ""


def refusal_causes(
    plan: Plan,
    directory: Directory,
    *,
    rehearsed: bool = False,
    read_export: bool = True,
) -> list[RefusalCause]:
    """Why events of a plan, or of its rehearsal, were refused, the most frequent cause first. Raises BrokenLedger.

    Answers that differ in nothing but numbers and ids are one cause. The rows of the first MOST_PLACES are looked up;
    without `read_export` the place of an event of a row is its file alone.
    """
    source = Directory(directory.rehearsal) if rehearsed else directory
    groups = group_refusals(read_refused_events(source.ledger))
    first = sorted((refusal for refusal, _ in groups[:MOST_PLACES]), key=attrgetter("phase", "block", "event"))
    numbers = {refusal.block for refusal in first if refusal.phase == EVENTS}
    places = {}
    if not read_export:
        parts = {one.number: plan.parts[one.part].path for one in read_lines(source.blocks, SealedBlock)}
        places = {one.uuid: parts[one.block] for one in first if one.phase == EVENTS}
        first, numbers = [one for one in first if one.phase != EVENTS], set()
    places |= {event.uuid: place_of(event) for event in _located(plan, source, first, numbers, "send")}
    return [
        RefusalCause(f"{refusal.status} {refusal.detail}", count, places.get(refusal.uuid, ""))
        for refusal, count in groups
    ]


def group_refusals(refusals: Iterable[RefusalRecord]) -> list[tuple[RefusalRecord, int]]:
    """The first refused event of each cause, and how many have it, the most frequent cause first."""
    groups: dict[str, tuple[RefusalRecord, int]] = {}
    for refusal in refusals:
        cause = same_cause(f"{refusal.status} {refusal.detail}")
        first, count = groups.get(cause, (refusal, 0))
        groups[cause] = first, count + 1
    return sorted(groups.values(), key=lambda group: -group[1])


def same_cause(detail: str) -> str:
    """A text that is equal for answers that differ in nothing but numbers and ids."""
    return _VARIABLE.sub("…", detail)


def read_superseded(path: PathText) -> tuple[int, Example] | None:
    """The duplicates of a plan that differ from the event that is sent in their place: how many, and the first.

    Raises UsageError, UnsafePlan.
    """
    plan, _ = open_plan(path)
    count, example = plan.skips.get("superseded", 0), plan.examples.get("superseded")
    return (count, example) if count and example is not None else None


def place_of(reject: Reject) -> str:
    """Where a rejected row or refused event comes from: file, row, item, and byte unless the offset counts rows."""
    if not reject.row:
        return reject.part
    item = f", item {reject.item:,}" if reject.item else ""
    byte = f", byte {reject.offset:,}" if reject.offset not in (0, reject.row - 1) else ""
    return f"{reject.part}, row {reject.row:,}{item}{byte}"


def check_code(plan: Plan, directory: Directory, code: str) -> None:
    """Raise UsageError for a code that no reject of the plan has, with the nearest or all codes; BrokenLedger."""
    codes = [*plan.rejects, *([REFUSED] if count_refused(directory) else [])]
    if code in codes:
        return
    similar = difflib.get_close_matches(code, codes, n=1)
    all_codes = f"its codes are {', '.join(codes)}" if codes else "no row was rejected, and no event was refused"
    raise UsageError(
        f"nothing of this plan has the code {code!r}", hint=f"did you mean {similar[0]!r}?" if similar else all_codes
    )


def count_refused(directory: Directory) -> int:
    """How many refused events `rejected` yields. Raises BrokenLedger."""
    return read_totals(_refusing(directory)[0].ledger).refused


def refusal(directory: Directory, *, rehearsed: bool = False) -> Refused:
    """The error of a run with refused events: their number, the answer to the first, and how to list them."""
    source = Directory(directory.rehearsal) if rehearsed else directory
    summary = read_summary(source.ledger, most=1)
    first = summary.refusals[0]
    service = "the local service" if rehearsed else "the service"
    hint = f"list them, with their rows: backcast rejects {directory.name}"
    if source.ledger != _refusing(directory)[0].ledger:
        hint = f"read refused_events in {source.ledger}; `backcast rejects` lists what the plan's own target refused"
    return Refused(
        f"{service} refused {pluralize(summary.totals.refused, 'event')}; the first: {first.status} {first.detail}",
        status=first.status,
        hint=hint,
    )


def _refusing(directory: Directory) -> tuple[Directory, str]:
    """The plan, or its rehearsal where the plan was not applied, and the stage in which events are refused there."""
    if was_ever_applied(directory.ledger):
        return directory, "send"
    return Directory(directory.rehearsal), "rehearse"


def _event(refusal: RefusalRecord, stage: str, part: str, row: int, offset: int, record: str) -> RefusedEvent:
    return RefusedEvent(
        part, row, offset, stage, REFUSED, f"{refusal.status} {refusal.detail}", record, uuid=refusal.uuid
    )


def _of_lines(file: Path, refusals: Iterator[RefusalRecord], stage: str) -> Iterator[RefusedEvent]:
    """Refused merges, groups and profiles: each is a line of a sealed file."""
    from pipeline.plan.samples.event_rows import find_lines

    listed, named = tee(refusals)
    places = find_lines(file, ((refusal.block, refusal.event) for refusal in named))
    for refusal, place in zip(listed, places, strict=False):
        yield _event(refusal, stage, file.name, *place)


def _of_rows(
    plan: Plan,
    directory: Directory,
    refusals: Iterator[RefusalRecord],
    numbers: Collection[int],
    stage: str,
) -> Iterator[RefusedEvent]:
    """Refused events of rows, with the text of each event."""
    from pipeline.plan.samples.event_rows import find_rows

    parts = {
        block.number: plan.parts[block.part].path
        for block in read_lines(directory.blocks, SealedBlock)
        if block.number in numbers
    }
    found = find_rows(plan, directory, transform_config_for(plan, directory), numbers)
    for number, of_block in groupby(refusals, key=attrgetter("block")):
        block = next(found)
        for refusal in of_block:
            yield _event(refusal, stage, parts[number], *block.place(refusal.event))


def write_csv(file: TextIO, names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write rows under their names, each text guarded and every cell quoted."""
    writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(names)
    writer.writerows([guarded(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)


def guarded(text: str) -> str:
    """A text as a cell that no spreadsheet runs as a formula."""
    return GUARD + text if text[:1] in FORMULA or text.startswith(GUARD) else text
