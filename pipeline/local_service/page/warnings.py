"""What did not land as it was sent: refused requests, and warnings about accepted events."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.local_service.ingestion_warnings import MEANINGS
from pipeline.local_service.page.reader import PAGE, ProjectReader, literal
from pipeline.local_service.page.rendering import PlainText, ShownProperties


@dataclass(frozen=True, slots=True)
class WarningKind:
    """A type of warning: how often, and whether its events were dropped."""

    type: str
    meaning: str
    count: int
    dropped: bool


@dataclass(frozen=True, slots=True)
class WarningRow:
    """One warning about one event."""

    type: str
    details: ShownProperties
    dropped: bool
    uuid: str
    event: str
    distinct_id: str
    time: str


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A refused request; `payload` is the start of its body, without keys."""

    time: str
    status: int
    reason: str
    payload: str


def kinds(reader: ProjectReader) -> list[WarningKind]:
    """The types of warnings, the most frequent first."""
    found = reader.rows(
        "SELECT type, count(*) AS n, bool_or(dropped) FROM warnings GROUP BY type ORDER BY n DESC, type"
    )
    return [WarningKind(name, MEANINGS.get(name, ""), count, dropped) for name, count, dropped in found]


def warnings(reader: ProjectReader, kind: str, page: int, plain: PlainText) -> tuple[list[WarningRow], int]:
    """One page of the warnings of a type, in the order of their events' acceptance; and how many there are."""
    condition = f"type = {literal(kind)}" if kind else "true"
    total = reader.number(f"SELECT count(*) FROM warnings WHERE {condition}")
    found = reader.rows(
        f'SELECT type, details, dropped, uuid, event, distinct_id, "timestamp" FROM warnings WHERE {condition} '
        f"ORDER BY receipt, type, details LIMIT {PAGE} OFFSET {(page - 1) * PAGE}"
    )
    return [
        WarningRow(name, plain.properties(details, most=20, limit=300), *rest) for name, details, *rest in found
    ], total


def rejected_count(reader: ProjectReader) -> int:
    """How many requests were refused."""
    return reader.number("SELECT count(*) FROM rejections")


def rejected(reader: ProjectReader, page: int) -> tuple[list[RejectedRow], int]:
    """One page of the refused requests, the last first; and how many there are."""
    found = reader.rows(
        'SELECT "time", status, reason, payload FROM refused '
        f'ORDER BY "time" DESC, rowid DESC LIMIT {PAGE} OFFSET {(page - 1) * PAGE}'
    )
    return [RejectedRow(*row) for row in found], rejected_count(reader)
