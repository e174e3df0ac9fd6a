"""Which columns have times: of events, and of receiving them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from pipeline.survey.clock import ENOUGH, MOSTLY, Clock, clock_of
from pipeline.survey.columns import INTEGER, LIST, OBJECTS, Column, Steps, named
from pipeline.survey.roles.words import LATER, TIMES

_TIME = (
    "event_time", "event_timestamp", "timestamp", "original_timestamp", "time", "true_tstamp", "derived_tstamp",
    "browser_timestamp", "collector_tstamp", "client_event_time", "occurred_at", "ts", "t", "datetime", "created_at",
    "date_time", "date",
)  # fmt: skip
_TIME_WORDS = re.compile(
    rf"time|date|tstamp|when|moment|(?:^|_)(?:ts|at|on|am|created|added|logged|msec)(?:_|$)|{TIMES}"
)
_START_WORDS = re.compile(r"first|start|begin|created|occurred|ordered|placed")
LATER_WORDS = re.compile(
    rf"last|end|updat|modif|sent|receiv|process|load|expire|due|delet|synced|import|export|birth|join|{LATER}"
)
_RECEIVED = (
    "mp_api_timestamp_ms", "mp_processing_time_ms", "server_received_time", "server_upload_time", "received_at",
    "collector_tstamp", "ingested_at", "loaded_at", "processed_at", "created_at",
)  # fmt: skip
_ENVELOPE = frozenset(("topic", "partition", "offset"))
_ENVELOPE_TIME = ("timestamp", "kafka_timestamp", "time")


class TimeColumn(msgspec.Struct, frozen=True):
    """A column of times. `known`: its name is that of a time, not only its values look like times."""

    column: Column
    clock: Clock
    known: bool


def clocks_in(columns: Iterable[Column]) -> list[TimeColumn]:
    """The columns of times, the best first: known names in their order, then names that suggest times, then any."""
    found = [column for column in columns if column.values and column.share(*OBJECTS, *LIST) < MOSTLY]
    usual = named(found, _TIME)
    suggested = sorted(
        (column for column in found if _TIME_WORDS.search(column.name)),
        key=lambda one: (bool(LATER_WORDS.search(one.name)), not _START_WORDS.search(one.name), one.blank),
    )
    # In columns without such a name, numbers that look like times are more often ids.
    others = sorted(found, key=lambda one: (one.name in _RECEIVED, one.share(*INTEGER) > MOSTLY, one.blank))
    clocks: dict[Steps, TimeColumn] = {}
    passes = (
        (usual, ENOUGH, True), (usual, MOSTLY, True), (suggested, ENOUGH, True), (others, ENOUGH, False),
        (suggested, MOSTLY, True),
    )  # fmt: skip
    for group, enough, known in passes:
        for column in group:
            clock = clock_of(column.path, column.values, enough) if column.steps not in clocks else None
            if clock is not None:
                clocks[column.steps] = TimeColumn(column, clock, known)
    envelope = _envelope_time(found)
    return sorted(clocks.values(), key=lambda one: (not one.clock.has_hours, one.column is envelope))


def _envelope_time(columns: Sequence[Column]) -> Column | None:
    """The time at which a message broker took a record, not the time of the event inside: Kafka's has topic, partition
    and offset next to it."""
    own = {column.name: column for column in columns if len(column.steps) == 1}
    return next((own[name] for name in _ENVELOPE_TIME if name in own), None) if own.keys() >= _ENVELOPE else None


def received_in(columns: Iterable[Column]) -> TimeColumn | None:
    """The column with the time at which the tool received a row."""
    some = list(columns)
    envelope = _envelope_time(some)
    for column in [*([envelope] if envelope is not None else []), *named(some, _RECEIVED)]:
        clock = clock_of(column.path, column.values)
        if clock is not None and clock.has_hours:
            return TimeColumn(column, clock, True)
    return None
