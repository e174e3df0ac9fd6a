"""Times in a custom format, such as `31/12/2023 4:05 pm`, which spreadsheets and databases export."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from pipeline.errors import UsageError
from pipeline.native import AVAILABLE, native
from pipeline.timestamps import HOUR, MINUTE, SECOND, BadTime, Reading, unit_hint, wall_of

_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_NUMBER = re.compile("%[YymdHIMSf]")
_SHORT = [month[:3] for month in _MONTHS]
_DIRECTIVES = {
    "Y": r"(?P<Y>\d{4})",
    "y": r"(?P<y>\d\d)",
    "m": r"(?P<m>\d\d?)",
    "d": r"(?P<d>\d\d?)",
    "b": "(?P<b>(?i:" + "|".join(f"{month[:3]}(?:{month[3:]})?" for month in _MONTHS) + "))",
    "H": r"(?P<H>\d\d?)",
    "I": r"(?P<I>1[0-2]|0?[1-9])",
    "p": r"(?P<p>[AaPp][Mm])",
    "M": r"(?P<M>\d\d)",
    "S": r"(?P<S>\d\d)",
    "f": r"(?P<f>\d+)",
    "z": r"(?P<z>Z|[+-]\d\d:?\d\d)",
    "%": "%",
}

MOST_DAYS = 10_000
"""How many days a format caches."""


class TimeFormat:
    """A time format such as `%d/%m/%Y %H:%M`, read the same in every locale.

    The directives are Python's: Y y m d H I p M S f z, and b for an English month (short or whole). Unlike in Python,
    they ignore the locale, numbers that nothing separates must have all their digits, and hour 24 fits its AM or PM.
    Raises UsageError for any other directive.
    """

    def __init__(self, pattern: str) -> None:
        pieces: list[str] = []
        directives: set[str] = set()
        position = 0
        while position < len(pattern):
            letter = pattern[position]
            if letter != "%":
                pieces.append(re.escape(letter))
                position += 1
                continue
            directive = pattern[position + 1 : position + 2]
            if directive not in _DIRECTIVES or directive in directives:
                raise UsageError(
                    f"time format {pattern!r}: %{directive} is unknown or used twice",
                    hint="use %Y %y %m %d %b %H %I %p %M %S %f %z",
                )
            directives.add(directive if directive != "%" else "")
            pieces.append(_DIRECTIVES[directive])
            if _NUMBER.match(pattern, position + 2) or _NUMBER.fullmatch(pattern, max(0, position - 2), position):
                pieces[-1] = pieces[-1].replace(r"\d\d?", r"\d\d").replace("0?", "0")  # nothing separates them
            position += 2
        if not directives & {"Y", "y"} or not directives & {"m", "b"} or "d" not in directives:
            raise UsageError(
                f"time format {pattern!r} lacks a year, a month or a day",
                hint="for example %Y-%m-%d %H:%M:%S",
            )
        self.pattern = pattern
        self._shape = re.compile("".join(pieces), re.ASCII)
        self._days: dict[tuple[str | None, ...], int] = {}
        self._date = [letter for letter in "Yymbd" if letter in directives]
        """The directives of the date, and whether there are only these and the hour, minute and second."""
        self._directives = directives
        self._usual = directives <= set("YymbdHMS") and {"H", "M", "S"} <= directives

    @property
    def reader(self) -> Callable[[str], Reading]:
        """`read`, from the C part if the format has only numbers of a fixed width."""
        plain = self.pattern.isascii() and {"Y", "m", "d"} <= self._directives <= set("YmdHMS")
        return native.Reader("format", self.read, format=self.pattern) if AVAILABLE and plain else self.read

    def read(self, text: str) -> Reading:
        """Read one time. A two-digit year below 69 is 20xx. Raises BadTime."""
        match = self._shape.fullmatch(text.strip())
        if match is None:
            raise BadTime(f"does not match {self.pattern!r}: {text[:60]!r}{unit_hint(text)}")
        if self._usual and (day := self._days.get(match.group(*self._date))) is not None:
            hour, minute, second = map(int, match.group("H", "M", "S"))
            if hour < 24 and minute < 60 and second < 60:
                return Reading(day + (hour * 3_600 + minute * 60 + second) * SECOND, False, False)
        part = match.groupdict()
        try:
            year = int(part.get("Y") or 0) or _century(int(part.get("y") or 0))
            month = int(part.get("m") or 0) or _SHORT.index((part.get("b") or "")[:3].lower()) + 1
            hour, half = int(part.get("H") or 0), (part.get("p") or "").lower()
            if part.get("I"):
                hour = int(part["I"]) % 12 + (12 if half == "pm" else 0)
            elif half and (half == "pm") != (hour >= 12):
                raise ValueError(f"{hour} o'clock is not {half.upper()}")
            moment = datetime(year, month, int(part["d"]), hour, int(part.get("M") or 0), int(part.get("S") or 0))
        except ValueError as error:
            raise BadTime(f"no such time: {text[:60]!r} ({error})") from None
        if self._usual:
            if len(self._days) >= MOST_DAYS:
                self._days.clear()
            self._days[match.group(*self._date)] = wall_of(datetime(moment.year, moment.month, moment.day))
        fraction = part.get("f") or ""
        us = wall_of(moment) + int(fraction[:6].ljust(6, "0"))
        truncated = fraction[6:].strip("0") != ""
        zone = part.get("z")
        if zone is None:
            return Reading(us, False, truncated)
        if zone != "Z":
            digits = zone[1:].replace(":", "")
            offset = int(digits[:2]) * HOUR + int(digits[2:]) * MINUTE
            us += -offset if zone[0] == "+" else offset
        return Reading(us, True, truncated)


def _century(year: int) -> int:
    return year + (2000 if year < 69 else 1900)
