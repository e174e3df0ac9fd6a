"""Times: read exactly, and written in one format.

A time is an integer: microseconds since 1970 in UTC. Nothing here rounds through a float, or reads the host's
clock or zone. A *wall* time is the reading of a local clock, counted as if that clock were in UTC;
`pipeline.zone_clock` converts it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

MILLISECONDS_FROM = 10_000_000_000
"""Unit `auto`: a greater number is milliseconds, else seconds; the service's importer has the same limit
(docs/know/service.md#own-importer-mixpanel). In seconds it is the year 2286, in milliseconds April 1970."""
MICROSECONDS_FROM = 100_000_000_000_000
"""Unit `auto`: a greater number is microseconds. In milliseconds it is the year 5138, in microseconds March 1973."""

UNITS = {"s": SECOND, "ms": 1_000, "us": 1}
"""Microseconds in one of each unit; `ns` and `auto` are handled apart."""
_PLACES = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""The power of ten of each unit that is a second."""
UNIT_NAMES = {
    "s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds",
    "auto": "seconds, milliseconds or microseconds",
}  # fmt: skip

WITHOUT_OFFSET = "a time without an offset; name the zone of its clock with --timezone"
"""The error for a time whose zone only the operator can know."""
_CACHED = 1 << 16


class BadTime(ValueError):
    """A time that cannot be read; it becomes a reject with this code."""

    code = "bad_timestamp"


class RoundedTime(BadTime):
    """A count since 1970 whose last digits a spreadsheet rounded off."""

    code = "rounded_number"


class Reading(NamedTuple):
    """A time as written: `us` is UTC if `utc`, else a wall time; `truncated`: digits below 1 µs were removed."""

    us: int
    utc: bool
    truncated: bool


# --- ISO 8601 ---------------------------------------------------------------------------------------------

_DATE_TEXT = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MINUTE_TEXT = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)", re.ASCII)
_ENDING_TEXT = re.compile(r"(?::([0-5]\d)(?:\.(\d+))?)?(Z|([+-])(\d\d)(?::([0-5]\d))?)?", re.ASCII)
_SPACED_ENDING_TEXT = re.compile(r"(?::([0-5]\d)(?:\.(\d+))?)?( ?(?:Z|UTC)| ?([+-])(\d\d)(?::?([0-5]\d))?)?", re.ASCII)
_days: dict[str, int] = {}
_CLOCK = {f"{minute // 60:02d}:{minute % 60:02d}": minute * MINUTE for minute in range(1_440)}
_SECOND_TEXT = {f":{second:02d}": second * SECOND for second in range(60)}
_THREE_DIGITS = {f"{number:03d}": number for number in range(1_000)}


def read_iso(text: str, space: bool = False) -> Reading:
    """Read `YYYY-MM-DDTHH:MM[:SS[.fff…]][Z|±HH[:MM]]`.

    `space` also allows a space for the T, and the offsets that warehouses then write after it: ` UTC` (BigQuery) and
    ` +0000` (Snowflake).
    Strict, because a lenient reader turns a broken time into a plausible wrong one. Raises BadTime.
    """
    day, clock = _days.get(text[:10]), _CLOCK.get(text[11:16])
    if day is None or clock is None or text[10] not in "T ":
        start = _read_minute(text)
    else:
        start = day + clock
        if (ending := _frequent_ending(text[16:])) is not None and (space or text[10] == "T"):
            return Reading(start + ending[0], ending[1], False)
    spaced = space and text[10] == " "
    ending_match = (_SPACED_ENDING_TEXT if spaced else _ENDING_TEXT).fullmatch(text, 16)
    if ending_match is None or (text[10] == " " and not space):
        raise BadTime(f"not an ISO 8601 time: {text[:60]!r}")
    second, fraction, zone, sign, hours, minutes = ending_match.groups()
    us = start
    truncated = False
    if second is not None:
        us += int(second) * SECOND
        if fraction is not None:
            us += int(fraction[:6].ljust(6, "0"))
            truncated = len(fraction) > 6 and fraction[6:].strip("0") != ""
    if zone is None:
        return Reading(us, False, truncated)
    if sign is not None:
        if hours > "23":
            raise BadTime(f"an offset from UTC has at most 23 hours: {text[:60]!r}")
        offset = int(hours) * HOUR + int(minutes or 0) * MINUTE
        us += -offset if sign == "+" else offset
    return Reading(us, True, truncated)


def read_iso_or_date(text: str, space: bool = False) -> Reading:
    """Like `read_iso`, but also reads `YYYY-MM-DD`: its midnight, in no zone."""
    is_date = _DATE_TEXT.fullmatch(text) is not None
    return Reading(_read_minute(f"{text}T00:00"), False, False) if is_date else read_iso(text, space)


def _frequent_ending(ending: str) -> tuple[int, bool] | None:
    """(µs, whether in UTC) of `:SS`, `:SS.fff` or `:SS.ffffff`, each with or without `Z`, from tables; else None."""
    us = _SECOND_TEXT.get(ending[:3])
    if us is None:
        return None
    utc = ending[-1] == "Z"
    digits = ending[3:-1] if utc else ending[3:]
    if not digits:
        return us, utc
    thousandths = _THREE_DIGITS.get(digits[1:4])
    if thousandths is None or digits[0] != ".":
        return None
    if len(digits) == 4:
        return us + thousandths * 1_000, utc
    millionths = _THREE_DIGITS.get(digits[4:])
    return None if millionths is None else (us + thousandths * 1_000 + millionths, utc)


def _read_minute(text: str) -> int:
    match = _MINUTE_TEXT.match(text)
    if match is None and _DATE_TEXT.fullmatch(text):
        raise BadTime(
            f"{text!r} is a date without a time of day; `date: yes` of the clock in the mapping reads it as midnight"
        )
    if match is None:
        raise BadTime(f"not an ISO 8601 time: {text[:60]!r}{unit_hint(text)}")
    try:
        year, month, day, hour, minute = (int(digits) for digits in match.groups())
        start = wall_of(datetime(year, month, day, hour, minute))
    except ValueError as error:
        raise BadTime(f"no such time: {text[:60]!r} ({error})") from None
    if len(_days) >= _CACHED:
        _days.clear()
    _days[text[:10]] = start - hour * HOUR - minute * MINUTE
    return start


# --- Seconds since 1970 -----------------------------------------------------------------------------------

_WHOLE = re.compile(r"-?\d{1,30}", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,30}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,2})?", re.ASCII)


def lost_digits(text: str) -> int:
    """How many digits before the decimal point a spreadsheet rounded off: 7 for `1.60946E+12`, 0 for other text.

    Spreadsheets and printf write a plus after the E, and only some of the digits. Programs that write the shortest
    exact form (Java: `1.609459200123E12`) write no plus.
    """
    match = _ROUNDED.fullmatch(text) if "+" in text else None
    return max(int(match[2]) - len(match[1] or ""), 0) if match is not None else 0


_ROUNDED = re.compile(r"-?\d(?:[.,](\d+))?[eE]\+(\d\d)", re.ASCII)


def read_epoch(number: str | int | float, unit: str = "s") -> Reading:
    """Read a count of `unit` (s, ms, us, ns, auto) since 1970, exactly: `1721228056.002` has 2 ms, not 1.99….

    Digits below a microsecond are removed (towards the past), and `truncated` is set. Raises BadTime.
    """
    value: int | Decimal
    if unit in UNITS and (isinstance(number, int) or (isinstance(number, str) and _WHOLE.fullmatch(number))):
        return Reading(int(number) * UNITS[unit], True, False)
    if isinstance(number, int):
        value = number
    else:
        text = repr(number) if isinstance(number, float) else str(number).strip()
        if _WHOLE.fullmatch(text):
            value = int(text)
        elif _NUMBER.fullmatch(text):
            value = Decimal(text)
        else:
            raise BadTime(f"not a number of {UNIT_NAMES[unit]} since 1970: {text[:60]!r}")
    if unit == "auto":
        if -MILLISECONDS_FROM <= value <= MILLISECONDS_FROM:
            unit = "s"
        else:
            unit = "ms" if -MICROSECONDS_FROM <= value <= MICROSECONDS_FROM else "us"
    if isinstance(number, str) and lost_digits(text) > _PLACES[unit]:
        raise RoundedTime(f"{text[:60]!r} has lost its last digits: export it again, without a spreadsheet")
    if unit == "ns":
        top, bottom = 1, 1_000
    else:
        top, bottom = UNITS[unit], 1
    if isinstance(value, Decimal):
        numerator, denominator = value.as_integer_ratio()
    else:
        numerator, denominator = value, 1
    us, remainder = divmod(numerator * top, denominator * bottom)
    return Reading(us, True, remainder != 0)


_COUNT = re.compile(r"\d{9,19}(?:\.\d+)?", re.ASCII)
_PLAUSIBLE = range(946_684_800 * SECOND, 2_208_988_800 * SECOND)  # 2000 to 2039, which fits at most one unit


def unit_hint(text: str) -> str:
    """What to add to the error if the text is a count of some unit since 1970; "" for any other text."""
    count = int(text.partition(".")[0]) if _COUNT.fullmatch(text.strip()) else 0
    for unit, places in _PLACES.items():
        if (us := count * SECOND // 10**places) in _PLAUSIBLE:
            remedy = f"plan with --set timestamp_unit={unit}, or write `unit: {unit}` under `time` of the mapping"
            return f"; in {UNIT_NAMES[unit]} since 1970 it is {format_utc(us)[:10]}: {remedy}"
    return ""


# --- Writing ----------------------------------------------------------------------------------------------

_heads: dict[int, str] = {}
_SECONDS = tuple(f"{second:02d}" for second in range(60))
_WHOLE_SECONDS = tuple(f"{second:02d}Z" for second in range(60))
_MILLISECONDS = tuple(f".{millisecond:03d}Z" for millisecond in range(1_000))


def format_utc(us: int) -> str:
    """`2020-12-30T12:00:00Z`, with three or six digits of a fraction only if it has one.

    Raises BadTime outside the years 1 to 9999.
    """
    minute = us // 60_000_000
    rest = us - minute * 60_000_000
    try:
        head = _heads[minute]
    except KeyError:
        head = _head(minute)
    second = rest // 1_000_000
    fraction = rest - second * 1_000_000
    if not fraction:
        return head + _WHOLE_SECONDS[second]
    if fraction % 1_000:
        return f"{head}{_SECONDS[second]}.{fraction:06d}Z"
    return head + _SECONDS[second] + _MILLISECONDS[fraction // 1_000]


def utc_now() -> str:
    """The time of a record, in milliseconds: ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def is_later(time: str, than: str) -> bool:
    """Whether an instant in ISO 8601 is later than another, however many digits each has. False if either
    cannot be read."""
    try:
        return datetime.fromisoformat(time) > datetime.fromisoformat(than)
    except (ValueError, TypeError):
        return False


def _head(minute: int) -> str:
    head = moment_of(minute * MINUTE).isoformat(timespec="minutes") + ":"
    if len(_heads) >= _CACHED:
        _heads.clear()
    _heads[minute] = head
    return head


_START = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)


def wall_of(moment: datetime) -> int:
    """A naive datetime as microseconds since 1970 on its own clock."""
    return (moment - _START) // MICROSECOND


def moment_of(us: int) -> datetime:
    """The naive datetime of a wall time, or of an instant in UTC. Raises BadTime outside years 1 to 9999."""
    try:
        return _START + timedelta(microseconds=us)
    except OverflowError:
        raise BadTime(f"{us} µs since 1970 is outside the years 1 to 9999") from None
