"""What the source of a mapper calls: the slow and rare cases.

The fast cases are written out in the source itself; these functions do the same for every kind of value.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw

from pipeline import uuids, values
from pipeline.mapper.functions import function
from pipeline.models import GroupUpdate, Link, Note, PersonUpdate, RejectReason, Skip
from pipeline.timestamps import BadTime, Reading, read_epoch, read_iso
from pipeline.validator.placeholder_ids import is_placeholder
from pipeline.values import NULL, BadValue, Record, Value

Warnings: TypeAlias = tuple[tuple[str, str], ...]

TRUNCATED: Warnings = (("time_truncated", "digits below a microsecond were left out"),)

LONGEST_VERSION = 18
"""Digits of the version of a row about a person: it is counted in 64 bits."""
LONGEST_ID = 200
"""Characters of a distinct_id: the service cuts a longer one (docs/know/service.md#ids-and-text), so it is never
sent."""

encode = msgspec.json.Encoder().encode

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MILLISECONDS = re.compile(r"[0-9]{1,15}")
_NIL = "00000000-0000-0000-0000-000000000000"


def text_of(value: Value) -> str | None:
    """A value as text. Raises BadValue for text that is not Unicode."""
    try:
        return values.text(value)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise BadValue(f"not a text: {error}") from None


def opened(value: Any) -> Record | None:
    """An object's members (`values.opened`), also of one that the reader has opened already."""
    if type(value) is dict:
        return value
    return values.opened(value)


def members_of(value: Value) -> Record:
    """An object's members, for reading only: none when it is missing or no object."""
    try:
        return opened(value) or {}
    except BadValue:
        return {}


@function()
def item_of(value: Value, place: int) -> Value:
    """A member of a list; of anything else, itself is the only member. None when there is none, or it is null."""
    members = values.items(value)
    if members is None or place >= len(members) or members[place] == NULL:
        return None
    return members[place]


def clean_uuid(text: str | None) -> str | None:
    """A real UUID in its canonical spelling; None for anything else, and for the nil UUID."""
    if text is None:
        return None
    lowered = text.strip().lower()
    return lowered if _UUID.fullmatch(lowered) and lowered != _NIL else None


@function()
def session_of(start: str | None, tool: str, *parts: str | None) -> str | None:
    """The UUIDv7 of a session that began at `start` ms; None for a missing or negative start."""
    if start is None or not _MILLISECONDS.fullmatch(start) or not 0 < int(start) < 1 << 48:
        return None
    return uuids.session_uuid(int(start), tool, *(part or "" for part in parts), start)


@function(needs=1)
def url_part(url: str, part: str) -> str | None:
    """The host, path, query or scheme of a URL; None when it has none or is not a URL."""
    try:
        split = urlsplit(url)
    except ValueError:
        return None
    named = {"host": split.netloc, "path": split.path, "query": split.query, "scheme": split.scheme}
    return named[part] or None


def read_time(value: Value, unit: str, space: bool) -> Reading | None:
    """Read a time of any kind of value; None when it is missing or blank. Raises BadTime.

    A Parquet timestamp is microseconds already; a number where text is expected is not guessed at.
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
    return read_epoch(text, unit)


def epoch_of(value: Value, unit: str, warnings: Warnings) -> tuple[int | RejectReason | None, Warnings]:
    """The slow way to a count of `unit`: text, decimals, what is broken; RejectReason `bad_timestamp` for the last."""
    try:
        reading = read_time(value, unit, False)
    except BadTime as error:
        return RejectReason("bad_timestamp", str(error)), warnings
    if reading is None:
        return None, warnings
    return reading.us, warnings + TRUNCATED if reading.truncated else warnings


def renamed(old: str, new: str, value: Value, properties: Record, warnings: Warnings) -> Warnings:
    """The row has both names: the old one stays, with a warning, unless both say the same."""
    if properties[new] == value:
        return warnings
    properties[old] = value
    return (*warnings, ("name_collision", f"{old!r} was to become {new!r}, which the row has"))


class CollisionRenamer:
    """The mapping makes a property that the row has too: the row's own moves to TOOL_name, with a warning."""

    def __init__(self, tool: str) -> None:
        self._tool = tool

    def __call__(self, name: str, value: Value, properties: Record, warnings: Warnings) -> Warnings:
        own = properties[name]
        properties[name] = value
        if own is None or own == value:
            return warnings
        away = f"{self._tool}_{name}"
        properties[away] = own
        return (*warnings, ("name_collision", f"the row's own {name!r} became {away!r}"))


Pairs: TypeAlias = tuple[tuple[str, Value], ...]


class EventOverrides:
    """Puts in place what one event's own rule says: leave out, rename, fill, set."""

    def __init__(self, tool: str) -> None:
        self._displaced = CollisionRenamer(tool)

    def __call__(
        self, properties: Record, late: tuple[Pairs, Pairs, dict[str, str], tuple[str, ...]], warnings: Warnings
    ) -> Warnings:
        sets, fills, renames, drops = late
        for name in drops:
            properties.pop(name, None)
        for old, new in renames.items():
            value = properties.pop(old, None)
            if value is not None and properties.setdefault(new, value) is not value:
                warnings = renamed(old, new, value, properties, warnings)
        for name, value in fills:
            if value is not None:
                properties.setdefault(name, value)
        for name, value in sets:
            if value is not None and properties.setdefault(name, value) is not value:
                warnings = self._displaced(name, value, properties, warnings)
        return warnings


class RenameMap:
    """What becomes of properties that few rows have: a new name, or None to leave out; in the mapping's order."""

    def __init__(self, changes: dict[str, str | None], blanks: dict[str, frozenset[str]]) -> None:
        self._changes, self._blanks = changes, blanks

    def __call__(self, properties: Record, warnings: Warnings) -> Warnings:
        for name, blank in self._blanks.items():
            if name in properties and text_of(properties[name]) in blank:
                del properties[name]
        for old, new in self._changes.items():
            if old in properties:
                value = properties.pop(old)
                if new is not None and properties.setdefault(new, value) is not value:
                    warnings = renamed(old, new, value, properties, warnings)
        return warnings


class ExtraColumns:
    """Keeps the columns that a mapping names nowhere, under a beginning that tells where they are from."""

    def __init__(self, named_columns: set[str], prefix: str) -> None:
        self._named, self._prefix = frozenset(named_columns), prefix

    def __call__(self, row: Record, properties: Record) -> None:
        for name, value in row.items():
            if name not in self._named and value is not None and value != NULL:
                properties.setdefault(self._prefix + name, value)


# --- objects ----------------------------------------------------------------------------------------------


def named(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name is one of these, or begins like one that ends in `*`."""
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in patterns)


class Spreader:
    """Takes the members of an object one level up, under the names a `spread` gives them."""

    def __init__(
        self, only: Sequence[str], leave: Sequence[str], rename: Any, strip: str, prefix: str, blank: Any
    ) -> None:
        self._only, self._leave, self._rename = tuple(only), tuple(leave), dict(rename)
        self._strip, self._prefix = strip, prefix
        self._blank = frozenset(blank)
        self._blank_json = _spellings(self._blank)
        self._names: dict[str, str | None] = {}

    def __call__(self, value: Value) -> Record:
        """The members under their new names. Raises BadValue when the value is no object."""
        spread: Record = {}
        names = self._names
        for name, member in (opened(value) or {}).items():
            try:
                new = names[name]
            except KeyError:
                new = self._name(name)
            if new is None or (self._blank and self._is_blank(member)):
                continue
            spread[new] = member
        return spread

    def _is_blank(self, value: Value) -> bool:
        if type(value) is Raw:
            json = bytes(value)
            if b"\\" not in json:
                return json in self._blank_json
        return values.text(value) in self._blank

    def _name(self, name: str) -> str | None:
        if (self._only and not named(name, self._only)) or named(name, self._leave):
            new = None
        else:
            new = self._rename.get(name) or self._prefix + name.removeprefix(self._strip)
        if len(self._names) < 10_000:
            self._names[name] = new
        return new


def _spellings(texts: frozenset[str]) -> frozenset[bytes]:
    """The JSON, without a backslash in it, of which `values.text` gives one of these texts."""
    bare = {text.encode() for text in texts if text != "null" and text[:1] != '"'}
    return frozenset({encode(text) for text in texts} | bare)


def with_pair(
    updates: list[GroupUpdate | Skip],
    who: str | None,
    note: Note,
    time: int | RejectReason | None,
    received: int | None,
) -> list[Any]:
    """The updates of a group, and after them the two ids of the member who is named: they are one person here as on
    any other row. An id that no row could be sent with says nothing and spoils nothing."""
    if note.anonymous is None or not isinstance(updates[0], GroupUpdate):
        return updates
    if not can_be_sent(who):
        return updates
    return [*updates, PersonUpdate(who, time, Note(note.user, note.anonymous), received)]


def person_number(number: str | None, version: str | None) -> str | None:
    """A tool's number of a person behind the version of the row that names it; None where there is no number."""
    if not number or number.isspace():
        return None
    known = version is not None and _is_count(version, LONGEST_VERSION)
    return f"{version if known else 0}{uuids.SEPARATOR}{number}"


def _is_count(text: str, digits: int) -> bool:
    """Whether a text is a whole number of up to so many plain digits."""
    return text.isascii() and text.isdecimal() and len(text) <= digits


def can_be_sent(who: str | None) -> bool:
    """Whether an id names somebody, and is no longer than the service takes nor changed by it."""
    if not who:
        return False
    return not is_placeholder(who) and len(who) <= LONGEST_ID and "\0" not in who


def links_of(kind: str, value: Value, time: int | None) -> list[Link]:
    """The first id of a list joined to each of the others; none where there are not two. Raises BadValue."""
    ids = list(dict.fromkeys(one for one in map(text_of, values.items(value) or ()) if one and not is_placeholder(one)))
    return [Link(kind, ids[0], other, time) for other in ids[1:]]


def incomplete(*ids: str | None) -> Skip:
    """A row that states a merge, and does not name the two ids: the skip, which says in a warning what it names."""
    named = [one for one in ids if one and not one.isspace()]
    placeholder = next(filter(is_placeholder, named), None)
    if placeholder is not None:
        detail = f"{placeholder[:60]!r} names nobody"
    elif len(named) < 2:
        detail = f"it names {named[0][:60]!r} alone" if named else "it names nobody"
    else:
        detail = f"it joins {named[0][:60]!r} to itself"
    return Skip("incomplete_merge", detail)


def incomplete_list(value: Value) -> Skip:
    """`incomplete` of a list of ids. Raises BadValue."""
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
    """Reads the profiles of a row: one update each. `id` and `properties` are the members of each that count."""

    def __init__(self, id: str, properties: str, leave: Sequence[str], rename: Any) -> None:
        self._id, self._properties = id, properties
        self._spread = Spreader((), leave, rename, "", "", ())

    def __call__(
        self, each: Value, id: Value, properties: Value, time: int | RejectReason | None, received: int | None
    ) -> list[PersonUpdate | Skip]:
        """The updates of a list of profiles, or of the one that the row itself is. Raises BadValue.

        In a list, a profile of an id that no row could be sent with is left out with a warning: one such id among a
        thousand is no reason to lose the others. A list of nothing else is as bad as a row of one.
        """
        if each is None:
            return [self._update(id, properties, time, received)]
        good: list[PersonUpdate | Skip] = []
        bad: list[PersonUpdate | Skip] = []
        left: list[str | None] = []
        for one in map(opened, values.items(each) or []):
            held = one or {}
            update = self._update(held.get(self._id), held.get(self._properties), time, received)
            if can_be_sent(update.distinct_id):
                good.append(update)
            else:
                bad.append(update)
                left.append(text_of(held.get(self._id)))
        if good and bad:
            good[0].warnings = tuple(("left_out_profile", f"of nobody: {id!r}"[:100]) for id in left)  # type: ignore[union-attr]
        return good or bad or [Skip("empty_page")]

    def _update(
        self, id: Value, properties: Value, time: int | RejectReason | None, received: int | None
    ) -> PersonUpdate:
        who = text_of(id)
        held = self._spread(properties)
        placeholder = bool(who) and is_placeholder(who)  # type: ignore[arg-type]
        return PersonUpdate(None if placeholder else who, time, Note(set=held) if held else None, received, placeholder)


class KeyedHash:
    """HMAC-SHA256 of a text under a secret and a purpose, as hex."""

    def __init__(self, secret: str, purpose: str) -> None:
        self._secret = secret.encode()
        self._purpose = purpose

    def __call__(self, text: str) -> str:
        message = f"{self._purpose}{uuids.SEPARATOR}{text}".encode("utf-8", "surrogatepass")
        return hmac.new(self._secret, message, hashlib.sha256).hexdigest()

    def __repr__(self) -> str:
        return f"KeyedHash(***, {self._purpose!r})"


def hash_fingerprint(secret: str) -> str:
    """Eight hex digits that tell one secret from another and say nothing of either; for the plan."""
    return hmac.new(secret.encode(), b"backcast hash key", hashlib.sha256).hexdigest()[:8]


def sentence(text: str, shown: str | None) -> str:
    """A sentence, and after it the beginning of the text that shows why."""
    return text if shown is None else f"{text}: {shown[:60]!r}"
