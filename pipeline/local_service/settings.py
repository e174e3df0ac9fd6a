"""The settings of the local service: limits, and points on which the behaviour of the real service is unsettled.

`--behaviour` chooses a preset and `--set name=value` changes one setting. A new setting is a field of `Settings` with
a docstring: the command line and its help take it from there (docs/know/service.md#unknown).
"""

from __future__ import annotations

import ast
import inspect
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints
from zoneinfo import available_timezones

import msgspec

from pipeline.errors import UsageError

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
    (docs/know/service.md#hog-functions)."""

    icons: Literal["closed", "open"] = "closed"
    """Under `observed`, whether personal keys may ask for icons: the source names no scope for them, which refuses
    them, 403 (docs/know/service.md#management-api, #hog-functions)."""

    management_rates: Literal["off", "on"] = "off"
    """Whether calls of the management API are limited by the minute and the hour, with 429
    (docs/know/service.md#management-api)."""

    management_body_limit: int = 20 * MIB
    """The body of a request to the management API."""

    token_validation: Literal["off", "enforce"] = "off"
    """A well-shaped capture key that no project owns: `off` answers 200, stores nothing and counts the
    request as rejected; `enforce` answers 401 (docs/know/service.md#answers, #unknown)."""

    oversize_event: Literal["reject", "keep_earlier"] = "reject"
    """One event too large for the queue answers 413. `reject` stores nothing of its batch; `keep_earlier`
    stores the events before it, as the real service is thought to do (docs/know/service.md#answers)."""

    per_event: Literal["off", "on"] = "off"
    """Whether there is the per-event endpoint, `/i/v1/analytics/events`, beside `/batch/`
    (docs/know/service.md#per-event-endpoint)."""

    per_event_wire_limit: int = 10 * MIB
    """The body of a request to the per-event endpoint as it travels (docs/know/service.md#per-event-endpoint)."""

    per_event_decoded_limit: int = 50 * MIB
    """The same after decompression (docs/know/service.md#per-event-endpoint)."""

    batch_wire_limit: int = 20 * MIB
    """The body of `/batch` as it travels (docs/know/service.md#encodings-and-sizes)."""

    event_wire_limit: int = 2 * MIB
    """The body of the other event routes as it travels (docs/know/service.md#encodings-and-sizes)."""

    decoded_limit: int = 100 * MIB
    """The body after decompression (docs/know/service.md#encodings-and-sizes)."""

    stored_event_limit: int = 1_000_000
    """One event as it is queued: its JSON encoded once more inside JSON (docs/know/service.md#encodings-and-sizes)."""

    content_type: Literal["any", "json"] = "any"
    """What `POST /batch/` takes besides application/json and forms: `any` takes everything and leaves a warning,
    `json` answers 415 (the contract asks for application/json and states no answer)."""

    promote_properties: Literal["off", "on"] = "off"
    """Whether browser, address and campaign properties of events are copied to the person
    (docs/know/service.md#persons)."""

    promoted_changes: Literal["written", "skipped"] = "written"
    """New values of such properties alone, on an event that is not about the person, which the real service may skip
    (docs/know/service.md#persons)."""

    group_events: Literal["both", "observed"] = "both"
    """`both` takes `$groupidentify` and the contract's `$group_identify`, `observed` the first alone."""

    merge_ids: Literal["any", "text"] = "any"
    """An `$anon_distinct_id` or `alias` that is no text: `any` takes it as text, `text` drops the event."""

    drop_events_older_than: int | None = None
    """Seconds: the project setting that drops older events after the 200
    (docs/know/service.md#historical-migration)."""

    project_timezone: str = "UTC"
    """The time zone of the projects: queries read texts as times of it, and answer with them
    (docs/know/service.md#queries)."""

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


Behaviour = Literal["contract", "observed"]
_OBSERVED_PRESET: dict[str, Any] = {
    "behaviour": "observed",
    "management_rates": "on",
    "per_event": "on",
    "promote_properties": "on",
    "query_default_rows": 100,
}
_NOT_SETTABLE = ("clock", "behaviour")
_SOURCE = re.compile(r"\s\(docs/know/[^)]*\)")


class BadSetting(UsageError):
    """A `name=value` that is no setting."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="backcast service --help lists the settings")


def preset(behaviour: Behaviour, **changes: Any) -> Settings:
    return Settings(**((_OBSERVED_PRESET if behaviour == "observed" else {}) | changes))


def parse_settings(behaviour: Behaviour, texts: Iterable[str]) -> Settings:
    """The settings of a behaviour, changed by texts like `broadcast=success`. Raises BadSetting."""
    kinds = _kinds()
    changes = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name not in kinds:
            raise BadSetting(f"no setting {text!r}: there are {', '.join(kinds)}")
        changes[name] = _value(name, value, kinds[name])
    return preset(behaviour, **changes)


def describe_settings() -> list[tuple[str, str]]:
    """Every setting of the command line, with the first sentence of its docstring, its values and its default."""
    descriptions = _descriptions()
    defaults = {field.name: str(field.default).replace("None", "none") for field in fields(Settings)}
    return [(name, f"{descriptions[name]}: {_values(kind)} [{defaults[name]}]") for name, kind in _kinds().items()]


def _kinds() -> dict[str, Any]:
    hints = get_type_hints(Settings)
    return {field.name: hints[field.name] for field in fields(Settings) if field.name not in _NOT_SETTABLE}


def _value(name: str, text: str, kind: Any) -> Any:
    try:
        value = msgspec.convert(None if text == "none" else text, kind, strict=False)
    except msgspec.ValidationError:
        value = -1
    if not (
        value in available_timezones() if kind is str else not isinstance(value, int | float) or 0 <= value < 2**53
    ):
        raise BadSetting(f"{name} is {_values(kind)}, not {text!r}")
    return value


def _values(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(get_args(kind))
    if kind is str:
        return "a time zone such as America/New_York"
    return "a number or none" if type(None) in get_args(kind) else "a number"


def _descriptions() -> dict[str, str]:
    (body,) = (node.body for node in ast.parse(inspect.getsource(Settings)).body if isinstance(node, ast.ClassDef))
    descriptions, name = {}, ""
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and name:
            plain = _SOURCE.sub("", " ".join(str(node.value.value).split()))
            descriptions[name] = plain.replace("`", "").partition(". ")[0].rstrip(".")
    return descriptions
