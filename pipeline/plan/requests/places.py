"""Where events of a plan come from: the file and row of each, or the line in a file of the plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from pipeline.errors import UnsafePlan
from pipeline.plan.requests.store import PackedRequest, RequestReader, read_requests
from pipeline.plan.sealed.directory import EVENTS, Directory, sealed_file
from pipeline.plan.sealed.manifest import Plan


class Place(NamedTuple):
    """The name of a file, a row or line in it, from 1, the byte at which a line begins (0 for a row), and the JSON of
    the row's event, or of the line."""

    file: str
    row: int
    offset: int
    text: str


def find_places(plan: Plan, directory: Directory, phase: str, wanted: Iterable[tuple[int, int]]) -> Iterator[Place]:
    """The places of events of a phase, which are wanted as (request, place in it), in the same order. Raises
    UnsafePlan."""
    requests = read_requests(directory, phase)
    groups = groupby(wanted, key=itemgetter(0))
    chosen = ((_request(requests, number, directory), [place for _, place in of_one]) for number, of_one in groups)
    return _rows(plan, directory, chosen) if phase == EVENTS else _lines(phase, directory, chosen)


def _request(requests: Iterator[PackedRequest], number: int, directory: Directory) -> PackedRequest:
    found = next((request for request in requests if request.number == number), None)
    if found is None:
        raise UnsafePlan(
            f"the ledger of {directory.name} has request {number:,}, but the plan does not",
            hint="restore the plan's directory from a copy",
        )
    return found


def _rows(plan: Plan, directory: Directory, chosen: Iterable[tuple[PackedRequest, list[int]]]) -> Iterator[Place]:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with RequestReader(directory) as reader:
        for part, of_part in groupby(chosen, key=lambda one: one[0].part):
            columns = ["request", "place", "part", "row"]
            facts = pq.read_table(directory.facts / f"{part:05d}.parquet", columns=columns)
            for request, places in of_part:
                own = facts.filter(pc.equal(facts["request"], request.nth))
                _, of_event, files, rows = (column.to_pylist() for column in own.columns)
                where = dict(zip(of_event, zip(files, rows, strict=True), strict=True))
                events = reader.events(request)
                for place in places:
                    file, row = where[place]
                    yield Place(plan.parts[file].path, row, 0, events[place].decode())


def _lines(phase: str, directory: Directory, chosen: Iterable[tuple[PackedRequest, list[int]]]) -> Iterator[Place]:
    path = sealed_file(phase, directory)
    number = offset = 0
    with path.open("rb") as file:
        for line in (request.first + place for request, places in chosen for place in places):
            while number <= line:
                text = file.readline()
                number, offset = number + 1, offset + len(text)
            yield Place(path.name, number, offset - len(text), text.decode("utf-8", "backslashreplace").rstrip("\n"))
