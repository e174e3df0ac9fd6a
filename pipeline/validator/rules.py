"""The rules an event must keep: one function and one stable code each.

A rule takes the draft and the `ValidationContext` of the plan and gives a RejectReason or None. `check` asks them in
order, so the first code that applies is the one reported. Rules look at meaning; `check_size` looks at the encoded
event.

Nearly every row keeps every rule, and to ask them one by one costs more than all else that is done with it. So a rule
may declare what is true only of rows that it lets pass (`usual`), and `usual_test` makes one quick test of all these.
A rule that declares nothing is asked of every row: it is enough to add it to RULES.

Sources: docs/know/service.md#event-fields, #ids-and-text, #timestamps, #historical-migration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from pipeline.models import GroupUpdate, Limits, Link, PersonUpdate, RejectReason, UnvalidatedEvent
from pipeline.options import SealedOptions

MAX_NAME = 200
MAX_ID = 200
HOUR = 3_600_000_000
RECENT = 48 * HOUR
WITHOUT_TIME = 49 * HOUR
"""What is said without a time counts as said this long before the plan's instant, in µs; nothing that is sent apart
from events is younger."""
NO_PROFILE_BYTES = 40
"""More than `$process_person_profile` takes, which is added to events of unidentified persons."""
STORED_BYTES = 1_000_000
"""The service stores an event as JSON inside JSON; this is where its queue refuses it."""
SURELY_SMALL = 300_000
"""An event shorter than this keeps every rule of size, however it is encoded."""


@dataclass(frozen=True, slots=True)
class ValidationContext:
    """What the rules need to know of a plan: its instant, its window, its limits. Times in µs UTC.

    An event may grow by `room` bytes after it was made.
    """

    as_of: int
    newest: int
    since: int | None = None
    until: int | None = None
    event_bytes: int = Limits().event_bytes
    excluded: frozenset[str] = frozenset()
    room: int = 0

    @property
    def leave_out(self) -> bool:
        """Whether there is any event that `skip_code` leaves out."""
        return self.since is not None or self.until is not None or bool(self.excluded)

    @property
    def surely_small(self) -> int:
        """`check_size` lets every event pass that has fewer bytes than this."""
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
        )


Rule: TypeAlias = Callable[[UnvalidatedEvent, ValidationContext], RejectReason | None]
UsualTest: TypeAlias = Callable[[Any, Any, int], bool]

_USUAL: dict[Rule, str] = {}
_NAME = "True"
"""The rule looks at the event's name alone: the quick test is asked only of names that every rule let pass before."""
_ID = f"distinct_id and len(distinct_id) <= {MAX_ID} and distinct_id[0] > ' ' and distinct_id.isprintable()"
_TIME = "time.__class__ is int and 0 <= time <= newest"


def usual(expression: str) -> Callable[[Rule], Rule]:
    """Declare what is true only of drafts that a rule lets pass: an expression of `time`, `distinct_id`, `newest`."""

    def declare(rule: Rule) -> Rule:
        _USUAL[rule] = expression
        return rule

    return declare


@usual(_NAME)
def missing_event(draft: UnvalidatedEvent, rules: ValidationContext) -> RejectReason | None:
    if not draft.event or not draft.event.strip():
        return RejectReason("missing_event", "the row has no event name")
    return None


@usual(_NAME)
def long_event(draft: UnvalidatedEvent, rules: ValidationContext) -> RejectReason | None:
    """The service cuts a name to 200 UTF-16 units."""
    length = len((draft.event or "").encode("utf-16-le", "surrogatepass")) // 2
    if length > MAX_NAME:
        return RejectReason("long_event", f"the event name has {length} characters; the most is {MAX_NAME}")
    return None


@usual(_ID)
def junk_distinct_id(draft: UnvalidatedEvent, rules: ValidationContext) -> RejectReason | None:
    if draft.placeholder_id and not (draft.distinct_id or "").strip():
        return RejectReason("junk_distinct_id", "every id of the row is a placeholder that the service never merges")
    return None


@usual(_ID)
def missing_distinct_id(draft: UnvalidatedEvent, rules: ValidationContext) -> RejectReason | None:
    if not (draft.distinct_id or "").strip():
        return RejectReason("missing_distinct_id", "the row names nobody")
    return None


@usual(_ID)
def long_distinct_id(draft: UnvalidatedEvent, rules: ValidationContext) -> RejectReason | None:
    """The service cuts an id to 200 characters, so two long ids could become one person."""
    length = len(draft.distinct_id or "")
    if length > MAX_ID:
        return RejectReason("long_distinct_id", f"the distinct_id has {length} characters; the most is {MAX_ID}")
    return None


@usual(_ID)
def rewritten_distinct_id(draft: UnvalidatedEvent, rules: ValidationContext) -> RejectReason | None:
    """The service writes U+FFFD for NUL, which would make another id of it."""
    if "\0" in (draft.distinct_id or ""):
        return RejectReason("bad_value", "the distinct_id holds a NUL, which the service would rewrite")
    return None


@usual(_TIME)
def missing_timestamp(draft: UnvalidatedEvent, rules: ValidationContext) -> RejectReason | None:
    if draft.time is None:
        return RejectReason("missing_timestamp", "the row has no time; a missing time never becomes now")
    return None


@usual(_TIME)
def bad_timestamp(draft: UnvalidatedEvent, rules: ValidationContext) -> RejectReason | None:
    return draft.time if isinstance(draft.time, RejectReason) else None


@usual(_TIME)
def ancient_timestamp(draft: UnvalidatedEvent, rules: ValidationContext) -> RejectReason | None:
    if isinstance(draft.time, int) and draft.time < 0:
        return RejectReason("ancient_timestamp", "the time lies before 1970")
    return None


@usual(_TIME)
def future_timestamp(draft: UnvalidatedEvent, rules: ValidationContext) -> RejectReason | None:
    if isinstance(draft.time, int) and draft.time > rules.as_of:
        hours = (draft.time - rules.as_of) / HOUR
        return RejectReason("future_timestamp", f"the time lies {hours:.1f} hours after the plan's instant")
    return None


@usual(_TIME)
def recent_timestamp(draft: UnvalidatedEvent, rules: ValidationContext) -> RejectReason | None:
    """Events under 48 hours old are billed as live ones."""
    if isinstance(draft.time, int) and draft.time > rules.newest:
        hours = (rules.as_of - draft.time) / HOUR
        return RejectReason("recent_timestamp", f"the event is {hours:.1f} hours old; under 48 it is billed")
    return None


RULES: tuple[Rule, ...] = (
    missing_event,
    long_event,
    junk_distinct_id,
    missing_distinct_id,
    long_distinct_id,
    rewritten_distinct_id,
    missing_timestamp,
    bad_timestamp,
    ancient_timestamp,
    future_timestamp,
    recent_timestamp,
)


def usual_test() -> UsualTest | None:
    """A test of (time, distinct_id, newest) that only events pass which all RULES let pass, where one of the same name
    did before; None where a rule declares nothing, and so has to be asked."""
    declared = [_USUAL.get(rule) for rule in RULES]
    return _test_of(tuple(dict.fromkeys(one for one in declared if one))) if all(declared) else None


@lru_cache(maxsize=8)
def _test_of(expressions: tuple[str, ...]) -> UsualTest:
    test: UsualTest = eval("lambda time, distinct_id, newest: " + " and ".join(f"({one})" for one in expressions))
    return test


def check(draft: UnvalidatedEvent, rules: ValidationContext) -> RejectReason | None:
    """The first rule that the draft breaks, or None."""
    for rule in RULES:
        fault = rule(draft, rules)
        if fault is not None:
            return fault
    return None


def check_update(update: PersonUpdate | GroupUpdate, rules: ValidationContext) -> RejectReason | None:
    """The first rule that what a row says of a person or group breaks, or None. It may have no time."""
    about = (
        UnvalidatedEvent("$set", f"${update.type}_{update.key}", update.time, {})
        if isinstance(update, GroupUpdate)
        else None
    )
    draft = about or UnvalidatedEvent("$set", update.distinct_id, update.time, {}, placeholder_id=update.placeholder_id)  # type: ignore[union-attr]
    asked = (rule for rule in RULES if rule is not missing_timestamp)
    return next((fault for rule in asked if (fault := rule(draft, rules)) is not None), None)


def skip_update(time: int | RejectReason | None, distinct_id: str | None, rules: ValidationContext) -> str:
    """Why what a row says of a person or group stays out, or ""."""
    return skip_code(UnvalidatedEvent(None, distinct_id, time, {}), rules)


def skip_code(draft: UnvalidatedEvent, rules: ValidationContext) -> str:
    """Why a good event stays out all the same (window, forgotten people), or ""."""
    if not rules.leave_out:
        return ""
    time = draft.time
    if type(time) is int and (
        (rules.since is not None and time < rules.since) or (rules.until is not None and time >= rules.until)
    ):
        return "outside_window"
    if rules.excluded and draft.distinct_id in rules.excluded:
        return "excluded_id"
    return ""


def skip_link(link: Link, rules: ValidationContext) -> str:
    """Why a merge stays out, or "": its row lies outside the window, or one of its ids asked to be forgotten."""
    time = link.time
    if time is not None and (
        (rules.since is not None and time < rules.since) or (rules.until is not None and time >= rules.until)
    ):
        return "outside_window"
    if rules.excluded and (link.distinct_id in rules.excluded or link.other in rules.excluded):
        return "excluded_id"
    return ""


def check_size(event: bytes, rules: ValidationContext) -> RejectReason | None:
    """Whether an encoded event is small enough, also when its JSON is encoded once more."""
    if len(event) < rules.surely_small:
        return None
    if len(event) + rules.room > rules.event_bytes:
        return RejectReason("event_too_large", f"the event has {len(event)} bytes; the most is {rules.event_bytes}")
    if 2 * (len(event) + rules.room) >= STORED_BYTES:
        stored = len(msgspec.json.encode(event.decode())) + 2 * rules.room
        if stored >= STORED_BYTES:
            return RejectReason("event_too_large", f"stored as text the event has {stored} bytes; the most is 999999")
    return None
