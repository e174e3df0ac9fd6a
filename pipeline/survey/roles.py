"""Find the fields with the event's name, its time, its person and the row's id in some rows of an unknown export.

Only this module knows the names of fields, for `survey`, `mapping new` and recognition. Known names come first, in the
order in which the tools trust their own fields (docs/know/exports.md#mixpanel-rows, #amplitude-rows,
#segment-messages, #ga4-rows, #posthog-export); a name counts only if its values fit. If no name is known, the values
decide. The result is shown to a person and starts a mapping; it never decides what is sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from pipeline import values
from pipeline.survey.clock import ENOUGH, MOSTLY, Clock, clock_of
from pipeline.survey.columns import INTEGER, LIST, OBJECTS, Column, Steps, columns_of, spelled
from pipeline.survey.shape import DISTINCT_ID, EVENT, TIMESTAMP, UUID
from pipeline.timestamps import lost_digits
from pipeline.values import Record, Value

PROBE_ROWS = 500
"""How many rows of a part are read to guess the roles of its fields."""

_EVENT = ("event_name", "mp_event_name", "event_text", "event", "event_type")
"""Names in the spelling of `Column.name`, here and below."""
_LIKELY_EVENT = ("name", "action", "activity", "type", "verb", "operation", "e", "n")
"""Chosen only if a few different strings repeat; the same goes for a name with one of these words."""
_EVENT_WORDS = re.compile(r"(?:^|_)(?:event|action|activity|verb)(?:_|$)")
_OWN_EVENT = re.compile(r"^event_(?:custom|display)_name$|^(?:custom|track)_event(?:_name)?$")
"""Names that only some events have, next to a kind that all have, such as `custom`."""
_ANSWER = re.compile(r"true|false|yes|no|[01tfyn]", re.IGNORECASE)
_TIME = (
    "event_time", "event_timestamp", "timestamp", "original_timestamp", "time", "true_tstamp", "derived_tstamp",
    "browser_timestamp", "collector_tstamp", "client_event_time", "occurred_at", "ts", "t", "datetime", "created_at",
    "date_time", "date",
)  # fmt: skip
_TIME_WORDS = re.compile(
    r"time|date|tstamp|when|moment|(?:^|_)(?:ts|at|on|am|created|added|logged|msec"
    r"|zeit|datum|fecha|hora)(?:_|$)"
)
_START_WORDS = re.compile(r"first|start|begin|created|occurred|ordered|placed")
_LATER_WORDS = re.compile(
    r"last|end|updat|modif|sent|receiv|process|load|expire|due|delet|synced|import|export|birth|join"
)
_RECEIVED = (
    "mp_api_timestamp_ms", "mp_processing_time_ms", "server_received_time", "server_upload_time", "received_at",
    "collector_tstamp", "ingested_at", "loaded_at", "processed_at", "created_at",
)  # fmt: skip
_ENVELOPE = frozenset(("topic", "partition", "offset"))
_ENVELOPE_TIME = ("timestamp", "kafka_timestamp", "time")
_USER = (
    "distinct_id", "external_user_id", "customer_user_id", "user_app_key", "user_id",
    "userid", "customer_id", "identity", "uid", "member_id", "person_id",
    "profile_id", "contact_id", "subscriber_id", "account_user_id",
)  # fmt: skip
_LIKELY_USER = re.compile(
    r"(?:^|_)(?:p|users?|customers?|members?|persons?|people|profiles?|contacts?|clients?|subscribers?|buyers?|players?"
    r"|updaters?|creators?|assignees?|submitters?|senders?|recipients?|visitors?|students?|patients?|guests?|leads?|employees?|drivers?|riders?|owners?|authors?|actors?|requesters?|kunden?|nutzer|benutzer"
    r"|clientes?|utilisateurs?|usuarios?)(?:_?(?:id|uuid|guid|key|no|nr|num|number|ref|hash|code|nummer))?$|^username$|^login$|(?:^|_)(?:developer|user|customer)_identity$"
)
_ANONYMOUS = re.compile(
    r"anon|(?:^|_)device_?id$|^did$|pseudo|domain_userid|network_userid|visitor|^stable_id$|cookie|fingerprint"
    r"|^client_id$|^cid$|install(?:ation)?_id$|(?:^|_)(?:idf[av]|gaid|aaid)$|^(?:gps_)?adid$|^(?:apps_?flyer|adjust|advertising|android|firebase)_id$|^muid$|^mpid$|^object_id$|^browser_id$"
)
_SESSION = re.compile(r"sess(?:ion)?_?id$|^visit_?id$|^sid$|^session$")
_EMAIL = re.compile(r"(?:^|_)e?mail(?:_address)?$|^e_mail$")
_KEY = (
    "uuid", "insert_id", "message_id", "event_id", "event_uuid", "hit_id", "transaction_id", "id", "row_id", "log_id",
)  # fmt: skip
_LIKELY_KEY = re.compile(r"(?:_(?:id|uuid|guid|key|no|nr|number|nummer))$|^(?:guid|number|nr|no)$")
_OBJECT = (
    "properties", "event_properties", "props", "event_props", "params", "event_params", "custom_attributes",
    "event_attributes", "attributes", "data_fields", "metadata", "event_data",
    "data", "payload", "segmentation", "sg", "body",
)  # fmt: skip
_AMOUNT = re.compile(
    r"(?:^|_)(?:amount|price|total|subtotal|revenue|cost|fee|tax|charge|paid|sum|value|balance|betrag|preis|gmv|cents?"
    r"|micros|pence)(?:_|$)|_(?:cents?|micros)$"
)
_SMALL_UNITS = (
    (re.compile(r"micro|_e6$"), 1_000_000),
    (re.compile(r"cents?(?:_|$)|pence|minor|_ct$"), 100),
)
_OF_AN_OBJECT = frozenset(("id", "uuid", "guid", "key", "email", "username"))
"""Members that are ids of the object they are in: `user.id`."""
_WRAPPERS = frozenset(("data", "attributes", "properties", "relationships", "object"))
_WHOLE = re.compile(r"-?[0-9]+\.0$|-?[0-9](?:\.[0-9]+)?[eE]\+?[0-9]{2}$")
_NOT_AN_ID = re.compile(r"https?://|mozilla/|\{", re.IGNORECASE)

USER, ANONYMOUS, EMAIL, SESSION = "user", "anonymous", "email", "session"
"""What an id identifies, the best first."""


class Roles(msgspec.Struct, frozen=True):
    """The fields of one part by role; "" and None if no field has the role."""

    event: str = ""
    distinct_id: str = ""
    uuid: str = ""
    time: Clock | None = None
    received: Clock | None = None

    def by_path(self) -> dict[str, str]:
        """Role by path, for the roles that are shown."""
        time = self.time.path if self.time else ""
        pairs = ((self.event, EVENT), (self.distinct_id, DISTINCT_ID), (time, TIMESTAMP), (self.uuid, UUID))
        return {path: role for path, role in pairs if path}


def look_up(record: Record, path: str, opened: dict[str, Record]) -> Value:
    """The value at a path of one or two steps; a column with exactly that name wins. `opened` are the row's objects."""
    if path in record:
        return record[path]
    outer, dot, inner = path.partition(".")
    return opened[outer].get(inner) if dot and outer in opened else None


def guess(records: Sequence[Record]) -> Roles:
    """The roles of a part's fields, from some of its rows."""
    columns = [column for column in columns_of(records).values() if column.values]
    times = clocks_in(columns)
    time = times[0] if times else None
    others = [column for column in columns if time is None or column is not time.column]
    received = received_in(others)
    events = [column for column in events_in(others) if received is None or column is not received.column]
    people = [one.column for one in people_in(others) if one.known]
    return Roles(
        _path(events), _path(people), _path(keys_in(columns, likely=False)),
        time.clock if time else None, received.clock if received else None,
    )  # fmt: skip


def _path(columns: Sequence[Column]) -> str:
    return columns[0].path if columns else ""


# -- events --------------------------------------------------------------------------------------------


def events_in(columns: Iterable[Column]) -> list[Column]:
    """The columns with event names, the best first: a known name with strings, or a likely name with a few different
    strings that repeat."""
    found = list(columns)
    known = [
        column for column in _named(found, _EVENT)
        if column.is_text and not _all_different(column) and not _is_answer(column)
    ]  # fmt: skip
    own = [column for column in found if _OWN_EVENT.search(column.name) and is_category(column)]
    likely = [*_named(found, _LIKELY_EVENT), *(column for column in found if _EVENT_WORDS.search(column.name))]
    return list(
        dict.fromkeys(
            [*own, *known, *(column for column in likely if is_category(column) and not _is_constant(column))]
        )
    )


def is_category(column: Column) -> bool:
    """A few short strings that repeat, as event names do."""
    short = all(len(text) <= 100 for text in column.texts)
    return short and column.is_text and column.repeats and not _is_answer(column) and column.matching(_FIGURES) < MOSTLY


def _is_constant(column: Column) -> bool:
    """Whether all rows have one value: it is the kind of a row, and rarely the name of an event."""
    return len(column.texts) == 1 and not column.blank and len(column.values) >= 3


def _is_answer(column: Column) -> bool:
    """Whether all values say yes or no."""
    return bool(column.texts) and all(map(_ANSWER.fullmatch, column.texts))


def _all_different(column: Column) -> bool:
    return len(column.values) >= 50 and len(column.texts) > 0.9 * len(column.values)


# -- times ---------------------------------------------------------------------------------------------


class TimeColumn(msgspec.Struct, frozen=True):
    """A column of times. `known`: its name is that of a time, not only its values look like times."""

    column: Column
    clock: Clock
    known: bool


def clocks_in(columns: Iterable[Column]) -> list[TimeColumn]:
    """The columns of times, the best first: known names in their order, then names that suggest times, then any."""
    found = [column for column in columns if column.values and column.share(*OBJECTS, *LIST) < MOSTLY]
    named = _named(found, _TIME)
    suggested = sorted(
        (column for column in found if _TIME_WORDS.search(column.name)),
        key=lambda one: (bool(_LATER_WORDS.search(one.name)), not _START_WORDS.search(one.name), one.blank),
    )
    # In columns without such a name, numbers that look like times are more often ids.
    others = sorted(found, key=lambda one: (one.name in _RECEIVED, one.share(*INTEGER) > MOSTLY, one.blank))
    clocks: dict[Steps, TimeColumn] = {}
    passes = (
        (named, ENOUGH, True), (named, MOSTLY, True), (suggested, ENOUGH, True), (others, ENOUGH, False),
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
    for column in [*([envelope] if envelope is not None else []), *_named(some, _RECEIVED)]:
        clock = clock_of(column.path, column.values)
        if clock is not None and clock.has_hours:
            return TimeColumn(column, clock, True)
    return None


# -- people and keys -----------------------------------------------------------------------------------


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
    addresses = [column for column in plain if column.matching(_IP) >= 0.9]
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
    addresses = [column for column in found if column.matching(_IP) >= 0.9]
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
    """The columns that may be a row's own id, the best first; `likely`: also names that only end as ids do."""
    found = [column for column in columns if _fits_id(column) and not _is_of_another(column)]
    named = _named(found, _KEY)
    return [*named, *(one for one in found if likely and one not in named and _LIKELY_KEY.search(one.name))]


def _is_of_another(column: Column) -> bool:
    """Whether this identifies an object that is not an event: a person, or an object outside the row itself."""
    return column.name in _OF_AN_OBJECT and (len(column.steps) > 2 or bool(_kind_of_id(_id_name(column))))


# -- properties ----------------------------------------------------------------------------------------


def properties_in(columns: Iterable[Column]) -> Column | None:
    """The column with the object, or the list of keys and values, that holds an event's own properties."""

    def fits(one: Column) -> bool:
        return len(one.steps) == 1 and (one.share(*OBJECTS) >= 0.9 or entry_keys(one) is not None)

    return next((column for column in _named(list(columns), _OBJECT) if fits(column)), None)


def entry_keys(column: Column) -> tuple[str, tuple[str, ...]] | None:
    """For lists of objects with a name and values: the member with the name, and the paths of values."""
    names: dict[str, None] = {}
    paths: dict[str, None] = {}
    if column.share(*LIST) < 0.9:
        return None
    for value in column.values[:100]:
        for item in values.items(value) or []:
            try:
                members = values.opened(item) or {}
            except values.BadValue:
                return None
            key = next((name for name in ("key", "name", "k") if name in members), None)
            if key is None:
                return None
            names[key] = None
            for name, inner in members.items():
                if name == key or not (name == "v" or "value" in name):
                    continue
                try:
                    nested = values.opened(inner) or {}
                except values.BadValue:
                    paths[name] = None
                    continue
                paths.update(dict.fromkeys(f"{name}/{member}" for member in nested if "value" in member))
    return (next(iter(names)), tuple(paths)) if len(names) == 1 and paths else None


def small_unit(column: Column) -> int | None:
    """For whole numbers that may be amounts in a small unit of money: how many make one unit, 100 or 1,000,000."""
    if not column.values or not _AMOUNT.search(column.name) or column.share(*INTEGER) < 0.95:
        return None
    named = next((factor for pattern, factor in _SMALL_UNITS if pattern.search(column.name)), None)
    numbers = [abs(int(text)) for text in column.texts if re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII)]
    large = bool(numbers) and sorted(numbers)[len(numbers) // 2] >= 100
    return named or (100 if large else None)


_URL = re.compile(r"https?://", re.IGNORECASE)
_AGENT = re.compile(r"(?:Mozilla|Opera|Dalvik|okhttp)/|\S+/\d\S* CFNetwork/")
_NUMBERED, _FIGURES = re.compile(r"\S*[A-Za-z]\S*[0-9]"), re.compile(r"[-+]?[0-9.,' ]+$")
_IP = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}$|[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}$", re.ASCII)
_COUNTRY = re.compile(r"[A-Z]{2}$", re.ASCII)
_RENAMES: tuple[tuple[str, str, re.Pattern[str] | None], ...] = (
    (r"^(?:page_?|current_?|document_|full_)?ur[li]$|^page_location$|^href$", "$current_url", _URL),
    (r"^(?:page_|http_)?referr?er(?:_url)?$|^page_referr?er$", "$referrer", _URL),
    (r"user_?agent$|^ua$|^agent$", "$raw_user_agent", _AGENT),
    (r"(?:^|_)ip(?:_?addr(?:ess)?)?$|ipaddress$", "$ip", _IP),
    (r"^(?:geo_)?country(?:_?code)?$|^country_iso$|^land$", "$geoip_country_code", _COUNTRY),
    (r"^(?:geo_)?country(?:_name)?$", "$geoip_country_name", None),
    (r"^(?:geo_)?city(?:_name)?$", "$geoip_city_name", None),
    (r"^browser(?:_name)?$", "$browser", None),
    (r"^os(?:_name)?$|^operating_system(?:_name)?$", "$os", None),
    (r"^device_type$|^device_category$", "$device_type", None),
)
"""Names, what the service calls them, and how their values begin."""


def renames_in(columns: Iterable[Column]) -> dict[Steps, str]:
    """The service's names for columns: a URL, a referrer, a user agent, an address, a country. A name counts only if
    its values fit; of two columns, the first gets the name."""
    found = [column for column in columns if column.values]
    taken = {column.steps[-1] for column in found}
    renames: dict[Steps, str] = {}
    for name, new, pattern in _RENAMES:
        for column in found:
            if (
                column.steps not in renames
                and new not in taken
                and re.search(name, column.name)
                and (column.share("text") >= 0.9 if pattern is None else column.matching(pattern) >= 0.8)
            ):
                renames[column.steps] = new
                taken.add(new)
    return renames


def _named(columns: Sequence[Column], names: Sequence[str]) -> list[Column]:
    """The columns with these names: those of the row itself before members of objects, then in the order of names."""
    ranks = {name: rank for rank, name in enumerate(names)}
    chosen = (column for column in columns if column.name in ranks and column.values)
    return sorted(chosen, key=lambda one: (len(one.steps), ranks[one.name]))
