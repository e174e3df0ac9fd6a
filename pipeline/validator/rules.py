"""The validation rules. Each is one entry: its code, level, text, predicate and fast expression.

`check` tries the rules in the order of their definition; the first rule that an event breaks gives the reject its code.
Rules look at an event before it is encoded; only `event_too_large` looks at its bytes.

Nearly every event passes every rule, and calling the predicates one by one costs more than all other work on a row. So
each rule can have a `fast` expression, and `fast_test` compiles those of all rules into a single function. A new rule
is one decorated function here; without a `fast` expression it is called for every row.

Sources: docs/know/service.md#event-fields, #ids-and-text, #timestamps, #historical-migration.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from pipeline.models import GroupUpdate, PersonUpdate, RejectReason, SealedOptions, UnvalidatedEvent
from pipeline.options import Limits
from pipeline.timestamps import RoundedTime, format_utc, lost_digits
from pipeline.validator.placeholder_ids import PERSON_LESS, is_person_less, trimmed  # noqa: F401 (the fast test names PERSON_LESS)

MAX_NAME = 200
MAX_ID = 200
HOUR = 3_600_000_000
RECENT = 48 * HOUR
WITHOUT_TIME = 49 * HOUR
"""Profile and group updates without a time get a time this long before the plan's instant (µs), and no update gets a
later one."""
NO_PROFILE_BYTES = 40
"""Room in bytes for `$process_person_profile`, which is added to events of unidentified persons."""
STORED_BYTES = 1_000_000
"""The service stores an event as JSON inside JSON. From this size on, its queue refuses the event."""
SURELY_SMALL = 300_000
"""An event smaller than this passes the size rule, however it is encoded again."""
OLD = 1_104_537_600_000_000
"""2005-01-01 in µs UTC. The first hosted tools appeared in November 2005, so an earlier time is more likely a 0 or a
wrong unit than history."""


class ValidationContext(msgspec.Struct, frozen=True):
    """What the rules need to know about a plan. All times are µs UTC.

    `as_of` is the plan's instant, `newest` the latest event time that may be sent; the window is [`since`, `until`).
    `event_bytes` is the limit of an encoded event, which may still grow by `room` bytes. `excluded` holds the
    distinct_ids of people who asked to be forgotten. `per_event`: the plan may be sent to the per-event endpoint, which
    has additional rules (docs/know/service.md#per-event-endpoint).
    """

    as_of: int
    newest: int
    since: int | None = None
    until: int | None = None
    event_bytes: int = Limits().event_bytes
    excluded: frozenset[str] = frozenset()
    room: int = 0
    per_event: bool = False

    @property
    def leave_out(self) -> bool:
        """Whether `skip_code` can leave out any event at all."""
        return self.since is not None or self.until is not None or bool(self.excluded)

    @property
    def surely_small(self) -> int:
        """Every event smaller than this passes `event_too_large`."""
        return min(SURELY_SMALL, self.event_bytes - self.room)

    @classmethod
    def of(cls, options: SealedOptions, limits: Limits, excluded: frozenset[str] = frozenset()) -> ValidationContext:
        return cls(
            as_of=options.as_of,
            newest=options.as_of if options.allow_recent else options.as_of - RECENT,
            since=options.since,
            until=options.until,
            event_bytes=limits.event_bytes,
            excluded=excluded,
            room=NO_PROFILE_BYTES if options.persons == "identified" else 0,
            per_event=options.dialect == "posthog",
        )


REJECT, SKIP, WARNING = "reject", "skip", "warning"
"""What a code means for an event: `reject`: cannot be sent; `skip`: left out on purpose; `warning`: sent, and
reported."""


class Rule(msgspec.Struct, frozen=True):
    """One validation rule.

    `predicate` returns what is wrong with an event, as a sentence, or None. `fast` is an expression over `time`,
    `distinct_id` and `newest` that is true only if the event has no fault. If it is "", the predicate is called for
    every row.
    """

    code: str
    level: str
    text: str
    predicate: Callable[[Any, ValidationContext], str | None]
    fast: str = ""

    def __call__(self, subject: Any, context: ValidationContext) -> RejectReason | None:
        """Why the event (an UnvalidatedEvent, or for `event_too_large` its bytes) breaks the rule, or None."""
        detail = self.predicate(subject, context)
        return None if detail is None else RejectReason(self.code, detail)


Predicate: TypeAlias = Callable[[UnvalidatedEvent, ValidationContext], str | None]
FastTest: TypeAlias = Callable[[Any, Any, int], bool]

RULES: list[Rule] = []
"""In the order in which they are checked."""

_NAME = "True"
"""Marks a rule that looks only at the event's name. The fast test is used only for names with which an event has passed
every rule, warnings included."""
_ID = (
    f"distinct_id and len(distinct_id) <= {MAX_ID} and distinct_id[0] > ' ' < distinct_id[-1]"
    f" and distinct_id.isprintable() and (distinct_id.isascii() or len(distinct_id) <= {MAX_ID // 4})"
    " and distinct_id.lower() not in PERSON_LESS and distinct_id[-3:-2] != '+'"
)
_TIME = f"time.__class__ is int and {OLD} <= time <= newest"


def rule(code: str, level: str, text: str, *, fast: str = "") -> Callable[[Predicate], Rule]:
    """Register the decorated predicate as the last rule in RULES. See Rule for the arguments."""

    def register(predicate: Predicate) -> Rule:
        RULES.append(Rule(code, level, text, predicate, fast))
        return RULES[-1]

    return register


@rule("missing_event", REJECT, "no event name", fast=_NAME)
def missing_event(draft: UnvalidatedEvent, context: ValidationContext) -> str | None:
    return "the row has no event name" if not draft.event or not draft.event.strip() else None


@rule("long_event", REJECT, "the event name is longer than the service stores", fast=_NAME)
def long_event(draft: UnvalidatedEvent, context: ValidationContext) -> str | None:
    """The service cuts a name to 200 UTF-16 units."""
    length = len((draft.event or "").encode("utf-16-le", "surrogatepass")) // 2
    if length > MAX_NAME:
        return f"the event name has {length} characters; the limit is {MAX_NAME}"
    return _too_many_bytes("event name", draft.event, context)


@rule("junk_distinct_id", REJECT, "an id is a placeholder such as null or anonymous, which counts as no id", fast=_ID)
def placeholder_distinct_id(draft: UnvalidatedEvent, context: ValidationContext) -> str | None:
    if draft.placeholder_id and not (draft.distinct_id or "").strip():
        return f"the id is the placeholder {draft.placeholder_id[:60]!r}, under which strangers would become one person"
    return None


@rule("missing_distinct_id", REJECT, "no user or device id", fast=_ID)
def missing_distinct_id(draft: UnvalidatedEvent, context: ValidationContext) -> str | None:
    return "no user or device id" if not (draft.distinct_id or "").strip() else None


@rule("long_distinct_id", REJECT, "the id is longer than the service stores, so two people could become one", fast=_ID)
def long_distinct_id(draft: UnvalidatedEvent, context: ValidationContext) -> str | None:
    """The service cuts an id to 200 characters."""
    length = len(draft.distinct_id or "")
    if length > MAX_ID:
        return f"the distinct_id has {length} characters; the limit is {MAX_ID}"
    return _too_many_bytes("distinct_id", draft.distinct_id, context)


@rule("bad_value", REJECT, "a value is not of the kind that the mapping expects, or cannot be sent as JSON", fast=_ID)
def rewritten_distinct_id(draft: UnvalidatedEvent, context: ValidationContext) -> str | None:
    """The service replaces NUL with U+FFFD, which would make it another id."""
    return "the distinct_id contains NUL, which the service replaces" if "\0" in (draft.distinct_id or "") else None


@rule("rounded_number", REJECT, "an id or a time whose last digits a spreadsheet rounded off", fast=_ID)
def rounded_number(draft: UnvalidatedEvent, context: ValidationContext) -> str | None:
    """Rounding makes different ids or times equal. A group's key follows its `$type_`."""
    if isinstance(draft.time, RejectReason) and draft.time.code == RoundedTime.code:
        return draft.time.detail
    distinct_id = draft.distinct_id or ""
    text = distinct_id.rpartition("_")[2] if distinct_id.startswith("$") else distinct_id
    if lost_digits(text):
        return f"the id {text!r} has lost its last digits: export it again, without a spreadsheet"
    return None


@rule("missing_timestamp", REJECT, "no timestamp", fast=_TIME)
def missing_timestamp(draft: UnvalidatedEvent, context: ValidationContext) -> str | None:
    """A missing time is never replaced by the current one."""
    return "no timestamp" if draft.time is None else None


@rule("bad_timestamp", REJECT, "the timestamp cannot be read", fast=_TIME)
def bad_timestamp(draft: UnvalidatedEvent, context: ValidationContext) -> str | None:
    return draft.time.detail if isinstance(draft.time, RejectReason) else None


@rule("ancient_timestamp", REJECT, "the timestamp is before 1970", fast=_TIME)
def ancient_timestamp(draft: UnvalidatedEvent, context: ValidationContext) -> str | None:
    return "the timestamp is before 1970" if isinstance(draft.time, int) and draft.time < 0 else None


@rule("future_timestamp", REJECT, "the timestamp is in the future", fast=_TIME)
def future_timestamp(draft: UnvalidatedEvent, context: ValidationContext) -> str | None:
    if isinstance(draft.time, int) and draft.time > context.as_of:
        return f"{_duration(draft.time - context.as_of)} in the future"
    return None


@rule("recent_timestamp", REJECT, "less than 48 hours old, and billed as a live event", fast=_TIME)
def recent_timestamp(draft: UnvalidatedEvent, context: ValidationContext) -> str | None:
    """Events under 48 hours old are billed as live ones."""
    if isinstance(draft.time, int) and draft.time > context.newest:
        return f"{(context.as_of - draft.time) / HOUR:.1f} hours old; events under 48 hours are billed"
    return None


@rule("old_timestamp", WARNING, "before 2005: the timestamp may be 0, or in another unit", fast=_TIME)
def old_timestamp(draft: UnvalidatedEvent, context: ValidationContext) -> str | None:
    if isinstance(draft.time, int) and draft.time < OLD:
        return f"{format_utc(draft.time)}; is it 0, or seconds and milliseconds mistaken for each other?"
    return None


@rule("padded_id", WARNING, "an id with blanks around it, which the per-event endpoint removes", fast=_ID)
def padded_distinct_id(draft: UnvalidatedEvent, context: ValidationContext) -> str | None:
    distinct_id = draft.distinct_id or ""
    if context.per_event and distinct_id != trimmed(distinct_id):
        return f"{distinct_id[:60]!r} becomes the same person as {trimmed(distinct_id)[:60]!r}, and no merge names it"
    return None


@rule("person_less_id", WARNING, "the per-event endpoint takes events of this id without a person", fast=_ID)
def person_less_distinct_id(draft: UnvalidatedEvent, context: ValidationContext) -> str | None:
    if context.per_event and is_person_less(draft.distinct_id or ""):
        return f"{draft.distinct_id!r} is a placeholder there: no merge, no profile"
    return None


def _too_many_bytes(what: str, text: str | None, context: ValidationContext) -> str | None:
    """The per-event endpoint drops an event with more than 200 bytes of UTF-8 here."""
    length = len((text or "").encode("utf-8", "surrogatepass"))
    if context.per_event and length > MAX_ID:
        return f"the {what} has {length} bytes; the limit of the per-event endpoint is {MAX_ID}"
    return None


def _duration(microseconds: int) -> str:
    hours = microseconds / HOUR
    if hours < 48:
        return f"{hours:.1f} hours"
    return f"{hours / 24:.0f} days" if hours < 730 * 24 else f"{hours / 24 / 365.25:.0f} years"


def _too_large(event: bytes, context: ValidationContext) -> str | None:
    """Reject an event that is too large, either as it is or with its JSON encoded once more."""
    if len(event) < context.surely_small:
        return None
    if len(event) + context.room > context.event_bytes:
        return f"the event has {len(event)} bytes; the limit is {context.event_bytes}"
    if 2 * (len(event) + context.room) >= STORED_BYTES:
        stored = len(msgspec.json.encode(event.decode())) + 2 * context.room
        if stored >= STORED_BYTES:
            return f"stored as text the event has {stored} bytes; the limit is {STORED_BYTES - 1}"
    return None


event_too_large = Rule("event_too_large", REJECT, "the event is larger than the service stores", _too_large)
"""The only rule about an event's encoded bytes: called after `check`, with the bytes."""


def fast_test() -> FastTest | None:
    """A test of (time, distinct_id, newest) that is true only if the event passes all RULES, provided that an event
    with the same name passed before; None if a rule has no `fast` expression."""
    declared = [rule.fast for rule in RULES]
    return _test_of(tuple(dict.fromkeys(declared))) if all(declared) else None


@lru_cache(maxsize=8)
def _test_of(expressions: tuple[str, ...]) -> FastTest:
    test: FastTest = eval("lambda time, distinct_id, newest: " + " and ".join(f"({one})" for one in expressions))
    return test


def check(draft: UnvalidatedEvent, context: ValidationContext) -> RejectReason | None:
    """The first rule of level `reject` that the event breaks, or None."""
    for rule in RULES:
        if rule.level == REJECT and (reason := rule(draft, context)) is not None:
            return reason
    return None


def warnings(draft: UnvalidatedEvent, context: ValidationContext) -> list[RejectReason]:
    """Every rule of level `warning` that an event breaks; the event is sent."""
    found = (rule(draft, context) for rule in RULES if rule.level == WARNING)
    return [reason for reason in found if reason is not None]


def check_update(update: PersonUpdate | GroupUpdate, context: ValidationContext) -> RejectReason | None:
    """The first rule that a profile or group update breaks, or None. An update may lack a time."""
    if isinstance(update, GroupUpdate):
        draft = UnvalidatedEvent("$set", f"${update.type}_{update.key}", update.time, {})
    else:
        draft = UnvalidatedEvent("$set", update.distinct_id, update.time, {}, placeholder_id=update.placeholder_id)
    asked = (rule for rule in RULES if rule.level == REJECT and rule is not missing_timestamp)
    return next((reason for rule in asked if (reason := rule(draft, context)) is not None), None)


def skip_code(time: int | RejectReason | None, ids: tuple[str | None, ...], context: ValidationContext) -> str:
    """Why a valid event, update or merge with these ids is skipped (window, people to forget), or ""."""
    if not context.leave_out:
        return ""
    since, until = context.since, context.until
    if type(time) is int and ((since is not None and time < since) or (until is not None and time >= until)):
        return "outside_window"
    if context.excluded and not context.excluded.isdisjoint(ids):
        return "excluded_id"
    return ""
