"""The product's times and its proof of a zone, compared with the model of instants."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.models.instants import Zones, allowed, iso, localized, micros, number, wall, zone_on
from tests.support.modelled import HEAD, sent

FORMS = ("%d/%m/%Y %H:%M", "%Y%m%d%H%M%S", "%d %b %Y %I:%M %p", "%m/%d/%y %H:%M:%S", "%Y-%m-%d %H:%M %p")
UNITS = ("s", "ms", "us", "ns")
MONTHS = ("Marraskuu", "Maybe", "mar", "Sept", "Januar")
ZONES = """UTC Europe/London Europe/Berlin Africa/Algiers Africa/Casablanca America/New_York America/Chicago
America/Mexico_City America/Denver America/Phoenix America/Sao_Paulo Asia/Kolkata Asia/Kathmandu Asia/Tehran
Australia/Lord_Howe Australia/Sydney Pacific/Apia America/Toronto""".split()  # noqa: SIM905
Rows = list[tuple[datetime, int]]
"""Local times, and the instants of their receipt."""


def clock(chance: Random, zone: str, near: float = 0.5) -> datetime:
    """A local time, with probability `near` one around a change of the zone's clock, if its year has one."""
    first = datetime(chance.randint(2006, 2024), 1, 1)
    days = [first + timedelta(days=day) for day in range(365)]
    shift = [day.replace(tzinfo=ZoneInfo(zone)).utcoffset() for day in days]
    changes = [day for day, before, after in zip(days, shift, shift[1:], strict=False) if before != after]
    if changes and chance.random() < near:
        return chance.choice(changes) + timedelta(seconds=chance.randrange(5 * 3600))
    return chance.choice(days) + timedelta(seconds=chance.randrange(86400))


def altered(chance: Random, text: str, form: str) -> str:
    """A string that may no longer be a time of this form."""
    kind, at = chance.randrange(4), chance.randrange(len(text))
    if "%b" in form and kind < 2:
        return text.replace(text.split(" ")[1], chance.choice(MONTHS))
    if "%p" in form and kind < 3:
        return f"{text[: text.index(':') - 2]}{chance.randint(10, 24)}{text[text.index(':') :]}"
    return text[:at] + text[at + 1 :] if kind else text + chance.choice("x0")


def compare_times(times: list[tuple[str, str, int | None]], zones: Zones) -> None:
    """Raise AssertionError if a time (its form, its string, when it was received) is another instant than the model's.
    A string that its form would not write may be refused."""
    read: dict[int, tuple[int | None, str, bool]] = {}
    for at, (form, text, received) in enumerate(times):
        shown = iso(text) if form == "iso" else wall(text, form) if form in FORMS else None
        instant, code = localized(shown, zones, received) if shown else (None, "")
        plain = form not in FORMS or (shown is not None and shown.strftime(form) == text)
        read[at] = number(text, form) if form in UNITS else instant, code, plain
    local: dict[str, Any] = {form: {"format": form, "unit": "format", "zone": "local"} for form in FORMS}
    kinds = local | {"iso": {"zone": "local", "space": "yes"}} | {unit: {"unit": unit} for unit in UNITS}
    time = [{"from": f"/t{at}"} | kind for at, kind in enumerate(kinds.values())]
    mapping = HEAD | {"time": time, "received": {"from": "/r", "unit": "us"}}
    rows = [{"name": "Seen", "user": "u-1", "n": at, f"t{[*kinds].index(form)}": text, "r": received}
            for at, (form, text, received) in enumerate(times)]  # fmt: skip
    setting = tuple(name if day == date.min else f"{name}@{day}" for day, name in zones)
    content = "\n".join(map(json.dumps, rows)).encode()
    plan, events = sent(mapping, {"rows.jsonl": content}, timezone=setting, max_rejects="100%")
    found = {int(event.own_properties()["n"]): micros(datetime.fromisoformat(event.timestamp)) for event in events}
    bad = [at for at, (right, _, plain) in read.items() if found.get(at) != right and (at in found or plain)]
    wrong = [f"{times[at]} is {found.get(at, 'refused')}, not {read[at][0] or 'refused'}" for at in bad]
    for code in ("ambiguous_time", "nonexistent_time"):  # exports.md and the table of codes differ on received rows
        warned = [times[at][2] is None for at in found if read[at][1] == code]
        count = next((one.count for one in plan.gates if one.name == code), 0)
        if not wrong and not sum(warned) <= count <= len(warned):
            wrong.append(f"{count} warnings {code}, of {len(warned)} rows")
    assert not wrong, f"{setting}\n" + "\n".join(wrong)


def some_times(chance: Random) -> tuple[list[tuple[str, str, int | None]], Zones]:
    """Strings of several forms, altered ones among them, and numbers, on a local clock that may change its zone."""
    zones: Zones = [(date.min, chance.choice(ZONES))]
    zones += [(date(chance.randint(2007, 2023), 7, 9), chance.choice(ZONES))] if chance.random() < 0.4 else []
    times: list[tuple[str, str, int | None]] = []
    for _ in range(80):
        form = chance.choice((*FORMS, "iso", *UNITS))
        moment = clock(chance, chance.choice(zones)[1]).replace(microsecond=chance.randrange(1_000_000))
        instant = micros(moment.replace(tzinfo=zone_on(zones, moment), fold=chance.randrange(2)))
        digits, places = f"{instant * 1000 + chance.randrange(1000)}", {"s": 9, "ms": 6, "us": 3}.get(form, 0)
        text = (
            moment.strftime(form) if form in FORMS else f"{digits[:-places]}.{digits[-places:]}" if places else digits
        )
        if form in FORMS and chance.random() < 0.4:
            text = altered(chance, text, form)
        elif form == "iso":
            offsets = ("", "", "Z", "+05:30", " UTC", " -0800", "123+00:00", "1234")
            whole = moment.isoformat(" ") + chance.choice(offsets)
            text = chance.choice([*[whole] * 9, str(moment)[:10], f"{moment:%Y}-02-30T10:00"])
        times.append((form, text, instant + chance.randint(1, 50) * 1_000_000 if chance.random() < 0.5 else None))
    return times, zones


def compare_proof(rows: Rows, zone: str) -> None:
    """Raise AssertionError if a plan of Mixpanel's rows accepts a wrong zone, or refuses a right one."""
    lines = []
    for at, (moment, received) in enumerate(rows):
        ids = {"distinct_id": "u-1", "$insert_id": f"i-{at}", "mp_processing_time_ms": received // 1000}
        lines.append(
            json.dumps({"event": "Seen", "properties": ids | {"time": micros(moment.replace(tzinfo=UTC)) // 10**6}})
        )
    plan = sent("mixpanel", {"rows.jsonl": "\n".join(lines).encode()}, timezone=(zone,)).plan
    right, stops = allowed(rows, [(date.min, zone)]), [gate for gate in plan.gates if gate.level == "stop"]
    days = f"{len(rows)} rows from {min(rows)[0]} to {max(rows)[0]}"
    assert right is not bool(stops), f"{zone} for {days}: right {right}, stops {stops}"


def zone_month(chance: Random) -> tuple[Rows, str, str]:
    """Rows of a month around a clock change, its zone, and another zone that has its offset at one end of the month."""
    true, rows, late = chance.choice(ZONES), Rows(), set[date]()
    first = clock(chance, true, near=0.9).replace(day=1, hour=0, minute=0, second=0)
    for _ in range(chance.randint(80, 240)):
        moment = first + timedelta(days=chance.randrange(28 + 3 * (first.month != 2)), seconds=chance.randrange(86400))
        instant = micros(moment.replace(tzinfo=ZoneInfo(true), fold=chance.randrange(2)))
        delay = chance.randint(900, 150_000) if chance.random() < 0.04 and moment.date() not in late else 0
        late |= {moment.date()} if delay else set()
        rows.append((moment, instant + (chance.randint(1, 25) + delay) * 1_000_000))
    for minute in range(chance.choice((0, 0, 3))):  # a few late rows, and no others, in their month
        moment = first - timedelta(days=9, minutes=minute)
        rows.append((moment, micros(moment.replace(tzinfo=ZoneInfo(true))) + 7_200_000_000))
    days = first, first + timedelta(days=27)
    ends = {zone: [day.replace(tzinfo=ZoneInfo(zone)).utcoffset() for day in days] for zone in ZONES}
    alike = [zone for zone in ZONES if (ends[zone][0] == ends[true][0]) != (ends[zone][1] == ends[true][1])]
    return rows, true, chance.choice(alike or ZONES)


def check(seed: int) -> None:
    """Compare the product with the model for this seed; an AssertionError says what differs."""
    if seed % 2:
        compare_times(*some_times(Random(seed)))
    else:
        rows, *zones = zone_month(Random(seed))
        for zone in [zone for zone in zones if allowed(rows, [(date.min, zone)]) is not None]:
            compare_proof(rows, zone)


@pytest.mark.parametrize("seed", [2, 4, 6, 10, 16, 18, 20])
def test_a_time_is_the_instant_that_its_form_and_zone_say(seed: int) -> None:
    """Instants, refused strings and the zones that receive times allow are those of the model."""
    check(seed)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("%d %b %Y %I:%M %p", "13 Nov 2007 24:34 AM"),
        ("%d %b %Y %I:%M %p", "13 Nov 2007 13:34 AM"),
        ("%d %b %Y %I:%M %p", "13 Nov 2007 0:55 AM"),
        ("%Y-%m-%d %H:%M %p", "2014-12-20 18:41 AM"),
        ("%d %b %Y %I:%M %p", "11 Marraskuu 2021 01:54 AM"),
        ("%d %b %Y %I:%M %p", "11 Maybe 2021 01:54 AM"),
        ("%d %b %Y %I:%M %p", "11 Sept 2021 01:54 AM"),
        ("%Y%m%d%H%M%S", "2016042415745"),
    ],
)
def test_a_string_of_another_form_is_refused(form: str, text: str) -> None:
    """An hour of 13 with AM or PM, one of the other half of the day, words that begin like a month, a digit too few."""
    compare_times(
        [(form, text, None), (form, datetime(2021, 2, 3, 14, 5, 6).strftime(form), None)], [(date.min, "UTC")]
    )


def month(zone: str, first: datetime) -> Rows:
    """Ten rows a day of a month, received eleven seconds later."""
    moments = [first + timedelta(minutes=144 * at) for at in range(10 * 31)]
    return [(moment, micros(moment.replace(tzinfo=ZoneInfo(zone))) + 11_000_000) for moment in moments]


@pytest.mark.parametrize(
    ("true", "candidate", "first"),
    [
        ("Europe/London", "UTC", datetime(2021, 3, 1)),
        ("America/Chicago", "America/Mexico_City", datetime(2021, 11, 1)),
        ("Europe/Berlin", "Africa/Algiers", datetime(2021, 3, 1)),
        ("America/Denver", "America/Phoenix", datetime(2021, 11, 1)),
        ("Africa/Casablanca", "Europe/London", datetime(2021, 5, 10)),
        ("Australia/Sydney", "Australia/Brisbane", datetime(2021, 4, 1)),
    ],
)
def test_a_wrong_zone_is_refused_although_few_days_of_a_month_show_it(
    true: str, candidate: str, first: datetime
) -> None:
    """The days after a clock change contradict the zone; the other days of the month agree with it."""
    compare_proof([row for row in month(true, first) if row[0].month == first.month], candidate)


def test_a_few_late_rows_alone_in_a_month_do_not_stop_the_right_zone() -> None:
    """Three rows that were received two hours late say nothing about the clock."""
    late = [(datetime(2021, 7, 2, 9, minute), 0) for minute in range(3)]
    zone = ZoneInfo("Europe/Berlin")
    alone = [(moment, micros(moment.replace(tzinfo=zone)) + 7_200_000_000) for moment, _ in late]
    compare_proof(month("Europe/Berlin", datetime(2021, 5, 1)) + alone, "Europe/Berlin")
