"""The functions that the source of a mapper calls.

Common kinds of values are handled in the source itself; these functions handle every kind of value.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from pipeline import uuids, values
from pipeline.mapper.program.expressions import Spread
from pipeline.mapper.program.functions import function
from pipeline.models import GroupUpdate, Link, Note, PersonUpdate, RejectReason, Skip
from pipeline.timestamps import UNITS, BadTime, Reading, read_epoch, read_iso, unit_hint
from pipeline.validator.placeholder_ids import is_placeholder
from pipeline.validator.rules import MAX_ID
from pipeline.values import NULL, BadValue, Record, Value

Warnings: TypeAlias = tuple[tuple[str, str], ...]

TRUNCATED: Warnings = (("time_truncated", "digits below a microsecond were removed"),)

SESSIONS = 16_384
"""Sessions whose ids are cached: a session has many events."""
LONGEST_VERSION = 18
"""The most digits in the version of a row about a person: it is counted in 64 bits."""

encode = msgspec.json.Encoder().encode

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MAY_BE_OBJECT = (b"{", b'"')
_MILLISECONDS = re.compile(r"[0-9]{1,15}")
_NIL = "00000000-0000-0000-0000-000000000000"


def text_of(value: Value) -> str | None:
    """A value as a string. Raises BadValue for text that is not Unicode."""
    try:
        return values.text(value)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise BadValue(f"not a text: {error}") from None


def opened(value: Any) -> Record | None:
    """An object's members (`values.opened`), even if the reader has opened the object already."""
    if type(value) is dict:
        return value
    return values.opened(value)


def members_of(value: Value) -> Record:
    """An object's members, for reading only; empty if it is missing or not an object."""
    if type(value) is Raw and bytes(value)[:1] not in _MAY_BE_OBJECT:
        return {}
    try:
        return opened(value) or {}
    except BadValue:
        return {}


@function(needs=1)
def member_at(value: Any, step: str) -> Value:
    """A member of an object by its name, or an item of a list by its index, or None."""
    if type(value) is not dict:
        listed = values.items(value) or []
        if len(listed) != 1 or listed[0] is not value:
            return listed[int(step)] if step.isascii() and step.isdecimal() and int(step) < len(listed) else None
    return members_of(value).get(step)


@function()
def item_of(value: Value, index: int) -> Value:
    """A member of a list; any other value is its own only member. None if there is no such member, or it is null."""
    members = values.items(value)
    if members is None or not -len(members) <= index < len(members) or members[index] == NULL:
        return None
    return members[index]


def clean_uuid(text: str | None) -> str | None:
    """A real UUID in its canonical spelling; None for anything else, and for the nil UUID."""
    if text is None:
        return None
    lowered = text.strip().lower()
    return lowered if _UUID.fullmatch(lowered) and lowered != _NIL else None


@function()
@lru_cache(SESSIONS)
def session_of(start: str | None, tool: str, *parts: str | None) -> str | None:
    """The UUIDv7 of a session that started at `start` ms; None for a missing or negative start."""
    if start is None or not _MILLISECONDS.fullmatch(start) or not 0 < int(start) < 1 << 48:
        return None
    return uuids.session_uuid(int(start), tool, *(part or "" for part in parts), start)


def read_time(value: Value, unit: str, space: bool) -> Reading | None:
    """Read a time from any kind of value; None if it is missing or blank. Raises BadTime.

    A Parquet timestamp is already in microseconds; a number where text is expected is an error.
    """
    if isinstance(value, bool):
        raise BadTime(f"not a time: {value}")
    text = values.text(value) if type(value) is Raw or isinstance(value, str) else value
    if text is None or (isinstance(text, str) and not text.strip()):
        return None
    if unit == "iso":
        if isinstance(text, (int, float)):
            raise BadTime(f"not an ISO 8601 time: {text}")
        return read_iso(text.strip(), space)
    if type(value) is Raw and isinstance(text, str) and not bytes(value).startswith(b'"'):
        text = text.replace("+", "")  # a JSON number, even with an exponent, is what it says
    return read_epoch(text, unit)


def epoch_of(value: Value, unit: str, warnings: Warnings) -> tuple[int | RejectReason | None, Warnings]:
    """The time in µs for a count of `unit` that is not a plain integer, with the warnings; a RejectReason if it cannot
    be read."""
    try:
        reading = read_time(value, unit, False)
    except BadTime as error:
        return RejectReason(error.code, str(error)), warnings
    if reading is None:
        return None, warnings
    return reading.us, warnings + TRUNCATED if reading.truncated else warnings


def no_year(us: int, unit: str) -> RejectReason:
    """The reject for a time outside the years 1 to 9999, which is mostly a count of another unit than `unit`."""
    hint = unit_hint(str(us // UNITS.get(unit, 1))) if unit in (*UNITS, "auto") else ""
    return RejectReason("bad_timestamp", f"the time is outside the years 1 to 9999{hint}")


# --- objects ----------------------------------------------------------------------------------------------


def named(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name is one of the patterns, or has the prefix of a pattern that ends in `*`."""
    return any(name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern for pattern in patterns)


class Spreader:
    """Renames the members of an object as a `spread` of the mapping asks; it caches the new names."""

    def __init__(
        self, only: Sequence[str], leave: Sequence[str], rename: Any, strip: str, prefix: str, blank: Any
    ) -> None:
        self._only, self._leave, self._rename = tuple(only), tuple(leave), dict(rename)
        self._strip, self._prefix = strip, prefix
        self.blank = frozenset(blank)
        self._blank_json = literals(self.blank)
        self._names: dict[str, str | None] = {}

    def __call__(self, value: Value) -> Record:
        """The members under their new names. Raises BadValue if the value is not an object."""
        spread: Record = {}
        names = self._names
        for name, member in (opened(value) or {}).items():
            try:
                new = names[name]
            except KeyError:
                new = self._name(name)
            if new is None or (self.blank and self._is_blank(member)):
                continue
            spread[new] = member
        return spread

    def _is_blank(self, value: Value) -> bool:
        if type(value) is Raw:
            json = bytes(value)
            if b"\\" not in json:
                return json in self._blank_json
        return values.text(value) in self.blank

    def new_name(self, name: str) -> str | None:
        """The new name of a member; None if it is left out."""
        if (self._only and not named(name, self._only)) or named(name, self._leave):
            return None
        return self._rename.get(name) or self._prefix + name.removeprefix(self._strip)

    def _name(self, name: str) -> str | None:
        new = self.new_name(name)
        if len(self._names) < 10_000:
            self._names[name] = new
        return new


def spreader(spread: Spread) -> Spreader:
    return Spreader(spread.only, spread.leave, spread.rename, spread.strip, spread.prefix, spread.blank)


def literals(texts: Iterable[str]) -> frozenset[bytes]:
    """The JSON literals without a backslash for which `values.text` returns one of these strings."""
    bare = {text.encode() for text in texts if text != "null" and text[:1] != '"'}
    return frozenset({encode(text) for text in texts} | bare)


def with_pair(
    updates: list[GroupUpdate | Skip],
    distinct_id: str | None,
    note: Note,
    time: int | RejectReason | None,
    received: int | None,
) -> list[Any]:
    """The updates of a group, followed by the ids of the row's member, if they can be sent: as on any other row, one is
    a user's, and both are one person."""
    if note.user is None or not isinstance(updates[0], GroupUpdate) or not can_be_sent(distinct_id):
        return updates
    return [*updates, PersonUpdate(distinct_id, time, Note(note.user, note.anonymous), received)]


def person_number(number: str | None, version: str | None) -> str | None:
    """The version of a row (0 if it is not a whole number) and the tool's number of a person; None without a number."""
    if not number or number.isspace():
        return None
    return f"{version if is_count(version, LONGEST_VERSION) else 0}{uuids.SEPARATOR}{number}"


def is_count(text: str | None, digits: int) -> bool:
    """Whether a string is a whole number of at most `digits` plain digits."""
    return text is not None and text.isascii() and text.isdecimal() and len(text) <= digits


def can_be_sent(distinct_id: str | None) -> bool:
    """Whether an id identifies a person, and the service neither refuses nor changes it."""
    if not distinct_id:
        return False
    return not is_placeholder(distinct_id) and len(distinct_id) <= MAX_ID and "\0" not in distinct_id


def links_of(
    kind: str, value: Value, time: int | None, received: int | None = None, row_key: str | None = None
) -> list[Link]:
    """Links from the first id of a list to each of the others; none if there are fewer than two. Raises BadValue."""
    ids = list(dict.fromkeys(id for id in map(text_of, values.items(value) or ()) if id and not is_placeholder(id)))
    return [Link(kind, ids[0], other, time, received, row_key) for other in ids[1:]]


def incomplete(*ids: str | None) -> Skip:
    """The skip for a row that states a merge without two ids; its warning names the ids of the row."""
    named = [id for id in ids if id and not id.isspace()]
    placeholder = next(filter(is_placeholder, named), None)
    if placeholder is not None:
        detail = f"{placeholder[:60]!r} is a placeholder"
    elif len(named) < 2:
        detail = f"it has only the id {named[0][:60]!r}" if named else "it has no id"
    else:
        detail = f"both ids are {named[0][:60]!r}"
    return Skip("incomplete_merge", detail)


def incomplete_list(value: Value) -> Skip:
    """`incomplete` for a list of ids. Raises BadValue."""
    return incomplete(*map(text_of, values.items(value) or ()))


def names_of(value: Value) -> tuple[str, ...]:
    """The names in a list, or those of an object's members. Raises BadValue."""
    if value is None:
        return ()
    listed = values.items(value) or []
    if len(listed) == 1 and listed[0] is value:
        return tuple(opened(value) or ())
    return tuple(name for name in map(text_of, listed) if name is not None)


class Profiles:
    """Reads the profiles of a row: one update each. `id` and `properties` are the names of a profile's members."""

    def __init__(self, id: str, properties: str, leave: Sequence[str], rename: Any) -> None:
        self._id, self._properties = id, properties
        self._spread = Spreader((), leave, rename, "", "", ())

    def __call__(
        self, each: Value, id: Value, properties: Value, time: int | RejectReason | None, received: int | None
    ) -> list[PersonUpdate | Skip]:
        """The updates of a list of profiles, or without a list of the profile that the row is. Raises BadValue.

        In a list, a profile whose id cannot be sent is left out with a warning, so that the others are not lost; if no
        id can be sent, all are returned and rejected like single rows.
        """
        if each is None:
            return [self._update(id, properties, time, received)]
        good: list[PersonUpdate | Skip] = []
        bad: list[PersonUpdate | Skip] = []
        left_out: list[str | None] = []
        for member in (opened(profile) or {} for profile in values.items(each) or []):
            update = self._update(member.get(self._id), member.get(self._properties), time, received)
            if can_be_sent(update.distinct_id):
                good.append(update)
            else:
                bad.append(update)
                left_out.append(text_of(member.get(self._id)))
        if good and bad:
            good[0].warnings = tuple(("left_out_profile", f"the id cannot be sent: {id!r}"[:100]) for id in left_out)  # type: ignore[union-attr]
        return good or bad or [Skip("empty_page")]

    def _update(
        self, id: Value, properties: Value, time: int | RejectReason | None, received: int | None
    ) -> PersonUpdate:
        distinct_id = text_of(id)
        spread = self._spread(properties)
        note = Note(set=spread) if spread else None
        if distinct_id and is_placeholder(distinct_id):
            return PersonUpdate(None, time, note, received, distinct_id)
        return PersonUpdate(distinct_id, time, note, received)


def keyed_hash(secret: str, purpose: str) -> Callable[[str], str]:
    """A function that returns the HMAC-SHA256 of a string for a secret and a purpose, as hex."""

    def digest(text: str) -> str:
        message = f"{purpose}{uuids.SEPARATOR}{text}".encode("utf-8", "surrogatepass")
        return hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()

    return digest


def hash_fingerprint(secret: str) -> str:
    """Eight hex digits with which a plan compares secrets without revealing them."""
    return hmac.new(secret.encode(), b"backcast hash key", hashlib.sha256).hexdigest()[:8]


@function()
def refused(text: str, shown: str | None) -> None:
    """Reject the row with a sentence and, after it, the first 60 characters of the value that shows why."""
    raise BadValue(text if shown is None else f"{text}: {shown[:60]!r}")
