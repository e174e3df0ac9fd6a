"""Names what differs: each difference with its row of the export, or its line of a file of the plan, and what landed.

All differences are written to the plan's `differences.jsonl`; a result has the first of each kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from pipeline.identity.database import Database
from pipeline.models import Step
from pipeline.plan.requests.store import read_requests
from pipeline.plan.sealed.directory import EVENTS, PHASES, Directory, LinesWriter, read_lines, sealed_file
from pipeline.plan.sealed.manifest import Plan
from pipeline.uuids import uuid_text
from pipeline.verify.comparison import DIFFERENT, DUPLICATED, EXTRA, MISSING
from pipeline.verify.expected import halves, identity
from pipeline.verify.fields import MOST_NAMED, Altered
from pipeline.verify.findings import Difference, Landed, PersonDifference
from pipeline.verify.landed import in_chunks, landed_events

if TYPE_CHECKING:
    from pipeline.management import ManagementClient

SHOWN = 20
"""A result lists at most this many differences of each kind."""
ALTERED = "altered"


class _Named(NamedTuple):
    """A difference with its row; `phase` and `request` are None for events that do not belong to the plan. `name`,
    `person` and `time` are those that were sent."""

    kind: str
    phase: str | None
    request: int | None
    place: int | None
    hi: int
    lo: int
    event: str
    name: str | None
    person: int | None
    time: int | None
    part: str
    row: int
    offset: int = 0

    @property
    def uuid(self) -> str:
        return uuid_text(self.hi, self.lo)


def name_differences(
    client: ManagementClient,
    database: Database,
    altered: Sequence[Altered],
    plan: Plan,
    directory: Directory,
    people: Iterable[PersonDifference],
    progress: Step,
    keep: frozenset[str] = frozenset(),
) -> list[Difference]:
    """Write all differences, those of people last, and return the first events of each kind. `database` has the tables
    of `pipeline.verify.comparison`.

    The file is removed if there are none. Differences of the kinds `keep` that it has from an earlier verification
    stay.
    """
    changed = {(one.phase, one.request, one.index): one.changed for one in altered}
    _add_altered(database, altered)
    shown: list[Difference] = []
    counts: Counter[str] = Counter()
    new: set[tuple[str, str]] = set()
    total = database.number("SELECT count(*) FROM named")
    aside = directory.differences.with_suffix(".new")
    with LinesWriter(aside) as writer:
        for chunk in in_chunks(_placed(database, "named", plan, directory)):
            landed = landed_events(client, [one.uuid for one in chunk if one.kind != MISSING])
            for one in chunk:
                what = [(row.event, row.distinct_id, row.timestamp) for row in landed.get(one.uuid, [])]
                at = one.phase or "", one.request or 0, one.place or 0
                own = changed[at] if one.kind == ALTERED else _changed(one, what)
                difference = _difference(one, what, own)
                counts[one.kind] += 1
                if counts[one.kind] <= SHOWN:
                    shown.append(difference)
                if keep:
                    new.add((one.kind, one.uuid))
                writer.write(difference)
            progress("rows of differences", writer.count, total)
        writer.write_all(one for one in people if one.kind not in keep)
        if keep and directory.differences.exists():
            earlier = read_lines(directory.differences, dict[str, Any])
            writer.write_all(one for one in earlier if one["kind"] in keep and (one["kind"], one["uuid"]) not in new)
        writer.close()
    if writer.count:
        aside.replace(directory.differences)
    else:
        aside.unlink()
        directory.differences.unlink(missing_ok=True)
    order = (MISSING, DIFFERENT, ALTERED, DUPLICATED, EXTRA)
    return sorted(shown, key=lambda difference: order.index(difference.kind))


def planned_rows(database: Database, uuids: Sequence[str], plan: Plan, directory: Directory) -> dict[str, Difference]:
    """Events of the plan with these uuids, each with its row, in the order of the export: examples for what is
    reported about them."""
    hi, lo = halves(uuids)
    database.run("CREATE TABLE asked (hi UBIGINT, lo UBIGINT)")
    database.append("asked", {"hi": hi, "lo": lo})
    database.run(
        "CREATE TABLE examples AS SELECT '' AS kind, phase, number, place, hi, lo, name AS event, name, person, time"
        " FROM planned SEMI JOIN asked USING (hi, lo)"
    )
    found = {one.uuid: _difference(one, [], []) for one in _placed(database, "examples", plan, directory)}
    database.run("DROP TABLE asked; DROP TABLE examples")
    return found


def _add_altered(database: Database, altered: Sequence[Altered]) -> None:
    """The table `named`: the first differences of each kind, and the altered events."""
    database.run(
        "CREATE TABLE named AS SELECT * EXCLUDE (day) FROM differences"
        f" QUALIFY row_number() OVER (PARTITION BY kind ORDER BY phase, number, place, hi, lo) <= {MOST_NAMED}"
    )
    database.insert("named", (
        (ALTERED, one.phase, one.request, one.index, *divmod(UUID(one.uuid).int, 1 << 64), one.event, one.event, 0, 0)
        for one in altered
    ))  # fmt: skip


def _placed(database: Database, relation: str, plan: Plan, directory: Directory) -> Iterator[_Named]:
    """The rows of a relation with the columns of `named`, with file and row; events that are not of the plan come
    first."""
    database.run("CREATE OR REPLACE TABLE line_requests (phase VARCHAR, number BIGINT, first BIGINT)")
    lines = (
        (phase, one.number, one.first) for phase in PHASES if phase != EVENTS for one in read_requests(directory, phase)
    )
    database.insert("line_requests", lines)
    query = (
        "SELECT kind, named.phase, named.number, named.place, named.hi, named.lo, event, named.name, named.person,"
        " named.time, coalesce(part, 0),"
        f" coalesce(CAST(row AS BIGINT), first + named.place + 1, 0) FROM {relation} AS named LEFT JOIN"
        f" (SELECT * FROM facts SEMI JOIN (FROM {relation} WHERE phase = '{EVENTS}') USING (number, place)) AS facts"
        f" ON named.phase = '{EVENTS}' AND facts.number = named.number AND facts.place = named.place"
        " LEFT JOIN line_requests ON line_requests.phase = named.phase AND line_requests.number = named.number"
        f" ORDER BY list_position({list(PHASES)}, named.phase) NULLS FIRST, part, 12, position, kind,"
        " named.hi, named.lo"
    )
    found = (_Named(*row) for row in database.tuples(query))
    for phase, of_phase in groupby(found, key=lambda one: one.phase):
        if phase is None:
            yield from (one._replace(part="") for one in of_phase)
        elif phase == EVENTS:
            yield from (one._replace(part=plan.parts[int(one.part)].path) for one in of_phase)
        else:
            yield from _in_lines(sealed_file(phase, directory), of_phase)


def _in_lines(file: Path, named: Iterable[_Named]) -> Iterator[_Named]:
    """Events of a phase that is sealed line by line, in the order of the lines, with their byte offsets."""
    row, offset = 1, 0
    with file.open("rb") as lines:
        for one in named:
            while row < one.row:
                offset += len(lines.readline())
                row += 1
            yield one._replace(part=file.name, offset=offset)


def _difference(one: _Named, landed: list[Landed], changed: list[str]) -> Difference:
    place = one.part, one.row, one.offset
    return Difference(one.kind, one.uuid, one.request, landed, one.phase or "", one.event, *place, changed)


def _changed(one: _Named, landed: Sequence[Landed]) -> list[str]:
    """What differs in a different event, compared with the first that landed under its uuid."""
    if one.kind != DIFFERENT or not landed:
        return []
    now = identity(*landed[0])
    return [
        name
        for name, before, after in zip(
            ("event", "distinct_id", "timestamp"), (one.name, one.person, one.time), now, strict=True
        )
        if before != after
    ]
