"""A Mixpanel raw export of an old project: `time` is New York's wall clock written as if it were UTC.

Two responses of the export API, the second over the night of 7 November 2021, when the clock read 01:00 to
02:00 twice; a few rows of 14 March 2021, when it never read 02:00 to 03:00 (docs/know/exports.md#mixpanel-time-zone).
The receive times (`$mp_api_timestamp_ms`, `mp_processing_time_ms`) are true UTC. The project uses original ID merge, so
`distinct_id` is a cluster's label and `$user_id` the person (docs/know/exports.md#mixpanel-identity).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from sample_data.generator.spelling import hexes, letters, row, spelled, uuid4

ZONE = ZoneInfo("America/New_York")
SEED = 20211107
FIRST = "2021-03-14_2021-11-06.jsonl.gz"
SECOND = "2021-11-07_2021-11-07.jsonl"

CITIES = [
    ("New York", "New York", "US"),
    ("Toronto", "Ontario", "CA"),
    ("São Paulo", "São Paulo", "BR"),
    ("Kraków", "Małopolskie", "PL"),
    ("東京", "東京都", "JP"),
]
PAGES = [("/", "Lumen"), ("/pricing", "Pricing"), ("/docs/start", "Get started"), ("/blog/été", "L’été ☀️")]


@dataclass(frozen=True, slots=True)
class Row:
    """One exported row, the file it stands in, its JSON text, and the instant that is the truth of it."""

    file: str
    record: dict[str, Any]
    text: str
    true: datetime


@dataclass(frozen=True, slots=True)
class Person:
    """A person under original ID merge: `label` is the cluster's distinct_id, `user` the person's own."""

    user: str
    label: str
    device: str
    platform: str
    place: tuple[str, str, str]


def people(seed: int = SEED) -> list[Person]:
    """The people of the project; the same for the same seed."""
    return _people(Random(seed))


def _people(rng: Random) -> list[Person]:
    platforms = ["web", "iphone", "android", "web", "web", "android", "iphone", "web"]
    people = []
    for number, platform in enumerate(platforms):
        device, user = uuid4(rng), str(324172 + 7 * number)
        # Mixpanel picks the label freely: an iOS device id, another device's id, or the user id itself.
        label = {"iphone": device.upper(), "android": uuid4(rng), "web": user}[platform]
        people.append(Person(user, label, device, platform, CITIES[number % len(CITIES)]))
    return people


def _setting(rng: Random, person: Person) -> dict[str, Any]:
    """The properties that the tool's library adds on a platform; types are as unstable as in real rows."""
    city, region, country = person.place
    place = {"$city": city, "$region": region, "mp_country_code": country}
    if person.platform == "web":
        version = rng.choice([95, 94, spelled("95.0"), None])
        return {
            "$browser": rng.choice(["Chrome", "Firefox", "Safari"]),
            "$browser_version": version,
            "$os": rng.choice(["Mac OS X", "Windows", "Linux"]),
            "$screen_height": 900,
            "$screen_width": 1440,
            **place,
            "mp_lib": "web",
            "$lib_version": "2.41.0",
        }
    ios = person.platform == "iphone"
    return {
        "$app_build_number": rng.choice(["5004", 5004]),
        "$app_version_string": "3.12.1",
        "$carrier": "" if ios else "Vivo",
        **place,
        "$manufacturer": "Apple" if ios else "samsung",
        "$model": "iPhone13,1" if ios else "SM-G991B",
        "$os": "iOS" if ios else "Android",
        "$os_version": "15.1" if ios else "12",
        "$screen_height": 812,
        "$screen_width": 375,
        "$wifi": rng.random() < 0.5,
        "mp_lib": "iphone" if ios else "android",
        "$lib_version": "3.9.1" if ios else "5.9.1",
    }


def _event(rng: Random, person: Person) -> tuple[str, dict[str, Any]]:
    if person.platform == "web":
        path, title = rng.choice(PAGES)
        address = "https://lumen.example" + quote(path)
        page = {"$current_url": address + "?ref=a%26b", "$referrer": "https://search.example/?q=lumen"}
        kind = rng.randrange(6)
        if kind < 2:
            seen = {"current_page_title": title, "current_domain": "lumen.example", "current_url_path": path}
            seen |= {"current_url_protocol": "https:", "current_url_search": "?ref=a%26b"}
            return "$mp_web_page_view", page | seen
        if kind == 2:
            return "$mp_click", page | {"$el_text": "Try it 🚀", "$el_tag_name": "button"}
        if kind == 3:
            return "$mp_page_leave", page
        if kind == 4:
            experiment = {"Experiment name": "short-form", "Variant name": rng.choice(["a", "b"])}
            return "$experiment_started", experiment
        return "Purchase", page | {
            "amount": spelled("49.10"),
            "currency": "EUR",
            "company_id": ["acme", "acme-labs"],
        }
    kind = rng.randrange(4)
    if kind == 0:
        return "$mp_page_view", {"$screen_name": rng.choice(["Home", "Übersicht"]), "company_id": "acme"}
    if kind == 1:
        return "$ae_session", {"$ae_session_length": spelled("83.4")}
    if kind == 2:
        return "Lamp Switched", {"on": rng.random() < 0.5, "level": rng.randrange(101), "scene": None}
    return "$ae_updated", {"$ae_updated_version": "3.12.1"}


class _Export:
    """Collects rows while the clock goes on; `add` writes one as the export API would."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.rows: list[Row] = []

    def add(
        self,
        file: str,
        event: str,
        true: datetime,
        properties: dict[str, Any],
        *,
        late: timedelta = timedelta(0),
        sub_second: bool = False,
        keyless: bool = False,
    ) -> Row:
        """Append one row, received `late` after its usual latency of seconds."""
        wall = true.astimezone(ZONE).replace(tzinfo=UTC)
        seconds: Any = int(wall.timestamp())
        if sub_second:
            fraction = self.rng.randrange(1, 1000)
            true = true.replace(microsecond=fraction * 1000)
            seconds = spelled(f"{seconds}.{fraction:03d}")
        received = true + late + timedelta(milliseconds=self.rng.randrange(900, 21_000))
        processed = received + timedelta(milliseconds=self.rng.randrange(200, 2_500))
        full: dict[str, Any] = {"time": seconds}
        full |= {key: value for key, value in properties.items() if key.endswith("distinct_id")}
        if not keyless:
            full["$insert_id"] = hexes(self.rng, 16) if self.rng.random() < 0.6 else letters(self.rng, 36)
        full |= properties
        full |= {
            "$mp_api_endpoint": "api.mixpanel.com",
            "$mp_api_timestamp_ms": _milliseconds(received),
            "mp_processing_time_ms": _milliseconds(processed),
        }
        return self.put(file, {"event": event, "properties": full}, true)

    def put(self, file: str, record: dict[str, Any], true: datetime) -> Row:
        """Append a finished record."""
        text = row(record, ascii_only=self.rng.random() < 0.3)
        self.rows.append(Row(file, record, text, true))
        return self.rows[-1]


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000 + moment.microsecond // 1000


def _ids(person: Person) -> dict[str, Any]:
    ids = {"distinct_id": person.label, "$user_id": person.user, "$device_id": person.device}
    if person.label != person.user:
        ids["$distinct_id_before_identity"] = person.user
    return ids


def rows(seed: int = SEED) -> list[Row]:
    """All rows of both files, in file order, the same for the same seed."""
    rng = Random(seed)
    people = _people(rng)
    export = _Export(rng)
    _spring(export, people)
    _ordinary(export, people, FIRST, datetime(2021, 11, 6, 13, tzinfo=UTC), timedelta(minutes=9), 52)
    _odd(export, people)
    # From 00:50 EDT: some rows before, some in the first 01:00-02:00, some in the second, some after.
    _ordinary(export, people, SECOND, datetime(2021, 11, 7, 4, 50, tzinfo=UTC), timedelta(minutes=5), 32)
    _copies(export)
    return sorted(export.rows, key=lambda made: made.file)


def _spring(export: _Export, people: list[Person]) -> None:
    for moment in (datetime(2021, 3, 14, 6, 59, 41, tzinfo=UTC), datetime(2021, 3, 14, 7, 0, 8, tzinfo=UTC)):
        properties = _ids(people[0]) | {"tier": "free"} | _setting(export.rng, people[0])
        export.add(FIRST, "Signed Up", moment, properties)


def _ordinary(export: _Export, people: list[Person], file: str, start: datetime, step: timedelta, count: int) -> None:
    moment = start
    for _ in range(count):
        moment += step * (0.5 + export.rng.random())
        moment = moment.replace(microsecond=0)
        person = export.rng.choice(people)
        event, own = _event(export.rng, person)
        sub_second = export.rng.random() < 0.15
        properties = _ids(person) | own | _setting(export.rng, person)
        export.add(file, event, moment, properties, sub_second=sub_second)


def _odd(export: _Export, people: list[Person]) -> None:
    """One row for each thing that real exports hold and simple importers lose."""
    noon = datetime(2021, 11, 6, 16, tzinfo=UTC)
    web, iphone, android = people[0], people[1], people[2]

    def add(event: str, minutes: int, properties: dict[str, Any], **how: Any) -> Row:
        return export.add(FIRST, event, noon + timedelta(minutes=minutes), properties, **how)

    add("Lamp Switched", 1, _ids(iphone) | _setting(export.rng, iphone), late=timedelta(hours=7, minutes=12))
    add("Lamp Switched", 2, _ids(android) | _setting(export.rng, android), late=timedelta(hours=20))
    add(
        "Order Imported",
        3,
        {"distinct_id": web.user, "$import": True, "total": spelled("1.10")},
        late=timedelta(9),
    )
    add("$identify", 4, {"distinct_id": "324900", "$identified_id": "324900", "$anon_id": uuid4(export.rng)})
    add("$create_alias", 5, {"distinct_id": "324901", "alias": uuid4(export.rng)})
    add("$merge", 6, {"distinct_id": web.user, "$distinct_ids": [web.user, uuid4(export.rng)]})
    add("Viewed Lamp", 7, {"distinct_id": "undefined", "$device_id": uuid4(export.rng), "lamp": "Aurora"})
    add("Viewed Lamp", 8, {"distinct_id": "null", "$user_id": "324902", "$device_id": uuid4(export.rng)})
    add("Viewed Lamp", 9, {"$device_id": uuid4(export.rng), "lamp": "no distinct_id at all"})
    add("Viewed Lamp", 10, dict.fromkeys(("distinct_id", "$user_id", "$device_id"), "ada@lumen.example"))
    add(
        "Numbers Kept",
        11,
        _ids(web)
        | {
            "big": spelled("9007199254740993"),
            "biggest": spelled("9223372036854775807"),
            "price": spelled("1.10"),
            "minus": spelled("-0.0"),
            "exponent": spelled("1e5"),
            "nothing": None,
            "empty": "",
            "zero": 0,
        },
    )
    add(
        "Text Kept",
        12,
        _ids(web)
        | {
            "emoji": "👩🏽‍🔧 fixed it",
            "quoted": 'a "lamp", a back\\slash, a tab\tand\na line',
            "separator": "one\u2028line",
            "json": '{"kept":"as text"}',
            "properties": "a name of the service's own",
        },
    )
    deep = {"a": {"b": {"c": {"d": {"e": [1, {"f": spelled("2.50")}]}}}}}
    add(
        "Shape Kept",
        13,
        _ids(web) | {"cart": [{"sku": "L-1", "qty": 2}, {"sku": "L-2", "qty": 1}], "deep": deep},
    )
    utm = "google%26utm_medium%3Dcpc%26utm_campaign%3D" + "autumn%2520lights%2520" * 12
    cut = ("https://lumen.example/?utm_source=" + utm)[:255]
    add(
        "$mp_web_page_view",
        14,
        _ids(web) | {"utm_source": utm[:300], "$current_url": cut} | _setting(export.rng, web),
    )
    add("$mp_session_record", 15, _ids(web) | {"replay_id": hexes(export.rng, 16)})
    add("$ae_first_open", 16, _ids(android) | _setting(export.rng, android))
    add("Old Event", 17, {"distinct_id": web.user, "plan": "free"}, keyless=True)
    twin = add("Old Event", 18, {"distinct_id": web.user, "plan": "pro"}, keyless=True)
    export.put(FIRST, twin.record, twin.true)


def _copies(export: _Export) -> None:
    """An exact copy of a row of the other file, and a later, richer version of another."""
    firsts = [made for made in export.rows if made.file == FIRST and made.record["event"] == "Purchase"]
    export.put(SECOND, firsts[0].record, firsts[0].true)
    old = firsts[1].record
    later = dict(old["properties"])
    later["coupon"] = "AUTUMN"
    for clock in ("$mp_api_timestamp_ms", "mp_processing_time_ms"):
        later[clock] += 3_600_000
    export.put(SECOND, {"event": old["event"], "properties": later}, firsts[1].true)
