"""The settings of the local service: limits, and choices where the behaviour of the real service is uncertain.

`--behaviour` chooses a preset and `--set name=value` changes one setting. To add a setting, add a field with a
docstring to `Settings`: the command line and its help take it from there (docs/know/service.md#unknown).
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
    """The current time, in microseconds since 1970 (UTC)."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Settings:
    """How one local service behaves. All sizes are bytes."""

    behaviour: Literal["contract", "observed"] = "contract"
    """Whether the management API answers as its contract states, or as the source of the real service does."""

    broadcast: Literal["removed", "success"] = "removed"
    """Under `observed`, the broadcast of a hog function: `removed` is 404, `success` answers as an older version did
    (docs/know/service.md#hog-functions)."""

    icons: Literal["closed", "open"] = "closed"
    """Under `observed`, whether personal keys may ask for icons: the source names no scope for them, which refuses
    them, 403 (docs/know/service.md#management-api, #hog-functions)."""

    definitions: Literal["paid", "free"] = "paid"
    """Under `observed`, which fields of definitions may be changed: `free` refuses those of properties other than their
    type, 402, and ignores tags, as for an organization that does not pay for them
    (docs/know/service.md#definitions)."""

    management_rates: Literal["off", "on"] = "off"
    """Whether calls of the management API are limited per minute and per hour, with 429
    (docs/know/service.md#management-api)."""

    management_body_limit: int = 20 * MIB
    """Most bytes of a request body to the management API."""

    token_validation: Literal["off", "enforce"] = "off"
    """A well-shaped capture key that no project owns: `off` answers 200, stores nothing and counts the
    request as rejected; `enforce` answers 401 (docs/know/service.md#answers, #unknown)."""

    oversize_event: Literal["reject", "keep_earlier"] = "reject"
    """One event too large for the queue answers 413. `reject` stores nothing of its batch; `keep_earlier`
    stores the events before it, as the real service is thought to do (docs/know/service.md#answers)."""

    per_event: Literal["off", "on"] = "off"
    """Whether the per-event endpoint, `/i/v1/analytics/events`, exists in addition to `/batch/`
    (docs/know/service.md#per-event-endpoint)."""

    per_event_wire_limit: int = 10 * MIB
    """Most bytes of a body to the per-event endpoint as sent (docs/know/service.md#per-event-endpoint)."""

    per_event_decoded_limit: int = 50 * MIB
    """Most bytes of such a body after decompression (docs/know/service.md#per-event-endpoint)."""

    batch_wire_limit: int = 20 * MIB
    """Most bytes of a body to `/batch` as sent (docs/know/service.md#encodings-and-sizes)."""

    event_wire_limit: int = 2 * MIB
    """Most bytes of a body to the other event routes as sent (docs/know/service.md#encodings-and-sizes)."""

    decoded_limit: int = 100 * MIB
    """Most bytes of a body after decompression (docs/know/service.md#encodings-and-sizes)."""

    stored_event_limit: int = 1_000_000
    """Most bytes of a queued event, its JSON inside JSON (docs/know/service.md#encodings-and-sizes)."""

    content_type: Literal["any", "json"] = "any"
    """What `POST /batch/` accepts besides application/json and forms: `any` accepts everything with a warning,
    `json` answers 415 (the contract asks for application/json and states no answer)."""

    promote_properties: Literal["off", "on"] = "off"
    """Whether browser, address and campaign properties of events are copied to the person
    (docs/know/service.md#persons)."""

    promoted_changes: Literal["written", "skipped"] = "written"
    """Whether new values of such properties alone, on an event that is not about the person, are written; the real
    service may skip them (docs/know/service.md#persons)."""

    group_events: Literal["both", "observed"] = "both"
    """`both` accepts `$groupidentify` and the contract's `$group_identify`, `observed` only the first."""

    merge_ids: Literal["any", "text"] = "any"
    """An `$anon_distinct_id` or `alias` that is not a string: `any` turns it into one, `text` drops the event."""

    drop_events_older_than: int | None = None
    """Events that are more seconds old than this project setting are dropped after the 200
    (docs/know/service.md#historical-migration)."""

    project_timezone: str = "UTC"
    """The time zone of the projects: queries read strings as times in it, and answer with times in it
    (docs/know/service.md#queries)."""

    query_default_rows: int | None = None
    """Most rows answered to a query without a LIMIT; the real service answers 100."""

    query_most_rows: int = 50_000
    """Most rows of a query; one with more is refused."""

    query_most_bytes: int = 128 * MIB
    """Most bytes of a query's answer; a larger one is refused."""

    query_seconds: float = 60.0
    """Most seconds of a query; one that takes longer is stopped."""

    query_memory: int = 1024 * MIB
    """Most bytes of memory of the query process (on Linux); it uses about 200 MiB before the first query."""

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
    """A `name=value` that is not a setting."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="backcast service --help lists the settings")


def preset(behaviour: Behaviour, **changes: Any) -> Settings:
    return Settings(**((_OBSERVED_PRESET if behaviour == "observed" else {}) | changes))


def parse_settings(behaviour: Behaviour, texts: Iterable[str]) -> Settings:
    """The settings of a behaviour, changed by strings such as `broadcast=success`. Raises BadSetting."""
    kinds = _kinds()
    changes = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name not in kinds:
            raise BadSetting(f"there is no setting {text!r}; the settings are {', '.join(kinds)}")
        changes[name] = _value(name, value, kinds[name])
    return preset(behaviour, **changes)


def describe_settings() -> list[tuple[str, str]]:
    """Every setting for the command line, with its docstring's first sentence, its values and its default."""
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
        raise BadSetting(f"{name} must be {_values(kind)}, not {text!r}")
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
