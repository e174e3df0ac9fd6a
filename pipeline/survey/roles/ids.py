"""Which columns have ids: of persons, and of the rows themselves."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import msgspec

from pipeline.survey.clock import MOSTLY
from pipeline.survey.columns import INTEGER, IP, Column, named, spelled
from pipeline.survey.roles.words import NUMBERS, PERSONS, VISITORS
from pipeline.timestamps import lost_digits

_USER = (
    "distinct_id", "external_user_id", "customer_user_id", "user_app_key", "user_id",
    "userid", "customer_id", "identity", "uid", "member_id", "person_id",
    "profile_id", "contact_id", "subscriber_id", "account_user_id",
)  # fmt: skip
_LIKELY_USER = re.compile(
    r"(?:^|_)(?:p|users?|customers?|members?|persons?|people|profiles?|contacts?|clients?|subscribers?|buyers?|players?"
    r"|updaters?|creators?|assignees?|submitters?|senders?|recipients?|visitors?|students?|patients?|guests?|leads?"
    rf"|employees?|drivers?|riders?|owners?|authors?|actors?|requesters?|{PERSONS})"
    rf"(?:_?(?:id|uuid|guid|key|no|nr|num|number|ref|hash|code|{NUMBERS}))?$|^username$|^login$"
    r"|(?:^|_)(?:developer|user|customer)_identity$"
)
_ANONYMOUS = re.compile(
    rf"anon|{VISITORS}|(?:^|_)device_?id$|^did$|pseudo|domain_userid|network_userid|visitor|^stable_id$|cookie|fingerprint"
    r"|^client_id$|^cid$|install(?:ation)?_id$|(?:^|_)(?:idf[av]|gaid|aaid)$|^(?:gps_)?adid$|^(?:apps_?flyer|adjust|advertising|android|firebase)_id$|^muid$|^mpid$|^object_id$|^browser_id$"
)
_SESSION = re.compile(r"sess(?:ion)?_?id$|^visit_?id$|^sid$|^session$")
_EMAIL = re.compile(r"(?:^|_)e?mail(?:_address)?$|^e_mail$")
_KEY = (
    "uuid", "insert_id", "message_id", "event_id", "event_uuid", "hit_id", "transaction_id", "id", "row_id", "log_id",
)  # fmt: skip
_LIKELY_KEY = re.compile(
    r"(?:_(?:id|uuid|guid|key|no|nr|number|nummer))$|^(?:guid|number|nr|no)$"
    r"|^(?:event|message|insert|hit|row|record|transaction)(?:id|uuid|guid)$"
)
_CODE = re.compile(r"(?=\S*[0-9])(?=\S*[A-Za-z])[A-Za-z0-9][A-Za-z0-9_.:#-]*$", re.ASCII)
"""What an id of a row looks like, whatever its column is called: `B-1001`, a hash, a uuid."""
_OF_AN_OBJECT = frozenset(("id", "uuid", "guid", "key", "email", "username"))
"""Members that are ids of the object they are in: `user.id`."""
_WRAPPERS = frozenset(("data", "attributes", "properties", "relationships", "object"))
ENOUGH_ROWS = 20
"""In fewer rows, different values of a column show nothing, unless its name is that of a key."""
_WHOLE = re.compile(r"-?[0-9]+\.0$|-?[0-9](?:\.[0-9]+)?[eE]\+?[0-9]{2}$")
_NOT_AN_ID = re.compile(r"https?://|mozilla/|\{", re.IGNORECASE)
_NUMBERED = re.compile(r"\S*[A-Za-z]\S*[0-9]")

USER, ANONYMOUS, EMAIL, SESSION = "user", "anonymous", "email", "session"
"""What an id identifies, the best first."""


class IdColumn(msgspec.Struct, frozen=True):
    """A column of ids. `of` is what they identify. `known`: its name is that of an id, not only its values look like
    one."""

    column: Column
    of: str
    known: bool = True


def people_in(columns: Iterable[Column]) -> list[IdColumn]:
    """The columns with ids of persons, the best first; if no name is known, columns whose values could be ids."""
    found = [column for column in columns if _fits_id(column)]
    ranked: list[tuple[tuple[int, int, int], IdColumn]] = []
    classes = (USER, ANONYMOUS, EMAIL, SESSION)
    for column in found:
        of = _kind_of_id(_id_name(column))
        if of and not (of == USER and len(column.texts) == 1 and len(column.values) >= 50):
            known = _USER.index(column.name) if column.name in _USER else len(_USER)
            depth = len(column.steps) + (2 if of == USER and known == len(_USER) else 0)
            ranked.append(((classes.index(of), depth, known), IdColumn(column, of)))
    if ranked:
        return [one for _, one in sorted(ranked, key=lambda pair: pair[0])]
    # Fractions are not ids, but a spreadsheet writes 9.91214E+15 for an id.
    plain = [one for one in found if one.share("number in text") < MOSTLY or any(map(lost_digits, one.texts))]
    few = [one for one in plain if one.matching(_NUMBERED) >= MOSTLY and 2 * len(one.texts) <= len(one.values)]
    likely = [one for one in plain if _LIKELY_KEY.search(one.name) or one in few] or plain
    addresses = [column for column in plain if column.matching(IP) >= 0.9]
    # A value that no other row has identifies the row, not a person.
    repeated = [column for column in likely if 1 < len(column.texts) < len(column.values)] or addresses
    chosen = sorted(repeated or likely, key=lambda one: (one not in few, one.blank, -len(one.texts)))
    return [IdColumn(column, USER, known=False) for column in chosen if _could_be_id(column)]


def _id_name(column: Column) -> str:
    """What an id is called: `user_id` for the member `id` of an object `user`, or of the data of one."""
    if column.name not in _OF_AN_OBJECT:
        return column.name
    owners = [step for step in column.steps[:-1] if step.lower() not in _WRAPPERS]
    return f"{spelled(owners[-1])}_{column.name}" if owners else column.name


def other_ids(columns: Iterable[Column]) -> list[Column]:
    """Columns that could stand in for a missing id of a person: addresses, and values that repeat as ids do."""
    found = [column for column in columns if _fits_id(column) and len(column.texts) > 1]
    addresses = [column for column in found if column.matching(IP) >= 0.9]
    ids = [
        column for column in found
        if column.repeats and _LIKELY_KEY.search(column.name) and _could_be_id(column) and column not in addresses
    ]  # fmt: skip
    return [*ids[:2], *addresses[:1]]


def _kind_of_id(name: str) -> str:
    if _SESSION.search(name):
        return SESSION
    if _ANONYMOUS.search(name):
        return ANONYMOUS
    if _EMAIL.search(name):
        return EMAIL
    return USER if name in _USER or _LIKELY_USER.search(name) else ""


def _fits_id(column: Column) -> bool:
    # A browser's id may be written as 1146540.1921992520 (docs/know/exports.md#ga4-rows).
    kinds = ("text", *INTEGER, "uuid in text", "number in text", *(["number"] if is_integer_as_float(column) else []))
    return column.share(*kinds) >= 0.9 and all(len(text) <= 400 and not _NOT_AN_ID.match(text) for text in column.texts)


def is_integer_as_float(column: Column) -> bool:
    """Whether values are integers that some program wrote as `42.0` or `1e17`, all of them or some."""
    floats = column.matching(_WHOLE)
    return floats > 0 and floats + column.share(*INTEGER) >= 0.9


def _could_be_id(column: Column) -> bool:
    """Whether values alone look like ids: not sentences, and not a few categories, unless with digits (`person-1`)."""
    many = len(column.texts) > 10 or 3 * len(column.texts) > len(column.values) or column.matching(_NUMBERED) >= MOSTLY
    return many and all(len(text) <= 64 and " " not in text for text in column.texts)


def keys_in(columns: Iterable[Column], *, likely: bool = True) -> list[Column]:
    """The columns that may be a row's own id, the best first; `likely`: also names that only end as ids do, and columns
    of different codes."""
    found = [column for column in columns if _fits_id(column) and not _is_of_another(column)]
    usual = named(found, _KEY)
    if not likely:
        return usual
    ending = [one for one in found if one not in usual and is_named_as_key(one)]
    codes = [one for one in found if len(one.texts) == one.of and one.matching(_CODE) == 1]
    return [*usual, *ending, *(one for one in codes if one not in usual and one not in ending)]


def key_in(columns: Iterable[Column], is_unique: Callable[[Column], bool], rows: int) -> Column | None:
    """The column with the own id of each of these rows: no two share a value. In few rows only its name shows it."""
    likely = keys_in(columns)
    usual = keys_in(likely, likely=False)
    return next((one for one in likely if is_unique(one) and (rows >= ENOUGH_ROWS or one in usual)), None)


def is_named_as_key(column: Column) -> bool:
    """Whether a column's name ends as those of ids do."""
    return bool(_LIKELY_KEY.search(column.name))


def _is_of_another(column: Column) -> bool:
    """Whether this identifies an object that is not an event: a person, or an object outside the row itself."""
    return column.name in _OF_AN_OBJECT and (len(column.steps) > 2 or bool(_kind_of_id(_id_name(column))))
