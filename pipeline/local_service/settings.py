"""What can be set of the local service: points where the facts are unsettled, and the limits.

A point the facts call open is a named setting here, never a guess (service-behaviour 7).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

MIB = 1024 * 1024


def now_micros() -> int:
    """The present, in microseconds since 1970 (UTC)."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Settings:
    """How one local service behaves. All sizes are bytes."""

    behaviour: Literal["contract", "observed"] = "contract"
    """Whether the management API answers what its contract states, or what the source of the real service does."""

    broadcast: Literal["removed", "success"] = "removed"
    """Under `observed`, the broadcast of a hog function: `removed` is 404, `success` answers as an older version did
    (service-behaviour 5.2)."""

    icons: Literal["closed", "open"] = "closed"
    """Under `observed`, whether personal keys may ask for icons: the source names no scope for them, which refuses
    them, 403 (service-behaviour 5.1, 5.2)."""

    management_rates: Literal["off", "on"] = "off"
    """Whether calls of the management API are limited by the minute and the hour, with 429 (service-behaviour 5.1)."""

    management_body_limit: int = 20 * MIB
    """The body of a request to the management API."""

    token_validation: Literal["off", "enforce"] = "off"
    """A well-shaped capture key that no project owns: `off` answers 200, stores nothing and counts the
    request as rejected; `enforce` answers 401 (service-behaviour 1.5, 7.3)."""

    oversize_event: Literal["reject", "keep_earlier"] = "reject"
    """One event too large for the queue answers 413. `reject` stores nothing of its batch; `keep_earlier`
    stores the events that stood before it, as the real service is thought to do (service-behaviour 1.5)."""

    batch_wire_limit: int = 20 * MIB
    """The body of `/batch` as it travels (service-behaviour 1.4)."""

    event_wire_limit: int = 2 * MIB
    """The body of the other event routes as it travels (service-behaviour 1.4)."""

    decoded_limit: int = 100 * MIB
    """The body after decompression (service-behaviour 1.4)."""

    stored_event_limit: int = 1_000_000
    """One event as it is queued: its JSON encoded once more inside JSON (service-behaviour 1.4)."""

    content_type: Literal["any", "json"] = "any"
    """What `POST /batch/` takes besides application/json and forms: `any` takes everything and leaves a warning,
    `json` answers 415 (the contract asks for application/json and states no answer)."""

    promote_properties: Literal["off", "on"] = "off"
    """Whether browser, address and campaign properties of events are copied to the person (service-behaviour 1.10)."""

    promoted_changes: Literal["written", "skipped"] = "written"
    """New values of such properties alone, on an event that is not about the person, which the real service may skip
    (service-behaviour 1.10)."""

    group_events: Literal["both", "observed"] = "both"
    """`both` takes `$groupidentify` and the contract's `$group_identify`, `observed` the first alone."""

    merge_ids: Literal["any", "text"] = "any"
    """An `$anon_distinct_id` or `alias` that is no text: `any` takes it as text, `text` drops the event."""

    drop_events_older_than: int | None = None
    """Seconds: the project setting that drops older events after the 200 (service-behaviour 1.6)."""

    query_default_rows: int | None = None
    """Rows of the answer to a query, where it has more; the real service answers 100 to a query without a LIMIT."""

    query_most_rows: int = 50_000
    """A query with more rows is refused."""

    query_most_bytes: int = 128 * MIB
    """A query whose answer has more bytes is refused."""

    query_seconds: float = 60.0
    """A query that takes longer is stopped."""

    query_memory: int = 1024 * MIB
    """Bytes of memory that the process of queries may have (on Linux); it uses about 200 MiB before the first query."""

    clock: Callable[[], int] = now_micros
    """The service's own clock, in microseconds since 1970 (UTC)."""
