"""What was not accepted: rejected rows, and events that the service refused, in one shape and as CSV."""

from __future__ import annotations

import csv
import difflib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TextIO

from pipeline.errors import Refused, UnreadableExport, UnsafePlan, UsageError
from pipeline.ledger import RefusalRecord, read_refused_events, read_summary, read_totals, was_ever_applied
from pipeline.models import Reject
from pipeline.plan.directory import Directory, read_lines
from pipeline.plan.freshness import transform_config_for
from pipeline.plan.manifest import Plan, SealedBlock
from pipeline.plan.phases import EVENTS, line_blocks, sealed_file
from pipeline.text import pluralize

REFUSED = "refused_event"
"""The code of every event that the service refused."""

FORMULA = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""Characters that begin a formula in a spreadsheet, full-width forms included (OWASP: CSV injection)."""
GUARD = "'"
"""Stands before such a text, and before one that begins with it itself: who takes one away has the text as it was."""

Warn = Callable[[str], None]
Located = tuple[int, int, str]
"""A row's number in its part, from 1 (0: unknown), its byte offset, and its text."""


class RefusedEvent(Reject, frozen=True, gc=False):
    """An event that the service refused, with its row.

    `stage` is `send`, or `rehearse` where the local service refused it and the plan was not applied yet. Of a merge, a
    group or a profile, `part` is its file in the plan, and `row` its line. `row` is 0 where the
    export could not be read to find it.
    """

    uuid: str


def rejected(
    plan: Plan, directory: Directory, source_root: Path | None = None, warn: Warn = lambda line: None
) -> Iterator[Reject]:
    """The rejected rows of a plan, then its refused events. Raises BrokenLedger.

    `warn` is called with a line where the export cannot be read for the rows of refused events.
    """
    yield from read_lines(directory.rejects, Reject)
    place, stage = _refusing(directory)
    for phase, refusals in groupby(read_refused_events(place.ledger), key=attrgetter("phase")):
        if phase == EVENTS:
            yield from _of_rows(plan, place, refusals, stage, source_root, warn)
        else:
            yield from _of_lines(sealed_file(phase, directory), refusals, stage)


def check_code(plan: Plan, directory: Directory, code: str) -> None:
    """Raise UsageError for a code that nothing of the plan has, naming the nearest or all of them; BrokenLedger."""
    codes = [*plan.rejects, *([REFUSED] if count_refused(directory) else [])]
    if code in codes:
        return
    near = difflib.get_close_matches(code, codes, n=1)
    known = f"its codes are {', '.join(codes)}" if codes else "no row was rejected, and no event was refused"
    raise UsageError(
        f"nothing of this plan has the code {code!r}", hint=f"did you mean {near[0]!r}?" if near else known
    )


def count_refused(directory: Directory) -> int:
    """How many refused events `rejected` gives. Raises BrokenLedger."""
    return read_totals(_refusing(directory)[0].ledger).refused


def refusal(directory: Directory, *, rehearsed: bool = False) -> Refused:
    """The end of a run that had events refused: how many, why the first of them was, and how to list them."""
    place = Directory(directory.rehearsal) if rehearsed else directory
    summary = read_summary(place.ledger, most=1)
    first = summary.refusals[0]
    by = "the local service" if rehearsed else "the service"
    hint = f"list them, with their rows: backcast rejects {directory.path}"
    if place.ledger != _refusing(directory)[0].ledger:
        hint = f"see refused_events in {place.ledger}; `backcast rejects` lists what the plan's own target refused"
    return Refused(
        f"{by} refused {pluralize(summary.totals.refused, 'event')}; the first: {first.status} {first.detail}",
        status=first.status,
        hint=hint,
    )


def _refusing(directory: Directory) -> tuple[Directory, str]:
    """The plan, or its rehearsal where the plan was not applied, and the stage in which events are refused there."""
    if was_ever_applied(directory.ledger):
        return directory, "send"
    return Directory(directory.rehearsal), "rehearse"


def _event(found: RefusalRecord, stage: str, part: str, row: int, offset: int, record: str) -> RefusedEvent:
    return RefusedEvent(part, row, offset, stage, REFUSED, f"{found.status} {found.detail}", record, found.uuid)


def _of_lines(file: Path, refusals: Iterator[RefusalRecord], stage: str) -> Iterator[RefusedEvent]:
    """Refused merges, groups and profiles: each is a line of a sealed file."""
    row = offset = 0
    wanted = next(refusals, None)
    for block, lines in enumerate(line_blocks(file)):
        for event, line in enumerate(lines):
            row += 1
            while wanted is not None and (wanted.block, wanted.event) == (block, event):
                text = line.decode("utf-8", "backslashreplace").removesuffix("\n")
                yield _event(wanted, stage, file.name, row, offset, text)
                wanted = next(refusals, None)
            offset += len(line)
        if wanted is None:
            return


def _of_rows(
    plan: Plan,
    directory: Directory,
    refusals: Iterator[RefusalRecord],
    stage: str,
    source_root: Path | None,
    warn: Warn,
) -> Iterator[RefusedEvent]:
    """Refused events of rows. The rows are found by transforming their blocks again, as `verify` does."""
    numbers = {one.block for one in read_refused_events(directory.ledger) if one.phase == EVENTS}
    parts = {one.number: plan.parts[one.part].path for one in read_lines(directory.blocks, SealedBlock)}
    row_finders = _find_rows(plan, directory, numbers, source_root)
    for number, mine in groupby(refusals, key=attrgetter("block")):
        try:
            row_of = next(row_finders, _unknown_row)
        except (UnreadableExport, UnsafePlan) as error:
            warn(f"the rows of refused events cannot be shown: {error.message}")
            row_of = _unknown_row
        for one in mine:
            yield _event(one, stage, parts[number], *row_of(one.event))


def _unknown_row(event: int) -> Located:
    return 0, 0, ""


def _find_rows(
    plan: Plan, directory: Directory, numbers: Set[int], source_root: Path | None
) -> Iterator[Callable[[int], Located]]:
    """For each of these blocks in order: the row of an event, by the number of the event in the block.

    Raises UnreadableExport, UnsafePlan.
    """
    from pipeline.extractors import rows as read_rows
    from pipeline.plan.contents import PlannedBlock, task_of, tasks
    from pipeline.transform.block import BlockTransformer
    from pipeline.transform.tasks import Task

    config = transform_config_for(plan, directory, source_root)
    transformer = BlockTransformer(config)
    first_rows: dict[int, int] = {}

    def choose(planned: PlannedBlock) -> Task | None:
        if planned.sealed.number not in numbers:
            return None
        first_rows[planned.sealed.number] = planned.sealed.first_row
        return task_of(plan, planned)

    for task in tasks(plan, directory, config.parts, choose):
        made = transformer.transform_sealed(task)
        left_out = {(copy.row, copy.position) for copy in task.duplicates if copy.code}
        sent = [
            row for row, position in zip(made.row_of, made.positions, strict=True) if (row, position) not in left_out
        ]
        rows = read_rows(config.parts[task.block.part], task.block, observe=False)
        deque(rows, maxlen=0)  # offsets are known once the rows were read
        first = first_rows.pop(task.number)
        yield lambda event, sent=sent, rows=rows, first=first: (  # type: ignore[misc]
            first + sent[event],
            rows.offset(sent[event]),
            rows.text(sent[event]),
        )


def write_csv(file: TextIO, names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write rows under their names, each text guarded and every cell quoted."""
    writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(names)
    writer.writerows([guarded(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)


def guarded(text: str) -> str:
    """A text as a cell that no spreadsheet takes for a formula."""
    return GUARD + text if text[:1] in FORMULA or text.startswith(GUARD) else text
