"""What did not land as it was sent: requests that were refused, and what the service does to events in silence."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.local_service import ingestion_warnings
from pipeline.local_service.page.reader import PAGE, Reading, literal
from pipeline.local_service.page.rendering import PlainText, Properties

MEANINGS = {
    ingestion_warnings.ILLEGAL_ID: "a merge with an id that stands for nobody; the merge did not happen",
    ingestion_warnings.ALREADY_IDENTIFIED: "a merge into or of somebody already identified; the merge did not happen",
    ingestion_warnings.NOT_WITHOUT_PROFILE: "a person or group event that asks for no person profile",
    ingestion_warnings.BAD_PROFILE_FLAG: "$process_person_profile is neither true nor false; it was passed over",
    ingestion_warnings.LONG_GROUP_KEY: "a group's key is too long",
    ingestion_warnings.BAD_GROUP_SET: "a group's properties are no object",
    ingestion_warnings.BAD_MERGE_ID: "the id of a merge is no text",
    ingestion_warnings.TOO_OLD: "older than the project keeps",
    ingestion_warnings.BAD_TIMESTAMP: "the time cannot be read; the time of arrival was taken",
    ingestion_warnings.NO_TIMESTAMP: "no time was given; the time of arrival was taken",
    ingestion_warnings.FUTURE_TIMESTAMP: "the time lies in the future; the time of arrival was taken",
    ingestion_warnings.ANCIENT_TIMESTAMP: "the time lies outside what can be kept; it became 1970-01-01",
    ingestion_warnings.LONG_ID: "the distinct_id was cut",
    ingestion_warnings.LONG_NAME: "the event's name was cut",
    ingestion_warnings.CONTENT_TYPE: "the batch was not sent as application/json",
    ingestion_warnings.BAD_GROUPS: "$groups is no object; it was passed over",
    ingestion_warnings.LONG_GROUP_TYPE: "the name of a group type is too long; it was passed over",
    ingestion_warnings.TOO_MANY_GROUP_TYPES: "a project has five group types; this further one was passed over",
    ingestion_warnings.NO_GROUP: "a group event names no group; no group was written",
    ingestion_warnings.UNKNOWN_GROUP_EVENT: "a group event in a spelling that is not acted on; no group was written",
    ingestion_warnings.SET_IGNORED: "this event never changes a person; its $set was passed over",
}


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
    details: Properties
    dropped: bool
    uuid: str
    event: str
    distinct_id: str
    time: str


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A request that was turned away; `payload` is the start of its body, without keys."""

    time: str
    status: int
    reason: str
    payload: str


def kinds(reading: Reading) -> list[WarningKind]:
    """The types of warnings, the most frequent first."""
    found = reading.rows(
        "SELECT type, count(*) AS n, bool_or(dropped) FROM warnings GROUP BY type ORDER BY n DESC, type"
    )
    return [WarningKind(name, MEANINGS.get(name, ""), count, dropped) for name, count, dropped in found]


def warnings(reading: Reading, kind: str, page: int, plain: PlainText) -> tuple[list[WarningRow], int]:
    """One page of the warnings of a type, in the order of their events' acceptance; and how many there are."""
    condition = f"type = {literal(kind)}" if kind else "true"
    total = reading.number(f"SELECT count(*) FROM warnings WHERE {condition}")
    found = reading.rows(
        f'SELECT type, details, dropped, uuid, event, distinct_id, "timestamp" FROM warnings WHERE {condition} '
        f"ORDER BY receipt, type, details LIMIT {PAGE} OFFSET {(page - 1) * PAGE}"
    )
    return [
        WarningRow(name, plain.properties(details, most=20, limit=300), *rest) for name, details, *rest in found
    ], total


def rejected_count(reading: Reading) -> int:
    """How many requests were turned away."""
    return reading.number("SELECT count(*) FROM rejections")


def rejected(reading: Reading, page: int) -> tuple[list[RejectedRow], int]:
    """One page of the requests that were turned away, the last first; and how many there are."""
    found = reading.rows(
        'SELECT "time", status, reason, payload FROM refused '
        f'ORDER BY "time" DESC, rowid DESC LIMIT {PAGE} OFFSET {(page - 1) * PAGE}'
    )
    return [RejectedRow(*row) for row in found], rejected_count(reading)
