"""A test tool of our own: rows that say explicitly what they become, and a plan made of them in one call.

A row is an object. `event`, `id`, `at` (µs UTC), `key`, `uuid`, `got` (receive time, µs) and `wall` fill the draft;
`skip` and `fault` are codes; `link` is an id that `id` absorbs; `many` holds several rows in one. Everything else
is a property, untouched. This is the smallest thing that keeps the `Mapper` protocol, so what these tests prove
does not depend on the mapping language.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from pipeline.encoder.updates import SealedLink
from pipeline.engines.local import Workers
from pipeline.extractors import open_source
from pipeline.models import Link, MapperResult, RejectReason, SealedOptions, Skip, UnvalidatedEvent
from pipeline.options import Limits, PlanOptions
from pipeline.plan.build import build
from pipeline.plan.checks import CountLimit
from pipeline.plan.request import Request
from pipeline.plan.requests.store import read_events
from pipeline.plan.sealed.commit import staged_plan
from pipeline.plan.sealed.directory import EVENTS, Directory, read_lines
from pipeline.plan.sealed.manifest import MappingSeal, Plan, load
from pipeline.transform.tasks import TransformConfig
from pipeline.uuids import Hasher, namespace
from pipeline.values import Record, items, opened, text

HOUR = 3_600_000_000
DAY = 24 * HOUR
AS_OF = 1_704_067_200_000_000
"""2024-01-01T00:00:00Z: the instant of every plan here."""
THEN = AS_OF - 100 * DAY
"""2023-09-23T00:00:00Z: the time of a row that has none."""


class TinyMapper:
    """Has what the transform uses of a `Mapper`."""

    tool = "tiny"
    opens: tuple[str, ...] = ()
    map_members = None
    blanks = False
    keeps_earliest = False
    layout = None
    equal_by_values = False
    unread = frozenset[str]()

    def __init__(self, options: SealedOptions) -> None:
        self.hasher = Hasher(namespace("tiny", options.settings.get("source", "")))

    def map_row(self, record: Record, scan: Any = None) -> Any:
        """What the row says it becomes."""
        if "many" in record:
            return [self.one(opened(one) or {}) for one in items(record["many"]) or []]
        return self.one(record)

    def one(self, record: Record) -> MapperResult:
        """What one object of the row says it becomes."""
        said = {name: text(record.pop(name, None)) for name in NAMES}
        numbers = {name: int(said[name] or 0) if said[name] is not None else None for name in ("at", "got", "wall")}
        if said["skip"] is not None:
            return Skip(said["skip"])
        if said["fault"] is not None:
            return RejectReason(said["fault"], "the row says so")
        if said["link"] is not None:
            return Link(said["kind"] or "identify", said["id"] or "", said["link"], numbers["at"])
        return UnvalidatedEvent(
            said["event"],
            said["id"],
            numbers["at"],
            record,
            said["key"],
            said["uuid"],
            numbers["got"],
            numbers["wall"],
            said["id"] is None and said["junk"] is not None,
        )


NAMES = ("event", "id", "at", "key", "uuid", "got", "wall", "skip", "fault", "link", "kind", "junk")


@dataclass(frozen=True, slots=True)
class TinyCompile:
    """This is sent to a worker and becomes the mapper there."""

    def __call__(self, options: SealedOptions) -> TinyMapper:
        return TinyMapper(options)


@dataclass(frozen=True, slots=True)
class Made:
    """A plan that was made, and everything needed to examine it."""

    plan: Plan
    directory: Directory
    excluded: frozenset[str] = field(default_factory=frozenset)

    def config(self) -> TransformConfig:
        """The config, as an apply reads it from the sealed plan."""
        parts = tuple(sealed.part(index) for index, sealed in enumerate(self.plan.parts))
        return TransformConfig(TinyCompile(), self.plan.options, self.plan.limits, parts, self.excluded)

    def sent(self) -> list[dict[str, Any]]:
        """Every event that an apply would send, in order, decoded."""
        return [json.loads(event) for event in self.sent_bytes()]

    def sent_bytes(self) -> list[bytes]:
        """Every event that an apply would send, in order, byte for byte."""
        return [event for _, events in read_events(self.directory, EVENTS) for event in events]

    def identities(self) -> list[SealedLink]:
        """The merges, in the order of the file."""
        return list(read_lines(self.directory.identities, SealedLink))

    def cells(self) -> Counter[tuple[str, str, str]]:
        """(event, UTC day, outcome) with their counts."""
        lines = [json.loads(line) for line in self.directory.cells.read_text().splitlines()]
        return Counter({(line["event"], line["day"], line["outcome"]): line["count"] for line in lines})


def row(event: str = "Seen", id: str = "u-1", at: int = THEN, **members: Any) -> dict[str, Any]:
    """A row that becomes one event; members with None are left out."""
    return {"event": event, "id": id, "at": at, **{name: value for name, value in members.items() if value is not None}}


def write(path: Path, rows: Iterable[dict[str, Any] | str | bytes]) -> Path:
    """A file of JSON lines; strings and bytes are written unchanged."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(_line(one) + b"\n" for one in rows))
    return path


def _line(one: dict[str, Any] | str | bytes) -> bytes:
    if isinstance(one, bytes):
        return one
    return one.encode() if isinstance(one, str) else msgspec.json.encode(one)


def make_plan(
    directory: Path,
    sources: Sequence[Path],
    *,
    workers: int = 0,
    allowed: CountLimit = CountLimit(10**9),  # noqa: B008 - frozen
    limits: Limits = Limits(),  # noqa: B008 - frozen
    excluded: Iterable[str] = (),
    key_conflicts: bool = False,
    thresholds: PlanOptions = PlanOptions(),
    **options: Any,
) -> Made:
    """Plan these files with the tiny mapper, and read the plan back from disk."""
    source = open_source([str(one) for one in sources])
    chosen = SealedOptions(**{"as_of": AS_OF, **options})
    place = Directory(directory)
    with staged_plan(place) as work:
        config = TransformConfig(TinyCompile(), chosen, limits, source.parts, frozenset(excluded), staging=work.staged)
        seal = MappingSeal("tiny", "0" * 64, "tiny")
        build(
            Request(
                source=source, config=config, mapping=seal, directory=work, engine=Workers(workers, config),
                thresholds=replace(thresholds, max_rejects=str(allowed), allow_key_conflicts=key_conflicts),
            )
        )  # fmt: skip
    return Made(load(place), place, frozenset(excluded))


def planned(place: Path, *files: list[dict[str, Any]], **options: Any) -> Made:
    """A plan of files of these rows, in `place`/plan."""
    paths = [write(place / f"{number}.jsonl", rows) for number, rows in enumerate(files)]
    return make_plan(place / "plan", paths, **options)


def identity_of(event: dict[str, Any]) -> tuple[str, str, str, str]:
    """The fields by which the service distinguishes events."""
    return event["uuid"], event["event"], event["properties"]["distinct_id"], event["timestamp"]
