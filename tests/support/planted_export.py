"""An export of two years with every fault that a plan should find by itself, and its clean twin.

One project of a shop: about 70,000 rows (the twin has 50,000) of 4,000 people who sleep at night, in files of half a
month each. Times are New York's wall clock, without an offset. The same seed gives the same bytes; the twin has the
same rows but for the faults.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar

import msgspec

SEED = 20231231
ZONE = "America/New_York"
FIRST, LAST = date(2022, 1, 1), date(2023, 12, 31)
A_DAY = 70
PEOPLE = 4_000
NAMES = ("Viewed", "Searched", "Added", "Purchase")
HOURS = (2, 1, 1, 1, 1, 2, 5, 9, 13, 15, 16, 17, 18, 17, 16, 16, 17, 19, 21, 22, 20, 15, 9, 4)
"""How usual each hour of day is."""
_LETTERS = "".join(Random(SEED).choices("abcdefghijklmnopqrstuvwxyz ", k=4_000))
_HOURS = [hour for hour, share in enumerate(HOURS) for _ in range(share)]
_NAMES = [name for name, share in zip(NAMES, (60, 20, 12, 8), strict=True) for _ in range(share)]


class Fault(NamedTuple):
    """What is planted, the check that has to find it, and what its finding has to name; "" where that is open."""

    planted: str
    check: str
    names: str = ""


EMPTY = date(2022, 3, 7), date(2022, 3, 13)
SPIKE = date(2022, 7, 20)
RENAMED = date(2022, 11, 1)
TEXTS = date(2022, 12, 1)
NULLS = date(2023, 2, 1)
LEVEL = date(2023, 6, 5)
FAST = date(2023, 8, 15)
CLOCK = date(2023, 9, 1)
MISSING = date(2022, 5, 1), date(2022, 5, 15)
OVERLAPPING = date(2022, 9, 16)

FAULTS = (
    Fault(
        "a week without events",
        "empty_days",
        "2022-03-08 to 2022-03-13 (6 days), which is 2022-03-07 to 2022-03-13 (7 days) on",
    ),
    Fault("a day of ten times its median", "spike", "2022-07-20"),
    Fault("a level that doubles and stays", "level", "2023-06-05"),
    Fault("Purchase becomes purchase", "renamed_event", "Purchase from 2022-01-01 until 2022-11-01"),
    Fault("Added and added at one time", "similar_names", "added"),
    Fault("a property of mixed types", "mixed_types", "price"),
    Fault("numbers that become texts", "numbers_as_text", "rating"),
    Fault("an amount that is always a text", "amounts_as_text", "quantity"),
    Fault("integers beyond 2^53", "unsafe_integer", "order"),
    Fault("names of properties that contain ids", "property_names", "seen_"),
    Fault("texts cut at 255 characters", "cut_values", "comment"),
    Fault("a null rate that jumps", "null_rate", "campaign"),
    Fault("the clock of another zone from a month on", "clock_jump", "2023-09-01 on, times look 9 hours late: 18,"),
    Fault("one id with 1,200 events in ten seconds", "inhuman_rate", "u-1 "),
    Fault("the same event again with another uuid", "near_duplicate"),
    Fault("anonymous people who never return", "one_day_ids"),
    Fault("a file that is missing", "missing_files", "2022-05-01 to 2022-05-15 (15 days)"),
)
"""Every fault of the export that a check finds, once. A file of copies alone is a count: they are left out."""

Row = dict[str, Any]
T = TypeVar("T")


def write_export(folder: Path, *, faulty: bool) -> Path:
    """Write the export, or with `faulty=False` its clean twin, into a folder."""
    folder.mkdir(parents=True)
    rng = Random(SEED)
    for first, last in _periods():
        rows = [row for day in _days(first, last) for row in _day(rng, day, faulty)]
        if faulty and first == MISSING[0]:
            continue
        _write(folder, first, last, rows)
        if faulty and first == OVERLAPPING:
            again = first + timedelta(days=7)
            _write(folder, again, last + timedelta(days=7), [row for row in rows if row["at"] >= str(again)])
    return folder


def _periods() -> Iterator[tuple[date, date]]:
    """The first and the second half of each month."""
    month = FIRST
    while month <= LAST:
        following = (month.replace(day=28) + timedelta(days=4)).replace(day=1)
        middle = month.replace(day=16)
        yield month, middle - timedelta(days=1)
        yield middle, following - timedelta(days=1)
        month = following


def _days(first: date, last: date) -> Iterator[date]:
    for number in range((last - first).days + 1):
        yield first + timedelta(days=number)


def _write(folder: Path, first: date, last: date, rows: list[Row]) -> None:
    (folder / f"events_{first}_{last}.jsonl").write_bytes(msgspec.json.Encoder().encode_lines(rows))


def _day(rng: Random, day: date, faulty: bool) -> Iterator[Row]:
    """The rows of one day. Both twins draw the same numbers, so what is not planted is the same."""
    count = int(A_DAY * (0.85 if day.weekday() >= 5 else 1.06) * rng.uniform(0.93, 1.07))
    rows = [_row(rng, day, number) for number in range(count)]
    if not faulty:
        yield from rows
        return
    planted = Random(f"{SEED} {day}")
    if EMPTY[0] <= day <= EMPTY[1]:
        return
    if day == SPIKE:
        rows += [_row(planted, day, count + number) for number in range(9 * count)]
    if day >= LEVEL:
        rows += [_row(planted, day, count + number) for number in range(int(1.1 * count))]
    if day == FAST:
        at = datetime(day.year, day.month, day.day, 15, 0, 0)
        rows += [
            _row(planted, day, 50_000 + number)
            | {"user": "u-1", "at": (at + timedelta(seconds=number // 120)).isoformat()}
            for number in range(1_200)
        ]
    for number, row in enumerate(rows):
        _spoil(planted, day, number, row)
        yield row
        if planted.random() < 0.02:
            yield row | {"id": _uuid(day, 100_000 + number)}


def _row(rng: Random, day: date, number: int) -> Row:
    hour = _one(rng, _HOURS)
    if day.weekday() == 6 and hour in (1, 2):
        hour = 3  # on two Sundays of a year, the clock skips or repeats an hour
    second = int(rng.random() * 3600)
    return {
        "event": _one(rng, _NAMES),
        "user": f"u-{int(PEOPLE * rng.random() ** 2)}",
        "device": "",
        "at": f"{day}T{hour:02d}:{second // 60:02d}:{second % 60:02d}",
        "id": _uuid(day, number),
        "price": int(rng.random() * 9_000) / 100,
        "quantity": 1 + int(rng.random() * 8),
        "rating": 1 + int(rng.random() * 5),
        "order": int(rng.random() * 10**9),
        "comment": _comment(rng),
        "campaign": None if rng.random() < 0.03 else _one(rng, ("spring", "mail", "direct")),
        "details": {"color": _one(rng, ("red", "blue")), "size": _one(rng, "SML")},
    }


def _comment(rng: Random) -> str:
    """A text, often short, of up to some hundred characters."""
    start = int(rng.random() * len(_LETTERS) / 2)
    return _LETTERS[start : start + 5 + int(rng.expovariate(1 / 60))]


def _one(rng: Random, some: Sequence[T]) -> T:
    return some[int(rng.random() * len(some))]


def _spoil(rng: Random, day: date, number: int, row: Row) -> None:
    """Plant in one row the faults of rows."""
    if day >= RENAMED and row["event"] == "Purchase":
        row["event"] = "purchase"
    if row["event"] == "Added" and rng.random() < 0.1:
        row["event"] = "added"
    if rng.random() < 0.05:
        row["price"] = "unknown"
    row["quantity"] = str(row["quantity"])
    if day >= TEXTS:
        row["rating"] = str(row["rating"])
    if rng.random() < 0.01:
        row["order"] += 2**53 + 1
    if rng.random() < 0.1:
        row["details"] |= {f"item_{rng.randrange(10**6)}": 1}
        row[f"seen_{rng.randrange(10**6)}"] = True
    row["comment"] = row["comment"][:255]
    if day >= NULLS and rng.random() < 0.5:
        row["campaign"] = None
    if day >= CLOCK:
        row["at"] = (datetime.fromisoformat(row["at"]) + timedelta(hours=9)).isoformat()
    if day != FAST and rng.random() < 0.7:
        row["user"], row["device"] = "", f"once-{day}-{number}"


def _uuid(day: date, number: int) -> str:
    """An id as a source gives it: different for each row."""
    digits = f"{(day.toordinal() * 1_000_003 + number) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128:032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:]}"
